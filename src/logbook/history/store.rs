//! The bounded store of all series: what is kept of queues and users, and of nodes.
//!
//! # When it does not fit
//! The kind of subjects that takes most bytes loses resolution, a level at a time. At level *n* the
//! samples of the older half of the time are kept once in 2ⁿ ticks, of the quarter after it once in
//! 2ⁿ⁻¹, and so on; the latest 1/2ⁿ of the time keeps all of them. Where the last level does not
//! suffice, subjects are left out, the last ones by name. Where all series together take less than
//! half of the bound again, each kind gets a level back at its next rewrite, for its later samples.
//!
//! # Invariants
//! * After each sample the store takes at most `bound` bytes. Each allocation is counted, with an
//!   estimate for the nodes of the tree.
//! * A subject that does not change takes no byte per sample.
//! * No series is ahead of the clock by more than a few ticks. When the clock goes back further,
//!   such series are dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::series::{Key, Meaning, Series};

/// Most names of resource types. Amounts of further ones are not kept.
const NAMES_MAX: usize = 4_096;
/// Missed samples in a row that count as unchanged: a sample may be late. After more, nothing is
/// known of the time between.
const MISSED_MAX: u32 = 3;
/// Part of the reach after which series are rewritten, so as to drop old samples.
const REWRITTEN: u32 = 16;

/// The kind of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistorySubject {
    /// A queue.
    Queue,
    /// A user.
    User,
    /// A node.
    Node,
}

/// A subject at one time.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) amounts: Vec<(Meaning, Arc<str>, i64)>,
}

/// The series of all kinds.
#[derive(Debug)]
pub(super) struct Store {
    /// Most bytes.
    bound: usize,
    names: Names,
    ledgers: [Ledger; 3],
}

/// The series of one kind.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Seconds of a tick.
    pub(super) period: u32,
    /// Number of ticks that are kept.
    pub(super) reach: u32,
    /// Thinning level; 0 keeps every sample.
    level: u32,
    /// Tick of the last rewrite of all series.
    rewritten: u32,
    /// Bytes of all shelves.
    bytes: usize,
    /// The series by partition.
    shelves: BTreeMap<Box<str>, Shelf>,
}

/// The series of one kind in one partition.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Tick of the last sample.
    pub(super) sampled: u32,
    pub(super) series: BTreeMap<Box<str>, Series>,
}

/// The resource types, by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u16>,
}

impl Names {
    /// Returns the name of a number.
    pub(super) fn name(&self, number: u16) -> &Arc<str> {
        &self.all[usize::from(number)]
    }

    /// Returns the number of a name, a new one if need be. `None` if there are too many.
    fn number(&mut self, name: &Arc<str>) -> Option<u16> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if self.all.len() == NAMES_MAX {
            return None;
        }
        let number = u16::try_from(self.all.len()).ok()?;
        // Owned here alone, so that a name of the scheduler is not kept longer than it is in use.
        let own: Arc<str> = Arc::from(&**name);
        self.all.push(Arc::clone(&own));
        self.numbers.insert(own, number);
        Some(number)
    }

    /// Estimates the bytes on the heap.
    fn n_bytes(&self) -> usize {
        self.all.iter().map(|name| 2 * name.len() + 80).sum()
    }
}

/// Estimates the bytes of a series with its place in the tree.
fn cost(name: &str, series: &Series) -> usize {
    // Nodes of the tree are two thirds full; each of four allocations has a header.
    size_of::<(Box<str>, Series)>() * 3 / 2 + 4 * 16 + name.len() + series.n_bytes()
}

/// Whether a sample is of a time so far ahead of `tick` that the clock must have gone back.
fn is_ahead(sampled: u32, tick: u32) -> bool {
    sampled > tick.saturating_add(MISSED_MAX)
}

impl Ledger {
    /// A ledger with a tick of `period` seconds that keeps `seconds`.
    fn new(period: u32, seconds: u32) -> Self {
        let reach = (seconds / period).max(1);
        Self { period, reach, level: 0, rewritten: 0, bytes: 0, shelves: BTreeMap::new() }
    }

