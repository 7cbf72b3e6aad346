//! What the service does with items and messages that are not as they should be: the table of the
//! scheduler-interface chapter, section 4, over the wire and in every dialect that can say it.
//!
//! Rows (V…) are named in front of their tests. Three clients of three revisions speak to one
//! service: `l` to the stream `Update`, `m` in the older form of asking, `t` in today's.
#![allow(clippy::unwrap_used)]

#[path = "../revisions/client.rs"]
mod client;
#[path = "../harness/mod.rs"]
mod harness;

mod allocations;
mod applications;
mod asks;
mod messages;
mod nodes;
mod partitions;
mod registration;
mod releases;
mod settings;
mod speaker;
mod sums;
