//! Invalid items and messages over the wire, in every dialect that can express them. The codes of
//! rejections are listed in `docs/grpc.md`.
//!
//! Three clients of three revisions use one service: `l` the stream `Update`, `m` the older form of
//! asks, `t` the present one.

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
