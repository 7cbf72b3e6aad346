//! Gangs, until they are complete: who declares them, how many of their pods are there.
//!
//! # Why counted
//! A group of ten thousand pods comes one pod at a time. Each is looked at when it comes, and the others
//! only when that makes a difference to them: the group is complete, or somebody has declared it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Shim;
use super::applications::warning;
use super::record::{AppTold, Application, DeclaredBy, Told};
use super::said::{GroupCondition, Key};
use super::waiting::{APART, Alarm, Why};
use crate::objects::{Meta as _, Pod, PodGroup};
use crate::translate::{
    DeclaredGang, declared_gang, declared_text, has_declared_gang, pod_group_gang, pod_group_of,
    task_group_of,
};

/// So long a pod that names a task group waits for one that declares it.
const DECLARATION: Duration = Duration::from_secs(30);

/// How often a gang is declared anew because a pod is larger than its group says.
const RESIZED_MOST: u32 = 8;
/// Different warnings of an application, each of which is told once.
const TOLD_ONCE: usize = 20;

/// The condition that tells whether a group has begun.
pub(super) const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// The condition that tells whether a group has to make room as a whole.
pub(super) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What a pod counts for in its application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// It could be asked for.
    is_ready: bool,
    /// It declares the gang.
    declares: bool,
    /// It names a task group.
    names_group: bool,
    place: Place,
}

/// Whether a pod has a node, and is to keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    None,
    Bound,
    /// It has a node, and is being deleted.
    Ending,
}

impl Share {
    /// That of a pod which is there.
    fn of(pod: &Pod) -> Self {
        Self {
            is_ready: !pod.is_going() && pod.spec.scheduling_gates.is_empty(),
            declares: has_declared_gang(pod),
            names_group: task_group_of(pod).is_some(),
            place: match pod.node() {
                None => Place::None,
                Some(_) if pod.is_going() => Place::Ending,
                Some(_) => Place::Bound,
            },
        }
    }
}

/// What the pods of an application count for together.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    ready: usize,
    declaring: std::collections::BTreeSet<(i64, Key)>,
    naming: usize,
    /// Pods with a node that are not being deleted.
    bound: usize,
    /// Those that are.
    ending: usize,
}

impl Gathered {
    /// Whether any pod has a node.
    fn has_nodes(&self) -> bool {
        self.bound + self.ending > 0
    }

    /// The oldest pod that declares the gang.
    pub(super) fn declaring(&self) -> Option<&Key> {
        self.declaring.first().map(|(_, key)| key)
    }

    /// All pods that declare it, oldest first.
    pub(super) fn all_declaring(&self) -> impl Iterator<Item = &Key> {
        self.declaring.iter().map(|(_, key)| key)
    }

    fn change(&mut self, key: &Key, created: i64, before: Share, after: Share) {
        self.ready = self.ready + usize::from(after.is_ready) - usize::from(before.is_ready);
        self.naming =
            self.naming + usize::from(after.names_group) - usize::from(before.names_group);
        let change = |count: usize, place: Place| {
            count + usize::from(after.place == place) - usize::from(before.place == place)
        };
        self.bound = change(self.bound, Place::Bound);
        self.ending = change(self.ending, Place::Ending);
        if after.declares != before.declares {
            let it = (created, Arc::clone(key));
            let changed =
                if after.declares { self.declaring.insert(it) } else { self.declaring.remove(&it) };
            debug_assert!(changed, "a pod declares once");
        }
    }
}

impl Shim {
    /// Counts a pod for what it is now. Returns whether others of its application may be asked for
    /// because of it.
    pub(super) fn count_share(&mut self, key: &Key) -> bool {
        let Some(record) = self.pods.get_mut(key) else { return false };
        let Some(id) = record.application.clone() else { return false };
        let share = if record.is_gone { Share::default() } else { Share::of(&record.pod) };
        let before = std::mem::replace(&mut record.share, share);
        if share == before {
            return false;
        }
        let pod = Arc::clone(&record.pod);
        let needed = self.group_of(&pod).map(|group| needed(group));
        let Some(application) = self.applications.get_mut(&id) else { return false };
        let is_complete = |all: &Gathered| needed.is_some_and(|needed| all.ready >= needed);
        let was_complete = is_complete(&application.gathered);
        let was_declared = !application.gathered.declaring.is_empty();
        application.gathered.change(key, pod.created(), before, share);
        let is_declared = !application.gathered.declaring.is_empty();
        if application.told == AppTold::Told {
            if share.declares && !before.declares {
                self.declared_late(&pod, &id);
            }
            return false;
        }
        (is_complete(&application.gathered) && !was_complete) || (is_declared && !was_declared)
    }

