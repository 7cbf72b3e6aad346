//! Three processes as one scheduler, on a real etcd: one is killed, frozen, or ended in order.
//!
//! A test without etcd prints why in one line, and passes.
#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used)]

mod alone;
mod configuration;
mod faults;
mod forwarding;
#[path = "../harness/mod.rs"]
mod harness;
mod manual;
mod operating;
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../../cluster/store/tests/etcd/servers.rs"]
mod servers;
mod settings;
mod stock;
mod takeover;

use std::time::Duration;

use monoceros_cluster_store::ClusterName;
use monoceros_cluster_store::etcd::Etcd;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request, Status};

use crate::harness::{PATIENCE, QUEUES, Rm, Service, ask, reason_of, registration, run};
use crate::servers::{Program, Server, options, ready};

const LEASE: Duration = Duration::from_secs(3);
/// Pause between two attempts to register.
const PAUSE: Duration = Duration::from_millis(50);

/// Secret of a client process.
const PROOF: Option<&str> = Some("the secret of the first process");

/// Beds at a time: most of their time is that of leases, but a member that gets no processor loses
/// its own.
static PLACES: Semaphore = Semaphore::const_new(N_PLACES as usize);
const N_PLACES: u32 = 3;

/// An etcd, and a place on the machine.
struct Bed {
    etcd: Server,
    _place: SemaphorePermit<'static>,
}

impl Bed {
    /// `None` without a program of etcd.
    async fn new() -> Option<Self> {
        let program = Program::packaged().or_else(Program::built)?;
        let place = PLACES.acquire().await.unwrap();
        let etcd = Server::new(&program, &[]).unwrap();
        let name = ClusterName::new("first").unwrap();
        ready(&Etcd::new(&name, options(&etcd)).unwrap()).await.unwrap();
        Some(Self { etcd, _place: place })
    }

    /// Starts a member.
    fn start(&self, id: &str) -> Service {
        self.start_with(id, &[])
    }

    /// Starts a member with more settings.
    fn start_with(&self, id: &str, settings: &[(&str, &str)]) -> Service {
        let endpoint = self.etcd.endpoint();
        let of_cluster = [
            ("CLUSTER__ARBITER", "etcd"),
            ("CLUSTER__ENDPOINTS", &*endpoint),
            ("CLUSTER__LEASE", "3s"),
            ("CLUSTER__ID", id),
        ];
        Service::start_with(&[&of_cluster, settings].concat())
    }

    /// Starts three members, and waits until they know each other.
    async fn three(&self) -> [Service; 3] {
        let members = ["m1", "m2", "m3"].map(|id| self.start(id));
        acquainted(&members.each_ref()).await;
        members
    }
}

