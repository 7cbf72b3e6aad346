//! Small clusters in words, and what is planned for them.

mod cluster;
mod exhaustive;
mod histories;
mod more;
mod quotas;
mod required;
mod table;
