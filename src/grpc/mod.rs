//! The gRPC edge: the service `si.v1.Scheduler` in front of the embedding API.

pub mod stubs;
