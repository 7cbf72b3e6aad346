//! Tests plans for small clusters.

mod cluster;
mod exhaustive;
mod histories;
mod more;
mod quotas;
mod required;
mod table;
