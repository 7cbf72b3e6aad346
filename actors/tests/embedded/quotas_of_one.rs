//! Quotas of one resource manager, over all its partitions and from one session to the next.

use std::sync::{Arc, Mutex};

use monoceros_actors::{Quotas, ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::common::{ask_for, in_virtual_time, send_ask, vcore};

const QUEUES: &str = "partitions: [
    {name: one, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]},
    {name: two, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

/// Records the codes of rejections.
#[derive(Default)]
struct RecordingCallback(Mutex<Vec<String>>);

impl RecordingCallback {
    fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn rejected(&self, id: &str, reason: &str) {
        let code = reason.rsplit('[').next().unwrap_or_default().trim_end_matches(']');
        self.0.lock().unwrap().push(format!("{id} {code}"));
    }
}

impl ResourceManagerCallback for RecordingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        for rejected in response.rejected {
            self.rejected(&rejected.allocation_key, &rejected.reason);
        }
        for rejected in response.rejected_allocations {
            self.rejected(&rejected.allocation_key, &rejected.reason);
        }
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        for rejected in response.rejected {
            self.rejected(&rejected.application_id, &rejected.reason);
        }
    }
    fn update_node(&self, response: si::NodeResponse) {
        for rejected in response.rejected {
            self.rejected(&rejected.node_id, &rejected.reason);
        }
    }
}

async fn register(scheduler: &SchedulerHandle, recorder: &Arc<RecordingCallback>) {
    let (rm_id, config) = ("rm".to_owned(), QUEUES.to_owned());
    let request = si::RegisterResourceManagerRequest { rm_id, config, ..Default::default() };
    let callback = Arc::clone(recorder) as Arc<dyn ResourceManagerCallback>;
    scheduler.register_resource_manager(request, callback).await.unwrap();
}

async fn node(scheduler: &SchedulerHandle, partition: &str, id: &str) {
    let node = si::NodeInfo {
        node_id: id.to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        schedulable_resource: Some(vcore(1_000_000)),
        attributes: [("si/node-partition".to_owned(), partition.to_owned())].into(),
        ..Default::default()
    };
    let (rm_id, nodes) = ("rm".to_owned(), vec![node]);
    let request = si::NodeRequest { rm_id, nodes, ..Default::default() };
    scheduler.update_node(request).await.unwrap();
}

async fn application(scheduler: &SchedulerHandle, partition: &str) {
    let ugi = si::UserGroupInformation { user: "ada".to_owned(), ..Default::default() };
    let new = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        queue_name: "root.a".to_owned(),
        partition_name: partition.to_owned(),
        ugi: Some(ugi),
        ..Default::default()
    };
    let request =
        si::ApplicationRequest { rm_id: "rm".to_owned(), new: vec![new], ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

/// An allocation on a node, or a request without one.
async fn allocation(scheduler: &SchedulerHandle, partition: &str, key: &str, node: &str) {
    let allocation = si::Allocation {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        partition_name: partition.to_owned(),
        node_id: node.to_owned(),
        resource_per_alloc: Some(vcore(9)),
        ..Default::default()
    };
    let (rm_id, allocations) = ("rm".to_owned(), vec![allocation]);
    let request = si::AllocationRequest { rm_id, allocations, ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
}

fn play<F: Future<Output = ()>>(
    quotas: Quotas,
    story: impl FnOnce(SchedulerHandle, Arc<RecordingCallback>) -> F,
) {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().quotas(quotas).start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, &recorder).await;
        story(scheduler, recorder).await;
    });
}

#[test]
fn partitions_of_one_rm_share_its_quota() {
    play(Quotas { nodes: 3, ..Quotas::default() }, |scheduler, recorder| async move {
        for (partition, id) in [("one", "n1"), ("two", "n2"), ("one", "n3"), ("two", "n4")] {
            node(&scheduler, partition, id).await;
            scheduler.settle().await;
        }
        node(&scheduler, "one", "n5").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["n4 R_QUOTA_NODES", "n5 R_QUOTA_NODES"]);
    });
}

/// The next session reports the allocations again.
#[test]
fn reported_allocations_may_exceed_the_quota() {
    let quotas = Quotas { bytes: 60_000, ..Quotas::default() };
    play(quotas, |scheduler, recorder| async move {
        let bring_back = async |n: usize| {
            node(&scheduler, "one", "n1").await;
            application(&scheduler, "one").await;
            for key in 0..n {
                allocation(&scheduler, "one", &format!("k{key}"), "n1").await;
            }
            scheduler.settle().await;
        };
        bring_back(40).await;
        assert!(recorder.received().is_empty(), "what runs is taken");
        allocation(&scheduler, "one", "new", "").await;
        node(&scheduler, "one", "n2").await;
        application(&scheduler, "two").await;
        scheduler.settle().await;
        let refused = ["new R_QUOTA_BYTES", "n2 R_QUOTA_BYTES"];
        assert_eq!(recorder.received()[..2], refused.map(str::to_owned));

        register(&scheduler, &recorder).await;
        bring_back(40).await;
        assert!(recorder.received().is_empty(), "the session before had as much");
    });
}

/// One request may be for more allocations than memory can hold.
#[test]
fn a_huge_request_is_placed_up_to_the_byte_quota() {
    let quotas = Quotas { bytes: 200_000, ..Quotas::default() };
    play(quotas, |scheduler, recorder| async move {
        node(&scheduler, "one", "n1").await;
        application(&scheduler, "one").await;
        let ask = si::AllocationAsk { partition_name: "one".to_owned(), ..ask_for("many", 10_000) };
        send_ask(&scheduler, "rm", ask).await;
        scheduler.settle().await;
        let running = async || {
            let found = scheduler.application("[rm]one", "app").await.unwrap().unwrap();
            found.allocations.into_iter().map(|it| it.uuid).collect::<Vec<_>>()
        };
        assert_eq!(recorder.received(), [""; 0]);
        let before = running().await;
        assert!((150..350).contains(&before.len()), "{}", before.len());
        let explained = scheduler.explain("[rm]one", "app", 0).await.unwrap();
        assert_eq!(explained[0].cause, "held");
        assert!(explained[0].message.contains("quotas.bytes, 200000"), "{explained:?}");

        let ended = before.iter().take(100).map(|uuid| si::AllocationRelease {
            partition_name: "one".to_owned(),
            application_id: "app".to_owned(),
            uuid: uuid.clone(),
            ..Default::default()
        });
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: ended.collect(),
            ..Default::default()
        };
        let request = si::AllocationRequest {
            rm_id: "rm".to_owned(),
            releases: Some(releases),
            ..Default::default()
        };
        scheduler.update_allocation(request).await.unwrap();
        scheduler.settle().await;
        let after = running().await;
        assert!(after.len().abs_diff(before.len()) <= 64, "{} {}", before.len(), after.len());
        assert!(after.iter().any(|uuid| !before.contains(uuid)), "others are placed instead");
        assert!(recorder.received().is_empty());
    });
}
