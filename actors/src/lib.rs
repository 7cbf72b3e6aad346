//! The Monoceros scheduler as an embeddable actor system: no gRPC, no HTTP.
//!
//! Reading order: [`snapshot`], [`metrics`].

pub mod metrics;
pub mod snapshot;
