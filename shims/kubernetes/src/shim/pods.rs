//! Reconciles pods: compares the desired state in the engine with the actual one.

use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::{Allocation, AllocationRelease};

use super::messages::Key;
use super::record::{ApiWork, Application, End, EngineState, Record};
use super::waiting::{Alarm, WaitReason};
use super::{Shim, known, open};
use crate::objects::{Meta as _, Pod};
use crate::predicates::unsupported;
use crate::translate::{
    AskSpec, application_id, declared_text, foreign, pod_group_of, task_group_of,
};

/// The state that a pod should have in the engine.
enum Desired {
    /// Absent. Holds the reason if the pod waits.
    Nothing(Option<WaitReason>),
    /// A pending ask.
    Ask,
    /// The pod's present state is kept, since work at the API server is in flight.
    Keep,
    /// An allocation on this node.
    On(Arc<str>),
    /// A foreign allocation on this node.
    Foreign(Arc<str>),
}

impl Shim {
    pub(super) fn pod_changed(&mut self, key: &Key, pod: Option<Arc<Pod>>, now: Duration) {
        if let (Some(record), Some(pod)) = (self.pods.get_mut(key), &pod) {
            record.end = if pod.is_lost() { End::Lost } else { End::ByItself };
            if pod.is_over() && !pod.is_going() {
                // The pod ended by itself, so an eviction is no longer needed.
                record.cancel_guard = None;
            }
        }
        self.succeeded.note(key, pod.as_deref(), &self.mapping);
        let pod = pod.filter(|pod| !pod.is_over());
        let pod = pod.filter(|pod| pod.node().is_some() || self.mapping.is_ours(pod));
        let Some(pod) = pod else { return self.pod_gone(key, now) };
        let before = self.enter_pod(key, &pod, now);
        self.update_scene(key, &pod, before.as_deref());
        let application = self.application_of(key);
        let is_new = before.is_none();
        let (goes, redeclares) = before.map_or((false, false), |before| {
            let goes = pod.node().is_some() && pod.is_going() && !before.is_going();
            (goes, declared_text(&before) != declared_text(&pod))
        });
        let redeclares =
            redeclares && application.as_ref().is_some_and(|id| self.decides_gang(id, key));
        let makes_a_difference = self.update_contribution(key) || redeclares;
        if is_new && pod.node().is_none() {
            self.redeclare_if_larger(key, now);
        }
        match application {
            Some(id) if makes_a_difference => self.reconcile_all(&id, now),
            _ => self.reconcile(key, now),
        }
        if goes {
            let id = self.application_of(key);
            self.pod_ending(id.as_ref(), now);
        }
        if pod.node().is_some() {
            self.binding_ended(key);
        }
    }

    /// Enters a new pod, or a change of one. Returns the pod as it was before. `None` if it is new,
    /// or was recorded as removed.
    fn enter_pod(&mut self, key: &Key, pod: &Arc<Pod>, now: Duration) -> Option<Arc<Pod>> {
        if let Some(record) = self.pods.get_mut(key) {
            let before = std::mem::replace(&mut record.pod, Arc::clone(pod));
            let is_back = std::mem::take(&mut record.is_gone);
            return (!is_back).then_some(before);
        }
        let declared_id = self.mapping.is_ours(pod).then(|| application_id(pod, &self.mapping));
        let id = declared_id.as_ref().map(|declared| self.id_of_new(pod, declared));
        let record = Record::new(Arc::clone(pod), self.n_pods, id, now);
        self.n_pods += 1;
        if let Some((id, declared)) = record.application.as_ref().zip(declared_id) {
            let entry = self.applications.entry(Arc::clone(id));
            let entry = entry.or_insert_with(|| Application::new(pod.namespace(), &declared));
            entry.pods.insert(record.position(key));
            self.names.insert(pod.namespace(), &declared, id);
            let namespace = self.of_namespace.entry(pod.namespace().to_owned()).or_default();
            namespace.insert(Arc::clone(key));
        }
        self.pods.insert(Arc::clone(key), record);
        None
    }

