//! Gangs until they are complete: their declaration, and how many of their pods exist.
//!
//! # Why counted
//! The pods of a group of 10,000 arrive one by one. Each is counted when it arrives. The others are
//! reconciled only when that matters to them: the group is complete, or has been declared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::applications::warning;
use super::messages::Key;
use super::record::{AppState, Application, DeclaredBy, EngineState};
use super::waiting::{Alarm, WaitReason};
use super::{Shim, known};
use crate::objects::{Meta as _, Pod, PodGroup};
use crate::translate::{
    DeclaredGang, declared_gang, declared_text, has_declared_gang, pod_group_gang, pod_group_of,
    task_group_of,
};

/// How long a pod of a task group waits for one that declares it.
const DECLARATION: Duration = Duration::from_secs(30);

/// Most new declarations of a gang because a pod is larger than its group.
const MAX_RESIZES: u32 = 8;
/// Most different warnings about an application. Each is sent once.
const WARNINGS: usize = 20;

/// Contribution of a pod to the counts of its application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contribution {
    /// Whether an ask for the pod may be sent.
    is_ready: bool,
    /// Whether the pod declares the gang.
    declares: bool,
    /// Whether the pod names a task group.
    names_group: bool,
    node_state: NodeState,
}

/// Whether a pod has a node and keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NodeState {
    #[default]
    None,
    Bound,
    /// The pod has a node and is being deleted.
    Ending,
}

impl Contribution {
    /// Returns the contribution of an existing pod.
    fn of(pod: &Pod) -> Self {
        Self {
            is_ready: !pod.is_going() && pod.spec.scheduling_gates.is_empty(),
            declares: has_declared_gang(pod),
            names_group: task_group_of(pod).is_some(),
            node_state: match pod.node() {
                None => NodeState::None,
                Some(_) if pod.is_going() => NodeState::Ending,
                Some(_) => NodeState::Bound,
            },
        }
    }
}

/// Counts of the pods of an application.
#[derive(Clone, Debug, Default)]
pub(super) struct PodCounts {
    ready: usize,
    declaring: std::collections::BTreeSet<(i64, Key)>,
    naming: usize,
    /// Number of pods with a node that are not being deleted.
    bound: usize,
    /// Number of pods with a node that are being deleted.
    ending: usize,
}

impl PodCounts {
    /// Returns whether any pod has a node.
    fn has_nodes(&self) -> bool {
        self.bound + self.ending > 0
    }

    /// Returns the oldest pod that declares the gang.
    pub(super) fn declaring(&self) -> Option<&Key> {
        self.declaring.first().map(|(_, key)| key)
    }

    /// Returns all pods that declare the gang, oldest first.
    pub(super) fn all_declaring(&self) -> impl Iterator<Item = &Key> {
        self.declaring.iter().map(|(_, key)| key)
    }

    fn change(&mut self, key: &Key, created: i64, before: Contribution, after: Contribution) {
        self.ready = self.ready + usize::from(after.is_ready) - usize::from(before.is_ready);
        self.naming =
            self.naming + usize::from(after.names_group) - usize::from(before.names_group);
        let change = |count: usize, node_state: NodeState| {
            count + usize::from(after.node_state == node_state)
                - usize::from(before.node_state == node_state)
        };
        self.bound = change(self.bound, NodeState::Bound);
        self.ending = change(self.ending, NodeState::Ending);
        if after.declares != before.declares {
            let it = (created, Arc::clone(key));
            let changed =
                if after.declares { self.declaring.insert(it) } else { self.declaring.remove(&it) };
            debug_assert!(changed, "a pod declares once");
        }
    }
}

