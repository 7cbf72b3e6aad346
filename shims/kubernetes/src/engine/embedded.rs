//! Scheduler in the same process.
//!
//! # Invariants
//! * Predicates are answered at once from the scene, in which assumed placements count immediately.
//! * Notifications are passed on unchanged and in order.

use std::sync::Arc;

use futures::future::BoxFuture;
use monoceros_actors::config::DEFAULT_PARTITION;
use monoceros_actors::{
    AllocationNotices, Assumed, Fits, Invalidation, MirrorMaker, NewAllocation, Preferences,
    ResourceManagerCallback, SchedulerHandle, snapshot::ExplanationSnapshot,
};
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc::UnboundedSender;

use super::answers::{Answers, fits};
use super::{Engine, EngineError, victims};
use crate::fork::mirror;
use crate::shim::{EngineOrder, Explanation, Key, Notification, Placed, SharedScene, open};
use crate::translate::Queues;

/// An engine in the same process.
#[derive(Debug)]
pub struct Embedded {
    scheduler: SchedulerHandle,
    rm_id: String,
    callback: Arc<EngineCallback>,
}

/// Receives the callbacks of the scheduler.
#[derive(Debug)]
struct EngineCallback {
    answers: Answers,
    notifications: UnboundedSender<Notification>,
}

impl Embedded {
    /// Makes a session of the resource manager `rm_id` with this scheduler. Preferences of pods
    /// decide between all nodes if `prefers_among_all`, else between nodes that are equal in the
    /// partition's order.
    pub fn new(
        scheduler: SchedulerHandle,
        rm_id: impl Into<String>,
        scene: SharedScene,
        notifications: UnboundedSender<Notification>,
        prefers_among_all: bool,
    ) -> Self {
        let answers = Answers { scene, prefers_among_all };
        let callback = Arc::new(EngineCallback { answers, notifications });
        Self { scheduler, rm_id: rm_id.into(), callback }
    }

    async fn open(&self, queues: &Queues) -> Result<(), String> {
        let mut request = si::RegisterResourceManagerRequest::new(&self.rm_id);
        env!("CARGO_PKG_VERSION").clone_into(&mut request.version);
        request.config.clone_from(&queues.yaml);
        request.extra_config.clone_from(&queues.extra);
        let callback = Arc::clone(&self.callback) as Arc<dyn ResourceManagerCallback>;
        let registered = self.scheduler.register_resource_manager(request, callback).await;
        registered.map(drop).map_err(|why| why.to_string())
    }

    async fn order(&self, order: EngineOrder) -> Result<(), EngineError> {
        let rm = || self.rm_id.clone();
        let scheduler = &self.scheduler;
        let taken = match order {
            EngineOrder::Nodes(nodes) => {
                scheduler.update_node(si::NodeRequest::report(rm(), nodes)).await
            }
            EngineOrder::Submit(new) => {
                scheduler.update_application(si::ApplicationRequest::submit(rm(), new)).await
            }
            EngineOrder::Remove(gone) => {
                scheduler.update_application(si::ApplicationRequest::remove(rm(), gone)).await
            }
            EngineOrder::Allocations(all) => {
                scheduler.update_allocation(si::AllocationRequest::ask(rm(), all)).await
            }
            EngineOrder::Release(all) => {
                scheduler.update_allocation(si::AllocationRequest::release(rm(), all)).await
            }
            EngineOrder::TryAgain => {
                let all = Invalidation { all: true, ..Invalidation::default() };
                scheduler.control(&self.rm_id).await.map(|control| control.invalidate(all))
            }
            EngineOrder::Configure { queues, extra } => {
                let request = si::UpdateConfigurationRequest {
                    rm_id: rm(),
                    config: queues,
                    extra_config: extra,
                    ..Default::default()
                };
                let updated = scheduler.update_configuration(request).await;
                let outcome = updated.map(drop).map_err(|why| why.to_string());
                // If the receiver is dropped, nobody needs the outcome.
                self.callback.notifications.send(Notification::Configured(outcome)).ok();
                Ok(())
            }
            EngineOrder::Explain(application, about) => {
                self.explain(application, about);
                Ok(())
            }
        };
        taken.map_err(|why| EngineError(why.to_string()))
    }

