//! The domains in which groups of a declared gang stay: `docs/gangs.md#topology`.
//!
//! # Invariants
//! * As long as a group has a domain, every ask of it is placed there only, also one that comes later
//!   or is placed anew; an undecided gang has none, unless members of it run.
//! * A domain that was chosen stays, whatever becomes of its nodes. One that was found with
//!   allocations that an RM reports is that where most of them run.

use std::sync::Arc;

use monoceros_rules::decide::bundle::Found;
use monoceros_rules::nodes::Domain;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::{AskSlot, NodeSlot};
use monoceros_rules::waiting::WaitSet;

use super::Application;
use crate::step::Baton;

impl Application {
    /// Places were found for all members: groups that have to stay together keep their domains.
    pub(super) fn choose_domains(&mut self, found: &Found) {
        if found.domains().is_empty() {
            return;
        }
        let Some(native) = self.book.native_mut() else { return };
        for chosen in found.domains() {
            native.groups_mut()[chosen.group].choose_domain(chosen.domain.clone());
        }
        self.tell_domains();
    }

    /// Places are looked for anew, wherever they are; of a group with members that run, where those are.
    pub(super) fn forget_domains(&mut self) {
        let Some(native) = self.book.native_mut() else { return };
        let has_any = native.groups().iter().any(|group| group.domain.is_some());
        for group in native.groups_mut() {
            group.forget_domain();
        }
        if has_any {
            self.tell_domains();
        }
    }

    fn tell_domains(&mut self) {
        let book = &mut self.book;
        let native = book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        if let Some(native) = native {
            book.asks.set_domains(|name| native.group(name).and_then(|it| it.domain.as_ref()));
        }
    }

    /// The groups that stay in a domain, for an audit.
    pub(super) fn domains(&self) -> Vec<(TaskGroup, Arc<Domain>)> {
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let groups = native.into_iter().flat_map(|native| native.groups());
        groups
            .filter_map(|it| Some((Arc::clone(&it.name), Arc::clone(it.domain.as_ref()?))))
            .collect()
    }

    /// An ask that came, or came again, stays where its group is.
    pub(super) fn join_domain(&mut self, slot: AskSlot, baton: &mut Baton) {
        let book = &mut self.book;
        let Some(native) = book.gang.as_ref().and_then(|gang| gang.native.as_ref()) else { return };
        let group = book.asks.ask(slot).spec.task_group.as_ref();
        let domain = group.and_then(|name| native.group(name)?.domain.as_ref());
        if let Some(domain) = domain {
            baton.books.nodes.keep_domains(&domain.key);
        }
        let domain = domain.cloned();
        book.asks.ask_mut(slot).set_domain(domain);
    }

    /// Another search for an ask that stays in a domain is likely.
    pub(super) fn keep_domain_of(&self, slot: AskSlot, baton: &mut Baton) {
        if let Some(domain) = &self.book.asks.ask(slot).search.domain {
            baton.books.nodes.keep_domains(&domain.key);
        }
    }

    /// A member of the group was reported to run on this node.
    pub(super) fn reported_at(
        &mut self,
        group: Option<&TaskGroup>,
        node: NodeSlot,
        baton: &mut Baton,
    ) {
        let Some(native) = self.book.native_mut() else { return };
        let groups = native.groups_mut().iter_mut();
        let Some(group) = group.and_then(|name| groups.into_iter().find(|it| it.name == *name))
        else {
            return;
        };
        let value = group
            .required_domain()
            .and_then(|key| Some(baton.books.nodes.attribute(node, key)?.to_owned()));
        let is_other = value.is_some_and(|value| group.member_reported(&value));
        if !is_other {
            return;
        }
        let name = TaskGroup::clone(&group.name);
        self.tell_domains();
        for (slot, _) in self.book.asks.members_of(&name) {
            if let Some(class) = self.book.asks.class_of(slot) {
                self.book.asks.set_waits(class, WaitSet::Due);
            }
        }
    }
}