impl Shim {
    /// Updates the contribution of a pod. Returns whether other pods of its application may be
    /// asked for because of it.
    pub(super) fn update_contribution(&mut self, key: &Key) -> bool {
        let Some(id) = self.application_of(key) else { return false };
        let Some(record) = known(&mut self.pods, key) else { return false };
        let contribution =
            if record.is_gone { Contribution::default() } else { Contribution::of(&record.pod) };
        let before = std::mem::replace(&mut record.contribution, contribution);
        if contribution == before {
            return false;
        }
        let pod = Arc::clone(&record.pod);
        let needed = self.group_of(&pod).map(|group| needed(group));
        let Some(application) = known(&mut self.applications, &id) else { return false };
        let is_complete = |all: &PodCounts| needed.is_some_and(|needed| all.ready >= needed);
        let was_complete = is_complete(&application.counts);
        let was_declared = !application.counts.declaring.is_empty();
        application.counts.change(key, pod.created(), before, contribution);
        let is_declared = !application.counts.declaring.is_empty();
        if application.state == AppState::Submitted {
            if contribution.declares && !before.declares {
                self.declared_late(&pod, &id);
            }
            return false;
        }
        (is_complete(&application.counts) && !was_complete) || (is_declared && !was_declared)
    }

    /// Warns about a pod that declares task groups for a submitted application, if it declares
    /// another gang. Each pod of a gang may declare it, so this reads no other pods than the first.
    fn declared_late(&mut self, pod: &Pod, id: &Arc<str>) {
        let Some(application) = self.applications.get(id) else { return };
        if application.gang.is_none() {
            let why = "the task groups are declared too late: pods of the application are \
                       scheduled one by one already";
            return self.api_orders.push(warning(pod, "GangIgnored", "Submit", why.to_owned()));
        }
        let DeclaredBy { uid, is_other_reported } = &application.declared_by;
        if *is_other_reported || *uid == declarer(pod) {
            return;
        }
        let first = application.counts.declaring().and_then(|key| self.pods.get(key));
        let says_the_same =
            first.is_some_and(|first| declared_text(&first.pod) == declared_text(pod));
        // Before a gang runs, several jobs, and pods without a controller, may declare it.
        if says_the_same && (pod.controller().is_none() || !application.counts.has_nodes()) {
            return;
        }
        let Some(application) = self.applications.get_mut(id) else { return };
        let Some(gang) = &application.gang else { return };
        application.declared_by.is_other_reported = true;
        let counts = gang.summary();
        let declared = declared_gang(pod).and_then(Result::ok);
        let declared = declared.map(|gang| gang.summary()).unwrap_or_default();
        let why = format!(
            "the application has a gang already ({counts}), which is not over: what this pod declares \
             ({declared}) is not heeded, and it is scheduled as one more member"
        );
        self.api_orders.push(warning(pod, "GangIgnored", "Submit", why));
    }

    /// Raises the size of each group to the size of its largest pod.
    fn with_sizes_of_members(&mut self, id: &Arc<str>, mut gang: DeclaredGang) -> DeclaredGang {
        let Some(application) = self.applications.get(id) else { return gang };
        let mut warnings = BTreeMap::new();
        for (_, _, key) in &application.pods {
            let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else {
                continue;
            };
            if let Some(oversized) = gang.oversized(&record.pod) {
                gang.enlarge(&oversized);
                warnings.insert(oversized.group.clone(), (Arc::clone(&record.pod), oversized));
            }
        }
        for (pod, oversized) in warnings.into_values() {
            let why = format!("{oversized}: so much counts for each member");
            self.warn_once(id, &pod, "GangResized", why);
        }
        gang
    }

    /// Declares an undecided gang again if this pod is larger than its group. For a decided gang,
    /// sends a warning instead.
    pub(super) fn redeclare_if_larger(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else { return };
        let (pod, id) = (Arc::clone(&record.pod), record.application_id());
        let Some(application) = self.applications.get_mut(&id) else { return };
        if application.state != AppState::Submitted || application.resized > MAX_RESIZES {
            return;
        }
        let oversized = application.gang.as_ref().and_then(|gang| gang.oversized(&pod));
        let Some(oversized) = oversized else { return };
        application.resized += 1;
        if application.resized <= MAX_RESIZES && !self.has_started(&id) {
            self.withdraw(&id, now);
            return self.reconcile_all(&id, now);
        }
        if let Some(application) = self.applications.get_mut(&id) {
            application.resized = MAX_RESIZES + 1;
        }
        let why = format!(
            "{oversized}: it does not fit into what is held for the group, and is scheduled by itself"
        );
        self.api_orders.push(warning(&pod, "GangIgnored", "Submit", why));
    }

