//! A large configuration is changed repeatedly while applications arrive, ask, release and end.
//!
//! Every request and every change goes over gRPC to a running service, all from one seed. Their
//! order depends on the machine, so the test does not check which request is placed when. It checks
//! that nothing is lost or counted twice, that an invalid text changes nothing, and that the first
//! text restores the first state.
//!
//! `RELOADS=1000 cargo test --test chaos reloads` changes it a thousand times.
mod client;
mod document;

use std::collections::BTreeMap;

use futures::future::join_all;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use serde_json::Value;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};

use self::client::{Client, RequestState};
use crate::harness::{Dice, Rm, Seen, Service, node, registration};

const SEED: u64 = 4;
/// Changes of the configuration, unless `RELOADS` gives another number.
const UPDATES: usize = 200;
const CLIENTS: usize = 4;
/// Changes of the configuration per round of each client.
const UPDATES_PER_ROUND: usize = 10;
const NODES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_during_repeated_reloads() {
    let updates = std::env::var("RELOADS").map_or(UPDATES, |number| number.parse().unwrap());
    let n_rounds = updates / UPDATES_PER_ROUND;
    assert!(n_rounds > 0, "RELOADS is {UPDATES_PER_ROUND} or more");
    let service = Service::start();
    let mut scheduler = service.client().await;
    let registration = registration("rm", &document::base());
    scheduler.register_resource_manager(registration).await.unwrap();
    let rm = Rm::open(scheduler, "rm").await;
    rm.send_nodes((0..NODES).map(|n| node(&format!("n{n}"), 64_000, 1_000)).collect()).await;
    rm.until("nodes", |seen| seen.accepted_nodes.len() == NODES).await;
    let tree = |service| page(service, "/ws/v1/partition/default/queues");
    let at_first = configured(&tree(&service).await);
    assert_eq!(at_first.len(), document::QUEUES);

    let mut clients: Vec<Client> = (0..CLIENTS).map(|n| Client::new(n, SEED + n as u64)).collect();
    let (update, done) = watch::channel(0_usize);
    let (round, rounds) = watch::channel([0_usize; CLIENTS]);
    let work = clients.iter_mut().enumerate().map(|(at, client)| {
        let (rm, round, mut done) = (&rm, &round, done.clone());
        async move {
            for number in 0..n_rounds {
                // Both sides keep the same pace, so that all rounds of requests meet changes.
                done.wait_for(|n| *n >= number * UPDATES_PER_ROUND).await.unwrap();
                client.round(rm, number).await;
                round.send_modify(|rounds| rounds[at] = number + 1);
            }
        }
    });
    let ((), _) = tokio::join!(reconfigure(&service, updates, &update, rounds), join_all(work));

    // Every quota exceeds the capacity again, so all requests are placed.
    clients[0].barrier(&rm, "changed").await;
    settled(&rm, &clients).await;
    let queues = tree(&service).await;
    let held: usize = rm.read(counts).values().map(|[new, gone]| new.saturating_sub(*gone)).sum();
    let vcore = i64::try_from(held).unwrap() * 1_000;
    assert_eq!(quantity(&queues["allocatedResource"], "vcore"), vcore);
    sums_up(&queues);
    let nodes = page(&service, "/ws/v1/partition/default/nodes").await;
    let on_nodes =
        nodes.as_array().unwrap().iter().map(|node| quantity(&node["allocated"], "vcore"));
    assert_eq!(on_nodes.sum::<i64>(), vcore, "nodes and queues agree");
    assert_eq!(of_users(&service).await, vcore, "users and queues agree");
    assert_eq!(configured(&queues), at_first, "the queues are as they were configured");

    for client in &mut clients {
        let ids: Vec<String> = client.applications.keys().cloned().collect();
        for id in ids {
            client.remove_application(&rm, &id).await;
        }
    }
    clients[0].barrier(&rm, "removed").await;
    settled(&rm, &clients).await;
    once(&rm, &clients, n_rounds);
    let queues = tree(&service).await;
    assert_eq!(quantity(&queues["allocatedResource"], "vcore"), 0);
    sums_up(&queues);
    assert_eq!(of_users(&service).await, 0);
}

/// Makes all updates, at the pace of the clients.
async fn reconfigure(
    service: &Service,
    updates: usize,
    done: &watch::Sender<usize>,
    mut rounds: watch::Receiver<[usize; CLIENTS]>,
) {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
    let mut dice = Dice(SEED);
    for number in 0..updates {
        let so_far = (number / UPDATES_PER_ROUND).saturating_sub(2);
        rounds.wait_for(|rounds| rounds.iter().all(|n| *n >= so_far)).await.unwrap();
        let text =
            if number == updates - 1 { document::base() } else { document::variant(&mut dice) };
        if number % 50 == 7 {
            let bad = text.replace("leaf-0", "leaf 0");
            let answer = update(&mut admin, bad).await;
            assert!(!answer.success && answer.reason.contains("E_QUEUE_NAME"), "{}", answer.reason);
        }
        let answer = update(&mut admin, text.clone()).await;
        assert!(answer.success, "update {number}: {}\n{text}", answer.reason);
        done.send_replace(number + 1);
    }
}