    /// Asks for an explanation in a task of its own, since the answer may take long.
    fn explain(&self, application: Arc<str>, about: Option<Key>) {
        let (scheduler, notifications) =
            (self.scheduler.clone(), self.callback.notifications.clone());
        tokio::spawn(async move {
            let explained = match &about {
                Some(key) => scheduler.explain_ask(DEFAULT_PARTITION, &application, key).await,
                None => scheduler.explain_with_keys(DEFAULT_PARTITION, &application).await,
            };
            let entries = explained.unwrap_or_default().into_iter().map(explanation).collect();
            notifications.send(Notification::Explained { application, about, entries }).ok();
        });
    }
}

fn explanation(entry: ExplanationSnapshot) -> Explanation {
    let ExplanationSnapshot { allocation_keys, cause, object, message, gang, .. } = entry;
    Explanation::new(allocation_keys, cause, object, message, &gang)
}

impl Engine for Embedded {
    fn register<'e>(
        &'e self,
        queues: &'e Queues,
    ) -> BoxFuture<'e, Result<Option<String>, EngineError>> {
        Box::pin(async move {
            let Err(why) = self.open(queues).await else { return Ok(None) };
            let builtin = Queues { yaml: String::new(), ..queues.clone() };
            self.open(&builtin).await.map_err(EngineError)?;
            Ok(Some(why))
        })
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn reads_node_results(&self) -> bool {
        true
    }

    fn send(&self, order: EngineOrder) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.order(order))
    }
}

impl ResourceManagerCallback for EngineCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.notifications.send(Notification::Allocations(response)).ok();
    }

    fn allocations(&self, changes: AllocationNotices<'_>) {
        let placed = |new: NewAllocation<'_>| Placed {
            key: Arc::clone(new.allocation_key()),
            application: Arc::clone(new.application_id()),
            node: Arc::clone(new.node_id()),
        };
        let placed: Vec<_> = changes.new_allocations().map(placed).collect();
        if !placed.is_empty() {
            self.notifications.send(Notification::Placed(placed)).ok();
        }
        let others = changes.into_others();
        if others != si::AllocationResponse::default() {
            self.update_allocation(others);
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        self.notifications.send(Notification::Applications(response)).ok();
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.notifications.send(Notification::Nodes(response)).ok();
    }

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.answers.check(args)
    }

    fn hold_predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.answers.check_hold(args)
    }

    fn preferences(&self, allocation_key: &str) -> Preferences {
        self.answers.preferences(allocation_key)
    }

    fn preference(&self, args: &si::PredicatesArgs) -> i64 {
        self.answers.preference(args)
    }

    fn fits(&self, application_id: &str, allocation_key: &str, task_group_name: &str) -> Fits {
        let mut scene = open(&self.answers.scene);
        let had_work = scene.has_to_count();
        let fits = fits(&mut scene, application_id, allocation_key, task_group_name);
        if scene.has_to_count() && !had_work {
            self.notifications.send(Notification::CountNodes).ok();
        }
        fits
    }

    fn mirror(&self) -> Option<MirrorMaker> {
        let Answers { scene, prefers_among_all } = &self.answers;
        Some(mirror(scene, *prefers_among_all))
    }

    fn assumed(&self, what: &Assumed<'_>) {
        self.answers.assume(what);
    }

    fn forgotten(&self, what: &Assumed<'_>) {
        self.answers.forget(what);
    }

    fn preemption_predicates(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        victims(&mut open(&self.answers.scene), args)
    }

    fn update_container_scheduling_state(
        &self,
        states: Vec<si::UpdateContainerSchedulingStateRequest>,
    ) {
        self.notifications.send(Notification::ScaleUp(states)).ok();
    }

    fn resync_required(&self, cause: &str) {
        self.notifications.send(Notification::Lost(cause.to_owned())).ok();
    }
}
