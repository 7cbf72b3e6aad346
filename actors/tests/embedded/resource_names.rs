//! Resource types are counted for each resource manager, and unused ones are released: no resource
//! manager can name so many that another could not name its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::common::in_virtual_time;

const QUEUES: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [
    {name: a, resources: {max: {test.org/card: 3}}}]}]}]";
/// Most types that an RM may use here.
const LIMIT: usize = 16;

/// Records placements and rejections.
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
        received.extend(response.rejected_allocations.into_iter().map(|rejected| rejected.reason));
    }
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, response: si::NodeResponse) {
        let rejected = response.rejected.into_iter().map(|rejected| rejected.reason);
        self.0.lock().unwrap().extend(rejected);
    }
}

fn amount(names: &[String], value: i64) -> si::Resource {
    let quantity = |name: &String| (name.clone(), si::Quantity { value });
    si::Resource { resources: names.iter().map(quantity).collect() }
}

fn card() -> Vec<String> {
    vec!["test.org/card".to_owned()]
}

struct Rm<'a> {
    scheduler: &'a SchedulerHandle,
    id: &'static str,
    recorder: Arc<RecordingCallback>,
}

impl<'a> Rm<'a> {
    /// An RM with a node that has 9 cards and an application in a queue that may use 3.
    async fn register(scheduler: &'a SchedulerHandle, id: &'static str) -> Self {
        let recorder = Arc::new(RecordingCallback::default());
        let rm = Self { scheduler, id, recorder };
        let request = si::RegisterResourceManagerRequest {
            rm_id: id.to_owned(),
            config: QUEUES.to_owned(),
            ..Default::default()
        };
        let callback = Arc::clone(&rm.recorder) as Arc<dyn ResourceManagerCallback>;
        scheduler.register_resource_manager(request, callback).await.unwrap();
        rm.node("n1", &card(), 9).await;
        rm.application("app", "root.a").await;
        rm
    }

    async fn node(&self, id: &str, names: &[String], value: i64) {
        let node = si::NodeInfo {
            node_id: id.to_owned(),
            action: si::node_info::ActionFromRm::Create.into(),
            schedulable_resource: Some(amount(names, value)),
            ..Default::default()
        };
        let (rm_id, nodes) = (self.id.to_owned(), vec![node]);
        let request = si::NodeRequest { rm_id, nodes, ..Default::default() };
        self.scheduler.update_node(request).await.unwrap();
    }

