//! The full search that every decision and every silence is compared with, in tests.
//!
//! Before each offer the oracle gathers the facts of every actor, verifies the sums, and searches
//! everything anew ([`monoceros_rules::audit`]); when the offer is home, what it decided must be
//! that and nothing else. Offers make one decision each while it watches, since the full search
//! says only what comes next.

use std::sync::Arc;

use monoceros_proto::si::v1::PredicatesArgs;
use monoceros_rules::audit::{Decision, Facts};
use monoceros_rules::decide::predicates::WIDEST;
use monoceros_rules::nodes::NodeOrder;

use crate::api::callback::ResourceManagerCallback;
use crate::partition::DECISIONS_PER_TRIP;
use crate::step::Notice;

/// How a partition works, and how closely it is watched.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Decisions after which an offer comes home.
    pub(crate) decisions_per_trip: u32,
    /// Compare every decision with a full search.
    pub(crate) oracle: bool,
    /// The most nodes that one question about a predicate names.
    pub(crate) candidates_per_question: usize,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            decisions_per_trip: DECISIONS_PER_TRIP,
            oracle: false,
            candidates_per_question: WIDEST,
        }
    }
}

/// The full search of a partition under test, and what it expects of the offer that is out.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// What the offer that is out must decide.
    foreseen: Foreseen,
}

#[derive(Debug, Default)]
enum Foreseen {
    /// The oracle has not looked yet.
    #[default]
    Nothing,
    /// This, and nothing else; `None`: nothing can be decided.
    Next(Option<Decision>),
    /// It has looked, and cannot tell.
    Unknown,
}

impl Oracle {
    pub(crate) fn has_foreseen(&self) -> bool {
        !matches!(self.foreseen, Foreseen::Nothing)
    }

    /// Verifies the books and searches for what comes next. Panics where the books are wrong: the
    /// partition is then lost, as after any panic.
    pub(crate) fn foresee(
        &mut self,
        facts: &Facts,
        order: &NodeOrder,
        callback: &dyn ResourceManagerCallback,
    ) {
        Self::check(facts);
        let passes = |key: &str, node: &str, allocate: bool| {
            let (allocation_key, node_id) = (key.to_owned(), node.to_owned());
            let args = PredicatesArgs { allocation_key, node_id, allocate };
            callback.predicates(&args).is_ok()
        };
        self.foreseen = Foreseen::Next(facts.next_decision(&passes, order));
    }

    /// Verifies the books, and expects no certain decision: the answers of the RM's predicates are
    /// not known yet.
    pub(crate) fn only_check(&mut self, facts: &Facts) {
        Self::check(facts);
        self.foreseen = Foreseen::Unknown;
    }

    fn check(facts: &Facts) {
        let wrong = facts.check();
        assert!(wrong.is_empty(), "the books are wrong: {}", wrong.join("; "));
    }

    /// The offer is home: did it decide what was foreseen?
    pub(crate) fn compare(&mut self, notices: &[Notice], fruitless: bool) {
        let Foreseen::Next(foreseen) = std::mem::take(&mut self.foreseen) else { return };
        let decided = notices.iter().find_map(|notice| match notice {
            Notice::Allocated(allocated) => Some(Decision::Place {
                application: Arc::clone(&allocated.application),
                key: Arc::clone(&allocated.spec.key),
                node: Arc::clone(&allocated.node),
            }),
            Notice::Released(released) => Some(Decision::Replace {
                application: Arc::clone(&released.application),
                key: released.replaced_by.clone()?,
                placeholder: Arc::clone(&released.uuid),
            }),
            _ => None,
        });
        assert_eq!(decided, foreseen, "the offer and a full search disagree");
        assert_eq!(fruitless, foreseen.is_none(), "an offer that decides nothing says so");
    }
}
