//! A shim that answers when the test says so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::snapshot::QueueSnapshot;
use monoceros_actors::{
    AnswerSink, PredicateAnswer, PredicateQuestion, Predicates, PreemptionQuestions, QuestionId,
    ResourceManagerCallback, ResourceManagerControl, Scheduler, SchedulerBuilder, SchedulerHandle,
    Scope, Verdict,
};
use monoceros_proto::si::v1::node_info::ActionFromRm;
use monoceros_proto::si::v1::{self as si, TerminationType};

use super::preemption::{self, PreemptionAnswers};
use crate::common::in_virtual_time;

/// The RM's side of the interface: notifications, and questions without an answer.
#[derive(Default)]
pub(crate) struct Shim {
    received: Mutex<Vec<String>>,
    open: Mutex<BTreeMap<u64, PredicateQuestion>>,
    sink: Mutex<Option<AnswerSink>>,
    pub(crate) panics: AtomicBool,
    /// Whether predicates answered at once refuse.
    pub(crate) refuses: AtomicBool,
    pub(crate) preemption: PreemptionAnswers,
}

impl Shim {
    fn record(&self, words: impl IntoIterator<Item = String>) {
        self.received.lock().unwrap().extend(words);
    }

    /// Notifications since the last call.
    pub(crate) fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }

    /// Questions without an answer, in order.
    pub(crate) fn open(&self) -> Vec<PredicateQuestion> {
        self.open.lock().unwrap().values().cloned().collect()
    }

    /// Numbers of these questions.
    pub(crate) fn open_ids(&self) -> Vec<u64> {
        self.open.lock().unwrap().keys().copied().collect()
    }

    /// Answers several questions in one call; they may be withdrawn already.
    pub(crate) fn answer(&self, answers: impl IntoIterator<Item = (u64, Verdict)>) {
        let answers: Vec<_> = answers
            .into_iter()
            .map(|(id, verdict)| PredicateAnswer { id: QuestionId(id), verdict })
            .collect();
        let mut open = self.open.lock().unwrap();
        for answer in &answers {
            open.remove(&answer.id.0);
        }
        drop(open);
        let sink = self.sink.lock().unwrap().clone().expect("something was asked");
        sink.answer(answers);
    }

    /// Gives the same answer to all open questions.
    pub(crate) fn answer_all(&self, verdict: &Verdict) {
        let open = self.open_ids();
        self.answer(open.into_iter().map(|id| (id, verdict.clone())));
    }
}

/// Name of an allocation: its UUID, or in the present form its key.
fn named<'a>(uuid: &'a str, key: &'a str) -> &'a str {
    if uuid.is_empty() { key } else { uuid }
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let placed = |new: si::Allocation| {
            format!("{} on {}", named(&new.uuid, &new.allocation_key), new.node_id)
        };
        self.record(response.new.into_iter().map(placed));
        let released = |gone: si::AllocationRelease| {
            let how = match gone.termination_type() {
                TerminationType::PlaceholderReplaced => "is to give way",
                TerminationType::Timeout => "is to end",
                _ => "released",
            };
            format!("{} {how}", named(&gone.uuid, &gone.allocation_key))
        };
        self.record(response.released.into_iter().map(released));
        let given_up = |ask: si::AllocationAskRelease| format!("{} given up", ask.allocation_key);
        self.record(response.released_asks.into_iter().map(given_up));
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        let entered = |app: si::UpdatedApplication| format!("{} {}", app.application_id, app.state);
        self.record(response.updated.into_iter().map(entered));
    }

    fn update_node(&self, _response: si::NodeResponse) {}

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.record([format!("{} asked at once", args.allocation_key)]);
        if self.refuses.load(Ordering::Acquire) { Err("no".to_owned()) } else { Ok(()) }
    }

    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let words = questions.iter().map(|question| {
            let nodes: Vec<&str> = question.nodes.iter().map(AsRef::as_ref).collect();
            let nodes = match nodes.len() {
                0..=4 => nodes.join(" "),
                more => format!("{more} nodes"),
            };
            let how = if question.allocate { "" } else { " in place" };
            format!("{} {}? {nodes}{how}", question.id.0, question.key)
        });
        self.record(words);
        assert!(!self.panics.load(Ordering::Acquire), "the test panics");
        for question in questions {
            *self.sink.lock().unwrap() = Some(question.answers.clone());
            assert!(!question.nodes.is_empty());
            let before = self.open.lock().unwrap().insert(question.id.0, question);
            assert!(before.is_none(), "a question is asked once");
        }
    }

    fn preemption_predicates(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        self.record([preemption::words(args)]);
        self.preemption.now(args)
    }

    fn ask_preemption(&self, group: PreemptionQuestions) {
        self.record(group.questions.iter().map(preemption::words));
        self.preemption.later(group);
    }

    fn cancel_predicates(&self, questions: Vec<QuestionId>) {
        self.record(questions.iter().map(|question| format!("{} withdrawn", question.0)));
        let mut open = self.open.lock().unwrap();
        open.retain(|id, _| !questions.contains(&QuestionId(*id)));
    }
}