    /// Sends a warning about an application, unless it was sent before or many were.
    fn warn_once(&mut self, id: &str, pod: &Pod, reason: &'static str, why: String) {
        let Some(application) = self.applications.get_mut(id) else { return };
        let warned = &mut application.warned;
        if warned.len() < WARNINGS && warned.insert(why.clone()) {
            self.api_orders.push(warning(pod, reason, "Submit", why));
        }
    }

    /// Warns about a pod whose task group its application does not have.
    pub(super) fn report_unknown_group(&mut self, pod: &Pod, id: &Arc<str>) {
        let Some(group) = task_group_of(pod).filter(|_| pod_group_of(pod).is_none()) else {
            return;
        };
        let gang = self.applications.get(id).and_then(|application| application.gang.as_ref());
        let Some(gang) = gang.filter(|gang| !gang.has(group)) else { return };
        let declared: Vec<_> =
            gang.groups.iter().map(|group| format!("`{}`", group.name)).collect();
        let why = format!(
            "the task group `{group}` is not declared (declared: {}): the pod is no member of the gang, \
             and is scheduled by itself",
            declared.join(", ")
        );
        self.warn_once(id, pod, "GangIgnored", why);
    }

    /// Removes the contribution of a pod that leaves its application.
    pub(super) fn remove_contribution(&mut self, key: &Key, id: &Arc<str>) {
        let Some(record) = known(&mut self.pods, key) else { return };
        let contribution = std::mem::take(&mut record.contribution);
        let created = record.pod.created();
        if let Some(application) = self.applications.get_mut(id) {
            application.counts.change(key, created, contribution, Contribution::default());
        }
    }

    /// Returns whether as many members are being deleted as the gang needs.
    pub(super) fn is_ending_whole(&self, application: &Application) -> bool {
        let members = |gang: &DeclaredGang| -> usize {
            let sizes = gang.groups.iter().map(|group| group.min_members);
            sizes.map(|size| usize::try_from(size).unwrap_or(0)).sum()
        };
        let declaring = application.counts.declaring().and_then(|key| self.pods.get(key));
        let declared = || declared_gang(&declaring?.pod)?.ok();
        let needed = match &application.gang {
            Some(gang) => members(gang),
            None => declared().map_or(0, |gang| members(&gang)),
        };
        application.counts.ending >= needed
    }

    /// Returns why the declaration cannot be read, for an application that runs without a gang.
    pub(super) fn unreadable(&self, id: &str) -> Option<WaitReason> {
        let application = self.applications.get(id);
        let runs_alone =
            |known: &&Application| known.state == AppState::Submitted && known.gang.is_none();
        let application = application.filter(runs_alone)?;
        let pod = &self.pods.get(application.counts.declaring()?)?.pod;
        let why = declared_gang(pod)?.err()?;
        Some(WaitReason::new("Unreadable", "", why))
    }

    /// Returns whether this pod's declaration decides for its application, which was not submitted
    /// yet.
    pub(super) fn decides_gang(&self, id: &str, key: &Key) -> bool {
        let application =
            self.applications.get(id).filter(|known| known.state != AppState::Submitted);
        application.is_some_and(|known| known.counts.declaring() == Some(key))
    }

    pub(super) fn group_of(&self, pod: &Pod) -> Option<&Arc<PodGroup>> {
        self.groups.get(&format!("{}/{}", pod.namespace(), pod_group_of(pod)?))
    }

