//! Code generated from `proto/`: a server trait and a client for each service.
//!
//! Servers and clients are generated separately, into two folders, because a server stream sends
//! [partly encoded replies](super::encoded) and the client reads plain messages. The generated
//! services are named after our own packages; module `aliases` also serves the scheduler under the
//! published service name.

/// Package `monoceros.si.v1`: [`scheduler_server`] and its client.
pub mod si {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; what a method does is said in the .proto file"
    )]

    include!(concat!(env!("OUT_DIR"), "/client/monoceros.si.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/server/monoceros.si.v1.rs"));
}

/// Package `monoceros.v1`: the services for operators, metrics and callbacks.
pub mod v1 {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; what a method does is said in the .proto file"
    )]

    include!(concat!(env!("OUT_DIR"), "/client/monoceros.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/server/monoceros.v1.rs"));
}

pub use si::{scheduler_client, scheduler_server};

/// The compiled descriptors of `proto/` and of the published service name, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
