//! A series: the amounts of one queue, user or node over time, in few bytes.
//!
//! # Format
//! A series is a list of records, one for each sample that differs from the sample before. A record
//! is the number of ticks since the last record, a mask of the amounts that changed (zero: the
//! subject appeared or disappeared), and the difference of each of them. Numbers have a variable
//! length, and a difference is a multiple of a unit (1, 1,000, 1 Mi or 1 Gi), because amounts are
//! mostly whole cores and whole GiB. So a change takes 2 to 3 bytes for each amount, and a sample
//! without a change none.
//!
//! # Invariants
//! * Records are in ascending order of their ticks.
//! * A rewritten series has at each kept tick the same amounts as before.

/// Most amounts of one subject: as many as a mask has bits. Further ones are not kept.
const KEYS_MAX: usize = 64;
/// Largest amount, well above those that the scheduler accepts.
const AMOUNT_MAX: i64 = 1 << 54;
/// Units of differences, the smallest first.
const UNITS: [i64; 4] = [1, 1_000, 1 << 20, 1 << 30];
/// Bytes that most records fit into.
const RECORD: usize = 24;

/// The meaning of an amount. The order is that of the bits of a mask, and the rare changes are last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Meaning {
    Used,
    Waiting,
    Guaranteed,
    /// One more than the limit; zero where there is none.
    Maximum,
}

/// An amount of a subject: its meaning, and the number of its resource type.
pub(super) type Key = (Meaning, u16);

/// The amounts of one subject over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// The amounts that ever occurred, in the order of the bits of masks.
    keys: Vec<Key>,
    /// The amounts after the last record, in the order of `keys`.
    now: Vec<i64>,
    /// Whether the subject exists after the last record.
    is_present: bool,
    /// Tick of the first record.
    first: u32,
    /// Tick of the last record.
    last: u32,
    /// Tick of the last sample that had the subject.
    seen: u32,
    bytes: Vec<u8>,
}

impl Series {
    /// Returns the amounts that ever occurred.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether the series has nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Tick of the first record.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Tick of the last sample that had the subject.
    pub(super) fn seen(&self) -> u32 {
        self.seen
    }

    /// Counts the bytes on the heap, with the eighth by which allocators round up.
    pub(super) fn n_bytes(&self) -> usize {
        let keys = self.keys.capacity() * size_of::<Key>();
        let bytes = keys + self.now.capacity() * size_of::<i64>() + self.bytes.capacity();
        bytes + bytes / 8
    }

    /// Adds a sample. Amounts that are not in it are zero.
    pub(super) fn add(&mut self, tick: u32, amounts: &[(Key, i64)]) {
        self.seen = tick;
        let mut values = vec![0; self.keys.len()];
        for (key, amount) in amounts {
            let at = self.keys.iter().position(|known| known == key);
            if at.is_none() && self.keys.len() == KEYS_MAX {
                continue;
            }
            let at = at.unwrap_or_else(|| {
                self.keys.push(*key);
                self.now.push(0);
                values.push(0);
                values.len() - 1
            });
            values[at] = (*amount).clamp(-AMOUNT_MAX, AMOUNT_MAX);
        }
        self.record(tick, true, &values);
    }

    /// Notes that the subject does not exist from this tick on, or that nothing is known of it.
    pub(super) fn end(&mut self, tick: u32) {
        self.record(tick, false, &[]);
    }

    /// Adds a record if anything differs from the last one.
    fn record(&mut self, tick: u32, is_present: bool, values: &[i64]) {
        let changed = self.now.iter().zip(values).enumerate();
        let changed = changed.filter(|(_, (before, value))| before != value);
        let mask = changed.fold(0_u64, |mask, (at, _)| mask | 1 << at);
        // The amounts of an absent subject do not matter.
        let mask = if is_present { mask } else { 0 };
        if is_present == self.is_present && mask == 0 {
            return;
        }
        if self.bytes.is_empty() {
            (self.first, self.last) = (tick, tick);
        }
        if self.bytes.capacity() - self.bytes.len() < RECORD {
            self.bytes.reserve_exact(RECORD + self.bytes.len() / 8);
        }
        write(&mut self.bytes, u64::from(tick.saturating_sub(self.last)));
        write(&mut self.bytes, mask);
        for (at, value) in values.iter().enumerate().filter(|(at, _)| mask & 1 << at != 0) {
            write(&mut self.bytes, packed(value - self.now[at]));
            self.now[at] = *value;
        }
        (self.last, self.is_present) = (tick, is_present);
    }

    /// Shows each record in order: its tick, whether the subject exists, and the amounts from then
    /// on.
    pub(super) fn replay(&self, mut show: impl FnMut(u32, bool, &[i64])) {
        let (mut rest, mut tick, mut is_present) = (&self.bytes[..], self.first, false);
        let mut values = vec![0; self.keys.len()];
        while !rest.is_empty() {
            tick += u32::try_from(read(&mut rest)).unwrap_or(0);
            let mut mask = read(&mut rest);
            is_present = mask != 0 || !is_present;
            while mask != 0 {
                let at = mask.trailing_zeros() as usize;
                values[at] += unpacked(read(&mut rest));
                mask &= mask - 1;
            }
            show(tick, is_present, &values);
        }
    }

