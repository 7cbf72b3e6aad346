//! Places that were held for gangs before this session, when another scheduler decided them, and are held again.
//!
//! # Why
//! A held place is no pod: nothing of it is at the API server, and a scheduler that begins knows nothing of it. Who
//! gives it up lets others have the room that a gang waits for which runs in part already. What can be known is how
//! many members there are, and since when.
//!
//! # How
//! Once all that runs is told, bindings that are under way have ended and nodes are open, the engine is told how many
//! places each such gang lacks: the members that its groups start with, less those that run or have succeeded. It holds
//! what fits, and says so. Until then nothing is asked for.
//!
//! # Invariants
//! * Pods wait for that no longer than [`HELD_WITHIN`] in each session, whatever the engine says.
//! * The time of the places counts from the member that got its node last.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::tags::{HOLD_AGAIN, HOLD_AGAIN_SINCE};
use monoceros_proto::si::v1::AddApplicationRequest;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::record::{AppTold, Application};
use super::said::Key;
use super::waiting::Alarm;
use super::{Shim, by_age};
use crate::objects::{Meta as _, Pod};
use crate::translate::{Mapping, application, application_id, declared_text, task_group_of};

/// The longest time that pods wait for places to be held again.
const HELD_WITHIN: Duration = Duration::from_secs(5);

/// A member of a gang that has succeeded.
#[derive(Debug)]
struct Member {
    group: String,
    /// The UID of its controller.
    controller: Option<String>,
    /// The gang that it declares, as a number.
    declares: Option<u64>,
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
            declares: declared(pod),
            created: pod.created(),
            bound: pod.bound(),
        };
        let application = (pod.namespace().to_owned(), application_id(pod, mapping));
        self.of_pod.insert(Arc::clone(key), application.clone());
        self.members.entry(application).or_default().insert(Arc::clone(key), member);
    }

    /// Those of an application that belong to the gang which this pod declares: pods of the same job, those without a
    /// job that declare the same, and what came later. A job that is applied again has nothing of the one before.
    fn of<'s>(
        &'s self,
        application: &Application,
        declaring: &Pod,
    ) -> impl Iterator<Item = &'s Member> {
        let name = (application.namespace.clone(), application.said.clone());
        let controller = declaring.controller().map(|it| it.uid.clone());
        let (declares, created) = (declared(declaring), declaring.created());
        let all = self.members.get(&name).into_iter().flat_map(FxHashMap::values);
        all.filter(move |member| {
            let is_of_same = match &member.controller {
                None => controller.is_none() && declares.is_some() && member.declares == declares,
                own => *own == controller,
            };
            is_of_same || member.created >= created
        })
    }
}

/// The gang that a pod declares, as a number.
fn declared(pod: &Pod) -> Option<u64> {
    declared_text(pod).map(|text| FxBuildHasher.hash_one(text))
}

/// What pods wait for at the beginning of a session.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Until when they wait at the latest; none where they do not.
    until: Option<Duration>,
    /// The engine is not told yet which places it should hold.
    is_untold: bool,
    /// The gangs for which the engine has not said that what fits is held.
    awaited: FxHashSet<Arc<str>>,
}

impl Holding {
    /// Whether places are still to be held before anything is asked for.
    pub(super) fn is_awaited(&self) -> bool {
        self.until.is_some()
    }
}

impl Shim {
    /// Begins to wait until places are held again for gangs that run in part.
    pub(super) fn hold_again(&mut self, now: Duration) {
        let until = now + HELD_WITHIN;
        self.holding = Holding { until: Some(until), is_untold: true, ..Holding::default() };
        self.alarm(until, Alarm::HeldAgain);
        self.go_on_holding(now);
    }

    /// Asks for what waits as soon as places are held again, or they were waited for long enough.
    pub(super) fn go_on_holding(&mut self, now: Duration) {
        let Some(until) = self.holding.until else { return };
        // What is being bound has its node in a moment, and is a member of its gang.
        if self.holding.is_untold && (self.under_way.is_empty() || !self.has_gangs()) {
            self.tell_what_gangs_lack();
        }
        let is_held = !self.holding.is_untold && self.holding.awaited.is_empty();
        if !is_held && now < until {
            return;
        }
        if !is_held {
            let gangs = self.holding.awaited.len();
            tracing::warn!(gangs, "the engine does not say that places are held again");
        }
        self.holding = Holding::default();
        self.ask_for_waiting(now);
    }

    fn has_gangs(&self) -> bool {
        self.applications.values().any(|known| known.gathered.declaring().is_some())
    }

    fn tell_what_gangs_lack(&mut self) {
        self.holding.is_untold = false;
        let mut gangs: Vec<_> = self.applications.iter().collect();
        gangs.sort_unstable_by(|(_, one), (_, other)| one.age().cmp(&other.age()));
        let lacks = gangs.into_iter().filter_map(|(id, known)| self.lacks(id, known));
        let lacks: Vec<_> = lacks.collect();
        self.orders.cut();
        for request in lacks {
            self.holding.awaited.insert(Arc::from(&*request.application_id));
            self.orders.submit(request);
        }
        self.orders.cut();
    }

    /// What is said of the places that a gang lacks; nothing where it is none, or none of it runs.
    fn lacks(&self, id: &str, known: &Application) -> Option<AddApplicationRequest> {
        let gang = known.gang.as_ref().filter(|_| known.told == AppTold::Told)?;
        let mut declaring = known.gathered.all_declaring().filter_map(|key| self.pods.get(key));
        let declaring = declaring.find(|record| !record.is_gone && !record.pod.is_going())?;
        let records = known.pods.iter().filter_map(|(_, _, key)| self.pods.get(key));
        let pods = records.filter(|record| !record.is_gone).map(|record| &record.pod);
        let running = pods.filter(|pod| pod.node().is_some() && !pod.is_going());
        let running = running.filter_map(|pod| Some((task_group_of(pod)?, pod.bound())));
        let mut members: Vec<(&str, i64)> = running.collect();
        if members.is_empty() {
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

    /// What fits is held again for a gang, or never will be: whoever waits for that goes on at the next tick.
    pub(super) fn held_again(&mut self, id: &str) {
        if self.holding.awaited.remove(id) && self.holding.awaited.is_empty() {
            self.alarm(Duration::ZERO, Alarm::HeldAgain);
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
