//! The domains in which the groups of a declared gang run: `docs/gangs.md#topology`.
//!
//! # Invariants
//! * As long as a group has a domain, every ask of it is placed only there, including one that
//!   arrives later or is placed again. An undecided gang has no domain, unless members of it run.
//! * A chosen domain stays, whatever happens to its nodes. If a domain is derived from allocations
//!   that an RM reports, it is the one in which most of them run.

use std::sync::Arc;

use crate::applications::application::Application;
use crate::applications::native::Native;
use crate::nodes::{Domain, NodeIndex};
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AskSlot, NodeSlot};
use crate::waiting::WaitSet;

impl Application {
    /// Records the domains in which places were found, each with the index of its group in the
    /// declaration.
    pub fn choose_domains<'a>(&mut self, chosen: impl Iterator<Item = (usize, &'a Domain)>) {
        let mut chosen = chosen.peekable();
        let Some(native) = self.native_mut().filter(|_| chosen.peek().is_some()) else { return };
        for (group, domain) in chosen {
            native.groups_mut()[group].choose_domain(domain.clone());
        }
        self.bind_asks_to_domains();
    }

    /// Drops the domains, so that places are searched in any domain again. A group with running
    /// members keeps theirs.
    pub fn forget_domains(&mut self) {
        let Some(native) = self.native_mut() else { return };
        let has_any = native.groups().iter().any(|group| group.domain.is_some());
        for group in native.groups_mut() {
            group.forget_domain();
        }
        if has_any {
            self.bind_asks_to_domains();
        }
    }

    fn bind_asks_to_domains(&mut self) {
        let native = self.gang.as_ref().and_then(|gang| gang.native.as_ref());
        if let Some(native) = native {
            self.asks.set_domains(|name| native.group(name).and_then(|it| it.domain.as_ref()));
        }
    }

    /// Returns the groups that have a domain, with it.
    pub fn domains(&self) -> Vec<(TaskGroup, Arc<Domain>)> {
        let groups = self.native().map(Native::groups).unwrap_or_default().iter();
        groups
            .filter_map(|it| Some((Arc::clone(&it.name), Arc::clone(it.domain.as_ref()?))))
            .collect()
    }

    /// Binds an ask that arrived, or was sent again, to the domain of its group.
    pub fn join_domain(&mut self, slot: AskSlot, nodes: &mut NodeIndex) {
        let Some(native) = self.gang.as_ref().and_then(|gang| gang.native.as_ref()) else { return };
        let group = self.asks.ask(slot).spec.task_group.as_ref();
        let domain = group.and_then(|name| native.group(name)?.domain.clone());
        if let Some(domain) = &domain {
            nodes.keep_domains(&domain.key);
        }
        self.asks.ask_mut(slot).set_domain(domain);
    }

    /// Counts a member of the group that was reported to run on this node. Binds the asks of the
    /// group if another domain follows from it.
    pub fn reported_at(&mut self, group: Option<&TaskGroup>, node: NodeSlot, nodes: &NodeIndex) {
        let Some(native) = self.native_mut() else { return };
        let mut groups = native.groups_mut().iter_mut();
        let Some(group) = group.and_then(|name| groups.find(|it| it.name == *name)) else {
            return;
        };
        let value = group.required_domain().and_then(|key| nodes.attribute(node, key));
        let value = value.map(str::to_owned);
        if !value.is_some_and(|value| group.member_reported(&value)) {
            return;
        }
        let name = TaskGroup::clone(&group.name);
        self.bind_asks_to_domains();
        for (slot, _) in self.asks.members_of(&name) {
            if let Some(class) = self.asks.class_of(slot) {
                self.asks.set_waits(class, WaitSet::Due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::NodeOrder;
    use crate::specs::ask::AskSpec;
    use crate::specs::declaration::{DeclaredGroup, Topology};
    use crate::values::resources::Resources;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    /// Returns an application with a gang of two workers that have to be in one rack.
    fn book() -> Application {
        let topology = Topology { required: Some("rack".to_owned()), ..Topology::default() };
        let worker = DeclaredGroup::new("w", 2, Some(vcores(1)));
        let worker = DeclaredGroup { topology: Some(topology), ..worker };
        Application::small(Some(worker))
    }

    fn put(book: &mut Application, key: &str) -> AskSlot {
        let spec = AskSpec::new(key, vcores(1));
        let spec = spec.with(|it| it.task_group = Some(TaskGroup::new("w".to_owned())));
        book.asks.put(spec, 0, 0).0
    }

    fn domain_of(book: &Application, slot: AskSlot) -> Option<&str> {
        book.asks.ask(slot).search.domain.as_ref().map(|domain| &*domain.value)
    }

    #[test]
    fn asks_stay_in_the_domain_of_their_group() {
        let (mut book, mut nodes) = (book(), NodeIndex::new(NodeOrder::default()));
        let first = put(&mut book, "a");
        book.choose_domains(std::iter::empty());
        assert_eq!(domain_of(&book, first), None);
        book.choose_domains([(0, &Domain::new("rack", "r1"))].into_iter());
        assert_eq!(domain_of(&book, first), Some("r1"));
        let later = put(&mut book, "b");
        assert_eq!(domain_of(&book, later), None);
        book.join_domain(later, &mut nodes);
        assert_eq!(domain_of(&book, later), Some("r1"));
        assert_eq!(book.domains().len(), 1);
        book.forget_domains();
        assert_eq!((domain_of(&book, first), domain_of(&book, later)), (None, None));
    }

    #[test]
    fn most_reported_members_decide_the_domain() {
        let (mut book, mut nodes) = (book(), NodeIndex::new(NodeOrder::default()));
        let [r1, r2] = ["r1", "r2"].map(|rack| {
            let node = nodes.insert(Arc::from(rack), vcores(4), vcores(4), true).unwrap();
            nodes.set_attributes(node, &Arc::new([("rack", rack)].into_iter().collect()));
            node
        });
        let (ask, group) = (put(&mut book, "a"), TaskGroup::new("w".to_owned()));
        for (node, domain) in [(r1, "r1"), (r2, "r1"), (r2, "r2")] {
            book.reported_at(Some(&group), node, &nodes);
            assert_eq!(domain_of(&book, ask), Some(domain));
        }
    }
}
