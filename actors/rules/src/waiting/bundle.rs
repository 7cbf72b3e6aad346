//! The bound of a bundle: of the members of a gang that are placed all at once or not at all.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::nodes::NodeIndex;
use crate::values::epoch::Growth;
use crate::values::resources::Resources;

/// The number and size of the places that a bundle waits for, after it has found too few.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleWaits {
    /// The growth of the node index up to which it was searched.
    at: Growth,
    /// The amounts of its members, each once; if there are many different ones, the least amount.
    sizes: SmallVec<[Resources; 1]>,
    /// The number of further places, of any of these amounts, for which it waits.
    lacks: u64,
    /// The number of places that have to exist in all, if its members all have one amount and may
    /// use any node; else 0.
    needs: u64,
    /// For groups that found no domain: the attribute that has to have one value for the whole
    /// group, and the amount of all its members.
    domains: Vec<(Arc<str>, Resources)>,
}

impl BundleWaits {
    /// Builds the bound of a bundle with members of these amounts; see the fields.
    pub(crate) fn with(
        at: Growth,
        sizes: SmallVec<[Resources; 1]>,
        lacks: u64,
        needs: u64,
        domains: Vec<(Arc<str>, Resources)>,
    ) -> Self {
        Self { at, sizes, lacks, needs, domains }
    }

    /// Whether growths since may have brought the places that it lacks. If not, subtracts the
    /// places that they brought, so that none is counted twice. Other asks may have taken places
    /// that were counted before; so enough places have to exist now, too.
    pub fn is_due(&mut self, nodes: &NodeIndex) -> bool {
        if !self.domains.is_empty() && !nodes.may_fit_since(self.at, &self.domains) {
            self.at = nodes.growth();
            return false;
        }
        if let [size] = &*self.sizes {
            let came = nodes.places_since(self.at, size, self.lacks);
            self.lacks = self.lacks.saturating_sub(came);
            self.at = nodes.growth();
            if self.lacks == 0 {
                self.lacks = self.needs - nodes.places_now(size, self.needs);
            }
            return self.lacks == 0;
        }
        let came = |size: &Resources| nodes.places_since(self.at, size, 1) > 0;
        let is_due = self.sizes.iter().any(came);
        if !is_due {
            self.at = nodes.growth();
        }
        is_due
    }

    /// Whether its members all have one amount and may use any node.
    pub fn is_of_one_size(&self) -> bool {
        self.needs > 0
    }

    /// Returns the growth of the node index up to which it was searched.
    pub fn at(&self) -> Growth {
        self.at
    }

    /// The least number of further places for which it waits.
    pub fn lacks(&self) -> u64 {
        self.lacks
    }

    /// The number of places that have to exist in all; 0 if that is not known.
    pub fn needs(&self) -> u64 {
        self.needs
    }

    /// The least amount that each of these places holds.
    pub fn least(&self) -> Resources {
        let mut sizes = self.sizes.iter();
        let mut least = sizes.next().cloned().unwrap_or_default();
        for size in sizes {
            least.lower_to(size);
        }
        least
    }
}