    /// Counts a pod on its node in the scene, or expects questions about the changed pod.
    fn update_scene(&mut self, key: &Key, pod: &Arc<Pod>, before: Option<&Pod>) {
        let Some(record) = known(&mut self.pods, key) else { return };
        let Some(node) = pod.node() else {
            let looks_alike = before.is_some_and(|before| {
                before.labels() == pod.labels()
                    && before.is_going() == pod.is_going()
                    && before.spec.tolerations == pod.spec.tolerations
                    && before.spec.scheduling_gates == pod.spec.scheduling_gates
            });
            if record.engine == EngineState::Asked && !looks_alike {
                open(&self.scene).expect(key, Arc::clone(pod));
            }
            return;
        };
        if before.is_none_or(|before| before.node().is_none()) {
            let there = self.on_node.entry(node.to_owned()).or_default();
            there.insert(Arc::clone(key));
            if matches!(record.api_work, ApiWork::Binding | ApiWork::Bound) {
                record.api_work = ApiWork::Idle;
            }
        }
        let mut scene = open(&self.scene);
        scene.dismiss(key);
        scene.settle(key, node, pod);
    }

    fn pod_gone(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        record.is_gone = true;
        let application = self.application_of(key);
        self.update_contribution(key);
        let Some(record) = self.pods.get_mut(key) else { return };
        if let Some(node) = record.pod.node()
            && let Some(there) = self.on_node.get_mut(node)
        {
            there.remove(key);
            if there.is_empty() {
                self.on_node.remove(node);
            }
        }
        {
            let mut scene = open(&self.scene);
            scene.dismiss(key);
            scene.clear(key);
        }
        if self.is_active {
            self.reconcile(key, now);
            self.binding_ended(key);
            self.pod_ending(application.as_ref(), now);
        } else {
            self.drop_record(key);
        }
    }

    /// Forgets the pod.
    pub(super) fn drop_record(&mut self, key: &Key) {
        let Some(record) = self.pods.remove(key) else { return };
        if let Some(due) = record.due {
            self.due.remove(&(due, Arc::clone(key)));
        }
        if let Some(node) = &record.target {
            self.remove_binding(key, node);
        }
        let namespace = record.pod.namespace();
        if let Some(all) = self.of_namespace.get_mut(namespace) {
            all.remove(key);
            if all.is_empty() {
                self.of_namespace.remove(namespace);
            }
        }
        if let Some(id) = &record.application {
            self.left_application(id, &record.position(key));
        }
    }

    /// Takes steps until a pod has its desired state.
    pub(super) fn reconcile(&mut self, key: &Key, now: Duration) {
        if !self.is_active {
            return;
        }
        while self.step(key, now) {}
        let is_done = |record: &Record| record.is_gone && record.engine == EngineState::Absent;
        if self.pods.get(key).is_some_and(is_done) {
            self.drop_record(key);
        }
    }

    /// Takes one step. Returns whether there may be another.
    fn step(&mut self, key: &Key, now: Duration) -> bool {
        let Some(record) = self.pods.get(key) else { return false };
        let state = record.engine.clone();
        if state == EngineState::Releasing {
            return false;
        }
        let desired = self.desired(key, now);
        if let Desired::Nothing(why) = &desired
            && let Some(record) = self.pods.get_mut(key)
        {
            record.blocked_by.clone_from(why);
        }
        match (state, desired) {
            (EngineState::Absent, Desired::Nothing(why)) => {
                if why.is_some() {
                    self.examine_soon(key, now);
                }
                false
            }
            (EngineState::Releasing, _)
            | (EngineState::Absent | EngineState::Asked | EngineState::Placed(_), Desired::Keep) => {
                false
            }
            (EngineState::Absent, Desired::Ask) => {
                self.ask(key, now);
                false
            }
            (EngineState::Asked, Desired::Ask) => {
                self.report(key, None, true, now);
                false
            }
            (EngineState::Absent, Desired::On(node)) => {
                self.report(key, Some(&node), false, now);
                self.set_engine_state(key, EngineState::Placed(node));
                false
            }
            (EngineState::Placed(there), Desired::On(node)) if there == node => {
                self.report(key, Some(&node), true, now);
                false
            }
            (EngineState::Absent, Desired::Foreign(node)) => {
                self.report_foreign(key, &node, false, now);
                self.set_engine_state(key, EngineState::Foreign(node));
                false
            }
            (EngineState::Foreign(there), Desired::Foreign(node)) if there == node => {
                self.report_foreign(key, &node, true, now);
                false
            }
            (EngineState::Foreign(_), _) => {
                self.orders.release(AllocationRelease::new("", &**key));
                self.orders.cut();
                self.set_engine_state(key, EngineState::Absent);
                true
            }
            (EngineState::Asked | EngineState::Placed(_), _) => self.release_pod(key),
        }
    }

