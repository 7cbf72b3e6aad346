//! Amounts that many things have in common.
//!
//! # Why
//! An application asks a thousand times for the same, its neighbour for much the same, and a thousand
//! machines are equal. What came lately is looked at before an amount is kept anew, so that those share
//! one. Where all differ, each pays for one comparison.
//!
//! An amount in here may name a type of resource that is not in use any more. It is found by an equal
//! one only, which then has that name, so it means what that one means.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::Arc;

use rustc_hash::FxHasher;

use super::Resources;

/// How many amounts are remembered, each in a place of its own by its hash.
const REMEMBERED: usize = 64;

/// The amounts that came lately.
///
/// ```
/// use std::sync::Arc;
/// use monoceros_rules::values::resources::{Resources, SharedAmounts};
/// let mut amounts = SharedAmounts::default();
/// let [one, other] = [(); 2].map(|()| amounts.share(Resources::of(&[("vcore", 1)])));
/// assert!(Arc::ptr_eq(&one, &other));
/// ```
#[derive(Debug, Default)]
pub struct SharedAmounts(Vec<Option<Arc<Resources>>>);

impl SharedAmounts {
    /// The amount, shared with an equal one that came lately.
    pub fn share(&mut self, amount: Resources) -> Arc<Resources> {
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(&amount);
        self.0.resize(REMEMBERED, None);
        let place = &mut self.0[(hash >> 32) as usize % REMEMBERED];
        match place {
            Some(known) if **known == amount => Arc::clone(known),
            _ => Arc::clone(place.insert(Arc::new(amount))),
        }
    }

    /// What comes from now on shares nothing with what came before.
    ///
    /// Whoever shares an amount changes its count, which is next to what those read who have it. Where
    /// these are on another thread, the two should not go on with one at the same time.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_are_one_and_others_are_not() {
        let mut amounts = SharedAmounts::default();
        let of = |vcore| Resources::of(&[("vcore", vcore)]);
        let first = amounts.share(of(1));
        assert!(Arc::ptr_eq(&first, &amounts.share(of(1))));
        for vcore in 2..1_000 {
            assert_eq!(*amounts.share(of(vcore)), of(vcore));
        }
        assert_eq!(*amounts.share(of(1)), of(1), "whether it was remembered or not");
        let explicit = Resources::of(&[("vcore", 1), ("memory", 0)]);
        assert_eq!(
            *amounts.share(explicit.clone()),
            explicit,
            "a zero that is said is a difference"
        );
        assert_eq!(amounts.0.len(), REMEMBERED);
        let last = amounts.share(of(1));
        amounts.forget();
        assert!(!Arc::ptr_eq(&last, &amounts.share(of(1))), "it was forgotten");
    }
}
