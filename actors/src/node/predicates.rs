//! What a node asks the RM before it confirms a placement, and what it makes of an answer that
//! comes later.
//!
//! # Two ways of asking
//! An RM in this process answers in the middle of the placement ([`passes`]). One behind a network
//! is asked by a question that leaves with the step ([`ask_later`]): the node has booked it and
//! holds the amount meanwhile. The answer visits the node that passes ([`Node::confirm`]), the
//! first candidate or an alternative, because only that node can say whether there is still room.
//!
//! # When things go wrong
//! A predicate that panics counts as a refusal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::decide::predicates::{Confirmation, confirm};
use monoceros_rules::nodes::Fits;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::Node;
use crate::api::callback::Preferences;
use crate::api::predicates::{PredicateQuestion, QuestionBundle, QuestionId};
use crate::step::{Baton, Notice, Passed, Placement, Settlement};

/// Whether a placement passes the predicate of an RM in this process. A place that is held for it is
/// not to be counted beside it.
pub(super) fn passes(placement: &mut Placement, node: &str, baton: &mut Baton) -> bool {
    let hold = placement.takes.filter(|takes| takes.hold).map(|takes| takes.placeholder);
    if let Some(hold) = hold {
        baton.forget(hold);
    }
    let (about, allocate) = ((placement.application, &*placement.spec), !is_in_place(placement));
    let Err(why) = answer(about, node, allocate, baton) else { return true };
    placement.note_refusal(why);
    if let Some(hold) = hold {
        baton.assume(hold);
    }
    false
}

/// Whether it takes the place of a placeholder there: the predicate is asked without what has to be
/// free.
fn is_in_place(placement: &Placement) -> bool {
    placement.takes.is_some_and(|takes| takes.in_place)
}

/// Whom a predicate is asked about: an ask, or the internal one for which places are held; and whose
/// it is.
pub(crate) type About<'a> = (ApplicationSlot, &'a AskSpec);

/// Whether an RM in this process lets an ask reserve a node.
pub(crate) fn may_be_reserved(about: About<'_>, node: &str, baton: &mut Baton) -> bool {
    answer(about, node, false, baton).is_ok()
}

/// Whether an RM in this process lets an ask be placed on the node, as it is.
pub(crate) fn may_be_placed(
    (application, key): (ApplicationSlot, &str),
    node: &str,
    baton: &mut Baton,
) -> bool {
    ask_now((application, key, None), node, true, baton).is_ok()
}

/// What an RM in this process says to an ask on a node: nothing against it, or why not. The ask is
/// to be placed there now (`allocate`), or when there is room.
pub(crate) fn answer(
    (application, spec): About<'_>,
    node: &str,
    allocate: bool,
    baton: &mut Baton,
) -> Result<(), String> {
    let group = held_for(spec);
    ask_now((application, &spec.key, group), node, allocate, baton)
}

/// The task group of the member for which a place is held by this ask, if it is an internal one.
pub(crate) fn held_for(spec: &AskSpec) -> Option<&str> {
    let group = spec.task_group.as_deref().filter(|_| spec.form == Form::Internal);
    group.map(String::as_str)
}