    /// Returns the gang of an application, if it is one, or what it waits for.
    pub(super) fn gang(
        &mut self,
        id: &Arc<str>,
        now: Duration,
    ) -> Result<Option<DeclaredGang>, WaitReason> {
        let waits = |message: String| Err(WaitReason::new("WaitingForGang", "", message));
        let Some(first) = self.first_pod(id) else { return Ok(None) };
        let Some(known) = self.applications.get_mut(id) else { return Ok(None) };
        let PodCounts { ready, naming, .. } = known.counts;
        if let Some(name) = pod_group_of(&first) {
            let Some(group) = self.group_of(&first) else {
                return waits(format!("the PodGroup {name} is not there"));
            };
            let gang = match pod_group_gang(group) {
                Ok(gang) => gang,
                Err(why) => return Err(WaitReason::new("GroupNotSupported", name, why)),
            };
            let needed = needed(group);
            if gang.is_some() && ready < needed {
                let (pods, are) = if ready == 1 { ("pod", "is") } else { ("pods", "are") };
                return waits(format!(
                    "{ready} {pods} of the PodGroup {name} {are} there, and it starts with {needed}"
                ));
            }
            return Ok(gang);
        }
        if let Some((_, declaring)) = known.counts.declaring.first().cloned() {
            let Some(pod) = self.pods.get(&declaring).map(|record| Arc::clone(&record.pod)) else {
                return Ok(None);
            };
            return match declared_gang(&pod) {
                // A gang that started in part could not be corrected later.
                Some(Err(why)) => Err(WaitReason::new("Unreadable", "", why)),
                Some(Ok(gang)) => Ok(Some(self.with_sizes_of_members(id, gang))),
                None => Ok(None),
            };
        }
        if naming == 0 {
            return Ok(None);
        }
        let until = *known.undeclared.get_or_insert(now) + DECLARATION;
        if until <= now {
            return Ok(None);
        }
        self.alarm(until, Alarm::Application(Arc::clone(id)));
        waits("no pod of the application declares the task groups yet".to_owned())
    }

    pub(super) fn group_changed(
        &mut self,
        key: String,
        group: Option<Arc<PodGroup>>,
        now: Duration,
    ) {
        let Some((namespace, name)) = key.split_once('/') else { return };
        let id = self.id_in(namespace, &format!("{namespace}/podgroup/{name}"));
        if let Some(group) = group {
            self.groups.insert(key, group);
        } else {
            self.groups.remove(&key);
            self.group_conditions.forget(&key);
        }
        if self.is_outdated(&id) {
            self.withdraw(&id, now);
        }
        self.reconcile_all(&id, now);
    }

    /// Returns whether the application was submitted as another gang than its PodGroup now
    /// describes, and none of it is decided.
    fn is_outdated(&self, id: &str) -> bool {
        let Some(application) = self.applications.get(id) else { return false };
        if application.state != AppState::Submitted || self.has_started(id) {
            return false;
        }
        let first = self.first_pod(id);
        let group = first.as_ref().and_then(|first| self.group_of(first));
        let gang = group.and_then(|group| pod_group_gang(group).ok());
        gang.is_none_or(|now| {
            let before = application.gang.as_ref().map(|gang| &gang.groups);
            now.as_ref().map(|gang| &gang.groups) != before
        })
    }

    /// Returns whether a pod of the application has a node, according to the reports to the engine.
    pub(super) fn has_started(&self, id: &str) -> bool {
        let pods = self.applications.get(id).into_iter().flat_map(|application| &application.pods);
        let mut records = pods.filter_map(|(_, _, key)| self.pods.get(key));
        records.any(|record| {
            !record.is_gone
                && (record.pod.node().is_some() || matches!(record.engine, EngineState::Placed(_)))
        })
    }
}

/// Returns the creator of a pod that declares a gang: its controller, or the pod itself.
pub(super) fn declarer(pod: &Pod) -> &str {
    pod.controller().map_or(pod.uid(), |controller| &controller.uid)
}

/// Returns the number of pods that the group starts with.
fn needed(group: &PodGroup) -> usize {
    let gang = group.spec.scheduling_policy.gang.as_ref();
    gang.map_or(0, |gang| usize::try_from(gang.min_count).unwrap_or(0))
}

impl Application {
    /// Returns whether the application is a gang with task groups whose pods with nodes are all
    /// being deleted.
    pub(super) fn is_ending(&self) -> bool {
        let PodCounts { bound, ending, naming, declaring, .. } = &self.counts;
        *ending > 0 && *bound == 0 && *naming > 0 && !declaring.is_empty()
    }

    /// Returns whether a ready pod has no node, given that all pods with nodes are being deleted.
    pub(super) fn has_others(&self) -> bool {
        self.counts.ready > 0
    }

    /// Resets the state in the engine, and keeps what is known of the pods.
    pub(super) fn reset(&mut self) {
        let Self { namespace, declared_id, pods, counts, resized, warned, .. } =
            std::mem::take(self);
        *self = Self { namespace, declared_id, pods, counts, resized, warned, ..Self::default() };
    }
}