    /// Drops all samples before `cut`, and keeps one of `step(tick)` later samples: those whose
    /// tick is a multiple of it. Steps are powers of two that do not grow with the tick.
    pub(super) fn rewrite(&mut self, cut: u32, step: impl Fn(u32) -> u32) {
        let (keys, now) = (self.keys.clone(), vec![0; self.keys.len()]);
        let mut kept = Self { keys, now, seen: self.seen, ..Self::default() };
        // Returns the first kept tick from this one on. It may be of a finer step than this one.
        let aligned = |from: u32| {
            let mut later = from.max(cut)..u32::MAX;
            later.find(|tick| tick % step(*tick) == 0).unwrap_or(u32::MAX)
        };
        let mut before: Option<(u32, bool)> = None;
        let mut values = vec![0; self.keys.len()];
        self.replay(|tick, is_present, now| {
            if let Some((from, was_present)) = before {
                let kept_at = aligned(from);
                if kept_at < tick {
                    kept.record(kept_at, was_present, &values);
                }
            }
            before = Some((tick, is_present));
            values.copy_from_slice(now);
        });
        if let Some((from, is_present)) = before {
            kept.record(aligned(from), is_present, &values);
        }
        kept.bytes.shrink_to_fit();
        *self = kept;
    }
}

/// Packs a difference: its unit in the two lowest bits, its sign in the third.
fn packed(difference: i64) -> u64 {
    let unit = UNITS.iter().rposition(|unit| difference % unit == 0).unwrap_or(0);
    let count = difference / UNITS[unit];
    count.unsigned_abs() << 3 | u64::from(count < 0) << 2 | unit as u64
}

fn unpacked(packed: u64) -> i64 {
    let count = i64::try_from(packed >> 3).unwrap_or(0) * UNITS[(packed & 3) as usize];
    if packed & 4 == 0 { count } else { -count }
}

/// Writes a number, seven bits to the byte, the lowest first.
fn write(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [lowest, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(lowest);
        }
        bytes.push(lowest | 0x80);
    }
}

fn read(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((first, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VCORE: Key = (Meaning::Used, 0);
    const MEMORY: Key = (Meaning::Used, 1);

    /// Returns the amounts at each tick up to `end`; `None` where the subject does not exist.
    fn at_each_tick(series: &Series, end: u32) -> Vec<Option<Vec<i64>>> {
        let mut all = vec![None; end as usize];
        series.replay(|tick, is_present, values| {
            let state = is_present.then(|| values.to_vec());
            all[tick as usize..].fill(state);
        });
        all
    }

    #[test]
    fn a_sample_without_change_takes_no_byte() {
        let mut series = Series::default();
        series.add(1, &[(VCORE, 5_000), (MEMORY, 7 << 30)]);
        let bytes = series.bytes.len();
        assert_eq!(bytes, 4, "ticks, mask, and a byte for each amount");
        for tick in 2..1_000 {
            series.add(tick, &[(VCORE, 5_000), (MEMORY, 7 << 30)]);
        }
        assert_eq!((series.bytes.len(), series.seen()), (bytes, 999));
    }

    #[test]
    fn absence_is_told_from_zero() {
        let mut series = Series::default();
        series.add(1, &[(VCORE, 5)]);
        series.add(2, &[]);
        series.end(3);
        series.add(4, &[]);
        series.add(5, &[(MEMORY, -1), (VCORE, 5)]);
        let states = at_each_tick(&series, 6);
        let expected = [None, Some([5, 0]), Some([0, 0]), None, Some([0, 0]), Some([5, -1])];
        assert_eq!(states, expected.map(|state| state.map(|values| values.to_vec())));
    }

    #[test]
    fn amounts_beyond_the_mask_are_left_out() {
        let mut series = Series::default();
        let all: Vec<_> = (0..70).map(|at| ((Meaning::Used, at), i64::from(at) + 1)).collect();
        series.add(0, &all);
        assert_eq!(series.keys().len(), KEYS_MAX);
        assert_eq!(at_each_tick(&series, 1)[0].as_ref().unwrap()[63], 64);
    }

    /// Samples of ticks 0 to n: amounts, or `None` where the subject does not exist.
    fn samples() -> impl Strategy<Value = Vec<Option<(i64, i64)>>> {
        let amount = prop_oneof![0..4_i64, (0..9_i64).prop_map(|n| n << 30), any::<i64>()];
        let sample = proptest::option::weighted(0.9, (0..3_i64, amount));
        proptest::collection::vec(sample, 1..120)
    }

    fn series_of(samples: &[Option<(i64, i64)>]) -> Series {
        let mut series = Series::default();
        for (tick, sample) in (0..).zip(samples) {
            match sample {
                Some((vcore, memory)) => series.add(tick, &[(VCORE, *vcore), (MEMORY, *memory)]),
                None => series.end(tick),
            }
        }
        series
    }

    proptest! {
        #[test]
        fn every_sample_is_read_as_it_was_written(samples in samples()) {
            let series = series_of(&samples);
            let read = at_each_tick(&series, 200);
            let clamped = |n: i64| n.clamp(-AMOUNT_MAX, AMOUNT_MAX);
            for (sample, read) in samples.iter().zip(read) {
                prop_assert_eq!(sample.map(|(a, b)| vec![a, clamped(b)]), read);
            }
        }

        #[test]
        fn a_rewritten_series_has_every_kept_sample(
            samples in samples(), cut in 0..60_u32, coarse in 0..120_u32
        ) {
            let mut series = series_of(&samples);
            let before = at_each_tick(&series, 200);
            let step = |tick: u32| if tick < coarse { 4 } else { 1 };
            series.rewrite(cut, step);
            let after = at_each_tick(&series, 200);
            for tick in cut..200 {
                if tick % step(tick) == 0 {
                    prop_assert_eq!(&before[tick as usize], &after[tick as usize], "{}", tick);
                }
            }
        }
    }
}
