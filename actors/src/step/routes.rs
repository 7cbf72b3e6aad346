//! The next stop of the baton: the nodes that a visit concerns, the queues above, home.

use std::sync::Arc;

use super::answering::Answers;
use super::visit::{Climbing, Consequences, NodeWork};
use super::{Baton, QueueSlot};
use crate::application::{Answered, ApplicationMail, Resumed};
use crate::node::{Confirm, NodeMail};
use crate::queue::QueueMail;

impl Baton {
    /// Goes to the next node that a visit concerns, then up the queues, then home. Consequences that
    /// may wait are gathered instead. Otherwise gathered work on nodes is done first, since the work
    /// of this visit may undo it.
    pub(crate) fn follow(mut self: Box<Self>, mut consequences: Consequences) {
        if self.gathered.may_wait(&consequences) {
            self.gather(consequences);
            return self.next_visit();
        }
        if self.gathered.has_holds() {
            self.gathered.begin_holds(Some(consequences));
            return self.hold_gathered();
        }
        while let Some((node, _)) = consequences.node_work.last() {
            if let Some(address) = self.directory.nodes.find(*node).cloned() {
                address.hand(self, NodeMail::Work(Box::new(consequences)));
                return;
            }
            // The node was removed in this step, and its holdings with it.
            consequences.node_work.pop();
        }
        if let Some((application, resume)) = consequences.resume {
            let address = Arc::clone(&self.directory.applications[application].address);
            address.do_send(Resumed { baton: self, resume });
            return;
        }
        match consequences.climbing {
            Some((leaf, climbing)) => self.climb(leaf, climbing),
            None => self.go_home(),
        }
    }

    /// Goes to the node that the next answer concerns. When no answer is left, goes to the
    /// application that the answers are about.
    pub(crate) fn take_answers(self: Box<Self>, mut answers: Answers) {
        if let Some((node, passed)) = answers.next_passed(&self.books) {
            let address = Arc::clone(&self.directory.nodes[node]);
            address.do_send(Confirm { baton: self, passed, answers });
            return;
        }
        let Some(entry) = self.directory.applications.find(answers.application) else {
            debug_assert!(false, "an application stays while a placement of it waits");
            self.go_home();
            return;
        };
        let address = Arc::clone(&entry.address);
        address.do_send(Answered { baton: self, answers: answers.settled });
    }

    /// Goes to the application that is visited next; goes home when none is left, or to have an
    /// effect of the last visit carried out before the next.
    fn next_visit(mut self: Box<Self>) {
        while !self.effects.call_home() {
            let Some((slot, ops)) = self.gathered.visits.pop_front() else { break };
            // The application may have been removed since the visit was planned.
            if let Some(entry) = self.directory.application(slot) {
                let address = Arc::clone(&entry.address);
                return address.hand(self, ApplicationMail::Visit(ops));
            }
        }
        self.go_home();
    }

    /// Gathers the consequences of a visit.
    fn gather(&mut self, consequences: Consequences) {
        for (node, work) in consequences.node_work.into_iter().rev() {
            match work {
                NodeWork::Hold(id, amount) => self.gathered.put_hold(node, id, amount),
                _ => debug_assert!(false, "only holds may wait"),
            }
        }
        if let Some((leaf, climbing)) = consequences.climbing {
            self.gather_climb(leaf, climbing);
        }
    }

    fn gather_climb(&mut self, leaf: QueueSlot, climbing: Climbing) {
        self.books.allocated.add(&climbing.delta.allocated);
        self.gathered.put(leaf, climbing);
    }

    /// Carries out everything that was gathered, then goes home.
    pub(crate) fn carry_out_gathered(mut self: Box<Self>) {
        if self.gathered.has_holds() {
            self.gathered.begin_holds(None);
        }
        self.hold_gathered();
    }

    /// Goes to the next node that has gathered amounts to hold. When none is left, goes on with the
    /// consequences that waited for that, or with the gathered changes of queues.
    pub(crate) fn hold_gathered(mut self: Box<Self>) {
        while let Some(node) = self.gathered.next_node() {
            if let Some(address) = self.directory.nodes.find(node).cloned() {
                return address.hand(self, NodeMail::Gathered);
            }
            debug_assert!(false, "a node is removed after it holds what was gathered");
            while self.gathered.next_hold(node).is_some() {}
        }
        match self.gathered.take_then() {
            Some(consequences) => self.follow(consequences),
            None => self.climb_gathered(),
        }
    }

    /// Gathers a change if another visit follows and the order stays as it is. Otherwise the change
    /// climbs, after all gathered changes: if an application was visited twice, the second change
    /// may undo the first.
    fn climb(mut self: Box<Self>, leaf: QueueSlot, climbing: Climbing) {
        if self.gathered.goes_on() && climbing.is_quiet() {
            self.gather_climb(leaf, climbing);
            self.next_visit();
        } else if self.gathered.has_climbs() {
            self.gathered.put(leaf, climbing);
            self.climb_gathered();
        } else {
            self.climb_from(leaf, climbing);
        }
    }

    /// Has the next gathered change climb; goes home when none is left.
    pub(crate) fn climb_gathered(mut self: Box<Self>) {
        match self.gathered.next() {
            Some((leaf, climbing)) => self.climb_from(leaf, climbing),
            None => self.go_home(),
        }
    }

    fn climb_from(self: Box<Self>, leaf: QueueSlot, climbing: Climbing) {
        let address = Arc::clone(&self.directory.queue(leaf).address);
        address.hand(self, QueueMail::Climb(climbing));
    }
}
