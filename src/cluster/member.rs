//! The member of this process, from its first renewal to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use monoceros_actors::SchedulerHandle;
use monoceros_actors::snapshot::TOTAL;
use monoceros_cluster::{Details, Event, Incarnation, MemberId, Nanos, Owner, Timing};
use monoceros_cluster_store::{Arbiter, Clock, Driver, Outcome, Store, boot_time};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::MemberListener;
use super::groups::Groups;
use super::host::Service;
use super::membership::{Membership, Probe, accepts_connections};
use super::notices::notices;
use super::observer::observe;
use super::operating::OfMember;
use super::operations::{Operations, OwnState};
use super::operator::{Facts, OperatorState};
use super::peers::{Links, keep_links};
use super::routing::Sources;
use super::sharing::{SharedConfigurations, Trial, over_peers};
use super::suspicion::{Acts, Suspicion, acts_on_link};
use super::tls::MemberTls;
use super::{Listening, MemberEnd, identity, store};
use crate::chance::random_bits;
use crate::grpc::registry::Claims;
use crate::grpc::routing::Routing;
use crate::queues_file::SharedTexts;
use crate::settings::{ClusterSettings, PolicyGroupConflict, Settings, WrongSettings};
use crate::watchdog::{Healthy, Readiness};

/// The member of this process. Its tasks end when this is dropped.
pub struct Member {
    pub(super) membership: Arc<Membership>,
    readiness: watch::Receiver<Readiness>,
    /// `None` while the driver runs.
    outcome: watch::Receiver<Option<Outcome>>,
    pub(super) shared: Arc<SharedConfigurations>,
    tasks: [AbortHandle; 5],
}

/// Parts of a member that a test replaces.
pub(super) struct Parts {
    pub(super) id: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) probe: Probe,
    /// TLS of connections to other members.
    pub(super) tls: Option<MemberTls>,
    pub(super) acts: Acts,
    /// Handling of RMs that bring another configuration than their policy group has.
    pub(super) conflict: PolicyGroupConflict,
    /// Tries configurations at other members.
    pub(super) trial: Trial,
    /// Time after which a resource manager that does not come back is given up.
    pub(super) given_up_after: Duration,
}

impl Member {
    /// Starts the member, if the settings name an arbiter. It joins in the background.
    pub async fn start(
        settings: &Settings,
        handle: &SchedulerHandle,
        healthy: Healthy,
        (listening, listener): (Listening, Option<&MemberListener>),
    ) -> anyhow::Result<Option<Self>> {
        let store = store::open(&settings.cluster).await.context(WrongSettings)?;
        let Some(store) = store else { return Ok(None) };
        let id = identity::of_this_process(settings).context(WrongSettings)?;
        let tls = listener.and_then(MemberListener::tls);
        let (clock, probe): (Clock, Probe) = (Arc::new(boot_time), accepts_connections);
        let conflict = settings.registration.policy_group_conflict;
        let (acts, trial): (Acts, Trial) = (acts_on_link, over_peers);
        let given_up_after = settings.session.pause_timeout;
        let parts = Parts { id, store, clock, probe, tls, acts, conflict, trial, given_up_after };
        let member = Self::begin(&settings.cluster, handle, healthy, listening, parts)?;
        if let Some(listener) = listener {
            // Only the first call counts: a process is one member.
            let _ = listener.notices.set(notices(&member.membership));
        }
        Ok(Some(member))
    }

