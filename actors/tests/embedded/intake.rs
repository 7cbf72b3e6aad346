//! Limits of messages from RMs, set by the builder.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{
    ResourceManagerCallback, Scheduler, SchedulerBuilder, SchedulerHandle, Threads,
};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use crate::common::{in_virtual_time, vcore};

/// One leaf `root.default`, open to everybody.
const QUEUES: &str =
    r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [{name: default}]}]}]}"#;

#[derive(Default)]
struct Shim {
    placed: AtomicUsize,
    n_rejected: AtomicUsize,
    /// Reasons of rejected asks, applications and nodes.
    reasons: Mutex<Vec<String>>,
    released: AtomicUsize,
}

impl Shim {
    fn reason(&self, reason: String) {
        self.n_rejected.fetch_add(1, Ordering::Relaxed);
        self.reasons.lock().unwrap().push(reason);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.reasons.lock().unwrap())
    }
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.placed.fetch_add(response.new.len(), Ordering::Relaxed);
        self.released.fetch_add(response.released.len(), Ordering::Relaxed);
        response.rejected.into_iter().for_each(|ask| self.reason(ask.reason));
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        response.rejected.into_iter().for_each(|application| self.reason(application.reason));
    }

    fn update_node(&self, response: si::NodeResponse) {
        response.rejected.into_iter().for_each(|node| self.reason(node.reason));
    }
}

fn ask(application: &str, key: &str, n: i32) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        resource_ask: Some(vcore(1)),
        max_allocations: n,
        execution_timeout_milli_seconds: 1_000,
        ..Default::default()
    }
}

