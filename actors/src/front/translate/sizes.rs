//! Amounts that asks have in common.
//!
//! # Why
//! An application asks a thousand times for the same, and its neighbour for much the same. What one
//! resource manager asked for lately is looked at before an amount is kept anew, so that those asks
//! share one. Where all differ, each pays for one comparison.
//!
//! An amount in here may name a type of resource that is not in use any more. It is found by an equal
//! one only, which then has that name, so it means what that one means.

use std::cell::RefCell;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::Arc;

use monoceros_rules::values::resources::Resources;
use rustc_hash::FxHasher;

/// How many amounts are remembered, each in a place of its own by its hash.
const REMEMBERED: usize = 64;

/// The amounts that one resource manager asked for lately.
#[derive(Debug, Default)]
pub(super) struct Sizes(RefCell<Vec<Option<Arc<Resources>>>>);

impl Sizes {
    /// The amount, shared with an equal one that was asked for lately.
    pub(super) fn shared(&self, amount: Resources) -> Arc<Resources> {
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(&amount);
        let mut remembered = self.0.borrow_mut();
        remembered.resize(REMEMBERED, None);
        let place = &mut remembered[(hash >> 32) as usize % REMEMBERED];
        match place {
            Some(known) if **known == amount => Arc::clone(known),
            _ => Arc::clone(place.insert(Arc::new(amount))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_are_one_and_others_are_not() {
        let sizes = Sizes::default();
        let of = |vcore| Resources::of(&[("vcore", vcore)]);
        let first = sizes.shared(of(1));
        assert!(Arc::ptr_eq(&first, &sizes.shared(of(1))));
        for vcore in 2..1_000 {
            assert_eq!(*sizes.shared(of(vcore)), of(vcore));
        }
        assert_eq!(*sizes.shared(of(1)), of(1), "whether it was remembered or not");
        let explicit = Resources::of(&[("vcore", 1), ("memory", 0)]);
        assert_eq!(
            *sizes.shared(explicit.clone()),
            explicit,
            "a zero that is said is a difference"
        );
        assert_eq!(sizes.0.borrow().len(), REMEMBERED);
    }
}
