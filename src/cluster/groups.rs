//! Queue configurations of policy groups, which stand in the arbiter and apply on all members.
//!
//! # How a configuration takes effect
//! A text comes from a file, from an RM that registers, or from an operator. It is written to the
//! arbiter by compare-and-set; the rules are in `monoceros_cluster::Offer`. Each member reads the
//! records of the groups that it serves when one has changed, and applies a text to its RMs as it
//! would a changed file. A member that cannot apply a text keeps the old one in force, reports the
//! reason ([`GroupReport`]), and tries again.
//!
//! # Invariants
//! * A session is opened with the text that the arbiter had after its claim was won, or a newer one.
//!   So a member that was fenced, whose sessions have all ended, decides by no old configuration.
//! * The texts of a group for RMs that bring none reach the scheduler in the order in which they were
//!   read. So do those for RMs that brought the group's text.
//! * After a call that was cut off, the text for RMs that bring none is set again.
//! * An RM that does not answer a text, because one of its partitions hangs, holds up no
//!   registration, and other RMs for a bounded time. The text is reported as not in force.
//! * A registration writes its text only after its claim was won.
//!
//! # Why registrations share reads, and wait for no other RM
//! All RMs of a group register at the same time after an outage. If each read the record under a
//! lock, they would come back one by one. So registrations share reads ([`SharedRead`]), and the
//! first one sets the text for RMs that bring none. The task awaits the answers of those that are
//! registered, and gives RMs that brought the group's text a newer one. It holds no lock meanwhile
//! that a registration needs.
//!
//! # RMs with a configuration of their own
//! An RM may bring another text than its group has where `registration.policy_group_conflict` is
//! `warn`. It keeps its text: changes of the group do not reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use monoceros_actors::config::ConfigErrors;
use monoceros_actors::{ClusterEvent, PendingOutcome, SchedulerHandle};
use monoceros_cluster::{Configuration, GroupId, RmId};
use monoceros_cluster_store::{Arbiter, Failure, unpack};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::defaults::{Defaults, InScheduler, RM_PATIENCE, answers, no_answer, reason_of};
use super::membership::Membership;
use super::operations::GroupReport;
use super::shared_read::{Numbered, SharedRead};
use crate::grpc::session::Session;
use crate::locked::locked;
use crate::settings::PolicyGroupConflict;

/// Pause before a configuration that could not be applied, or read, is tried again.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// Longest time between two reads of the groups that are served here, without a hint. Also the
/// longest time in which a text is applied.
const LONGEST: Duration = Duration::from_secs(60);

/// The configurations of policy groups on this member.
pub(super) struct Groups {
    pub(super) arbiter: Arbiter,
    pub(super) scheduler: SchedulerHandle,
    pub(super) membership: Arc<Membership>,
    /// Id of this member, for the source of a text.
    pub(super) me: Arc<str>,
    pub(super) conflict: PolicyGroupConflict,
    state: Mutex<State>,
    /// Wakes the task of [`Self::keep_in_force`].
    wake: Notify,
}

#[derive(Default)]
pub(super) struct State {
    groups: BTreeMap<GroupId, Arc<Group>>,
    /// RMs with a configuration of their own.
    pub(super) own: BTreeSet<String>,
    /// Groups to read soon.
    due: BTreeSet<GroupId>,
    /// Groups whose file was offered since this process started.
    pub(super) files: BTreeSet<GroupId>,
}

/// A policy group on this member.
#[derive(Default)]
struct Group {
    reads: SharedRead<Result<Option<Arc<Configuration>>, Failure>>,
    /// The text for RMs that bring none. Locked while it is set, and never during a read, or while
    /// RMs are awaited.
    defaults: tokio::sync::Mutex<Defaults>,
    /// Locked while the RMs that brought the group's text get another one.
    pass: tokio::sync::Mutex<()>,
    status: Mutex<Status>,
}

#[derive(Clone, Debug, Default)]
struct Status {
    in_force: Option<u64>,
    in_arbiter: Option<u64>,
    why_not: Option<String>,
    /// Whether the arbiter did not answer the last read.
    is_unread: bool,
}

impl Groups {
    pub(super) fn new(
        arbiter: Arbiter,
        scheduler: SchedulerHandle,
        membership: Arc<Membership>,
        me: Arc<str>,
        conflict: PolicyGroupConflict,
    ) -> Self {
        let (state, wake) = (Mutex::default(), Notify::new());
        Self { arbiter, scheduler, membership, me, conflict, state, wake }
    }

    /// Configurations of the groups that this member has read.
    pub(super) fn reports(&self) -> Vec<GroupReport> {
        let groups = self.state().groups.clone();
        let shown = groups.into_iter().map(|(id, group)| {
            let Status { in_force, in_arbiter, why_not, .. } = locked(&group.status).clone();
            let group = match id {
                GroupId::Others => None,
                GroupId::Named(name) => Some(name.to_string()),
            };
            GroupReport { group, in_force, in_arbiter, why_not }
        });
        shown.filter(|group| group.in_arbiter.is_some() || group.why_not.is_some()).collect()
    }

