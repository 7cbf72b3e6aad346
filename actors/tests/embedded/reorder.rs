//! Asks that arrive before their application wait for it as long as the reorder window.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use prometheus::TextEncoder;

use crate::common::{ask_for, in_virtual_time, send_ask, vcore};

/// Records the notifications.
#[derive(Default)]
struct RecordingCallback(Mutex<Vec<String>>);

impl RecordingCallback {
    fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ResourceManagerCallback for RecordingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let mut received = self.0.lock().unwrap();
        received
            .extend(response.new.into_iter().map(|new| format!("{} placed", new.allocation_key)));
        received.extend(response.rejected.into_iter().map(|rejected| rejected.reason));
        received.extend(response.rejected_allocations.into_iter().map(|rejected| rejected.reason));
        received.extend(response.released.into_iter().map(|released| {
            let how = released.termination_type().as_str_name();
            format!("{} ({}) released: {how}", released.allocation_key, released.uuid)
        }));
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        let mut received = self.0.lock().unwrap();
        received
            .extend(response.accepted.into_iter().map(|app| format!("{} in", app.application_id)));
        received
            .extend(response.rejected.into_iter().map(|app| format!("{} out", app.application_id)));
    }
    fn update_node(&self, response: si::NodeResponse) {
        let mut received = self.0.lock().unwrap();
        let later = |id: &str| id != "n1";
        let accepted = response.accepted.into_iter().filter(|node| later(&node.node_id));
        received.extend(accepted.map(|node| format!("{} in", node.node_id)));
        received.extend(response.rejected.into_iter().map(|node| format!("{} out", node.node_id)));
    }
}

async fn ask(scheduler: &SchedulerHandle, key: &str) {
    send_ask(scheduler, "rm", ask_for(key, 1)).await;
}