    /// Returns the series of a partition.
    pub(super) fn shelf(&self, partition: &str) -> Option<&Shelf> {
        self.shelves.get(partition)
    }

    /// Returns the tick of the last sample of a partition. `None` if there is none, or if it is
    /// ahead of `tick` because the clock went back.
    pub(super) fn last(&self, partition: &str, tick: u32) -> Option<u32> {
        let last = self.shelf(partition)?.sampled;
        (!is_ahead(last, tick)).then_some(last)
    }

    /// Drops the series of partitions that were sampled at a time ahead of `tick`.
    fn drop_ahead(&mut self, tick: u32) {
        let bytes = &mut self.bytes;
        self.shelves.retain(|_, shelf| {
            let is_kept = !is_ahead(shelf.sampled, tick);
            if !is_kept {
                let costs = shelf.series.iter().map(|(name, series)| cost(name, series));
                *bytes -= costs.sum::<usize>();
            }
            is_kept
        });
        self.rewritten = self.rewritten.min(tick);
    }

    /// The last level: one sample of the older half is left.
    fn level_max(&self) -> u32 {
        self.reach.ilog2().saturating_sub(1)
    }

    /// Drops old samples of all series, and keeps the others as the level says.
    fn rewrite(&mut self, now: u32) {
        let (reach, level) = (self.reach, self.level);
        let step = move |tick: u32| {
            let age = now.saturating_sub(tick).max(1);
            // The part of the reach, in halves, in which samples of this age are.
            let halves = (reach / age).checked_ilog2().unwrap_or(0);
            1 << level.saturating_sub(halves)
        };
        let cut = now.saturating_sub(reach);
        let mut bytes = 0;
        self.shelves.retain(|_, shelf| shelf.sampled >= cut);
        for shelf in self.shelves.values_mut() {
            shelf.series.retain(|name, series| {
                series.rewrite(cut, step);
                let is_kept = !series.is_empty();
                bytes += if is_kept { cost(name, series) } else { 0 };
                is_kept
            });
        }
        (self.bytes, self.rewritten) = (bytes, now);
    }

    /// Drops the last series. Returns `false` if there is none.
    fn drop_last(&mut self) -> bool {
        for shelf in self.shelves.values_mut().rev() {
            if let Some((name, series)) = shelf.series.pop_last() {
                self.bytes -= cost(&name, &series);
                return true;
            }
        }
        false
    }

    /// Returns the shelf of a partition for a sample at `tick`. Where samples are missing before
    /// it, the time between is unknown.
    fn sampled(&mut self, partition: &str, tick: u32) -> &mut Shelf {
        let of_partition = self.shelves.entry(partition.into()).or_default();
        if of_partition.sampled + MISSED_MAX < tick {
            for (name, series) in &mut of_partition.series {
                self.bytes -= cost(name, series);
                series.end(of_partition.sampled + 1);
                self.bytes += cost(name, series);
            }
        }
        of_partition.sampled = tick;
        of_partition
    }
}

impl Store {
    /// A store of at most `bound` bytes. Queues and users are sampled once in `period` seconds and
    /// kept for a day, nodes once in four times as many and kept for an hour.
    pub(super) fn new(bound: usize, period: u32) -> Self {
        const DAY: u32 = 86_400;
        let period = period.clamp(1, DAY);
        let (day, hour) = (Ledger::new(period, DAY), Ledger::new(4 * period, DAY / 24));
        let ledgers = [day, Ledger::new(period, DAY), hour];
        Self { bound, names: Names::default(), ledgers }
    }

    /// Returns the series of a kind.
    pub(super) fn ledger(&self, kind: HistorySubject) -> &Ledger {
        &self.ledgers[kind as usize]
    }

    /// Returns the names of resource types.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Estimates the bytes on the heap.
    pub(super) fn n_bytes(&self) -> usize {
        self.names.n_bytes() + self.ledgers.iter().map(|ledger| ledger.bytes).sum::<usize>()
    }