/// Asks an RM in this process about the ask with this key, or about a place that would be held for a
/// member of this task group.
///
/// Whatever such an RM says reaches a decision here and nowhere else, as plain data: an input of
/// the offer that is under way, as what enters by the inbox is one of its step. Whoever records a
/// partition writes the answers down here, with the key and the node, and whoever replays one gives
/// them here.
fn ask_now(
    (application, key, group): (ApplicationSlot, &str, Option<&str>),
    node: &str,
    allocate: bool,
    baton: &mut Baton,
) -> Result<(), String> {
    word((application, key, group), node, allocate, baton);
    let Baton { question: args, callback, .. } = baton;
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

/// Words a question in the place that is kept for one.
fn word(
    (application, key, group): (ApplicationSlot, &str, Option<&str>),
    node: &str,
    allocate: bool,
    baton: &mut Baton,
) {
    let Baton { question: args, directory, .. } = baton;
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

/// Between which nodes an RM in this process says that an ask has preferences.
pub(crate) fn preferences(key: &str, baton: &Baton) -> Preferences {
    let asked = || baton.callback.preferences(key);
    catch_unwind(AssertUnwindSafe(asked)).unwrap_or_default()
}

/// Which nodes an RM in this process knows an ask to be able to use by what the nodes alone say, or the
/// members of a task group for which places are held.
pub(crate) fn fits((application, spec): About<'_>, baton: &Baton) -> Fits {
    let application = baton.directory.application(application).map_or("", |entry| &*entry.id);
    let group = held_for(spec);
    let key = if group.is_some() { "" } else { &*spec.key };
    let asked = || baton.callback.fits(application, key, group.unwrap_or_default());
    catch_unwind(AssertUnwindSafe(asked)).unwrap_or_default()
}

/// Which of these nodes an RM in this process prefers for an ask, of those that pass its predicate.
pub(crate) fn preferred(
    (application, key): (ApplicationSlot, &str),
    nodes: &[NodeSlot],
    baton: &mut Baton,
) -> Option<usize> {
    let mut best: Option<(i64, usize)> = None;
    for (at, &slot) in nodes.iter().enumerate() {
        let node = Arc::clone(baton.books.nodes.id(slot));
        word((application, key, None), &node, true, baton);
        let asked = || baton.callback.preference(&baton.question);
        let preference = catch_unwind(AssertUnwindSafe(asked)).unwrap_or(i64::MIN);
        if best.is_none_or(|(most, _)| preference > most)
            && ask_now((application, key, None), &node, true, baton).is_ok()
        {
            best = Some((preference, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Books the question whether a placement passes, which the RM answers later, and says it.
pub(crate) fn ask_later(
    placement: &Placement,
    bundle: Option<Arc<QuestionBundle>>,
    baton: &mut Baton,
) -> u64 {
    let Baton { books, directory, .. } = baton;
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
    baton.tally.asked();
    tracing::debug!(
        placement = %placement.allocation,
        %application,
        ask = %placement.spec.key,
        question = number,
        candidates = nodes.len(),
        "predicate asked"
    );
    baton.notices.push(Notice::Asked(Box::new(PredicateQuestion {
        id: QuestionId(number),
        application,
        key: Arc::clone(&placement.spec.key),
        group: held_for(&placement.spec).map(Arc::from),
        nodes,
        allocate: !is_in_place(placement),
        bundle,
        answers: baton.answers.clone(),
    })));
    number
}

impl Node {
    /// What an answer means that passes here; `None` where its question was taken back meanwhile.
    /// What is confirmed is held here from now on.
    pub(super) fn confirm(&mut self, passed: &Passed, baton: &mut Baton) -> Option<Settlement> {
        let books = &mut baton.books;
        let question = books.unsettled.get(passed.question)?;
        let (id, confirmation) =
            (question.allocation, confirm(books, question, self.slot, &passed.scope));
        let is_void = confirmation == Confirmation::Void;
        books.unsettled.window.answered(is_void);
        baton.tally.predicate_passed(is_void);
        let (is_confirmed, assumed) = (confirmation == Confirmation::Confirmed, passed.assumed);
        let in_bundle = books.allocations.get(id).is_some_and(Allocation::is_in_bundle);
        // Members of a bundle see each other's places, and are settled together.
        if is_confirmed != assumed && !(in_bundle && is_confirmed) {
            // A placement that the RM itself counted (assumed) is no change to its later answers.
            // If such a placement is not made, that is a change.
            books.unsettled.changed_by(self.slot, passed.scope.elsewhere().map(AsRef::as_ref));
        }
        if !is_confirmed {
            return Some(Settlement::NotTaken { position: passed.position, assumed, is_void });
        }
        let entry = books.allocations.get_mut(id)?;
        let before = std::mem::replace(&mut entry.node, self.slot);
        if entry.elsewhere.is_some() || passed.scope.elsewhere().is_some() {
            entry.change().elsewhere = passed.scope.elsewhere().cloned();
        }
        let moved_from = (before != self.slot).then_some(before);
        if moved_from.is_some() {
            let resources = entry.resources().clone();
            self.hold(id, &resources, baton);
            Self::count(id, baton);
        }
        let scope = passed.scope.clone();
        Some(Settlement::Confirmed { moved_from, scope, assumed })
    }
}
