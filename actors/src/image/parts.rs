//! Images in parts, to be written and read line by line.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{PartitionImage, ResourceManagerImage};
use crate::api::mirror::Mirror;
use crate::api::outcomes::ConfigurationSnapshot;
use crate::partition::{Part, ReadPart, ReadPartition};
use crate::run_times::RunTimesOf;

/// A part of an image. It can be serialized, and read by an [`ImageReader`].
pub struct ImagePart<'a>(&'a Part<'a>);

impl ImagePart<'_> {
    /// Whether it is a part of the mirror, whose form only the resource manager knows.
    pub fn is_of_mirror(&self) -> bool {
        matches!(self.0, Part::Mirror(_))
    }
}

impl Serialize for ImagePart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl ResourceManagerImage {
    /// Passes each part to `take`, until it fails: everything except the configuration.
    ///
    /// # Errors
    /// That of `take`.
    pub fn each_part<E>(
        &self,
        mut take: impl FnMut(&ImagePart<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for partition in &self.partitions {
            partition.each_part(&mut |part| take(&ImagePart(part)))?;
        }
        let mut run_times = self.run_times.iter();
        run_times.try_for_each(|it| take(&ImagePart(&Part::RunTimes(it))))?;
        let mut mirror = self.mirror.iter().flat_map(|mirror| &mirror.parts);
        mirror.try_for_each(|it| take(&ImagePart(&Part::Mirror(it))))
    }
}

/// An image while its parts are read, in the order in which they were written.
#[derive(Default)]
pub struct ImageReader {
    partitions: Vec<PartitionImage>,
    present: Option<ReadPartition>,
    run_times: Vec<RunTimesOf>,
    mirror: Vec<Value>,
}

impl ImageReader {
    /// Adds a part, in whatever form it was written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add<'de, D: Deserializer<'de>>(&mut self, part: D) -> Result<(), String> {
        match ReadPart::deserialize(part).map_err(|error| error.to_string())? {
            ReadPart::Partition(head) => {
                self.end_partition()?;
                self.present = Some(ReadPartition::new(head));
                Ok(())
            }
            ReadPart::RunTimes(run_times) => {
                self.run_times.push(run_times);
                Ok(())
            }
            ReadPart::Mirror(part) => {
                self.mirror.push(part);
                Ok(())
            }
            part => {
                let present = self.present.as_mut();
                present.ok_or("it comes before its partition")?.add(part)
            }
        }
    }

    fn end_partition(&mut self) -> Result<(), String> {
        let ended = self.present.take().map(ReadPartition::finish).transpose()?;
        self.partitions.extend(ended);
        Ok(())
    }

    /// The image with this configuration, once all parts were added. `None` if there was none.
    ///
    /// # Errors
    /// What is missing.
    pub fn finish(
        mut self,
        configuration: ConfigurationSnapshot,
    ) -> Result<Option<ResourceManagerImage>, String> {
        self.end_partition()?;
        let Self { partitions, run_times, mirror: parts, .. } = self;
        let mirror = (!parts.is_empty()).then_some(Mirror { parts });
        let is_there = !partitions.is_empty();
        let image = ResourceManagerImage { configuration, partitions, run_times, mirror };
        Ok(is_there.then_some(image))
    }
}