    /// Adds a sample of all subjects of a kind in a partition. Subjects that are not in it do not
    /// exist any more.
    pub(super) fn sample(
        &mut self,
        kind: HistorySubject,
        partition: &str,
        tick: u32,
        rows: &[Row],
    ) {
        self.ledgers[kind as usize].drop_ahead(tick);
        let room = self.bound.saturating_sub(self.n_bytes());
        let ledger = &mut self.ledgers[kind as usize];
        let is_last_level = ledger.level == ledger.level_max();
        let mut bytes = 0_usize;
        let of_partition = ledger.sampled(partition, tick);
        let mut amounts: Vec<(Key, i64)> = Vec::new();
        for row in rows {
            let keyed = row.amounts.iter().filter_map(|(meaning, name, amount)| {
                let amount = amount.saturating_add(i64::from(*meaning == Meaning::Maximum));
                Some(((*meaning, self.names.number(name)?), amount))
            });
            amounts.clear();
            amounts.extend(keyed);
            amounts.sort_unstable_by_key(|(key, _)| *key);
            if let Some(series) = of_partition.series.get_mut(&*row.name) {
                let before = series.n_bytes();
                series.add(tick, &amounts);
                // Series only grow here.
                bytes += series.n_bytes() - before;
                continue;
            }
            let mut series = Series::default();
            series.add(tick, &amounts);
            let cost = cost(&row.name, &series);
            // No level is left to make room for further subjects.
            if is_last_level && bytes + cost > room {
                continue;
            }
            bytes += cost;
            of_partition.series.insert(row.name.as_str().into(), series);
        }
        for series in of_partition.series.values_mut().filter(|series| series.seen() != tick) {
            let before = series.n_bytes();
            series.end(tick);
            bytes += series.n_bytes() - before;
        }
        ledger.bytes += bytes;
        self.tidy(kind, tick);
    }

    /// Adds a sample that is equal to the last one, whenever that was.
    pub(super) fn repeat(&mut self, kind: HistorySubject, partition: &str, tick: u32) {
        if let Some(of_partition) = self.ledgers[kind as usize].shelves.get_mut(partition) {
            of_partition.sampled = tick;
        }
        self.tidy(kind, tick);
    }

