//! The scheduler loses its state, or cannot be reached.

use std::time::Duration;

use monoceros_client::{AdminServiceClient, callback as v1};
use serde_json::json;
use tonic::transport::Endpoint;

use crate::world::{Binding, RM, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn add(world: &mut World, count: std::ops::Range<usize>) -> Vec<String> {
    count.map(|number| world.add(&format!("p{number}"), json!({}))).collect()
}

fn all_bound_once(world: &World, pods: &[String]) {
    assert_eq!(world.count(pods), pods.len());
    for uid in pods {
        assert_eq!(world.bound[uid].len(), 1, "{uid}: {:?}", world.bound[uid]);
    }
}

#[test]
fn lost_session_is_sent_everything_again() {
    in_virtual_time(async {
        let mut world = World::begun(5).await;
        let mut pods = add(&mut world, 0..10);
        world.settle().await;
        world.binding = Binding::Hangs;
        pods.extend(add(&mut world, 10..15));
        world.settle().await;
        let endpoint = Endpoint::from_shared(format!("http://{}", world.side.address)).unwrap();
        let mut admin = AdminServiceClient::new(endpoint.connect_lazy());
        let resync = v1::TriggerResyncRequest { rm_id: RM.to_owned(), ..Default::default() };
        admin.trigger_resync(resync).await.unwrap();
        // An order sent now may go to the session that is about to end.
        pods.extend(add(&mut world, 15..20));
        world.pass(10 * SECOND).await;
        world.finish_bindings(Binding::Works).await;
        world.pass(2 * SECOND).await;
        all_bound_once(&world, &pods);
        world.check().await;
    });
}

#[test]
fn restarted_scheduler_is_sent_everything_again() {
    in_virtual_time(async {
        let mut world = World::begun(5).await;
        let mut pods = add(&mut world, 0..10);
        world.settle().await;
        world.side.end().await;
        pods.extend(add(&mut world, 10..15));
        world.remove(&pods[0]);
        world.remove_node("n4");
        world.pass(40 * SECOND).await;
        assert_eq!(world.count(&pods), 9, "nobody decides");
        world.side.start().await;
        world.scheduler = world.side.scheduler.clone();
        pods.extend(add(&mut world, 15..17));
        world.set_node("n4", json!({}));
        world.pass(40 * SECOND).await;
        all_bound_once(&world, &pods[1..]);
        world.check().await;
    });
}

#[test]
fn nothing_counts_twice_after_a_loss_during_a_gang() {
    in_virtual_time(async {
        let mut world = World::new(0);
        for number in 0..7 {
            let name = format!("h{number}");
            world.set_node(&name, json!({"kubernetes.io/hostname": name}));
        }
        world.begin().await;
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}});
        let groups = json!([{"name": "w", "minMember": 8, "minResource": {"cpu": "1"},
            "affinity": apart, "labels": {"a": "b"}}]);
        let pods: Vec<_> = (0..8)
            .map(|number| {
                let annotations = json!({"yunikorn.apache.org/app-id": "gang",
                    "yunikorn.apache.org/task-group-name": "w",
                    "yunikorn.apache.org/task-groups": groups.to_string()});
                world.add(
                    &format!("m{number}"),
                    json!({
                    "metadata": {"annotations": annotations, "labels": {"a": "b"}},
                    "spec": {"affinity": apart}}),
                )
            })
            .collect();
        world.pass(2 * SECOND).await;
        assert_eq!(world.count(&pods), 0, "one host too few");
        world.check().await;
        world.side.end().await;
        world.side.start().await;
        world.scheduler = world.side.scheduler.clone();
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&pods), 0);
        world.check().await;
        world.set_node("h7", json!({"kubernetes.io/hostname": "h7"}));
        world.pass(2 * SECOND).await;
        all_bound_once(&world, &pods);
        world.check().await;
    });
}
