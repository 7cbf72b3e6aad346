//! Shared amounts: equal amounts of different owners share one allocation.
//!
//! # Why
//! An application asks for the same amount a thousand times, its neighbour for a similar one, and a
//! thousand machines are equal. Each new amount is compared with recent ones and shares the
//! allocation of an equal one. If all amounts differ, each costs one comparison.
//!
//! A remembered amount may contain a resource type that is not in use any more. It is returned only
//! for an equal amount, which contains the same type.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::Arc;

use rustc_hash::FxHasher;

use super::Resources;

/// The number of remembered amounts, each at an index that its hash determines.
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
#[derive(Clone, Debug, Default)]
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
    /// read. If those are on another thread, the two threads should not use one amount at the same
    /// time.
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
