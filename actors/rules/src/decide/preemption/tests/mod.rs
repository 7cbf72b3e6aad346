//! Small clusters in words, and what is planned for them.

mod cluster;
mod table;
