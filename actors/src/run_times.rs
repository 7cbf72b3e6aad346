//! The run times of partitions, which outlive the partitions themselves.
//!
//! # Why a shelf
//! A resource manager that registers again gets new partitions, and a service that starts again reads
//! what was measured from a file. Both put the run times on a shelf, by the name of the partition;
//! the partition takes them when its first run ends. Until then, an earlier partition of the same
//! name may still be closing.
//!
//! # Invariants
//! * Run times are either on the shelf or in the baton of one partition. A baton that is dropped,
//!   whatever ends it, puts them back.
//! * The shelf has at most [`PARTITIONS_MAX`] entries, and ten times as many classes as the settings
//!   allow for a partition. The entry that was put there first goes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_rules::runtimes::{CopiedRow, RunTimeSettings, RunTimes, RunTimesImage};

/// The most entries of the shelf.
const PARTITIONS_MAX: usize = 256;
/// The most classes on the shelf, in multiples of those that one partition may have.
const SHARES: usize = 10;

/// The run times of partitions that are not there, or in which no run has ended yet.
#[derive(Clone, Debug)]
pub(crate) struct RunTimeShelf(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    settings: RunTimeSettings,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_partition: BTreeMap<Arc<str>, Entry>,
    n_put: u64,
}

#[derive(Debug)]
struct Entry {
    /// The number of this entry among all that were ever put there.
    number: u64,
    run_times: Box<RunTimes>,
}

/// The run times of the partition whose baton has them.
#[derive(Debug)]
pub(crate) struct MeasuredRuns {
    partition: Arc<str>,
    /// `None`: run times are not measured.
    shelf: Option<RunTimeShelf>,
    /// `None` until the first run has ended.
    run_times: Option<Box<RunTimes>>,
}

/// The run times of a partition, with its name `[rm]name`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunTimesOf {
    /// The name.
    pub partition: String,
    /// The run times.
    pub image: RunTimesImage,
}

impl RunTimeShelf {
    /// Builds a shelf with these run times.
    pub(crate) fn new(settings: RunTimeSettings, known: Vec<RunTimesOf>) -> Self {
        let entries = Mutex::default();
        let shelf = Self(Arc::new(Shelf { settings, entries }));
        for RunTimesOf { partition, image } in known {
            let run_times = Box::new(RunTimes::restored(settings, &image));
            shelf.put(Arc::from(partition), run_times);
        }
        shelf
    }

    pub(crate) fn settings(&self) -> RunTimeSettings {
        self.0.settings
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // An entry is put and taken in one step, so a poisoned lock is safe to use.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, partition: Arc<str>, run_times: Box<RunTimes>) {
        let mut entries = self.entries();
        entries.n_put += 1;
        let number = entries.n_put;
        entries.by_partition.insert(partition, Entry { number, run_times });
        let most = self.0.settings.classes.saturating_mul(SHARES);
        while entries.is_too_large(most) {
            entries.drop_first();
        }
    }

    /// Returns copies of the rows of a partition at this time, ns since the epoch; none if it is not
    /// on the shelf.
    pub(crate) fn copies(&self, partition: &str, now_ns: i64) -> Vec<CopiedRow> {
        let entries = self.entries();
        let entry = entries.by_partition.get(partition);
        entry.into_iter().flat_map(|entry| entry.run_times.copies(0, now_ns)).collect()
    }

    /// Returns each partition on the shelf, with the number of its runs that were counted.
    pub(crate) fn counted(&self) -> Vec<(Arc<str>, u64)> {
        let entries = self.entries();
        let counted = entries.by_partition.iter();
        counted.map(|(name, entry)| (Arc::clone(name), entry.run_times.n_counted())).collect()
    }
}

impl Entries {
    fn is_too_large(&self, most_classes: usize) -> bool {
        let n_classes: usize =
            self.by_partition.values().map(|entry| entry.run_times.n_classes()).sum();
        self.by_partition.len() > PARTITIONS_MAX || n_classes > most_classes
    }

