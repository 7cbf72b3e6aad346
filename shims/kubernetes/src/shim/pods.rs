//! Reconciles pods: compares the desired state in the engine with the actual one.

use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::{Allocation, AllocationRelease};
use tokio_util::sync::CancellationToken;

use super::record::{AppTold, Application, End, Hand, Record, Told};
use super::said::{Bind, HandOrder, Key, Placed};
use super::waiting::{Alarm, Why};
use super::{Shim, open};
use crate::objects::{Meta as _, Pod};
use crate::predicates::unsupported;
use crate::translate::{Wish, application_id, declared_text, foreign, pod_group_of, task_group_of};

/// The state that a pod should have in the engine.
enum Want {
    /// Absent. Holds the reason if the pod waits.
    Nothing(Option<Why>),
    /// A pending ask.
    Ask,
    /// As it is, since work at the API server is in flight.
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
                record.wanted = None;
            }
        }
        self.succeeded.note(key, pod.as_deref(), &self.mapping);
        let Some(pod) = pod.filter(|pod| !pod.is_over()) else { return self.pod_gone(key, now) };
        let is_ours = self.mapping.is_ours(&pod);
        if !is_ours && pod.node().is_none() {
            return self.pod_gone(key, now);
        }
        let said = is_ours.then(|| application_id(&pod, &self.mapping));
        let is_known = self.pods.contains_key(key);
        let new_id = said.as_ref().filter(|_| !is_known);
        let id = new_id.map(|said| self.id_of_new(&pod, said));
        let mut is_new = false;
        let number = self.n_pods;
        let known = self.pods.entry(Arc::clone(key)).or_insert_with(|| {
            is_new = true;
            Record::new(Arc::clone(&pod), number, id, now)
        });
        self.n_pods += u64::from(is_new);
        let before = std::mem::replace(&mut known.pod, Arc::clone(&pod));
        // A pod that was thought to be gone is back.
        let is_back = std::mem::take(&mut known.is_gone);
        let application = known.application.clone();
        let is_asked = known.told == Told::Asked;
        if is_new && let Some((id, said)) = application.as_ref().zip(said) {
            let entry = self.applications.entry(Arc::clone(id));
            let entry = entry.or_insert_with(|| Application::new(pod.namespace(), &said));
            entry.pods.insert(known.place(key));
            self.names.enter(pod.namespace(), &said, id);
            let namespace = self.of_namespace.entry(pod.namespace().to_owned()).or_default();
            namespace.insert(Arc::clone(key));
        }
        let is_new = is_new || is_back;
        let looks_alike = !is_new
            && before.labels() == pod.labels()
            && before.is_going() == pod.is_going()
            && before.spec.tolerations == pod.spec.tolerations
            && before.spec.scheduling_gates == pod.spec.scheduling_gates;
        if let Some(node) = pod.node() {
            if is_new || before.node().is_none() {
                let there = self.on_node.entry(node.to_owned()).or_default();
                there.insert(Arc::clone(key));
                if known.hand == Hand::Binding || known.hand == Hand::Bound {
                    known.hand = Hand::Idle;
                }
            }
            let mut scene = open(&self.scene);
            scene.dismiss(key);
            scene.settle(key, node, &pod);
        } else if is_asked && !looks_alike {
            open(&self.scene).expect(key, Arc::clone(&pod));
        }
        let goes = !is_new && pod.node().is_some() && pod.is_going() && !before.is_going();
        let redeclares = !is_new && declared_text(&before) != declared_text(&pod);
        let redeclares =
            redeclares && application.as_ref().is_some_and(|id| self.is_read_by(id, key));
        let makes_a_difference = self.count_share(key) || redeclares;
        if is_new && pod.node().is_none() {
            self.redeclare_if_larger(key, now);
        }
        match application {
            Some(id) if makes_a_difference => self.reconcile_all(&id, now),
            _ => self.reconcile(key, now),
        }
        if goes {
            let id = self.pods.get(key).and_then(|record| record.application.clone());
            self.pod_goes(id.as_ref(), now);
        }
        if pod.node().is_some() {
            self.binding_ended(key);
        }
    }

    fn pod_gone(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        record.is_gone = true;
        let application = record.application.clone();
        self.count_share(key);
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
            self.pod_goes(application.as_ref(), now);
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
            self.binding_is_over(key, node);
        }
        let namespace = record.pod.namespace();
        if let Some(all) = self.of_namespace.get_mut(namespace) {
            all.remove(key);
            if all.is_empty() {
                self.of_namespace.remove(namespace);
            }
        }
        if let Some(id) = &record.application {
            self.left_application(id, &record.place(key));
        }
    }

    /// Takes steps until a pod has its desired state.
    pub(super) fn reconcile(&mut self, key: &Key, now: Duration) {
        if !self.is_active {
            return;
        }
        while self.step(key, now) {}
        let is_done = |record: &Record| record.is_gone && record.told == Told::Nothing;
        if self.pods.get(key).is_some_and(is_done) {
            self.drop_record(key);
        }
    }

    /// Takes one step. Returns whether there may be another.
    fn step(&mut self, key: &Key, now: Duration) -> bool {
        let Some(record) = self.pods.get(key) else { return false };
        let told = record.told.clone();
        if told == Told::Leaving {
            return false;
        }
        let want = self.want(key, now);
        if let Want::Nothing(why) = &want
            && let Some(record) = self.pods.get_mut(key)
        {
            record.waits_for.clone_from(why);
        }
        match (told, want) {
            (Told::Nothing, Want::Nothing(why)) => {
                if why.is_some() {
                    self.look_at(key, now);
                }
                false
            }
            (Told::Leaving, _) | (Told::Nothing | Told::Asked | Told::Placed(_), Want::Keep) => {
                false
            }
            (Told::Nothing, Want::Ask) => {
                self.ask(key, now);
                false
            }
            (Told::Asked, Want::Ask) => {
                self.say(key, None, true, now);
                false
            }
            (Told::Nothing, Want::On(node)) => {
                self.say(key, Some(&node), false, now);
                self.set_told(key, Told::Placed(node));
                false
            }
            (Told::Placed(there), Want::On(node)) if there == node => {
                self.say(key, Some(&node), true, now);
                false
            }
            (Told::Nothing, Want::Foreign(node)) => {
                self.say_foreign(key, &node, false, now);
                self.set_told(key, Told::Foreign(node));
                false
            }
            (Told::Foreign(there), Want::Foreign(node)) if there == node => {
                self.say_foreign(key, &node, true, now);
                false
            }
            (Told::Foreign(_), _) => {
                self.orders.release(AllocationRelease::new("", &**key));
                self.orders.cut();
                self.set_told(key, Told::Nothing);
                true
            }
            (Told::Asked | Told::Placed(_), _) => self.give_back(key),
        }
    }

    fn set_told(&mut self, key: &Key, told: Told) {
        if let Some(record) = self.pods.get_mut(key) {
            record.told = told;
        }
    }

    fn want(&mut self, key: &Key, now: Duration) -> Want {
        let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else {
            return Want::Nothing(None);
        };
        let pod = Arc::clone(&record.pod);
        if let Some(name) = pod.node() {
            if !self.nodes.get(name).is_some_and(|node| node.is_told) {
                return Want::Nothing(None);
            }
            let node = Arc::from(name);
            let Some(application) = record.application.clone() else { return Want::Foreign(node) };
            // A running pod takes room even if its application is rejected.
            let is_refused = record.refused.is_some();
            let is_taken = !is_refused && self.submit(&application, now, true).is_ok();
            return if is_taken { Want::On(node) } else { Want::Foreign(node) };
        }
        if record.hand != Hand::Idle {
            return Want::Keep;
        }
        if pod.is_going() || !pod.spec.scheduling_gates.is_empty() {
            return Want::Nothing(None);
        }
        if self.holding.is_awaited() && record.told == Told::Nothing {
            // Gangs of which a part runs get their places first.
            return Want::Nothing(None);
        }
        if record.not_before > now {
            let at = record.not_before;
            let why = record.refused.as_ref().map(|why| Why::new("Refused", "", why.clone()));
            self.alarm(at, Alarm::Pod(Arc::clone(key)));
            return Want::Nothing(why);
        }
        if let Some(why) = unsupported(&pod) {
            return Want::Nothing(Some(Why::new("NotSupported", "", why)));
        }
        if let Err(why) = Wish::of(&pod, true) {
            return Want::Nothing(Some(Why::new("Unreadable", "", why)));
        }
        let Some(application) = record.application.clone() else { return Want::Nothing(None) };
        // A pending ask stays even if other pods of its group are deleted.
        let is_asked = record.told == Told::Asked;
        if !is_asked && let Some(why) = self.unreadable(&application) {
            return Want::Nothing(Some(why));
        }
        let taken = self.submit(&application, now, is_asked);
        match taken {
            Ok(()) if is_asked || self.takes_requests(&application) => Want::Ask,
            // Waits until the engine accepts or rejects the application.
            Ok(()) => Want::Nothing(None),
            Err(why) => Want::Nothing(Some(why)),
        }
    }

    fn ask(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        record.told = Told::Asked;
        record.asked = now;
        record.refused = None;
        record.waits_for = None;
        record.wants_nodes = false;
        let (pod, application) = (Arc::clone(&record.pod), record.application.clone());
        open(&self.scene).expect(key, Arc::clone(&pod));
        if let Some(id) = application {
            self.report_unknown_group(&pod, &id);
        }
        self.say(key, None, false, now);
        self.look_at(key, now);
    }

    /// Reports the pod's ask or allocation. A repeat is sent only if it differs, or if it was
    /// refused and the pause is over.
    fn say(&mut self, key: &Key, node: Option<&str>, is_again: bool, now: Duration) {
        let again = is_again.then_some(now);
        let Some((allocation, said)) = self.allocation_of(key, node, again) else { return };
        let Some(record) = self.pods.get_mut(key) else { return };
        if node.is_some() {
            record.is_held &= is_again;
            if said != record.said {
                record.refusals = 0;
            }
        }
        record.say_again = None;
        record.said = said;
        let id = record.application.clone().unwrap_or_default();
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
        let (pod, id) = (Arc::clone(&record.pod), record.application.clone()?);
        let application = self.applications.get(&id);
        let gang = application.and_then(|application| application.gang.as_ref());
        let group = pod_group_of(&pod).or_else(|| task_group_of(&pod));
        let group = group.filter(|group| gang.is_some_and(|gang| gang.has(group)));
        let wish = Wish::of(&pod, self.may_be_preempted(&pod));
        // A running pod with unreadable amounts counts as one pod of its node.
        let mut wish = wish.unwrap_or_else(|_| Wish::of_nothing(&pod));
        if let Some(group) = pod_group_of(&pod) {
            let group = self.groups.get(&format!("{}/{group}", pod.namespace()));
            if let Some(spec) = group.map(|group| &group.spec) {
                wish.in_group(spec.priority, spec.preemption_policy.as_deref());
            }
        }
        let said = wish.fingerprint();
        let is_due = |now: Duration| record.say_again.is_some_and(|at| at <= now);
        let is_new = again.is_none_or(|now| said != record.said || is_due(now));
        is_new.then(|| (wish.message(&pod, &id, group, node), said))
    }

    /// Reports a pod of another scheduler. A repeat is sent only if it differs, or if it was
    /// refused and the pause is over.
    fn say_foreign(&mut self, key: &Key, node: &str, is_again: bool, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let said = Wish::of(&record.pod, true).map_or(0, |wish| wish.fingerprint());
        let is_other = !is_again || said != record.said;
        if is_other {
            record.refusals = 0;
        } else if record.say_again.is_none_or(|at| at > now) {
            return;
        }
        record.say_again = None;
        record.said = said;
        self.orders.allocation(foreign(&record.pod, node));
    }

    /// Withdraws the pod from the engine. Returns whether that takes effect at once.
    pub(super) fn give_back(&mut self, key: &Key) -> bool {
        let Some(record) = self.pods.get_mut(key) else { return false };
        let id = record.application.clone().unwrap_or_default();
        let mut release = AllocationRelease::new(&*id, &**key);
        let is_sent_away = record.hand == Hand::Evicting && record.wanted.is_some();
        let ending = record.let_stay();
        let is_confirmation = ending.is_some() && matches!(record.told, Told::Placed(_));
        let told_ending = ending.clone();
        if let Some(ending) = ending.filter(|_| is_confirmation) {
            release.termination_type = ending.type_.into();
        }
        release.failed = !is_confirmation && record.end == End::Lost;
        // The engine answers the release of an allocation. It does not answer that of an ask; if
        // the ask was placed meanwhile, the same release ends the placement.
        let is_answered = matches!(record.told, Told::Placed(_)) && !is_confirmation;
        record.told = if is_answered { Told::Leaving } else { Told::Nothing };
        let is_gone = record.is_gone;
        // The pod ended before the eviction was accepted.
        let untold = told_ending.filter(|_| is_gone && is_sent_away);
        if record.pod.node().is_none() || record.is_gone {
            let mut scene = open(&self.scene);
            scene.dismiss(key);
            scene.clear(key);
        }
        self.orders.release(release);
        if let Some(ending) = untold {
            self.tell_ending(key, ending);
        }
        if !is_answered && !is_gone {
            // A later ask of the same pod is a new one.
            self.orders.cut();
        }
        !is_answered
    }

    /// Handles a placement.
    pub(super) fn placed_on(&mut self, placed: &Placed, now: Duration) {
        let Placed { key, application, node } = placed;
        let Some(record) = self.pods.get_mut(key) else {
            // The pod was withdrawn meanwhile, and that release ends the placement.
            open(&self.scene).clear(key);
            return;
        };
        let is_of_another = record.application.as_ref().is_some_and(|own| own != application);
        match record.told {
            // An earlier application of the pod had asked, and its release is in flight.
            Told::Asked if is_of_another => return open(&self.scene).clear(key),
            Told::Asked => {}
            // A confirmation of a running allocation.
            Told::Placed(_) => {
                record.is_held = true;
                return;
            }
            Told::Foreign(_) | Told::Leaving => return,
            Told::Nothing => {
                let id = record.application.clone().unwrap_or_default();
                self.orders.release(AllocationRelease::new(&*id, &**key));
                if record.pod.node().is_none() {
                    open(&self.scene).clear(key);
                }
                return;
            }
        }
        let node = Arc::clone(node);
        let called_off = CancellationToken::new();
        record.told = Told::Placed(Arc::clone(&node));
        record.is_held = true;
        record.hand = Hand::Binding;
        record.wanted = Some(called_off.clone().drop_guard());
        record.why = None;
        record.wants_nodes = false;
        record.refusals = 0;
        let volumes = {
            let mut scene = open(&self.scene);
            let volumes = scene.volume_choices(key);
            scene.dismiss(key);
            volumes
        };
        let (pod, seen) = (Arc::clone(&record.pod), record.seen);
        let application = record.application.clone();
        self.binding_begins(key, &node);
        let bind = Bind { key: Arc::clone(key), pod, node, volumes, seen, called_off };
        self.hands.push(HandOrder::Bind(bind));
        if let Some(id) = application {
            self.group_is_placed(&id, now);
        }
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

    /// Handles the rejection of an ask or allocation.
    pub(super) fn pod_refused(&mut self, key: &Key, reason: &str, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        match record.told {
            Told::Asked | Told::Placed(_) | Told::Leaving => {}
            Told::Foreign(_) => return self.change_refused(key, reason, now),
            Told::Nothing => return,
        }
        let application_is_over =
            reason.contains("[R_APP_UNKNOWN]") || reason.contains("[R_APP_STATE]");
        if record.is_held && matches!(record.told, Told::Placed(_)) && !application_is_over {
            return self.change_refused(key, reason, now);
        }
        // A running pod with a rejected allocation takes room as a foreign one.
        let was_placed = matches!(record.told, Told::Placed(_));
        record.told = Told::Nothing;
        open(&self.scene).dismiss(key);
        let id = record.application.clone();
        if application_is_over {
            // The application has just ended. It is submitted again with the pod, which is new to
            // the engine.
            if let Some(application) = id.and_then(|id| self.applications.get_mut(&id))
                && application.told == AppTold::Told
            {
                application.told = AppTold::Nothing;
            }
        } else {
            tracing::warn!(
                pod = record.pod.name(),
                namespace = record.pod.namespace(),
                reason,
                "the engine refuses a pod"
            );
            record.refused = Some(reason.to_owned());
            if !was_placed {
                record.not_before = now + refused_pause(record.refusals);
                record.refusals += 1;
            }
        }
        self.reconcile(key, now);
    }

    /// Handles the rejection of a running pod's changed amounts. An earlier report stays in force.
    /// The change is sent again after a pause, or as soon as it differs.
    fn change_refused(&mut self, key: &Key, reason: &str, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if record.refusals == 0 {
            tracing::warn!(
                pod = record.pod.name(),
                namespace = record.pod.namespace(),
                reason,
                "the engine refuses what a running pod takes"
            );
        }
        let at = now + refused_pause(record.refusals);
        record.refusals += 1;
        record.say_again = Some(at);
        self.alarm(at, Alarm::Pod(Arc::clone(key)));
    }
}

/// Returns the pause after this many refusals in a row.
fn refused_pause(refusals: u32) -> Duration {
    const FIRST: Duration = Duration::from_secs(30);
    const LAST: Duration = Duration::from_secs(300);
    (FIRST * 2_u32.saturating_pow(refusals.min(10))).min(LAST)
}
