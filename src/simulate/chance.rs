//! Numbers from a seed: equal seeds give equal numbers on every machine.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014) is
//! plenty to make up a trace and to shuffle ties. Everything is in whole numbers, because the last
//! bit of a floating-point function may differ between platforms.

/// A stream of numbers.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`. Its bias is below `bound / 2^64`, far beyond notice.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let scaled = (u128::from(self.next()) * u128::from(bound)) >> 64;
        u32::try_from(scaled).expect("smaller than the bound")
    }

    /// One of `choices`, each as often as its weight says.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [(u32, T)]) -> &'a T {
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
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
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
    fn one_seed_gives_one_stream_and_another_seed_another() {
        let stream = |seed| {
            let mut chance = Chance::new(seed);
            (0..100).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
        assert!(stream(7).iter().all(|&number| number < 1000));
    }

    #[test]
    fn a_choice_of_weight_zero_is_never_picked() {
        let mut chance = Chance::new(1);
        let choices = [(1, 'a'), (0, 'b'), (3, 'c')];
        let picked: Vec<_> = (0..200).map(|_| *chance.pick(&choices)).collect();
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
