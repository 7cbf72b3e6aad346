//! Metrics of the membership in a cluster. The service, which is the member, counts; the metrics are here
//! because all metrics are registered in one place. Without a cluster they stay at zero.

use std::time::Duration;

use prometheus::{Counter, Histogram, IntCounter, IntGauge};

use super::inventory::Maker;

/// Upper ends of the buckets of times, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 3.0];

/// Metrics of a member of a cluster. Clones share the numbers.
#[derive(Clone, Debug)]
pub struct ClusterMetrics {
    claims: [IntCounter; ClaimOutcome::ALL.len()],
    takeovers: [Histogram; TakeoverCause::ALL.len()],
    forwards: [IntCounter; ForwardKind::ALL.len()],
    status: [IntGauge; MemberStatus::ALL.len()],
    members: [IntGauge; 2],
    not_in_force: IntGauge,
    fenced: Counter,
    writes: Histogram,
}

/// Outcome of a registration in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// This member serves the RM.
    Won,
    /// The RM was sent to its owner.
    NotOwner,
    /// The owner could not be reached.
    OwnerUnreachable,
    /// The claim was being changed.
    Contended,
    /// The arbiter did not answer.
    ArbiterUnavailable,
    /// This member may not decide.
    Fenced,
    /// This member ends, or is drained.
    Leaving,
    /// Another process of the RM, or a later attempt, had registered.
    Superseded,
}

/// Reason why an RM that another member served was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeoverCause {
    /// It showed its proof, while the owner's record was alive.
    Proof,
    /// The owner handed it over.
    HandedOver,
    /// The owner had left.
    Left,
    /// The owner was deposed, or had restarted.
    Lost,
}

/// Kind of a request that was forwarded to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// A registration.
    Registration,
    /// A call or a stream.
    Call,
    /// A request over REST.
    Rest,
}

/// Right of a member to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStatus {
    /// It has not joined yet.
    Joining,
    /// It decides.
    Serving,
    /// Its lease is over.
    Fenced,
    /// The arbiter went back to an earlier state.
    Restored,
}

impl ClaimOutcome {
    const ALL: [&'static str; 8] = [
        "won",
        "not_owner",
        "owner_unreachable",
        "contended",
        "arbiter_unavailable",
        "fenced",
        "leaving",
        "superseded",
    ];
}

impl TakeoverCause {
    const ALL: [&'static str; 4] = ["proof", "handed_over", "left", "lost"];
}

impl ForwardKind {
    const ALL: [&'static str; 3] = ["registration", "call", "rest"];
}

impl MemberStatus {
    const ALL: [&'static str; 4] = ["joining", "serving", "fenced", "restored"];
}

impl ClusterMetrics {
    pub(super) fn with(make: &mut Maker) -> Self {
        Self {
            claims: make.counters(
                "monoceros_cluster_claims_total",
                "Registrations at this member of a cluster, by what became of the claim.",
                ("outcome", ClaimOutcome::ALL),
            ),
            takeovers: make.histograms(
                "monoceros_cluster_takeover_seconds",
                "Seconds from a registration of a resource manager that another member served to its \
                 claim here, by why it was free to be claimed.",
                ("cause", TakeoverCause::ALL),
                &SECONDS,
            ),
            forwards: make.counters(
                "monoceros_cluster_forwards_total",
                "Requests that were forwarded to another member of the cluster.",
                ("kind", ForwardKind::ALL),
            ),
            status: make.gauges(
                "monoceros_cluster_member_status",
                "1 for the present status of this member of a cluster; all are 0 without a cluster.",
                ("status", MemberStatus::ALL),
            ),
            members: make.gauges(
                "monoceros_cluster_members",
                "Members of the cluster whose records say that they are alive, by whether they were \
                 renewed of late, as this member has last read them.",
                ("state", ["alive", "silent"]),
            ),
            not_in_force: make.gauge(
                "monoceros_cluster_configurations_not_in_force",
                "Policy groups whose configuration in the cluster this member could not apply. The one \
                 before stays in force.",
            ),
            fenced: make.seconds(
                "monoceros_cluster_fenced_seconds_total",
                "Seconds for which this member of a cluster could decide nothing after it had joined.",
            ),
            writes: make.histogram(
                "monoceros_cluster_write_seconds",
                "Seconds that a compare-and-set at the arbiter took. Those without an answer are not \
                 counted.",
                &SECONDS,
            ),
        }
    }

    /// A registration has ended.
    pub fn claimed(&self, outcome: ClaimOutcome) {
        self.claims[outcome as usize].inc();
    }

    /// An RM that another member served was claimed, this time after its registration arrived.
    pub fn took_over(&self, cause: TakeoverCause, took: Duration) {
        self.takeovers[cause as usize].observe(took.as_secs_f64());
    }

    /// A request was forwarded.
    pub fn forwarded(&self, kind: ForwardKind) {
        self.forwards[kind as usize].inc();
    }

    /// The member has this status.
    pub fn set_status(&self, status: MemberStatus) {
        for (at, gauge) in self.status.iter().enumerate() {
            gauge.set(i64::from(at == status as usize));
        }
    }

    /// So many members were renewed of late, and so many were not.
    pub fn set_members(&self, alive: usize, silent: usize) {
        for (gauge, count) in self.members.iter().zip([alive, silent]) {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// The configurations of so many policy groups could not be applied.
    pub fn set_not_in_force(&self, groups: usize) {
        self.not_in_force.set(i64::try_from(groups).unwrap_or(i64::MAX));
    }

    /// The member could decide nothing for so much longer.
    pub fn fenced_for(&self, time: Duration) {
        self.fenced.inc_by(time.as_secs_f64());
    }

    /// A compare-and-set at the arbiter had a result after this time.
    pub fn written(&self, took: Duration) {
        self.writes.observe(took.as_secs_f64());
    }
}
