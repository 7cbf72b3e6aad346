//! Faults of the arbiter, of lines and of the clients' judgement: etcd away for longer than the
//! lease, a restored backup, an owner that comes back with its id or cannot be reached, and one
//! that is left although it lives.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use monoceros_proto::si::v1 as si;

use super::*;
use crate::harness::{Proxy, application, node, run};
use crate::servers::free_port;

/// RMs of a test, with the proofs of those that have one.
const RMS: [(&str, Option<&str>); 4] =
    [("first", PROOF), ("second", None), ("third", PROOF), ("fourth", None)];

/// An RM with its books, connected to one member.
struct Program {
    rm: Rm,
    /// Allocations that it has received.
    running: BTreeSet<String>,
    n_asked: usize,
}

impl Program {
    /// Opens the streams of an RM that has just registered, and reports its allocations.
    async fn open(member: &Service, rm: &str, running: BTreeSet<String>, n_asked: usize) -> Self {
        let rm = Rm::open(member.client().await, rm).await;
        rm.hello().await;
        rm.send_applications(vec![application("app", "root.a")], vec![]).await;
        rm.send_nodes(vec![node("n1", 1_000_000, 1_000)]).await;
        rm.until("reported", |seen| {
            !seen.accepted_applications.is_empty() && !seen.accepted_nodes.is_empty()
        })
        .await;
        let reported = running
            .iter()
            .map(|key| si::Allocation { node_id: "n1".to_owned(), ..ask("app", key) });
        rm.send_allocations(vec![], reported.collect(), vec![]).await;
        Self { rm, running, n_asked }
    }

    /// Asks once more. Returns the key, once it is allocated. `None` if the streams end before.
    async fn one_more(&mut self) -> Option<String> {
        self.n_asked += 1;
        let key = format!("{}-{}", self.rm.id, self.n_asked);
        let request = si::AllocationRequest {
            allocations: vec![ask("app", &key)],
            rm_id: self.rm.id.clone(),
            ..Default::default()
        };
        // Fails if the stream has ended.
        self.rm.allocations.send(request).await.ok()?;
        let is_new = |seen: &harness::Seen| seen.new.iter().any(|new| new.allocation_key == key);
        self.rm.until("allocated", |seen| is_new(seen) || has_ended(seen)).await;
        if !self.rm.read(is_new) {
            return None;
        }
        self.running.insert(key.clone());
        Some(key)
    }
}

fn has_ended(seen: &harness::Seen) -> bool {
    seen.ends.contains_key("allocation")
}

/// Registers until an RM is served. Returns the number of the session.
async fn register_with(member: &Service, rm: &str, proof: Option<&str>) -> u64 {
    let begun = Instant::now();
    loop {
        match register(member, rm, proof).await {
            Ok(session) => return session,
            Err(status) => assert!(begun.elapsed() < PATIENCE, "{rm}: {status:?}"),
        }
        sleep(PAUSE).await;
    }
}