    fn set_engine_state(&mut self, key: &Key, state: EngineState) {
        if let Some(record) = self.pods.get_mut(key) {
            record.engine = state;
        }
    }

    fn desired(&mut self, key: &Key, now: Duration) -> Desired {
        let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else {
            return Desired::Nothing(None);
        };
        let pod = Arc::clone(&record.pod);
        if let Some(name) = pod.node() {
            if !self.nodes.get(name).is_some_and(|node| node.is_reported) {
                return Desired::Nothing(None);
            }
            let node = Arc::from(name);
            // A running pod takes room even if its application is rejected.
            let is_refused = record.refused.is_some();
            let Some(application) = self.application_of(key) else {
                return Desired::Foreign(node);
            };
            let is_taken = !is_refused && self.submit(&application, now, true).is_ok();
            return if is_taken { Desired::On(node) } else { Desired::Foreign(node) };
        }
        if record.api_work != ApiWork::Idle {
            return Desired::Keep;
        }
        if pod.is_going() || !pod.spec.scheduling_gates.is_empty() {
            return Desired::Nothing(None);
        }
        let is_withheld = !self.leads || self.holding.is_awaited();
        if is_withheld && record.engine == EngineState::Absent {
            // Another replica leads, or gangs of which a part runs get their places first.
            return Desired::Nothing(None);
        }
        if record.not_before > now {
            let at = record.not_before;
            let why =
                record.refused.as_ref().map(|why| WaitReason::new("Refused", "", why.clone()));
            self.alarm(at, Alarm::Pod(Arc::clone(key)));
            return Desired::Nothing(why);
        }
        if let Some(why) = unsupported(&pod) {
            return Desired::Nothing(Some(WaitReason::new("NotSupported", "", why)));
        }
        if let Err(why) = AskSpec::of(&pod, true) {
            return Desired::Nothing(Some(WaitReason::new("Unreadable", "", why)));
        }
        let Some(application) = record.application.clone() else { return Desired::Nothing(None) };
        // A pending ask stays even if other pods of its group are deleted.
        let is_asked = record.engine == EngineState::Asked;
        if !is_asked && let Some(why) = self.unreadable(&application) {
            return Desired::Nothing(Some(why));
        }
        let taken = self.submit(&application, now, is_asked);
        match taken {
            Ok(()) if is_asked || self.accepts_asks(&application) => Desired::Ask,
            // Waits until the engine accepts or rejects the application.
            Ok(()) => Desired::Nothing(None),
            Err(why) => Desired::Nothing(Some(why)),
        }
    }

    fn ask(&mut self, key: &Key, now: Duration) {
        let Some(record) = known(&mut self.pods, key) else { return };
        record.engine = EngineState::Asked;
        record.asked = now;
        record.refused = None;
        record.blocked_by = None;
        record.scale_up = false;
        let pod = Arc::clone(&record.pod);
        open(&self.scene).expect(key, Arc::clone(&pod));
        if let Some(id) = self.application_of(key) {
            self.report_unknown_group(&pod, &id);
        }
        self.report(key, None, false, now);
        self.examine_soon(key, now);
    }

    /// Reports the pod's ask or allocation. A repeat is sent only if it differs, or if it was
    /// refused and the pause is over.
    fn report(&mut self, key: &Key, node: Option<&str>, is_again: bool, now: Duration) {
        let again = is_again.then_some(now);
        let Some((allocation, fingerprint)) = self.allocation_of(key, node, again) else { return };
        let Some(record) = known(&mut self.pods, key) else { return };
        if node.is_some() {
            record.is_confirmed &= is_again;
            if fingerprint != record.fingerprint {
                record.refusals = 0;
            }
        }
        record.resend_at = None;
        record.fingerprint = fingerprint;
        let id = record.application_id();
        self.orders.allocation(allocation);
        if let Some(application) = self.applications.get_mut(&id) {
            application.is_new = false;
        }
    }

