//! The callback of a replayed resource manager: it records what the scheduler tells, with its time.
//!
//! The scheduler calls it from its own tasks and must not wait, so that decisions are only recorded,
//! and the replay reads them between two steps. Predicates are answered by the fork of the resource
//! manager's own, if the image has one; else all pass.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_actors::config::{DEFAULT_PARTITION, plain_name};
use monoceros_actors::{
    AllocationNotices, Assumed, Fits, ForkedPredicates, Preferences, ResourceManagerCallback,
    ScaleUpNotice,
};
use monoceros_proto::si::v1 as si;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Something that the scheduler has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// An allocation was made.
    Started(Started),
    /// An allocation has ended, or its resource manager is to end it.
    Released(Released),
    /// A pending request has ended without an allocation.
    AskEnded { application: String, key: String },
    /// A request is refused.
    AskRefused { application: String, key: String, reason: String },
    /// An application is refused.
    ApplicationRefused { application: String, reason: String },
    /// An application has another state.
    ApplicationState { application: String, state: String },
    /// An application is in this queue.
    Placed { partition: Arc<str>, application: String, queue: String },
    /// A node is refused.
    NodeRefused { node: String, reason: String },
    /// The scheduler has lost the partition.
    Lost { cause: String },
}

/// An allocation that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    pub(super) partition: Arc<str>,
    pub(super) application: Arc<str>,
    pub(super) key: Arc<str>,
    /// Empty if messages name the allocation by its key.
    pub(super) uuid: Arc<str>,
    pub(super) node: Arc<str>,
}

/// An allocation that has ended, or is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Released {
    pub(super) partition: Arc<str>,
    pub(super) application: String,
    pub(super) key: String,
    pub(super) uuid: String,
    pub(super) kind: si::TerminationType,
    pub(super) why: String,
}

/// The callback of a replay.
pub(super) struct Recorder {
    /// The names of the partitions, as in messages.
    partitions: Vec<Arc<str>>,
    predicates: Option<Arc<dyn ForkedPredicates>>,
    // Locked for a push or a swap, never across a call or an await.
    told: Mutex<Vec<(Instant, Told)>>,
    wake: Notify,
}

impl Recorder {
    /// Records what is told of these partitions. Without `predicates` all pass.
    pub(super) fn new(
        partitions: Vec<Arc<str>>,
        predicates: Option<Arc<dyn ForkedPredicates>>,
    ) -> Self {
        Self { partitions, predicates, told: Mutex::default(), wake: Notify::new() }
    }

    /// Returns what was told since the last call, in order, each with its virtual time.
    pub(super) fn take(&self) -> Vec<(Instant, Told)> {
        mem::take(&mut *self.told())
    }

    /// Waits until something was told since the last call. [`take`](Self::take) may have returned it
    /// already.
    pub(super) async fn more(&self) {
        self.wake.notified().await;
    }

    fn told(&self) -> MutexGuard<'_, Vec<(Instant, Told)>> {
        // No code panics between two writes, so a poisoned lock is safe to use.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, told: Told) {
        self.told().push((Instant::now(), told));
        self.wake.notify_one();
    }

    /// Returns the name of a partition as in requests, from any of its spellings in answers.
    fn partition(&self, name: &str) -> Arc<str> {
        let plain = if name.is_empty() { DEFAULT_PARTITION } else { plain_name(name) };
        let known = self.partitions.iter().find(|known| ***known == *plain);
        known.map_or_else(|| Arc::from(plain), Arc::clone)
    }

    fn released(&self, release: si::AllocationRelease) {
        let kind = release.termination_type();
        self.record(Told::Released(Released {
            partition: self.partition(&release.partition_name),
            application: release.application_id,
            key: release.allocation_key,
            uuid: release.uuid,
            kind,
            why: release.message,
        }));
    }
}

impl ResourceManagerCallback for Recorder {
    fn allocations(&self, decided: AllocationNotices<'_>) {
        for new in decided.new_allocations() {
            if let Some(predicates) = &self.predicates {
                predicates.started(new.allocation_key(), new.node_id());
            }
            self.record(Told::Started(Started {
                partition: self.partition(new.partition_name()),
                application: Arc::clone(new.application_id()),
                key: Arc::clone(new.allocation_key()),
                uuid: new.uuid().map_or_else(|| Arc::from(""), Arc::clone),
                node: Arc::clone(new.node_id()),
            }));
        }
        self.update_allocation(decided.into_others());
    }

    fn update_allocation(&self, response: si::AllocationResponse) {
        for release in response.released {
            self.released(release);
        }
        for ask in response.released_asks {
            let (application, key) = (ask.application_id, ask.allocation_key);
            self.record(Told::AskEnded { application, key });
        }
        for ask in response.rejected {
            let (application, key) = (ask.application_id, ask.allocation_key);
            self.record(Told::AskRefused { application, key, reason: ask.reason });
        }
        for ask in response.rejected_allocations {
            let (application, key) = (ask.application_id, ask.allocation_key);
            self.record(Told::AskRefused { application, key, reason: ask.reason });
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        for it in response.rejected {
            let (application, reason) = (it.application_id, it.reason);
            self.record(Told::ApplicationRefused { application, reason });
        }
        for it in response.updated {
            let (application, state) = (it.application_id, it.state);
            self.record(Told::ApplicationState { application, state });
        }
    }

    fn update_node(&self, response: si::NodeResponse) {
        for node in response.rejected {
            self.record(Told::NodeRefused { node: node.node_id, reason: node.reason });
        }
    }

    fn application_placed(&self, partition: &str, application_id: &str, queue: Option<&str>) {
        if let Some(queue) = queue {
            self.record(Told::Placed {
                partition: self.partition(partition),
                application: application_id.to_owned(),
                queue: queue.to_owned(),
            });
        }
    }

    fn scale_up_notice(&self, _: ScaleUpNotice) {}

    fn resync_required(&self, cause: &str) {
        self.record(Told::Lost { cause: cause.to_owned() });
    }

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.predicates.as_ref().map_or(Ok(()), |fork| fork.predicates(args))
    }

    fn hold_predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.predicates.as_ref().map_or(Ok(()), |fork| fork.hold_predicates(args))
    }

    fn preferences(&self, allocation_key: &str) -> Preferences {
        self.predicates.as_ref().map_or(Preferences::None, |fork| fork.preferences(allocation_key))
    }

    fn preference(&self, args: &si::PredicatesArgs) -> i64 {
        self.predicates.as_ref().map_or(0, |fork| fork.preference(args))
    }

    fn fits(&self, application_id: &str, allocation_key: &str, task_group_name: &str) -> Fits {
        let fits = |fork: &Arc<dyn ForkedPredicates>| {
            fork.fits(application_id, allocation_key, task_group_name)
        };
        self.predicates.as_ref().map_or(Fits::Unknown, fits)
    }

    fn assumed(&self, what: &Assumed<'_>) {
        if let Some(fork) = &self.predicates {
            fork.assumed(what);
        }
    }

    fn forgotten(&self, what: &Assumed<'_>) {
        if let Some(fork) = &self.predicates {
            fork.forgotten(what);
        }
    }

    fn preemption_predicates(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        if let Some(fork) = &self.predicates {
            return fork.preemption_predicates(args);
        }
        let index = if args.preempt_allocation_keys.is_empty() { -1 } else { args.start_index };
        si::PreemptionPredicatesResponse { success: true, index }
    }
}