async fn update(
    admin: &mut AdminServiceClient<Channel>,
    config: String,
) -> si::UpdateConfigurationResponse {
    let request = si::UpdateConfigurationRequest { config, ..Default::default() };
    admin.update_config(request).await.unwrap().into_inner()
}

/// Waits until all requests are allocated, and all releases acknowledged.
async fn settled(rm: &Rm, clients: &[Client]) {
    rm.until("everything is allocated or released", |seen| {
        let counts = counts(seen);
        clients.iter().flat_map(|client| &client.requests).all(|(key, request)| {
            let [new, gone] = counts.get(key).copied().unwrap_or_default();
            (request.is_withdrawn || new > 0) && (!request.is_released || gone >= new)
        })
    })
    .await;
}

/// Counts how often each key was reported as allocated and as released.
fn counts(seen: &Seen) -> BTreeMap<String, [usize; 2]> {
    let mut counts: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for new in &seen.new {
        counts.entry(new.allocation_key.clone()).or_default()[0] += 1;
    }
    for gone in &seen.released {
        counts.entry(gone.allocation_key.clone()).or_default()[1] += 1;
    }
    counts
}

/// Checks that each answer arrived once, and each allocation was made and released once.
fn once(rm: &Rm, clients: &[Client], n_rounds: usize) {
    let requests: BTreeMap<&str, RequestState> = clients
        .iter()
        .flat_map(|client| client.requests.iter().map(|(key, request)| (key.as_str(), *request)))
        .collect();
    let n_submitted: usize = clients.iter().map(|client| client.n_submitted).sum();
    let n_rejected: usize = clients.iter().map(|client| client.n_rejected).sum();
    assert_eq!(n_submitted, CLIENTS * n_rounds + 2, "two barriers");
    rm.read(|seen| {
        assert_eq!(seen.accepted_applications.len(), n_submitted - n_rejected);
        assert_eq!(seen.rejected_applications.len(), n_rejected);
        // A removal may overtake an earlier request on another stream.
        for (key, why) in seen.rejected_asks.iter().chain(&seen.rejected_allocations) {
            assert!(requests[key.as_str()].is_withdrawn && why.contains("R_APP_UNKNOWN"), "{why}");
        }
        let counts = counts(seen);
        for (key, count) in &counts {
            let request =
                requests.get(&**key).unwrap_or_else(|| panic!("nobody asked for `{key}`"));
            // A pending request of a removed application is reported as released, too.
            let went_unplaced = request.is_withdrawn && *count == [0, 1];
            assert!(*count == [1, 1] || went_unplaced, "`{key}` allocated and released: {count:?}");
        }
        assert!(n_rejected < n_submitted / 2 && counts.len() > n_submitted, "it was busy");
        assert!(seen.ends.is_empty(), "{:?}", seen.ends);
    });
}

async fn page(service: &Service, path: &str) -> Value {
    serde_json::from_str(&service.get(path).await).unwrap()
}

/// Returns the usage of root by all users, from the trackers of users.
async fn of_users(service: &Service) -> i64 {
    let users = page(service, "/ws/v1/partition/default/usage/users").await;
    let users = users.as_array().map_or(&[][..], Vec::as_slice);
    users.iter().map(|user| quantity(&user["queues"]["resourceUsage"], "vcore")).sum()
}

fn quantity(amount: &Value, name: &str) -> i64 {
    amount.get(name).map_or(0, |quantity| quantity.as_i64().unwrap())
}

fn children(queue: &Value) -> &[Value] {
    queue["children"].as_array().map_or(&[], Vec::as_slice)
}

/// Checks that every parent's usage is the sum of its children's, and nothing is pending.
fn sums_up(queue: &Value) {
    assert_eq!(quantity(&queue["pendingResource"], "vcore"), 0, "{}", queue["queuename"]);
    let children = children(queue);
    if children.is_empty() {
        return;
    }
    for name in ["vcore", "memory"] {
        let below: i64 =
            children.iter().map(|child| quantity(&child["allocatedResource"], name)).sum();
        let here = quantity(&queue["allocatedResource"], name);
        assert_eq!(here, below, "{name} of {}", queue["queuename"]);
    }
    children.iter().for_each(sums_up);
}

/// Returns the configured values of each managed queue, by path.
fn configured(root: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root];
    while let Some(queue) = open.pop() {
        open.extend(children(queue));
        if queue["isManaged"] != true {
            continue;
        }
        let of_text = [
            "status",
            "isLeaf",
            "maxResource",
            "guaranteedResource",
            "properties",
            "maxRunningApps",
            "template",
        ];
        let values = of_text.map(|field| queue[field].clone()).to_vec();
        found.insert(queue["queuename"].as_str().unwrap().to_owned(), values);
    }
    found
}
