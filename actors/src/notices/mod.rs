//! Contents of the notifications of a resource manager: allocations, releases, states of
//! applications, and requests that more machines would help.
//!
//! # Why a module of its own
//! The same values are read by three modules: the session makes the interface's messages of them,
//! [`events`](crate::events) keeps them as the events that they stand for, and an RM in this
//! process reads them without a message ([`AllocationNotices`](crate::AllocationNotices)). They are
//! plain data and know none of those modules.

mod allocations;
mod amounts;
mod applications;
mod scale_up;

pub(crate) use allocations::{
    Allocated, AskReleased, Ending, Owner, RELEASED_BY_RM, Released, Successor,
};
pub(crate) use amounts::{amount, write_amount};
pub(crate) use applications::Entered;
pub(crate) use scale_up::{ScaleUpRequests, UnplacedRequest};