    /// Reads and applies changed configurations, until the task is aborted.
    pub(super) async fn keep_in_force(self: Arc<Self>) {
        let from = loop {
            match self.arbiter.read_group(&GroupId::Others).await {
                Ok((_, revision)) => break revision,
                Err(_) => sleep(AGAIN).await,
            }
        };
        let mut hints = self.arbiter.watch_groups(from);
        loop {
            let pause = if self.has_failed() { AGAIN } else { LONGEST };
            let due = tokio::select! {
                biased;
                () = self.wake.notified() => std::mem::take(&mut self.state().due),
                _ = hints.next() => self.served_groups(),
                () = sleep(pause) => self.served_groups(),
            };
            for id in due {
                // A failure is in the group's state.
                if timeout(LONGEST, self.read_and_apply(&id)).await.is_err() {
                    let why = format!("it was not applied within {LONGEST:?}");
                    locked(&self.group(&id).status).why_not = Some(why);
                    self.count_not_in_force();
                }
            }
        }
    }

    /// Whether a configuration could not be read or applied.
    fn has_failed(&self) -> bool {
        let groups = self.state().groups.clone();
        groups.values().any(|group| {
            let status = locked(&group.status);
            status.why_not.is_some() || status.is_unread
        })
    }

    /// The groups with sessions here, and all others. Groups without sessions are forgotten.
    fn served_groups(&self) -> BTreeSet<GroupId> {
        let sessions = self.sessions(&GroupId::Others);
        let named = sessions.iter().map(|session| named(&session.registrant().policy_group));
        let served: BTreeSet<_> = std::iter::once(GroupId::Others).chain(named).collect();
        let mut state = self.state();
        state.groups.retain(|id, group| served.contains(id) || Arc::strong_count(group) > 1);
        // A registration that has settled its text has its claim, and perhaps no session yet.
        state.own.retain(|rm| self.membership.serves(&RmId(rm.as_str().into())));
        drop(state);
        self.count_not_in_force();
        served
    }

