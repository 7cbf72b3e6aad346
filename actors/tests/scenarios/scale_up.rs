//! Scale-up signals: requests for which more nodes would help. An autoscaler buys nodes for them,
//! so a request is signalled once, and not at all if a quota or a user limit would block it on any
//! number of nodes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{
    PredicateAnswer, PredicateQuestion, Predicates, ReadError, ResourceManagerCallback, Scheduler,
    SchedulerHandle, Scope, Verdict,
};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::update_container_scheduling_state_request::SchedulingState;
use tokio::sync::Notify;

use crate::wire;
use crate::world::{ONE_LEAF, in_virtual_time, messages_to, register, send_lines};

/// Records the scale-up signals, message by message.
#[derive(Default)]
struct Autoscaler {
    received: Mutex<Vec<String>>,
    /// Number of refusals by predicates that are answered at once.
    refused: AtomicUsize,
    /// Whether predicates are not answered, which counts as a refusal.
    silent: AtomicBool,
    /// Wakes waiters for a signal.
    signalled: Notify,
}

impl ResourceManagerCallback for Autoscaler {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        if !args.allocation_key.starts_with("bad") {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::AcqRel);
        Err("refused".to_owned())
    }

    /// Answers at once, except for keys that begin with `mute`, which are never answered.
    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        for question in questions.into_iter().filter(|question| !question.key.starts_with("mute")) {
            let nodes = u32::try_from(question.nodes.len()).unwrap();
            let verdict = if self.silent.load(Ordering::Acquire) {
                Verdict::Presumed { reasons: vec![("no answer".to_owned(), nodes)] }
            } else if question.key.starts_with("bad") {
                Verdict::Failed { reasons: vec![("refused".to_owned(), nodes)] }
            } else {
                Verdict::Passed { position: 0, scope: Scope::Topology, assumed: false }
            };
            question.answers.answer(vec![PredicateAnswer { id: question.id, verdict }]);
        }
    }

    fn update_container_scheduling_state(
        &self,
        states: Vec<si::UpdateContainerSchedulingStateRequest>,
    ) {
        let keys: Vec<_> = states
            .into_iter()
            .map(|state| {
                assert_eq!(state.state(), SchedulingState::Failed);
                let refused = state.allocation_key.starts_with("bad");
                assert!(!refused || state.reason.contains("predicates refused"), "{state:?}");
                assert!(refused || state.reason.contains("no node has room"), "{state:?}");
                format!("{}/{}", state.application_id, state.allocation_key)
            })
            .collect();
        self.received.lock().unwrap().push(keys.join(" "));
        self.signalled.notify_one();
    }
}

pub(crate) struct World {
    pub(crate) scheduler: SchedulerHandle,
    rm: Arc<Autoscaler>,
}

impl World {
    /// Queues as in a script.
    pub(crate) async fn new(queues: &str) -> Self {
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        let rm = Arc::new(Autoscaler::default());
        let queues: Vec<_> = crate::script::Script::parse(queues)
            .0
            .into_iter()
            .map(|step| match step {
                crate::script::Step::Queue(queue) => queue,
                step => panic!("`{step}` is no queue"),
            })
            .collect();
        let config = if queues.is_empty() {
            ONE_LEAF.to_owned()
        } else {
            wire::configuration(None, &queues)
        };
        register(&scheduler, "rm", &config, rm.clone()).await;
        Self { scheduler, rm }
    }

    pub(crate) async fn send_lines(&self, text: &str) {
        send_lines(&self.scheduler, "rm", text).await;
    }

    /// Signals received within the next seconds.
    pub(crate) async fn received(&self, seconds: u64) -> Vec<String> {
        tokio::time::sleep(Duration::from_millis(seconds * 1000 + 10)).await;
        std::mem::take(&mut *self.rm.received.lock().unwrap())
    }

    /// Number of refusals by predicates within the next seconds.
    pub(crate) async fn refused(&self, seconds: u64) -> usize {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.rm.refused.swap(0, Ordering::AcqRel)
    }

