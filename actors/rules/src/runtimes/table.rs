//! The rows of run times, and the estimates that are read from them.

use std::sync::Arc;
use std::time::Duration;

use super::class::{RowKey, Whose};
use super::histogram::{Histogram, mark_of};
use super::image::{CopiedRow, RunTimesImage};
use super::run::Run;
use crate::values::hashing::SeededMap;
use crate::values::resources::Resources;
use crate::values::slots::Slots;

/// The most classes that the settings may allow.
pub const CLASSES_MAX: usize = 100_000;

/// The number of classes that are compared before one of them is replaced.
const SAMPLED: usize = 16;
/// The least weight of ended runs for an estimate: one run in the last half-life, or two in the one
/// before it.
const ENOUGH: f64 = 0.5;
/// The number of half-lives after which all weights are computed again. Later, the weight of a new run
/// would leave the range of a number.
const LONGEST: f64 = 512.0;
/// The number of times in a half-life that the weight of a new run is computed.
const STEPS: u32 = 1_024;
/// The shortest half-life.
const SHORTEST: Duration = Duration::from_secs(1);
/// The most classes that a [`ClassCache`] has.
const CACHED: usize = 8;

/// Settings of the measurement of run times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimeSettings {
    /// The time after which a run counts half.
    pub half_life: Duration,
    /// The most classes; at least one.
    pub classes: usize,
}

impl Default for RunTimeSettings {
    fn default() -> Self {
        Self { half_life: Duration::from_secs(7 * 24 * 3_600), classes: 10_000 }
    }
}

crate::slot! {
    /// The slot of a row.
    struct RunRow;
}

/// A row: run times with their name.
#[derive(Clone, Debug)]
struct Row {
    key: Arc<RowKey>,
    /// The number of the row, which no other row has or had.
    number: u64,
    /// The next wider row; `None` for the widest.
    wider: Option<RunRow>,
    /// The number of rows that have this one as the next wider row.
    n_narrower: usize,
    histogram: Histogram,
}

/// A class. It is known by its number that its row was not given to another one since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunClass {
    row: RunRow,
    number: u64,
}

/// The classes of the allocations of one application that ended last, so that they need not be looked
/// up by name.
#[derive(Clone, Debug, Default)]
pub struct ClassCache {
    stem: Option<Arc<str>>,
    classes: Vec<(Arc<Resources>, RunClass)>,
}

/// The row from which an estimate is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// That of the class.
    Class,
    /// That of the user in the queue.
    User,
    /// That of the queue.
    Queue,
    /// That of all.
    All,
}

/// Run times that are expected of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate<'a> {
    /// The row that they are those of.
    pub basis: Basis,
    /// The run times.
    pub histogram: &'a Histogram,
}

/// The run times of a partition.
#[derive(Clone, Debug)]
pub struct RunTimes {
    rows: Slots<RunRow, Row>,
    by_key: SeededMap<Arc<RowKey>, RunRow>,
    /// The widest row.
    all: RunRow,
    n_classes: usize,
    most: usize,
    half_life: Duration,
    /// The time at which a new run counts 1, ns since the epoch.
    since_ns: i64,
    /// The weight of a new run until `weight_until_ns`.
    weight: f64,
    weight_until_ns: i64,
    /// The slot of the class that was compared last.
    cursor: u32,
    n_made: u64,
    n_counted: u64,
}

impl RunTimes {
    /// Begins at a time, ns since the epoch, without any run.
    pub fn new(settings: RunTimeSettings, now_ns: i64) -> Self {
        let mut rows = Slots::default();
        let key = Arc::new(RowKey::default());
        let histogram = Histogram::default();
        let all = Row { key: Arc::clone(&key), number: 0, wider: None, n_narrower: 0, histogram };
        let all = rows.insert(all);
        Self {
            rows,
            by_key: [(key, all)].into_iter().collect(),
            all,
            n_classes: 0,
            most: settings.classes.max(1),
            half_life: settings.half_life.max(SHORTEST),
            since_ns: now_ns,
            weight: 1.0,
            weight_until_ns: i64::MIN,
            cursor: 0,
            n_made: 0,
            n_counted: 0,
        }
    }

