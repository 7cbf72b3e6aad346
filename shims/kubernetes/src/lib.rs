//! Monoceros on Kubernetes: pods become requests, and allocations become bindings.

pub mod act;
pub mod connect;
pub mod engine;
pub mod leader;
pub mod meters;
pub mod mirror;
pub mod objects;
pub mod predicates;
pub mod run;
pub mod shim;
pub mod translate;