    /// Switches answers of predicates off, which counts as refusals, or on again.
    pub(crate) fn be_silent(&self, silent: bool) {
        self.rm.silent.store(silent, Ordering::Release);
    }

    /// Outstanding requests as keys with the number of allocations; for members without a request,
    /// the task group.
    pub(crate) async fn outstanding(&self, limit: usize) -> Vec<String> {
        let requests = self.scheduler.outstanding_requests("rm", None, limit).await.unwrap();
        let name = |request: monoceros_actors::snapshot::OutstandingRequest| {
            // Members without a request have no key.
            let key = match request.key.as_str() {
                "" => format!("({})", request.task_group),
                key => key.to_owned(),
            };
            format!("{}/{key} x{}", request.application, request.count)
        };
        requests.into_iter().map(name).collect()
    }

    /// Keys of the application's requests, in order, for which a scale-up was signalled.
    async fn notified(&self, application: &str) -> Vec<String> {
        let found = self.scheduler.application("[rm]default", application).await.unwrap().unwrap();
        let notified = found.requests.into_iter().filter(|request| request.triggered_scale_up);
        notified.map(|request| request.allocation_key).collect()
    }
}

const NOTHING: Vec<String> = Vec::new();

#[test]
fn a_fitting_request_is_signalled_once_after_a_second() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.default\nask a1 k1 vcore=2").await;
        assert_eq!(world.received(0).await, NOTHING);
        assert_eq!(world.received(1).await, ["a1/k1"]);
        assert_eq!(world.received(60).await, NOTHING);
        world.send_lines("node n2 vcore=1\nask a1 k2 vcore=2\nask a1 k3 x2 vcore=2").await;
        assert_eq!(world.received(1).await, ["a1/k2 a1/k3"], "in one message");
        assert_eq!(world.received(60).await, NOTHING);
        assert_eq!(world.outstanding(9).await, ["a1/k1 x1", "a1/k2 x1", "a1/k3 x2"]);
    });
}

/// Asks of each of 300 applications: together more than twice as many as one step reads.
const N_EACH: usize = 30;

/// Asks of an application that fit no node, `k0` and so on.
fn asks(application: &str, n_asks: usize) -> String {
    let mut text = String::new();
    for number in 0..n_asks {
        let _ = writeln!(text, "ask {application} k{number} vcore=2");
    }
    text
}

/// The keys of [`asks`], as they are signalled.
fn keys_of(application: &str, n_asks: usize) -> Vec<String> {
    (0..n_asks).map(|number| format!("{application}/k{number}")).collect()
}

/// The requests of some messages, in order.
fn words(received: &[String]) -> Vec<&str> {
    received.iter().flat_map(|message| message.split(' ')).collect()
}

/// Asserts that exactly these were signalled, in this order. Shows the first difference.
fn assert_signalled(received: &[&str], expected: &[String]) {
    let differs = received.iter().zip(expected).find(|(received, expected)| received != expected);
    assert_eq!((differs, received.len()), (None, expected.len()));
}

/// More than one step signals, and more applications than one step visits.
#[test]
fn many_requests_are_signalled_in_several_steps() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1").await;
        let mut expected = Vec::new();
        for number in 0..300 {
            let n_asks = if number == 7 { 4_000 } else { 2 };
            let application = format!("a{number:03}");
            let asks = asks(&application, n_asks);
            world.send_lines(&format!("app {application} in root.default\n{asks}")).await;
            expected.append(&mut keys_of(&application, n_asks));
        }
        let received = world.received(2).await;
        assert!(received.len() > 2, "in {} messages", received.len());
        assert_signalled(&words(&received), &expected);
        assert_eq!(world.received(60).await, NOTHING);
        world.send_lines("ask a000 late vcore=2").await;
        assert_eq!(world.received(1).await, ["a000/late"]);
    });
}

