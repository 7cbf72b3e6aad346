//! Applications: submission, rejection, end, and their ids.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::tags::NAMESPACE_CHANGED;
use rustc_hash::FxHashMap;

use super::gangs::declarer;
use super::messages::{About, ApiOrder, Event, Key};
use super::record::{AppState, Application, DeclaredBy, EngineState, PodPosition};
use super::waiting::{Alarm, WaitReason};
use super::{Shim, known, open};
use crate::objects::{Meta as _, Pod};
use crate::translate::{DeclaredGang, application, hold_key};

/// First pause before a rejected application is submitted again. Each further pause is twice as
/// long.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// Longest pause before a rejected application is submitted again.
const LAST_RETRY: Duration = Duration::from_secs(300);
/// How long notifications that the engine sent before an order may be in flight.
const IN_FLIGHT: Duration = Duration::from_millis(500);
/// Tag of an application whose pods are preempted together or not at all.
const DISRUPTION: &str = "monoceros.io/disruption";

/// Ids of applications, by the namespace of their pods and the id that the pods name.
#[derive(Debug, Default)]
pub(super) struct Names(FxHashMap<String, FxHashMap<String, Arc<str>>>);

impl Names {
    fn get(&self, namespace: &str, declared_id: &str) -> Option<&Arc<str>> {
        self.0.get(namespace)?.get(declared_id)
    }

    pub(super) fn insert(&mut self, namespace: &str, declared_id: &str, id: &Arc<str>) {
        let all = self.0.entry(namespace.to_owned()).or_default();
        all.insert(declared_id.to_owned(), Arc::clone(id));
    }

    /// Removes an application. A later one of the same name keeps its entry.
    fn remove(&mut self, namespace: &str, declared_id: &str, id: &Arc<str>) {
        let Some(all) = self.0.get_mut(namespace) else { return };
        if all.get(declared_id) == Some(id) {
            all.remove(declared_id);
        }
        if all.is_empty() {
            self.0.remove(namespace);
        }
    }
}

impl Shim {
    /// Returns the application that pods of the namespace mean by this name. An existing
    /// application keeps its id. A new one whose name is taken has its namespace in the id.
    pub(super) fn id_in(&self, namespace: &str, declared_id: &str) -> Arc<str> {
        if let Some(known) = self.names.get(namespace, declared_id) {
            return Arc::clone(known);
        }
        self.free_id(namespace, declared_id, false)
    }

    /// Returns an unused id: the name that the pods give; with the namespace before it, if another
    /// namespace has that name; and with a number behind it for a later application of the same
    /// name.
    pub(super) fn free_id(&self, namespace: &str, declared_id: &str, is_later: bool) -> Arc<str> {
        let mut id = declared_id.to_owned();
        if is_later {
            let mut numbered = (2_u64..).map(|number| format!("{declared_id}.{number}"));
            id = numbered.find(|id| !self.applications.contains_key(&**id)).unwrap_or(id);
        }
        while self.applications.contains_key(&*id) {
            id = format!("{namespace}/{id}");
        }
        Arc::from(id)
    }

    /// Assigns new ids in the order in which the oldest pods were created, so that each replica
    /// assigns the same. Only for applications that the engine does not know.
    pub(super) fn assign_ids(&mut self) {
        let mut all: Vec<_> = std::mem::take(&mut self.applications).into_iter().collect();
        all.sort_unstable_by(|(_, one), (_, other)| one.age().cmp(&other.age()));
        self.names = Names::default();
        for (before, application) in all {
            let Application { namespace, declared_id, .. } = &application;
            let is_later = self.names.get(namespace, declared_id).is_some();
            let id = self.free_id(namespace, declared_id, is_later);
            self.names.insert(namespace, declared_id, &id);
            if id != before {
                for (_, _, key) in &application.pods {
                    if let Some(record) = self.pods.get_mut(key) {
                        record.application = Some(Arc::clone(&id));
                    }
                }
            }
            self.applications.insert(id, application);
        }
    }

