//! Requests of a resource manager and their results, over gRPC.

use monoceros_proto::si::v1 as si;

use crate::harness::{
    self, Rm, Service, application, ask, node, old_ask, registration, release, resource,
};

#[tokio::test]
async fn asks_become_allocations_on_accepted_nodes() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x"), ask("app", "y"), ask("app", "z")], vec![])
        .await;
    rm.until("3 allocations", |seen| seen.new.len() == 3).await;
    rm.read(|seen| {
        let mut keys: Vec<&str> = seen.new.iter().map(|new| new.allocation_key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["x", "y", "z"]);
        for new in &seen.new {
            assert!(["n1", "n2"].contains(&new.node_id.as_str()), "{new:?}");
            assert_eq!(new.application_id, "app");
            assert_eq!(new.resource_per_alloc, Some(resource(1_000, 1)));
            assert_eq!((&*new.partition_name, &*new.uuid), ("", ""), "the key is the name");
        }
    });
    rm.until("application runs", |seen| seen.updated_applications.len() == 2).await;
    rm.read(|seen| {
        let states = seen.updated_applications.iter().map(|update| update.state.as_str());
        assert_eq!(states.collect::<Vec<_>>(), ["Accepted", "Running"]);
    });
}

#[tokio::test]
async fn old_form_count_makes_several_allocations() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![old_ask("app", "x", 3)], vec![], vec![]).await;
    rm.until("3 allocations", |seen| seen.new.len() == 3).await;
    let mut uuids = rm.read(|seen| {
        assert!(seen.new.iter().all(|new| new.allocation_key == "x"));
        seen.new.iter().map(|new| new.uuid.clone()).collect::<Vec<_>>()
    });
    uuids.sort_unstable();
    uuids.dedup();
    assert_eq!(uuids.len(), 3);
    let by_uuid = si::AllocationRelease {
        uuid: uuids[0].clone(),
        allocation_key: String::new(),
        ..release("app", "")
    };
    rm.send_allocations(vec![], vec![], vec![by_uuid]).await;
    rm.until("one release", |seen| seen.released.len() == 1).await;
    rm.send_allocations(vec![], vec![], vec![release("app", "x")]).await;
    rm.until("the rest released by key", |seen| seen.released.len() == 3).await;
}

#[tokio::test]
async fn release_is_confirmed_and_makes_room() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let five = ["k1", "k2", "k3", "k4", "k5"].map(|key| ask("app", key));
    rm.send_allocations(vec![], five.into(), vec![]).await;
    rm.until("the node is full", |seen| seen.new.len() == 4).await;
    let first = rm.read(|seen| seen.new[0].allocation_key.clone());
    rm.send_allocations(vec![], vec![], vec![release("app", &first)]).await;
    rm.until("acknowledged, and the fifth placed", |seen| {
        seen.released.len() == 1 && seen.new.len() == 5
    })
    .await;
    rm.read(|seen| {
        let released = &seen.released[0];
        assert_eq!(released.allocation_key, first);
        assert_eq!(released.application_id, "app");
        assert_eq!(released.termination_type, i32::from(si::TerminationType::StoppedByRm));
    });
}