/// A scan of several steps has sent its first signals when an application and found requests are
/// removed, another application takes the slot of the removed one, and others are added. The
/// removed ones would have been signalled in the last step.
#[test]
fn changes_between_steps_are_signalled_at_most_once() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1").await;
        for number in 0..300 {
            let asks = asks(&format!("a{number:03}"), N_EACH);
            world.send_lines(&format!("app a{number:03} in root.default\n{asks}")).await;
        }
        let meddle = async {
            world.rm.signalled.notified().await;
            // Concurrently, so that all changes arrive before the next steps are over.
            tokio::join!(
                world.send_lines("remove-app a290 &"),
                world.send_lines("withdraw a291 k3 &"),
                world.send_lines("withdraw a292 * &"),
                world.send_lines("app z in root.default &\nask z k vcore=2 &"),
                world.send_lines("ask a000 late vcore=2 &"),
                world.send_lines("ask a299 late vcore=2 &"),
            );
        };
        let (mut received, ()) = tokio::join!(world.received(1), meddle);
        assert!(received.len() > 2, "in {} messages", received.len());
        received.extend(world.received(2).await);
        let mut received = words(&received);
        received.sort_unstable();
        let mut expected = Vec::new();
        for number in (0..300).filter(|number| ![290, 292].contains(number)) {
            expected.extend(keys_of(&format!("a{number:03}"), N_EACH));
        }
        expected.retain(|notified| notified != "a291/k3");
        expected.extend(["a000/late", "a299/late", "z/k"].map(str::to_owned));
        expected.sort_unstable();
        assert_signalled(&received, &expected);
        assert_eq!(world.received(60).await, NOTHING);
    });
}

/// More applications than one step visits share a maximum: exactly the requests that it allows are
/// signalled, in whichever step they are found.
#[test]
fn below_one_maximum_the_first_applications_are_signalled() {
    in_virtual_time(async {
        let world = World::new("queue root.p max vcore=1000\nqueue root.p.a\nqueue root.p.b").await;
        world.send_lines("node n1 vcore=1").await;
        let mut expected = Vec::new();
        for number in 0..700 {
            let leaf = if number % 7 == 0 { "root.p.b" } else { "root.p.a" };
            world
                .send_lines(&format!("app a{number:03} in {leaf}\nask a{number:03} k vcore=2 &"))
                .await;
            // Asks of the first leaf come first: all 600 of them ask for more than the maximum.
            if leaf == "root.p.a" && expected.len() < 500 {
                expected.push(format!("a{number:03}/k"));
            }
        }
        let received = world.received(2).await;
        assert_signalled(&words(&received), &expected);
        assert_eq!(world.received(60).await, NOTHING);
    });
}

/// More queues than one step visits. The partition is paused after the first signals, and continues
/// later.
#[test]
fn a_pause_between_steps_ends_the_scan() {
    in_virtual_time(async {
        let mut queues = String::new();
        for number in 0..300 {
            let _ = writeln!(queues, "queue root.q{number:03}");
        }
        let world = World::new(&queues).await;
        world.send_lines("node n1 vcore=1").await;
        let mut expected = Vec::new();
        for number in 0..300 {
            let asks = asks(&format!("a{number:03}"), N_EACH);
            world.send_lines(&format!("app a{number:03} in root.q{number:03}\n{asks}")).await;
            expected.append(&mut keys_of(&format!("a{number:03}"), N_EACH));
        }
        let control = world.scheduler.control("rm").await.unwrap();
        let hold = async {
            world.rm.signalled.notified().await;
            control.hold(true);
        };
        let (mut received, ()) = tokio::join!(world.received(2), hold);
        let n_told = words(&received).len();
        assert!(0 < n_told && n_told < expected.len(), "{n_told} of {}", expected.len());
        assert_eq!(world.received(60).await, NOTHING);
        control.hold(false);
        received.extend(world.received(3).await);
        assert_signalled(&words(&received), &expected);
    });
}

