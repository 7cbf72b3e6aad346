//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
pub mod rest;
pub mod serve;
pub mod settings;

pub mod cli;
pub mod demo;
pub mod grpc;
<<<<<<< HEAD
pub mod rest;
pub mod serve;
pub mod settings;
=======
pub mod rest;
>>>>>>> rest
pub mod simulate;
pub mod validate;
