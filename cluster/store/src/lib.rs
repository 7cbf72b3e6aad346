//! Stores in which a cluster keeps its records, and the task that runs a member on them.
//!
//! `monoceros-cluster` has the rules as state machines without I/O. This crate carries out
//! their requests: a [`Store`] keeps versioned records in an existing coordination engine, an
//! [`Arbiter`] translates the requests of a member for it, and a [`Driver`] runs the member by the
//! machine's own clock.
//!
//! | store | feature | records |
//! |---|---|---|
//! | `etcd::Etcd` | `etcd` | keys below `/monoceros/{cluster}/` |
//! | `kubernetes::Kubernetes` | `kubernetes` | one config map each, with labels |
//! | `memory::Memory` | `testing` | in memory, with faults on demand |
//!
//! All of them pass the same cases (`conformance`, with the feature `testing`).
//!
//! # Trust
//! Whoever may write to the store decides who serves which RM. Records are read with bounds on
//! their number and size, and one that cannot be understood fails the read with its place: nothing
//! is decided by half of the records.

// Each store uses its part of the common code. With all features nothing is left unused.
#![cfg_attr(
    not(all(feature = "etcd", feature = "kubernetes", feature = "testing")),
    allow(dead_code)
)]

mod arbiter;
mod causes;
mod clock;
mod codec;
#[cfg(feature = "testing")]
pub mod conformance;
mod driver;
#[cfg(feature = "etcd")]
pub mod etcd;
mod groups;
mod hints;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod locked;
#[cfg(feature = "testing")]
pub mod memory;
mod store;
mod view;

pub use crate::arbiter::Arbiter;
pub use crate::clock::{Clock, Gate, boot_time};
pub use crate::driver::{Driver, Handle, Host, Members, Outcome, TimeoutTooLong};
pub use crate::groups::{OfferFailure, OfferOutcome, Offered, pack, unpack};
pub use crate::hints::Hints;
pub use crate::store::{
    BadClusterName, ClusterName, Failure, Kind, Listing, MAX_ID, MAX_RECORDS, Reading, RecordKey,
    Store, Written,
};
pub use crate::view::View;
