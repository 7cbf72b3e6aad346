//! Calls at a member that does not serve the resource manager: forwarded, redirected, spread.

use std::collections::BTreeMap;

use futures::future::join_all;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Status};

use super::{Bed, LEASE, PROOF, is_allocated, owner_of, register, served, until_ready};
use crate::harness::{PATIENCE, QUEUES, Rm, Service, ask, node, reason_of, registration, run};

/// Registers, and asks for a redirect.
async fn register_redirected(member: &Service, rm: &str) -> Result<u64, Status> {
    let mut request = Request::new(registration(rm, QUEUES));
    request.metadata_mut().insert("x-si-redirect", "yes".parse().unwrap());
    let answer = member.client().await.register_resource_manager(request).await?;
    Ok(answer.metadata().get("x-si-session").unwrap().to_str().unwrap().parse().unwrap())
}

/// Registers, and returns the incarnation of the member that serves the RM.
async fn register_anywhere(member: &Service, rm: &str, proof: Option<&str>) -> String {
    let mut request = Request::new(registration(rm, QUEUES));
    if let Some(proof) = proof {
        request.metadata_mut().insert("x-si-proof", proof.parse().unwrap());
    }
    let answer = member.client().await.register_resource_manager(request).await.unwrap();
    answer.metadata().get("x-si-scheduler").unwrap().to_str().unwrap().to_owned()
}

