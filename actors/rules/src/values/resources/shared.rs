//! Shared amounts: equal amounts of different owners share one allocation.
//!
//! # Why
//! An application asks a thousand times for the same, its neighbour for much the same, and a
//! thousand machines are equal. Recent amounts are compared before a new one is kept, so that equal
//! ones share. Where all differ, each pays for one comparison.
//!
//! A remembered amount may name a type of resource that is not in use any more. Only an equal
//! amount finds it, which then has that name, so both mean the same.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::Arc;

use rustc_hash::FxHasher;

use super::Resources;

/// The number of remembered amounts, each in a position given by its hash.
const REMEMBERED: usize = 64;

/// The recent amounts.
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
    /// Returns the amount, shared with an equal recent one.
    pub fn share(&mut self, amount: Resources) -> Arc<Resources> {
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(&amount);
        self.0.resize(REMEMBERED, None);
        let place = &mut self.0[(hash >> 32) as usize % REMEMBERED];
        match place {
            Some(known) if **known == amount => Arc::clone(known),
            _ => Arc::clone(place.insert(Arc::new(amount))),
        }
    }

    /// Forgets all amounts: later ones share nothing with earlier ones.
    ///
    /// Sharing an amount changes its reference count, which is next to the data that its holders
    /// read. If these are on another thread, the two should not use one amount at the same time.
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
