//! What was told against what is kept of it: each allocation that was decided, and each that had to
//! leave, is exactly one decision, in the order in which it was told, and numbers have no gaps.

use std::collections::BTreeSet;

use monoceros_actors::snapshot::DecisionSnapshot;
use monoceros_proto::si::v1 as si;

use crate::ear::Word;
use crate::script::Item;

/// An application and a key.
type Whose = (String, String);

/// What a resource manager heard since it was last compared.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    placed: Vec<(Whose, String)>,
    evicted: Vec<Whose>,
    /// What it reported as placed: that is told back, and was not decided here.
    reported: BTreeSet<Whose>,
    last: u64,
}

impl Decided {
    pub(crate) fn says(&mut self, items: &[Item]) {
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

    pub(crate) fn hears(&mut self, word: &Word) {
        match word {
            Word::Allocated(new) => {
                let whose = (new.application_id.clone(), new.allocation_key.clone());
                self.placed.push((whose, new.node_id.clone()));
            }
            Word::Released(gone)
                if gone.termination_type == si::TerminationType::PreemptedByScheduler as i32 =>
            {
                self.evicted.push((gone.application_id.clone(), gone.allocation_key.clone()));
            }
            _ => {}
        }
    }

    /// What is wrong with the decisions that are kept, the newest first.
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
                    let is_it = |(told, node): &(Whose, String)| {
                        *told == whose && *node == decision.node_id
                    };
                    let before: Vec<_> = placed.by_ref().take_while(|told| !is_it(told)).collect();
                    self.is_reported(before, &mut wrong);
                }
                "eviction" => {
                    // With the oldest dialect the key is not told.
                    let told = evicted.next();
                    if told.as_ref().is_none_or(|(app, _)| *app != whose.0) {
                        wrong.push(format!("eviction {whose:?} is kept, and {told:?} was told"));
                    }
                }
                _ => {}
            }
        }
        self.is_reported(placed, &mut wrong);
        wrong.extend(evicted.map(|told| format!("no decision to evict {told:?} is kept")));
        wrong
    }

    fn is_reported(
        &self,
        told: impl IntoIterator<Item = (Whose, String)>,
        wrong: &mut Vec<String>,
    ) {
        let undecided = told.into_iter().filter(|(whose, _)| !self.reported.contains(whose));
        wrong.extend(undecided.map(|told| format!("no decision to place {told:?} is kept")));
    }
}
