//! Run times: read for estimates, and to be kept for the next start.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::runtimes::{RunTimes, RunTimesImage};

use super::SchedulerHandle;
use super::slices::{ask, whole};
use crate::api::outcomes::ReadError;
use crate::front::rosters::PartitionEntry;
use crate::partition::surveys;
use crate::run_times::{RunTimeShelf, RunTimesOf};

impl SchedulerHandle {
    /// A copy of the run times of a partition, with the present time, ns since the epoch. `None`: they
    /// are not measured.
    pub async fn run_times(&self, partition: &str) -> Result<Option<(RunTimes, i64)>, ReadError> {
        let entry = self.find(partition)?;
        let Some(kept) = &self.run_times else { return Ok(None) };
        let image = self.image_of_runs(&entry).await?;
        let now_ns = self.clock.now_ns();
        let image = image.unwrap_or_else(|| RunTimesImage::new(now_ns));
        Ok(Some((RunTimes::restored(kept.settings(), &image), now_ns)))
    }

    /// The number of counted runs of each partition that has any, also of partitions that have closed.
    /// Run times whose number is the same as before have not changed.
    pub async fn runs_counted(&self) -> BTreeMap<Arc<str>, u64> {
        let Some(kept) = &self.run_times else { return BTreeMap::new() };
        let mut counted = BTreeMap::new();
        for entry in self.partition_entries() {
            if let Ok(Some(counts)) = ask(&entry, surveys::RunsCounted::new).await {
                counted.insert(entry.name, counts.counted);
            }
        }
        // Read last: a partition that has closed meanwhile is there now.
        for (name, n_runs) in kept.counted() {
            counted.entry(name).or_insert(n_runs);
        }
        counted
    }

    /// The run times of all partitions that have any, also of those that have closed, by name.
    pub async fn all_run_times(&self) -> Vec<RunTimesOf> {
        let mut images = BTreeMap::new();
        for entry in self.partition_entries() {
            if let Ok(Some(image)) = self.image_of_runs(&entry).await {
                images.insert(Arc::clone(&entry.name), image);
            }
        }
        for (name, _) in self.run_times.iter().flat_map(RunTimeShelf::counted) {
            if !images.contains_key(&name) {
                images.extend(self.image_on_shelf(&name).map(|image| (name, image)));
            }
        }
        let of = |(name, image): (Arc<str>, _)| RunTimesOf { partition: name.to_string(), image };
        images.into_iter().map(of).collect()
    }

    /// The run times of a partition, wherever they are. `None`: no run has ended.
    pub(super) async fn image_of_runs(
        &self,
        entry: &PartitionEntry,
    ) -> Result<Option<RunTimesImage>, ReadError> {
        let rows = whole(entry, surveys::RunTimeRows, |row| row).await?.rows;
        if rows.is_empty() {
            return Ok(self.image_on_shelf(&entry.name));
        }
        Ok(Some(RunTimesImage::of(rows)))
    }

    fn image_on_shelf(&self, partition: &str) -> Option<RunTimesImage> {
        let rows = self.run_times.as_ref()?.copies(partition, self.clock.now_ns());
        (!rows.is_empty()).then(|| RunTimesImage::of(rows))
    }
}
