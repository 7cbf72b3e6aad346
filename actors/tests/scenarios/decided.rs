//! Compares notifications with the kept decisions: each allocation that was decided and each
//! eviction is exactly one decision, in the order of the notifications, and numbers have no gaps.

use std::collections::BTreeSet;

use monoceros_actors::snapshot::DecisionSnapshot;
use monoceros_proto::si::v1 as si;

use crate::recording_callback::Notification;
use crate::script::Item;

/// An application and a key.
type Whose = (String, String);

/// Notifications of a resource manager since the last comparison.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    placed: Vec<(Whose, String)>,
    evicted: Vec<Whose>,
    /// Allocations it reported itself: they are notified back, but were not decided here.
    reported: BTreeSet<Whose>,
    last: u64,
}

impl Decided {
    pub(crate) fn sent(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Exists(wish, _) => {
                    self.reported.insert((wish.app.clone(), wish.key.clone()));
                }
                Item::Node(node) => {
                    let held = node.holds.iter().map(|wish| (wish.app.clone(), wish.key.clone()));
                    self.reported.extend(held);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn receive(&mut self, notification: &Notification) {
        match notification {
            Notification::Allocated(new) => {
                let whose = (new.application_id.clone(), new.allocation_key.clone());
                self.placed.push((whose, new.node_id.clone()));
            }
            Notification::Released(gone)
                if gone.termination_type == si::TerminationType::PreemptedByScheduler as i32 =>
            {
                self.evicted.push((gone.application_id.clone(), gone.allocation_key.clone()));
            }
            _ => {}
        }
    }

    /// Checks the kept decisions, the newest first, and returns what is wrong.
    pub(crate) fn settles(&mut self, kept: &[DecisionSnapshot]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut placed = std::mem::take(&mut self.placed).into_iter();
        let mut evicted = std::mem::take(&mut self.evicted).into_iter();
        let since = kept.iter().filter(|decision| decision.id > self.last).collect::<Vec<_>>();
        for decision in since.into_iter().rev() {
            self.last += 1;
            if decision.id != self.last {
                wrong.push(format!("decision {} where {} was due", decision.id, self.last));
                self.last = decision.id;
            }
            let whose = (decision.application_id.clone(), decision.allocation_key.clone());
            match decision.kind.as_str() {
                "allocation" => {
                    let is_it = |(notified, node): &(Whose, String)| {
                        *notified == whose && *node == decision.node_id
                    };
                    let before: Vec<_> =
                        placed.by_ref().take_while(|notified| !is_it(notified)).collect();
                    self.is_reported(before, &mut wrong);
                }
                "eviction" => {
                    // In the oldest dialect, the notification has no key.
                    let notified = evicted.next();
                    if notified.as_ref().is_none_or(|(app, _)| *app != whose.0) {
                        wrong
                            .push(format!("eviction {whose:?} is kept, and {notified:?} was told"));
                    }
                }
                _ => {}
            }
        }
        self.is_reported(placed, &mut wrong);
        wrong.extend(evicted.map(|notified| format!("no decision to evict {notified:?} is kept")));
        wrong
    }

    fn is_reported(
        &self,
        notified: impl IntoIterator<Item = (Whose, String)>,
        wrong: &mut Vec<String>,
    ) {
        let undecided = notified.into_iter().filter(|(whose, _)| !self.reported.contains(whose));
        wrong
            .extend(undecided.map(|notified| format!("no decision to place {notified:?} is kept")));
    }
}
