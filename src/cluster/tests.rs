//! Members with registries and schedulers of their own on one store in memory, in virtual time.
#![allow(clippy::unwrap_used)] // The lint sees no tests behind two conditions.

mod draining;
mod ending;
mod forwards;
mod groups;
mod moves;
mod routes;
mod unserved;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use monoceros_actors::{Scheduler, SchedulerHandle};
use monoceros_cluster::{Claim, Epoch, Key, Record, Reply, Request, RmId};
use monoceros_cluster_store::memory::{Memory, MemoryServer};
use monoceros_cluster_store::{Arbiter, Clock, ClusterName};
use monoceros_proto::si::v1 as si;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::member::Parts;
use super::membership::Probe;
use super::operations::OperationRefusal;
use super::suspicion::Acts;
use super::{Listening, Member, MemberEnd};
use crate::grpc::end::{ClaimRefusal, RegistrationRefusal, StreamEnd};
use crate::grpc::kind::Allocations;
use crate::grpc::registry::{
    Origin, Proof, RegisterOutcome, Registered, RegistrationMode, Registry,
};
use crate::grpc::session::Binding;
use crate::grpc::stream_handle::StreamHandle;
use crate::settings::{Flags, PolicyGroupConflict, Settings};
use crate::watchdog::{Health, Healthy, Readiness};

const LEASE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_millis(500);

/// The arbiter, and the clock of all members.
struct Cluster {
    server: MemoryServer,
    clock: Clock,
    conflict: PolicyGroupConflict,
}

/// One process of the cluster.
struct Process {
    handle: SchedulerHandle,
    registry: Arc<Registry>,
    member: Member,
    store: Memory,
    front: watch::Sender<Health>,
}

fn play<F: Future<Output = ()>>(story: impl FnOnce(Cluster) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), async {
        let begun = Instant::now();
        let clock: Clock =
            Arc::new(move || begun.elapsed().as_nanos().try_into().unwrap_or(u64::MAX));
        let (server, conflict) = (MemoryServer::default(), PolicyGroupConflict::Warn);
        story(Cluster { server, clock, conflict }).await;
    });
}

impl Cluster {
    fn store(&self) -> Memory {
        let store = self.server.store(&ClusterName::new("c").unwrap(), TIMEOUT);
        store.set_delay(Duration::from_millis(2));
        store
    }

    /// Starts a process whose member may still have to wait, and which reaches others or none.
    fn start(&self, id: &str, reaches: bool) -> Process {
        self.start_at(id, reaches, None)
    }

    /// Starts a process that has an address for other members.
    fn start_at(&self, id: &str, reaches: bool, internal: Option<&str>) -> Process {
        if reaches {
            self.start_with(id, |_| async { true }.boxed(), |_| async { true }.boxed(), internal)
        } else {
            self.start_with(id, |_| async { false }.boxed(), |_| async { false }.boxed(), internal)
        }
    }

    /// Starts a process that finds out in these ways whether it reaches owners, and whether they act.
    fn start_with(&self, id: &str, probe: Probe, acts: Acts, internal: Option<&str>) -> Process {
        let settings = Settings::load(None, &Flags::default()).unwrap();
        let handle = Scheduler::builder().start_local().unwrap();
        let (front, healthy) = Healthy::watched();
        let store = self.store();
        let mut cluster = settings.cluster.clone();
        cluster.advertise.grpc = Some(format!("{id}:50051"));
        cluster.advertise.internal = internal.map(str::to_owned);
        let (grpc, rest) = (settings.grpc.address, settings.rest.address);
        let listening = Listening { grpc, rest, internal: None };
        let parts = Parts {
            id: id.to_owned(),
            store: Arc::new(store.clone()),
            clock: Arc::clone(&self.clock),
            probe,
            tls: None,
            acts,
            conflict: self.conflict,
            trial: groups::trial,
            given_up_after: settings.session.pause_timeout,
        };
        let member = Member::begin(&cluster, &handle, healthy, listening, parts).unwrap();
        let registry = Registry::new(handle.clone(), &settings, None);
        let registry = registry.with_claims(Some(member.claims()));
        groups::note(id, &handle);
        Process { handle, registry, member, store, front }
    }

    /// Starts a process, and waits until it may decide.
    async fn ready(&self, id: &str) -> Process {
        let process = self.start(id, true);
        process.until_ready().await;
        process
    }

    /// Waits until each member has read the records of all others.
    async fn acquainted(&self) {
        sleep(LEASE / 2).await;
    }

