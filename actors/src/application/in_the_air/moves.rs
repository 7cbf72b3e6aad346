//! A member of a bundle in the air cannot stay on its node: it gets another one at once, or the
//! whole bundle is taken back. Its mates stay where they are.

use std::sync::Arc;

use monoceros_rules::decide::gang::GangObstacle;
use monoceros_rules::nodes::{NodeRequest, Taken, Wish};
use monoceros_rules::values::ids::{AllocationId, NodeSlot};

use super::super::effects::{Grounded, VisitEffects};
use super::super::{Application, events};
use crate::step::{Baton, NodeWork};

/// Why a member cannot stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    /// Its node refused it, or is presumed to.
    Refused,
    /// Its node takes nothing any more, or has less than it holds.
    Displaced,
    /// Its node is gone, with what it held.
    Stranded(NodeSlot),
}

impl Application {
    /// The member's node refused it, or is presumed to. There is no question about it any more.
    pub(super) fn member_refused(
        &mut self,
        at: usize,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        baton.tally.refused();
        self.move_member(at, Moves::Refused, baton, effects);
    }

    /// The node of a member takes nothing any more, has less than it holds, or is `gone`. The member
    /// may be asked about, or have passed there.
    pub(in crate::application) fn member_displaced(
        &mut self,
        id: AllocationId,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(air) = self.air() else { return };
        let Some(at) = air.members.iter().position(|member| member.id == id) else { return };
        self.move_member(at, gone.map_or(Moves::Displaced, Moves::Stranded), baton, effects);
    }

    fn move_member(
        &mut self,
        at: usize,
        why: Moves,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(air) = self.in_flight.as_deref_mut() else { return };
        let member = &mut air.members[at];
        let Some(entry) = baton.books.allocations.get(member.id) else { return };
        let (before, resources) = (entry.node, entry.resources().clone());
        if why == Moves::Refused {
            member.refused.insert(Arc::clone(baton.books.nodes.id(before)));
        }
        // It does not keep itself away.
        let gone = [member.id];
        let first = |request: NodeRequest<'_>| {
            let request = request.passing_over(&member.refused);
            let wish = request.wish.map(|wish| Wish { gone: &gone, ..wish });
            baton.books.nodes.first(&NodeRequest { wish, ..request })
        };
        let ask = self.book.asks.ask(member.ask);
        let elsewhere = ask.request_elsewhere().and_then(first);
        let Some(node) = elsewhere.or_else(|| first(ask.request())) else {
            return self.find_no_other(at, why, baton, effects);
        };
        if node == before {
            // Mates have left it, and there is room for this one now.
            return;
        }
        self.unask_member(at, baton);
        let Some(air) = self.air() else { return };
        let (id, is_asked) = (air.members[at].id, air.members[at].is_asked);
        if let Some(entry) = baton.books.allocations.get_mut(id) {
            entry.node = node;
            baton.books.nodes.count(id, entry);
        }
        // At once, so that no other member of this visit counts on the same room, and one that goes,
        // too, may have what this one leaves.
        Taken::default().take(&mut baton.books.nodes, node, &resources);
        if !matches!(why, Moves::Stranded(_)) {
            let left = baton.books.nodes.available(before).plus(&resources);
            baton.books.nodes.take_back(before, &left);
            effects.node_work.push((before, NodeWork::Return(id, resources.clone())));
        }
        effects.node_work.push((node, NodeWork::HoldAll(vec![id], resources)));
        if !is_asked {
            // Nobody is asked about it, and no answer rests on it.
            return;
        }
        let Some(air) = self.air() else { return };
        if !air.to_ask.contains(&at) {
            air.to_ask.push_back(at);
        }
        air.mates = None;
        baton.books.unsettled.changed(before);
        baton.books.unsettled.changed(node);
        air.moved_at = baton.books.unsettled.changes();
    }

    /// What was asked about a member, or answered, does not count any more.
    fn unask_member(&mut self, at: usize, baton: &mut Baton) {
        let Some(air) = self.air() else { return };
        air.members[at].forget_pass(baton);
        let id = air.members[at].id;
        let Some(number) = air.open.iter().find(|(_, of)| **of == at).map(|(number, _)| *number)
        else {
            return;
        };
        air.open.remove(&number);
        if let Some(entry) = baton.books.allocations.get_mut(id) {
            entry.answered();
        }
        if baton.books.unsettled.take(number).is_some() {
            baton.question_cancelled(number);
        }
    }

    /// There is no other node for a member.
    fn find_no_other(
        &mut self,
        at: usize,
        why: Moves,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(air) = self.air() else { return };
        let (ask, was_silent) = (air.members[at].ask, air.members[at].was_silent);
        let (grounded, gone) = match why {
            Moves::Refused if was_silent => (Grounded::Unanswered, None),
            Moves::Refused => (Grounded::Refused, None),
            Moves::Displaced => (Grounded::Anew, None),
            Moves::Stranded(node) => (Grounded::Anew, Some(node)),
        };
        if why == Moves::Refused {
            events::tell_refusals(&mut self.book, ask, baton);
            let obstacle = GangObstacle::refused(ask, &self.book.asks);
            if let Some(bundle) = &mut self.bundle {
                bundle.note(obstacle, baton.now_ns);
            }
        }
        self.ground_bundle(grounded, gone, baton, effects);
    }
}