    /// Removes the entry that was put first.
    fn drop_first(&mut self) {
        let first = self.by_partition.iter().min_by_key(|(_, entry)| entry.number);
        if let Some(name) = first.map(|(name, _)| Arc::clone(name)) {
            self.by_partition.remove(&name);
        }
    }
}

impl MeasuredRuns {
    /// The run times of a new partition. `shelf`: `None` if they are not measured.
    pub(crate) fn new(partition: Arc<str>, shelf: Option<RunTimeShelf>) -> Self {
        Self { partition, shelf, run_times: None }
    }

    /// Returns the run times, to count a run that ends now; `None` if they are not measured.
    #[inline]
    pub(crate) fn counting(&mut self, now_ns: i64) -> Option<&mut RunTimes> {
        let kept = self.shelf.as_ref()?;
        if self.run_times.is_none() {
            let earlier = kept.entries().by_partition.remove(&self.partition);
            let new = || Box::new(RunTimes::new(kept.settings(), now_ns));
            self.run_times = Some(earlier.map_or_else(new, |entry| entry.run_times));
        }
        self.run_times.as_deref_mut()
    }

    /// The run times; `None` if they are not measured, or no run of the partition has ended.
    pub(crate) fn get(&self) -> Option<&RunTimes> {
        self.run_times.as_deref()
    }
}

impl Drop for MeasuredRuns {
    fn drop(&mut self) {
        if let (Some(shelf), Some(run_times)) = (&self.shelf, self.run_times.take()) {
            shelf.put(Arc::clone(&self.partition), run_times);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use monoceros_rules::runtimes::{ClassCache, Run, RunLength, Whose};
    use monoceros_rules::values::resources::Resources;

    use super::*;

    fn shelf() -> RunTimeShelf {
        RunTimeShelf::new(RunTimeSettings { classes: 1, ..RunTimeSettings::default() }, Vec::new())
    }

    /// Counts a run of a new partition with this name. Returns the number of its runs until now.
    fn run(shelf: &RunTimeShelf, partition: &str) -> u64 {
        let mut runs = MeasuredRuns::new(Arc::from(partition), Some(shelf.clone()));
        assert!(runs.get().is_none());
        let (queue, user) = (Arc::from("root.a"), Arc::from("ada"));
        let whose = Whose { queue: &queue, user: &user, application: "a" };
        let resources = Arc::new(Resources::of(&[("vcore", 1)]));
        let lasted = Duration::from_secs(60);
        let run = Run { resources: &resources, lasted, length: RunLength::Whole };
        let run_times = runs.counting(5).unwrap();
        run_times.count(whose, &mut ClassCache::default(), &run, 5);
        run_times.n_counted()
    }

    #[test]
    fn a_partition_goes_on_with_what_one_of_its_name_has_measured() {
        let shelf = shelf();
        assert_eq!([run(&shelf, "[a]x"), run(&shelf, "[a]x"), run(&shelf, "[b]x")], [1, 2, 1]);
        assert_eq!(shelf.counted(), [(Arc::from("[a]x"), 2), (Arc::from("[b]x"), 1)]);
        assert_eq!(shelf.copies("[a]x", 5).len(), 4);
        assert!(shelf.copies("[c]x", 5).is_empty());
        let image = RunTimesImage::of(shelf.copies("[a]x", 5));
        let known = RunTimesOf { partition: "[c]x".to_owned(), image };
        let other = RunTimeShelf::new(shelf.settings(), vec![known]);
        assert_eq!(other.copies("[c]x", 5).len(), 4);
        assert!(MeasuredRuns::new(Arc::from("[a]x"), None).counting(5).is_none());
    }

    #[test]
    fn the_shelf_is_bounded_by_its_classes() {
        let shelf = shelf();
        for number in 0..SHARES + 2 {
            run(&shelf, &format!("[rm{number}]x"));
        }
        let left = shelf.counted();
        assert_eq!(left.len(), SHARES);
        assert!(left.iter().all(|(name, _)| !["[rm0]x", "[rm1]x"].contains(&&**name)), "{left:?}");
    }
}