    /// Drops old samples when it is time, and makes the store fit its bound.
    fn tidy(&mut self, kind: HistorySubject, tick: u32) {
        let seconds = u64::from(tick) * u64::from(self.ledgers[kind as usize].period);
        let is_small = self.n_bytes() < self.bound / 2;
        let ledger = &mut self.ledgers[kind as usize];
        if tick.saturating_sub(ledger.rewritten) >= (ledger.reach / REWRITTEN).max(1) {
            ledger.level = ledger.level.saturating_sub(u32::from(is_small));
            ledger.rewrite(tick);
        }
        while self.n_bytes() > self.bound {
            let largest = self.ledgers.iter_mut().max_by_key(|ledger| ledger.bytes);
            let Some(largest) = largest else { return };
            if largest.level < largest.level_max() {
                largest.level += 1;
                let now = seconds / u64::from(largest.period);
                largest.rewrite(u32::try_from(now).unwrap_or(u32::MAX));
            } else if !largest.drop_last() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::points::{self, Range, SubjectHistory};
    use super::*;

    fn row(name: &str, amounts: &[(Meaning, &str, i64)]) -> Row {
        let amounts = amounts.iter().map(|(meaning, name, n)| (*meaning, Arc::from(*name), *n));
        Row { name: name.to_owned(), amounts: amounts.collect() }
    }

    /// A row whose amounts differ from those of most other ticks.
    fn busy(kind: HistorySubject, at: u32, tick: u32) -> Row {
        let part = |of: u32| i64::from((tick.wrapping_mul(7_919) ^ at.wrapping_mul(104_729)) % of);
        let limits =
            [(Meaning::Maximum, "memory", 512 << 30), (Meaning::Maximum, "vcore", 128_000)];
        let mut amounts = vec![
            (Meaning::Used, "memory", part(512) << 30),
            (Meaning::Used, "vcore", part(128) * 1_000),
        ];
        if kind == HistorySubject::Queue {
            amounts.push((Meaning::Waiting, "memory", part(97) << 30));
            amounts.push((Meaning::Waiting, "vcore", part(113) * 1_000));
            amounts.push((Meaning::Guaranteed, "memory", 64 << 30));
        }
        amounts.extend(limits);
        row(&format!("{kind:?}-with-a-usual-name-{at:05}"), &amounts)
    }

    /// Samples a cluster in which everything changes all the time.
    fn cluster(store: &mut Store, (queues, users, nodes): (u32, u32, u32), ticks: u32) {
        for tick in 1_000..1_000 + ticks {
            for (kind, n) in [(HistorySubject::Queue, queues), (HistorySubject::User, users)] {
                let rows: Vec<Row> = (0..n).map(|at| busy(kind, at, tick)).collect();
                store.sample(kind, "[rm]default", tick, &rows);
            }
            if tick % 4 == 0 && tick + 300 > 1_000 + ticks {
                let rows: Vec<Row> =
                    (0..nodes).map(|at| busy(HistorySubject::Node, at, tick)).collect();
                store.sample(HistorySubject::Node, "[rm]default", tick / 4, &rows);
            }
            assert!(store.n_bytes() <= store.bound, "{} at {tick}", store.n_bytes());
        }
    }

    fn read(store: &Store, kind: HistorySubject, at: u32) -> SubjectHistory {
        let range = Range { from: None, to: None, points: 1_000 };
        let name = busy(kind, at, 0).name;
        points::read(store, kind, ("[rm]default", &name), &range).unwrap()
    }

    /// A fiftieth of 1,000 queues, 1,000 users and 10,000 nodes, in a fiftieth of 64 MiB.
    #[test]
    fn a_day_of_a_busy_cluster_fits() {
        let mut store = Store::new((64 << 20) / 50, 15);
        cluster(&mut store, (20, 20, 200), 5_760);
        let levels = store.ledgers.each_ref().map(|ledger| ledger.level);
        assert!(levels.iter().all(|level| *level <= 3), "{levels:?}");
        for at in [0, 19] {
            let queue = read(&store, HistorySubject::Queue, at);
            let points = u32::try_from(queue.times.len()).unwrap();
            assert_eq!(points * queue.point_seconds / 86_400, 1);
            assert_eq!(queue.amounts.len(), 7);
        }
        assert_eq!(read(&store, HistorySubject::Node, 199).times.len(), 60);
    }

    #[test]
    fn a_quiet_cluster_takes_almost_nothing() {
        let mut store = Store::new(1 << 20, 15);
        let rows = [busy(HistorySubject::Queue, 0, 1)];
        store.sample(HistorySubject::Queue, "p", 1, &rows);
        let bytes = store.n_bytes();
        for tick in 2..9_000 {
            match tick % 2 {
                0 => store.sample(HistorySubject::Queue, "p", tick, &rows),
                _ => store.repeat(HistorySubject::Queue, "p", tick),
            }
        }
        assert!(store.n_bytes() <= bytes, "{} {bytes}", store.n_bytes());
    }

    #[test]
    fn the_latest_samples_are_exact_where_older_ones_are_thinned() {
        let mut store = Store::new(20_000, 15);
        cluster(&mut store, (2, 0, 0), 5_760);
        assert!(store.ledger(HistorySubject::Queue).level > 1);
        let now = 1_000 + 5_760 - 1;
        let range = Range { from: Some(i64::from(now - 8) * 15), to: None, points: 1_000 };
        let name = busy(HistorySubject::Queue, 1, 0).name;
        let read =
            points::read(&store, HistorySubject::Queue, ("[rm]default", &name), &range).unwrap();
        let used =
            read.amounts.iter().find(|one| (one.amount, &*one.resource) == ("used", "vcore"));
        let exact =
            (now - 8..=now).map(|tick| Some(busy(HistorySubject::Queue, 1, tick).amounts[1].2));
        assert_eq!(used.unwrap().mean, exact.collect::<Vec<_>>());
    }

    #[test]
    fn subjects_that_are_gone_are_dropped_after_the_reach() {
        let mut store = Store::new(1 << 20, 3_600);
        let both = [busy(HistorySubject::User, 0, 1), busy(HistorySubject::User, 1, 1)];
        store.sample(HistorySubject::User, "p", 100, &both);
        let n = |store: &Store| {
            store.ledger(HistorySubject::User).shelf("p").map(|shelf| shelf.series.len())
        };
        for tick in 101..125 {
            store.sample(HistorySubject::User, "p", tick, &both[..1]);
            assert_eq!(n(&store), Some(2), "{tick}");
        }
        store.sample(HistorySubject::User, "p", 126, &both[..1]);
        assert_eq!(n(&store), Some(1));
        // Another partition goes on when this one is not sampled any more.
        store.sample(HistorySubject::User, "other", 200, &[]);
        assert_eq!(n(&store), None);
        assert!(store.n_bytes() < 1_000);
    }

    #[test]
    fn series_of_a_time_ahead_are_dropped() {
        let mut store = Store::new(1 << 20, 15);
        let rows = [busy(HistorySubject::Queue, 0, 1)];
        for partition in ["p", "other"] {
            store.sample(HistorySubject::Queue, partition, 9_000, &rows);
        }
        let ledger = store.ledger(HistorySubject::Queue);
        assert_eq!(ledger.last("p", 9_000 - MISSED_MAX), Some(9_000));
        assert_eq!(ledger.last("p", 5_000), None);
        store.sample(HistorySubject::Queue, "p", 5_000, &rows);
        store.repeat(HistorySubject::Queue, "p", 5_001);
        let ledger = store.ledger(HistorySubject::Queue);
        assert_eq!((ledger.last("p", 5_001), ledger.rewritten), (Some(5_001), 5_000));
        assert!(ledger.shelf("other").is_none());
        let bytes = ledger.shelf("p").unwrap().series.iter().map(|(name, one)| cost(name, one));
        assert_eq!(ledger.bytes, bytes.sum::<usize>());
        let range = Range { from: None, to: None, points: 1_000 };
        let of = ("p", &*rows[0].name);
        let read = points::read(&store, HistorySubject::Queue, of, &range).unwrap();
        assert_eq!(read.times, [5_000, 5_001].map(|tick: i64| tick * 15_000_000_000));
    }

    proptest! {
        #[test]
        fn the_bound_holds_for_any_samples(
            bound in 0..30_000_usize,
            samples in proptest::collection::vec(
                (0..3_usize, 1..400_u32, proptest::collection::vec((0..40_u32, any::<u32>()), 0..40)),
                0..40,
            ),
        ) {
            let mut store = Store::new(bound, 600);
            // The table of names is part of the bytes, and is not dropped.
            store.sample(HistorySubject::User, "p", 1, &[busy(HistorySubject::Queue, 0, 0)]);
            let names = store.names.n_bytes();
            let mut now = 100;
            for (kind, later, subjects) in samples {
                now += later;
                let kinds = [HistorySubject::Queue, HistorySubject::User, HistorySubject::Node];
                let kind = kinds[kind];
                let rows: Vec<Row> = subjects.iter().map(|(at, tick)| busy(kind, *at, *tick)).collect();
                let tick = now / (store.ledger(kind).period / 600);
                store.sample(kind, "p", tick, &rows);
                prop_assert!(store.n_bytes() <= bound.max(names), "{} {bound}", store.n_bytes());
                let bytes = |ledger: &Ledger| -> usize {
                    let all = ledger.shelves.values().flat_map(|shelf| &shelf.series);
                    all.map(|(name, series)| cost(name, series)).sum()
                };
                for ledger in &store.ledgers {
                    prop_assert_eq!(ledger.bytes, bytes(ledger));
                }
            }
        }
    }
}
