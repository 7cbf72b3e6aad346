//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
//! Reading order: [`grpc`].

pub mod grpc;
