//! The lane of one application: joined with its first ask or allocation, left when nothing of it
//! remains.
//!
//! # Invariant
//! * The application counts as running in its lane exactly while `counts` is set: from its first
//!   usage or reservation on, until nothing is left of it, or until a refund leaves it as it was
//!   before, with nothing.

use std::sync::Arc;

use super::{Joined, LaneId, Trackers};
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;

/// The lane that an application is in.
#[derive(Debug)]
pub struct JoinedLane {
    id: LaneId,
    /// Something limits the user or the group here.
    is_limited: bool,
    /// The application counts among the running ones.
    counts: bool,
}

/// The asks and allocations of an application at the end of a visit.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Remains {
    /// The application has allocations, or placements that wait for an answer.
    pub holds: bool,
    /// The application has pending asks.
    pub waits: bool,
    /// The application has still to start.
    pub is_starting: bool,
    /// The application counts as running.
    pub has_place: bool,
}

impl JoinedLane {
    /// Has an application join the lane of its user and group. Returns the group that it counts for,
    /// too.
    pub fn join(
        trackers: &mut Trackers,
        (user, groups): (&Arc<str>, &[String]),
        application: &Arc<str>,
        leaf: &Arc<str>,
    ) -> (Self, Option<Arc<str>>) {
        let Joined { lane: id, group } = trackers.join(user, groups, application, leaf);
        (Self { id, is_limited: trackers.is_limited(id), counts: false }, group)
    }

    /// The number of the lane.
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// The lane, if something limits the user or the group in it.
    pub fn limited(&self) -> Option<LaneId> {
        self.is_limited.then_some(self.id)
    }

    /// Whether the application counts among the running ones.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Counts the application among the running ones, if it was not counted before.
    pub fn start(&mut self, application: &str, trackers: &mut Trackers) {
        if !std::mem::replace(&mut self.counts, true) {
            trackers.start(self.id, application);
        }
    }

    /// Whether the application is to be counted as running no longer. One that has started stays
    /// counted while it has pending asks.
    pub fn stops(&self, remains: Remains) -> bool {
        self.counts && !remains.holds && (!remains.waits || remains.is_starting)
    }

    /// Ends a visit: charges the change of what the application holds, and counts it as running, or no
    /// longer. A reduction needs the number of its loosening, and so does an application that
    /// [stops](Self::stops).
    pub fn settle(
        &mut self,
        (application, remains): (&str, Remains),
        change: &Resources,
        loosening: Loosening,
        trackers: &mut Trackers,
    ) {
        let stops = self.stops(remains);
        debug_assert!(
            loosening.is_some() || !stops && !change.has_negative(),
            "what frees room for others has a number"
        );
        if !change.is_empty() {
            let loosening = if change.has_negative() { loosening } else { Loosening::NONE };
            trackers.charge(self.id, change, loosening);
        }
        if stops {
            self.counts = false;
            trackers.stop(self.id, application, loosening);
        } else if remains.has_place {
            self.start(application, trackers);
        }
    }

    /// Reviews the lane after a reload of limits. Returns the group that the application counts for
    /// from now on, if it was chosen again.
    pub fn rejoin(
        &mut self,
        (application, groups): (&Arc<str>, &[String]),
        used: &Resources,
        trackers: &mut Trackers,
    ) -> Option<Option<Arc<str>>> {
        let joined = trackers.rejoin(self.id, application, groups, used);
        let group = joined.map(|Joined { lane, group }| {
            self.id = lane;
            group
        });
        self.is_limited = trackers.is_limited(self.id);
        group
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    fn joined(limits: &str) -> (JoinedLane, Trackers) {
        let mut trackers = Trackers::new(&tree(limits));
        let [ann, app, leaf]: [Arc<str>; 3] = ["ann", "app-1", "root.etl"].map(Arc::from);
        let (lane, _) = JoinedLane::join(&mut trackers, (&ann, &[]), &app, &leaf);
        (lane, trackers)
    }

    const HOLDS: Remains =
        Remains { holds: true, waits: false, is_starting: false, has_place: true };
    const NOTHING: Remains = Remains { holds: false, ..HOLDS };

    #[test]
    fn lane_without_limits_is_not_limited() {
        assert!(joined("root.etl user=bob vcore=1").0.limited().is_none());
        assert!(joined("root.etl user=ann vcore=1").0.limited().is_some());
    }

    #[test]
    fn first_usage_counts_the_application_once() {
        let (mut lane, mut trackers) = joined("root.etl user=ann apps=1");
        assert!(trackers.may_start(lane.id()));
        lane.start("app-1", &mut trackers);
        lane.start("app-1", &mut trackers);
        assert!(lane.counts() && !trackers.may_start(lane.id()));
    }

    #[test]
    fn pending_asks_keep_a_started_application_counted() {
        let (mut lane, mut trackers) = joined("root.etl user=ann apps=1");
        lane.start("app-1", &mut trackers);
        let waits = Remains { waits: true, ..NOTHING };
        assert!(!lane.stops(waits));
        assert!(lane.stops(Remains { is_starting: true, ..waits }));
        assert!(lane.stops(NOTHING));
        assert!(!lane.stops(HOLDS));
    }

    #[test]
    fn application_that_ends_gives_its_count_back() {
        let (mut lane, mut trackers) = joined("root.etl user=ann vcore=2 apps=1");
        let one = Resources::of(&[("vcore", 1)]);
        lane.settle(("app-1", HOLDS), &one, Loosening::NONE, &mut trackers);
        assert_eq!(trackers.headroom(lane.id()).to_string(), "map[vcore:1]");
        let loosening = Loosening::NONE.next();
        lane.settle(("app-1", NOTHING), &one.times(-1), loosening, &mut trackers);
        assert!(!lane.counts() && trackers.may_start(lane.id()));
        assert_eq!(trackers.headroom(lane.id()).to_string(), "map[vcore:2]");
    }
}
