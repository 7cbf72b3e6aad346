//! What the service does with items and messages that are not as they should be, over the wire and
//! in every dialect that can say it. The codes of rejections are those of `docs/grpc.md`.
//!
//! Three clients of three revisions speak to one service: `l` to the stream `Update`, `m` in the
//! older form of asking, `t` in today's.

mod allocations;
mod applications;
mod asks;
mod messages;
mod nodes;
mod partitions;
mod registration;
mod releases;
mod settings;
pub(crate) mod speaker;
mod sums;
