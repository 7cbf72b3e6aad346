//! Monoceros on Kubernetes: pods become requests, and allocations become bindings.

pub mod objects;
pub mod predicates;
pub mod translate;
