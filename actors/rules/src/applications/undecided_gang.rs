//! The internal asks of an application whose declared gang is undecided: their creation, their
//! changes after asks of the RM, and their removal. See [`native`](super::native).
//!
//! # Invariants
//! * Between two visits an undecided gang has an internal ask for each member that its RM has not
//!   asked for.
//! * A decided gang has no internal asks.

use std::sync::Arc;

use crate::applications::application::Application;
use crate::applications::native::Stage;
use crate::nodes::NodeIndex;
use crate::specs::ask::TaskGroup;
use crate::values::ids::ApplicationSlot;
use crate::values::resources::Sum;

impl Application {
    /// Whether places are searched: the gang is undecided, and no bundle of it is in flight.
    pub fn seeks_places(&self) -> bool {
        self.undecided().is_some_and(|native| native.stage == Stage::Undecided)
    }

    /// Makes internal asks for all members that have no ask: the gang is undecided from now on.
    /// `arrival` returns the number of an ask. Returns the amount that is added to pending.
    pub fn ask_internally(
        &mut self,
        whose: ApplicationSlot,
        now_ns: i64,
        mut arrival: impl FnMut() -> u64,
    ) -> Sum {
        self.forget_domains();
        let Some(gang) = &mut self.gang else { return Sum::default() };
        let Some(native) = &mut gang.native else { return Sum::default() };
        native.stage = Stage::Undecided;
        native.forget_lost();
        for group in native.groups_mut() {
            let Some(spec) = group.spec.clone() else { continue };
            let ask = self.asks.put_internal(spec, now_ns, arrival());
            if let Some(terms) = &group.terms {
                self.asks.set_wish(ask, Arc::clone(terms), now_ns, Some(whose));
            }
            group.ask = Some(ask);
        }
        gang.complete(&mut self.asks)
    }

    /// Binds the internal asks to the domains of their groups.
    pub fn internal_asks_join_domains(&mut self, nodes: &mut NodeIndex) {
        let n_groups = self.native().map_or(0, |native| native.groups().len());
        for group in 0..n_groups {
            if let Some(ask) = self.native().and_then(|native| native.groups()[group].ask) {
                self.join_domain(ask, nodes);
            }
        }
    }

    /// Removes the internal asks. Returns the amount that was pending.
    pub fn forget_internal(&mut self) -> Sum {
        let mut pending = Sum::default();
        let Some(native) = self.gang.as_mut().and_then(|gang| gang.native.as_mut()) else {
            return pending;
        };
        for slot in native.groups_mut().iter_mut().filter_map(|group| group.ask.take()) {
            pending.add_sum(&self.asks.remove_internal(slot));
        }
        pending
    }

    /// Removes the internal asks of a gang for which no places are held: its members without an ask
    /// are no longer counted as placeholders still to be placed. Returns the amount that was
    /// pending.
    pub fn forget_members_without_ask(&mut self) -> Sum {
        let Some(gang) = &mut self.gang else { return Sum::default() };
        let Some(native) = &gang.native else { return Sum::default() };
        let asks = &self.asks;
        let missing = native.groups().iter().filter_map(|group| {
            Some((Arc::clone(&group.name), u64::from(asks.ask(group.ask?).outstanding)))
        });
        for (name, missing) in missing.collect::<Vec<_>>() {
            gang.take_off(&name, missing);
        }
        self.forget_internal()
    }

    /// Records that a member of this task group has, or had, an allocation.
    pub fn note_real(&mut self, group: Option<&TaskGroup>) {
        let Some(group) = group else { return };
        if let Some(native) = self.native_mut()
            && native.has(group)
        {
            native.has_real = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::application::NewApplication;
    use crate::specs::declaration::DeclaredGroup;
    use crate::values::resources::Resources;

    fn book() -> Application {
        let group = DeclaredGroup::new("w", 3, Some(Resources::of(&[("vcore", 2)])));
        let new = NewApplication::small(Some(group));
        Application::new(new, Arc::from("root.a"), 0)
    }

    #[test]
    fn internal_asks_end_with_the_decision() {
        let (mut book, all) = (book(), Resources::of(&[("vcore", 6)]));
        let pending = book.ask_internally(ApplicationSlot::at(0), 0, || 1);
        assert_eq!((pending, book.seeks_places()), (all.clone().into(), true));
        book.native_mut().unwrap().decide();
        let group = "w".to_owned();
        assert!(book.gang_mut().is_usable(&group), "places may still come");
        assert_eq!(book.forget_members_without_ask(), all.into());
        assert_eq!((book.gang_mut().is_usable(&group), book.asks.len()), (false, 0));
    }

    #[test]
    fn only_members_of_declared_groups_are_noted() {
        let mut book = book();
        let [declared, other] = ["w", "x"].map(|name| TaskGroup::new(name.to_owned()));
        book.note_real(None);
        book.note_real(Some(&other));
        assert!(!book.native().unwrap().has_real);
        book.note_real(Some(&declared));
        assert!(book.native().unwrap().has_real);
    }
}