    async fn application(&self, id: &str, queue: &str) {
        let ugi = si::UserGroupInformation { user: "ada".to_owned(), ..Default::default() };
        let new = si::AddApplicationRequest {
            application_id: id.to_owned(),
            queue_name: queue.to_owned(),
            ugi: Some(ugi),
            ..Default::default()
        };
        let (rm_id, new) = (self.id.to_owned(), vec![new]);
        let request = si::ApplicationRequest { rm_id, new, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    async fn ask(&self, key: &str, names: &[String]) {
        let ask = si::Allocation {
            allocation_key: key.to_owned(),
            application_id: "app".to_owned(),
            resource_per_alloc: Some(amount(names, 1)),
            ..Default::default()
        };
        let (rm_id, allocations) = (self.id.to_owned(), vec![ask]);
        let request = si::AllocationRequest { rm_id, allocations, ..Default::default() };
        self.scheduler.update_allocation(request).await.unwrap();
    }

    async fn release(&self, key: &str) {
        let release = si::AllocationRelease {
            application_id: "app".to_owned(),
            allocation_key: key.to_owned(),
            ..Default::default()
        };
        let allocations_to_release = vec![release];
        let releases =
            si::AllocationReleasesRequest { allocations_to_release, ..Default::default() };
        let (rm_id, releases) = (self.id.to_owned(), Some(releases));
        let request = si::AllocationRequest { rm_id, releases, ..Default::default() };
        self.scheduler.update_allocation(request).await.unwrap();
    }
}

fn play<F: Future<Output = ()>>(story: impl FnOnce(SchedulerHandle) -> F) {
    in_virtual_time(async {
        let builder = Scheduler::builder().resource_names(LIMIT);
        story(builder.start_local().unwrap()).await;
    });
}

/// `n` types that no other RM names.
fn types(of: &str, n: usize) -> Vec<String> {
    (0..n).map(|number| format!("{of}.test.org/{number}")).collect()
}

/// Another RM is not affected.
#[test]
fn a_rejection_names_type_and_limit() {
    play(|scheduler| async move {
        let greedy = Rm::register(&scheduler, "greedy").await;
        for name in types("greedy", LIMIT + 5) {
            greedy.ask(&name, std::slice::from_ref(&name)).await;
        }
        scheduler.settle().await;
        let received = greedy.recorder.received();
        // The configuration of the queue names one more.
        assert_eq!(received.len(), 6, "{received:?}");
        let expected = "`greedy.test.org/15`: resource name `greedy.test.org/15` cannot be added: \
                        16 names are in use, the limit of one RM [R_OVERFLOW]";
        assert_eq!(received[0], expected);

        let other = Rm::register(&scheduler, "other").await;
        for name in types("other", LIMIT - 1) {
            other.ask(&name, std::slice::from_ref(&name)).await;
        }
        other.ask("card", &card()).await;
        scheduler.settle().await;
        assert_eq!(other.recorder.received(), ["card placed"]);
    });
}

/// A remaining name is never confused with another, however many names are added and released.
#[test]
fn unused_names_free_the_limit_for_others() {
    play(|scheduler| async move {
        let rm = Rm::register(&scheduler, "rm").await;
        rm.ask("stays", &card()).await;
        let kept = types("kept", 3);
        rm.node("n2", &kept, 2).await;
        for round in 0..20 {
            for name in types(&format!("round-{round}"), 5) {
                rm.ask(&name, std::slice::from_ref(&name)).await;
                scheduler.settle().await;
                rm.release(&name).await;
            }
            tokio::time::sleep(Duration::from_millis(1_100)).await;
        }
        assert_eq!(rm.recorder.received(), ["stays placed"], "nothing was refused");
        rm.ask("second", &card()).await;
        rm.ask("third", &card()).await;
        rm.ask("beyond-its-queue", &card()).await;
        rm.ask("on-n2", &kept).await;
        scheduler.settle().await;
        assert_eq!(rm.recorder.received(), ["second placed", "third placed", "on-n2 placed"]);
        let used = scheduler.nodes("default").await.unwrap();
        assert_eq!(used[0].allocated.to_string(), "map[test.org/card:3]");
        let faults = scheduler.check_books("default").await.unwrap();
        assert!(faults.is_empty(), "{faults:?}");
    });
}

#[test]
fn names_released_by_one_rm_stay_with_another() {
    play(|scheduler| async move {
        let shared = types("shared", 2);
        let other = Rm::register(&scheduler, "other").await;
        other.node("n2", &shared, 2).await;
        let rm = Rm::register(&scheduler, "rm").await;
        rm.ask("k", &shared).await;
        rm.release("k").await;
        scheduler.settle().await;
        for name in types("more", LIMIT * 2) {
            rm.ask(&name, std::slice::from_ref(&name)).await;
            rm.release(&name).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        scheduler.deregister("rm").await.unwrap();
        other.ask("k", &shared).await;
        scheduler.settle().await;
        assert_eq!(other.recorder.received(), ["k placed"]);
    });
}

#[test]
fn a_rejected_configuration_uses_no_names() {
    play(|scheduler| async move {
        for attempt in 0..300 {
            let max = types(&format!("refused-{attempt}"), 5)
                .iter()
                .map(|name| format!("{name}: 1"))
                .collect::<Vec<_>>()
                .join(", ");
            let config = format!(
                "partitions: [{{queues: [{{name: root, resources: {{max: {{{max}}}}}, bogus: 1}}]}}]"
            );
            let request = si::RegisterResourceManagerRequest {
                rm_id: "rm".to_owned(),
                config,
                ..Default::default()
            };
            let callback = Arc::new(RecordingCallback::default());
            scheduler.register_resource_manager(request, callback).await.unwrap_err();
        }
        let name = monoceros_rules::values::resources::Name::known("refused-0.test.org/0");
        assert_eq!(name, None);
        Rm::register(&scheduler, "rm").await;
    });
}