    pub(super) fn begin(
        settings: &ClusterSettings,
        handle: &SchedulerHandle,
        healthy: Healthy,
        listening: Listening,
        parts: Parts,
    ) -> anyhow::Result<Self> {
        let lease = Nanos::try_from(settings.lease.as_nanos()).unwrap_or(Nanos::MAX);
        let timing = Timing::new(lease).context("`cluster.lease`")?;
        let incarnation = Incarnation(random_bits());
        let me = Owner { member: MemberId(parts.id.into()), incarnation };
        let facts = Facts {
            cluster: settings.name.clone(),
            arbiter: settings.arbiter.name(),
            lease: settings.lease,
            given_up_after: parts.given_up_after,
        };
        let operator = OperatorState::new(facts, handle.cluster_metrics());
        let details = details(settings, listening);
        let suspicion = Suspicion { grpc: details.grpc.clone(), acts: parts.acts };
        let links = Links::new(parts.tls);
        let membership =
            Arc::new(Membership::new(me.clone(), links, parts.probe, suspicion, operator));
        let (sender, readiness) = watch::channel(Readiness::NotYet("joining the cluster".into()));
        let service = Service {
            membership: Arc::clone(&membership),
            healthy,
            details,
            lease: OwnState::Joining,
            scheduler: handle.clone(),
            readiness: sender,
        };
        info!(
            member = &*me.member.0,
            cluster = settings.name,
            arbiter = settings.arbiter.name(),
            grpc = service.details.grpc,
            "this process is a member of a cluster"
        );
        let arbiter = Arbiter::new(parts.store);
        let sources = Sources { arbiter: arbiter.clone(), metrics: handle.cluster_metrics() };
        let groups = Groups::new(
            arbiter.clone(),
            handle.clone(),
            Arc::clone(&membership),
            Arc::clone(&me.member.0),
            parts.conflict,
        );
        let groups = Arc::new(groups);
        let keep = tokio::spawn(Arc::clone(&groups).keep_in_force());
        let shared = Arc::new(SharedConfigurations { groups, trial: parts.trial });
        membership.share(&shared);
        let driver = Driver::new(me, timing, arbiter, parts.clock, service);
        let (driver, access) = driver.context("`cluster.lease`")?;
        let members = access.watch_members();
        let views = access.view();
        membership.run_by(access, sources);
        let counted = Arc::clone(membership.counted());
        let links = tokio::spawn(keep_links(Arc::downgrade(&membership), members));
        let (sender, outcome) = watch::channel(None);
        let of_driver = Arc::clone(&membership);
        let driver = tokio::spawn(async move {
            let (ended, _) = driver.run().await;
            of_driver.close();
            sender.send_replace(Some(ended));
        });
        let count = tokio::spawn(count(handle.clone(), counted, settings.lease));
        let observe = tokio::spawn(observe(handle.clone(), Arc::clone(&membership), views));
        let tasks = [driver, count, links, observe, keep].map(|task| task.abort_handle());
        Ok(Self { membership, readiness, outcome, shared, tasks })
    }

    /// The claims of registrations.
    pub fn claims(&self) -> Arc<dyn Claims> {
        Arc::clone(&self.membership) as _
    }

    /// The way to other members.
    pub fn routing(&self) -> Arc<dyn Routing> {
        Arc::clone(&self.membership) as _
    }

    /// The operations for operators.
    pub fn operations(&self) -> Arc<dyn Operations> {
        Arc::new(OfMember(Arc::clone(&self.membership)))
    }

    /// The keeper of queue configurations that all members share.
    pub fn shared_texts(&self) -> Arc<dyn SharedTexts> {
        Arc::clone(&self.shared.groups) as _
    }

    /// Whether the member may decide, for probes.
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.clone()
    }

    /// Waits until the member has ended by itself. Never returns after [`Self::leave`].
    pub async fn ended(&self) -> MemberEnd {
        let mut outcome = self.outcome.clone();
        let ended = outcome.wait_for(Option::is_some).await.map(|ended| *ended);
        match ended {
            Ok(Some(Outcome::IdInUse)) => MemberEnd::IdInUse,
            Ok(Some(Outcome::Left) | None) => std::future::pending().await,
            Err(_) => MemberEnd::Lost,
        }
    }

    /// Hands all resource managers over to other members that live, and leaves the cluster. Gives
    /// up after `patience`: then others wait for the lease to be over.
    pub async fn leave(&self, patience: Duration) {
        let leave = async {
            let Some(handle) = self.membership.handle() else { return };
            let successors = self.membership.successors();
            if handle.send(Event::Leave(successors)).await {
                // Fails if the driver was lost.
                let _ = self.outcome.clone().wait_for(Option::is_some).await;
            }
        };
        if timeout(patience, leave).await.is_err() {
            warn!(?patience, "this member could not leave the cluster in time");
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Addresses and version for the member's record.
fn details(settings: &ClusterSettings, listening: Listening) -> Details {
    let advertise = &settings.advertise;
    Details {
        grpc: advertise.grpc.clone().unwrap_or_else(|| listening.grpc.to_string()),
        rest: advertise.rest.clone().unwrap_or_else(|| listening.rest.to_string()),
        internal: (advertise.internal.clone())
            .or_else(|| listening.internal.map(|address| address.to_string()))
            .unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Details::default()
    }
}

/// Counts nodes and applications, once in each `pause`.
async fn count(handle: SchedulerHandle, counted: Arc<AtomicU64>, pause: Duration) {
    loop {
        let mut sum = 0;
        for partition in handle.partitions().await {
            let applications = partition.applications.get(TOTAL).copied().unwrap_or_default();
            sum += i64::from(partition.total_nodes) + i64::from(applications);
        }
        counted.store(u64::try_from(sum).unwrap_or_default(), Ordering::Relaxed);
        sleep(pause).await;
    }
}