/// Waits until all these members may decide, and each has read that they all live.
async fn acquainted(members: &[&Service]) {
    for member in members {
        until_ready(member).await;
        let begun = Instant::now();
        loop {
            let answer = member.get("/ws/v1/cluster").await;
            if answer.matches(r#""state":"alive""#).count() >= members.len() {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{answer}");
            sleep(PAUSE).await;
        }
    }
}

/// Waits until a member may decide.
async fn until_ready(member: &Service) {
    let begun = Instant::now();
    loop {
        let answer = member.http("GET", "/readyz", &[], "").await;
        if answer.status == 200 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", answer.body);
        sleep(PAUSE).await;
    }
}

/// Registers at a member. Returns the number of the session.
async fn register(member: &Service, rm: &str, proof: Option<&str>) -> Result<u64, Status> {
    let mut request = Request::new(registration(rm, QUEUES));
    if let Some(proof) = proof {
        request.metadata_mut().insert("x-si-proof", proof.parse().unwrap());
    }
    let answer = member.client().await.register_resource_manager(request).await?;
    Ok(answer.metadata().get("x-si-session").unwrap().to_str().unwrap().parse().unwrap())
}

/// Registers until the RM is served. Returns the number of the session, and the reasons until then.
async fn register_until_served(member: &Service, rm: &str) -> (u64, Vec<String>) {
    let begun = Instant::now();
    let mut reasons = Vec::new();
    loop {
        match register(member, rm, None).await {
            Ok(session) => return (session, reasons),
            Err(status) => reasons.push(reason_of(&status)),
        }
        assert!(begun.elapsed() < PATIENCE, "{reasons:?}");
        sleep(PAUSE).await;
    }
}

/// Opens the streams of a registered RM, which reports a node and an application.
async fn served(member: &Service, rm: &str) -> Rm {
    let rm = Rm::open(member.client().await, rm).await;
    rm.hello().await;
    rm.with_nodes(&["n1"]).await.with_application("app", "root.a").await
}

/// Asks once, and waits for the allocation.
async fn is_allocated(rm: &Rm, key: &str) {
    rm.send_allocations(vec![], vec![ask("app", key)], vec![]).await;
    rm.until("allocated", |seen| seen.new.iter().any(|new| new.allocation_key == key)).await;
}

/// The owner to whom a status sends the client.
fn owner_of(status: &Status) -> &str {
    status.metadata().get("x-si-owner").unwrap().to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_owner_is_replaced_at_once_by_a_proof_and_after_the_lease_without() {
    let Some(bed) = Bed::new().await else { return };
    // Alone, so that no resource manager is handed on.
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    assert_eq!(register(&m1, "proves", PROOF).await.unwrap(), 1);
    assert_eq!(register(&m1, "silent", None).await.unwrap(), 1);
    let (m2, m3) = (bed.start("m2"), bed.start("m3"));
    acquainted(&[&m1, &m2, &m3]).await;
    assert_eq!(register(&m2, "other", PROOF).await.unwrap(), 1);
    let (proves, other) = (served(&m1, "proves").await, served(&m2, "other").await);
    is_allocated(&proves, "a1").await;
    is_allocated(&other, "o1").await;

    m1.send_signal("-KILL");
    let killed = Instant::now();
    assert_eq!(register(&m2, "proves", PROOF).await.unwrap(), 2);
    let taken = killed.elapsed();
    assert!(taken < LEASE / 2, "{taken:?}");
    is_allocated(&served(&m2, "proves").await, "a2").await;

    let (session, reasons) = register_until_served(&m3, "silent").await;
    let waited = killed.elapsed();
    assert_eq!((session, reasons[0].as_str()), (2, "OWNER_UNREACHABLE"));
    // Its last renewal was up to a fifth of the lease before its end.
    assert!(waited > LEASE * 3 / 5, "{waited:?}");
    is_allocated(&served(&m3, "silent").await, "s1").await;
    is_allocated(&other, "o2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_owner_is_fenced_and_delivers_nothing() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register(&m1, "silent", None).await.unwrap(), 1);
    let rm = served(&m1, "silent").await;
    is_allocated(&rm, "a1").await;

    m1.send_signal("-STOP");
    rm.send_allocations(vec![], vec![ask("app", "a2")], vec![]).await;
    let (session, _) = register_until_served(&m2, "silent").await;
    assert_eq!(session, 2);
    is_allocated(&served(&m2, "silent").await, "b1").await;
    m1.send_signal("-CONT");
    rm.until("the end of the stream", |seen| seen.ends.contains_key("allocation")).await;
    let end = rm.read(|seen| seen.end("allocation")).unwrap();
    assert_eq!(end, (Code::Unavailable, "MEMBER_FENCED".to_owned()));
    assert_eq!(rm.read(|seen| seen.new.len()), 1, "decided after its lease, and not delivered");
    // It was deposed, and joins again.
    until_ready(&m1).await;
    assert_eq!(register(&m1, "another", None).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_former_owner_is_notified_of_a_takeover() {
    let Some(bed) = Bed::new().await else { return };
    // A renewal every twelve seconds.
    let settings = [("CLUSTER__LEASE", "60s")];
    let m1 = bed.start_with("m1", &settings);
    until_ready(&m1).await;
    assert_eq!(register(&m1, "proves", PROOF).await.unwrap(), 1);
    let rm = served(&m1, "proves").await;
    let m2 = bed.start_with("m2", &settings);
    until_ready(&m2).await;
    assert_eq!(register(&m2, "proves", PROOF).await.unwrap(), 2);
    let taken = Instant::now();
    rm.until("moved", |seen| seen.end("allocation").is_some()).await;
    // The next renewal is later.
    assert!(taken.elapsed() < Duration::from_secs(6), "{:?}", taken.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_owner_hands_over() {
    let Some(bed) = Bed::new().await else { return };
    let [mut m1, m2, m3] = bed.three().await;
    assert_eq!(register(&m1, "silent", None).await.unwrap(), 1);
    let rm = served(&m1, "silent").await;
    m1.terminate();
    rm.until("the end of the stream", |seen| seen.ends.contains_key("allocation")).await;
    let status = rm.read(|seen| seen.ends["allocation"].clone()).unwrap();
    assert_eq!(reason_of(&status), "SESSION_MOVED");
    let to = [&m2, &m3].into_iter().find(|member| member.grpc.to_string() == owner_of(&status));
    let (session, reasons) = register_until_served(to.unwrap(), "silent").await;
    // The claim may still be on its way when the stream has ended.
    assert!(session == 3 && reasons.len() < 20, "{session}: {reasons:?}");
    assert_eq!(m1.wait(PATIENCE).await.code(), Some(0));
    let again = bed.start("m1");
    let begun = Instant::now();
    until_ready(&again).await;
    assert!(begun.elapsed() < LEASE / 2, "its id is free: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_with_one_id_one_ends_with_code_2() {
    let Some(bed) = Bed::new().await else { return };
    let mut first = bed.start("same");
    until_ready(&first).await;
    let second = bed.start("same");
    let answer = second.http("GET", "/readyz", &[], "").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("joining the cluster"), "{}", answer.body);
    let status = register(&second, "rm", None).await.unwrap_err();
    assert_eq!(reason_of(&status), "MEMBER_FENCED");
    let grpc = second.grpc.to_string();
    for kind in ["members", "rms", "partitions"] {
        let (code, _, told) = run(&["--grpc", &grpc, "get", kind]);
        let is_told = told.contains("this member may not decide: it is joining the cluster");
        assert!(code == Some(0) && is_told, "{kind}: {told}");
    }
    first.send_signal("-STOP");
    until_ready(&second).await;
    first.send_signal("-CONT");
    assert_eq!(first.wait(PATIENCE).await.code(), Some(2));
    assert!(first.log().contains("two processes have the same `cluster.id`"), "{}", first.log());
    let is_said = |line: &str| {
        let parts = ["another process has the id", "id=same", "incarnation=", "grpc="];
        parts.iter().all(|part| line.contains(part))
    };
    assert!(first.log().lines().any(is_said), "{}", first.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_its_arbiter_says_so_and_places_nothing() {
    let Some(mut bed) = Bed::new().await else { return };
    let member = bed.start("m1");
    until_ready(&member).await;
    assert_eq!(register(&member, "rm", None).await.unwrap(), 1);
    let rm = served(&member, "rm").await;
    bed.etcd.stop();
    is_allocated(&rm, "a1").await;
    let status = register(&member, "new", None).await.unwrap_err();
    assert!(["ARBITER_UNAVAILABLE", "MEMBER_FENCED"].contains(&&*reason_of(&status)), "{status:?}");
    let fenced = rm.until("the end of the stream", |seen| seen.ends.contains_key("allocation"));
    timeout(3 * LEASE, fenced).await.unwrap();
    assert_eq!(rm.read(|seen| seen.end("allocation")).unwrap().1, "MEMBER_FENCED");
    let answer = member.http("GET", "/readyz", &[], "").await;
    assert_eq!(answer.status, 503);
    let endpoint = bed.etcd.endpoint();
    assert!(answer.body.contains("its lease is over"), "{}", answer.body);
    assert!(answer.body.contains(&endpoint), "{}", answer.body);
    bed.etcd.start().unwrap();
    until_ready(&member).await;
    assert_eq!(register(&member, "rm", None).await.unwrap(), 2);
}
