//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
//! Reading order: [`grpc`], [`rest`], [`simulate`].

pub mod grpc;
pub mod rest;
pub mod simulate;
