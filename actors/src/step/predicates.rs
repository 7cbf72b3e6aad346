//! Questions to the RM's predicates within a step.
//!
//! # Two ways of asking
//! An RM in this process answers in the middle of the placement ([`Baton::passes`]). An RM behind a
//! network is sent a question with the notices of the step ([`Baton::ask_later`]): the node has
//! booked the placement and holds the amount until the answer. The answer visits the node that
//! passes, the first candidate or an alternative, because only that node knows whether there is
//! still capacity.
//!
//! # When things go wrong
//! A predicate that panics counts as a refusal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use monoceros_rules::asks::Ask;
use monoceros_rules::decide::attempt::Candidate;
use monoceros_rules::decisions::DecidedFor;
use monoceros_rules::nodes::Fits;
use monoceros_rules::pending::reservations::Reserver;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::op::ClaimAnswer;
use super::placement::Placement;
use super::{Baton, Services};
use crate::api::callback::Preferences;
use crate::api::predicates::{PredicateQuestion, QuestionBundle, QuestionId};
use crate::session::Notice;

/// The most nodes that are compared by an RM's preferences for an ask.
const NODES_COMPARED: usize = 1_000;

/// The ask that a predicate question is about, or the internal ask for which places are held; with
/// its application.
pub(crate) type About<'a> = (ApplicationSlot, &'a AskSpec);

impl Baton {
    /// Whether a placement passes the predicate of an RM in this process. The hold that the
    /// placement replaces, if there is one, is not counted in addition.
    pub(crate) fn passes(&mut self, placement: &mut Placement, node: &str) -> bool {
        let hold = placement.takes.filter(|takes| takes.hold).map(|takes| takes.placeholder);
        if let Some(hold) = hold {
            self.forget(hold);
        }
        let (about, allocate) =
            ((placement.application, &*placement.spec), !placement.is_in_place());
        let Err(why) = self.predicate(about, node, allocate) else { return true };
        placement.note_refusal(why);
        self.books.nodes.count_refusals([node]);
        if let Some(hold) = hold {
            self.assume(hold);
        }
        false
    }

    /// Whether an RM in this process lets an ask reserve a node.
    pub(crate) fn may_be_reserved(&mut self, about: About<'_>, node: &str) -> bool {
        self.predicate(about, node, false).is_ok()
    }

    /// Counts the answer to the question whether an ask may reserve a node, and notifies the RM of a
    /// question that was cancelled.
    pub(crate) fn count_claim_answer(&mut self, question: u64, answer: ClaimAnswer) {
        match answer {
            ClaimAnswer::Passed => self.tally.predicate_passed(false),
            ClaimAnswer::Refused => self.tally.predicate_failed(),
            ClaimAnswer::None => self.tally.predicate_unanswered(),
            ClaimAnswer::Cancelled => return self.question_cancelled(question),
        }
        self.books.unsettled.window.answered(answer == ClaimAnswer::None);
    }

    /// Withdraws the question whether an ask may reserve a node, if one is open.
    pub(crate) fn cancel_claim(&mut self, ask: &mut Ask) {
        if let Some(number) = ask.take_claim() {
            self.books.unsettled.take_claim(number);
            self.question_cancelled(number);
        }
    }