    /// Submits the application, or returns why it must wait. An application with running pods does
    /// not wait.
    pub(super) fn submit(
        &mut self,
        id: &Arc<str>,
        now: Duration,
        is_running: bool,
    ) -> Result<(), WaitReason> {
        let Some(known) = self.applications.get(id) else {
            return Err(WaitReason::new("Unknown", "", "its application is not known"));
        };
        match &known.state {
            AppState::Submitted => return Ok(()),
            AppState::Rejected(reason, until) if *until > now => {
                return Err(WaitReason::new("ApplicationRefused", "", reason.clone()));
            }
            AppState::Failed(reason) => {
                return Err(WaitReason::new("ApplicationFailed", "", reason.clone()));
            }
            AppState::Unsubmitted | AppState::Rejected(..) => {}
        }
        let Some(first) = self.first_pod(id) else {
            return Err(WaitReason::new("Unknown", "", "its application has no pod"));
        };
        if !is_running && !self.namespaces.contains_key(first.namespace()) {
            // The namespace may have quotas.
            let message = format!("the namespace {} is not known yet", first.namespace());
            return Err(WaitReason::new("WaitingForNamespace", "", message));
        }
        let gang = self.gang(id, now);
        let gang = match gang {
            Ok(gang) => gang,
            Err(_) if is_running => None,
            Err(why) => return Err(why),
        };
        let namespace = self.namespaces.get(first.namespace());
        let (mut request, wrong) = application(&first, namespace.map(|it| &**it), &self.mapping);
        (**id).clone_into(&mut request.application_id);
        if let Some(gang) = &gang {
            gang.declare(&mut request);
            let mut scene = open(&self.scene);
            for (group, template) in &gang.templates {
                scene.expect(&hold_key(id, group), Arc::clone(template));
            }
        }
        if let Some(group) = self.group_of(&first)
            && group.spec.disruption_mode.all.is_some()
        {
            request = request.with_tag(DISRUPTION, "all");
        }
        for why in wrong {
            self.api_orders.push(warning(&first, "Ignored", "Submit", why));
        }
        self.orders.submit(request);
        let declaring = self.applications.get(id).and_then(|known| known.counts.declaring());
        let declaring = declaring.and_then(|key| self.pods.get(key));
        let declared_by = declaring.filter(|_| gang.is_some()).map(|record| DeclaredBy {
            uid: declarer(&record.pod).to_owned(),
            is_other_reported: false,
        });
        if let Some(known) = self.applications.get_mut(id) {
            known.state = AppState::Submitted;
            known.declared_by = declared_by.unwrap_or_default();
            known.gang = gang;
            known.is_new = true;
            known.undeclared = None;
        }
        Ok(())
    }

    /// Sends changed quota annotations of a namespace with each of its applications, and submits
    /// its rejected applications again.
    pub(super) fn namespace_changed(&mut self, name: &str, now: Duration) {
        if !self.is_active {
            return;
        }
        let is_submitted =
            |known: &Application| known.namespace == name && known.state == AppState::Submitted;
        let submitted = self.applications.iter().filter(|(_, known)| is_submitted(known));
        let mut ids: Vec<_> = submitted.map(|(id, _)| Arc::clone(id)).collect();
        ids.sort_unstable();
        let mut is_first = true;
        for id in ids {
            let Some(first) = self.first_pod(&id) else { continue };
            let namespace = self.namespaces.get(name);
            let (mut request, wrong) =
                application(&first, namespace.map(|it| &**it), &self.mapping);
            (*id).clone_into(&mut request.application_id);
            self.orders.submit(request.with_tag(NAMESPACE_CHANGED, "true"));
            for why in wrong.into_iter().filter(|_| is_first) {
                self.api_orders.push(warning(&first, "Ignored", "Submit", why));
            }
            is_first = false;
        }
        self.retry_rejected_applications(|known| known.namespace == name, now);
    }

    /// Returns the oldest pod that exists.
    pub(super) fn first_pod(&self, id: &str) -> Option<Arc<Pod>> {
        let mut pods = self.applications.get(id)?.pods.iter();
        pods.find_map(|(_, _, key)| {
            let record = self.pods.get(key).filter(|record| !record.is_gone)?;
            Some(Arc::clone(&record.pod))
        })
    }

    /// Withdraws an application without running pods from the engine.
    pub(super) fn withdraw(&mut self, id: &Arc<str>, now: Duration) {
        let Some(application) = known(&mut self.applications, id) else { return };
        let gang = application.gang.take();
        self.holds_confirmed(id);
        let Some(application) = known(&mut self.applications, id) else { return };
        let pods: Vec<_> = application.pods.iter().map(|(_, _, key)| Arc::clone(key)).collect();
        application.reset();
        self.orders.remove(id);
        self.dismiss_holds(id, gang.as_ref());
        for key in pods {
            let Some(record) = self.pods.get_mut(&key) else { continue };
            // The engine ends the application's asks without an answer.
            if record.engine == EngineState::Asked {
                record.engine = EngineState::Absent;
                open(&self.scene).dismiss(&key);
                self.delay_next_ask(&key, now);
            }
        }
    }

    /// Delays the next ask for a pod: a placement in flight must arrive first, so that it is not
    /// taken for the answer to that ask.
    pub(super) fn delay_next_ask(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        record.not_before = record.not_before.max(now + IN_FLIGHT);
        let at = record.not_before;
        self.alarm(at, Alarm::Pod(Arc::clone(key)));
    }

    /// Removes a pod from its application, which may end with its last pod.
    pub(super) fn left_application(&mut self, id: &Arc<str>, position: &PodPosition) {
        let Some(application) = known(&mut self.applications, id) else { return };
        application.pods.remove(position);
        if application.pods.is_empty() {
            self.end_application(id);
        }
    }

    fn end_application(&mut self, id: &Arc<str>) {
        let Some(application) = self.applications.get(id) else { return };
        if application.state == AppState::Submitted {
            // The engine completes an application that has run by itself after a while. Until then
            // an application of the same name may continue it.
            if application.gang.is_none() && !application.is_new {
                return;
            }
            self.orders.remove(id);
        }
        self.forget_application(id);
    }

