//! Application ids that are used again while pods of the earlier gang still end.
//!
//! # Why
//! A Job that is deleted and applied again names the same application, while its old pods may take
//! half a minute to end. As members of that application the new pods would be scheduled one by one,
//! since its gang is decided, and might start in part. So they form a gang of their own: an
//! application with a number behind its id, decided as a whole, beside what the old pods still
//! hold. It does not wait for the old pods.
//!
//! # Invariants
//! * Pods move on to the next application only if the current one declares task groups and all its
//!   pods with nodes are being deleted.
//! * A pod that has a node, or is about to get one, stays in its application.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Shim;
use super::gangs::Contribution;
use super::messages::Key;
use super::record::{ApiWork, Application, EngineState, Record};
use crate::objects::{Meta as _, Pod};

/// Returns whether the pod may move to another application: nothing is decided for it.
fn may_move(record: &Record) -> bool {
    !record.is_gone
        && record.pod.node().is_none()
        && !record.pod.is_going()
        && record.api_work == ApiWork::Idle
        && matches!(record.engine, EngineState::Absent | EngineState::Asked)
}

/// The ending part of a gang.
struct EndingGang {
    /// UIDs of the controllers of its pods.
    controllers: BTreeSet<String>,
    /// Whether as many members are ending as the gang needs.
    is_whole: bool,
}

impl EndingGang {
    /// Returns whether another pod belongs to the ending gang: a job that replaces one of several
    /// ended pods makes no new gang.
    fn includes(&self, pod: &Pod) -> bool {
        let is_of_same = pod.controller().is_some_and(|it| self.controllers.contains(&it.uid));
        is_of_same && !self.is_whole
    }
}

impl Shim {
    /// Returns the application of a new pod that names this id.
    pub(super) fn id_of_new(&mut self, pod: &Pod, declared_id: &str) -> Arc<str> {
        let id = self.id_in(pod.namespace(), declared_id);
        let is_new = pod.node().is_none() && !pod.is_going();
        if is_new
            && self.is_active
            && self.ending_gang(&id).is_some_and(|going| !going.includes(pod))
        {
            return self.begin_generation(&id);
        }
        id
    }

    /// Returns the ending part of a gang whose pods with nodes are all being deleted. `None` if
    /// there is another pod that is about to get a node, or for any other application.
    fn ending_gang(&self, id: &str) -> Option<EndingGang> {
        let application = self.applications.get(id).filter(|it| it.is_ending())?;
        let mut controllers = BTreeSet::new();
        for (_, _, key) in &application.pods {
            let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else {
                continue;
            };
            if record.pod.node().is_some() {
                controllers.extend(record.pod.controller().map(|it| it.uid.clone()));
            } else if record.api_work != ApiWork::Idle
                || matches!(record.engine, EngineState::Placed(_))
            {
                return None;
            }
        }
        Some(EndingGang { controllers, is_whole: self.is_ending_whole(application) })
    }

    /// Begins an application with the next free number behind the id. New pods belong to it from
    /// now on.
    fn begin_generation(&mut self, before: &Arc<str>) -> Arc<str> {
        let Some(application) = self.applications.get(before) else { return Arc::clone(before) };
        let (namespace, declared_id) =
            (application.namespace.clone(), application.declared_id.clone());
        let id = self.free_id(&namespace, &declared_id, true);
        let next = Application::new(&namespace, &declared_id);
        self.applications.insert(Arc::clone(&id), next);
        self.names.insert(&namespace, &declared_id, &id);
        tracing::info!(
            application = &*id,
            before = &**before,
            "a gang begins while the one before ends"
        );
        id
    }

    /// Moves the undecided pods of an ending application to the next one. Returns its id if there
    /// are any.
    pub(super) fn move_to_next(&mut self, id: &Arc<str>, now: Duration) -> Option<Arc<str>> {
        let pods = &self.applications.get(id).filter(|it| it.has_others())?.pods;
        let going = self.ending_gang(id)?;
        let moves = |key: &&Key| {
            let record = self.pods.get(*key);
            record.is_some_and(|record| may_move(record) && !going.includes(&record.pod))
        };
        let moving: Vec<Key> = pods.iter().map(|(_, _, key)| key).filter(moves).cloned().collect();
        if moving.is_empty() {
            return None;
        }
        let next = self.begin_generation(id);
        for key in &moving {
            if self.pods.get(key).is_some_and(|record| record.engine == EngineState::Asked) {
                self.release_pod(key);
                self.delay_next_ask(key, now);
            }
            self.remove_contribution(key, id);
            let Some(record) = self.pods.get_mut(key) else { continue };
            record.application = Some(Arc::clone(&next));
            record.contribution = Contribution::default();
            let position = record.position(key);
            if let Some(before) = self.applications.get_mut(id) {
                before.pods.remove(&position);
            }
            if let Some(application) = self.applications.get_mut(&next) {
                application.pods.insert(position);
            }
            self.update_contribution(key);
        }
        Some(next)
    }

    /// Calls [`Self::move_to_next`] for every application, when a session begins.
    pub(super) fn move_all_to_next(&mut self, now: Duration) {
        let mut ids: Vec<_> = self.applications.keys().cloned().collect();
        ids.sort_unstable();
        for id in ids {
            self.move_to_next(&id, now);
        }
    }

    /// Calls [`Self::move_to_next`] for an application of which a pod is being deleted, or is gone.
    pub(super) fn pod_ending(&mut self, id: Option<&Arc<str>>, now: Duration) {
        if !self.is_active {
            return;
        }
        if let Some(next) = id.and_then(|id| self.move_to_next(id, now)) {
            self.reconcile_all(&next, now);
        }
    }
}