#[test]
fn a_reserving_request_is_signalled_once() {
    in_virtual_time(async {
        let world = World::new("").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        world
            .send_lines("node n1 vcore=2\napp a1 in root.default\nexists a1 e1 on n1 vcore=1")
            .await;
        world.send_lines("node n2 vcore=8 drained\nask a1 k1 vcore=2 created=1").await;
        world.send_lines("ask a1 k2 vcore=2 node=n1").await;
        let nodes = world.scheduler.nodes("[rm]default").await.unwrap();
        assert_eq!(nodes[0].reservations, ["k2"], "it took the node from k1");
        assert_eq!(world.received(1).await, ["a1/k1"], "the other one may use no other node");
        assert_eq!(world.received(60).await, NOTHING);
        assert_eq!(world.outstanding(9).await, ["a1/k1 x1"]);
        world.send_lines("release a1 uuid=e1").await;
        let nodes = world.scheduler.nodes("[rm]default").await.unwrap();
        assert_eq!(nodes[0].reservations, ["k1"], "k2 runs there");
        assert_eq!(world.received(60).await, NOTHING);
        assert_eq!(world.outstanding(9).await, ["a1/k1 x1"], "more machines would still help");
    });
}

#[test]
fn requests_share_the_rest_of_the_quota() {
    in_virtual_time(async {
        let world =
            World::new("queue root.a max vcore=5\nqueue root.a.x\nqueue root.a.y max vcore=2")
                .await;
        world
            .send_lines(
                "node n1 vcore=1\napp a1 in root.a.x\napp a2 in root.a.x\napp a3 in root.a.y",
            )
            .await;
        world
            .send_lines(
                "ask a1 k1 vcore=2\nask a2 k2 vcore=2\nask a2 k3 vcore=2\nask a3 k4 vcore=3",
            )
            .await;
        assert_eq!(world.received(1).await, ["a1/k1 a2/k2"], "k3 and k4 do not fit beside them");
        world.send_lines("withdraw a1 k1").await;
        assert_eq!(world.received(1).await, ["a2/k3"]);
        assert_eq!(world.outstanding(9).await, ["a2/k2 x1", "a2/k3 x1"]);
    });
}

#[test]
fn applications_share_the_rest_of_the_user_limit() {
    in_virtual_time(async {
        let queues = "queue root limit users=ann vcore=4\nqueue root.a\nqueue root.b";
        let world = World::new(queues).await;
        let apps =
            "app a1 in root.a user ann\napp a2 in root.b user ann\napp b1 in root.b user bob";
        world.send_lines(&format!("node n1 vcore=1\n{apps}")).await;
        world.send_lines("ask a1 k1 vcore=3\nask a2 k2 vcore=2\nask b1 k3 vcore=9").await;
        assert_eq!(world.received(1).await, ["a2/k2 b1/k3"], "k1 does not fit beside k2");
        world.send_lines("withdraw a2 k2\nask a2 k4 vcore=5").await;
        assert_eq!(world.received(1).await, ["a1/k1"], "k4 does not fit at all, and was not tried");
        assert_eq!(world.outstanding(9).await, ["b1/k3 x1", "a1/k1 x1"]);
    });
}

#[test]
fn a_request_for_one_node_is_not_signalled() {
    in_virtual_time(async {
        let world = World::new("queue root.a max vcore=5").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.a").await;
        world.send_lines("ask a1 k1 vcore=4 node=n1\nask a1 k2 vcore=2").await;
        assert_eq!(world.received(9).await, NOTHING, "k1 is not told of and takes its share");
        assert_eq!(world.outstanding(9).await, NOTHING);
    });
}

/// With only a part of the nodes that the gang needs, none of its members would run.
#[test]
fn a_declared_gang_is_signalled_as_a_whole() {
    in_virtual_time(async {
        let world = World::new("queue root.a max vcore=9").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.a needs w x3 vcore=2").await;
        world.send_lines("app a2 in root.a needs d x1 vcore=1 needs w x2 vcore=2").await;
        world.send_lines("app a3 in root.a needs w x3 vcore=1").await;
        assert_eq!(
            world.outstanding(9).await,
            ["a1/(w) x3", "a3/(w) x3"],
            "the queue has 3 left beside a1, and a2 wants 5"
        );
        assert_eq!(world.received(9).await, NOTHING, "of what no RM has asked for none is told");
        world.send_lines("ask a1 k1 vcore=2 group=w\nask a1 k2 x2 vcore=2 group=w").await;
        world.send_lines("ask a2 k1 vcore=1 group=d\nask a2 k2 vcore=1").await;
        assert_eq!(world.received(9).await, ["a1/k1 a1/k2"], "k2 of a2 waits for its gang");
        assert_eq!(world.outstanding(9).await, ["a1/k1 x1", "a1/k2 x2", "a3/(w) x3"]);
        // An application with more asks than its gang needs is signalled for the needed ones.
        world.send_lines("ask a1 k2 x5 vcore=2 group=w").await;
        assert_eq!(world.outstanding(9).await, ["a1/k1 x1", "a1/k2 x2", "a3/(w) x3"]);
        world.send_lines("remove-app a1").await;
        assert_eq!(world.received(9).await, ["a2/k1"]);
        assert_eq!(world.outstanding(9).await, ["a2/k1 x1", "a2/(w) x2", "a3/(w) x3"]);
    });
}

