//! The Monoceros scheduler as an embeddable actor system: no gRPC, no HTTP.
//!
//! Reading order: [`snapshot`].

pub mod snapshot;
