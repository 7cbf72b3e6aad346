//! A replay from an image: a scheduler that goes on from it in virtual time, and the resource
//! manager that plays along.
//!
//! # How time passes
//! The clock is paused, and jumps to the next timer when all tasks wait. So everything that follows
//! from a request is decided, and heard, at the time of the request.
//!
//! # The first instant
//! The scheduler goes on from the image, gets the changes of the question, and settles. What it
//! decides until then starts *at once*: no virtual time has passed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{
    ConfigurationError, ForkedPredicates, Invalidation, RegisterError, SchedulerBuilder,
    SchedulerHandle, StartError, UpdateError,
};
use monoceros_proto::si::v1 as si;

use super::changes::Resolved;
use super::durations::{Draw, Durations};
use super::history::{History, Reason};
use super::manager::{Ended, Manager, Requests};
use super::recorder::Recorder;
use super::usage::Usage;
use crate::replay::virtual_time::Clock;

/// The most applications whose requests are explained at the end.
const EXPLAINED: usize = 50;

/// A replay could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The scheduler does not start.
    #[error("the scheduler does not start")]
    Start(#[from] StartError),
    /// The scheduler does not take the image.
    #[error("the scheduler does not go on from the image")]
    Restore(#[from] RegisterError),
    /// The queue configuration of the question is refused.
    #[error(transparent)]
    Queues(#[from] ConfigurationError),
    /// A request is refused.
    #[error("the scheduler refuses a request")]
    Update(#[from] UpdateError),
    /// The scheduler told something about an unknown object.
    #[error("the scheduler decided on something that is not in the image: {0}")]
    Unknown(String),
    /// A partition was lost.
    #[error("the scheduler has lost a partition: {0}")]
    Lost(String),
    /// The question was cancelled.
    #[error("the replay was cancelled")]
    Cancelled,
}

/// The parts of a replay that do not depend on the image.
#[derive(Clone)]
pub(super) struct Course {
    pub(super) builder: SchedulerBuilder,
    /// What answers predicates. `None`: all pass.
    pub(super) predicates: Option<Arc<dyn ForkedPredicates>>,
    pub(super) horizon: i64,
    pub(super) leave_after: i64,
    pub(super) draw: Draw,
    /// Whether it is asked at the end why requests wait.
    pub(super) explains: bool,
    pub(super) cancelled: Arc<AtomicBool>,
}

/// Goes on from an image, with these changes. It must run in virtual time.
pub(super) async fn replay(
    image: ResourceManagerImage,
    changes: Option<Arc<Resolved>>,
    course: Course,
) -> Result<History, ReplayError> {
    // Lists, records and measurements of a replay are read by nobody.
    let builder = course.builder.clone().run_times(None).decisions(0).legacy_queue_metrics(false);
    let scheduler = builder.epoch_ns(image.at_ns()).start_local()?;
    let mut replay = Replay::new(scheduler, &image, changes.as_deref(), &course);
    let callback = Arc::clone(&replay.recorder);
    replay.scheduler.restore(image, callback).await?;
    if let Some(changes) = changes {
        replay.change(&changes).await?;
    }
    replay.settle().await?;
    replay.run().await?;
    replay.finish().await
}

/// A scheduler and its resource manager.
pub(super) struct Replay {
    scheduler: SchedulerHandle,
    rm: String,
    pub(super) recorder: Arc<Recorder>,
    predicates: Option<Arc<dyn ForkedPredicates>>,
    manager: Manager,
    clock: Clock,
    horizon: i64,
    explains: bool,
    cancelled: Arc<AtomicBool>,
}

impl Replay {
    /// Takes over the work of an image, which the scheduler has or gets. Time 0 is now.
    pub(super) fn new(
        scheduler: SchedulerHandle,
        image: &ResourceManagerImage,
        changes: Option<&Resolved>,
        course: &Course,
    ) -> Self {
        let durations = Durations::of(image, course.draw);
        let stays = |id: &str| changes.is_none_or(|changes| !changes.removes(id));
        let nodes =
            image.partitions.iter().flat_map(monoceros_actors::image::PartitionImage::nodes);
        let kept = nodes.filter(|node| stays(node.id()));
        let capacity: Vec<_> = kept.map(|node| node.capacity().clone()).collect();
        let added = changes.iter().flat_map(|changes| changes.added_capacity());
        let usage = Usage::new(capacity.iter().chain(added), course.horizon);
        let times = (course.leave_after, course.horizon);
        let predicates = course.predicates.clone();
        let manager = Manager::new(image, durations, usage, times, predicates.clone());
        let names = image.partitions.iter().map(|partition| Arc::from(partition.plain_name()));
        Self {
            scheduler,
            rm: image.configuration.rm_id.clone(),
            recorder: Arc::new(Recorder::new(names.collect(), predicates.clone())),
            predicates,
            manager,
            clock: Clock::start(0),
            horizon: course.horizon,
            explains: course.explains,
            cancelled: Arc::clone(&course.cancelled),
        }
    }

    /// Makes the changes of the question.
    async fn change(&mut self, changes: &Resolved) -> Result<(), ReplayError> {
        if let Some(yaml) = &changes.queues {
            self.scheduler.update_queues(&self.rm, yaml).await?;
        }
        for node in &changes.removed {
            self.manager.node_removed(node);
        }
        if let Some(predicates) = &self.predicates {
            changes.removed.iter().for_each(|node| predicates.node_removed(node));
            changes.added_nodes().for_each(|(node, like)| predicates.node_added(node, like));
        }
        if !changes.nodes.is_empty() {
            let (nodes, rm_id) = (changes.nodes.clone(), self.rm.clone());
            let request = si::NodeRequest { nodes, rm_id, ..si::NodeRequest::default() };
            self.scheduler.update_node(request).await?;
        }
        let (new, rm_id) = (changes.applications.clone(), self.rm.clone());
        for (partition, application) in &changes.released {
            self.manager.end_application(partition, &application.application_id);
        }
        for application in &new {
            let partition = changes.partition(&application.partition_name);
            let user = application.ugi.as_ref().map_or("", |ugi| &ugi.user);
            self.manager.submit_application(partition, &application.application_id, user);
        }
        let remove: Vec<_> = changes.released.iter().map(|(_, remove)| remove.clone()).collect();
        if !(new.is_empty() && remove.is_empty()) {
            let request = si::ApplicationRequest { new, remove, rm_id, ..Default::default() };
            self.scheduler.update_application(request).await?;
        }
        let mut requests = Requests::default();
        for ask in &changes.asks {
            self.manager.submit(ask)?;
            requests.asks.push(si::AllocationAsk::clone(&ask.message));
        }
        self.send(requests).await
    }

    /// Plays until the horizon.
    pub(super) async fn run(&mut self) -> Result<(), ReplayError> {
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(ReplayError::Cancelled);
            }
            let next = self.manager.next_at().map_or(self.horizon, |next| next.min(self.horizon));
            let due = self.clock.instant_of(next);
            tokio::select! {
                biased;
                () = self.recorder.more() => {}
                () = tokio::time::sleep_until(due) => {}
            }
            let now = self.clock.now();
            if now >= self.horizon {
                return Ok(());
            }
            self.manager.pass(now);
            self.hear().await?;
            let mut requests = Requests::default();
            self.manager.due(now, &mut requests);
            self.send(requests).await?;
        }
    }

    /// Has the scheduler decide everything that it can decide now.
    pub(super) async fn settle(&mut self) -> Result<(), ReplayError> {
        loop {
            self.scheduler.settle().await;
            if !self.hear().await? {
                return Ok(());
            }
        }
    }

    /// Takes what the scheduler has told. Returns whether there was anything.
    async fn hear(&mut self) -> Result<bool, ReplayError> {
        let told = self.recorder.take();
        let any = !told.is_empty();
        let mut requests = Requests::default();
        for (instant, told) in told {
            let at = self.clock.time_of(instant);
            if at < self.horizon {
                self.manager.hear(at, told, &mut requests)?;
            }
        }
        self.send(requests).await?;
        Ok(any)
    }

    async fn send(&self, requests: Requests) -> Result<(), ReplayError> {
        let Requests { releases, asks } = requests;
        let rm_id = || self.rm.clone();
        if !releases.is_empty() {
            let releases = si::AllocationReleasesRequest {
                allocations_to_release: releases,
                ..si::AllocationReleasesRequest::default()
            };
            let request = si::AllocationRequest {
                releases: Some(releases),
                rm_id: rm_id(),
                ..si::AllocationRequest::default()
            };
            self.scheduler.update_allocation(request).await?;
        }
        if self.predicates.as_ref().is_some_and(|predicates| predicates.take_unblocked()) {
            let all = Invalidation { all: true, ..Invalidation::default() };
            self.scheduler.control(&self.rm).await?.invalidate(all);
        }
        if !asks.is_empty() {
            let request = si::AllocationRequest { asks, rm_id: rm_id(), ..Default::default() };
            self.scheduler.update_allocation(request).await?;
        }
        Ok(())
    }

    /// Ends the replay: explains what waits, and returns what became of all work.
    pub(super) async fn finish(self) -> Result<History, ReplayError> {
        let waiting = if self.explains { self.manager.waiting() } else { Vec::new() };
        let mut reasons = BTreeMap::new();
        for (number, partition, application) in waiting.into_iter().take(EXPLAINED) {
            let partition = format!("[{}]{partition}", self.rm);
            // An application may have ended: nothing of it waits then.
            let explained = self.scheduler.explain_with_keys(&partition, &application).await;
            for class in explained.unwrap_or_default() {
                let reason = Reason { why: class.message, cure: class.cure, gang: class.gang };
                for key in class.allocation_keys {
                    if let Some(work) = self.manager.work_by_key(number, &key) {
                        reasons.insert(work, reason.clone());
                    }
                }
            }
        }
        let Ended { applications, works, starts, evictions, running, started, usage, refused } =
            self.manager.finish();
        let unknown_asks = self.predicates.map(|predicates| predicates.unknown_asks());
        let held = usage.finish();
        Ok(History {
            applications,
            works,
            starts,
            evictions,
            running,
            started,
            held,
            reasons,
            refused,
            unknown_asks,
        })
    }
}