    async fn claim(&self) -> Claim {
        let read = Request::Read(Key::Claim(RmId("rm".into())));
        let reply = Arbiter::new(Arc::new(self.store())).ask(read).await.unwrap();
        let Reply::Read(Some(found), _) = reply else { panic!("{reply:?}") };
        let Record::Claim(claim) = found.value else { panic!("{:?}", found.value) };
        claim
    }
}

impl Process {
    async fn until_ready(&self) {
        let mut readiness = self.member.readiness();
        let ready = readiness.wait_for(|readiness| *readiness == Readiness::Ready);
        timeout(4 * LEASE, ready).await.expect("ready in time").unwrap();
    }

    fn reason(&self) -> String {
        match self.member.readiness().borrow().clone() {
            Readiness::NotYet(why) => why.into_owned(),
            readiness => panic!("{readiness:?}"),
        }
    }

    async fn register_with(
        &self,
        config: &str,
        origin: Origin,
    ) -> Result<Registered, RegistrationRefusal> {
        let request = si::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            config: config.to_owned(),
            ..Default::default()
        };
        let deadline = self.registry.registration_deadline();
        self.registry.register(request, origin, deadline).await
    }

    /// Registers, and returns the number of the session or why there is no claim.
    async fn register(&self, proof: Option<&str>) -> Result<u64, ClaimRefusal> {
        let proof = proof.map(|proof| Proof::parse(proof).unwrap());
        let origin = Origin { proof, instance: Some("i-1".to_owned()), ..Origin::default() };
        match self.register_with("", origin).await {
            Ok(registered) => Ok(registered.session),
            Err(RegistrationRefusal::Claim(refusal)) => Err(refusal),
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// Opens a stream for allocations.
    fn stream(&self) -> Arc<StreamHandle> {
        let stream = Arc::new(StreamHandle::new());
        let session = self.registry.session("rm").expect("a session");
        session.bind::<Allocations>(&stream, Binding::default()).unwrap();
        stream
    }

    /// Whether the process serves the resource manager.
    fn serves(&self) -> bool {
        self.registry.may_decide() && self.registry.session("rm").is_some()
    }
}

const PROOF: Option<&str> = Some("a secret of one process");

/// Waits for the end of a stream.
async fn end_of(stream: &StreamHandle) -> StreamEnd {
    timeout(4 * LEASE, stream.ended()).await.expect("ended in time");
    stream.end().unwrap()
}

#[test]
fn each_registration_gets_the_next_epoch_as_its_session() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        let incarnation = a.registry.scheduler_id();
        assert_eq!(a.register(None).await, Ok(1));
        let stream = a.stream();
        // To continue a session would need no claim.
        let origin = Origin { mode: RegistrationMode::Attach, ..Origin::default() };
        let again = a.register_with("", origin).await.unwrap();
        assert_eq!((again.session, again.outcome), (2, RegisterOutcome::Replaced));
        assert!(matches!(end_of(&stream).await, StreamEnd::Superseded { by: None }));
        assert_eq!(a.registry.scheduler_id(), incarnation);
        let claim = cluster.claim().await;
        assert_eq!((claim.epoch.0, claim.owner.is_some()), (2, true));

        a.registry.stop("rm", None, "operator").await.unwrap();
        assert_eq!(cluster.claim().await.owner, None, "anybody may claim it");
        let b = cluster.ready("b").await;
        assert_eq!(b.register(None).await, Ok(3));
    });
}

#[test]
fn a_refused_registration_leaves_session_and_claim() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        let refused = a.register_with("partitions: 3", Origin::default()).await;
        assert!(matches!(refused, Err(RegistrationRefusal::Register(_))));
        assert!(a.serves());
        a.store.set_away(true);
        assert_eq!(a.register(None).await, Err(ClaimRefusal::ArbiterUnavailable));
        assert!(a.serves());
        assert_eq!(cluster.claim().await.epoch.0, 1);
    });
}

#[test]
fn a_refusal_has_the_reason_of_the_arbiter() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        let origin = Origin { caller: "c".repeat(16 << 10), ..Origin::default() };
        let refused = a.register_with("", origin).await.err().unwrap();
        let text = refused.to_string();
        let why = "the arbiter of the cluster has no result for the claim: record `rms/rm` of ";
        assert!(text.starts_with(why) && text.ends_with("too large: the most is 16384"), "{text}");
    });
}