pub(crate) fn passed(scope: Scope) -> Verdict {
    Verdict::Passed { position: 0, scope, assumed: false }
}

pub(crate) fn passed_at(position: usize) -> Verdict {
    Verdict::Passed { position, scope: Scope::Static, assumed: false }
}

pub(crate) fn assumed_at(position: usize) -> Verdict {
    Verdict::Passed { position, scope: Scope::Static, assumed: true }
}

pub(crate) fn failed() -> Verdict {
    Verdict::Failed { reasons: vec![("no reason".to_owned(), 1)] }
}

/// A scheduler with one RM, and the calls of the RM.
pub(crate) struct World {
    pub(crate) scheduler: SchedulerHandle,
    pub(crate) shim: Arc<Shim>,
    pub(crate) control: ResourceManagerControl,
    /// Partition of the test.
    pub(crate) partition: String,
}

/// Plays a story in virtual time. `queues` is the list below root; at most `in_flight` placements
/// may wait.
pub(crate) fn play<F: Future<Output = ()>>(
    queues: &str,
    in_flight: usize,
    story: impl FnOnce(World) -> F,
) {
    play_with(Scheduler::builder().reservation_delay(None), queues, in_flight, story);
}

fn config(queues: &str) -> String {
    format!(
        "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
         queues: [{queues}]\n"
    )
}

pub(crate) fn play_with<F: Future<Output = ()>>(
    builder: SchedulerBuilder,
    queues: &str,
    in_flight: usize,
    story: impl FnOnce(World) -> F,
) {
    let config = config(queues);
    in_virtual_time(async {
        let scheduler = builder.start_local().unwrap();
        let world = World::register(scheduler, &config, in_flight).await;
        story(world).await;
    });
}

