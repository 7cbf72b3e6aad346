//! Application ids that are used again while the pods of the gang before still end.
//!
//! # Why
//! A Job that is deleted and applied again names the same application, and its old pods may take half a
//! minute to go. As members of one application the new pods would be scheduled one by one, since that gang
//! is decided, and start in part. So they are a gang of their own: an application with a number behind its
//! id, decided as a whole beside what the old pods still hold. Nobody waits for those to be gone.
//!
//! # Invariants
//! * Only where every pod of the application that has a node is being deleted, and task groups are
//!   declared, do other pods of it move on to the next one.
//! * A pod that has a node, or is about to get one, stays in its application.

use std::sync::Arc;
use std::time::Duration;

use super::Shim;
use super::gathering::Share;
use super::record::{Application, Hand, Record, Told};
use super::said::Key;
use crate::objects::{Meta as _, Pod};

/// Whether the pod may belong to another application than before: nothing of it is decided.
fn may_move(record: &Record) -> bool {
    !record.is_gone
        && record.pod.node().is_none()
        && !record.pod.is_going()
        && record.hand == Hand::Idle
        && matches!(record.told, Told::Nothing | Told::Asked)
}

impl Shim {
    /// The application that a pod which comes belongs to by what it says.
    pub(super) fn id_of_new(&mut self, pod: &Pod, said: &str) -> Arc<str> {
        let id = self.id_in(pod.namespace(), said);
        let is_new = pod.node().is_none() && !pod.is_going();
        if is_new && self.is_active && self.is_ending(&id) {
            return self.begin_generation(&id);
        }
        id
    }

    /// Whether an application is a gang of which all that has a node is being deleted.
    fn is_ending(&self, id: &str) -> bool {
        self.applications.get(id).is_some_and(Application::is_ending)
    }

    /// An application with the next free number behind the id that its pods say. Pods that come belong to
    /// it from now on.
    fn begin_generation(&mut self, before: &Arc<str>) -> Arc<str> {
        let Some(application) = self.applications.get(before) else { return Arc::clone(before) };
        let (namespace, said) = (application.namespace.clone(), application.said.clone());
        let id = self.free_id(&namespace, &said, true);
        let next = Application::new(&namespace, &said);
        self.applications.insert(Arc::clone(&id), next);
        self.names.enter(&namespace, &said, &id);
        tracing::info!(
            application = &*id,
            before = &**before,
            "a gang begins while the one before ends"
        );
        id
    }

    /// Has the pods of an application that is ending, as far as nothing of them is decided, be a gang of
    /// their own. Returns its id, if there are any.
    pub(super) fn move_on(&mut self, id: &Arc<str>) -> Option<Arc<str>> {
        if !self.is_ending(id) {
            return None;
        }
        let pods = &self.applications.get(id)?.pods;
        let moves = |key: &&Key| self.pods.get(*key).is_some_and(may_move);
        let moving: Vec<Key> = pods.iter().map(|(_, key)| key).filter(moves).cloned().collect();
        if moving.is_empty() {
            return None;
        }
        let next = self.begin_generation(id);
        for key in &moving {
            if self.pods.get(key).is_some_and(|record| record.told == Told::Asked) {
                self.give_back(key);
            }
            self.leave_share(key, id);
            let Some(record) = self.pods.get_mut(key) else { continue };
            record.application = Some(Arc::clone(&next));
            record.share = Share::default();
            let place = (record.pod.created(), Arc::clone(key));
            if let Some(before) = self.applications.get_mut(id) {
                before.pods.remove(&place);
            }
            if let Some(application) = self.applications.get_mut(&next) {
                application.pods.insert(place);
            }
            self.count_share(key);
        }
        Some(next)
    }

    /// As [`Self::move_on`], for every application: of what was read at a start.
    pub(super) fn all_move_on(&mut self) {
        let mut ids: Vec<_> = self.applications.keys().cloned().collect();
        ids.sort_unstable();
        for id in ids {
            self.move_on(&id);
        }
    }

    /// Has a change of a pod with a node, which is being deleted now, begin the next gang where it was the
    /// last that stood in the way.
    pub(super) fn goes(&mut self, key: &Key, now: Duration) {
        let id = self.pods.get(key).and_then(|record| record.application.clone());
        if let Some(next) = id.and_then(|id| self.move_on(&id)) {
            self.reconcile_all(&next, now);
        }
    }
}
