//! The service `si.v1.Scheduler` as generated from `proto/si/si_service.proto`: a trait to
//! implement ([`scheduler_server`]) and a client ([`scheduler_client`]).
#![allow(
    missing_docs,
    clippy::pedantic,
    reason = "generated; what a method does is said in the .proto file"
)]

include!(concat!(env!("OUT_DIR"), "/si.v1.rs"));
