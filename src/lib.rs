//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
//! Reading order: [`grpc`], [`rest`].

pub mod grpc;
pub mod rest;
