//! Confirmation: a node applies the RM's answer to a question about a placement on it.

use monoceros_rules::allocations::Allocation;
use monoceros_rules::decide::predicates::{Confirmation, confirm};

use super::Node;
use crate::step::{Baton, Passed, Settlement};

impl Node {
    /// Settles an answer that passes here; `None` if its question was withdrawn before. A confirmed
    /// placement is held here from now on.
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
        // Members of a bundle are checked with each other's places in view, and are settled
        // together.
        if is_confirmed != assumed && !(in_bundle && is_confirmed) {
            // If the RM already counted the placement here (`assumed`), its later answers include
            // it and stay valid. If it did not count a placement that is made, or counted one that
            // is not made, later answers may be void.
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