#[test]
fn a_request_shows_whether_it_was_signalled() {
    in_virtual_time(async {
        let world = World::new("queue root.a max vcore=9").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.a needs w x3 vcore=2").await;
        world.send_lines("ask a1 k1 vcore=2 group=w\nask a1 k2 vcore=9").await;
        assert_eq!(world.notified("a1").await, NOTHING);
        assert_eq!(world.received(1).await, ["a1/k1"]);
        assert_eq!(
            world.notified("a1").await,
            ["k1"],
            "neither k2 nor what is asked for internally"
        );
    });
}

/// A member that is refused by nodes, or finds no capacity on them, requests no node: its
/// placeholder has a place already.
#[test]
fn a_member_waiting_for_a_place_requests_no_node() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.default gang vcore=3").await;
        world.send_lines("ask a1 p1 vcore=1 placeholder=tg\nask a1 bad vcore=1 group=tg").await;
        assert_eq!(world.received(9).await, NOTHING);
        assert_eq!(world.outstanding(9).await, NOTHING);
        world.send_lines("ask a1 p2 vcore=2 placeholder=tg").await;
        assert_eq!(world.received(1).await, ["a1/p2"], "a placeholder asks like any other");
        // Without a usable placeholder it is a request like any other.
        world.send_lines("withdraw a1 p2\nrelease a1 uuid=p1").await;
        assert_eq!(world.received(1).await, ["a1/bad"]);
    });
}

#[test]
fn a_request_refused_everywhere_requests_a_node() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=9\napp a1 in root.default\nask a1 bad vcore=1").await;
        assert_eq!(world.received(1).await, ["a1/bad"]);
    });
}

#[test]
fn an_unanswered_question_requests_no_node() {
    in_virtual_time(async {
        let world = World::new("").await;
        let control = world.scheduler.control("rm").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        world.send_lines("node n1 vcore=9\nnode n2 vcore=9\napp a1 in root.default").await;
        world.send_lines("ask a1 bad vcore=1\nask a1 huge vcore=10").await;
        // Refusals arrive question by question: `bad` is known to fit nowhere after its first
        // retry.
        assert_eq!(world.received(9).await, ["a1/huge", "a1/bad"]);
        // The world does not settle while a question is open.
        let ask = crate::script::Script::parse("ask a1 mute vcore=1").0.pop();
        let Some(crate::script::Step::Send { items, .. }) = ask else { panic!("a message") };
        let wire::Message::Allocation(request) = wire::message("rm", &items) else { panic!() };
        world.scheduler.update_allocation(request).await.unwrap();
        assert_eq!(world.received(9).await, NOTHING);
        control.set_predicates(Predicates::Hold);
        assert_eq!(world.received(9).await, NOTHING);
        control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        assert_eq!(world.received(9).await, NOTHING);
        control.set_predicates(Predicates::Local);
        assert_eq!(world.received(9).await, NOTHING, "and there is room for it");
        let range = world.scheduler.events().range(0, 99);
        let texts: Vec<_> = range.records.iter().filter(|event| event.object_id == "bad").collect();
        assert!(texts[0].message.ends_with("refused (2x);"), "{}", texts[0].message);
    });
}

