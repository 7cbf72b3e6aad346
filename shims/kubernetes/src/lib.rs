//! Kubernetes shim of Monoceros: sends pods as asks to the scheduler, and binds the pods that it
//! places.

pub mod act;
pub mod catch_up;
pub mod connect;
pub mod engine;
pub mod fork;
pub mod leader;
pub mod meters;
pub mod mirror;
pub mod objects;
pub mod predicates;
pub mod run;
pub mod shim;
pub mod translate;
