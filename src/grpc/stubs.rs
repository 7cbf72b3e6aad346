//! The services as generated from `proto/`: for each a trait to implement and a client. Streams of the
//! server send replies of which a part is [bytes already](super::encoded), where the client reads
//! messages: hence two folders. They have the names of our own packages; `aliases` has the other
//! paths by which they are reached.

/// Package `monoceros.si.v1`: [`scheduler_server`] and its kin.
pub mod si {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; what a method does is said in the .proto file"
    )]

    include!(concat!(env!("OUT_DIR"), "/client/monoceros.si.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/server/monoceros.si.v1.rs"));
}

/// Package `monoceros.v1`: for operators, for metrics, and the stream of callbacks.
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

/// Every file of `proto/` in compiled form, and the other names of the services, for server
/// reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
