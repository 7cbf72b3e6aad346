use std::fmt::Debug;
use std::sync::Mutex;

use monoceros_proto::si::v1 as si;
use monoceros_rules::applications::application::GangStyle;
use monoceros_rules::specs::ask::AskSpec;
use tokio::time::Instant;

use super::written::{read_again, wanted};
use super::*;
use crate::api::predicates::{PredicateQuestion, Scope};
use crate::mailbox::{Mailbox, Receive};
use crate::partition::{Chunk, Partition};
use crate::step::{Cause, Which};
use crate::{ResourceManagerCallback, Scheduler};

/// A callback that records every call.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Ear {
    fn hears(&self, what: &dyn Debug) {
        self.0.lock().unwrap().push(format!("{what:?}"));
    }
}

impl ResourceManagerCallback for Ear {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.hears(&response);
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        self.hears(&response);
    }
    fn update_node(&self, response: si::NodeResponse) {
        self.hears(&response);
    }
    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        for PredicateQuestion { id, application, key, nodes, .. } in questions {
            self.hears(&(id, application, key, nodes));
        }
    }
    fn cancel_predicates(&self, questions: Vec<QuestionId>) {
        self.hears(&questions);
    }
}

fn vcore(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

fn ask(key: &str, instances: u32) -> AskSpec {
    AskSpec { instances, ..AskSpec::new(key, vcore(1)) }
}

fn add(id: &str) -> Input {
    Input::Request(Request::AddApplication(Box::new(NewApplication {
        id: Arc::from(id),
        queue: String::new(),
        user: Arc::from("ada"),
        groups: Vec::new(),
        tags: Some(Arc::new([("namespace".to_owned(), "lab".to_owned())].into())),
        placeholder_ask: Resources::new(),
        task_groups: None,
        execution_timeout_ms: None,
        run_limit_ms: None,
        gang_style: GangStyle::Soft,
    })))
}

/// The inputs of an RM that sends an ask before its application, is asked for predicates in both
/// ways, has its configuration changed, and removes a node in the end.
fn history() -> Vec<Input> {
    let app: Arc<str> = Arc::from("app");
    let ops = |ops: Vec<Op>| Request::Application { id: Arc::clone(&app), ops };
    let node = |id: &str| {
        Request::CreateNode(Box::new(NewNode {
            id: Arc::from(id),
            attributes: BTreeMap::new(),
            total: vcore(4),
            occupied: Resources::new(),
            existing: Vec::new(),
            draining: false,
        }))
    };
    let passed = Verdict::Passed { position: 0, scope: Scope::Topology, assumed: true };
    let closed_to_all = "partitions: [{name: default, queues: [{name: root, submitacl: ''}]}]";
    let refused =
        RefusedItem::Node { id: Arc::from("n9"), reason: Rejection::NodeUnknown(Arc::from("n9")) };
    vec![
        Input::Control(Control::ReorderWindow(Duration::from_secs(10))),
        Input::Request(ops(vec![Op::Ask(Arc::new(ask("early", 1)))])),
        Input::Request(node("n1")),
        Input::Request(node("n2")),
        add("app"),
        Input::Control(Control::Predicates(Predicates::Remote { in_flight: 2, holds: false })),
        Input::Request(ops(vec![Op::Ask(Arc::new(ask("remote", 2)))])),
        Input::Answers(vec![(QuestionId(0), Some(passed)), (QuestionId(1), None)]),
        Input::Acknowledged(1),
        Input::Control(Control::Hold(true)),
        Input::Control(Control::Hold(false)),
        Input::Control(Control::Predicates(Predicates::Local)),
        Input::Prepare(Some(wanted(closed_to_all))),
        Input::Conclude(Conclude::Apply),
        add("late"),
        Input::State(ObjectState::Draining),
        Input::Request(node("n3")),
        Input::Request(Request::Refused(Box::new(refused))),
        Input::Request(ops(vec![Op::Release {
            which: Which::Key(Arc::from("early")),
            cause: Cause::Stopped,
            reason: None,
            had_waiting: false,
        }])),
        Input::Request(Request::RemoveNode(Arc::from("n1"))),
    ]
}

/// The time that the clocks show at first, ns since the epoch.
const EPOCH_NS: i64 = 7;

/// Hands these inputs to a new scheduler, each when the paused clock shows its time and the earlier
/// inputs have had all their effects. Returns the calls that its RM receives.
async fn heard_of(
    inputs: impl IntoIterator<Item = Stamped>,
    hand_in: impl Fn(&Mailbox<Partition>, Stamped),
) -> Vec<String> {
    let start = Instant::now();
    let scheduler = Scheduler::builder().epoch_ns(EPOCH_NS).start_local().unwrap();
    let ear = Arc::new(Ear::default());
    let request =
        si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
    scheduler
        .register_resource_manager(request, Arc::clone(&ear) as Arc<dyn ResourceManagerCallback>)
        .await
        .unwrap();
    let partition = scheduler.partition_entries()[0].mailbox.clone();
    for stamped in inputs {
        let passed = u64::try_from(stamped.at_ns - EPOCH_NS).unwrap();
        tokio::time::sleep_until(start + Duration::from_nanos(passed)).await;
        hand_in(&partition, stamped);
    }
    // Not a barrier, which would wait for open questions.
    tokio::time::sleep(Duration::from_millis(1)).await;
    scheduler.shutdown().await;
    std::mem::take(&mut *ear.0.lock().unwrap())
}

/// Hands an input in by the inbox, as the RM's session does. Each is a chunk of its own.
fn by_the_inbox(partition: &Mailbox<Partition>, Stamped { input, .. }: Stamped) {
    match input {
        Input::Conclude(conclusion) => partition.post(conclusion),
        input => partition.post(Chunk(vec![Entry::Input(input)])),
    }
}

/// An input with a recorded time, for `Partition::enter`, where every input takes effect.
#[derive(Message)]
#[rtype(result = "()")]
struct Recorded(Stamped);

impl Receive<Recorded> for Partition {
    fn receive(&mut self, Recorded(stamped): Recorded, ctx: &mut Context<Self>) {
        let mut baton = self.baton.take().expect("all that follows from the last one is done");
        self.enter(stamped, &mut baton);
        self.baton = Some(baton);
        self.turn(ctx);
    }
}

fn one_each_ms(inputs: Vec<Input>) -> Vec<Stamped> {
    let times = (EPOCH_NS..).step_by(1_000_000).skip(1);
    inputs.into_iter().zip(times).map(|(input, at_ns)| Stamped { at_ns, input }).collect()
}

#[tokio::test(start_paused = true)]
async fn the_same_inputs_at_the_same_times_come_to_the_same_notices() {
    let local = tokio::task::LocalSet::new();
    let both = local.run_until(async {
        let inputs = one_each_ms(history());
        let written: Vec<Stamped> = inputs.iter().map(read_again).collect();
        (heard_of(inputs, by_the_inbox).await, heard_of(written, by_the_inbox).await)
    });
    let (first, second) = both.await;
    let said = first.join("\n");
    for what in [
        "new: [Allocation {",
        "\"remote\", [\"n",
        "released: [AllocationRelease {",
        "[QuestionId(",
        "state_transition_timestamp: 5000007",
        "application `late`: no placement rule produced a usable queue",
    ] {
        assert!(said.contains(what), "`{what}` is among what is said: {said}");
    }
    assert_eq!(first, second);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_step_is_that_of_the_stamp_whatever_the_clock_shows() {
    const LATER_NS: i64 = 1_000_000_000_000;
    let local = tokio::task::LocalSet::new();
    let asks =
        Request::Application { id: Arc::from("app"), ops: vec![Op::Ask(Arc::new(ask("k", 1)))] };
    let inputs = one_each_ms(vec![add("app"), Input::Request(asks)]);
    let heard = heard_of(inputs, |partition, Stamped { at_ns, input }| {
        partition.post(Recorded(read_again(&Stamped { at_ns: at_ns + LATER_NS, input })));
    });
    let said = local.run_until(heard).await.join("\n");
    let accepted = "state: \"Accepted\", state_transition_timestamp: 1000002000007";
    assert!(said.contains(accepted), "{said}");
}
