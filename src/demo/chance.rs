//! Numbers that look random and are the same in every run with one seed.
//!
//! A demo that shows something odd can be run again and shows it again. Statistical quality hardly
//! matters here, so a few lines take the place of a dependency.

use std::time::Duration;

/// A sequence of numbers (the `SplitMix64` generator: small, fast, good enough for a demo).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// A duration from `least` to `most` seconds.
    pub fn seconds(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least * 1_000, most * 1_000))
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.next() % choices.len() as u64;
        choices[usize::try_from(at).expect("less than the length")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_sequence_within_its_bounds() {
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
}