#[test]
fn without_a_proof_an_rm_is_sent_to_its_owner() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        let registered = Instant::now();
        assert_eq!(a.register(None).await, Ok(1));
        cluster.acquainted().await;
        let member = "a".to_owned();
        let redirect = ClaimRefusal::NotOwner { member, owner: Some("a:50051".to_owned()) };
        assert_eq!(b.register(None).await, Err(redirect));
        assert!(a.serves() && !b.serves());

        // A member that cannot reach the owner asks for the claim, and gets it in time.
        let c = cluster.start("c", false);
        c.until_ready().await;
        let stream = a.stream();
        let unreachable = ClaimRefusal::OwnerUnreachable { member: "a".to_owned() };
        assert_eq!(c.register(None).await, Err(unreachable));
        let end = end_of(&stream).await;
        let is_moved =
            matches!(&end, StreamEnd::SessionMoved { owner: Some(it) } if it == "c:50051");
        assert!(is_moved, "{end:?}");
        // A lease after its session began, with the next renewal.
        let moved = registered.elapsed();
        assert!((LEASE..LEASE * 3 / 2).contains(&moved), "{moved:?}");
        sleep(Duration::from_millis(100)).await;
        assert_eq!(c.register(None).await, Ok(3));
        assert!(c.serves() && !a.serves());
    });
}

#[test]
fn a_proof_takes_the_rm_along_at_once() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        assert_eq!(a.register(PROOF).await, Ok(1));
        let stream = a.stream();
        cluster.acquainted().await;
        let begun = Instant::now();
        assert_eq!(b.register(PROOF).await, Ok(2));
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        // The former owner finds the claim with its next renewal.
        let end = end_of(&stream).await;
        let is_moved =
            matches!(&end, StreamEnd::SessionMoved { owner: Some(it) } if it == "b:50051");
        assert!(is_moved, "{end:?}");
        assert!(begun.elapsed() < LEASE / 4, "{:?}", begun.elapsed());
        let other = b.register(Some("a secret of another process")).await;
        assert_eq!(other, Ok(3), "at its owner");
    });
}

#[test]
fn a_former_owner_that_is_notified_ends_the_session_at_once() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        assert_eq!(a.register(PROOF).await, Ok(1));
        let stream = a.stream();
        cluster.acquainted().await;
        let rm = || RmId("rm".into());
        a.member.membership.look_at_claim(rm(), Epoch(9)).await;
        sleep(Duration::from_millis(10)).await;
        assert!(a.serves(), "a notice without a claim ends nothing");

        let begun = Instant::now();
        assert_eq!(b.register(PROOF).await, Ok(2));
        a.member.membership.look_at_claim(rm(), Epoch(2)).await;
        let end = end_of(&stream).await;
        let is_moved =
            matches!(&end, StreamEnd::SessionMoved { owner: Some(it) } if it == "b:50051");
        assert!(is_moved, "{end:?}");
        assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_false_suspicion_is_sent_back_to_the_owner() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        let deaf = cluster.start("c", false);
        deaf.until_ready().await;
        assert_eq!(a.register(PROOF).await, Ok(1));
        cluster.acquainted().await;
        assert_eq!(b.registry.members(), ["b:50051", "a:50051", "c:50051"]);
        let suspicion = |incarnation: &str| Origin {
            proof: Proof::parse(PROOF.unwrap()),
            suspects: Some(incarnation.to_owned()),
            ..Origin::default()
        };
        let of_a = a.registry.scheduler_id();
        let of_a = suspicion(of_a.to_str().unwrap());
        let refused = b.register_with("", of_a.clone()).await.err();
        let Some(RegistrationRefusal::Claim(refusal)) = refused else { panic!("{refused:?}") };
        let member = "a".to_owned();
        let redirect = ClaimRefusal::NotOwner { member, owner: Some("a:50051".to_owned()) };
        assert_eq!(refusal, redirect);
        assert!(a.serves(), "nothing was claimed");

        assert_eq!(deaf.register_with("", of_a.clone()).await.unwrap().session, 2);
        // The suspect itself answers, and so does a member that knows no such suspect.
        assert_eq!(a.register_with("", of_a).await.unwrap().session, 3);
        assert_eq!(b.register_with("", suspicion("none")).await.unwrap().session, 4);
    });
}

