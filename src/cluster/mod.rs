//! Membership in a cluster: several processes as one scheduler, each resource manager served by one
//! of them.
//!
//! The rules are in `monoceros-cluster`, their driver and the stores in `monoceros-cluster-store`.
//! This module connects a driver with the service: a registration waits for its claim, a lost claim
//! ends its session, and each hand-over of answers to a stream checks the gate first.
//!
//! # Invariants
//! * Without an arbiter there is no task, no socket and no allocation more than without this
//!   module.
//! * A session has ended before the driver goes on with anything else.
//! * A registration that was sent to the driver gets exactly one answer, also when the driver ends.
//!
//! Reading order: `member` (start and end), `membership` (registrations and claims), `host` (what
//! the driver asks of the service), `listener`, `link` and `peers` (connections between members),
//! `tls` (their encryption), `notices` (to former owners), `routing` and `spreading` (the member for
//! a call and for a new resource manager), `lookup` (reads of claims for calls), `suspicion`
//! (owners that clients take for lost), `groups`, `defaults`, `shared_read`, `settling` and
//! `sharing` (configurations of policy groups), `identity` (the id), `store` (the arbiter), `operations`,
//! `operating` and `moving` (calls of operators), `waiters` (callers that wait for the driver), `operator` and
//! `observer` (state, counts and events for operators).

#[cfg(not(feature = "cluster"))]
mod absent;
#[cfg(feature = "cluster")]
mod defaults;
#[cfg(feature = "cluster")]
mod groups;
#[cfg(feature = "cluster")]
mod host;
#[cfg(feature = "cluster")]
mod identity;
#[cfg(feature = "cluster")]
mod link;
#[cfg(feature = "cluster")]
mod listener;
#[cfg(feature = "cluster")]
mod lookup;
#[cfg(feature = "cluster")]
mod member;
#[cfg(feature = "cluster")]
mod membership;
#[cfg(feature = "cluster")]
mod moving;
#[cfg(feature = "cluster")]
mod notices;
#[cfg(feature = "cluster")]
mod observer;
#[cfg(feature = "cluster")]
mod operating;
pub mod operations;
#[cfg(feature = "cluster")]
mod operator;
#[cfg(feature = "cluster")]
pub mod peers;
#[cfg(feature = "cluster")]
mod routing;
#[cfg(feature = "cluster")]
mod settling;
#[cfg(feature = "cluster")]
mod shared_read;
#[cfg(feature = "cluster")]
mod sharing;
#[cfg(feature = "cluster")]
mod spreading;
#[cfg(feature = "cluster")]
mod store;
#[cfg(feature = "cluster")]
mod suspicion;
#[cfg(all(test, feature = "cluster"))]
mod tests;
#[cfg(feature = "cluster")]
mod tls;
#[cfg(feature = "cluster")]
mod unserved;
#[cfg(feature = "cluster")]
mod waiters;

use std::net::SocketAddr;

#[cfg(not(feature = "cluster"))]
pub use self::absent::{Member, MemberListener};
#[cfg(feature = "cluster")]
pub use self::listener::MemberListener;
#[cfg(feature = "cluster")]
pub use self::member::Member;

/// Addresses that this process listens on.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// The gRPC edge.
    pub grpc: SocketAddr,
    /// The REST edge.
    pub rest: SocketAddr,
    /// The listener for other members. `None` without a cluster.
    pub internal: Option<SocketAddr>,
}

/// Why the member of this process ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEnd {
    /// Another process has the id of the member.
    IdInUse,
    /// The member's task was lost.
    Lost,
}