/// A stream of nodes that names its RM in its metadata.
fn named<T>(stream: T, rm: &str, more: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(stream);
    for (key, value) in [("x-si-rm-id", rm)].iter().chain(more) {
        request.metadata_mut().insert(*key, value.parse().unwrap());
    }
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_rm_is_served_through_any_member() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    // Its streams come to another member at once, with and without the id in their metadata.
    let rm = served(&m2, "rm").await;
    is_allocated(&rm, "a1").await;
    let (sender, requests) = mpsc::channel(1);
    let mut client = m3.client().await;
    let request = named(ReceiverStream::new(requests), "rm", &[]);
    let answer = client.update_node(request).await.unwrap();
    let incarnation = answer.metadata().get("x-si-scheduler").unwrap().clone();
    assert_eq!(answer.metadata().get("x-si-session").unwrap(), "1");
    let nodes = vec![node("n2", 1_000, 1)];
    let message = si::NodeRequest { nodes, rm_id: "rm".to_owned(), ..Default::default() };
    sender.send(message).await.unwrap();
    let mut answers = answer.into_inner();
    // Answers that the displaced stream has not confirmed come first.
    let mut accepted = Vec::new();
    while !accepted.iter().any(|id| id == "n2") {
        let answer = answers.message().await.unwrap().unwrap();
        accepted.extend(answer.accepted.into_iter().map(|node| node.node_id));
    }
    // The end of the requests arrives, and so does the end of the answers.
    drop(sender);
    assert!(answers.message().await.unwrap().is_none());

    // A registration without a proof goes to the owner, too.
    let again = register_anywhere(&m3, "rm", None).await;
    assert_eq!(again, incarnation.to_str().unwrap());
    rm.until("the end of the stream", |seen| seen.ends.contains_key("allocation")).await;
    let end = rm.read(|seen| seen.end("allocation")).unwrap();
    assert_eq!(end, (Code::Aborted, "SESSION_SUPERSEDED".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statuses_and_large_messages_pass_unchanged() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let mut client = m2.client().await;
    // The owner says that a session is over, before the first message and after it.
    let stale = named(tokio_stream::pending(), "rm", &[("x-si-session", "7")]);
    let status = client.update_node(stale).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::FailedPrecondition, "SESSION_STALE"));
    let mut stale = Request::new(tokio_stream::once(si::NodeRequest {
        rm_id: "rm".to_owned(),
        ..Default::default()
    }));
    stale.metadata_mut().insert("x-si-session", "7".parse().unwrap());
    let status = match client.update_node(stale).await {
        Ok(answer) => answer.into_inner().message().await.unwrap_err(),
        Err(status) => status,
    };
    assert_eq!(reason_of(&status), "SESSION_STALE");
    // Nobody has this RM: the member that is asked says so.
    let unknown = named(tokio_stream::pending(), "unknown", &[]);
    let status = client.update_node(unknown).await.unwrap_err();
    assert_eq!(reason_of(&status), "RM_NOT_REGISTERED");

    // A compressed first message of 20 MB, and one after it.
    let mut big = node("big", 1_000, 1);
    big.attributes.insert("filler".to_owned(), "x".repeat(20 << 20));
    let message =
        |node| si::NodeRequest { nodes: vec![node], rm_id: "rm".to_owned(), ..Default::default() };
    let messages = [message(big.clone()), message(node("n3", 1, 1)), message(node("n4", 1, 1))];
    let client = m2.client().await.send_compressed(CompressionEncoding::Gzip);
    let mut client = client.accept_compressed(CompressionEncoding::Gzip);
    let answer = client.update_node(tokio_stream::iter(messages)).await.unwrap();
    let (mut answers, mut known) = (answer.into_inner(), Vec::new());
    while let Some(answer) = answers.message().await.unwrap() {
        known.extend(answer.accepted.into_iter().map(|it| it.node_id));
        known.extend(answer.rejected.into_iter().map(|it| it.node_id));
    }
    assert_eq!(known, ["big", "n3", "n4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_for_it_is_redirected() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register_redirected(&m1, "rm").await.unwrap(), 1);
    let status = register_redirected(&m2, "rm").await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::Unavailable, "NOT_OWNER"));
    assert_eq!(owner_of(&status), m1.grpc.to_string());
    let request = named(tokio_stream::pending(), "rm", &[("x-si-redirect", "yes")]);
    let status = m2.client().await.update_node(request).await.unwrap_err();
    assert_eq!((&*reason_of(&status), owner_of(&status)), ("NOT_OWNER", &*m1.grpc.to_string()));
    // A second RM goes to a member with less load, which serves it and sends it nowhere.
    let status = loop {
        match register_redirected(&m1, "second").await {
            Ok(session) => assert!(session < 20, "never redirected"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason_of(&status), "NOT_OWNER");

    // Nobody else may claim to be a member.
    let request = named(tokio_stream::pending(), "rm", &[("x-si-forwarded", "m2/0f")]);
    let status = m1.client().await.update_node(request).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::PermissionDenied, "FORWARDED_DENIED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_managers_that_come_to_one_member_are_spread() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, m3] = bed.three().await;
    let ids: Vec<_> = (0..10).map(|number| format!("rm-{number}")).collect();
    let owners = join_all(ids.iter().map(|id| register_anywhere(&m1, id, None))).await;
    let mut counts = BTreeMap::<_, usize>::new();
    for owner in owners {
        *counts.entry(owner).or_default() += 1;
    }
    assert!(counts.len() > 1 && counts.values().all(|count| *count <= 6), "{counts:?}");
    for (id, member) in ids.iter().zip([&m1, &m2, &m3].into_iter().cycle()) {
        let rm = served(member, id).await;
        is_allocated(&rm, "a1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_managers_of_a_lost_member_are_spread_at_once() {
    let Some(bed) = Bed::new().await else { return };
    // Alone, so that it serves all of them.
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    let ids: Vec<_> = (0..10).map(|number| format!("rm-{number}")).collect();
    join_all(ids.iter().map(|id| register_anywhere(&m1, id, PROOF))).await;
    let (m2, m3) = (bed.start("m2"), bed.start("m3"));
    until_ready(&m2).await;
    until_ready(&m3).await;
    sleep(LEASE / 2).await;
    m1.send_signal("-KILL");
    let killed = Instant::now();
    // Its connections end.
    sleep(LEASE / 20).await;
    let owners = join_all(ids.iter().map(|id| register_anywhere(&m2, id, PROOF))).await;
    assert!(killed.elapsed() < LEASE / 2, "{:?}", killed.elapsed());
    let mut counts = BTreeMap::<_, usize>::new();
    for owner in owners {
        *counts.entry(owner).or_default() += 1;
    }
    assert!(counts.len() == 2 && counts.values().all(|count| *count <= 8), "{counts:?}");
    is_allocated(&served(&m2, &ids[0]).await, "a1").await;
    is_allocated(&served(&m3, &ids[1]).await, "a1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_streams_end_when_the_owner_stands_still() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let rm = served(&m2, "rm").await;
    is_allocated(&rm, "a1").await;
    m1.send_signal("-STOP");
    let frozen = Instant::now();
    rm.until("the end of the stream", |seen| seen.ends.contains_key("allocation")).await;
    let noticed = frozen.elapsed();
    assert!(noticed < LEASE, "{noticed:?}");
    let end = rm.read(|seen| seen.end("allocation")).unwrap();
    assert_eq!(end, (Code::Unavailable, "OWNER_UNREACHABLE".to_owned()));
    // It registers with its proof where it is, and is served through the third member.
    assert_eq!(register(&m2, "rm", PROOF).await.unwrap(), 2);
    let rm = served(&m3, "rm").await;
    is_allocated(&rm, "b1").await;
    m1.send_signal("-CONT");
    // The former owner sends its clients to the new one.
    let through_former = async {
        loop {
            let rm = Rm::open(m1.client().await, "rm").await;
            rm.hello().await;
            rm.send_allocations(vec![], vec![ask("app", "c1")], vec![]).await;
            let is_placed = rm.until("placed", |seen| !seen.new.is_empty());
            if timeout(LEASE, is_placed).await.is_ok() {
                return;
            }
            sleep(LEASE / 10).await;
        }
    };
    timeout(PATIENCE, through_former).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_all_members_and_the_rest_comes_from_the_owner() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, m3] = bed.three().await;
    assert_eq!(register(&m1, "a", PROOF).await.unwrap(), 1);
    assert_eq!(register(&m2, "b", PROOF).await.unwrap(), 1);
    let (_a, _b) = (served(&m1, "a").await, served(&m2, "b").await);
    sleep(LEASE / 2).await;

    let partitions = m3.http("GET", "/ws/v1/partitions", &[], "").await;
    let ids: Vec<_> = rows(&partitions.json(), "clusterId");
    assert_eq!((ids, partitions.status), (vec!["a".to_owned(), "b".to_owned()], 200));
    assert!(!partitions.head.contains("x-monoceros-missing-members"), "{}", partitions.head);
    let sessions = m3.http("GET", "/ws/v1/sessions", &[], "").await.json();
    assert_eq!(rows(&sessions["sessions"], "rmId"), ["a", "b"]);
    assert_eq!(rows(&sessions["sessions"], "memberId"), ["m1", "m2"]);
    for (path, member) in [
        ("/ws/v1/partition/%5Bb%5Ddefault/nodes", &m1),
        ("/ws/v1/partition/%5Ba%5Ddefault/nodes", &m3),
    ] {
        let nodes = member.http("GET", path, &[], "").await;
        assert_eq!(
            (nodes.status, nodes.json()[0]["nodeID"].as_str()),
            (200, Some("n1")),
            "{nodes:?}"
        );
    }
    let of_a = m1.http("GET", "/ws/v1/config", &[], "").await;
    for (path, member) in
        [("/ws/v1/config?rm=a", &m2), ("/ws/v1/config?rm=b", &m1), ("/ws/v1/config", &m3)]
    {
        // Both have the same configuration, which is not that without any.
        let config = member.http("GET", path, &[], "").await;
        assert_eq!((config.status, &config.body), (200, &of_a.body), "{path}");
    }
    let nobody = m1.http("GET", "/ws/v1/config?rm=nobody", &[], "").await;
    assert_eq!(nobody.status, 404, "{nobody:?}");
    // A plain name: the first member that has it.
    let queues = m3.http("GET", "/ws/v1/partition/default/queues", &[], "").await;
    assert_eq!(queues.status, 200, "{queues:?}");
    let nobody = m3.http("GET", "/ws/v1/partition/nowhere/queues", &[], "").await;
    assert_eq!((nobody.status, nobody.body.contains("Partition not found")), (404, true));
    let refused = m3.http("GET", "/ws/v1/partitions", &[("x-si-forwarded", "m1/0f")], "").await;
    assert_eq!(refused.status, 403);

    let mut admin = AdminServiceClient::new(m3.channel().await);
    let listed = admin.list_sessions(v1::ListSessionsRequest {}).await.unwrap().into_inner();
    assert_eq!(listed.sessions.iter().map(|it| &*it.rm_id).collect::<Vec<_>>(), ["a", "b"]);
    let all = v1::ListPartitionsRequest::default();
    let listed = admin.list_partitions(all).await.unwrap().into_inner();
    assert_eq!(listed.partitions.iter().map(|it| &*it.rm_id).collect::<Vec<_>>(), ["a", "b"]);
    let of_b = v1::ListNodesRequest { rm_id: "b".to_owned(), ..Default::default() };
    let nodes = admin.list_nodes(of_b).await.unwrap().into_inner().nodes;
    assert_eq!(nodes[0].node_id, "n1");
    let status = admin.list_nodes(v1::ListNodesRequest::default()).await.unwrap_err();
    assert_eq!(reason_of(&status), "RM_ID_MISSING");

    m2.send_signal("-STOP");
    let begun = Instant::now();
    let partitions = m3.http("GET", "/ws/v1/partitions", &[], "").await;
    assert!(begun.elapsed() < LEASE, "{:?}", begun.elapsed());
    assert_eq!(rows(&partitions.json(), "clusterId"), ["a"]);
    assert!(partitions.head.contains("x-monoceros-missing-members: m2"), "{}", partitions.head);
    let listed = admin.list_sessions(v1::ListSessionsRequest {}).await.unwrap();
    assert_eq!(listed.metadata().get("x-monoceros-missing-members").unwrap(), "m2");
    let grpc = m3.grpc.to_string();
    for (kind, names) in [("rms", "a\n"), ("partitions", "default\n")] {
        let (code, shown, told) = run(&["--grpc", &grpc, "get", kind, "-o", "name"]);
        assert_eq!((code, &*shown), (Some(0), names), "{told}");
        assert_eq!(told, "members without an answer: m2: their rows are missing\n", "{kind}");
    }
}

/// The texts of a field in the rows of a list, sorted.
fn rows(list: &serde_json::Value, field: &str) -> Vec<String> {
    let rows = list.as_array().unwrap().iter();
    let mut texts: Vec<_> = rows.map(|row| row[field].as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}
