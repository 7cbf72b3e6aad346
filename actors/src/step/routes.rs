//! The next stop of the baton: the nodes that a visit concerns, the queues above, home.

use std::sync::Arc;

use super::answering::Answers;
use super::visit::{Climbing, Consequences};
use super::{Baton, QueueSlot};
use crate::application::{Answered, Resumed};
use crate::node::{Confirm, NodeMail};
use crate::queue::QueueMail;

impl Baton {
    /// Goes to the next node that a visit concerns, then up the queues, then home.
    pub(crate) fn follow(self: Box<Self>, mut consequences: Consequences) {
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

    /// Gathers a change if another visit follows and the order stays as it is. Otherwise the change
    /// climbs, after all gathered changes: if an application was visited twice, the second change
    /// may undo the first.
    fn climb(mut self: Box<Self>, leaf: QueueSlot, climbing: Climbing) {
        if self.gathered.goes_on && climbing.is_quiet() {
            self.books.allocated.add(&climbing.delta.allocated);
            self.gathered.put(leaf, climbing);
            self.go_home();
        } else if self.gathered.is_empty() {
            self.climb_from(leaf, climbing);
        } else {
            self.gathered.put(leaf, climbing);
            self.climb_gathered();
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
