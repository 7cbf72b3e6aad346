//! The services as generated from `proto/`: for each a trait to implement and a client.

/// Package `si.v1`: [`scheduler_server`] and its kin.
pub mod si {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; what a method does is said in the .proto file"
    )]

    include!(concat!(env!("OUT_DIR"), "/si.v1.rs"));
}

/// Package `callback.v1`.
pub mod callback {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; what a method does is said in the .proto file"
    )]

    include!(concat!(env!("OUT_DIR"), "/callback.v1.rs"));
}

pub use si::{scheduler_client, scheduler_server};

/// Every file of `proto/` in compiled form, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
