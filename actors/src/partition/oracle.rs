//! The oracle: a full search that tests compare with every decision, and with every offer that
//! makes no decision.
//!
//! Before each offer the oracle gathers the facts of every actor, verifies the sums, and searches
//! everything again ([`monoceros_rules::audit`]). When the offer is home, its decision must be the
//! one that the search found. Offers make one decision each under the oracle, since the full search
//! finds only the next one.

use std::sync::Arc;

use monoceros_proto::si::v1::PredicatesArgs;
use monoceros_rules::asks::failed_starts::StartRetry;
use monoceros_rules::audit::{About, Answers, Decision, Facts, Foreseen};
use monoceros_rules::decide::reservations::Patience;
use monoceros_rules::nodes::NodeOrder;
use monoceros_rules::pending::unsettled::WIDEST;

use crate::api::callback::{Preferences, ResourceManagerCallback};
use crate::step::{Notice, Offering};

/// Decisions after which an offer comes home, so that steps get their turn.
const DECISIONS_PER_TRIP: u32 = 64;

/// Limits of a partition's work, and whether the oracle watches it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Decisions after which an offer comes home.
    pub(crate) decisions_per_trip: u32,
    /// Compare every decision with a full search.
    pub(crate) oracle: bool,
    /// The most nodes that one question about a predicate names.
    pub(crate) candidates_per_question: usize,
    /// When nodes may be reserved, and for how long.
    pub(crate) patience: Patience,
    /// The back-off of requests whose start failed.
    pub(crate) start_retry: StartRetry,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            decisions_per_trip: DECISIONS_PER_TRIP,
            oracle: false,
            candidates_per_question: WIDEST,
            patience: Patience::default(),
            start_retry: StartRetry::default(),
        }
    }
}

/// The full search of a partition under test, and what it expects of the offer that is out.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// The decision that the offer under way must make; `None` if the oracle has not searched yet.
    foreseen: Option<Foreseen>,
}

impl Oracle {
    pub(crate) fn has_foreseen(&self) -> bool {
        self.foreseen.is_some()
    }

    /// Verifies the books and searches for the next decision. Panics where the books are wrong: the
    /// partition is then lost, as after any panic.
    pub(crate) fn foresee(
        &mut self,
        facts: &Facts,
        order: &NodeOrder,
        patience: &Patience,
        now_ns: i64,
        callback: &dyn ResourceManagerCallback,
    ) {
        Self::check(facts);
        let passes = |about: About<'_>, node: &str, allocate: bool| {
            let mut args =
                PredicatesArgs { node_id: node.to_owned(), allocate, ..Default::default() };
            match about {
                About::Request(key) => {
                    key.clone_into(&mut args.allocation_key);
                    callback.predicates(&args).is_ok()
                }
                About::Hold { application, group } => {
                    application.clone_into(&mut args.application_id);
                    group.clone_into(&mut args.task_group_name);
                    callback.hold_predicates(&args).is_ok()
                }
            }
        };
        let prefers = |key: &str, node: &str| {
            let only_equal = match callback.preferences(key) {
                Preferences::None => return None,
                Preferences::AmongEqualNodes => true,
                Preferences::AmongAllNodes => false,
            };
            let args = PredicatesArgs {
                allocation_key: key.to_owned(),
                node_id: node.to_owned(),
                allocate: true,
                ..Default::default()
            };
            Some((callback.preference(&args), only_equal))
        };
        let answers = Answers { passes: &passes, prefers: &prefers };
        self.foreseen = Some(facts.next_decision(answers, order, patience, now_ns));
    }

    /// Verifies the books without expecting a certain decision: the answers of the RM's predicates
    /// are not known yet.
    pub(crate) fn only_check(&mut self, facts: &Facts) {
        Self::check(facts);
        self.foreseen = Some(Foreseen::Unknown);
    }

    fn check(facts: &Facts) {
        let wrong = facts.check();
        assert!(wrong.is_empty(), "the books are wrong: {}", wrong.join("; "));
    }

    /// Compares the decision of an offer that came home with the one that was foreseen.
    pub(crate) fn compare(&mut self, notices: &[Notice], offer: &Offering) {
        let foreseen = match self.foreseen.take() {
            Some(Foreseen::Next(decision)) => Some(decision),
            Some(Foreseen::Nothing) => None,
            Some(Foreseen::Unknown) | None => return,
        };
        let decided = gang_in(notices).or_else(|| hold_in(notices)).or_else(|| {
            notices.iter().find_map(|notice| match notice {
                Notice::Allocated(allocated) => Some(Decision::Place {
                    application: Arc::clone(&allocated.owner.application),
                    key: Arc::clone(&allocated.spec.key),
                    node: Arc::clone(&allocated.node),
                }),
                Notice::Released(released) => {
                    let successor = released.replaced_by.as_ref()?;
                    Some(Decision::Replace {
                        application: Arc::clone(&released.application),
                        key: Arc::clone(&successor.key),
                        placeholder: Arc::clone(&released.uuid),
                        node: Arc::clone(&successor.node),
                    })
                }
                _ => None,
            })
        });
        let decided = decided.or_else(|| offer.silent.clone());
        assert_eq!(decided, foreseen, "the offer and a full search disagree");
        assert_eq!(
            offer.is_without_result,
            foreseen.is_none(),
            "an offer that decides nothing says so"
        );
    }
}

/// Returns the member of a declared gang that took a place held for it, if one did.
fn hold_in(notices: &[Notice]) -> Option<Decision> {
    notices.iter().find_map(|notice| match notice {
        Notice::HoldTaken(decision) => Some(Decision::clone(decision)),
        _ => None,
    })
}

/// Returns the declared gang that was decided, if one was.
fn gang_in(notices: &[Notice]) -> Option<Decision> {
    let (application, held) = notices.iter().find_map(|notice| match notice {
        Notice::GangPlaced { application, held } => Some((application, held)),
        _ => None,
    })?;
    let placed = notices.iter().filter_map(|notice| match notice {
        Notice::Allocated(allocated) => {
            Some((false, Arc::clone(&allocated.spec.key), Arc::clone(&allocated.node)))
        }
        _ => None,
    });
    let held = held.iter().map(|(group, node)| (true, Arc::from(group.as_str()), Arc::clone(node)));
    let mut members: Vec<_> = placed.chain(held).collect();
    members.sort();
    Some(Decision::Gang { application: Arc::clone(application), members })
}