#[tokio::test]
async fn drained_node_gets_no_allocations() {
    use si::node_info::ActionFromRm;
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let closed = si::NodeInfo { action: ActionFromRm::CreateDrain.into(), ..node("n1", 4_000, 16) };
    rm.send_nodes(vec![closed]).await;
    rm.until("node accepted", |seen| seen.accepted_nodes == ["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let unsized_ask = si::Allocation { resource_per_alloc: None, ..ask("app", "unsized") };
    rm.send_allocations(vec![], vec![ask("app", "x"), unsized_ask], vec![]).await;
    // The answer to the second shows that the first was processed.
    rm.expect_rejection("unsized", "R_NO_RESOURCE").await;
    assert!(rm.read(|seen| seen.new.is_empty()));
    let open = si::NodeInfo {
        node_id: "n1".to_owned(),
        action: ActionFromRm::DrainToSchedulable.into(),
        ..Default::default()
    };
    rm.send_nodes(vec![open]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn removing_an_application_releases_its_allocations() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x"), ask("app", "y")], vec![]).await;
    rm.until("2 allocations", |seen| seen.new.len() == 2).await;
    let remove = si::RemoveApplicationRequest {
        application_id: "app".to_owned(),
        partition_name: "default".to_owned(),
    };
    rm.send_applications(vec![], vec![remove]).await;
    rm.until("2 releases", |seen| seen.released.len() == 2).await;
    let rm = rm.with_application("next", "root.a").await;
    let four = ["k1", "k2", "k3", "k4"].map(|key| ask("next", key));
    rm.send_allocations(vec![], four.into(), vec![]).await;
    rm.until("the whole node is free again", |seen| seen.new.len() == 6).await;
}

/// How often an application is replaced while asks for it are sent.
const ROUNDS: usize = 50;

/// Applications and asks are sent on different streams, so an ask may reach the application that is
/// about to be removed, or arrive before its own.
#[tokio::test]
async fn asks_during_application_replacement_are_answered() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    let remove = || {
        vec![si::RemoveApplicationRequest {
            application_id: "app".to_owned(),
            partition_name: "default".to_owned(),
        }]
    };
    for round in 0..ROUNDS {
        rm.send_applications(vec![], remove()).await;
        rm.send_applications(vec![application("app", "root.a")], vec![]).await;
        let asks = vec![old_ask("app", &format!("old-{round}"), 2)];
        rm.send_allocations(asks, vec![ask("app", &format!("new-{round}"))], vec![]).await;
    }
    rm.until("all accepted", |seen| seen.accepted_applications.len() == 1 + ROUNDS).await;
    // There is no node: asks still pending are removed with their application.
    rm.send_applications(vec![], remove()).await;
    rm.until("every request answered", |seen| {
        let released = seen.released.iter().map(|gone| &gone.allocation_key);
        let rejected = seen.rejected_allocations.iter().map(|(key, _)| key);
        let n_todays = released.chain(rejected).filter(|key| key.starts_with("new-")).count();
        let n_older = seen.released_asks.len() + seen.rejected_asks.len();
        [n_todays, n_older] == [ROUNDS, ROUNDS]
    })
    .await;
}

#[tokio::test]
async fn registering_again_starts_from_nothing() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let four = ["k1", "k2", "k3", "k4"].map(|key| ask("app", key));
    rm.send_allocations(vec![], four.into(), vec![]).await;
    rm.until("4 allocations", |seen| seen.new.len() == 4).await;

    let again = Rm::register(&service, "rm").await;
    rm.until("all old streams ended", |seen| seen.ends.len() == 3).await;
    rm.read(|seen| {
        for kind in ["node", "application", "allocation"] {
            let end = seen.end(kind).unwrap();
            assert_eq!(end, (tonic::Code::Aborted, "SESSION_SUPERSEDED".to_owned()));
        }
        assert!(seen.released.is_empty(), "the clean-up is not reported");
    });

    // The same names are used again: the new session knows none of them, and the node is empty.
    let again = again.with_nodes(&["n1"]).await.with_application("app", "root.a").await;
    let four = ["k1", "k2", "k3", "k4"].map(|key| ask("app", key));
    again.send_allocations(vec![], four.into(), vec![]).await;
    again.until("4 allocations", |seen| seen.new.len() == 4).await;
}

#[tokio::test]
async fn equal_names_of_two_rms_are_independent() {
    let service = Service::start();
    let mut rms = Vec::new();
    for id in ["one", "two"] {
        let rm = Rm::register(&service, id).await.with_nodes(&["n1"]).await;
        let rm = rm.with_application("app", "root.a").await;
        let four = ["k1", "k2", "k3", "k4"].map(|key| ask("app", key));
        rm.send_allocations(vec![], four.into(), vec![]).await;
        rm.until("4 allocations", |seen| seen.new.len() == 4).await;
        rms.push(rm);
    }
    rms[0].send_allocations(vec![], vec![], vec![release("app", "k1")]).await;
    rms[0].until("released", |seen| seen.released.len() == 1).await;
    rms[1].send_applications(vec![application("later", "root.b")], vec![]).await;
    rms[1].until("answered", |seen| seen.accepted_applications.len() == 2).await;
    rms[1].read(|seen| assert!(seen.released.is_empty(), "{:?}", seen.released));

    let mut client = service.client().await;
    client.register_resource_manager(registration("one", harness::QUEUES)).await.unwrap();
    rms[0].until("superseded", |seen| seen.ends.len() == 3).await;
    rms[1].send_allocations(vec![], vec![], vec![release("app", "k1")]).await;
    rms[1].until("still served", |seen| seen.released.len() == 1).await;
}

#[tokio::test]
async fn reported_allocations_are_taken_over() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let brought = si::Allocation { node_id: "n1".to_owned(), ..ask("app", "old") };
    rm.send_allocations(vec![], vec![brought.clone(), brought], vec![]).await;
    rm.until("echoed", |seen| !seen.new.is_empty()).await;
    let four = ["k1", "k2", "k3", "k4"].map(|key| ask("app", key));
    rm.send_allocations(vec![], four.into(), vec![]).await;
    rm.until("three more fit", |seen| seen.new.len() == 4).await;
    rm.send_allocations(vec![], vec![], vec![release("app", "old")]).await;
    rm.until("then the fourth", |seen| seen.new.len() == 5).await;
    rm.read(|seen| {
        let echoes = seen.new.iter().filter(|new| new.allocation_key == "old").count();
        assert_eq!(echoes, 1, "a repeated one is echoed once");
    });
}

