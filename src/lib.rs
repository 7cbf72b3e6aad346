//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
//! Reading order: [`grpc`], [`simulate`].

pub mod grpc;
pub mod simulate;