    /// Tells of a pod that declares task groups for an application whose gang is told, if it is another
    /// gang that it declares. Each pod of a gang may declare it: nothing here looks at all of them.
    fn declared_late(&mut self, pod: &Pod, id: &Arc<str>) {
        let Some(application) = self.applications.get(id) else { return };
        if application.gang.is_none() {
            let why = "the task groups are declared too late: pods of the application are \
                       scheduled one by one already";
            return self.hands.push(warning(pod, "GangIgnored", "Submit", why.to_owned()));
        }
        let DeclaredBy { uid, is_other_told } = &application.declared_by;
        if *is_other_told || *uid == declarer(pod) {
            return;
        }
        let first = application.gathered.declaring().and_then(|key| self.pods.get(key));
        let says_the_same =
            first.is_some_and(|first| declared_text(&first.pod) == declared_text(pod));
        // Several jobs, and pods without one, may declare the same gang before it runs.
        if says_the_same && (pod.controller().is_none() || !application.gathered.has_nodes()) {
            return;
        }
        let Some(application) = self.applications.get_mut(id) else { return };
        let Some(gang) = &application.gang else { return };
        application.declared_by.is_other_told = true;
        let counts = gang.in_short();
        let declared = declared_gang(pod).and_then(Result::ok);
        let declared = declared.map(|gang| gang.in_short()).unwrap_or_default();
        let why = format!(
            "the application has a gang already ({counts}), which is not over: what this pod declares \
             ({declared}) is not heeded, and it is scheduled as one more member"
        );
        self.hands.push(warning(pod, "GangIgnored", "Submit", why));
    }

    /// A gang with groups whose members are as large as the largest of those that are there.
    fn with_sizes_of_members(&mut self, id: &Arc<str>, mut gang: DeclaredGang) -> DeclaredGang {
        let Some(application) = self.applications.get(id) else { return gang };
        let mut told = BTreeMap::new();
        for (_, _, key) in &application.pods {
            let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else {
                continue;
            };
            if let Some(larger) = gang.larger(&record.pod) {
                gang.enlarge(&larger);
                told.insert(larger.group.clone(), (Arc::clone(&record.pod), larger));
            }
        }
        for (pod, larger) in told.into_values() {
            let why = format!("{larger}: so much counts for each member");
            self.warn_once(id, &pod, "GangResized", why);
        }
        gang
    }

    /// Has a gang that is not decided be declared anew where a pod of it is larger than what was said of its
    /// group. Where it is decided, that is told.
    pub(super) fn redeclare_if_larger(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get(key).filter(|record| !record.is_gone) else { return };
        let (pod, id) = (Arc::clone(&record.pod), record.application.clone().unwrap_or_default());
        let Some(application) = self.applications.get_mut(&id) else { return };
        if application.told != AppTold::Told || application.resized > RESIZED_MOST {
            return;
        }
        let larger = application.gang.as_ref().and_then(|gang| gang.larger(&pod));
        let Some(larger) = larger else { return };
        application.resized += 1;
        if application.resized <= RESIZED_MOST && !self.has_started(&id) {
            self.withdraw(&id, now);
            return self.reconcile_all(&id, now);
        }
        if let Some(application) = self.applications.get_mut(&id) {
            application.resized = RESIZED_MOST + 1;
        }
        let why = format!(
            "{larger}: it does not fit into what is held for the group, and is scheduled by itself"
        );
        self.hands.push(warning(&pod, "GangIgnored", "Submit", why));
    }

    /// Tells of something that is wrong with an application, unless that was told before, or much was.
    fn warn_once(&mut self, id: &str, pod: &Pod, reason: &'static str, why: String) {
        let Some(application) = self.applications.get_mut(id) else { return };
        let told = &mut application.told_once;
        if told.len() < TOLD_ONCE && told.insert(why.clone()) {
            self.hands.push(warning(pod, reason, "Submit", why));
        }
    }

    /// Tells of a pod that names a task group which its application does not have.
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

