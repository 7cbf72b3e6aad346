//! A declared gang on a callback stream: each question names the gang of its member, and the places
//! of the other members were sent before.

use std::collections::BTreeMap;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use tokio::time::timeout;

use super::{REQUIRED, placed, rm_with_nodes};
use crate::harness::shim::{ALL, Shim, hello, passes};
use crate::harness::{PATIENCE, Rm, Service, application, ask, node, resource};
use crate::revisions::client::application as shown;

/// Declares a gang of `members` workers of two cores, for which there is no room, and sends these
/// asks.
async fn gang(service: &Service, rm: &Rm, members: i32, keys: &[&str]) {
    let group = si::TaskGroup {
        name: "workers".to_owned(),
        min_members: members,
        member: Some(resource(2_000, 1)),
        ..Default::default()
    };
    let gang =
        si::AddApplicationRequest { task_groups: vec![group], ..application("gang", "root.a") };
    let n_accepted = rm.read(|seen| seen.accepted_applications.len());
    rm.send_applications(vec![gang], vec![]).await;
    rm.until("gang accepted", |seen| seen.accepted_applications.len() > n_accepted).await;
    let member = |key: &&str| si::Allocation {
        task_group_name: "workers".to_owned(),
        resource_per_alloc: Some(resource(2_000, 1)),
        ..ask("gang", key)
    };
    rm.send_allocations(vec![], keys.iter().map(member).collect(), vec![]).await;
    let asks = async {
        loop {
            let gang = shown(service, "rm", "root.a", "gang").await;
            let requests = gang["requests"].as_array().map_or(&[][..], Vec::as_slice);
            if requests.iter().filter(|request| request["internal"] != true).count() == keys.len() {
                return;
            }
        }
    };
    timeout(PATIENCE, asks).await.expect("its asks in time");
}

fn gang_id() -> String {
    "gang".to_owned()
}

/// Returns all places received before the awaited message.
fn told(shim: &Shim) -> Vec<cb::BundlePlaces> {
    let places = |body: &Body| match body {
        Body::BundlePlaces(places) => Some(places.clone()),
        _ => None,
    };
    shim.seen.iter().filter_map(places).collect()
}

/// The nodes of a bundle's members by key, as a shim knows them.
fn known(shim: &Shim, bundle: u64) -> BTreeMap<String, String> {
    let all = told(shim).into_iter().filter(|told| told.bundle_id == bundle);
    let places = all.flat_map(|told| told.places);
    places.map(|place| (place.allocation_key, shim.node(place.node_index))).collect()
}

#[tokio::test]
async fn gang_places_precede_member_questions() {
    let service = Service::start();
    // The third member asks later; without room for all, no question is sent.
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    gang(&service, &rm, 3, &["w1", "w2"]).await;
    rm.send_nodes(vec![node("n2", 4_000, 16)]).await;
    let batch = shim.batch().await;
    let keys: Vec<&str> = batch.queries.iter().map(|query| &*query.allocation_key).collect();
    assert_eq!(keys, ["w1", "w2"]);
    let bundle = batch.queries[0].bundle_id;
    assert!(bundle > 0 && batch.queries[1].bundle_id == bundle);
    let before = known(&shim, bundle);
    assert_eq!(before.keys().collect::<Vec<_>>(), ["w1", "w2"], "nothing of what is held");
    for query in &batch.queries {
        assert_eq!(shim.nodes(query), [before[&query.allocation_key].clone()]);
    }
    assert_eq!(told(&shim)[0].application_id, "gang");
    // The first member may not run on its node, whichever that is.
    let refused = before["w1"].clone();
    shim.answer(&batch, |key, node| key != "w1" || node != refused).await;
    let mut again = shim.batch().await;
    while !again.queries.iter().any(|query| query.allocation_key == "w1") {
        shim.answer(&again, |_, _| true).await;
        again = shim.batch().await;
    }
    assert!(again.queries.iter().all(|query| query.bundle_id == bundle));
    let after = known(&shim, bundle);
    assert_ne!(after["w1"], refused);
    assert_eq!(after["w2"], before["w2"], "it stays where it was");
    let moved = told(&shim).pop().unwrap();
    assert_eq!((moved.places.len(), moved.over), (1, 0), "only what has moved is told again");
    shim.answer(&again, |_, _| true).await;
    shim.keep_answering(passes);
    rm.until("allocated", |seen| seen.new.len() == 2).await;
    let placed: BTreeMap<String, String> = placed(&rm).into_iter().collect();
    assert_eq!(placed, after);
    let gang = shown(&service, "rm", "root.a", "gang").await;
    assert_eq!(gang["allocations"].as_array().unwrap().len(), 3, "{gang}");
}

#[tokio::test]
async fn next_gang_ends_the_previous_one() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    gang(&service, &rm, 3, &["w1", "w2"]).await;
    rm.send_nodes(vec![node("n2", 4_000, 16)]).await;
    let first = shim.batch().await.queries[0].bundle_id;
    assert_eq!(known(&shim, first).len(), 2);
    // The stream is lost before its answers: all places are released, and found again later.
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    let batch = shim.batch().await;
    let second = batch.queries[0].bundle_id;
    assert_eq!(known(&shim, second).len(), 2);
    let over: Vec<u64> = told(&shim).iter().map(|told| told.over).collect();
    assert!(over.iter().all(|over| *over == 0), "this stream was told of no other: {over:?}");
    rm.read(|seen| assert!(seen.new.is_empty()));
    let remove = si::RemoveApplicationRequest { application_id: gang_id(), ..Default::default() };
    rm.send_applications(vec![], vec![remove]).await;
    gang(&service, &rm, 5, &["x1", "x2"]).await;
    rm.send_nodes(vec![node("n3", 4_000, 16)]).await;
    let batch = shim.batch().await;
    let third = batch.queries[0].bundle_id;
    assert_eq!(told(&shim).pop().unwrap().over, second);
    assert_eq!(known(&shim, third).into_keys().collect::<Vec<_>>(), ["x1", "x2"]);
    shim.answer(&batch, |_, _| true).await;
    rm.until("allocated", |seen| seen.new.len() == 2).await;
}