#[test]
fn a_presumed_refusal_requests_no_node() {
    in_virtual_time(async {
        let world = World::new("queue root.a max vcore=5").await;
        world
            .send_lines("node n1 vcore=9\nnode n2 vcore=9\napp a1 in root.a\nask a1 k1 vcore=4")
            .await;
        let control = world.scheduler.control("rm").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        // Tried, and over its quota; by the time it fits, predicates are not answered.
        world.send_lines("ask a1 bad vcore=2").await;
        assert_eq!(world.received(9).await, NOTHING);
        world.be_silent(true);
        world.send_lines("release a1 key=k1\nask a1 k2 vcore=1\nask a1 many x2 vcore=1").await;
        assert_eq!(world.received(60).await, NOTHING);
        assert_eq!(world.outstanding(9).await, NOTHING);
        let texts = world.scheduler.events().range(0, 99).records;
        let texts: Vec<_> = texts.iter().filter(|event| event.object_id == "k2").collect();
        assert!(texts.iter().any(|text| text.message.ends_with("no answer (2x);")), "{texts:?}");
        // The request is tried again as after a refusal, and now a predicate refuses.
        world.be_silent(false);
        assert_eq!(world.received(600).await, ["a1/bad"]);
        assert_eq!(world.outstanding(9).await, ["a1/bad x1"]);
    });
}

#[test]
fn a_blocked_application_requests_no_node() {
    in_virtual_time(async {
        let world = World::new("queue root.a maxapps=1").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.a\nask a1 k1 vcore=1").await;
        world.send_lines("app a2 in root.a\nask a2 k2 vcore=1").await;
        assert_eq!(world.received(9).await, NOTHING);
        world.send_lines("ask a2 k3 vcore=9").await;
        assert_eq!(world.received(9).await, NOTHING);
        world.send_lines("release a1 key=k1").await;
        assert_eq!(world.received(9).await, ["a2/k3"]);
        let range = world.scheduler.events().range(0, 999);
        let of_a2 = range.records.iter().filter(|record| record.object_id == "a2");
        let details: Vec<_> =
            of_a2.map(|record| record.event_change_detail().as_str_name()).collect();
        assert_eq!(
            details,
            [
                "APP_NEW",
                "APP_ACCEPTED",
                "APP_REQUEST",
                "APP_CANNOTRUN_QUEUE",
                "APP_REQUEST",
                "APP_RUNNABLE_QUEUE",
                "APP_RUNNING",
                "APP_ALLOC"
            ]
        );
    });
}

/// Ada has 4 left, and root.b comes first; a request above the rest of her limits is never tried.
#[test]
fn requests_stay_within_user_limits_over_all_queues() {
    in_virtual_time(async {
        let world = World::new(
            "queue root limit users=ada vcore=5
             queue root.a limit users=ada vcore=3
             queue root.b",
        )
        .await;
        world.send_lines("node n1 vcore=1\napp a1 in root.a\nask a1 k1 vcore=1 prio=1").await;
        world.send_lines("ask a1 k2 x9 vcore=1\nask a1 k3 vcore=3").await;
        world.send_lines("app b1 in root.b\nask b1 k1 x9 vcore=1\nask b1 k2 vcore=5").await;
        assert_eq!(world.outstanding(9).await, ["b1/k1 x4"]);
        assert_eq!(world.received(9).await, ["b1/k1"]);
    });
}

#[test]
fn an_application_in_back_off_requests_no_node() {
    in_virtual_time(async {
        let world = World::new("queue root.a prop application.unschedasks.backoff=2").await;
        world
            .send_lines("node n1 vcore=1 ; node n2 vcore=1 ; node n3 vcore=1\napp a1 in root.a")
            .await;
        world.send_lines("ask a1 k1 vcore=2 ; ask a1 k2 x3 vcore=2 ; ask a1 k3 vcore=2").await;
        assert_eq!(world.received(1).await, ["a1/k1 a1/k2"], "k3 is like them, and was not tried");
        assert_eq!(world.outstanding(9).await, ["a1/k1 x1", "a1/k2 x3"]);
        world.send_lines("ask a1 k4 vcore=1").await;
        assert_eq!(world.received(100).await, NOTHING, "nor was it after the first back-off");
        world.send_lines("withdraw a1 k1").await;
        assert_eq!(world.received(31).await, ["a1/k3"]);
    });
}

