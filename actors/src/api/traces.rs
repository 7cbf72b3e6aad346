//! Traces of placements: the times of a placement from its request to the notification of its resource
//! manager.
//!
//! # Why not spans
//! A placement passes several actors on two threads, with a few microseconds in each, and most of the
//! time it waits. A span that is open all the time would have to be carried, and looked up in each step.
//! So times are recorded where they are known, in the ask and in the allocation, and reported as one
//! [`PlacementTrace`] when the RM is notified. The receiver may make spans of it.
//!
//! # Cost
//! Without a receiver: one pointer in each ask and allocation, compared with null. With a receiver: a
//! hash of each key, and for each traced placement a few readings of the clock.

use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use monoceros_rules::allocations::course::Course;
use monoceros_rules::specs::arrival::Arrival;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::ids::AllocationId;
use rustc_hash::FxHasher;

use crate::clock::Clock;
use crate::notices::{Allocated, Owner};

/// The tag of an ask with the trace context of its sender, as in
/// <https://www.w3.org/TR/trace-context/>.
pub const TRACEPARENT: &str = "traceparent";

/// The trace of one placement. All times are ns since the epoch, by the scheduler's clock.
#[derive(Clone, Debug)]
pub struct PlacementTrace {
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
    /// The user of the application.
    pub user: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The id of the placement in the log.
    pub placement: String,
    /// Whether it is a placeholder.
    pub is_placeholder: bool,
    /// The trace context of its sender ([`TRACEPARENT`]).
    pub traceparent: Option<String>,
    /// When the request was read.
    pub received_ns: i64,
    /// When the partition accepted the ask, which is pending from then on.
    pub entered_ns: i64,
    /// When the step that placed it began.
    pub offered_ns: i64,
    /// When a node was found and asked.
    pub asked_ns: i64,
    /// When the placement became an allocation.
    pub decided_ns: i64,
    /// Whether the resource manager was asked for its predicate and answered later.
    pub is_asked_rm: bool,
    clock: Clock,
}

impl PlacementTrace {
    /// The present time by the scheduler's clock, and not before [`Self::decided_ns`].
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns().max(self.decided_ns)
    }

    /// A trace with these ids and no times, for tests.
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

/// Receives the traces of placements. Called from the front's thread, before the resource manager is
/// notified of the placement: it must not block.
pub trait TraceSink: Send + Sync + fmt::Debug + 'static {
    /// A traced placement was decided, and its resource manager is notified next.
    fn decided(&self, trace: PlacementTrace);
}

/// The choice of asks that are traced: a random share, in which an ask that is sent again is chosen
/// again, and all asks whose sender traces them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// Asks with at most this hash are traced; `None`: only those of senders that trace them.
    up_to: Option<u64>,
}

impl Sampling {
    /// Traces this share of all asks, from 0 to 1.
    pub(crate) fn of(ratio: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the whole range; beyond its ends it is the ends"
        )]
        let up_to = (ratio * u64::MAX as f64) as u64;
        Self { up_to: (ratio > 0.0).then_some(up_to) }
    }

    /// Whether an ask is traced.
    fn takes(self, rm: &str, key: &str, tags: Option<&Tags>) -> bool {
        if let Some(parent) = tags.and_then(|tags| tags.get(TRACEPARENT)) {
            return is_sampled(parent);
        }
        let Some(up_to) = self.up_to else { return false };
        let mut hasher = FxHasher::default();
        (rm, key).hash(&mut hasher);
        hasher.finish() <= up_to
    }

    /// The arrival of an ask now; `None` unless it is traced.
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

/// Whether the sender of a `traceparent` records the trace: the lowest bit of its flags.
fn is_sampled(traceparent: &str) -> bool {
    let mut parts = traceparent.trim().split('-');
    let flags = parts.nth(3).filter(|flags| flags.len() == 2);
    flags.and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & 1 == 1)
}

/// The receiver of traces.
#[derive(Clone, Debug)]
pub(crate) struct TraceReceiver(pub(crate) Arc<dyn TraceSink>);

impl TraceReceiver {
    /// Reports an allocation, if its placement is traced.
    pub(crate) fn report(
        &self,
        rm_id: &Arc<str>,
        partition: &str,
        allocated: &Allocated,
        clock: Clock,
    ) {
        if let Some(course) = &allocated.course {
            self.0.decided(trace(rm_id, partition, allocated, course, clock));
        }
    }
}

fn trace(
    rm_id: &Arc<str>,
    partition: &str,
    allocated: &Allocated,
    (placement, course): &(AllocationId, Course),
    clock: Clock,
) -> PlacementTrace {
    let Course { arrival, offered_ns, asked_ns, decided_ns, is_asked_rm } = *course;
    let Allocated { owner, spec, uuid, node, .. } = allocated;
    let Owner { application, queue, user, .. } = &**owner;
    let traceparent = spec.tags.as_ref().and_then(|tags| tags.get(TRACEPARENT)).map(str::to_owned);
    PlacementTrace {
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
    fn sampling_takes_the_given_share_and_repeats_itself() {
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
    fn traceparent_of_the_sender_overrides_sampling() {
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
