//! Bounds over pending asks: an offer skips every queue, application and class that cannot use it.
//!
//! There is no polling and no list of sleepers. An ask that waits stays where it is in the order
//! of its queue and is skipped by a bound: [`WaitSet`] for one ask class or one application,
//! [`Waits`] for a child of a queue. A tree of rows joins the bounds of what is below, so that one
//! comparison skips thousands.
//!
//! # The rule
//! A class that was tried without result is [`Parked`]: it says what it wants at least and up to which
//! *loosening* it was tried. There are two kinds of obstacle, and each has a counter that rises
//! whenever an obstacle of its kind may have become smaller:
//!
//! * **quota** (`short`): a release, a raised maximum, more nodes. Every queue remembers the number
//!   of the last loosening that went through it; an offer carries the largest on its path
//!   ([`View::loosening`]). A class that was short is looked at again when that is above its mark
//!   *and* the least that waits fits the headroom.
//! * **node room** (`roomless`): the node index counts growths. A class that found no node is
//!   looked at again when a node that grew after its mark can hold the least that waits *and* the
//!   headroom allows it.
//!
//! A class that a predicate refused on every node with room (`refused`) is a case of the second
//! kind for which only a true growth counts, not the return of what a placement in the air held: it
//! had such room in hand. If returns counted, two refused asks would wake each other for ever.
//!
//! An ask that found no node may reserve one, whatever that has free. Where there was none to
//! reserve either, it also waits for a node that comes to be there for that ([`Parked::reserves`]),
//! which counts as a growth. One that wants more than all nodes have left waits for growths that
//! pass it by ([`Passed`]). It may also come to use what others have reserved ([`Borrows`]).
//!
//! What a limit of a user or group holds back is hidden from the queues above, since they know
//! nothing of it, and its lane is told when that may have changed. A limit that many lanes share is
//! an exception: what waits for it is shown with the number of that limit ([`Limited`],
//! [`LimitedStarts`]), and an offer asks the limit.
//!
//! A bundle, whose members find places all at once or none of them, says how many places it lacked
//! (`places`). It is looked at again when nodes that grew since have that many for the least that
//! any such bundle wants for a member.
//!
//! Everything else that may cure a cause (a new ask, a named node appearing, a deadline) makes the
//! class [`WaitSet::Due`] outright, and `Due` swallows whatever it is joined with.
//!
//! # Phases
//! An offer is made in one [`Phase`] after the other, and something waits in each for itself: what
//! takes the place of a placeholder needs no quota, for example. So a row has a bound per phase
//! ([`Waits`]), and where it was [declined](Declined) last is noted per phase.
//!
//! # Why no ask is forgotten
//! Marks only move forward when the class itself was tried, and a join keeps the *oldest* mark and
//! the *least* want: a bound errs only towards looking again. What is looked at without result once too
//! often is stopped by [`Parked::judged`]: the same child is not visited twice while nothing at all
//! was loosened. The property tests compare every skip with a full search.

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