#[test]
fn a_paused_partition_signals_afterwards() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.default\nask a1 k1 vcore=2").await;
        let control = world.scheduler.control("rm").await.unwrap();
        control.hold(true);
        assert_eq!(world.received(9).await, NOTHING);
        assert_eq!(world.outstanding(9).await, NOTHING);
        control.hold(false);
        assert_eq!(world.received(2).await, ["a1/k1"]);
    });
}

#[test]
fn outstanding_requests_are_complete_and_bounded() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.default").await;
        world.send_lines("ask a1 k1 vcore=2 created=5 prio=1\nask a1 k2 vcore=2").await;
        let all = world.scheduler.outstanding_requests("rm", Some("default"), 9).await.unwrap();
        let first = &all[0];
        assert_eq!((first.partition.as_str(), first.queue.as_str()), ("default", "root.default"));
        assert_eq!(first.resource.to_string(), "map[vcore:2]");
        assert_eq!(first.tags["creationTime"], "5");
        assert_eq!(first.pending_since_ns, 5_000_000_000);
        assert_eq!(world.outstanding(1).await, ["a1/k1 x1"]);
        assert_eq!(world.received(1).await, ["a1/k1 a1/k2"], "asking is not telling");
        for (rm, partition) in [("rm", Some("other")), ("other", None)] {
            let answer = world.scheduler.outstanding_requests(rm, partition, 9).await;
            assert!(matches!(answer, Err(ReadError::PartitionNotFound(_))));
        }
    });
}

/// There are more applications, and in one of them more requests of several sizes, than one slice
/// reads.
#[test]
fn a_long_list_of_requests_is_complete_and_ordered() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=1").await;
        let mut wanted = Vec::new();
        for number in 0..200 {
            let mut text = vec![format!("app a{number:03} in root.default")];
            let asks = if number == 70 { 1_300 } else { 1 };
            for ask in 0..asks {
                // Three sizes, so that slices end within one of them and between them.
                let size = 2 + ask / 500;
                text.push(format!("ask a{number:03} k{ask:04} vcore={size} x2 created=0"));
                wanted.push(format!("a{number:03}/k{ask:04} x2"));
            }
            world.send_lines(&text.join("\n")).await;
        }
        assert_eq!(world.outstanding(usize::MAX).await, wanted);
        assert_eq!(world.outstanding(700).await, wanted[..700]);
    });
}

/// Messages to applications between one more request and its signal, while `waiting` others are
/// pending that were signalled before.
async fn messages_of_one_more(queues: &str, waiting: usize) -> u64 {
    let world = World::new(queues).await;
    let mut text = "node n1 vcore=1\n".to_owned();
    for number in 0..=waiting {
        let queue = if number % 2 == 0 { "root.a" } else { "root.b" };
        writeln!(text, "app a{number} in {queue} user u{number}").unwrap();
    }
    for number in 0..waiting {
        writeln!(text, "ask a{number} k vcore=2").unwrap();
    }
    world.send_lines(&text).await;
    world.received(9).await;
    let before = messages_to(&world.scheduler, "application");
    world.send_lines(&format!("ask a{waiting} k vcore=2")).await;
    assert_eq!(world.received(9).await, [format!("a{waiting}/k")]);
    messages_to(&world.scheduler, "application") - before
}

#[test]
fn signalled_requests_are_not_visited_again() {
    let of = |queues: &'static str| {
        [4, 60].map(|waiting| in_virtual_time(messages_of_one_more(queues, waiting)))
    };
    let [few, many] = of("queue root.a\nqueue root.b max vcore=1000");
    assert_eq!(few, many, "a0 and its like are in root.a, without a maximum");
    let [few, many] = of("queue root.a max vcore=1000\nqueue root.b");
    assert!(many >= few + 28, "{few} messages for 4, {many} for 60: each in root.a has its part");
    let [few, many] = of("queue root limit users=* vcore=9\nqueue root.a\nqueue root.b");
    assert!(many >= few + 56, "{few} messages for 4, {many} for 60: all may be of one user");
}
