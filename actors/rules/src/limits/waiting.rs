//! Lanes that wait for a limit of a user or group, and the search for lanes that may continue when
//! it is loosened.
//!
//! # How
//! Each entry of a tracker keeps a lower bound of the asks that are held back there and below.
//! Every change that frees room marks the highest limited entry on its way; an entry that is not
//! below it has no more headroom than before. Once per step the marked entries are checked from the
//! top. If a limit does not let even the bound pass, nothing below it is checked. So a burst of
//! releases costs one check, and a release that helps no lane costs a comparison.
//!
//! A bound is only lowered when more is held back; it is computed again after all entries below it
//! were checked. So a bound may be lower than the waiting asks, which costs one check without
//! result. It must never be higher, since a lane would then be forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::{LaneId, PlaceId};
use super::lanes::HeldBack;
use super::trackers::Trackers;

impl Trackers {
    /// Records what a lane holds back, so that its leaf is notified when that may continue. Does
    /// nothing for a lane that was closed.
    pub fn hold_back(&mut self, lane: LaneId, held_back: HeldBack) {
        let Some(slot) = self.lanes.find_mut(lane) else { return };
        if slot.held_back == held_back {
            return;
        }
        let is_any = held_back.is_any();
        for end in slot.ends() {
            if is_any {
                self.forest.change(end, |place| place.bound.include(&held_back));
                self.forest.get_mut(end).waiting.insert(lane);
            } else {
                self.forest.get_mut(end).waiting.remove(&lane);
            }
        }
        slot.held_back = held_back;
    }

    /// Returns the lanes, by leaf, that may try again because their user or group was loosened far
    /// enough. Called at the end of a step that loosened a limit, so that room which the step
    /// itself used again does not count.
    pub fn take_reopened(&mut self) -> BTreeMap<Arc<str>, Vec<LaneId>> {
        let mut reopened = BTreeMap::new();
        while let Some(place) = self.forest.take_marked() {
            self.look(place, &mut reopened);
        }
        for lanes in reopened.values_mut() {
            // A lane may be found twice, by its user and by its group.
            lanes.sort_unstable();
            lanes.dedup();
        }
        reopened
    }

    /// Adds the lanes at an entry and below that may continue.
    fn look(&mut self, at: PlaceId, reopened: &mut BTreeMap<Arc<str>, Vec<LaneId>>) {
        let place = self.forest.get(at);
        if !place.may_let_on() {
            return;
        }
        let mut bound = HeldBack::default();
        let mut here = Vec::new();
        for lane in &place.waiting {
            bound.include(&self.lanes.get(*lane).held_back);
            if self.may_go_on(*lane) {
                here.push(*lane);
            }
        }
        if !here.is_empty() {
            // Lanes that end at an entry are in the leaf with its path.
            reopened.entry(Arc::clone(&place.path)).or_default().append(&mut here);
        }
        let below: Vec<PlaceId> = place.below.values().copied().collect();
        for below in below {
            self.look(below, reopened);
            bound.include(&self.forest.get(below).bound);
        }
        self.forest.get_mut(at).bound = bound;
    }

    /// Whether an ask or a start that the lane holds back may be tried.
    fn may_go_on(&self, id: LaneId) -> bool {
        let HeldBack { short, starting } = &self.lanes.get(id).held_back;
        let fits = short.as_ref().is_some_and(|least| self.headroom(id).allows(least));
        fits || (*starting && self.may_start(id))
    }
}