    /// Asks the RM whether an ask may reserve the node; it answers later. Returns the number of the
    /// question.
    pub(crate) fn ask_to_reserve(
        &mut self,
        (who, of): (Reserver, DecidedFor<'_>),
        application: &Arc<str>,
        spec: &AskSpec,
        node: NodeSlot,
    ) -> u64 {
        let id = Arc::clone(self.books.nodes.id(node));
        let unsettled = &mut self.books.unsettled;
        let number = unsettled.ask_to_reserve(who.application, who.ask, Arc::clone(&id));
        self.note_claim(of, spec, node, number);
        self.tally.asked();
        tracing::debug!(%application, ask = %spec.key, question = number, node = %id,
            "asked whether the node may be reserved");
        self.effects.notify(Notice::Asked(Box::new(PredicateQuestion {
            id: QuestionId(number),
            application: Arc::clone(application),
            key: Arc::clone(&spec.key),
            group: None,
            nodes: vec![id],
            allocate: false,
            bundle: None,
            answers: self.services.answers.clone(),
        })));
        number
    }

    /// Notifies the RM that the answer to a question is not needed any more.
    pub(crate) fn question_cancelled(&mut self, question: u64) {
        self.tally.predicate_cancelled();
        self.effects.notify(Notice::Withdrawn(QuestionId(question)));
    }

    /// Whether an RM in this process lets an ask be placed on the node as the node is now.
    pub(crate) fn may_be_placed(
        &mut self,
        (application, key): (ApplicationSlot, &str),
        node: &str,
    ) -> bool {
        self.ask_now((application, key, None), node, true).is_ok()
    }

    /// Asks the predicate of an RM in this process about an ask on a node. Returns the reason of a
    /// refusal as `Err`. `allocate`: the ask is to be placed there now, and not only once there is
    /// capacity.
    pub(crate) fn predicate(
        &mut self,
        (application, spec): About<'_>,
        node: &str,
        allocate: bool,
    ) -> Result<(), String> {
        let group = spec.holds_for();
        self.ask_now((application, &spec.key, group), node, allocate)
    }

    /// Asks an RM in this process about the ask with this key, or about a place to be held for a
    /// member of this task group.
    ///
    /// The answers of such an RM enter decisions here and nowhere else, as plain data: each is an
    /// input of the offer that is under way, just as an entry of the inbox is an input of its step.
    /// A recording of a partition would store the answers here, with key and node, and a replay
    /// would supply them here.
    fn ask_now(
        &mut self,
        (application, key, group): (ApplicationSlot, &str, Option<&str>),
        node: &str,
        allocate: bool,
    ) -> Result<(), String> {
        self.word((application, key, group), node, allocate);
        let Services { question: args, callback, .. } = &mut self.services;
        let asked = || match group {
            Some(_) => callback.hold_predicates(args),
            None => callback.predicates(args),
        };
        match catch_unwind(AssertUnwindSafe(asked)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => {
                tracing::debug!(ask = %key, node, why, "refused by predicate");
                Err(why)
            }
            Err(_) => {
                tracing::error!(ask = %key, node, "the predicate callback panicked, taken as a refusal");
                Err("the predicate failed".to_owned())
            }
        }
    }

    /// Fills in the question that is kept for reuse.
    fn word(
        &mut self,
        (application, key, group): (ApplicationSlot, &str, Option<&str>),
        node: &str,
        allocate: bool,
    ) {
        let Baton { services, directory, .. } = self;
        let args = &mut services.question;
        let application = directory.application(application).map_or("", |entry| &*entry.id);
        let texts = [
            (&mut args.allocation_key, key),
            (&mut args.node_id, node),
            (&mut args.application_id, application),
            (&mut args.task_group_name, group.unwrap_or_default()),
        ];
        for (place, text) in texts {
            place.clear();
            place.push_str(text);
        }
        args.allocate = allocate;
    }

    /// Returns the preferences between nodes that an RM in this process has for an ask.
    fn preferences(&self, key: &str) -> Preferences {
        let asked = || self.services.callback.preferences(key);
        catch_unwind(AssertUnwindSafe(asked)).unwrap_or_default()
    }

    /// Returns the nodes that an ask, or the members of a task group for which places are held, can
    /// use by facts of the nodes alone, as far as an RM in this process knows.
    pub(crate) fn fits(&self, (application, spec): About<'_>) -> Fits {
        let application = self.directory.application(application).map_or("", |entry| &*entry.id);
        let group = spec.holds_for();
        let key = if group.is_some() { "" } else { &*spec.key };
        let asked = || self.services.callback.fits(application, key, group.unwrap_or_default());
        catch_unwind(AssertUnwindSafe(asked)).unwrap_or_default()
    }

    /// Returns the candidate with the node that an RM in this process prefers for the ask;
    /// unchanged if it prefers none.
    pub(crate) fn preferred_node(
        &mut self,
        application: ApplicationSlot,
        ask: &Ask,
        candidate: Candidate,
    ) -> Candidate {
        let has_choice = ask.required_node.is_none() && ask.constraint.is_none();
        if self.offer.asks_later || !has_choice {
            return candidate;
        }
        let only_equal = match self.preferences(&ask.key) {
            Preferences::None => return candidate,
            Preferences::AmongEqualNodes => true,
            Preferences::AmongAllNodes => false,
        };
        let nodes = &self.books.nodes;
        if ask.has_failed_on(nodes.id(candidate.node)) {
            // Nodes where the ask failed are the last resort, tried in their own order.
            return candidate;
        }
        let request = ask.request_elsewhere().unwrap_or_else(|| ask.request());
        let nodes = nodes.from(candidate.node, &request, only_equal, NODES_COMPARED);
        match self.preferred((application, &ask.key), &nodes) {
            Some(at) if at > 0 => {
                let preferred_to = Some((candidate.node, at));
                Candidate { node: nodes[at], preferred_to, ..candidate }
            }
            // The first node is preferred, or all nodes refuse the ask, as the search will find.
            _ => candidate,
        }
    }

    /// Returns the index in `nodes` of the node that an RM in this process prefers for an ask. Only
    /// nodes that pass its predicate count.
    fn preferred(
        &mut self,
        (application, key): (ApplicationSlot, &str),
        nodes: &[NodeSlot],
    ) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        for (at, &slot) in nodes.iter().enumerate() {
            let node = Arc::clone(self.books.nodes.id(slot));
            self.word((application, key, None), &node, true);
            let asked = || self.services.callback.preference(&self.services.question);
            let preference = catch_unwind(AssertUnwindSafe(asked)).unwrap_or(i64::MIN);
            if best.is_none_or(|(most, _)| preference > most)
                && self.ask_now((application, key, None), &node, true).is_ok()
            {
                best = Some((preference, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Books the question whether a placement passes, which the RM answers later, and sends it to
    /// the RM.
    pub(crate) fn ask_later(
        &mut self,
        placement: &Placement,
        bundle: Option<Arc<QuestionBundle>>,
    ) -> u64 {
        let Baton { books, directory, .. } = self;
        let candidates = std::iter::once(&placement.node).chain(&placement.alternatives);
        let nodes: Vec<_> = candidates.map(|slot| Arc::clone(books.nodes.id(*slot))).collect();
        let (growth, is_required) = (books.nodes.growth(), placement.spec.required_node.is_some());
        let whose = (placement.application, placement.allocation);
        let number = books.unsettled.ask(whose, nodes.clone(), is_required, growth);
        if placement.spec.constraint.is_some() {
            books.unsettled.asked_by(number, placement.open);
        }
        if let Some(entry) = books.allocations.get_mut(placement.allocation) {
            entry.change().question = Some(number);
        }
        let application = directory.application_id(placement.application);
        self.tally.asked();
        tracing::debug!(
            placement = %placement.allocation,
            %application,
            ask = %placement.spec.key,
            question = number,
            candidates = nodes.len(),
            "predicate asked"
        );
        self.effects.notify(Notice::Asked(Box::new(PredicateQuestion {
            id: QuestionId(number),
            application,
            key: Arc::clone(&placement.spec.key),
            group: placement.spec.holds_for().map(Arc::from),
            nodes,
            allocate: !placement.is_in_place(),
            bundle,
            answers: self.services.answers.clone(),
        })));
        number
    }
}
