//! Applications: when they are submitted, when they are gone, and what their pods wait for meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::record::{AppTold, Application};
use super::said::{About, Event, GroupCondition, HandOrder, Key};
use super::waiting::Why;
use super::{Shim, open};
use crate::objects::{Meta as _, Pod, PodGroup};
use crate::translate::{
    DeclaredGang, application, declared_gang, has_declared_gang, hold_key, pod_group_gang,
    pod_group_of, task_group_of,
};

/// So long a pod that names a task group waits for one that declares it.
const DECLARATION: Duration = Duration::from_secs(30);
/// A refused application is tried again after this, and then after twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// The longest that a refused application waits.
const LAST_RETRY: Duration = Duration::from_secs(300);
/// All members of a group are victims together or not at all.
const DISRUPTION: &str = "monoceros.io/disruption";

impl Shim {
    /// Whether others of the application may be asked for now that this pod is there.
    pub(super) fn is_gathering(&self, id: &str, pod: &Pod) -> bool {
        let is_told = self.applications.get(id).is_some_and(|one| one.told == AppTold::Told);
        !is_told && (pod_group_of(pod).is_some() || has_declared_gang(pod))
    }

    /// Has the application be submitted, or says why not. What runs already is not kept waiting.
    pub(super) fn submit(
        &mut self,
        id: &Arc<str>,
        now: Duration,
        is_running: bool,
    ) -> Result<(), Why> {
        let Some(known) = self.applications.get(id) else {
            return Err(Why::new("Unknown", "", "its application is not known"));
        };
        match &known.told {
            AppTold::Told => return Ok(()),
            AppTold::Refused(reason, until) if *until > now => {
                return Err(Why::new("ApplicationRefused", "", reason.clone()));
            }
            AppTold::Failed(reason) => {
                return Err(Why::new("ApplicationFailed", "", reason.clone()));
            }
            AppTold::Nothing | AppTold::Refused(..) => {}
        }
        let gang = self.gang(id, now);
        let gang = match gang {
            Ok(gang) => gang,
            Err(_) if is_running => None,
            Err(why) => return Err(why),
        };
        let Some(first) = self.first_pod(id) else {
            return Err(Why::new("Unknown", "", "its application has no pod"));
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
            self.hands.push(warning(&first, "Ignored", "Submit", why));
        }
        self.orders.submit(request);
        if let Some(known) = self.applications.get_mut(id) {
            known.told = AppTold::Told;
            known.gang = gang;
            known.is_new = true;
            known.undeclared = None;
        }
        Ok(())
    }