#[test]
fn a_member_cut_off_is_fenced_before_another_serves() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        assert_eq!(a.register(None).await, Ok(1));
        let stream = a.stream();
        cluster.acquainted().await;
        a.store.set_away(true);
        let cut = Instant::now();
        let epoch = loop {
            assert!(cut.elapsed() < 3 * LEASE, "not served");
            match b.register(None).await {
                Ok(epoch) => break epoch,
                Err(_) => assert!(!(a.serves() && b.serves())),
            }
            sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(epoch, 2);
        assert!(cut.elapsed() >= LEASE * 3 / 4, "{:?}", cut.elapsed());
        assert!(b.serves() && !a.serves());
        assert!(matches!(stream.end(), Some(StreamEnd::MemberFenced)));
        assert_eq!(a.register(None).await, Err(ClaimRefusal::Fenced));
        assert!(a.handle.resource_managers().is_empty(), "its scheduler forgot the RM");
        let reason = a.reason();
        assert!(
            reason.contains("its lease is over; the arbiter does not answer: memory"),
            "{reason}"
        );
        // Deposed, it begins again with a new incarnation.
        let incarnation = a.registry.scheduler_id();
        a.store.set_away(false);
        a.until_ready().await;
        assert_ne!(a.registry.scheduler_id(), incarnation);
    });
}

#[test]
fn a_member_whose_front_hangs_loses_its_lease() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        a.front.send_replace(Health::Stuck);
        let stream = a.stream();
        assert!(matches!(end_of(&stream).await, StreamEnd::MemberFenced));
        a.front.send_replace(Health::Serving);
        a.until_ready().await;
        assert_eq!(a.register(None).await, Ok(2));
    });
}

#[test]
fn of_two_processes_with_one_id_the_silent_one_ends() {
    play(async |cluster| {
        let first = cluster.ready("a").await;
        let second = cluster.start("a", true);
        sleep(2 * LEASE).await;
        assert!(second.reason().contains("another process has its id"));
        first.store.set_away(true);
        second.until_ready().await;
        first.store.set_away(false);
        let end = timeout(LEASE, first.member.ended()).await.unwrap();
        assert_eq!(end, MemberEnd::IdInUse);
        assert!(!first.registry.may_decide() && second.registry.may_decide());
    });
}

#[test]
fn operations_that_make_no_sense_are_refused() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        assert_eq!(a.register(None).await, Ok(1));
        cluster.acquainted().await;
        let operations = a.member.operations();
        let move_to = |rm: &str, to: &str| operations.move_rm(rm.to_owned(), Some(to.to_owned()));
        let unknown = |rm: &str| Err(OperationRefusal::RmUnknown(rm.to_owned()));
        assert_eq!(move_to("other", "b").await, unknown("other"));
        let unknown = OperationRefusal::MemberUnknown("c".to_owned());
        assert_eq!(move_to("rm", "c").await, Err(unknown));
        let [rm_id, member] = ["rm", "a"].map(str::to_owned);
        let there = OperationRefusal::AlreadyThere { rm_id, member: member.clone() };
        assert_eq!(move_to("rm", "a").await, Err(there));
        let address = Some("a:50051".to_owned());
        let at_a = Err(OperationRefusal::AtMember { member, address });
        assert_eq!(b.member.operations().move_rm("rm".to_owned(), None).await, at_a);
        assert!(a.serves());

        let report = b.member.operations().report();
        let members: Vec<_> =
            report.members.iter().map(|it| (&*it.id, it.state.name(), it.rms)).collect();
        assert_eq!(members, [("a", "alive", 1), ("b", "alive", 0)]);
        assert_eq!(report.claims[0].owner.as_deref(), Some("a"));
        a.store.set_away(true);
        sleep(LEASE).await;
        let states = |process: &Process| {
            let report = process.member.operations().report();
            report.members.iter().map(|it| it.state.name()).collect::<Vec<_>>()
        };
        assert_eq!((states(&b), states(&a)[0]), (vec!["silent", "alive"], "fenced"));
    });
}

#[test]
fn a_restored_backup_is_accepted_by_an_operator() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        let backup = cluster.server.back_up();
        assert_eq!(a.register(None).await, Ok(2));
        sleep(LEASE).await;
        cluster.server.restore(&backup);
        sleep(LEASE).await;
        let operations = a.member.operations();
        assert_eq!(operations.report().state.name(), "restored");
        assert!(!a.serves());
        let refused = operations.drain("a".to_owned(), true).await.unwrap_err().to_string();
        assert!(refused.contains("`monoceros cluster accept-restore` accepts"), "{refused}");
        let floor = operations.accept_restore().await.unwrap();
        a.until_ready().await;
        let epoch = a.register(None).await.unwrap();
        assert!(epoch > floor && floor > 1_600_000_000_000, "{epoch} {floor}");
    });
}