/// Keys of the allocations that the owner of an RM has, asked through any member.
async fn keys_at_owner(member: &Service, rm: &str) -> BTreeSet<String> {
    let path = format!("/ws/v1/partition/%5B{rm}%5Ddefault/application/app");
    let application = member.http("GET", &path, &[], "").await.json();
    let allocations = application["allocations"].as_array().unwrap().iter();
    allocations.map(|it| it["allocationKey"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rms_are_placed_until_the_lease_is_over_and_served_when_etcd_returns() {
    let Some(mut bed) = Bed::new().await else { return };
    let members = bed.three().await;
    let at = |number: usize| &members[number % members.len()];
    let mut programs = Vec::new();
    for (number, (rm, proof)) in RMS.into_iter().enumerate() {
        assert_eq!(register_with(at(number), rm, proof).await, 1);
        programs.push(Program::open(at(number), rm, BTreeSet::new(), 0).await);
    }
    bed.etcd.stop();
    let gone = Instant::now();
    // Placements go on until the lease is over.
    let place = async |mut program: Program| {
        let mut last = Duration::ZERO;
        while program.one_more().await.is_some() {
            last = gone.elapsed();
            sleep(PAUSE).await;
        }
        (program, last)
    };
    let ended = futures::future::join_all(programs.into_iter().map(place)).await;
    for (program, last) in &ended {
        // The last renewal was up to a fifth of the lease before.
        assert!((LEASE / 2..LEASE).contains(last), "{}: {last:?}", program.rm.id);
        let end = program.rm.read(|seen| seen.end("allocation"));
        assert_eq!(end, Some((Code::Unavailable, "MEMBER_FENCED".to_owned())));
    }
    // Then nothing is placed, and nobody is served.
    sleep((LEASE * 5 / 3).saturating_sub(gone.elapsed())).await;
    for (number, (program, _)) in ended.iter().enumerate() {
        let status = register(at(number), &program.rm.id, None).await.unwrap_err();
        assert_eq!(reason_of(&status), "MEMBER_FENCED");
        let placed = program.rm.read(|seen| seen.new.len());
        assert_eq!(placed, program.running.len(), "{}", program.rm.id);
    }
    bed.etcd.start().unwrap();
    ready(&Etcd::new(&ClusterName::new("first").unwrap(), options(&bed.etcd)).unwrap())
        .await
        .unwrap();
    let back = Instant::now();
    // All are served within two seconds.
    let come_back = async |(number, (program, _)): (usize, (Program, Duration))| {
        let Program { rm, running, n_asked } = program;
        let (_, proof) = RMS[number];
        assert!(register_with(at(number), &rm.id, proof).await > 1, "{}", rm.id);
        let mut program = Program::open(at(number), &rm.id, running, n_asked).await;
        assert!(program.one_more().await.is_some(), "{}", rm.id);
        (program, back.elapsed())
    };
    for (program, took) in
        futures::future::join_all(ended.into_iter().enumerate().map(come_back)).await
    {
        assert!(took < Duration::from_secs(2), "{}: {took:?}", program.rm.id);
        // Nothing is lost.
        assert_eq!(keys_at_owner(&members[0], &program.rm.id).await, program.running);
        assert!(program.rm.read(|seen| seen.rejected_allocations.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_leaves_a_living_owner_which_forwards_other_processes() {
    let Some(bed) = Bed::new().await else { return };
    // Alone, so that it serves the resource manager.
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let left = served(&m1, "rm").await;
    is_allocated(&left, "a1").await;
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    sleep(LEASE / 2).await;

    // A false alarm: the process goes to the other member, which claims at once.
    assert_eq!(register(&m2, "rm", PROOF).await.unwrap(), 2);
    left.until("the end of the stream", has_ended).await;
    assert_eq!(left.read(|seen| seen.end("allocation")).unwrap().1, "SESSION_MOVED");
    let rm = served(&m2, "rm").await;
    is_allocated(&rm, "b1").await;

    // Another process that registers at the former owner is served by the new one.
    let mut request = Request::new(registration("rm", QUEUES));
    let other = "the secret of the second process".parse().unwrap();
    request.metadata_mut().insert("x-si-proof", other);
    let answer = m1.client().await.register_resource_manager(request).await.unwrap();
    assert_eq!(answer.metadata().get("x-si-session").unwrap(), "3");
    let members = answer.metadata().get("x-si-members").unwrap().to_str().unwrap();
    assert!(members.starts_with(&m2.grpc.to_string()), "the owner is the first: {members}");
    rm.until("the end of the stream", has_ended).await;
    assert_eq!(rm.read(|seen| seen.end("allocation")).unwrap().1, "SESSION_SUPERSEDED");
    is_allocated(&served(&m1, "rm").await, "c1").await;
    // A member shows claims as its last renewal read them.
    let begun = Instant::now();
    loop {
        let cluster = m2.get("/ws/v1/cluster").await;
        let cluster: serde_json::Value = serde_json::from_str(&cluster).unwrap();
        let claim = &cluster["claims"][0];
        if (&claim["rmId"], &claim["member"]) == (&"rm".into(), &"m2".into()) {
            break;
        }
        assert!(begun.elapsed() < LEASE, "{cluster}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_fences_all_members_until_it_is_accepted() {
    let Some(mut bed) = Bed::new().await else { return };
    let members = ["m1", "m2"].map(|id| bed.start(id));
    for member in &members {
        until_ready(member).await;
    }
    let [m1, m2] = &members;
    assert_eq!(register(m1, "rm", PROOF).await.unwrap(), 1);
    bed.etcd.stop();
    bed.etcd.copy_data("data", "backup").unwrap();
    bed.etcd.start().unwrap();
    // Sessions that the backup does not have.
    let (mut last, mut newer) = (0, 0);
    for _ in 0..4 {
        last = register_with(m1, "rm", PROOF).await;
        newer = register_with(m2, "newer", PROOF).await;
    }
    assert!(last > 1 && newer > 1);
    let rm = served(m2, "rm").await;
    is_allocated(&rm, "a1").await;

    bed.etcd.stop();
    bed.etcd.copy_data("backup", "data").unwrap();
    bed.etcd.start().unwrap();
    rm.until("the end of the stream", has_ended).await;
    for member in &members {
        let begun = Instant::now();
        loop {
            let shown: serde_json::Value =
                serde_json::from_str(&member.get("/ws/v1/cluster").await).unwrap();
            if shown["state"] == "restored" {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{shown}");
            sleep(PAUSE).await;
        }
    }
    // No time changes that.
    sleep(LEASE).await;
    for member in &members {
        let answer = member.http("GET", "/readyz", &[], "").await;
        assert_eq!(answer.status, 503);
        assert!(answer.body.contains("monoceros cluster accept-restore"), "{}", answer.body);
        for rm in ["rm", "newer"] {
            let status = register(member, rm, PROOF).await.unwrap_err();
            assert_eq!(reason_of(&status), "MEMBER_FENCED");
        }
    }
    let grpc = m2.grpc.to_string();
    let (code, output, errors) = run(&["--grpc", &grpc, "cluster", "accept-restore", "--yes"]);
    assert_eq!(code, Some(0), "{errors}");
    let floor = output.trim().rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    for member in &members {
        until_ready(member).await;
    }
    // Epochs are above the floor, and it above all that were given: also those of the RM whose
    // claim is lost.
    assert!(floor > last.max(newer), "{output}");
    assert!(register_with(m1, "rm", PROOF).await > floor);
    assert!(register_with(m1, "newer", PROOF).await > floor);
    is_allocated(&served(m2, "rm").await, "b1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_rm_without_an_owner_is_served_though_the_less_loaded_member_has_lost_etcd() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    assert_eq!(register(&m1, "first", None).await.unwrap(), 1);
    let etcd = bed.etcd.endpoint();
    let etcd = etcd.trim_start_matches("http://").parse::<SocketAddr>().unwrap();
    let line = Proxy::start(etcd).await;
    let endpoint = format!("http://{}", line.address);
    let m2 = bed.start_with("m2", &[("CLUSTER__ENDPOINTS", &*endpoint)]);
    acquainted(&[&m1, &m2]).await;
    // Its record does not show it yet.
    line.lead_to(None);
    register(&m1, "second", None).await.unwrap();
    is_allocated(&served(&m1, "second").await, "a1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_killed_member_that_comes_back_are_free_by_a_proof_or_after_the_lease() {
    let Some(bed) = Bed::new().await else { return };
    // Alone, so that no resource manager is handed on.
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    for (rm, proof) in [("proves", PROOF), ("silent", None), ("own", None)] {
        assert_eq!(register(&m1, rm, proof).await.unwrap(), 1);
    }
    let m2 = bed.start("m2");
    acquainted(&[&m1, &m2]).await;

    m1.send_signal("-KILL");
    let killed = Instant::now();
    let again = bed.start("m1");
    // Its last renewal was up to a fifth of the lease before its end.
    let free_from = LEASE * 7 / 10;
    let begun = Instant::now();
    assert_eq!(register_with(&m2, "proves", PROOF).await, 2);
    assert!(begun.elapsed() < LEASE / 4, "{:?}", begun.elapsed());
    assert!(killed.elapsed() < free_from, "{:?}", killed.elapsed());
    let status = register(&again, "own", None).await.unwrap_err();
    assert_eq!(reason_of(&status), "MEMBER_FENCED", "it waits for the end of its former self");

    let (session, reasons) = register_until_served(&m2, "silent").await;
    let waited = killed.elapsed();
    assert_eq!((session, reasons[0].as_str()), (2, "OWNER_UNREACHABLE"));
    assert!((free_from..2 * LEASE).contains(&waited), "{waited:?}");
    until_ready(&again).await;
    assert_eq!(register_until_served(&again, "own").await.0, 2);
    let waited = killed.elapsed();
    assert!((free_from..3 * LEASE).contains(&waited), "{waited:?}");
}

/// Waits until a member has logged this.
async fn until_logged(member: &Service, text: &str) {
    let begun = Instant::now();
    while !member.log().contains(text) {
        assert!(begun.elapsed() < PATIENCE, "{}", member.log());
        sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_comes_back_at_its_address_is_not_taken_for_its_former_self() {
    let Some(bed) = Bed::new().await else { return };
    let listen = format!("127.0.0.1:{}", free_port().unwrap());
    let settings = [("CLUSTER__LISTEN", &*listen), ("CLUSTER__LEASE", "10s")];
    let m1 = bed.start_with("m1", &settings);
    until_ready(&m1).await;
    let registration = |suspects| {
        let mut request = Request::new(registration("proves", QUEUES));
        request.metadata_mut().insert("x-si-proof", PROOF.unwrap().parse().unwrap());
        if let Some(suspects) = suspects {
            request.metadata_mut().insert("x-si-suspects", suspects);
        }
        request
    };
    let answer = m1.client().await.register_resource_manager(registration(None)).await.unwrap();
    let former = answer.metadata().get("x-si-scheduler").unwrap().clone();
    assert_eq!(register(&m1, "silent", None).await.unwrap(), 1);
    let m2 = bed.start("m2");
    acquainted(&[&m1, &m2]).await;

    m1.send_signal("-KILL");
    until_logged(&m2, "connection to another member ended").await;
    let again = bed.start_with("m1", &settings);
    until_logged(&m2, "another incarnation of it is at its address").await;
    // The new process does not show that the former one acts.
    let request = registration(Some(former));
    m2.client().await.register_resource_manager(request).await.unwrap();
    // Its own refusal would be `MEMBER_FENCED`, since it is joining.
    let status = register(&m2, "silent", None).await.unwrap_err();
    assert_eq!(reason_of(&status), "OWNER_UNREACHABLE", "{status}");
    assert_eq!(again.http("GET", "/readyz", &[], "").await.status, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_a_member_cannot_reach_hands_over_a_lease_later() {
    let Some(bed) = Bed::new().await else { return };
    let listen = format!("127.0.0.1:{}", free_port().unwrap());
    let line = Proxy::start(listen.parse::<SocketAddr>().unwrap()).await;
    let advertised = line.address.to_string();
    let settings = [("CLUSTER__LISTEN", &*listen), ("CLUSTER__ADVERTISE__INTERNAL", &*advertised)];
    let (m1, m2) = (bed.start_with("m1", &settings), bed.start("m2"));
    acquainted(&[&m1, &m2]).await;

    // The owner reaches etcd and the other member, which does not reach it.
    line.lead_to(None);
    let begun = Instant::now();
    assert_eq!(register(&m1, "rm", None).await.unwrap(), 1);
    let rm = served(&m1, "rm").await;
    is_allocated(&rm, "a1").await;
    let (session, reasons) = register_until_served(&m2, "rm").await;
    let waited = begun.elapsed();
    // The hand-over has an epoch, too.
    assert_eq!((session, reasons[0].as_str()), (3, "OWNER_UNREACHABLE"));
    // An attempt takes a second, and a renewal of the owner has to read what is wanted.
    assert!((LEASE..2 * LEASE).contains(&waited), "{waited:?}");
    rm.until("the end of the stream", has_ended).await;
    let status = rm.read(|seen| seen.ends["allocation"].clone()).unwrap();
    assert_eq!((&*reason_of(&status), owner_of(&status)), ("SESSION_MOVED", &*m2.grpc.to_string()));
    assert_eq!(m1.http("GET", "/readyz", &[], "").await.status, 200, "the owner goes on");
    is_allocated(&served(&m2, "rm").await, "b1").await;
}