    fn living<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let pods = self.applications.get(id).into_iter().flat_map(|application| &application.pods);
        pods.filter_map(|(_, key)| self.pods.get(key).filter(|record| !record.is_gone))
            .map(|record| &record.pod)
    }

    fn first_pod(&self, id: &str) -> Option<Arc<Pod>> {
        self.living(id).next().cloned()
    }

    fn group_of(&self, pod: &Pod) -> Option<&Arc<PodGroup>> {
        self.groups.get(&format!("{}/{}", pod.namespace(), pod_group_of(pod)?))
    }

    /// The gang that an application is, if it is one; or what is waited for until that is known.
    fn gang(&mut self, id: &Arc<str>, now: Duration) -> Result<Option<DeclaredGang>, Why> {
        let waits = |message: String| Err(Why::new("WaitingForGang", "", message));
        let Some(first) = self.first_pod(id) else { return Ok(None) };
        if let Some(name) = pod_group_of(&first) {
            let Some(group) = self.group_of(&first) else {
                return waits(format!("the PodGroup {name} is not there"));
            };
            let gang = match pod_group_gang(group) {
                Ok(gang) => gang,
                Err(why) => return Err(Why::new("GroupNotSupported", name, why)),
            };
            let Some(gang) = gang else { return Ok(None) };
            let needed = usize::try_from(gang.groups[0].min_members).unwrap_or(usize::MAX);
            let is_ready =
                |pod: &&Arc<Pod>| !pod.is_going() && pod.spec.scheduling_gates.is_empty();
            let there = self.living(id).filter(is_ready).count();
            if there < needed {
                return waits(format!(
                    "{there} pods of the PodGroup {name} are there, and it starts with {needed}"
                ));
            }
            return Ok(Some(gang));
        }
        let declaring = self.living(id).find(|pod| has_declared_gang(pod)).cloned();
        if let Some(pod) = declaring {
            return match declared_gang(&pod) {
                Some(Err(why)) => {
                    // It is said once, and the pods are scheduled one by one.
                    self.hands.push(warning(&pod, "GangIgnored", "Submit", why));
                    Ok(None)
                }
                Some(Ok(gang)) => Ok(Some(gang)),
                None => Ok(None),
            };
        }
        if !self.living(id).any(|pod| task_group_of(pod).is_some()) {
            return Ok(None);
        }
        let Some(known) = self.applications.get_mut(id) else { return Ok(None) };
        let until = *known.undeclared.get_or_insert(now) + DECLARATION;
        if until <= now {
            return Ok(None);
        }
        let members: Vec<_> = known.pods.iter().map(|(_, key)| Arc::clone(key)).collect();
        for key in members {
            self.schedule(&key, until);
        }
        waits("no pod of the application declares the task groups yet".to_owned())
    }

    /// A pod has left its application; with the last one it may end.
    pub(super) fn left_application(&mut self, id: &Arc<str>, key: &Key, pod: &Pod) {
        let Some(application) = self.applications.get_mut(id) else { return };
        application.pods.remove(&(pod.created(), Arc::clone(key)));
        if application.pods.is_empty() {
            self.end_application(id);
        }
    }

    fn end_application(&mut self, id: &Arc<str>) {
        let Some(application) = self.applications.get(id) else { return };
        if application.told == AppTold::Told {
            // The engine ends what has run by itself, which takes a while: an application of that name may
            // go on till then.
            if application.gang.is_none() && !application.is_new {
                return;
            }
            self.orders.remove(id);
        }
        self.forget_application(id);
    }

    fn forget_application(&mut self, id: &Arc<str>) {
        let Some(application) = self.applications.remove(id) else { return };
        self.dismiss_holds(id, application.gang.as_ref());
    }

    fn dismiss_holds(&self, id: &str, gang: Option<&DeclaredGang>) {
        let mut scene = open(&self.scene);
        for group in gang.into_iter().flat_map(|gang| gang.templates.keys()) {
            scene.dismiss(&hold_key(id, group));
        }
    }

    /// The engine has ended an application.
    pub(super) fn application_ended(&mut self, id: &Arc<str>, failed: Option<&str>, now: Duration) {
        let Some(application) = self.applications.get_mut(id) else { return };
        if application.told != AppTold::Told {
            return;
        }
        application.told = match failed {
            Some(why) => AppTold::Failed(why.to_owned()),
            None => AppTold::Nothing,
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

    /// The engine refuses an application.
    pub(super) fn application_refused(&mut self, id: &Arc<str>, reason: &str, now: Duration) {
        let Some(application) = self.applications.get_mut(id) else { return };
        if reason.contains("[R_APP_EXISTS]") || application.told != AppTold::Told {
            return;
        }
        tracing::warn!(application = &**id, reason, "the engine refuses an application");
        let delay = FIRST_RETRY * 2_u32.saturating_pow(application.refusals.min(10));
        let until = now + delay.min(LAST_RETRY);
        application.refusals += 1;
        application.told = AppTold::Refused(reason.to_owned(), until);
        let members: Vec<_> = application.pods.iter().map(|(_, key)| Arc::clone(key)).collect();
        for key in members {
            self.schedule(&key, until);
        }
    }

    pub(super) fn application_accepted(&mut self, id: &Arc<str>) {
        if let Some(application) = self.applications.get_mut(id) {
            application.refusals = 0;
        }
    }

    /// What was refused may be taken with these queues.
    pub(super) fn try_refused(&mut self, now: Duration) {
        let is_refused =
            |application: &Application| matches!(application.told, AppTold::Refused(..));
        let refused = self.applications.iter_mut().filter(|(_, one)| is_refused(one));
        let refused: Vec<_> = refused
            .map(|(id, application)| {
                application.told = AppTold::Nothing;
                Arc::clone(id)
            })
            .collect();
        for id in refused {
            self.reconcile_all(&id, now);
        }
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

    pub(super) fn group_changed(
        &mut self,
        key: String,
        group: Option<Arc<PodGroup>>,
        now: Duration,
    ) {
        let Some((namespace, name)) = key.split_once('/') else { return };
        let id: Arc<str> = Arc::from(format!("{namespace}/podgroup/{name}"));
        match group {
            Some(group) => drop(self.groups.insert(key, group)),
            None => drop(self.groups.remove(&key)),
        }
        self.reconcile_all(&id, now);
    }

    /// Places of a gang are there: its group is told so, once.
    pub(super) fn group_is_placed(&mut self, id: &Arc<str>) {
        self.tell_group(
            id,
            true,
            "Scheduled",
            "the pods that the group starts with have their nodes",
        );
    }

    /// Tells how the PodGroup of an application stands, if it has one and it was not told before.
    pub(super) fn tell_group(&mut self, id: &Arc<str>, status: bool, reason: &str, message: &str) {
        let Some(first) = self.first_pod(id) else { return };
        let Some(group) = self.group_of(&first) else { return };
        let (namespace, name) = (group.namespace().to_owned(), group.name().to_owned());
        if group.spec.scheduling_policy.gang.is_none() {
            return;
        }
        let Some(application) = self.applications.get_mut(id) else { return };
        let is_known = application.group_told.as_ref().is_some_and(|(known, why)| {
            // Once it is scheduled it stays so: the condition is about the first time.
            *known || (!status && why == message)
        });
        if is_known {
            return;
        }
        application.group_told = Some((status, message.to_owned()));
        self.hands.push(HandOrder::GroupCondition(GroupCondition {
            namespace,
            name,
            type_: "PodGroupInitiallyScheduled",
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }));
    }

    /// A member of a group is preempted.
    pub(super) fn group_is_disrupted(&mut self, key: &Key, message: &str) {
        let Some(record) = self.pods.get(key) else { return };
        let Some(group) = self.group_of(&record.pod) else { return };
        self.hands.push(HandOrder::GroupCondition(GroupCondition {
            namespace: group.namespace().to_owned(),
            name: group.name().to_owned(),
            type_: "DisruptionTarget",
            status: true,
            reason: "PreemptionByScheduler".to_owned(),
            message: message.to_owned(),
        }));
    }
}

pub(super) fn warning(
    pod: &Pod,
    reason: &'static str,
    action: &'static str,
    message: String,
) -> HandOrder {
    HandOrder::Event(Event { about: About::pod(pod), is_warning: true, reason, action, message })
}
