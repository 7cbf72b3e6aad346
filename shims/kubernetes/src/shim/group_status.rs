//! Status of PodGroups: whether they have started, and whether they are preempted.

use std::sync::Arc;
use std::time::Duration;

use super::Shim;
use super::messages::{GroupCondition, Key};
use super::waiting::{APART, WaitReason};
use crate::objects::Meta as _;

/// Condition type: whether the group has started.
pub(super) const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// Condition type: whether the group is preempted as a whole.
pub(super) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The last reported status of a PodGroup.
#[derive(Debug)]
pub(super) struct GroupReport {
    uid: String,
    status: bool,
    why: WaitReason,
    at: Duration,
}

impl GroupReport {
    /// Returns whether this report is kept instead of `now`.
    fn outranks(&self, now: &Self) -> bool {
        let is_same = self.why.is_same(&now.why);
        self.status || (!now.status && (is_same || self.at + APART > now.at))
    }
}

impl Shim {
    /// Reports that the group has started, since its first pods have nodes.
    pub(super) fn group_is_placed(&mut self, id: &Arc<str>, now: Duration) {
        let why = WaitReason::new(
            "Scheduled",
            "",
            "the pods that the group starts with have their nodes",
        );
        self.report_group(id, true, &why, now);
        let Some(application) = self.applications.get_mut(id) else { return };
        if std::mem::take(&mut application.is_disrupted) {
            let why = WaitReason::new("Scheduled", "", "its pods are scheduled again");
            self.report_group_condition(id, DISRUPTION_TARGET, false, &why, now);
        }
    }

    /// Reports the status of an application's PodGroup if it has changed. Once the group is
    /// scheduled its condition stays, whatever happens to its pods and whichever replica wrote it:
    /// it is about the first start.
    pub(super) fn report_group(
        &mut self,
        id: &Arc<str>,
        status: bool,
        why: &WaitReason,
        now: Duration,
    ) {
        let Some(first) = self.first_pod(id) else { return };
        let Some(group) = self.group_of(&first) else { return };
        if group.spec.scheduling_policy.gang.is_none()
            || group.is(INITIALLY_SCHEDULED)
            || (!status && self.has_started(id))
        {
            return;
        }
        let report = GroupReport { uid: group.uid().to_owned(), status, why: why.clone(), at: now };
        let Some(application) = self.applications.get_mut(id) else { return };
        let before = application.group_report.as_ref().filter(|before| before.uid == report.uid);
        if before.is_some_and(|before| before.outranks(&report)) {
            return;
        }
        application.group_report = Some(report);
        let reason = if status { &why.reason } else { "Unschedulable" };
        let written = WaitReason::new(reason, "", why.message.clone());
        self.report_group_condition(id, INITIALLY_SCHEDULED, status, &written, now);
    }

    /// Reports that all pods of a group are preempted, since one of them is.
    pub(super) fn group_is_disrupted(&mut self, key: &Key, message: &str, now: Duration) {
        let Some(id) = self.application_of(key) else { return };
        let Some(record) = self.pods.get(key) else { return };
        let group = self.group_of(&record.pod);
        if group.is_none_or(|group| group.spec.disruption_mode.all.is_none()) {
            return;
        }
        let Some(application) = self.applications.get_mut(&id) else { return };
        if !std::mem::replace(&mut application.is_disrupted, true) {
            let why = WaitReason::new("PreemptionByScheduler", "", message);
            self.report_group_condition(&id, DISRUPTION_TARGET, true, &why, now);
        }
    }

    fn report_group_condition(
        &mut self,
        id: &Arc<str>,
        type_: &'static str,
        status: bool,
        why: &WaitReason,
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
        self.queue_group_condition(condition, now);
    }
}
