//! Index of the applications that wait for a node that one of their asks requires.
//!
//! # Why two maps
//! When a node appears or grows, the applications that wait for it are found by node. When an
//! application has no more asks, its entries are removed by application, at a cost that does not
//! depend on the number of other waiting applications.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monoceros_rules::values::ids::ApplicationSlot;

/// The applications that wait for a node, by node and by application. Both maps hold the same
/// pairs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Named {
    by_node: BTreeMap<Arc<str>, BTreeSet<ApplicationSlot>>,
    by_application: BTreeMap<ApplicationSlot, BTreeSet<Arc<str>>>,
}

impl Named {
    /// Notes that the application waits for the node.
    pub(crate) fn enter(&mut self, node: &Arc<str>, application: ApplicationSlot) {
        self.by_node.entry(Arc::clone(node)).or_default().insert(application);
        self.by_application.entry(application).or_default().insert(Arc::clone(node));
    }

    /// Removes and returns the applications that wait for the node.
    pub(crate) fn take(&mut self, node: &str) -> BTreeSet<ApplicationSlot> {
        let waiting = self.by_node.remove(node).unwrap_or_default();
        for application in &waiting {
            if let Some(nodes) = self.by_application.get_mut(application) {
                nodes.remove(node);
                if nodes.is_empty() {
                    self.by_application.remove(application);
                }
            }
        }
        waiting
    }

    /// Returns the applications that wait for the node.
    pub(crate) fn waiting_for(&self, node: &str) -> impl Iterator<Item = ApplicationSlot> {
        self.by_node.get(node).into_iter().flatten().copied()
    }

    /// Notes that the application waits for no node any more.
    pub(crate) fn forget(&mut self, application: ApplicationSlot) {
        for node in self.by_application.remove(&application).into_iter().flatten() {
            if let Some(waiting) = self.by_node.get_mut(&node) {
                waiting.remove(&application);
                if waiting.is_empty() {
                    self.by_node.remove(&node);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Enter(u8, u32),
        Take(u8),
        Forget(u32),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            3 => (0..4_u8, 0..4_u32).prop_map(|(node, who)| Change::Enter(node, who)),
            1 => (0..4_u8).prop_map(Change::Take),
            1 => (0..4_u32).prop_map(Change::Forget),
        ]
    }

    fn slots(waiting: impl IntoIterator<Item = ApplicationSlot>) -> Vec<ApplicationSlot> {
        waiting.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_maps_hold_the_same_pairs(
            changes in prop::collection::vec(change(), 0..40)
        ) {
            let (mut named, mut pairs) = (Named::default(), BTreeSet::new());
            let node = |number: u8| -> Arc<str> { Arc::from(format!("n{number}")) };
            for change in changes {
                match change {
                    Change::Enter(at, who) => {
                        named.enter(&node(at), ApplicationSlot::at(who));
                        pairs.insert((at, who));
                    }
                    Change::Take(at) => {
                        let of_node = pairs.iter().filter(|pair| pair.0 == at);
                        let expected: Vec<_> = of_node.map(|pair| ApplicationSlot::at(pair.1)).collect();
                        prop_assert_eq!(slots(named.take(&node(at))), expected);
                        pairs.retain(|pair| pair.0 != at);
                    }
                    Change::Forget(who) => {
                        named.forget(ApplicationSlot::at(who));
                        pairs.retain(|pair| pair.1 != who);
                    }
                }
                for at in 0..4 {
                    let of_node = pairs.iter().filter(|pair| pair.0 == at);
                    let expected: Vec<_> = of_node.map(|pair| ApplicationSlot::at(pair.1)).collect();
                    prop_assert_eq!(slots(named.waiting_for(&node(at))), expected);
                }
                let applications: BTreeSet<u32> = pairs.iter().map(|pair| pair.1).collect();
                prop_assert_eq!(named.by_application.len(), applications.len());
                let nodes: BTreeSet<u8> = pairs.iter().map(|pair| pair.0).collect();
                prop_assert_eq!(named.by_node.len(), nodes.len());
            }
        }
    }
}
