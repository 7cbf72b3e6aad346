//! Bounds over pending asks: an offer skips every queue, application and class that cannot use it.
//!
//! There is no polling and no list of waiting asks. A pending ask stays at its position in the
//! order of its queue and is skipped by a bound: [`WaitSet`] for one ask class or one application,
//! [`Waits`] for a child of a queue. A tree of rows joins the bounds below, so that one comparison
//! skips thousands.
//!
//! # The rule
//! A class that was tried without result is [`Parked`]: it has its least amount and a *mark*, the
//! number of the last loosening or growth that its try has seen. There are two kinds of obstacle,
//! and each has a counter that rises whenever an obstacle of its kind may have become smaller:
//!
//! * **quota** (`short`): a release, a raised maximum, more nodes. Every queue remembers the number
//!   of the last loosening that went through it; an offer carries the largest on its path
//!   ([`View::loosening`]). A class that was short is tried again when that number is above its
//!   mark *and* the least pending amount fits the headroom.
//! * **node capacity** (`roomless`): the node index counts growths. A class that found no node is
//!   tried again when a node that grew after its mark can hold the least pending amount *and* the
//!   headroom allows it.
//!
//! A class that a predicate refused on every node with capacity (`refused`) is a case of the second
//! kind. For it only a true growth counts, and not the return of the amount of a placement in
//! flight: it had that capacity at hand. If returns counted, two refused asks would wake each other
//! for ever.
//!
//! An ask that found no node may reserve one, however full that is. If there was none to reserve
//! either, it also waits for a node that becomes available for that ([`Parked::reserves`]), which
//! counts as a growth. An ask for more than the free capacity of all nodes waits for growths that
//! pass it by, that is, leave too little for it ([`Passed`]). An ask may also be able to use nodes
//! that other asks have reserved ([`Borrows`]).
//!
//! Asks that a limit of a user or group holds back are hidden from the queues above, since these do
//! not know the limit, and their lane is notified when it may have been loosened enough. A limit
//! that many lanes share is an exception: asks that wait for it are shown with the number of that
//! limit ([`Limited`], [`LimitedStarts`]), and an offer checks the limit.
//!
//! A bundle, whose members are placed all at once or not at all, has the number of places that it
//! lacked (`places`). It is tried again when the nodes that grew since have this number of places
//! for the least amount of a member of any such bundle.
//!
//! Any other cure (a new ask, a named node that registers, a deadline) makes the class
//! [`WaitSet::Due`] at once, and `Due` joined with any bound is `Due`.
//!
//! # Phases
//! An offer is made in one [`Phase`] after the other, and asks are pending in each separately: an
//! ask that replaces a placeholder needs no quota, for example. So a row has a bound per phase
//! ([`Waits`]), and the epoch at which it [declined](Declined) last is kept per phase.
//!
//! # Why no ask is forgotten
//! Marks only rise when the class itself was tried, and a join keeps the *oldest* mark and the
//! *least* amount: a bound errs only towards another try. [`Parked::judged`] stops repeated tries
//! without result: the same child is not visited twice while there was no loosening and no growth.
//! The property tests compare every skip with a full search.

mod borrows;
mod bundle;
pub mod obstacle;
mod passed;
mod phases;
#[cfg(test)]
mod tests;
mod view;
mod waits;

pub use borrows::Borrows;
pub use bundle::BundleWaits;
pub use passed::Passed;
pub use phases::{Early, LimitedStarts, Started, Waits};
pub use view::{Declined, Phase, View};
pub use waits::{Limited, Parked, WaitSet};