async fn send_asks(scheduler: &SchedulerHandle, asks: Vec<si::AllocationAsk>) {
    let request = si::AllocationRequest { rm_id: "rm".to_owned(), asks, ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
}

async fn send_node(scheduler: &SchedulerHandle, id: &str, action: ActionFromRm, partition: &str) {
    let node = si::NodeInfo {
        node_id: id.to_owned(),
        action: action as i32,
        schedulable_resource: Some(vcore(10)),
        attributes: [("si/node-partition".to_owned(), partition.to_owned())].into(),
        ..Default::default()
    };
    let rm_id = "rm".to_owned();
    let request = si::NodeRequest { rm_id, nodes: vec![node], ..Default::default() };
    scheduler.update_node(request).await.unwrap();
}

/// Runs `story` in virtual time, with a registered RM that has a node `n1` and an application `app`.
fn with<F: Future<Output = ()>>(
    builder: SchedulerBuilder,
    story: impl FnOnce(SchedulerHandle, Arc<Shim>) -> F,
) {
    in_virtual_time(async {
        let scheduler = builder.start_local().unwrap();
        let shim = Arc::new(Shim::default());
        let (rm_id, config) = ("rm".to_owned(), QUEUES.to_owned());
        let request = si::RegisterResourceManagerRequest { rm_id, config, ..Default::default() };
        scheduler.register_resource_manager(request, shim.clone()).await.unwrap();
        send_node(&scheduler, "n1", ActionFromRm::Create, "").await;
        send_application(&scheduler, "app").await;
        scheduler.settle().await;
        story(scheduler.clone(), shim).await;
        scheduler.shutdown().await;
    });
}

async fn send_application(scheduler: &SchedulerHandle, id: &str) {
    let application = si::AddApplicationRequest {
        application_id: id.to_owned(),
        queue_name: "root.default".to_owned(),
        ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: vec![] }),
        ..Default::default()
    };
    let rm_id = "rm".to_owned();
    let request = si::ApplicationRequest { rm_id, new: vec![application], ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

#[test]
fn an_ask_repeats_as_often_as_is_allowed() {
    with(Scheduler::builder().max_repeat(3), |scheduler, shim| async move {
        send_asks(&scheduler, vec![ask("app", "k", 4), ask("app", "l", 3)]).await;
        scheduler.settle().await;
        let reasons = shim.take();
        assert!(reasons[0].contains("from 1 to 3 [R_REPEAT]"), "{reasons:?}");
        assert_eq!((reasons.len(), shim.placed.load(Ordering::Relaxed)), (1, 3));
    });
}

#[test]
fn ids_are_as_long_as_is_allowed() {
    with(Scheduler::builder().id_bytes(4), |scheduler, shim| async move {
        send_application(&scheduler, "five5").await;
        send_node(&scheduler, "five5", ActionFromRm::Create, "").await;
        send_asks(&scheduler, vec![ask("app", "five5", 1), ask("app", "four", 1)]).await;
        scheduler.settle().await;
        let reasons = shim.take();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        for (reason, code) in reasons.iter().zip(["[R_APP_ID]", "[R_NODE_INVALID]", "[R_KEY]"]) {
            assert!(reason.contains("too long") && reason.contains(code), "{reason}");
        }
        assert_eq!(shim.placed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn allocations_run_for_ever_without_enforced_run_times() {
    for (enforced, released) in [(true, 1), (false, 0)] {
        let builder = Scheduler::builder().enforce_execution_timeout(enforced);
        with(builder, |scheduler, shim| async move {
            send_asks(&scheduler, vec![ask("app", "k", 1)]).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            scheduler.settle().await;
            let seen = |count: &AtomicUsize| count.load(Ordering::Relaxed);
            assert_eq!((seen(&shim.placed), seen(&shim.released)), (1, released));
        });
    }
}

#[test]
fn changes_of_missing_nodes_are_rejected_on_request() {
    let changes = [
        (ActionFromRm::Update, "", "[R_NODE_UNKNOWN]"),
        (ActionFromRm::DrainNode, "", "[R_NODE_UNKNOWN]"),
        (ActionFromRm::DrainToSchedulable, "", "[R_NODE_UNKNOWN]"),
        (ActionFromRm::Decomission, "", "[R_NODE_UNKNOWN]"),
        (ActionFromRm::Update, "gpu", "[R_PARTITION_UNKNOWN]"),
    ];
    for rejects in [true, false] {
        let builder = Scheduler::builder().reject_node_updates(rejects);
        with(builder, |scheduler, shim| async move {
            for (action, partition, code) in changes {
                send_node(&scheduler, "n9", action, partition).await;
                scheduler.settle().await;
                let reasons = shim.take();
                assert_eq!(reasons.len(), usize::from(rejects), "{action:?} {reasons:?}");
                assert!(reasons.iter().all(|reason| reason.contains(code)), "{reasons:?}");
            }
        });
    }
}

#[test]
fn a_sender_waits_while_the_queue_is_full() {
    let rejected_when_taken = |builder: SchedulerBuilder| {
        let rejected = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&rejected);
        with(builder, |scheduler, shim| async move {
            let asks = (0..20_000).map(|n| ask("nobody", &format!("k{n}"), 1)).collect();
            send_asks(&scheduler, asks).await;
            seen.store(shim.n_rejected.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        rejected.load(Ordering::Relaxed)
    };
    let at_once = rejected_when_taken(Scheduler::builder());
    assert!(at_once < 10_000, "{at_once} of 20,000 were decided before the sender could go on");
    let waited = rejected_when_taken(Scheduler::builder().ingress_items(100));
    assert!(waited > 18_000, "only {waited} of 20,000");
}

#[test]
fn a_report_may_follow_three_thousand_nodes_at_once() {
    for threads in [Threads::PerPartition, Threads::One] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scheduler = Scheduler::builder().threads(threads).start().unwrap();
            let register =
                si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
            scheduler.register_resource_manager(register, Arc::new(Shim::default())).await.unwrap();
            let node = |number: i32| si::NodeInfo {
                node_id: format!("n{number}"),
                action: ActionFromRm::Create as i32,
                schedulable_resource: Some(vcore(8)),
                ..Default::default()
            };
            let nodes = (1..=3_000).map(node).collect();
            let request = si::NodeRequest { rm_id: "rm".to_owned(), nodes, ..Default::default() };
            scheduler.update_node(request).await.unwrap();
            let report = |id: &str| si::UtilizationReport {
                id: id.to_owned(),
                actual_used_resource: Some(vcore(1)),
            };
            let reports = vec![report("n3000"), report("nobody")];
            assert_eq!(scheduler.report_utilization("rm", reports, 0).await, Ok((1, 1)));
            scheduler.shutdown().await;
        });
    }
}