    fn forget_application(&mut self, id: &Arc<str>) {
        let Some(application) = self.applications.remove(id) else { return };
        self.holds_confirmed(id);
        self.names.remove(&application.namespace, &application.declared_id, id);
        if **id != *application.declared_id {
            // An earlier application of the same name may still exist.
            let is_same = |other: &&Application| {
                (&other.namespace, &other.declared_id)
                    == (&application.namespace, &application.declared_id)
            };
            let others = self.applications.iter().filter(|(_, other)| is_same(other));
            if let Some(last) = others.max_by_key(|(id, _)| (id.len(), Arc::clone(id))) {
                let last = Arc::clone(last.0);
                self.names.insert(&application.namespace, &application.declared_id, &last);
            }
        }
        self.dismiss_holds(id, application.gang.as_ref());
    }

    fn dismiss_holds(&self, id: &str, gang: Option<&DeclaredGang>) {
        let mut scene = open(&self.scene);
        for group in gang.into_iter().flat_map(|gang| gang.templates.keys()) {
            scene.dismiss(&hold_key(id, group));
        }
    }

    /// Handles the end of an application in the engine.
    pub(super) fn application_ended(&mut self, id: &Arc<str>, failed: Option<&str>, now: Duration) {
        self.holds_confirmed(id);
        let Some(application) = self.applications.get_mut(id) else { return };
        if application.state != AppState::Submitted {
            return;
        }
        application.is_accepted = false;
        application.state = match failed {
            Some(why) => AppState::Failed(why.to_owned()),
            None => AppState::Unsubmitted,
        };
        let gang = application.gang.take();
        self.dismiss_holds(id, gang.as_ref());
        let Some(application) = self.applications.get(id) else { return };
        if application.pods.is_empty() {
            self.forget_application(id);
        } else {
            self.reconcile_all(id, now);
        }
    }

    /// Handles the rejection of an application.
    pub(super) fn application_refused(&mut self, id: &Arc<str>, reason: &str, now: Duration) {
        self.holds_confirmed(id);
        let Some(application) = self.applications.get_mut(id) else { return };
        if application.state != AppState::Submitted {
            return;
        }
        if reason.contains("[R_APP_UNKNOWN]") {
            // The application ended before its changed quotas arrived. The next submission has
            // them.
            return;
        }
        if reason.contains("[R_APP_EXISTS]") {
            return self.application_accepted(id);
        }
        application.is_accepted = false;
        tracing::warn!(application = &**id, reason, "the engine refuses an application");
        let delay = FIRST_RETRY * 2_u32.saturating_pow(application.refusals.min(10));
        let until = now + delay.min(LAST_RETRY);
        application.refusals += 1;
        application.state = AppState::Rejected(reason.to_owned(), until);
        self.alarm(until, Alarm::Application(Arc::clone(id)));
        self.reconcile_all(id, now);
    }

    pub(super) fn application_accepted(&mut self, id: &Arc<str>) {
        let Some(application) = self.applications.get_mut(id) else { return };
        application.refusals = 0;
        if application.state == AppState::Submitted
            && !std::mem::replace(&mut application.is_accepted, true)
        {
            self.reconcile_next(id);
        }
    }

    /// Returns whether asks for this application may be sent: the engine has accepted it, or it is
    /// a gang, whose asks are sent with it. Asks for a rejected application would be counted as
    /// errors.
    pub(super) fn accepts_asks(&self, id: &str) -> bool {
        self.applications.get(id).is_some_and(|known| known.is_accepted || known.gang.is_some())
    }

    /// Submits some of the rejected applications again.
    fn retry_rejected_applications(
        &mut self,
        is_meant: impl Fn(&Application) -> bool,
        now: Duration,
    ) {
        let is_refused = |known: &Application| matches!(known.state, AppState::Rejected(..));
        let refused = self.applications.iter_mut();
        let refused = refused.filter(|(_, known)| is_refused(known) && is_meant(known));
        let refused: Vec<_> = refused
            .map(|(id, known)| {
                known.state = AppState::Unsubmitted;
                Arc::clone(id)
            })
            .collect();
        for id in refused {
            self.reconcile_all(&id, now);
        }
    }

    /// Retries all rejected applications and pods, since the new queues may accept them.
    pub(super) fn retry_rejected(&mut self, now: Duration) {
        self.retry_rejected_applications(|_| true, now);
        let pods = self.pods.iter_mut().filter(|(_, record)| record.refused.is_some());
        let pods: Vec<_> = pods
            .map(|(key, record)| {
                record.refused = None;
                record.not_before = Duration::ZERO;
                Arc::clone(key)
            })
            .collect();
        for key in pods {
            self.reconcile(&key, now);
        }
    }
}

pub(super) fn warning(
    pod: &Pod,
    reason: &'static str,
    action: &'static str,
    message: String,
) -> ApiOrder {
    ApiOrder::Event(Event { about: About::pod(pod), is_warning: true, reason, action, message })
}