    /// Asks the task to read a group soon.
    pub(super) fn note_due(&self, id: GroupId) {
        self.state().due.insert(id);
        self.wake.notify_one();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn group(&self, id: &GroupId) -> Arc<Group> {
        Arc::clone(self.state().groups.entry(id.clone()).or_default())
    }

    /// Sessions on this member that a group's record concerns.
    fn sessions(&self, id: &GroupId) -> Vec<Arc<Session>> {
        let Some(registry) = self.membership.registry() else { return Vec::new() };
        match id {
            GroupId::Others => registry.sessions_of(None),
            GroupId::Named(name) => registry.sessions_of(Some(name)),
        }
    }

    /// Reads the record of a group, by a read that begins after this call. Also returns the number
    /// of the read.
    async fn read_record(
        &self,
        id: &GroupId,
        group: &Group,
    ) -> Result<(u64, Option<Arc<Configuration>>), Failure> {
        let read = async || {
            let (record, _) = self.arbiter.read_group(id).await?;
            Ok(record.map(|record| Arc::new(record.value)))
        };
        let Numbered { number, result } = group.reads.get(read).await;
        if result.is_err() {
            locked(&group.status).is_unread = true;
        }
        Ok((number, result?))
    }

    /// Reads the record of a group, and sets its text for RMs that bring none. The task applies it to
    /// the others. Returns whether there is a text.
    pub(super) async fn read_defaults(&self, id: &GroupId) -> Result<bool, Failure> {
        let group = self.group(id);
        let (read, record) = self.read_record(id, &group).await?;
        let Some(record) = record else { return Ok(false) };
        let mut defaults = group.defaults.lock().await;
        // Another registration may have used the same read, or a later one.
        if defaults.read < read {
            let is_known = |it: &InScheduler| it.checksum == record.checksum;
            if defaults.in_scheduler.as_ref().is_some_and(is_known) {
                defaults.read = read;
            } else {
                // The task tries again what fails, and reports it.
                let _ = self.set_text(id, &record, read, &mut defaults).await;
                self.note_due(id.clone());
            }
        }
        Ok(!record.is_withdrawn())
    }

    /// Reads the record of a group, and applies its text where it is not in force.
    pub(super) async fn read_and_apply(&self, id: &GroupId) -> Result<(), Failure> {
        let group = self.group(id);
        let _pass = group.pass.lock().await;
        let (record, set) = loop {
            let (read, record) = self.read_record(id, &group).await?;
            let Some(record) = record else {
                *locked(&group.status) = Status::default();
                self.count_not_in_force();
                return Ok(());
            };
            let mut defaults = group.defaults.lock().await;
            // A registration may have set a newer text meanwhile.
            if defaults.read <= read {
                let set = self.set_text(id, &record, read, &mut defaults).await;
                break (record, set.map(|text| (text, defaults.take_pending())));
            }
        };
        let outcome = match set {
            Ok((text, pending)) => {
                let reasons = answers(&group.defaults, &text, pending).await;
                self.apply(id, &text, reasons).await
            }
            Err(why) => Err(why),
        };
        self.note(id, &group, &record, outcome.err());
        Ok(())
    }

    /// Sets the text of a configuration for RMs that bring none, unless all of them have it or
    /// their answers are pending. Returns the text once RMs that register get it.
    async fn set_text(
        &self,
        id: &GroupId,
        record: &Configuration,
        read: u64,
        defaults: &mut Defaults,
    ) -> Result<Arc<str>, String> {
        let is_known =
            |it: &&InScheduler| it.checksum == record.checksum && !it.is_to_be_set_again();
        if let Some(known) = defaults.in_scheduler.as_ref().filter(is_known) {
            defaults.read = read;
            return Ok(Arc::clone(&known.text));
        }
        let text: Arc<str> = unpack(record)?.into();
        // The scheduler may have either text until it answers, also if this call is cut off.
        let before = defaults.in_scheduler.take();
        let pending = self.set_defaults(id, &text).await;
        defaults.read = read;
        let pending = match pending {
            Ok(pending) => pending,
            Err(errors) => {
                defaults.in_scheduler = before;
                return Err(errors.to_string());
            }
        };
        let in_scheduler = InScheduler::new(&record.checksum, &text, pending);
        defaults.in_scheduler = Some(in_scheduler);
        Ok(text)
    }

    /// Applies the text of a group to the RMs that brought it. Returns why it is not in force, with
    /// the `reasons` of RMs that bring none.
    async fn apply(
        &self,
        id: &GroupId,
        text: &str,
        mut reasons: Vec<String>,
    ) -> Result<(), String> {
        if let GroupId::Named(_) = id
            && !text.is_empty()
        {
            for session in self.followers(id, text) {
                let replaced = timeout(RM_PATIENCE, self.replace(&session, text)).await;
                if let Err(why) = replaced.unwrap_or_else(|_| Err(no_answer())) {
                    reasons.push(reason_of(session.rm_id(), &why));
                }
            }
        }
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    /// Sets the text for RMs that bring none, without waiting for them.
    async fn set_defaults(
        &self,
        id: &GroupId,
        text: &str,
    ) -> Result<Vec<PendingOutcome>, ConfigErrors> {
        let group = match id {
            GroupId::Others => None,
            GroupId::Named(name) => Some(&**name),
        };
        self.scheduler.begin_default_queues(group, text).await
    }

    /// Sessions of RMs that brought the text of their group, and have another one than `text`.
    fn followers(&self, id: &GroupId, text: &str) -> Vec<Arc<Session>> {
        let mut sessions = self.sessions(id);
        let state = self.state();
        sessions.retain(|it| it.has_other_config(text) && !state.own.contains(it.rm_id()));
        sessions
    }

    /// Replaces the text of an RM, whose other settings stay.
    async fn replace(&self, session: &Session, text: &str) -> Result<(), String> {
        let update = self.scheduler.update_queues(session.rm_id(), text).await;
        let update = update.map_err(|why| why.to_string())?;
        session.set_config(text.to_owned());
        if update.changed {
            info!(rm = session.rm_id(), "queue configuration of the policy group in force");
        }
        Ok(())
    }

    /// Notes whether a configuration is in force, and reports when that changes.
    fn note(&self, id: &GroupId, group: &Group, record: &Configuration, why_not: Option<String>) {
        let name = name_of(id);
        let version = record.version;
        let mut status = locked(&group.status);
        match &why_not {
            Some(why) if status.why_not != why_not || status.in_arbiter != Some(version) => {
                let message = "queue configuration of the cluster not in force";
                warn!(group = name, version, reason = why, message);
                let (member, group) = (self.me.to_string(), name.to_owned());
                let event =
                    ClusterEvent::ConfigurationNotInForce { member, group, why: why.clone() };
                self.scheduler.report_cluster_event(event);
            }
            None if status.in_force != Some(version) => {
                let source = &*record.source;
                info!(group = name, version, source, "queue configuration of the cluster in force");
            }
            _ => {}
        }
        status.in_arbiter = Some(version);
        status.is_unread = false;
        if why_not.is_none() {
            status.in_force = Some(version);
        }
        status.why_not = why_not;
        drop(status);
        self.count_not_in_force();
    }

    /// Number of configurations that could not be applied.
    pub(super) fn n_not_in_force(&self) -> usize {
        let groups = self.state().groups.clone();
        groups.values().filter(|group| locked(&group.status).why_not.is_some()).count()
    }

    fn count_not_in_force(&self) {
        self.scheduler.cluster_metrics().set_not_in_force(self.n_not_in_force());
    }
}

/// The name of a group. Empty for all others.
pub(super) fn name_of(id: &GroupId) -> &str {
    match id {
        GroupId::Others => "",
        GroupId::Named(name) => name,
    }
}

/// The id of a named group.
pub(super) fn named(group: &str) -> GroupId {
    GroupId::Named(group.into())
}
