//! Random numbers from a seed, the same on every machine.

use std::ops::Range;

/// A generator (splitmix64).
#[derive(Clone, Copy)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns a multiple of `unit`, with a factor from the range.
    pub fn amount(&mut self, times: Range<usize>, unit: i64) -> i64 {
        let times = times.start + self.below(times.len());
        unit * i64::try_from(times).unwrap()
    }

    /// Returns one of the items, or `None` if there are none.
    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len())].clone())
    }
}
