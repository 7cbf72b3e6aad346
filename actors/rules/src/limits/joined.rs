//! The lane of one application: joined with its first ask or allocation, left once it has neither.
//!
//! # Invariant
//! * The application counts as running in its lane exactly while `counts` is set: from its first
//!   usage or reservation on, until it has neither asks nor allocations. If it has still to start,
//!   it also stops counting when a refund leaves it without usage.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Joined, LaneId, Trackers};
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;

/// The membership of an application in a lane: `None` while it has neither asks nor allocations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Membership(Option<JoinedLane>);

/// The lane of an application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinedLane {
    id: LaneId,
    /// Whether a limit of the user or the group applies in the lane.
    is_limited: bool,
    /// Whether the application counts as running.
    counts: bool,
}

/// The asks and allocations that an application has left at the end of a visit.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Remains {
    /// Whether it has allocations, or placements that wait for an answer.
    pub holds: bool,
    /// Whether it has pending asks.
    pub waits: bool,
    /// Whether it has still to start.
    pub is_starting: bool,
    /// Whether it counts as running.
    pub has_place: bool,
}

impl Remains {
    /// Whether the application has neither asks nor allocations.
    pub fn is_nothing(self) -> bool {
        !self.holds && !self.waits
    }
}

impl Membership {
    /// Returns the lane, if the application is in one.
    pub fn lane(&self) -> Option<&JoinedLane> {
        self.0.as_ref()
    }

    /// Returns the lane, if a limit of the user or the group applies in it.
    pub fn limited(&self) -> Option<LaneId> {
        self.0.as_ref()?.limited()
    }

    /// Adds an application with its first ask or allocation to the lane of its user and group.
    /// Returns the group that it counts for from now on, if there is one; `None` also if it was
    /// already in a lane.
    pub fn join(
        &mut self,
        trackers: &mut Trackers,
        submitter: (&Arc<str>, &[String]),
        application: &Arc<str>,
        leaf: &Arc<str>,
    ) -> Option<Arc<str>> {
        if self.0.is_some() {
            return None;
        }
        let (lane, group) = JoinedLane::join(trackers, submitter, application, leaf);
        self.0 = Some(lane);
        group
    }

    /// Charges a placement that is booked, or waits for its predicate, and counts the application
    /// as running.
    pub fn charge(&mut self, application: &str, resources: &Resources, trackers: &mut Trackers) {
        let lane = self.joined();
        trackers.charge(lane.id, resources, Loosening::NONE);
        lane.start(application, trackers);
    }

    /// Counts the application as running for its user and group: an ask of it is placed, or has
    /// reserved a node.
    pub fn start(&mut self, application: &str, trackers: &mut Trackers) {
        self.joined().start(application, trackers);
    }

    /// Ends a visit: charges the change of the application's usage, counts it as running or no
    /// longer, and removes it from the lane if it has neither asks nor allocations. Returns whether
    /// it was removed. The visit needs the number of a loosening if it [loosens](Self::loosens).
    pub fn end_visit(
        &mut self,
        (application, remains): (&str, Remains),
        change: &Resources,
        loosening: Loosening,
        trackers: &mut Trackers,
    ) -> bool {
        let Some(lane) = &mut self.0 else {
            debug_assert!(remains.is_nothing(), "an application that asks or holds is in a lane");
            return false;
        };
        lane.settle((application, remains), change, loosening, trackers);
        if !remains.is_nothing() {
            return false;
        }
        trackers.leave(lane.id, application);
        self.0 = None;
        true
    }

    /// Whether the end of a visit frees headroom of the user or the group, so that it needs the
    /// number of a loosening.
    pub fn loosens(&self, remains: Remains, change: &Resources) -> bool {
        self.0.as_ref().is_some_and(|lane| lane.stops(remains) || change.has_negative())
    }

    /// Updates the lane after a reload of limits. Returns the group that the application counts for
    /// from now on, if it was chosen again.
    pub fn rejoin(
        &mut self,
        (application, groups): (&Arc<str>, &[String]),
        used: &Resources,
        trackers: &mut Trackers,
    ) -> Option<Option<Arc<str>>> {
        let lane = self.0.as_mut()?;
        let joined = trackers.rejoin(lane.id, application, groups, used);
        let group = joined.map(|Joined { lane: id, group }| {
            lane.id = id;
            group
        });
        lane.is_limited = trackers.is_limited(lane.id);
        group
    }

    fn joined(&mut self) -> &mut JoinedLane {
        self.0.as_mut().expect("an application that asks is in a lane")
    }
}

impl JoinedLane {
    fn join(
        trackers: &mut Trackers,
        (user, groups): (&Arc<str>, &[String]),
        application: &Arc<str>,
        leaf: &Arc<str>,
    ) -> (Self, Option<Arc<str>>) {
        let Joined { lane: id, group } = trackers.join(user, groups, application, leaf);
        (Self { id, is_limited: trackers.is_limited(id), counts: false }, group)
    }

    /// Returns the id of the lane.
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// Returns the lane, if a limit of the user or the group applies in it.
    fn limited(&self) -> Option<LaneId> {
        self.is_limited.then_some(self.id)
    }

    /// Whether the application counts as running.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Counts the application as running, if it was not counted before.
    fn start(&mut self, application: &str, trackers: &mut Trackers) {
        if !std::mem::replace(&mut self.counts, true) {
            trackers.start(self.id, application);
        }
    }

    /// Whether the application counts as running and no longer should. An application that has
    /// started keeps counting while it has pending asks.
    fn stops(&self, remains: Remains) -> bool {
        self.counts && !remains.holds && (!remains.waits || remains.is_starting)
    }

    /// Ends a visit: charges the change of the application's usage, and counts it as running, or no
    /// longer. A reduction needs the number of its loosening, and so does an application that
    /// [stops](Self::stops).
    fn settle(
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

    #[test]
    fn application_leaves_its_lane_when_nothing_remains() {
        let mut trackers = Trackers::new(&tree("root.etl user=ann apps=1"));
        let [ann, app, leaf]: [Arc<str>; 3] = ["ann", "app-1", "root.etl"].map(Arc::from);
        let mut membership = Membership::default();
        assert!(membership.join(&mut trackers, (&ann, &[]), &app, &leaf).is_none());
        membership.start(&app, &mut trackers);
        let (lane, loosening) = (membership.limited().unwrap(), Loosening::NONE.next());
        let none = Resources::new();
        assert!(!membership.loosens(HOLDS, &none) && membership.loosens(NOTHING, &none));
        assert!(!membership.end_visit((&app, HOLDS), &none, loosening, &mut trackers));
        assert!(!trackers.may_start(lane));
        assert!(membership.end_visit((&app, NOTHING), &none, loosening, &mut trackers));
        assert!(membership.lane().is_none());
    }
}
