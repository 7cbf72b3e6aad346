//! Placements that are followed on their way: from the request to what its resource manager is told.
//!
//! # Why not spans
//! A placement passes several actors on two threads, a few microseconds in each, and most of its way is
//! waiting. A span that is open all the while would be a thing to carry, and to look up with each step.
//! So the times are noted where they are known, in the ask and in the allocation, and handed over as one
//! value when the placement is told. Who makes spans of it is not the scheduler's concern.
//!
//! # What it costs
//! Without anybody who wants to know: one pointer in each ask and allocation, which is compared with
//! nothing. With somebody, a hash of each key; and for those that are followed a few readings of the
//! clock.

use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use monoceros_rules::allocations::journey::Course;
use monoceros_rules::specs::arrival::Arrival;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::ids::AllocationId;
use rustc_hash::FxHasher;

use crate::clock::Clock;
use crate::step::{Allocated, Notice, Owner};

/// The tag of an ask by which its sender says what it is part of, as in
/// <https://www.w3.org/TR/trace-context/>.
pub const TRACEPARENT: &str = "traceparent";

/// The way of one placement. All times are ns since the epoch, by the scheduler's clock.
#[derive(Clone, Debug)]
pub struct Journey {
    /// The resource manager.
    pub rm_id: Arc<str>,
    /// The partition, with the prefix of the resource manager.
    pub partition: Arc<str>,
    /// The application.
    pub application: Arc<str>,
    /// The key of the ask.
    pub allocation_key: Arc<str>,
    /// The id of the allocation within its application.
    pub allocation_id: Arc<str>,
    /// The path of the leaf.
    pub queue: Arc<str>,
    /// Who uses it.
    pub user: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The id by which the log follows the placement.
    pub placement: String,
    /// It keeps a place for another.
    pub is_placeholder: bool,
    /// What its sender said that it is part of ([`TRACEPARENT`]).
    pub traceparent: Option<String>,
    /// The request was read.
    pub received_ns: i64,
    /// The partition took the ask in, and it began to wait.
    pub entered_ns: i64,
    /// The partition began to look for the best ask.
    pub offered_ns: i64,
    /// A node was found and asked.
    pub asked_ns: i64,
    /// The placement became an allocation.
    pub decided_ns: i64,
    /// The resource manager was asked whether the node will do, and answered later.
    pub is_asked_rm: bool,
    clock: Clock,
}

impl Journey {
    /// Now, by the clock of its times.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns().max(self.decided_ns)
    }

    /// One of which nothing else is known, for tests.
    #[doc(hidden)]
    pub fn fixture(rm_id: &str, application: &str, allocation_key: &str) -> Self {
        let empty = || Arc::from("");
        Self {
            rm_id: Arc::from(rm_id),
            partition: empty(),
            application: Arc::from(application),
            allocation_key: Arc::from(allocation_key),
            allocation_id: empty(),
            queue: empty(),
            user: empty(),
            node: empty(),
            placement: String::new(),
            is_placeholder: false,
            traceparent: None,
            received_ns: 0,
            entered_ns: 0,
            offered_ns: 0,
            asked_ns: 0,
            decided_ns: 0,
            is_asked_rm: false,
            clock: Clock::new(0),
        }
    }
}

/// Who is told of placements that are followed. Called from the front's thread, before the resource
/// manager is told of them: it must not block.
pub trait Journeys: Send + Sync + fmt::Debug + 'static {
    /// A placement is decided, and its resource manager will be told next.
    fn decided(&self, journey: Journey);
}

/// Which asks are followed: by chance, though the same one each time that it is sent, and all whose sender
/// says that it follows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// Asks with a hash of at most so much are.
    up_to: Option<u64>,
}