    /// Builds the message for a pod, and its fingerprint. `None` if the engine already has a
    /// message with this fingerprint and a repeat is not due.
    pub(super) fn allocation_of(
        &self,
        key: &Key,
        node: Option<&str>,
        again: Option<Duration>,
    ) -> Option<(Allocation, u64)> {
        let record = self.pods.get(key)?;
        let (pod, id) = (&record.pod, record.application.as_ref()?);
        let application = self.applications.get(id);
        let gang = application.and_then(|application| application.gang.as_ref());
        let group = pod_group_of(pod).or_else(|| task_group_of(pod));
        let group = group.filter(|group| gang.is_some_and(|gang| gang.has(group)));
        let ask_spec = AskSpec::of(pod, self.may_be_preempted(pod));
        // A running pod with unreadable amounts counts as one pod of its node.
        let mut ask_spec = ask_spec.unwrap_or_else(|_| AskSpec::unreadable(pod));
        if let Some(group) = self.group_of(pod) {
            ask_spec.in_group(group.spec.priority, group.spec.preemption_policy.as_deref());
        }
        let fingerprint = ask_spec.fingerprint();
        let is_due = |now: Duration| record.resend_at.is_some_and(|at| at <= now);
        let is_new = again.is_none_or(|now| fingerprint != record.fingerprint || is_due(now));
        is_new.then(|| (ask_spec.message(pod, id, group, node), fingerprint))
    }

    /// Reports a pod of another scheduler. A repeat is sent only if it differs, or if it was
    /// refused and the pause is over.
    fn report_foreign(&mut self, key: &Key, node: &str, is_again: bool, now: Duration) {
        let Some(record) = known(&mut self.pods, key) else { return };
        let fingerprint =
            AskSpec::of(&record.pod, true).map_or(0, |ask_spec| ask_spec.fingerprint());
        let is_other = !is_again || fingerprint != record.fingerprint;
        if is_other {
            record.refusals = 0;
        } else if record.resend_at.is_none_or(|at| at > now) {
            return;
        }
        record.resend_at = None;
        record.fingerprint = fingerprint;
        self.orders.allocation(foreign(&record.pod, node));
    }

    /// Withdraws the pod from the engine. Returns whether that takes effect at once.
    pub(super) fn release_pod(&mut self, key: &Key) -> bool {
        let Some(record) = known(&mut self.pods, key) else { return false };
        let id = record.application_id();
        let mut release = AllocationRelease::new(&*id, &**key);
        let is_evicted = record.api_work == ApiWork::Evicting && record.cancel_guard.is_some();
        let ending = record.cancel_ending();
        let is_confirmation = ending.is_some() && matches!(record.engine, EngineState::Placed(_));
        if let Some(ending) = ending.as_ref().filter(|_| is_confirmation) {
            release.termination_type = ending.type_.into();
        }
        release.failed = !is_confirmation && record.end == End::Lost;
        // The engine answers the release of an allocation. It does not answer the release of an
        // ask. If the ask was placed before the release, the release ends the placement.
        let is_answered = matches!(record.engine, EngineState::Placed(_)) && !is_confirmation;
        record.engine = if is_answered { EngineState::Releasing } else { EngineState::Absent };
        let is_gone = record.is_gone;
        // The pod ended before the eviction was accepted.
        let unreported = ending.filter(|_| is_gone && is_evicted);
        if record.pod.node().is_none() || record.is_gone {
            let mut scene = open(&self.scene);
            scene.dismiss(key);
            scene.clear(key);
        }
        self.orders.release(release);
        if let Some(ending) = unreported {
            self.report_ending(key, ending);
        }
        if !is_answered && !is_gone {
            // A later ask of the same pod is a new one.
            self.orders.cut();
        }
        !is_answered
    }

    /// Handles a namespace that has become known.
    pub(super) fn namespace_came(&mut self, name: &str, now: Duration) {
        let waiting: Vec<_> = self.of_namespace.get(name).into_iter().flatten().cloned().collect();
        for key in waiting {
            self.reconcile(&key, now);
        }
    }

    /// Reconciles all pods of an application.
    pub(super) fn reconcile_all(&mut self, id: &Arc<str>, now: Duration) {
        let Some(application) = self.applications.get(id) else { return };
        let pods: Vec<_> = application.pods.iter().map(|(_, _, key)| Arc::clone(key)).collect();
        for key in pods {
            self.reconcile(&key, now);
        }
    }
}