    /// Continues from an image. If it has more classes than the settings allow, those with the least
    /// weight are left out.
    pub fn restored(settings: RunTimeSettings, image: &RunTimesImage) -> Self {
        let mut run_times = Self::new(settings, image.at_ns());
        let classes = image.rows().iter().filter(|(key, _)| key.is_class());
        let mut classes: Vec<_> =
            classes.map(|(key, histogram)| (histogram.weight(), key)).collect();
        classes.sort_by(|(one, key), (other, other_key)| {
            other.total_cmp(one).then_with(|| key.cmp(other_key))
        });
        for (_, key) in classes.into_iter().take(run_times.most) {
            run_times.class_named(RowKey::clone(key));
        }
        for (key, histogram) in image.rows() {
            if let Some(row) = run_times.by_key.get(key) {
                run_times.rows[*row].histogram.clone_from(histogram);
            }
        }
        run_times
    }

    /// Returns copies of the rows at this time, ns since the epoch, from the place `from` on: 0, or
    /// one more than the place of the row that was copied last.
    pub fn copies(&self, from: usize, now_ns: i64) -> impl Iterator<Item = CopiedRow> + '_ {
        let unit = self.weight_at(now_ns);
        (from..self.rows.bound()).filter_map(move |place| {
            let row = self.rows.find(RunRow::at(u32::try_from(place).ok()?))?;
            let (key, histogram) = (Arc::clone(&row.key), row.histogram.clone());
            Some(CopiedRow { place, key, histogram, unit, at_ns: now_ns })
        })
    }

    /// The number of classes.
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }

    /// The number of runs that were counted since the start of the process.
    pub fn n_counted(&self) -> u64 {
        self.n_counted
    }

    /// The names of all rows, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<RowKey>> {
        self.rows.values().map(|row| &row.key)
    }

    /// Returns the weights of the ended runs of a row, and of those that lasted at least so long, at
    /// this time: the numbers of such runs if all had ended now. `None` if there is no such row.
    pub fn weights(&self, key: &RowKey, now_ns: i64) -> Option<(f64, f64)> {
        let histogram = &self.rows[*self.by_key.get(key)?].histogram;
        let (ended, unit) = (histogram.ended(), self.weight_at(now_ns));
        Some((ended / unit, (histogram.weight() - ended).max(0.0) / unit))
    }

    /// Returns the run times that are expected of a row's allocations: those of the narrowest row, from
    /// this one on, of which enough runs have ended. `None` if there is none.
    pub fn estimate(&self, key: &RowKey, now_ns: i64) -> Option<Estimate<'_>> {
        let unit = self.weight_at(now_ns);
        let keys = std::iter::successors(Some(key.clone()), RowKey::wider);
        for key in keys {
            let Some(row) = self.by_key.get(&key) else { continue };
            let histogram = &self.rows[*row].histogram;
            if histogram.ended() / unit >= ENOUGH {
                let basis = match (key.is_class(), key.user.is_some(), key.queue.is_some()) {
                    (true, ..) => Basis::Class,
                    (false, true, _) => Basis::User,
                    (false, false, true) => Basis::Queue,
                    (false, false, false) => Basis::All,
                };
                return Some(Estimate { basis, histogram });
            }
        }
        None
    }

    /// Counts a run that ends now, in its class and all wider rows.
    pub fn count(&mut self, whose: Whose<'_>, cache: &mut ClassCache, run: &Run<'_>, now_ns: i64) {
        self.renew_weight(now_ns);
        let known = cache.find(run.resources).filter(|class| self.is_there(*class));
        let class = known.unwrap_or_else(|| {
            let stem = cache.stem.get_or_insert_with(|| whose.stem());
            let class = self.class(whose.class(Arc::clone(stem), run.resources));
            cache.keep(run.resources, class);
            class
        });
        let (mark, mut next) = (mark_of(run.lasted), Some(class.row));
        while let Some(row) = next {
            let row = &mut self.rows[row];
            row.histogram.add_at(mark, run.length, self.weight);
            next = row.wider;
        }
        self.n_counted += 1;
    }

    fn is_there(&self, class: RunClass) -> bool {
        self.rows.find(class.row).is_some_and(|row| row.number == class.number)
    }

    /// Returns the class with this name. A new one replaces another if there are enough.
    fn class(&mut self, key: RowKey) -> RunClass {
        if !self.by_key.contains_key(&key) {
            while self.n_classes >= self.most {
                self.make_room();
            }
        }
        self.class_named(key)
    }

    /// Returns the class with this name, which is made if it is not there.
    fn class_named(&mut self, key: RowKey) -> RunClass {
        let n_made = self.n_made;
        let row = self.row(key);
        self.n_classes += usize::from(self.n_made > n_made);
        RunClass { row, number: self.rows[row].number }
    }

    /// Returns the row with this name. It is made if it is not there, and so are the wider ones.
    fn row(&mut self, key: RowKey) -> RunRow {
        if let Some(row) = self.by_key.get(&key) {
            return *row;
        }
        let wider = key.wider().map(|wider| self.row(wider));
        if let Some(wider) = wider {
            self.rows[wider].n_narrower += 1;
        }
        self.n_made += 1;
        let (key, number, histogram) = (Arc::new(key), self.n_made, Histogram::default());
        let row = Row { key: Arc::clone(&key), number, wider, n_narrower: 0, histogram };
        let row = self.rows.insert(row);
        self.by_key.insert(key, row);
        row
    }

    /// Removes the class with the least weight of the next [`SAMPLED`] ones.
    fn make_room(&mut self) {
        let bound = u32::try_from(self.rows.bound()).unwrap_or(u32::MAX);
        let (mut least, mut n_sampled): (Option<(f64, RunRow)>, _) = (None, 0);
        for _ in 0..bound {
            self.cursor = (self.cursor + 1) % bound;
            let slot = RunRow::at(self.cursor);
            let Some(row) = self.rows.find(slot).filter(|row| row.key.is_class()) else { continue };
            let weight = row.histogram.weight();
            if least.is_none_or(|(least, _)| weight < least) {
                least = Some((weight, slot));
            }
            n_sampled += 1;
            if n_sampled == SAMPLED {
                break;
            }
        }
        let (_, class) = least.expect("a table that is full has a class");
        self.remove(class);
    }

    /// Removes a class, and the wider rows that have no other one.
    fn remove(&mut self, class: RunRow) {
        let mut next = Some(class);
        while let Some(row) = next.filter(|row| self.rows[*row].n_narrower == 0) {
            let row = self.rows.remove(row);
            self.by_key.remove(&row.key);
            if let Some(wider) = row.wider {
                self.rows[wider].n_narrower -= 1;
            }
            next = row.wider.filter(|wider| *wider != self.all);
        }
        self.n_classes -= 1;
    }

    /// Returns the number of half-lives since a new run counted 1.
    fn age(&self, now_ns: i64) -> f64 {
        now_ns.saturating_sub(self.since_ns) as f64 / (self.half_life.as_secs_f64() * 1e9)
    }

    /// Returns the weight of a run that ends at this time.
    fn weight_at(&self, now_ns: i64) -> f64 {
        self.age(now_ns).min(2.0 * LONGEST - 1.0).exp2()
    }

    /// Computes the weight of new runs again, if it is older than a step.
    fn renew_weight(&mut self, now_ns: i64) {
        if now_ns < self.weight_until_ns {
            return;
        }
        let age = self.age(now_ns);
        if age > LONGEST {
            for row in self.rows.values_mut() {
                row.histogram.scale((-age).exp2());
            }
            self.since_ns = now_ns;
        }
        self.weight = self.weight_at(now_ns);
        let step = self.half_life / STEPS;
        let step_ns = i64::try_from(step.as_nanos()).unwrap_or(i64::MAX);
        self.weight_until_ns = now_ns.saturating_add(step_ns);
    }
}

impl ClassCache {
    /// Returns the class of allocations of this amount, if it is known.
    fn find(&self, resources: &Arc<Resources>) -> Option<RunClass> {
        let is_it = |known: &Arc<Resources>| Arc::ptr_eq(known, resources) || known == resources;
        self.classes.iter().find(|(known, _)| is_it(known)).map(|(_, class)| *class)
    }

    /// Keeps the class of allocations of this amount.
    fn keep(&mut self, resources: &Arc<Resources>, class: RunClass) {
        self.classes.retain(|(known, _)| known != resources);
        if self.classes.len() == CACHED {
            self.classes.remove(0);
        }
        self.classes.push((Arc::clone(resources), class));
    }
}