impl Sampling {
    /// So many of all asks, from 0 to 1.
    pub(crate) fn of(ratio: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the whole range; beyond its ends it is the ends"
        )]
        let up_to = (ratio * u64::MAX as f64) as u64;
        Self { up_to: (ratio > 0.0).then_some(up_to) }
    }

    /// Whether an ask is followed.
    fn takes(self, rm: &str, key: &str, tags: Option<&Tags>) -> bool {
        if let Some(parent) = tags.and_then(|tags| tags.get(TRACEPARENT)) {
            return is_sampled(parent);
        }
        let Some(up_to) = self.up_to else { return false };
        let mut hasher = FxHasher::default();
        (rm, key).hash(&mut hasher);
        hasher.finish() <= up_to
    }

    /// What is noted of an ask that arrives now, if it is followed.
    pub(crate) fn arrival(
        self,
        rm: &str,
        key: &str,
        tags: Option<&Tags>,
        clock: Clock,
    ) -> Option<Box<Arrival>> {
        self.takes(rm, key, tags).then(|| Box::new(Arrival::at(clock.now_ns())))
    }
}

/// Whether the sender of a `traceparent` follows what it is part of: the lowest bit of its flags.
fn is_sampled(traceparent: &str) -> bool {
    let mut parts = traceparent.trim().split('-');
    let flags = parts.nth(3).filter(|flags| flags.len() == 2);
    flags.and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & 1 == 1)
}

/// Who is told of the placements that are followed.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    pub(crate) told: Arc<dyn Journeys>,
}

impl Following {
    /// Tells of the placements among these notices that are followed.
    pub(crate) fn tell(&self, rm_id: &Arc<str>, partition: &str, notices: &[Notice], clock: Clock) {
        for notice in notices {
            if let Notice::Allocated(allocated) = notice
                && let Some(course) = &allocated.course
            {
                self.told.decided(journey(rm_id, partition, allocated, course, clock));
            }
        }
    }
}

fn journey(
    rm_id: &Arc<str>,
    partition: &str,
    allocated: &Allocated,
    (placement, course): &(AllocationId, Course),
    clock: Clock,
) -> Journey {
    let Course { arrival, offered_ns, asked_ns, decided_ns, is_asked_rm } = *course;
    let Allocated { owner, spec, uuid, node, .. } = allocated;
    let Owner { application, queue, user, .. } = &**owner;
    let traceparent = spec.tags.as_ref().and_then(|tags| tags.get(TRACEPARENT)).map(str::to_owned);
    Journey {
        rm_id: Arc::clone(rm_id),
        partition: Arc::from(partition),
        application: Arc::clone(application),
        allocation_key: Arc::clone(&spec.key),
        allocation_id: Arc::clone(uuid),
        queue: Arc::clone(queue),
        user: Arc::clone(user),
        node: Arc::clone(node),
        placement: placement.to_string(),
        is_placeholder: spec.placeholder,
        traceparent,
        received_ns: arrival.received_ns,
        entered_ns: arrival.entered_ns,
        offered_ns,
        asked_ns,
        decided_ns,
        is_asked_rm,
        clock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_asks_are_followed_as_was_said_and_the_same_each_time() {
        let taken = |ratio, rm: &str| {
            let sampling = Sampling::of(ratio);
            let keys = (0..10_000).map(|n| format!("key-{n}"));
            keys.filter(|key| sampling.takes(rm, key, None)).collect::<Vec<_>>()
        };
        assert_eq!((taken(0.0, "rm").len(), taken(1.0, "rm").len()), (0, 10_000));
        let some = taken(0.1, "rm");
        assert!((800..1_200).contains(&some.len()), "{}", some.len());
        assert_eq!(taken(0.1, "rm"), some);
        assert_ne!(taken(0.1, "other"), some);
    }

    #[test]
    fn what_the_sender_says_counts_more_than_chance() {
        let taken = |ratio, parent: &str| {
            let tag = (TRACEPARENT.to_owned(), parent.to_owned());
            let tags = Tags::new([tag].into());
            Sampling::of(ratio).takes("rm", "key", Some(&tags))
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for (flags, is_taken) in
            [("01", true), ("03", true), ("00", false), ("zz", false), ("1", false)]
        {
            for ratio in [0.0, 1.0] {
                assert_eq!(
                    taken(ratio, &format!("00-{trace}-{span}-{flags}")),
                    is_taken,
                    "{flags}"
                );
            }
        }
        assert!(!taken(1.0, "no such thing"));
    }
}
