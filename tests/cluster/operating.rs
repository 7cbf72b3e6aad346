//! Operators of a cluster: lists, moves and drains.

use std::thread;

use serde_json::Value;

use super::*;
use crate::harness::run;

/// Runs a command against a member.
fn at(member: &Service, arguments: &[&str]) -> (Option<i32>, String, String) {
    let grpc = member.grpc.to_string();
    run(&[&["--grpc", &*grpc], arguments].concat())
}

/// Runs a command that has to succeed. Returns its output.
fn done(member: &Service, arguments: &[&str]) -> String {
    let (code, output, errors) = at(member, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {errors}");
    output
}

/// Repeats a command until its output is as wanted.
async fn until(member: &Service, arguments: &[&str], is_wanted: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let output = done(member, arguments);
        if is_wanted(&output) {
            return output;
        }
        assert!(begun.elapsed() < PATIENCE, "{arguments:?}: {output}");
        sleep(PAUSE).await;
    }
}

/// The address to which a member sends a client that asks for it.
async fn redirected(member: &Service, rm: &str) -> String {
    let mut request = Request::new(registration(rm, QUEUES));
    request.metadata_mut().insert("x-si-redirect", "yes".parse().unwrap());
    let status = member.client().await.register_resource_manager(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "NOT_OWNER", "{status:?}");
    owner_of(&status).to_owned()
}

