//! Holds places again for gangs that an earlier scheduler or session had decided.
//!
//! # Why
//! A held place is no pod and not stored at the API server, so a new scheduler does not know it.
//! Without it other pods could take the room that a gang, of which a part runs, still needs. The
//! shim can derive the number of missing members, and since when they are missing.
//!
//! # How
//! Once all running pods are reported, bindings in flight have ended and nodes are open, the engine
//! is sent how many places each such gang lacks: the members that its groups start with, less those
//! that run or have succeeded. The engine holds what fits and confirms it. Until then no pod is
//! asked for.
//!
//! # Invariants
//! * In each session pods wait at most [`HELD_WITHIN`] for that, whatever the engine answers.
//! * The timeout of the places counts from the time the latest member got its node.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::tags::{HOLD_AGAIN, HOLD_AGAIN_SINCE};
use monoceros_proto::si::v1::AddApplicationRequest;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::messages::Key;
use super::record::{AppState, Application};
use super::waiting::Alarm;
use super::{Shim, by_age};
use crate::objects::{Meta as _, Pod};
use crate::translate::{Mapping, application, application_id, declared_text, task_group_of};

/// Longest wait for places to be held again.
const HELD_WITHIN: Duration = Duration::from_secs(5);

/// A member of a gang that has succeeded.
#[derive(Debug)]
struct SucceededMember {
    group: String,
    /// UID of its controller.
    controller: Option<String>,
    /// Hash of the gang that it declares.
    declares: Option<u64>,
    created: i64,
    bound: i64,
}

/// Succeeded members whose pods still exist.
#[derive(Debug, Default)]
pub(super) struct Succeeded {
    /// Members by the namespace of the pod and the application that it names.
    members: FxHashMap<(String, String), FxHashMap<Key, SucceededMember>>,
    of_pod: FxHashMap<Key, (String, String)>,
}

impl Succeeded {
    /// Updates the entry of a pod. A pod that is gone has none.
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
        let member = SucceededMember {
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

    /// Returns the members of an application that belong to the gang declared by this pod: pods of
    /// the same job, pods without a job that declare the same, and later pods. A job applied again
    /// does not inherit the members of the earlier one.
    fn of<'s>(
        &'s self,
        application: &Application,
        declaring: &Pod,
    ) -> impl Iterator<Item = &'s SucceededMember> {
        let name = (application.namespace.clone(), application.declared_id.clone());
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

/// Returns a hash of the gang that a pod declares.
fn declared(pod: &Pod) -> Option<u64> {
    declared_text(pod).map(|text| FxBuildHasher.hash_one(text))
}

/// Progress of holding places at the start of a session.
#[derive(Debug, Default)]
pub(super) struct HoldAgain {
    /// Time limit of the wait. `None` when there is none.
    until: Option<Duration>,
    /// Whether the engine has not been sent yet which places to hold.
    is_unsent: bool,
    /// Gangs whose places the engine has not confirmed.
    awaited: FxHashSet<Arc<str>>,
}

impl HoldAgain {
    /// Returns whether asks wait until places are held again.
    pub(super) fn is_awaited(&self) -> bool {
        self.until.is_some()
    }
}

impl Shim {
    /// Starts to wait until places are held again.
    pub(super) fn hold_again(&mut self, now: Duration) {
        let until = now + HELD_WITHIN;
        self.holding = HoldAgain { until: Some(until), is_unsent: true, ..HoldAgain::default() };
        self.alarm(until, Alarm::HeldAgain);
        self.continue_holding(now);
    }

    /// Sends the waiting asks as soon as places are held again or the time limit has passed.
    pub(super) fn continue_holding(&mut self, now: Duration) {
        let Some(until) = self.holding.until else { return };
        // A pod that is being bound counts as a member of its gang soon.
        if self.holding.is_unsent && (self.in_flight.is_empty() || !self.has_gangs()) {
            self.send_missing_places();
        }
        let is_held = !self.holding.is_unsent && self.holding.awaited.is_empty();
        if !is_held && now < until {
            return;
        }
        if !is_held {
            let gangs = self.holding.awaited.len();
            tracing::warn!(gangs, "the engine does not say that places are held again");
        }
        self.holding = HoldAgain::default();
        self.ask_for_waiting();
    }

    fn has_gangs(&self) -> bool {
        self.applications.values().any(|known| known.counts.declaring().is_some())
    }

    fn send_missing_places(&mut self) {
        self.holding.is_unsent = false;
        let mut gangs: Vec<_> = self.applications.iter().collect();
        gangs.sort_unstable_by(|(_, one), (_, other)| one.age().cmp(&other.age()));
        let missing = gangs.into_iter().filter_map(|(id, known)| self.missing_places(id, known));
        let missing: Vec<_> = missing.collect();
        self.orders.cut();
        for request in missing {
            self.holding.awaited.insert(Arc::from(&*request.application_id));
            self.orders.submit(request);
        }
        self.orders.cut();
    }

    /// Builds the request for the places that a gang lacks. `None` if it is no gang, or none of it
    /// runs.
    fn missing_places(&self, id: &str, known: &Application) -> Option<AddApplicationRequest> {
        let gang = known.gang.as_ref().filter(|_| known.state == AppState::Submitted)?;
        let mut declaring = known.counts.all_declaring().filter_map(|key| self.pods.get(key));
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
        let mut is_incomplete = false;
        for group in gang.groups.iter().filter(|group| group.member.is_some()) {
            let missing = group.min_members - there.get(&*group.name).copied().unwrap_or(0);
            if missing > 0 {
                let tag = format!("{HOLD_AGAIN}{}", group.name);
                request = request.with_tag(tag, missing.to_string());
                is_incomplete = true;
            }
        }
        is_incomplete.then_some(request)
    }

    /// Handles the confirmation for a gang, or its end. Waiting asks continue at the next tick.
    pub(super) fn holds_confirmed(&mut self, id: &str) {
        if self.holding.awaited.remove(id) && self.holding.awaited.is_empty() {
            self.alarm(Duration::ZERO, Alarm::HeldAgain);
        }
    }

    /// Asks for all pending pods, oldest first.
    fn ask_for_waiting(&mut self) {
        let waiting = self.pods.iter().filter(|(_, record)| record.pod.node().is_none());
        let waiting = by_age(waiting);
        self.reconcile_in_turn(waiting);
    }
}