#[tokio::test]
async fn twenty_thousand_asks_in_batches_are_all_answered() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let nodes = (0..100).map(|n| node(&format!("n{n:03}"), 500_000, 500)).collect();
    rm.send_nodes(nodes).await;
    rm.until("100 nodes", |seen| seen.accepted_nodes.len() == 100).await;
    let rm = rm.with_application("app", "root.a").await;
    for batch in 0..20 {
        let asks = (0..1_000).map(|n| ask("app", &format!("k{batch}-{n}"))).collect();
        rm.send_allocations(vec![], asks, vec![]).await;
    }
    // A slow machine may take its time as long as there is progress.
    for n in (1_000..=20_000).step_by(1_000) {
        rm.until(&format!("{n} allocations"), |seen| seen.new.len() >= n).await;
    }
    rm.read(|seen| {
        assert_eq!(seen.new.len(), 20_000);
        let largest = seen.message_sizes.iter().max();
        assert!(largest.is_some_and(|largest| *largest <= 1_000), "{largest:?}");
    });
}

#[tokio::test]
async fn an_ask_that_nothing_could_hold_is_logged() {
    let service = Service::start();
    let mut client = service.client().await;
    let max = "          - name: a\n            resources: {max: {vcore: 3}}\n";
    let queues = harness::QUEUES.replace("          - name: a\n", max);
    client.register_resource_manager(registration("rm", &queues)).await.unwrap();
    let rm = Rm::open(client, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("capped", "root.a").await.with_application("free", "root.b").await;
    let large = |application: &str, key: &str| si::Allocation {
        resource_per_alloc: Some(resource(900_000, 1)),
        ..ask(application, key)
    };
    let asks = vec![large("capped", "x"), large("capped", "y"), large("free", "z")];
    rm.send_allocations(vec![], asks, vec![]).await;
    // One line for each class of asks.
    let of_queue = "the ask exceeds the maximum of a queue, and waits until that is raised";
    let of_nodes = "the ask exceeds every node, and waits for a larger one";
    service.until_logged(of_queue, 1).await;
    service.until_logged(of_nodes, 1).await;
    let log = service.log();
    assert_eq!((log.matches(of_queue).count(), log.matches(of_nodes).count()), (1, 1), "{log}");
    assert!(log.contains("queue=root.a") && log.contains("application=free ask=z"), "{log}");
    // An ask that only waits for a free node is no mistake.
    rm.send_allocations(vec![], vec![ask("free", "small")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    assert_eq!(service.log().matches("the ask exceeds").count(), 2);
}