async fn document(member: &Service) -> Value {
    serde_json::from_str(&member.get("/ws/v1/cluster").await).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_list_move_and_drain() {
    let Some(bed) = Bed::new().await else { return };
    // Alone at first, so that it serves the resource manager.
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    assert_eq!(register(&m1, "rm", None).await.unwrap(), 1);
    let rm = served(&m1, "rm").await;
    let (code, _, errors) = at(&m1, &["cluster", "drain", "m1", "--yes"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no other member lives") && errors.contains("[NO_OTHER_MEMBER]"));

    let m2 = bed.start("m2");
    until_ready(&m2).await;
    let both = until(&m1, &["get", "members"], |text| text.contains("m2")).await;
    let rows: Vec<Vec<_>> = both.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["MEMBER", "STATE", "RMS", "LOAD", "VERSION", "CONFIGURATIONS", "BEAT"]);
    assert_eq!((&rows[1][..2], &rows[2][..3]), (&["m1", "alive"][..], &["m2", "alive", "0"][..]));
    until(&m2, &["get", "members", "m1", "-o", "jsonpath={.rms}"], |text| text.trim() == "1").await;
    // Only the member that is asked reports its lease over gRPC.
    let asked = done(&m1, &["describe", "member", "m1"]);
    let lease = asked.lines().find(|line| line.starts_with("Lease"));
    assert!(lease.is_some_and(|line| line.ends_with(" 3000 ms")), "{asked}");
    assert!(!done(&m1, &["describe", "member", "m2"]).contains("Lease"));
    let wide = done(&m1, &["get", "rms", "-o", "wide"]);
    assert!(wide.lines().next().unwrap().contains("OWNER"), "{wide}");
    assert!(wide.lines().nth(1).unwrap().contains("m1"), "{wide}");

    // Any member takes the call.
    acquainted(&[&m1, &m2]).await;
    let (code, _, errors) = at(&m2, &["cluster", "move", "nobody"]);
    assert!(code == Some(1) && errors.contains("no member serves resource manager `nobody`"));
    let (code, _, errors) = at(&m2, &["cluster", "move", "rm", "--to", "m9"]);
    assert!(code == Some(1) && errors.contains("the cluster has no member `m9`"), "{errors}");
    assert_eq!(done(&m2, &["cluster", "move", "rm", "--to", "m2"]), "moved to member m2\n");
    rm.until("the end of the stream", |seen| seen.ends.contains_key("allocation")).await;
    let status = rm.read(|seen| seen.ends["allocation"].clone()).unwrap();
    assert_eq!((&*reason_of(&status), owner_of(&status)), ("SESSION_MOVED", &*m2.grpc.to_string()));
    assert_eq!(register(&m2, "rm", None).await.unwrap(), 3);
    is_allocated(&served(&m2, "rm").await, "a1").await;

    let claimed = |document: &Value| document["claims"][0]["member"] == "m2";
    let begun = Instant::now();
    while !(claimed(&document(&m1).await) && claimed(&document(&m2).await)) {
        assert!(begun.elapsed() < PATIENCE);
        sleep(PAUSE).await;
    }
    let shown = document(&m2).await;
    assert_eq!((&shown["member"], &shown["state"]), (&"m2".into(), &"serving".into()));
    assert_eq!(shown["members"][1]["rms"], 1);
    assert_eq!(shown["members"][0]["leaseMs"], 3_000, "that of another member");
    let moved = until(&m1, &["events", "--type", "cluster"], |text| text.contains("RM_MOVED"));
    assert!(moved.await.contains("MEMBER_JOINED"));
    let count = r#"monoceros_cluster_takeover_seconds_count{cause="handed_over"} 1"#;
    let begun = Instant::now();
    while !m2.get("/ws/v1/metrics").await.contains(count) {
        assert!(begun.elapsed() < PATIENCE);
        sleep(PAUSE).await;
    }

    assert_eq!(done(&m1, &["cluster", "drain", "m2", "--yes"]), "1 handed over, 0 left\n");
    register_until_served(&m2, "rm").await;
    assert_eq!(redirected(&m2, "rm").await, m1.grpc.to_string(), "through the drained member");
    until(&m1, &["get", "members", "m2"], |text| text.contains("draining")).await;
    let (code, _, errors) = at(&m1, &["cluster", "move", "rm", "--to", "m2"]);
    assert!(code == Some(1) && errors.contains("member `m2` is draining"), "{errors}");
    assert_eq!(done(&m1, &["cluster", "undrain", "m2"]), "takes resource managers again\n");
    until(&m1, &["get", "members", "m2"], |text| text.contains("alive")).await;
    assert_eq!(done(&m1, &["cluster", "move", "rm"]), "moved to member m2\n");
    // At once, before a renewal, and before it has registered.
    assert_eq!(done(&m1, &["cluster", "move", "rm", "--to", "m1"]), "moved to member m1\n");
    assert_eq!(done(&m1, &["cluster", "move", "rm", "--to", "m2"]), "moved to member m2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_member_sends_resource_managers_to_their_owners() {
    let Some(bed) = Bed::new().await else { return };
    // Alone at first, so that it serves the resource manager.
    let m3 = bed.start("m3");
    until_ready(&m3).await;
    assert_eq!(register(&m3, "rm", None).await.unwrap(), 1);
    // Another member has less load.
    let (m1, m2) = (bed.start("m1"), bed.start("m2"));
    acquainted(&[&m1, &m2, &m3]).await;
    done(&m2, &["cluster", "drain", "m2", "--yes"]);
    // Twice with the same proof: the drained member could claim the resource manager.
    for (proof, session) in [(None, 2), (PROOF, 3), (PROOF, 4)] {
        assert_eq!(register(&m2, "rm", proof).await.unwrap(), session);
        assert_eq!(redirected(&m2, "rm").await, m3.grpc.to_string());
    }
    is_allocated(&served(&m2, "rm").await, "a1").await;
    // If the owner is lost, the remaining member serves it.
    m3.send_signal("-KILL");
    let killed = Instant::now();
    while let Err(status) = register(&m2, "rm", PROOF).await {
        assert!(killed.elapsed() < LEASE / 2, "{status:?}");
        sleep(PAUSE).await;
    }
    assert_eq!(redirected(&m2, "rm").await, m1.grpc.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_drained_at_once_do_not_all_give_up_their_resource_managers() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2] = ["m1", "m2"].map(|id| bed.start(id));
    acquainted(&[&m1, &m2]).await;
    assert_eq!(register(&m1, "rm", None).await.unwrap(), 1);
    let outcomes = thread::scope(|scope| {
        let drains = [(&m1, "m1"), (&m2, "m2")].map(|(member, id)| {
            scope.spawn(move || at(member, &["cluster", "drain", id, "--yes"]))
        });
        drains.map(|drain| drain.join().unwrap())
    });
    assert!(
        outcomes
            .iter()
            .any(|(code, _, errors)| { *code == Some(1) && errors.contains("[NO_OTHER_MEMBER]") }),
        "{outcomes:?}"
    );
    // The one that was refused takes resource managers.
    register_until_served(&m1, "rm").await;
    let n_drained = |members: &str| members.lines().filter(|it| it.contains("draining")).count();
    until(&m1, &["get", "members"], |members| n_drained(members) < 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_manager_for_a_member_that_was_just_drained_is_served() {
    let Some(bed) = Bed::new().await else { return };
    // Renewals every four seconds, which read who is drained.
    let [m1, m2] = ["m1", "m2"].map(|id| bed.start_with(id, &[("CLUSTER__LEASE", "20s")]));
    acquainted(&[&m1, &m2]).await;
    // Those that the second member keeps make the first the less loaded one.
    for number in 0..3 {
        assert_eq!(register(&m2, &format!("rm-{number}"), None).await.unwrap(), 1);
    }
    done(&m1, &["cluster", "drain", "m1", "--yes"]);
    for number in 3..6 {
        assert_eq!(register(&m2, &format!("rm-{number}"), None).await.unwrap(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_member_is_silent_and_a_fenced_one_says_so() {
    let Some(mut bed) = Bed::new().await else { return };
    let (m1, m2) = (bed.start("m1"), bed.start("m2"));
    until_ready(&m1).await;
    until_ready(&m2).await;
    until(&m1, &["get", "members"], |text| text.contains("m2")).await;
    let (code, _, errors) = at(&m1, &["cluster", "accept-restore", "--yes"]);
    assert!(code == Some(1) && errors.contains("nothing to accept"), "{errors}");
    m2.send_signal("-KILL");
    let drain = ["cluster", "drain", "m2", "--yes"];
    let (code, _, errors) = at(&m1, &drain);
    assert!(code == Some(1) && errors.contains("member `m2` cannot be reached"), "{errors}");
    until(&m1, &["get", "members", "m2"], |text| text.contains("silent")).await;
    let begun = Instant::now();
    let answer = m1.http("GET", "/ws/v1/sessions", &[], "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(begun.elapsed() < Duration::from_millis(900), "no second for a refused connection");
    let (code, _, errors) = at(&m1, &drain);
    assert!(code == Some(1) && errors.contains("member `m2` has been silent for"), "{errors}");
    assert!(errors.contains("[MEMBER_UNREACHABLE]"), "{errors}");
    bed.etcd.stop();
    let begun = Instant::now();
    let shown = loop {
        let shown = document(&m1).await;
        if shown["state"] == "fenced" {
            break shown;
        }
        assert!(begun.elapsed() < PATIENCE, "{shown}");
        sleep(PAUSE).await;
    };
    assert!(shown["problem"].as_str().unwrap().contains(&bed.etcd.endpoint()), "{shown}");
    for command in [&["cluster", "drain", "m1", "--yes"][..], &["cluster", "move", "rm"][..]] {
        let (code, _, errors) = at(&m1, command);
        let why = "this member may not decide: its lease is over";
        assert!(code == Some(1) && errors.contains(why), "{errors}");
        assert!(errors.contains("[MEMBER_FENCED]"), "{errors}");
    }
    assert!(done(&m1, &["get", "members", "m1"]).contains("fenced"));
    let (code, _, told) = at(&m1, &["get", "rms"]);
    let is_told = told.contains("this member may not decide: its lease is over; the arbiter does");
    assert!(code == Some(0) && is_told, "{told}");
    assert!(done(&m1, &["events", "--type", "cluster"]).contains("MEMBER_FENCED"));
    let metrics = m1.get("/ws/v1/metrics").await;
    assert!(metrics.contains(r#"monoceros_cluster_member_status{status="fenced"} 1"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_claim_of_an_rm_that_does_not_come_is_freed() {
    let Some(bed) = Bed::new().await else { return };
    let kept = Duration::from_secs(3);
    let settings = [("CLUSTER__LEASE", "2s"), ("SESSION__PAUSE_TIMEOUT", "3s")];
    // Alone at first, so that it serves the resource manager.
    let m1 = bed.start_with("m1", &settings);
    until_ready(&m1).await;
    assert_eq!(register(&m1, "gone", None).await.unwrap(), 1);
    let gone = served(&m1, "gone").await;
    let m2 = bed.start_with("m2", &settings);
    acquainted(&[&m1, &m2]).await;
    // The second member has less load.
    assert_eq!(register(&m2, "stays", None).await.unwrap(), 1);
    let stays = served(&m2, "stays").await;
    let begun = Instant::now();
    assert_eq!(done(&m1, &["cluster", "move", "gone", "--to", "m2"]), "moved to member m2\n");
    gone.until("the end of the stream", |seen| seen.ends.contains_key("allocation")).await;

    let of = |shown: &Value, rm: &str| {
        let mut claims = shown["claims"].as_array().unwrap().iter();
        claims.find(|claim| claim["rmId"] == rm).cloned().unwrap_or_default()
    };
    let mut owners = Vec::new();
    while owners.last() != Some(&Value::Null) {
        let claim = of(&document(&m1).await, "gone");
        assert!(begun.elapsed() < 2 * kept, "{claim}");
        if claim["sessionId"] == "2" && owners.last() != Some(&claim["member"]) {
            owners.push(claim["member"].clone());
        }
        sleep(PAUSE).await;
    }
    assert_eq!(owners, [Value::from("m2"), Value::Null]);
    assert!(begun.elapsed() >= kept, "{:?}", begun.elapsed());
    let log = m2.log();
    let is_freed = |line: &&str| line.contains("claim of a resource manager freed");
    let freed: Vec<_> = log.lines().filter(is_freed).collect();
    assert!(freed.len() == 1 && freed[0].contains("rm=gone"), "{freed:?}");
    assert_eq!(of(&document(&m1).await, "stays")["member"], "m2", "it has a session");
    is_allocated(&stays, "a1").await;
    // Anybody may claim it.
    assert_eq!(register(&m1, "gone", None).await.unwrap(), 3);
}