    /// Has a pod count for nothing in its application, which it leaves.
    pub(super) fn leave_share(&mut self, key: &Key, id: &Arc<str>) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let share = std::mem::take(&mut record.share);
        let created = record.pod.created();
        if let Some(application) = self.applications.get_mut(id) {
            application.gathered.change(key, created, share, Share::default());
        }
    }

    /// Whether as many members are being deleted as the gang needs.
    pub(super) fn is_going_whole(&self, application: &Application) -> bool {
        let declaring = application.gathered.declaring().and_then(|key| self.pods.get(key));
        let declared = || declared_gang(&declaring?.pod)?.ok();
        let groups = match &application.gang {
            Some(gang) => gang.groups.clone(),
            None => declared().map(|gang| gang.groups).unwrap_or_default(),
        };
        let needed = groups.iter().map(|group| usize::try_from(group.min_members).unwrap_or(0));
        application.gathered.ending >= needed.sum()
    }

    /// Why the declaration of an application that runs without a gang cannot be read, if there is one.
    pub(super) fn unreadable(&self, id: &str) -> Option<Why> {
        let application = self.applications.get(id);
        let runs_alone = |known: &&Application| known.told == AppTold::Told && known.gang.is_none();
        let application = application.filter(runs_alone)?;
        let pod = &self.pods.get(application.gathered.declaring()?)?.pod;
        let why = declared_gang(pod)?.err()?;
        Some(Why::new("Unreadable", "", why))
    }

    /// Whether the declaration of this pod is what decides for its application, of which nothing is told.
    pub(super) fn is_read_by(&self, id: &str, key: &Key) -> bool {
        let application = self.applications.get(id).filter(|known| known.told != AppTold::Told);
        application.is_some_and(|known| known.gathered.declaring() == Some(key))
    }

    pub(super) fn group_of(&self, pod: &Pod) -> Option<&Arc<PodGroup>> {
        self.groups.get(&format!("{}/{}", pod.namespace(), pod_group_of(pod)?))
    }

    /// The gang that an application is, if it is one; or what is waited for until that is known.
    pub(super) fn gang(
        &mut self,
        id: &Arc<str>,
        now: Duration,
    ) -> Result<Option<DeclaredGang>, Why> {
        let waits = |message: String| Err(Why::new("WaitingForGang", "", message));
        let Some(first) = self.first_pod(id) else { return Ok(None) };
        let Some(known) = self.applications.get_mut(id) else { return Ok(None) };
        let Gathered { ready, naming, .. } = known.gathered;
        if let Some(name) = pod_group_of(&first) {
            let Some(group) = self.group_of(&first) else {
                return waits(format!("the PodGroup {name} is not there"));
            };
            let gang = match pod_group_gang(group) {
                Ok(gang) => gang,
                Err(why) => return Err(Why::new("GroupNotSupported", name, why)),
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
        if let Some((_, declaring)) = known.gathered.declaring.first().cloned() {
            let Some(pod) = self.pods.get(&declaring).map(|record| Arc::clone(&record.pod)) else {
                return Ok(None);
            };
            return match declared_gang(&pod) {
                // To start in part what is meant to start as a whole cannot be undone.
                Some(Err(why)) => Err(Why::new("Unreadable", "", why)),
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
            self.group_words.forget(&key);
        }
        if self.is_outdated(&id) {
            self.withdraw(&id, now);
        }
        self.reconcile_all(&id, now);
    }

    /// Whether the application was told as a gang that its PodGroup is not any more, and none of it is
    /// decided.
    fn is_outdated(&self, id: &str) -> bool {
        let Some(application) = self.applications.get(id) else { return false };
        if application.told != AppTold::Told || self.has_started(id) {
            return false;
        }
        let first = self.first_pod(id);
        let group = first.as_ref().and_then(|first| self.group_of(first));
        let gang = group.and_then(|group| pod_group_gang(group).ok());
        let groups = |gang: Option<&DeclaredGang>| gang.map(|gang| gang.groups.clone());
        gang.is_none_or(|gang| groups(gang.as_ref()) != groups(application.gang.as_ref()))
    }

    /// Whether any pod of the application has its node, as far as that was told.
    fn has_started(&self, id: &str) -> bool {
        let pods = self.applications.get(id).into_iter().flat_map(|application| &application.pods);
        let mut records = pods.filter_map(|(_, _, key)| self.pods.get(key));
        records.any(|record| {
            !record.is_gone
                && (record.pod.node().is_some() || matches!(record.told, Told::Placed(_)))
        })
    }

    /// The first pods of the group have their nodes: that is told, once.
    pub(super) fn group_is_placed(&mut self, id: &Arc<str>, now: Duration) {
        let why = Why::new("Scheduled", "", "the pods that the group starts with have their nodes");
        self.tell_group(id, true, &why, now);
        let Some(application) = self.applications.get_mut(id) else { return };
        if std::mem::take(&mut application.is_disrupted) {
            let why = Why::new("Scheduled", "", "its pods are scheduled again");
            self.tell_of_group(id, DISRUPTION_TARGET, false, &why, now);
        }
    }

    /// Tells how the PodGroup of an application stands, if it has one and that is something else than what
    /// was told before. Once it is scheduled it stays so, whatever becomes of its pods and whoever has told
    /// it: the condition is about the first time.
    pub(super) fn tell_group(&mut self, id: &Arc<str>, status: bool, why: &Why, now: Duration) {
        let Some(first) = self.first_pod(id) else { return };
        let Some(group) = self.group_of(&first) else { return };
        if group.spec.scheduling_policy.gang.is_none()
            || group.is(INITIALLY_SCHEDULED)
            || (!status && self.has_started(id))
        {
            return;
        }
        let told = GroupTold {
            uid: group.uid().to_owned(),
            status,
            reason: why.reason.clone(),
            object: why.object.clone(),
            at: now,
        };
        let Some(application) = self.applications.get_mut(id) else { return };
        let before = application.group_told.as_ref().filter(|before| before.uid == told.uid);
        if before.is_some_and(|before| before.stands_against(&told)) {
            return;
        }
        application.group_told = Some(told);
        let reason = if status { &why.reason } else { "Unschedulable" };
        let said = Why::new(reason, "", why.message.clone());
        self.tell_of_group(id, INITIALLY_SCHEDULED, status, &said, now);
    }

    /// A member of a group is preempted, and all others with it.
    pub(super) fn group_is_disrupted(&mut self, key: &Key, message: &str, now: Duration) {
        let Some(record) = self.pods.get(key) else { return };
        let Some(id) = record.application.clone() else { return };
        let group = self.group_of(&record.pod);
        if group.is_none_or(|group| group.spec.disruption_mode.all.is_none()) {
            return;
        }
        let Some(application) = self.applications.get_mut(&id) else { return };
        if !std::mem::replace(&mut application.is_disrupted, true) {
            let why = Why::new("PreemptionByScheduler", "", message);
            self.tell_of_group(&id, DISRUPTION_TARGET, true, &why, now);
        }
    }

    fn tell_of_group(
        &mut self,
        id: &Arc<str>,
        type_: &'static str,
        status: bool,
        why: &Why,
        now: Duration,
    ) {
        let Some(first) = self.first_pod(id) else { return };
        let Some(group) = self.group_of(&first) else { return };
        let condition = GroupCondition {
            namespace: group.namespace().to_owned(),
            name: group.name().to_owned(),
            type_,
            status,
            reason: why.reason.clone(),
            message: why.message.clone(),
        };
        self.say_of_group(condition, now);
    }
}

/// Who has made a pod that declares a gang: its controller, or the pod itself.
pub(super) fn declarer(pod: &Pod) -> &str {
    pod.controller().map_or(pod.uid(), |controller| &controller.uid)
}

/// How many pods the group starts with.
fn needed(group: &PodGroup) -> usize {
    let gang = group.spec.scheduling_policy.gang.as_ref();
    gang.map_or(0, |gang| usize::try_from(gang.min_count).unwrap_or(0))
}

/// How a PodGroup was told to stand.
#[derive(Debug)]
pub(super) struct GroupTold {
    uid: String,
    status: bool,
    reason: String,
    object: String,
    at: Duration,
}

impl GroupTold {
    /// Whether this stays what is told.
    fn stands_against(&self, now: &Self) -> bool {
        let is_same = (&self.reason, &self.object) == (&now.reason, &now.object);
        self.status || (!now.status && (is_same || self.at + APART > now.at))
    }
}

impl Application {
    /// Whether it is a gang with task groups of which all that has a node is being deleted.
    pub(super) fn is_ending(&self) -> bool {
        let Gathered { bound, ending, naming, declaring, .. } = &self.gathered;
        *ending > 0 && *bound == 0 && *naming > 0 && !declaring.is_empty()
    }

    /// Whether any pod that is ready has no node, where all that have one are being deleted.
    pub(super) fn has_others(&self) -> bool {
        self.gathered.ready > 0
    }

    /// What is known of its pods stays, and nothing was told of it.
    pub(super) fn begin_anew(&mut self) {
        let Self { namespace, said, pods, gathered, resized, told_once, .. } = std::mem::take(self);
        *self = Self { namespace, said, pods, gathered, resized, told_once, ..Self::default() };
    }
}