impl World {
    pub(crate) async fn register(
        scheduler: SchedulerHandle,
        config: &str,
        in_flight: usize,
    ) -> Self {
        let shim = Arc::new(Shim::default());
        let register = si::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            config: config.to_owned(),
            ..Default::default()
        };
        let callback = Arc::clone(&shim);
        scheduler.register_resource_manager(register, callback).await.unwrap();
        let control = scheduler.control("rm").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight, holds: false });
        Self { scheduler, shim, control, partition: "default".to_owned() }
    }

    /// Lets all tasks run that need no answer, checks the books, and returns the notifications.
    pub(crate) async fn received(&self) -> Vec<String> {
        // The clock is paused: it advances only when no task is ready.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let wrong = self.scheduler.check_books(&self.partition).await.unwrap();
        assert_eq!(wrong, Vec::<String>::new());
        self.shim.received()
    }

    /// Like [`Self::received`], without taking the notifications.
    pub(crate) async fn run(&self) {
        self.received().await;
    }

    async fn tell_node(&self, node: si::NodeInfo) {
        let rm_id = "rm".to_owned();
        let request = si::NodeRequest { rm_id, nodes: vec![node], ..Default::default() };
        self.scheduler.update_node(request).await.unwrap();
    }

    pub(crate) async fn node(&self, id: &str, vcore: i64) {
        self.node_in("", id, vcore).await;
    }

    pub(crate) async fn node_in(&self, partition: &str, id: &str, vcore: i64) {
        let mut attributes = BTreeMap::new();
        if !partition.is_empty() {
            attributes.insert("si/node-partition".to_owned(), partition.to_owned());
        }
        self.tell_node(si::NodeInfo {
            node_id: id.to_owned(),
            action: ActionFromRm::Create as i32,
            schedulable_resource: Some(resource(vcore)),
            attributes: attributes.into_iter().collect(),
            ..Default::default()
        })
        .await;
    }

    /// `queues` is the list below root, as for [`play`].
    pub(crate) async fn reconfigure(&self, queues: &str) {
        self.configure(config(queues)).await;
    }

    /// Reloads the same queues, with preemption switched off.
    pub(crate) async fn switch_preemption_off(&self, queues: &str) {
        self.configure(config(queues) + "  preemption: {enabled: false}\n").await;
    }

    async fn configure(&self, config: String) {
        let request =
            si::UpdateConfigurationRequest { rm_id: "rm".to_owned(), config, ..Default::default() };
        self.scheduler.update_configuration(request).await.unwrap();
    }

    pub(crate) async fn nodes(&self, count: usize, vcore: i64) {
        for number in 1..=count {
            self.node(&format!("n{number:03}"), vcore).await;
        }
    }

    pub(crate) async fn act(&self, node: &str, action: ActionFromRm) {
        let node_id = node.to_owned();
        self.tell_node(si::NodeInfo { node_id, action: action as i32, ..Default::default() }).await;
    }

    pub(crate) async fn change_node(&self, node: &str, vcore: Option<i64>, ready: bool) {
        self.tell_node(si::NodeInfo {
            node_id: node.to_owned(),
            action: ActionFromRm::Update as i32,
            schedulable_resource: vcore.map(resource),
            attributes: [("ready".to_owned(), ready.to_string())].into(),
            ..Default::default()
        })
        .await;
    }

    pub(crate) async fn app(&self, id: &str, queue: &str) {
        self.app_in("", id, queue).await;
    }

    pub(crate) async fn app_in(&self, partition: &str, id: &str, queue: &str) {
        let partition_name = partition.to_owned();
        self.submit(id, queue, si::AddApplicationRequest { partition_name, ..Default::default() })
            .await;
    }

    /// An application with a total of its placeholders and a timeout.
    pub(crate) async fn gang(&self, id: &str, queue: &str, vcore: i64, timeout_ms: i64) {
        let gang = si::AddApplicationRequest {
            placeholder_ask: Some(resource(vcore)),
            execution_timeout_milli_seconds: timeout_ms,
            ..Default::default()
        };
        self.submit(id, queue, gang).await;
    }

    /// An application that declares `members` members of the task group `g`, each of this size.
    pub(crate) async fn declared(&self, id: &str, queue: &str, members: i32, vcore: i64) {
        self.declared_for(id, queue, (members, vcore), 0).await;
    }

    /// Like [`Self::declared`]; places of its members are held for this time, 0 is the default.
    pub(crate) async fn declared_for(
        &self,
        id: &str,
        queue: &str,
        (members, vcore): (i32, i64),
        timeout_ms: i64,
    ) {
        let group = si::TaskGroup {
            name: "g".to_owned(),
            min_members: members,
            member: Some(resource(vcore)),
            ..Default::default()
        };
        let gang = si::AddApplicationRequest {
            task_groups: vec![group],
            execution_timeout_milli_seconds: timeout_ms,
            ..Default::default()
        };
        self.submit(id, queue, gang).await;
    }

    async fn submit(&self, id: &str, queue: &str, new: si::AddApplicationRequest) {
        let new = si::AddApplicationRequest {
            application_id: id.to_owned(),
            queue_name: queue.to_owned(),
            ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: Vec::new() }),
            ..new
        };
        let rm_id = "rm".to_owned();
        let request = si::ApplicationRequest { rm_id, new: vec![new], ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    pub(crate) async fn remove_app(&self, id: &str) {
        let remove =
            si::RemoveApplicationRequest { application_id: id.to_owned(), ..Default::default() };
        let rm_id = "rm".to_owned();
        let request = si::ApplicationRequest { rm_id, remove: vec![remove], ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    pub(crate) async fn ask(&self, app: &str, key: &str, vcore: i64) {
        self.ask_for(si::AllocationAsk { max_allocations: 1, ..ask(app, key, vcore) }).await;
    }

    /// A member of the task group `g`.
    pub(crate) async fn member(&self, app: &str, key: &str, vcore: i64) {
        self.ask_in_gang(app, key, vcore, false).await;
    }

    /// A placeholder of the task group `g`, or a member of it.
    pub(crate) async fn ask_in_gang(&self, app: &str, key: &str, vcore: i64, placeholder: bool) {
        self.ask_for(si::AllocationAsk {
            max_allocations: 1,
            task_group_name: "g".to_owned(),
            placeholder,
            ..ask(app, key, vcore)
        })
        .await;
    }

    pub(crate) async fn ask_many(&self, app: &str, key: &str, vcore: i64, times: i32) {
        self.ask_for(si::AllocationAsk { max_allocations: times, ..ask(app, key, vcore) }).await;
    }

    pub(crate) async fn ask_on(&self, app: &str, key: &str, vcore: i64, node: &str) {
        self.ask_with_priority(0, app, key, vcore, node).await;
    }

    /// An ask with a higher priority than the default.
    pub(crate) async fn ask_first_on(&self, app: &str, key: &str, vcore: i64, node: &str) {
        self.ask_with_priority(5, app, key, vcore, node).await;
    }

    async fn ask_with_priority(&self, priority: i32, app: &str, key: &str, vcore: i64, node: &str) {
        let tag = ("yunikorn.apache.org/requiredNode".to_owned(), node.to_owned());
        self.ask_for(si::AllocationAsk {
            max_allocations: 1,
            priority,
            tags: [tag].into(),
            ..ask(app, key, vcore)
        })
        .await;
    }

    pub(crate) async fn ask_for(&self, ask: si::AllocationAsk) {
        self.allocate(si::AllocationRequest { asks: vec![ask], ..Default::default() }).await;
    }

    /// An ask in the present form: for a known key only the size changes.
    pub(crate) async fn request(&self, app: &str, key: &str, vcore: i64, node: &str) {
        let allocation = si::Allocation {
            allocation_key: key.to_owned(),
            application_id: app.to_owned(),
            node_id: node.to_owned(),
            resource_per_alloc: Some(resource(vcore)),
            ..Default::default()
        };
        let allocations = vec![allocation];
        self.allocate(si::AllocationRequest { allocations, ..Default::default() }).await;
    }

    pub(crate) async fn withdraw(&self, app: &str, key: &str) {
        let release = si::AllocationAskRelease {
            application_id: app.to_owned(),
            allocation_key: key.to_owned(),
            ..Default::default()
        };
        self.release(si::AllocationReleasesRequest {
            allocation_asks_to_release: vec![release],
            ..Default::default()
        })
        .await;
    }

    /// Releases an allocation by UUID.
    pub(crate) async fn end(&self, app: &str, uuid: &str, kind: TerminationType) {
        let release = si::AllocationRelease {
            application_id: app.to_owned(),
            uuid: uuid.to_owned(),
            termination_type: kind as i32,
            ..Default::default()
        };
        self.release(si::AllocationReleasesRequest {
            allocations_to_release: vec![release],
            ..Default::default()
        })
        .await;
    }

    /// Reports that the allocation with this UUID can never run on its node.
    pub(crate) async fn refuse_for_good(&self, app: &str, uuid: &str) {
        let release = si::AllocationRelease {
            application_id: app.to_owned(),
            uuid: uuid.to_owned(),
            termination_type: TerminationType::SchedulingFailedOnRm as i32,
            exclude_node: true,
            ..Default::default()
        };
        self.release(si::AllocationReleasesRequest {
            allocations_to_release: vec![release],
            ..Default::default()
        })
        .await;
    }

    async fn release(&self, releases: si::AllocationReleasesRequest) {
        let releases = Some(releases);
        self.allocate(si::AllocationRequest { releases, ..Default::default() }).await;
    }

    async fn allocate(&self, request: si::AllocationRequest) {
        let request = si::AllocationRequest { rm_id: "rm".to_owned(), ..request };
        self.scheduler.update_allocation(request).await.unwrap();
    }

    pub(crate) async fn root(&self) -> QueueSnapshot {
        self.scheduler.queues(&self.partition).await.unwrap()
    }

    /// Used and pending cores of root.
    pub(crate) async fn used_and_pending(&self) -> (i64, i64) {
        let root = self.root().await;
        let vcore = |amount: &monoceros_rules::values::resources::Resources| {
            amount.sorted().first().map_or(0, |(_, quantity)| *quantity)
        };
        (vcore(&root.allocated_resource), vcore(&root.pending_resource))
    }

    /// Value of a counter, by its name and the value of its label.
    pub(crate) fn count(&self, name: &str, label: &str) -> f64 {
        let families = self.scheduler.metrics().gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = family.get_metric().iter().find(|metric| {
            metric.get_label().iter().all(|pair| pair.value() == label)
                || (label.is_empty() && metric.get_label().is_empty())
        });
        let metric = metric.unwrap();
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }
}

pub(crate) fn ask(app: &str, key: &str, vcore: i64) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: app.to_owned(),
        resource_ask: Some(resource(vcore)),
        ..Default::default()
    }
}

pub(crate) fn resource(vcore: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value: vcore })].into() }
}
