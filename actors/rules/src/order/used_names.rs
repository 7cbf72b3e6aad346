//! Resource types that a queue has ever used, requested, or had to give back.
//!
//! # Why
//! Totals drop a name as soon as its amount is zero. A reader that samples totals now and then
//! misses amounts that rose and fell in between; their names are recorded here. Amounts that rise
//! and fall again before a change climbs are missed here, too: the names are only for metrics.
//!
//! # Invariant
//! * At most 256 names of a kind are recorded. Names that no holder holds any more are dropped to
//!   make room, since resource managers may invent names for ever.
//!
//! ```
//! use monoceros_rules::order::ledger::LedgerDelta;
//! use monoceros_rules::order::used_names::UsedNames;
//! use monoceros_rules::values::resources::Resources;
//! let mut used = UsedNames::default();
//! let pending = Resources::of(&[("vcore", 3)]).into();
//! let delta = LedgerDelta { pending, ..LedgerDelta::default() };
//! used.note(&delta);
//! used.note(&delta.reversed());
//! assert_eq!(used.pending(), ["vcore".into()]);
//! assert_eq!(used.allocated(), []);
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use smallvec::SmallVec;

use crate::order::ledger::LedgerDelta;
use crate::values::resources::{Name, Resources};

/// The most names of a kind.
const NAMES_MAX: usize = 256;

type Noted = SmallVec<[Name; 4]>;

/// The names of one queue, of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedNames {
    #[serde(serialize_with = "in_use")]
    allocated: Noted,
    #[serde(serialize_with = "in_use")]
    pending: Noted,
    #[serde(serialize_with = "in_use")]
    preempting: Noted,
}

/// Writes the names that are still held, in the order in which they were noted.
fn in_use<S: Serializer>(noted: &Noted, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(noted.iter().filter_map(|name| name.find_text()))
}

impl UsedNames {
    /// Records the names of the amounts that a change adds.
    pub fn note(&mut self, delta: &LedgerDelta) {
        note(&mut self.allocated, &delta.allocated);
        note(&mut self.pending, delta.pending.shown());
        note(&mut self.preempting, &delta.preempting);
    }

    /// The types that were used.
    pub fn allocated(&self) -> Vec<Arc<str>> {
        texts(&self.allocated)
    }

    /// The types that were asked for.
    pub fn pending(&self) -> Vec<Arc<str>> {
        texts(&self.pending)
    }

    /// The types of which some had to be given back.
    pub fn preempting(&self) -> Vec<Arc<str>> {
        texts(&self.preempting)
    }
}

fn note(noted: &mut Noted, change: &Resources) {
    for (name, quantity) in change.entries() {
        if quantity > 0 && !noted.contains(&name) {
            if noted.len() == NAMES_MAX {
                noted.retain(|name| name.find_text().is_some());
            }
            if noted.len() < NAMES_MAX {
                noted.push(name);
            }
        }
    }
}

fn texts(noted: &Noted) -> Vec<Arc<str>> {
    let mut texts: Vec<_> = noted.iter().filter_map(|name| name.find_text()).collect();
    texts.sort_unstable();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::resources::NameHolder;

    #[test]
    fn names_that_nobody_holds_any_more_make_room() {
        let mut noted = Noted::new();
        for round in 0..3 {
            let holder = NameHolder::new(2 * NAMES_MAX);
            // A few more than fit: the last ones are left out.
            for n in 0..NAMES_MAX + 3 {
                let name = holder.hold(&format!("used-names-{round}-{n}")).unwrap();
                let mut amount = Resources::new();
                amount.set(name, 1);
                note(&mut noted, &amount);
            }
            assert_eq!(noted.len(), NAMES_MAX);
            assert_eq!(texts(&noted).len(), NAMES_MAX, "in round {round}");
        }
    }
}
