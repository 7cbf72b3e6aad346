//! The gRPC clients generated from `proto/`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    reason = "generated; what a method does is said in the .proto file"
)]

/// Package `monoceros.si.v1`.
pub mod si {
    include!(concat!(env!("OUT_DIR"), "/monoceros.si.v1.rs"));
}

/// Package `monoceros.v1`.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/monoceros.v1.rs"));
}
