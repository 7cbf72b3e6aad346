//! First steps of an embedding program that knows nothing about queues.

use std::sync::{Arc, Mutex};

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerBuilder, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::common::in_virtual_time;

const RM: &str = "rm";

/// Records placements, rejections and ends.
#[derive(Default)]
struct RecordingCallback(Mutex<Vec<String>>);

impl RecordingCallback {
    fn record(&self, lines: impl Iterator<Item = String>) {
        self.0.lock().unwrap().extend(lines);
    }

    fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ResourceManagerCallback for RecordingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.record(
            response.new.into_iter().map(|it| format!("{} on {}", it.allocation_key, it.node_id)),
        );
        self.record(response.rejected_allocations.into_iter().map(|rejected| rejected.reason));
        self.record(response.released.into_iter().map(|it| format!("{} over", it.allocation_key)));
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        self.record(response.rejected.into_iter().map(|rejected| rejected.reason));
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.record(response.rejected.into_iter().map(|rejected| rejected.reason));
    }
}

/// A scheduler with a node of 8 cores, and its recording callback.
async fn with_node(builder: SchedulerBuilder) -> (SchedulerHandle, Arc<RecordingCallback>) {
    let (scheduler, recorder) =
        (builder.start_local().unwrap(), Arc::new(RecordingCallback::default()));
    let registration = si::RegisterResourceManagerRequest::new(RM);
    scheduler.register_resource_manager(registration, recorder.clone()).await.unwrap();
    let node = si::NodeInfo::new("n1", si::Resource::default().cores(8).gibibytes(32));
    scheduler.update_node(si::NodeRequest::report(RM, [node])).await.unwrap();
    (scheduler, recorder)
}

/// Submits an application with one request of a core, both with the same name.
async fn submit(scheduler: &SchedulerHandle, application: si::AddApplicationRequest) {
    let id = application.application_id.clone();
    let request = si::ApplicationRequest::submit(RM, [application]);
    scheduler.update_application(request).await.unwrap();
    let ask = si::Allocation::ask(&id, &id, si::Resource::default().cores(1));
    scheduler.update_allocation(si::AllocationRequest::ask(RM, [ask])).await.unwrap();
    scheduler.settle().await;
}

/// Queues with applications, one entry per application.
async fn used_queues(scheduler: &SchedulerHandle) -> Vec<String> {
    let applications = scheduler.all_applications("default").await.unwrap();
    let mut queues: Vec<_> = applications.into_iter().map(|it| it.queue_name).collect();
    queues.sort();
    queues
}

#[test]
fn a_simple_scheduler_has_one_open_queue() {
    in_virtual_time(async {
        let (scheduler, recorder) = with_node(Scheduler::simple()).await;
        let new = si::AddApplicationRequest::new;
        submit(&scheduler, new("plain", "ada")).await;
        submit(&scheduler, new("named", "bob").in_queue("root.elsewhere")).await;
        submit(&scheduler, new("tagged", "eve").with_tag("namespace", "lab")).await;
        assert_eq!(recorder.received(), ["plain on n1", "named on n1", "tagged on n1"]);
        assert_eq!(used_queues(&scheduler).await, ["root.default"; 3]);

        let gone = si::ApplicationRequest::remove(RM, [si::RemoveApplicationRequest::new("named")]);
        scheduler.update_application(gone).await.unwrap();
        let done = [si::AllocationRelease::new("plain", "plain")];
        scheduler.update_allocation(si::AllocationRequest::release(RM, done)).await.unwrap();
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["named over", "plain over"]);
    });
}

#[test]
fn a_gang_is_placed_without_queue_settings() {
    in_virtual_time(async {
        let (scheduler, recorder) = with_node(Scheduler::simple()).await;
        let group = si::TaskGroup::new("workers", 2);
        let job = si::AddApplicationRequest::new("job", "ada").with_task_group(group);
        scheduler.update_application(si::ApplicationRequest::submit(RM, [job])).await.unwrap();
        let member = |key: &str| {
            si::Allocation::ask("job", key, si::Resource::default().cores(2))
                .in_task_group("workers")
        };
        let ask = |key| scheduler.update_allocation(si::AllocationRequest::ask(RM, [member(key)]));
        ask("first").await.unwrap();
        scheduler.settle().await;
        assert_eq!(recorder.received(), <[&str; 0]>::default());
        ask("second").await.unwrap();
        scheduler.settle().await;
        assert_eq!(recorder.received(), ["first on n1", "second on n1"]);
    });
}

#[test]
fn built_in_queues_accept_applications_without_a_namespace() {
    in_virtual_time(async {
        let (scheduler, recorder) = with_node(Scheduler::builder()).await;
        submit(&scheduler, si::AddApplicationRequest::new("plain", "ada")).await;
        let tagged = si::AddApplicationRequest::new("tagged", "ada").with_tag("namespace", "lab");
        submit(&scheduler, tagged).await;
        assert_eq!(recorder.received(), ["plain on n1", "tagged on n1"]);
        assert_eq!(used_queues(&scheduler).await, ["root.default", "root.lab"]);
    });
}

#[test]
fn missing_settings_are_named_with_their_field() {
    const BY_TAG: &str =
        "partitions: [{name: default, placementrules: [{name: tag, value: namespace,
        create: true}, {name: provided}], queues: [{name: root, submitacl: '*'}]}]";
    in_virtual_time(async {
        let (scheduler, recorder) = with_node(Scheduler::builder().default_queues(BY_TAG)).await;
        let applications = [
            si::AddApplicationRequest::new("nobody", ""),
            si::AddApplicationRequest::new("nowhere", "ada"),
        ];
        let request = si::ApplicationRequest::submit(RM, applications);
        scheduler.update_application(request).await.unwrap();
        scheduler.settle().await;
        let received = recorder.received();
        let says = |line: usize, part: &str| assert!(received[line].contains(part), "{received:?}");
        says(
            0,
            "application `nobody`: empty user cannot resolve: give the application a user (`ugi.user`)",
        );
        says(1, "`tag`: there is no tag `namespace` (`tags` of the application)");
        says(1, "`provided`: no queue was named (`queueName`)");

        let stranger = si::NodeRequest::report("stranger", []);
        let refused = scheduler.update_node(stranger).await.unwrap_err().to_string();
        assert_eq!(refused, "resource manager `stranger` is not registered: register it first");
    });
}
