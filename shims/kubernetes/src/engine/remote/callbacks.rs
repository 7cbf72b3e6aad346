//! Answers the callback stream from the view of the session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_client::{Callbacks, Fit, callback as cb, si};
use tokio::sync::mpsc::UnboundedSender;

use super::outage::Outage;
use super::view::View;
use crate::shim::{Notification, SharedScene};

/// Callbacks of one session.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    view: Arc<Mutex<View>>,
    notifications: UnboundedSender<Notification>,
    outage: Arc<Outage>,
}

impl Answers {
    pub(super) fn new(
        scene: SharedScene,
        notifications: UnboundedSender<Notification>,
        outage: Arc<Outage>,
    ) -> Self {
        Self { view: Arc::new(Mutex::new(View::new(scene))), notifications, outage }
    }

    /// Notes new allocations that are about to be passed on.
    pub(super) fn received(&self, new: &[si::Allocation]) {
        self.view().received(new);
    }

    /// Ends the view, since another session begins.
    pub(super) fn end(&self) {
        self.view().end();
    }

    /// Locks the view. A panic in a predicate leaves nothing half counted, so a poisoned lock is
    /// safe to use.
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn preemption(&self, batch: cb::PreemptionBatch) -> cb::PreemptionResults {
        let mut view = self.view();
        let result = |query: cb::PreemptionQuery| cb::PreemptionResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            response: Some(view.victims(&query.args.unwrap_or_default())),
            ..Default::default()
        };
        cb::PreemptionResults {
            batch_id: batch.batch_id,
            cache_seq: batch.cache_seq,
            last: true,
            results: batch.queries.into_iter().map(result).collect(),
        }
    }
}

impl Callbacks for Answers {
    fn capabilities(&self) -> Vec<cb::Capability> {
        vec![
            cb::Capability::Predicates,
            cb::Capability::HoldPredicates,
            cb::Capability::PreemptionPredicates,
            cb::Capability::ContainerStates,
            cb::Capability::CacheSync,
        ]
    }

    fn hello(&self) -> cb::Hello {
        self.view().begin_stream();
        cb::Hello { predicates_absent: cb::AbsentPolicy::AbsentHold.into(), ..Default::default() }
    }

    fn fits(&self, query: &cb::PredicateQuery, node: &str) -> Fit {
        self.view().fits(query, node).map_or_else(Fit::No, |()| Fit::Yes)
    }

    fn elsewhere(&self, query: &cb::PredicateQuery) -> Option<cb::Elsewhere> {
        Some(self.view().elsewhere(query))
    }

    fn assume(&self, sync: &cb::CacheSync) -> Vec<cb::CacheSyncFailure> {
        if sync.snapshot_end {
            // Each stream begins with a snapshot.
            self.outage.is_over();
        }
        self.view().sync(sync);
        Vec::new()
    }

    fn assumed(&self, query: &cb::PredicateQuery, node: &str) {
        self.view().assumed(query, node);
    }

    fn members(&self, bundle: &cb::BundlePlaces, nodes: &[Option<&str>]) {
        self.view().set_places(bundle, nodes);
    }

    fn other(&self, message: cb::core_message::Body) -> Option<cb::shim_message::Body> {
        use cb::core_message::Body;
        match message {
            Body::PreemptionBatch(batch) => {
                Some(cb::shim_message::Body::PreemptionResults(self.preemption(batch)))
            }
            Body::ContainerStates(batch) => {
                self.notifications.send(Notification::ScaleUp(batch.states)).ok();
                None
            }
            _ => None,
        }
    }
}
