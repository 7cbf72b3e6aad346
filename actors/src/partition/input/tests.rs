use std::fmt::Debug;
use std::sync::Mutex;

use monoceros_proto::si::v1 as si;
use monoceros_rules::work::asks::AskSpec;

use super::*;
use crate::api::predicates::{PredicateQuestion, Scope};
use crate::partition::Chunk;
use crate::step::{Cause, Which};
use crate::{ResourceManagerCallback, Scheduler, SchedulerHandle};

/// What can be kept, sent anywhere, and handed in again.
fn is_plain<T: Clone + Debug + Send + Sync + 'static>() {}

#[test]
fn an_input_is_plain_data() {
    is_plain::<Stamped>();
    is_plain::<Input>();
}

/// Writes down what it hears.
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

/// An RM that comes with everything in the wrong order, is asked for predicates, and leaves again.
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
    let refused =
        RefusedItem::Node { id: Arc::from("n9"), reason: Rejection::NodeUnknown(Arc::from("n9")) };
    vec![
        Input::Control(Control::ReorderWindow(Duration::from_secs(10))),
        Input::Request(ops(vec![Op::Ask(Arc::new(ask("early", 1)))])),
        Input::Request(node("n1")),
        Input::Request(node("n2")),
        Input::Request(Request::AddApplication(Box::new(NewApplication {
            id: Arc::clone(&app),
            queue: String::new(),
            user: Arc::from("ada"),
            groups: Vec::new(),
            tags: Some(Arc::new([("namespace".to_owned(), "lab".to_owned())].into())),
            placeholder_ask: Resources::new(),
        }))),
        Input::Control(Control::Predicates(Predicates::Remote { in_flight: 2 })),
        Input::Request(ops(vec![Op::Ask(Arc::new(ask("remote", 2)))])),
        Input::Answers(vec![(QuestionId(0), Some(passed)), (QuestionId(1), None)]),
        Input::Acknowledged(1),
        Input::Control(Control::Hold(true)),
        Input::Control(Control::Hold(false)),
        Input::Control(Control::Predicates(Predicates::Local)),
        Input::State(ObjectState::Draining),
        Input::Request(node("n3")),
        Input::Request(Request::Refused(refused)),
        Input::Request(ops(vec![Op::Release {
            which: Which::Key(Arc::from("early")),
            cause: Cause::Stopped,
        }])),
        Input::Request(Request::RemoveNode(Arc::from("n1"))),
    ]
}

async fn heard_of(inputs: Vec<Input>) -> Vec<String> {
    let scheduler = Scheduler::builder().epoch_ns(7).start_local().unwrap();
    let ear = Arc::new(Ear::default());
    let request =
        si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
    scheduler
        .register_resource_manager(request, Arc::clone(&ear) as Arc<dyn ResourceManagerCallback>)
        .await
        .unwrap();
    for input in inputs {
        hand_in(&scheduler, input).await;
    }
    scheduler.shutdown().await;
    std::mem::take(&mut *ear.0.lock().unwrap())
}

/// Each is a chunk of its own, and all that follows from it is done before the next.
async fn hand_in(scheduler: &SchedulerHandle, input: Input) {
    let entries = scheduler.partition_entries().await;
    entries[0].mailbox.post(Chunk(vec![Entry::Input(input)]));
    // The paused clock goes on when nothing is left to do; a barrier would wait for questions.
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_inputs_at_the_same_times_come_to_the_same_notices() {
    let local = tokio::task::LocalSet::new();
    let both = local.run_until(async {
        let inputs = history();
        let copies = inputs.clone();
        (heard_of(inputs).await, heard_of(copies).await)
    });
    let (first, second) = both.await;
    let said = first.join("\n");
    for what in
        ["new: [Allocation {", "\"remote\", [\"n", "released: [AllocationRelease {", "[QuestionId("]
    {
        assert!(said.contains(what), "`{what}` is among what is said: {said}");
    }
    assert_eq!(first, second);
}