async fn application(scheduler: &SchedulerHandle, user: &str) {
    let new = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        ugi: Some(si::UserGroupInformation { user: user.to_owned(), groups: Vec::new() }),
        tags: [("namespace".to_owned(), "lab".to_owned())].into(),
        ..Default::default()
    };
    let request =
        si::ApplicationRequest { rm_id: "rm".to_owned(), new: vec![new], ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

async fn withdraw(scheduler: &SchedulerHandle, key: &str) {
    let release = si::AllocationAskRelease {
        application_id: "app".to_owned(),
        allocation_key: key.to_owned(),
        ..Default::default()
    };
    let releases = si::AllocationReleasesRequest {
        allocation_asks_to_release: vec![release],
        ..Default::default()
    };
    let request = si::AllocationRequest {
        rm_id: "rm".to_owned(),
        releases: Some(releases),
        ..Default::default()
    };
    scheduler.update_allocation(request).await.unwrap();
}

fn running(key: &str, node: &str) -> si::Allocation {
    si::Allocation {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        node_id: node.to_owned(),
        resource_per_alloc: Some(vcore(1)),
        ..Default::default()
    }
}

/// An allocation that runs already.
async fn recovered(scheduler: &SchedulerHandle, key: &str, node: &str) {
    let allocations = vec![running(key, node)];
    let request =
        si::AllocationRequest { rm_id: "rm".to_owned(), allocations, ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
}

async fn node(
    scheduler: &SchedulerHandle,
    id: &str,
    action: si::node_info::ActionFromRm,
    existing_allocations: Vec<si::Allocation>,
) {
    let node = si::NodeInfo {
        node_id: id.to_owned(),
        action: action.into(),
        schedulable_resource: Some(vcore(4)),
        existing_allocations,
        ..Default::default()
    };
    let request =
        si::NodeRequest { rm_id: "rm".to_owned(), nodes: vec![node], ..Default::default() };
    scheduler.update_node(request).await.unwrap();
}

async fn remove(scheduler: &SchedulerHandle) {
    let remove = vec![si::RemoveApplicationRequest {
        application_id: "app".to_owned(),
        ..Default::default()
    }];
    let request = si::ApplicationRequest { rm_id: "rm".to_owned(), remove, ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

const NO_APPLICATION: &str = "failed to find application `app` [R_APP_UNKNOWN]";

/// A scheduler with a window of a second and one node, `n1`, in virtual time.
fn play<F: Future<Output = ()>>(story: impl FnOnce(SchedulerHandle, Arc<RecordingCallback>) -> F) {
    in_virtual_time(async {
        let builder = Scheduler::builder().reorder_window(Duration::from_secs(1));
        let scheduler = builder.start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        let register =
            si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
        let callback = Arc::clone(&recorder);
        scheduler.register_resource_manager(register, callback).await.unwrap();
        let node = si::NodeInfo {
            node_id: "n1".to_owned(),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(vcore(4)),
            ..Default::default()
        };
        let request =
            si::NodeRequest { rm_id: "rm".to_owned(), nodes: vec![node], ..Default::default() };
        scheduler.update_node(request).await.unwrap();
        story(scheduler, recorder).await;
    });
}

#[test]
fn an_early_ask_joins_its_application() {
    play(|scheduler, recorder| async move {
        ask(&scheduler, "early").await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(recorder.received().is_empty());
        application(&scheduler, "ada").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["app in", "early placed"]);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(recorder.received().is_empty(), "it is not rejected afterwards");
    });
}

#[test]
fn an_ask_without_application_is_rejected_after_the_window() {
    play(|scheduler, recorder| async move {
        ask(&scheduler, "early").await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["failed to find application `app` [R_APP_UNKNOWN]"]);
    });
}

#[test]
fn settling_waits_for_the_window() {
    play(|scheduler, recorder| async move {
        ask(&scheduler, "early").await;
        let before = tokio::time::Instant::now();
        scheduler.settle().await;
        assert_eq!(before.elapsed().as_secs(), 1);
        assert_eq!(recorder.received().len(), 1);
    });
}

/// An allocation is rejected if its node does not arrive in time.
#[test]
fn an_allocation_waits_for_its_node() {
    use si::node_info::ActionFromRm::Create;
    play(|scheduler, recorder| async move {
        application(&scheduler, "ada").await;
        recovered(&scheduler, "early", "n2").await;
        recovered(&scheduler, "lost", "n3").await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(recorder.received(), ["app in"]);
        node(&scheduler, "n2", Create, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(recorder.received(), ["n2 in", "early placed"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(recorder.received(), ["failed to find node `n3` [R_NODE_UNKNOWN]"]);
    });
}

/// When the node is added, one application is visited, then another, and then the first again,
/// which removes a part of what it added: queues learn of it in that order.
#[test]
fn the_last_report_of_a_waiting_allocation_counts() {
    use si::node_info::ActionFromRm::Create;
    play(|scheduler, recorder| async move {
        application(&scheduler, "ada").await;
        let other = si::AddApplicationRequest {
            application_id: "other".to_owned(),
            ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: Vec::new() }),
            tags: [("namespace".to_owned(), "lab".to_owned())].into(),
            ..Default::default()
        };
        let request = si::ApplicationRequest {
            rm_id: "rm".to_owned(),
            new: vec![other],
            ..Default::default()
        };
        scheduler.update_application(request).await.unwrap();
        for (application, quantity) in [("app", 3), ("other", 1), ("app", 1)] {
            let reported = si::Allocation {
                application_id: application.to_owned(),
                resource_per_alloc: Some(vcore(quantity)),
                ..running(application, "n2")
            };
            let request = si::AllocationRequest {
                rm_id: "rm".to_owned(),
                allocations: vec![reported],
                ..Default::default()
            };
            scheduler.update_allocation(request).await.unwrap();
        }
        node(&scheduler, "n2", Create, Vec::new()).await;
        scheduler.settle().await;
        let received = ["app in", "other in", "n2 in", "app placed", "other placed"];
        assert_eq!(recorder.received(), received);
        let root = scheduler.queues("[rm]default").await.unwrap();
        let used = [&root, &root.children[0]].map(|queue| queue.allocated_resource.sorted());
        assert!(used.iter().all(|used| used.first().is_some_and(|(_, vcore)| *vcore == 2)));
    });
}

/// An item without application and node waits for one after the other.
#[test]
fn the_window_bounds_all_waits_of_an_item() {
    use si::node_info::ActionFromRm::Create;
    play(|scheduler, recorder| async move {
        recovered(&scheduler, "in-time", "n2").await;
        recovered(&scheduler, "late", "n3").await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        application(&scheduler, "ada").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        node(&scheduler, "n2", Create, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(recorder.received(), ["app in", "n2 in", "in-time placed"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(recorder.received(), ["failed to find node `n3` [R_NODE_UNKNOWN]"]);
    });
}

/// Later changes of the node wait, too.
#[test]
fn a_node_waits_for_the_applications_of_its_allocations() {
    use si::node_info::ActionFromRm::{Create, Decomission, DrainNode};
    play(|scheduler, recorder| async move {
        node(&scheduler, "n2", Create, vec![running("a", "n2")]).await;
        node(&scheduler, "n2", DrainNode, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(recorder.received().is_empty());
        application(&scheduler, "ada").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["app in", "n2 in"]);
        let nodes = scheduler.nodes("default").await.unwrap();
        assert!(!nodes.iter().find(|node| node.node_id == "n2").unwrap().schedulable);

        let other = si::Allocation { application_id: "no".to_owned(), ..running("a", "n3") };
        node(&scheduler, "n3", Create, vec![other.clone()]).await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["n3 out"]);
        node(&scheduler, "n4", Create, vec![other]).await;
        node(&scheduler, "n4", Decomission, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(recorder.received(), ["n4 out"], "at once");
    });
}

#[test]
fn a_waiting_node_ends_with_a_later_removal() {
    use si::node_info::ActionFromRm::{Create, Decomission};
    play(|scheduler, recorder| async move {
        node(&scheduler, "n2", Create, vec![running("a", "n2")]).await;
        node(&scheduler, "n2", Create, Vec::new()).await;
        node(&scheduler, "n2", Decomission, Vec::new()).await;
        application(&scheduler, "ada").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["n2 in", "n2 out", "app in"]);
        let nodes = scheduler.nodes("default").await.unwrap();
        assert_eq!(nodes.iter().map(|node| &*node.node_id).collect::<Vec<_>>(), ["n1"]);
    });
}

#[test]
fn nothing_waits_for_a_rejected_or_removed_application() {
    play(|scheduler, recorder| async move {
        application(&scheduler, "").await;
        ask(&scheduler, "a").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let received = recorder.received();
        assert_eq!(received.last().map(String::as_str), Some(NO_APPLICATION), "{received:?}");

        application(&scheduler, "ada").await;
        remove(&scheduler).await;
        ask(&scheduler, "b").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(recorder.received(), ["app in", NO_APPLICATION]);

        application(&scheduler, "ada").await;
        ask(&scheduler, "c").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["app in", "c placed"]);
    });
}

#[test]
fn withdrawn_waiting_items_are_dropped() {
    play(|scheduler, recorder| async move {
        ask(&scheduler, "kept").await;
        ask(&scheduler, "withdrawn").await;
        withdraw(&scheduler, "withdrawn").await;
        application(&scheduler, "ada").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["app in", "kept placed"]);
    });
}

#[test]
fn an_rm_may_set_its_window_and_bound() {
    play(|scheduler, recorder| async move {
        let control = scheduler.control("rm").await.unwrap();
        control.set_reorder_items(1);
        ask(&scheduler, "a").await;
        ask(&scheduler, "b").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(recorder.received(), [NO_APPLICATION], "only one may wait");
        control.set_reorder_window(Duration::ZERO);
        control.set_reorder_items(9);
        ask(&scheduler, "c").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(recorder.received(), [NO_APPLICATION], "and no more from now on");
    });
}

#[test]
fn a_waiting_node_with_too_many_changes_is_rejected() {
    use si::node_info::ActionFromRm::{Create, DrainNode};
    play(|scheduler, recorder| async move {
        scheduler.control("rm").await.unwrap().set_reorder_items(2);
        node(&scheduler, "n2", Create, vec![running("a", "n2")]).await;
        node(&scheduler, "n2", DrainNode, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(recorder.received().is_empty(), "both wait");
        node(&scheduler, "n2", DrainNode, Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(recorder.received(), ["n2 out"]);
    });
}

#[test]
fn a_control_of_an_earlier_session_has_no_effect() {
    play(|scheduler, recorder| async move {
        let earlier = scheduler.control("rm").await.unwrap();
        let request =
            si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
        let callback = Arc::clone(&recorder) as Arc<dyn ResourceManagerCallback>;
        scheduler.register_resource_manager(request, callback).await.unwrap();
        earlier.set_reorder_window(Duration::ZERO);
        ask(&scheduler, "a").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(recorder.received().is_empty(), "the ask waits, as in every session");
        scheduler.control("rm").await.unwrap().set_reorder_window(Duration::ZERO);
        ask(&scheduler, "b").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(
            recorder.received(),
            [NO_APPLICATION],
            "the present one may still say otherwise"
        );
    });
}

#[test]
fn nothing_waits_for_a_completed_application_until_it_returns() {
    play(|scheduler, recorder| async move {
        application(&scheduler, "ada").await;
        ask(&scheduler, "a").await;
        withdraw(&scheduler, "a").await;
        release_all(&scheduler).await;
        tokio::time::sleep(Duration::from_secs(31)).await;
        scheduler.settle().await;
        recorder.received();
        ask(&scheduler, "b").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(recorder.received(), [NO_APPLICATION], "it has completed");

        application(&scheduler, "ada").await;
        ask(&scheduler, "c").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["app in", "c placed"]);
    });
}

#[test]
fn nothing_waits_for_a_removed_node_until_it_returns() {
    use si::node_info::ActionFromRm::{Create, Decomission};
    play(|scheduler, recorder| async move {
        application(&scheduler, "ada").await;
        let unknown = si::Allocation { resource_per_alloc: None, ..running("x", "n2") };
        node(&scheduler, "n2", Create, vec![unknown]).await;
        node(&scheduler, "n1", Decomission, Vec::new()).await;
        recovered(&scheduler, "a", "n1").await;
        recovered(&scheduler, "b", "n2").await;
        recovered(&scheduler, "new", "n3").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let gone = |id: &str| format!("failed to find node `{id}` [R_NODE_UNKNOWN]");
        assert_eq!(
            recorder.received(),
            ["app in".to_owned(), "n2 out".to_owned(), gone("n1"), gone("n2")]
        );

        node(&scheduler, "n2", Create, Vec::new()).await;
        recovered(&scheduler, "c", "n2").await;
        node(&scheduler, "n3", Create, Vec::new()).await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["n2 in", "c placed", "n3 in", "new placed"]);
    });
}

#[test]
fn without_a_window_items_do_not_wait() {
    play(|scheduler, recorder| async move {
        scheduler.control("rm").await.unwrap().set_reorder_window(Duration::ZERO);
        ask(&scheduler, "a").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(recorder.received(), [NO_APPLICATION]);
        application(&scheduler, "ada").await;
        recovered(&scheduler, "b", "n2").await;
        let other = si::Allocation { application_id: "no".to_owned(), ..running("c", "n3") };
        node(&scheduler, "n3", si::node_info::ActionFromRm::Create, vec![other]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let no_node = "failed to find node `n2` [R_NODE_UNKNOWN]";
        assert_eq!(recorder.received(), ["app in", no_node, "n3 out"]);
    });
}

/// The ways in which a release names an allocation with key `k` and UUID `u`.
fn ways_to_release() -> [si::AllocationRelease; 3] {
    let all = si::AllocationRelease { application_id: "app".to_owned(), ..Default::default() };
    let by_key = si::AllocationRelease { allocation_key: "k".to_owned(), ..all.clone() };
    let by_uuid = si::AllocationRelease { uuid: "u".to_owned(), ..all.clone() };
    [by_key, by_uuid, all]
}

/// An allocation on `n2` that runs as `u`.
fn named() -> si::Allocation {
    si::Allocation { uuid: "u".to_owned(), ..running("k", "n2") }
}

const RELEASED: &str = "k (u) released: STOPPED_BY_RM";

async fn report(scheduler: &SchedulerHandle, allocation: si::Allocation) {
    let allocations = vec![allocation];
    let request =
        si::AllocationRequest { rm_id: "rm".to_owned(), allocations, ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
}

#[test]
fn releasing_an_allocation_without_its_application_is_answered() {
    for way in ways_to_release() {
        play(|scheduler, recorder| async move {
            report(&scheduler, named()).await;
            release(&scheduler, way).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(recorder.received(), [RELEASED]);
            application(&scheduler, "ada").await;
            node(&scheduler, "n2", si::node_info::ActionFromRm::Create, Vec::new()).await;
            scheduler.settle().await;
            assert_eq!(recorder.received(), ["app in", "n2 in"], "it has ended");
            assert!(
                scheduler
                    .nodes("default")
                    .await
                    .unwrap()
                    .iter()
                    .all(|it| it.allocations.is_empty())
            );
        });
    }
}

#[test]
fn releasing_an_allocation_without_its_node_is_answered() {
    for way in ways_to_release() {
        play(|scheduler, recorder| async move {
            application(&scheduler, "ada").await;
            report(&scheduler, named()).await;
            release(&scheduler, way).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(recorder.received(), ["app in", RELEASED]);
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(recorder.received().is_empty(), "one answer");
            let metrics = scheduler.metrics().gather();
            let counted = TextEncoder::new().encode_to_string(&metrics).unwrap();
            assert!(!counted.contains("G_RELEASE_UNKNOWN"), "it was not in vain");
        });
    }
}

#[test]
fn releasing_a_waiting_report_is_answered_by_key() {
    play(|scheduler, recorder| async move {
        recovered(&scheduler, "k", "n2").await;
        recovered(&scheduler, "k", "n2").await;
        let [by_key, ..] = ways_to_release();
        release(&scheduler, by_key).await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["k () released: STOPPED_BY_RM"], "once");
    });
}

#[test]
fn releasing_an_allocation_of_a_waiting_node_is_answered() {
    use si::node_info::ActionFromRm::{Create, DrainNode};
    for way in ways_to_release() {
        play(|scheduler, recorder| async move {
            node(&scheduler, "n2", Create, vec![named()]).await;
            node(&scheduler, "n2", DrainNode, Vec::new()).await;
            release(&scheduler, way).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(recorder.received(), [RELEASED, "n2 in"]);
            let nodes = scheduler.nodes("default").await.unwrap();
            let n2 = nodes.iter().find(|node| node.node_id == "n2").unwrap();
            assert!(!n2.schedulable && n2.allocations.is_empty());
        });
    }
}

#[test]
fn a_confirmation_silently_ends_a_waiting_item() {
    play(|scheduler, recorder| async move {
        report(&scheduler, named()).await;
        ask(&scheduler, "k").await;
        let [by_key, ..] = ways_to_release();
        let termination_type = si::TerminationType::Timeout as i32;
        release(&scheduler, si::AllocationRelease { termination_type, ..by_key }).await;
        application(&scheduler, "ada").await;
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["app in", "k placed"], "what is pending stays");
    });
}

async fn release_all(scheduler: &SchedulerHandle) {
    let [_, _, all] = ways_to_release();
    release(scheduler, all).await;
}

async fn release(scheduler: &SchedulerHandle, release: si::AllocationRelease) {
    let releases = si::AllocationReleasesRequest {
        allocations_to_release: vec![release],
        ..Default::default()
    };
    let request = si::AllocationRequest {
        rm_id: "rm".to_owned(),
        releases: Some(releases),
        ..Default::default()
    };
    scheduler.update_allocation(request).await.unwrap();
}
