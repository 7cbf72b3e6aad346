//! Images of resource managers: taken from a running scheduler, and restored in another.

use std::sync::Arc;

use monoceros_config::{DEFAULT_PARTITION, plain_name};
use monoceros_proto::si::v1 as si;
use monoceros_rules::runtimes::RunTimes;

use tokio::sync::oneshot;

use super::SchedulerHandle;
use super::reading;
use super::slices::ask;
use crate::api::callback::ResourceManagerCallback;
use crate::api::mirror::MirrorMaker;
use crate::api::outcomes::{ConfigurationError, ReadError, RegisterError};
use crate::front::rm_proxy::{Register, check_rm_id};
use crate::front::rosters::PartitionEntry;
use crate::image::{PartitionImage, ResourceManagerImage};
use crate::partition::surveys::{self, ReadOn};
use crate::run_times::RunTimesOf;

impl SchedulerHandle {
    /// The state of a resource manager; an empty id means the only one. Each partition is of one of
    /// its steps, though it is read in slices between which it decides. The mirror is of the same step as the
    /// default partition, the only one of an RM that has a mirror. One image is taken at a time.
    ///
    /// # Errors
    /// As [`Self::configuration`], and [`ConfigurationError::PartitionLost`] if a partition ended meanwhile.
    pub async fn image(&self, rm_id: &str) -> Result<ResourceManagerImage, ConfigurationError> {
        let _turn = self.image_turn.lock().await;
        let configuration = self.configuration(rm_id).await?;
        let lost = || ConfigurationError::PartitionLost(configuration.rm_id.clone());
        let entries = self.partitions_of(&configuration.rm_id, None).map_err(|_| lost())?;
        let (mut partitions, mut run_times, mut maker) = (Vec::new(), Vec::new(), None);
        for entry in entries {
            let image = self.image_of_runs(&entry).await.map_err(|_| lost())?;
            let of = |image| RunTimesOf { partition: entry.name.to_string(), image };
            run_times.extend(image.map(of));
            let is_mirrored = plain_name(&entry.name) == DEFAULT_PARTITION;
            let (partition, mirror) = image_of(&entry, is_mirrored).await.map_err(|_| lost())?;
            partitions.push(partition);
            maker = maker.or(mirror);
        }
        let mirror = match maker {
            Some(make) => Some(reading::off_thread(usize::MAX, make).await),
            None => None,
        };
        Ok(ResourceManagerImage { configuration, partitions, run_times, mirror })
    }

    /// Registers a resource manager that goes on from this state. Its predicates are asked within the
    /// step, and placements that waited for an answer have passed. Times go on from
    /// [`SchedulerBuilder::epoch_ns`](crate::SchedulerBuilder::epoch_ns), which should be that of the image.
    ///
    /// # Errors
    /// As a registration.
    pub async fn restore(
        &self,
        image: ResourceManagerImage,
        callback: Arc<dyn ResourceManagerCallback>,
    ) -> Result<(), RegisterError> {
        let ResourceManagerImage { configuration, partitions, run_times, mirror: _ } = image;
        check_rm_id(&configuration.rm_id)?;
        for RunTimesOf { partition, image } in run_times {
            if let Some(shelf) = &self.run_times {
                let restored = RunTimes::restored(shelf.settings(), &image);
                shelf.put(Arc::from(partition), Box::new(restored));
            }
        }
        let document = reading::read(configuration.config.clone()).await?;
        let request = si::RegisterResourceManagerRequest {
            rm_id: configuration.rm_id,
            policy_group: configuration.policy_group,
            config: configuration.config,
            extra_config: configuration.extra_config.into_iter().collect(),
            ..si::RegisterResourceManagerRequest::default()
        };
        let of = |image: PartitionImage| (Arc::clone(&image.name), Box::new(image));
        let images = partitions.into_iter().map(of).collect();
        let register = Register { request, document: Some(document), callback, images };
        self.proxy.ask(register).await.map_err(|_| RegisterError::Stopped)
    }
}

/// Takes the image of a partition in slices, with other steps in between.
async fn image_of(
    entry: &PartitionEntry,
    is_mirrored: bool,
) -> Result<(PartitionImage, Option<MirrorMaker>), ReadError> {
    let mirror = ask(entry, |reply| surveys::BeginImage::new(is_mirrored, reply)).await?;
    loop {
        let (reply, answer) = oneshot::channel();
        entry.mailbox.post(ReadOn(Box::new(surveys::ImageSlice::new(reply))));
        let lost = |_| ReadError::PartitionNotFound(entry.name.to_string());
        if let Some(image) = answer.await.map_err(lost)? {
            return Ok((*image, mirror));
        }
    }
}
