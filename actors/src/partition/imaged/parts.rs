//! An image in parts, so that a large one can be written and read line by line: a part for each
//! actor, one for some thousand allocations, and one for everything else of a partition.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::books::Books;
use monoceros_rules::values::resources::NameHolder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ActorImages, PartitionImage, Rest};
use crate::application::ApplicationImage;
use crate::node::NodeImage;
use crate::queue::QueueImage;
use crate::run_times::RunTimesOf;
use crate::step::DirectoryImage;

/// The number of allocations of a part.
const ALLOCATIONS: usize = 1_000;

/// A part of an image, to be written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Part<'a> {
    Partition(Head<'a>),
    Queue(&'a QueueImage),
    Application(&'a ApplicationImage),
    Node(&'a NodeImage),
    Allocations(&'a [(usize, Allocation)]),
    RunTimes(&'a RunTimesOf),
    /// A part of what the predicates of the RM read.
    Mirror(&'a Value),
}

/// A part of an image that was read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReadPart {
    Partition(Box<ReadHead>),
    Queue(Box<QueueImage>),
    Application(Box<ApplicationImage>),
    Node(Box<NodeImage>),
    Allocations(Vec<(u32, Allocation)>),
    RunTimes(RunTimesOf),
    Mirror(Value),
}

/// Everything of a partition except its actors and allocations. It comes first.
#[derive(Serialize)]
pub(crate) struct Head<'a> {
    name: &'a Arc<str>,
    at_ns: i64,
    step: u64,
    names: &'a Arc<NameHolder>,
    placement_tags: &'a [String],
    books: &'a Books,
    directory: &'a DirectoryImage,
    rest: &'a Rest,
}

/// A [`Head`] that was read.
#[derive(Deserialize)]
pub(crate) struct ReadHead {
    name: Arc<str>,
    at_ns: i64,
    step: u64,
    names: Arc<NameHolder>,
    placement_tags: Vec<String>,
    books: Books,
    directory: DirectoryImage,
    rest: Rest,
}

impl PartitionImage {
    /// Passes each part to `take`, until it fails.
    pub(crate) fn each_part<E>(
        &self,
        take: &mut impl FnMut(&Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut books = self.books.clone();
        let allocations = books.allocations.take_all();
        take(&Part::Partition(Head {
            name: &self.name,
            at_ns: self.at_ns,
            step: self.step,
            names: &self.names,
            placement_tags: &self.placement_tags,
            books: &books,
            directory: &self.directory,
            rest: &self.rest,
        }))?;
        drop(books);
        self.actors.queues.iter().try_for_each(|queue| take(&Part::Queue(queue)))?;
        let mut applications = self.actors.applications.iter();
        applications.try_for_each(|application| take(&Part::Application(application)))?;
        self.actors.nodes.iter().try_for_each(|node| take(&Part::Node(node)))?;
        allocations.chunks(ALLOCATIONS).try_for_each(|some| take(&Part::Allocations(some)))
    }
}

/// A partition while its parts are read.
pub(crate) struct ReadPartition {
    head: Box<ReadHead>,
    actors: ActorImages,
}

impl ReadPartition {
    /// Begins with the first part.
    pub(crate) fn new(head: Box<ReadHead>) -> Self {
        Self { head, actors: ActorImages::default() }
    }

    /// Adds a part. The error says what is wrong with it.
    pub(crate) fn add(&mut self, part: ReadPart) -> Result<(), String> {
        match part {
            ReadPart::Queue(queue) => self.actors.queues.push(*queue),
            ReadPart::Application(application) => self.actors.applications.push(*application),
            ReadPart::Node(node) => self.actors.nodes.push(*node),
            ReadPart::Allocations(allocations) => {
                for (slot, allocation) in allocations {
                    if !self.head.books.allocations.put_back(slot, allocation) {
                        return Err("an allocation has no place in its table".to_owned());
                    }
                }
            }
            ReadPart::Partition(_) | ReadPart::RunTimes(_) | ReadPart::Mirror(_) => {
                return Err("it is no part of a partition".to_owned());
            }
        }
        Ok(())
    }

    /// The image, once all parts are there.
    pub(crate) fn finish(self) -> Result<PartitionImage, String> {
        let ReadHead { name, at_ns, step, names, placement_tags, books, directory, rest } =
            *self.head;
        if !books.allocations.is_whole() {
            return Err("allocations are missing".to_owned());
        }
        let actors = self.actors;
        let mut image = PartitionImage {
            name,
            at_ns,
            step,
            names,
            placement_tags,
            actors,
            books,
            directory,
            rest,
        };
        image.share().map_err(|error| error.to_string())?;
        Ok(image)
    }
}
