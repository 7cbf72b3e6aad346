//! Places that were held for gangs before this session, when another scheduler decided them, and are held again.
//!
//! # Why
//! A held place is no pod: nothing of it is at the API server, and a scheduler that begins knows nothing of it. Who
//! gives it up lets others have the room that a gang waits for which runs in part already. What can be known is how
//! many members there are, and since when.
//!
//! # How
//! Once all that runs is told and nodes are open, the engine is told how many places each such gang lacks: the members
//! that its groups start with, less those that run or have succeeded. It holds what fits, and says so. Until then
//! nothing is asked for.
//!
//! # Invariants
//! * Pods wait for that no longer than [`HELD_WITHIN`], whatever the engine says.
//! * The time of the places counts from the member that got its node last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::tags::{HOLD_AGAIN, HOLD_AGAIN_SINCE};
use monoceros_proto::si::v1::AddApplicationRequest;
use rustc_hash::{FxHashMap, FxHashSet};

use super::record::{AppTold, Application};
use super::said::Key;
use super::waiting::Alarm;
use super::{Shim, by_age};
use crate::objects::{Meta as _, Pod};
use crate::translate::{Mapping, application, application_id, task_group_of};

/// So long an engine may take to hold places again before pods are asked for all the same.
const HELD_WITHIN: Duration = Duration::from_secs(5);

/// A member of a gang that has succeeded.
#[derive(Debug)]
struct Member {
    group: String,
    /// The UID of its controller.
    controller: Option<String>,
    created: i64,
    bound: i64,
}

/// Members that have succeeded, as long as their pods are there.
#[derive(Debug, Default)]
pub(super) struct Succeeded {
    /// By the namespace of the pod and the id that it says.
    members: FxHashMap<(String, String), FxHashMap<Key, Member>>,
    of_pod: FxHashMap<Key, (String, String)>,
}

impl Succeeded {
    /// Notes how a pod stands. One that is gone is none of them.
    pub(super) fn note(&mut self, key: &Key, pod: Option<&Pod>, mapping: &Mapping) {
        if let Some(application) = self.of_pod.remove(key)
            && let Some(all) = self.members.get_mut(&application)
        {
            all.remove(key);
            if all.is_empty() {
                self.members.remove(&application);
            }
        }
        let Some(pod) = pod.filter(|pod| pod.has_succeeded() && mapping.is_ours(pod)) else {
            return;
        };
        let Some(group) = task_group_of(pod) else { return };
        let member = Member {
            group: group.to_owned(),
            controller: pod.controller().map(|it| it.uid.clone()),
            created: pod.created(),
            bound: pod.bound(),
        };
        let application = (pod.namespace().to_owned(), application_id(pod, mapping));
        self.of_pod.insert(Arc::clone(key), application.clone());
        self.members.entry(application).or_default().insert(Arc::clone(key), member);
    }

    /// Those of an application that belong to the gang which this pod declares: pods of the same job, and what came
    /// later. A job that is applied again has nothing of the one before.
    fn of<'s>(
        &'s self,
        application: &Application,
        declaring: &Pod,
    ) -> impl Iterator<Item = &'s Member> {
        let name = (application.namespace.clone(), application.said.clone());
        let controller = declaring.controller().map(|it| it.uid.clone());
        let created = declaring.created();
        let all = self.members.get(&name).into_iter().flat_map(FxHashMap::values);
        all.filter(move |member| {
            let is_of_same = controller.is_some() && member.controller == controller;
            is_of_same || member.created >= created
        })
    }
}

/// Gangs whose places are to be held again.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Those for which the engine has not said that they are.
    awaited: FxHashSet<Arc<str>>,
}

impl Holding {
    /// Whether places are still to be held before anything is asked for.
    pub(super) fn is_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }
}

impl Shim {
    /// Has places be held again for each gang that runs in part, or asks for what waits at once.
    pub(super) fn hold_again(&mut self, now: Duration) {
        self.holding = Holding::default();
        let mut gangs: Vec<_> = self.applications.iter().collect();
        gangs.sort_unstable_by(|(_, one), (_, other)| one.age().cmp(&other.age()));
        let lacks = gangs.into_iter().filter_map(|(id, known)| self.lacks(id, known));
        let lacks: Vec<_> = lacks.collect();
        if lacks.is_empty() {
            return self.ask_for_waiting(now);
        }
        self.alarm(now + HELD_WITHIN, Alarm::HeldAgain);
        for request in lacks {
            self.holding.awaited.insert(Arc::from(&*request.application_id));
            self.orders.submit(request);
        }
        self.orders.cut();
    }

    /// What is said of the places that a gang lacks; nothing where it is none, or none of it runs.
    fn lacks(&self, id: &str, known: &Application) -> Option<AddApplicationRequest> {
        let gang = known.gang.as_ref().filter(|_| known.told == AppTold::Told)?;
        let declaring = known.gathered.declaring().and_then(|key| self.pods.get(key))?;
        let records = known.pods.iter().filter_map(|(_, _, key)| self.pods.get(key));
        let pods = records.filter(|record| !record.is_gone).map(|record| &record.pod);
        let running = pods.filter(|pod| pod.node().is_some() && !pod.is_going());
        let running = running.filter_map(|pod| Some((task_group_of(pod)?, pod.bound())));
        let mut members: Vec<(&str, i64)> = running.collect();
        if members.is_empty() {
            // It is decided as a whole.
            return None;
        }
        let succeeded = self.succeeded.of(known, &declaring.pod);
        members.extend(succeeded.map(|member| (&*member.group, member.bound)));
        let since = members.iter().map(|(_, bound)| *bound).max().unwrap_or_default().to_string();
        let mut there: BTreeMap<&str, i32> = BTreeMap::new();
        for (group, _) in members {
            *there.entry(group).or_default() += 1;
        }
        let namespace = self.namespaces.get(&known.namespace).map(|it| &**it);
        let (mut request, _) = application(&*self.first_pod(id)?, namespace, &self.mapping);
        id.clone_into(&mut request.application_id);
        request = request.with_tag(HOLD_AGAIN_SINCE, since);
        let mut lacks_any = false;
        for group in gang.groups.iter().filter(|group| group.member.is_some()) {
            let lacks = group.min_members - there.get(&*group.name).copied().unwrap_or(0);
            if lacks > 0 {
                let tag = format!("{HOLD_AGAIN}{}", group.name);
                request = request.with_tag(tag, lacks.to_string());
                lacks_any = true;
            }
        }
        lacks_any.then_some(request)
    }

    /// What fits is held again for a gang, or it will never be.
    pub(super) fn held_again(&mut self, id: &str, now: Duration) {
        if self.holding.awaited.remove(id) && !self.holding.is_awaited() {
            self.ask_for_waiting(now);
        }
    }

    /// The engine has had its time to hold places again.
    pub(super) fn held_long_enough(&mut self, now: Duration) {
        if self.holding.is_awaited() {
            let gangs = self.holding.awaited.len();
            tracing::warn!(gangs, "the engine does not say that places are held again");
            self.holding = Holding::default();
            self.ask_for_waiting(now);
        }
    }

    /// Asks for each pod that waits, oldest first.
    fn ask_for_waiting(&mut self, now: Duration) {
        let waiting = self.pods.iter().filter(|(_, record)| record.pod.node().is_none());
        for key in by_age(waiting) {
            self.reconcile(&key, now);
        }
    }
}
