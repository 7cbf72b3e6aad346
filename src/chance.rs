//! Random numbers from a seed: equal seeds give equal numbers on every machine.
//!
//! The demo draws its cluster from them, the simulator its samples and its ties, so that a
//! surprising run can be repeated. Only whole numbers are used, because the last bit of a
//! floating-point function may differ between platforms. Only ids (`random_bits`) have no seed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// Returns 128 bits that are different in each call and each process, from the random seeds of the
/// standard library's hash maps. For ids; a secret needs more.
pub(crate) fn random_bits() -> u128 {
    let bits = || u128::from(RandomState::new().hash_one(0));
    (bits() << 64) | bits()
}

/// A stream of numbers from SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014). A few lines in place of a dependency, and good enough for samples.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Starts the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `bound - 1`. Its bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = (u128::from(self.next()) * u128::from(bound)) >> 64;
        u32::try_from(scaled).expect("smaller than the bound")
    }

    /// Returns a number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Returns a duration from `least` to `most` seconds.
    pub fn seconds(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least * 1_000, most * 1_000))
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.next() % choices.len() as u64;
        choices[usize::try_from(at).expect("less than the length")]
    }

    /// Returns one of `choices`, each with a probability in proportion to its weight.
    pub fn weighted<'a, T>(&mut self, choices: &'a [(u32, T)]) -> &'a T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if left < *weight {
                return choice;
            }
            left -= weight;
        }
        unreachable!("the number drawn is below the sum of the weights")
    }

    /// Puts `items` into an order in which every permutation is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u32::try_from(last + 1).expect("no trace has 2^32 ties");
            items.swap(last, self.below(bound) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_determines_the_stream() {
        let stream = |seed| {
            let mut chance = Chance::new(seed);
            (0..100).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
        assert!(stream(7).iter().all(|&number| number < 1000));
    }

    #[test]
    fn between_returns_every_number_of_the_range() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..1_000).map(|_| chance.between(3, 7)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for number in 3..=7 {
            assert!(draw(1).contains(&number));
        }
        assert!(draw(1).iter().all(|number| (3..=7).contains(number)));
    }

    #[test]
    fn a_choice_of_weight_zero_is_never_picked() {
        let mut chance = Chance::new(1);
        let choices = [(1, 'a'), (0, 'b'), (3, 'c')];
        let picked: Vec<_> = (0..200).map(|_| *chance.weighted(&choices)).collect();
        assert!(picked.contains(&'a') && picked.contains(&'c') && !picked.contains(&'b'));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Chance::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
