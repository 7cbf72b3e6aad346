//! Use of a node by others, who are not applications of this scheduler.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::specs::quotas;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::rare::Nothing;
use monoceros_rules::values::resources::Resources;

/// A foreign allocation: an allocation on the node by another scheduler.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Foreign {
    pub(crate) resources: Resources,
    pub(crate) tags: Option<Tags>,
    pub(crate) priority: i32,
    pub(crate) preemptable: bool,
    /// The time of creation as reported by the RM, else the time of arrival; ns since the epoch.
    pub(crate) since_ns: i64,
}

/// Use of a node by others.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Others {
    /// The sum that the RM reports as occupied.
    pub(crate) occupied: Resources,
    /// Foreign allocations by key; in addition to `occupied`.
    pub(crate) foreign: BTreeMap<Arc<str>, Foreign>,
    /// The bytes that the foreign allocations count in quotas.
    foreign_bytes: u64,
}

impl Nothing for Others {
    const NOTHING: &'static Self =
        &Self { occupied: Resources::NONE, foreign: BTreeMap::new(), foreign_bytes: 0 };
}

impl Foreign {
    /// Returns the bytes that it counts in quotas.
    fn bytes(&self, key: &str) -> u64 {
        let tags = self.tags.iter().map(|tags| quotas::bytes_of_texts(tags.iter())).sum::<u64>();
        quotas::ALLOCATION_BYTES + key.len() as u64 + tags
    }
}

impl Others {
    /// Returns the sum of all use by others.
    pub(super) fn sum(&self) -> Resources {
        let foreign = self.foreign.values();
        foreign.fold(self.occupied.clone(), |sum, foreign| sum.plus(&foreign.resources))
    }

    /// Enters a foreign allocation, or changes the one with this key.
    pub(super) fn put(&mut self, key: &Arc<str>, foreign: Foreign) {
        self.foreign_bytes += foreign.bytes(key);
        if let Some(before) = self.foreign.insert(Arc::clone(key), foreign) {
            self.foreign_bytes -= before.bytes(key);
        }
    }

    /// Removes a foreign allocation, if there is one with this key.
    pub(super) fn remove(&mut self, key: &Arc<str>) -> Option<Foreign> {
        let gone = self.foreign.remove(key)?;
        self.foreign_bytes -= gone.bytes(key);
        Some(gone)
    }

    /// Returns the bytes that the foreign allocations count in quotas.
    pub(super) fn bytes(&self) -> u64 {
        self.foreign_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(vcore: i64) -> Foreign {
        let resources = Resources::of(&[("vcore", vcore)]);
        Foreign { resources, tags: None, priority: 0, preemptable: true, since_ns: 0 }
    }

    #[test]
    fn foreign_allocations_are_counted_once() {
        let mut others = Others { occupied: Resources::of(&[("vcore", 1)]), ..Others::default() };
        let key = Arc::from("daemon");
        others.put(&key, foreign(2));
        let bytes = others.bytes();
        others.put(&key, foreign(3));
        assert_eq!(others.bytes(), bytes, "it has changed, and is no other");
        assert!(others.sum().same_amount(&Resources::of(&[("vcore", 4)])));
        assert!(others.remove(&key).is_some());
        assert!(others.remove(&key).is_none());
        assert_eq!(others.bytes(), 0);
        assert!(others.sum().same_amount(&others.occupied));
    }
}
