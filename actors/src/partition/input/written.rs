//! Tests that every input can be written to a file and read again.

use std::fmt::Debug;
use std::num::NonZeroU64;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::applications::application::GangStyle;
use monoceros_rules::asks::preemption::{NoPreemption, Stale};
use monoceros_rules::decide::preemption::{Answer, Chosen};
use monoceros_rules::nodes::Exclusion;
use monoceros_rules::specs::ask::{AskSpec, Preemption, TaskGroup};
use monoceros_rules::specs::declaration::{Declaration, Fault};
use monoceros_rules::specs::hold_again::HoldAgain;
use monoceros_rules::specs::identity::UserError;
use monoceros_rules::specs::quotas::{OverQuota, Quota};
use monoceros_rules::specs::rejection::Overflow;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use monoceros_rules::values::resources::NameHolder;
use serde::de::DeserializeOwned;

use super::*;
use crate::api::predicates::{Elsewhere, Scope};
use crate::step::{
    Cause, ClaimAnswer, DueOp, ForeignReport, GangOp, ManyEnd, NoVictims, PreemptionOp,
    ReservationOp, StartTime, Which,
};

/// Asserts at compile time that a type can be kept, sent anywhere, written, read and handed in
/// again.
fn is_plain<T: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static>() {}

#[test]
fn an_input_is_plain_data() {
    is_plain::<Stamped>();
    is_plain::<Input>();
}

/// Writes the input to text and reads it again.
pub(super) fn read_again(stamped: &Stamped) -> Stamped {
    serde_json::from_str(&serde_json::to_string(stamped).unwrap()).unwrap()
}

/// A value of every variant; a variant that is left out does not compile.
macro_rules! each {
    ($of:ident { $($variant:ident $(($($it:tt)*))? $({$($fields:tt)*})?),* $(,)? }) => {{
        let _ = |it: $of| match it { $($of::$variant { .. } => ()),* };
        vec![$($of::$variant $(($($it)*))? $({$($fields)*})?),*]
    }};
}

/// Returns the id of the allocation in this slot of the table. Only the table gives ids, so it is
/// deserialized.
fn allocation(slot: u32) -> AllocationId {
    serde_json::from_str(&format!(r#"{{"slot":{slot},"serial":3}}"#)).unwrap()
}

/// Returns the document of the last partition in the text.
pub(super) fn wanted(text: &str) -> PartitionDocument {
    let text = Arc::from(text);
    let read = monoceros_config::parse(&text).unwrap();
    PartitionDocument::new(&text, read.partitions.into_iter().last().unwrap())
}

fn rejections() -> Vec<Rejection> {
    let [id, key, partition, queue] = ["a", "k", "[rm]p", "root.q"].map(Arc::<str>::from);
    let id = || Arc::clone(&id);
    let mut rejections = each!(Rejection {
        ApplicationId("too long".into()),
        ApplicationExists(id()),
        PartitionOfApplication { id: id(), partition: "p".into() },
        PartitionOfAllocation { key: Arc::clone(&key), partition: "p".into() },
        PartitionOfNode { id: id(), partition: "p".into() },
        User { id: id(), why: UserError::Empty },
        Placement { id: id(), why: "no rule".into(), cause: "E_X".into() },
        NotLeaf { id: id(), queue: "root".into() },
        QueueCreate { id: id(), why: "no".into(), cause: "E_X".into() },
        GangSort { id: id(), queue: Arc::clone(&queue) },
        GangTooLarge { id: id(), queue: Arc::clone(&queue), ask: "a".into(), max: "m".into() },
        GangOverLimit { id: id(), whose: "user `a`".into(), queue, ask: "a".into(), max: "m".into() },
        GangDeclaration { id: id(), fault: Fault::Differ },
        GangPlaceholder { key: Arc::clone(&key), id: id() },
        PartitionStopped {
            what: "node".into(),
            id: id(),
            partition: Arc::clone(&partition),
            state: ObjectState::Stopped,
        },
        Key("missing".into()),
        ApplicationUnknown(id()),
        ApplicationState { id: id(), state: "Failed".into() },
        NoResource(Arc::clone(&key)),
        NegativePlaceholders(id()),
        NegativeResource(Arc::clone(&key)),
        Overflow { id: Arc::clone(&key), why: Overflow::Megabytes(9) },
        Repeat { key: Arc::clone(&key), repeat: -1, limit: 9 },
        PlaceholderWithoutGroup(Arc::clone(&key)),
        GroupName(Arc::clone(&key)),
        NodeUnknown(id()),
        NodeMissing("no \"node\"\n".into()),
        NodeInvalid { id: id(), why: "empty".into() },
        NodeExists { id: id(), partition },
        NodeAction { id: id(), action: 77 },
        Constraint { key, what: "a zone".into() },
        Names { id: id(), why: "too many".into() },
        OverQuota { id: id(), over: OverQuota { quota: Quota::Nodes, limit: 3 } },
        TextTooLong { id: id(), what: "its text".into(), limit: 3 },
    });
    let resource = || Arc::from("gpu");
    for why in each!(Overflow {
        Amount { resource: resource(), amount: 9 },
        Megabytes(9),
        Members(resource()),
        Sum { resource: resource(), amount: i64::MAX, held: 8, of: "held".into() },
    }) {
        rejections.push(Rejection::Overflow { id: id(), why });
    }
    let [user, why] = ["ada", "unknown"].map(str::to_owned);
    for why in each!(UserError { Empty, Resolve { user, why }, Name("a b".into()) }) {
        rejections.push(Rejection::User { id: id(), why });
    }
    rejections
}

/// Builds an ask with all optional values set.
fn full_ask() -> Arc<AskSpec> {
    let tags = [("tag".to_owned(), "\u{e9}\0\"".to_owned())];
    let spec = AskSpec {
        instances: u32::MAX,
        priority: i32::MIN,
        created_ns: Some(i64::MAX),
        originator: true,
        placeholder: true,
        tags: Some(Arc::new(tags.into())),
        ..AskSpec::new("k", Resources::of(&[("memory", i64::MAX), ("gpu", 0)]))
    };
    Arc::new(spec.with(|it| {
        it.required_node = Some(Arc::from("n"));
        it.task_group = Some(TaskGroup::new("group".to_owned()));
        it.execution_timeout_ms = NonZeroU64::new(5);
        it.run_time_limit_ms = NonZeroU64::new(6);
    }))
}

fn victim() -> Chosen {
    Chosen {
        victim: allocation(1),
        next: Some(allocation(2)),
        kinds: (2, 4),
        priorities: (-1, i64::from(i32::MAX)),
    }
}

fn held_places() -> HoldAgain {
    HoldAgain { since_ns: Some(4), places: vec![(TaskGroup::new("g".into()), 2)] }
}

/// Returns the orders that are grouped by their subject.
fn ops_by_subject() -> Vec<Op> {
    let text = || Arc::<str>::from("text");
    let gang = each!(GangOp {
        PlaceholdersOver,
        RetryPairs { retry: 3 },
        Declare,
        RetryBundle { retry: 3 },
        WakeBundle,
        HoldAgain(Box::new(held_places())),
        HoldAgainOver { order: 3 },
        SettleForLess,
        WithdrawBundle,
        AskMembers,
        BundleVoid { since_ns: 5 },
        EndHolds { group: TaskGroup::new("g".into()) },
        RoomsAreFree,
    });
    let preemption = each!(PreemptionOp {
        MayPreempt { at_ns: Some(6) },
        Preempted {
            ids: vec![allocation(1)],
            grounds: Arc::new(Grounds::Quota { queue: text() }),
            chosen: Arc::new(vec![victim()]),
        },
        NotPreempted {
            key: Some(text()),
            found: NoVictims {
                why: NoPreemption::Stale(Stale::Room),
                nodes_were_tried: true,
                changes: 3,
                bound_ends_ns: Some(4),
            },
        },
        Nominated { key: text(), node: text() },
        NominationEnded,
    });
    let reservation = each!(ReservationOp {
        WakeNamed(text()),
        WakeNamedByReturn(text()),
        Unreserved { key: text(), replaced: true },
        Suspended(text()),
        ReservationWaited(text()),
        Claimed { question: QuestionId(8), answer: ClaimAnswer::Passed },
    });
    let due = each!(DueOp {
        ChoiceOpens(text()),
        Retry { key: text(), retry: 1 },
        ExclusionOver { key: text(), over: Exclusion { node: text(), until_ns: 2 } },
        OldEnough { at_ns: 7 },
        BackoffOver { until_ns: i64::MIN },
        CompletingOver { since_ns: 1 },
        Overdue(allocation(3)),
        RunOver { until_ns: 9 },
        StartTimeOver(StartTime::Backoff { key: Some(text()), until_ns: 6 }),
    });
    let gang = gang.into_iter().map(Op::Gang);
    let preemption = preemption.into_iter().map(Op::Preemption);
    let reservation = reservation.into_iter().map(Op::Reservation);
    gang.chain(preemption).chain(reservation).chain(due.into_iter().map(Op::Due)).collect()
}

fn ops() -> Vec<Op> {
    let text = || Arc::<str>::from("text");
    let existing = Existing { spec: full_ask(), uuid: text(), node: text() };
    let mut ops = each!(Op {
        Ask(full_ask()),
        Unified(full_ask()),
        Existing(Box::new(existing)),
        Refused { spec: full_ask(), uuid: Some(text()), reason: Box::new(Rejection::NodeUnknown(text())) },
        WithdrawAsks(None),
        Release { which: Which::All, cause: Cause::Stopped, reason: None, had_waiting: true },
        EndMany(ManyEnd {
            ids: vec![allocation(4)],
            cause: Cause::Stopped,
            reason: Some(text()),
            are_all: true,
        }),
        Remove,
        Stranded(vec![allocation(1), allocation(2)]),
        GiveUp(vec![]),
        Invalidated(Arc::new(Invalidation { nodes: vec!["n".into()], ..Invalidation::default() })),
        Gang(GangOp::Declare),
        Preemption(PreemptionOp::NominationEnded),
        Reservation(ReservationOp::Suspended(text())),
        Due(DueOp::OldEnough { at_ns: 7 }),
    });
    ops.extend(ops_by_subject());
    for answer in each!(ClaimAnswer { Passed, Refused, None, Cancelled }) {
        ops.push(Op::Reservation(ReservationOp::Claimed { question: QuestionId(1), answer }));
    }
    let times = each!(StartTime {
        Backoff { key: None, until_ns: 5 },
        Holds { key: text(), times: 2 },
    });
    ops.extend(times.into_iter().map(|over| Op::Due(DueOp::StartTimeOver(over))));
    for which in each!(Which { Uuid(text()), Key(text()), All }) {
        ops.push(Op::Release { which, cause: Cause::Stopped, reason: None, had_waiting: true });
    }
    let causes = each!(Cause {
        Stopped,
        Failed,
        ConfirmedPreemption,
        ConfirmedReplacement,
        ConfirmedTimeout,
        SchedulingFailed,
        RefusedForGood,
    });
    ops.extend(causes.into_iter().map(|cause| Op::Release {
        which: Which::All,
        cause,
        reason: Some(text()),
        had_waiting: false,
    }));
    for form in each!(Form { Ask, Recovered, Unified, Internal }) {
        ops.push(Op::Ask(Arc::new(AskSpec { form, ..AskSpec::new("k", Resources::new()) })));
    }
    for preemption in each!(Preemption { Neither, Itself, Others, Both, Unsaid, UnsaidAndTagged }) {
        ops.push(Op::Ask(Arc::new(AskSpec { preemption, ..AskSpec::new("k", Resources::new()) })));
    }
    ops
}

/// Builds task groups with all optional values set.
fn gang() -> Declaration {
    let text = r#"[{"name": "w", "minMember": 2, "minResource": {"vcore": 1},
        "topology": {"required": "rack", "preferred": ["host"]}, "tags": {"k": "v"},
        "priority": -1, "preemptionPolicy": {}, "constraint": {"compositeConstraint": {
            "compositeType": "DELAYED_OR", "timedChildConstraints": [{"schedulingDelay": 1,
                "placementConstraint": {"simpleConstraint": {"allocationAffinityAttribute": {
                    "scope": "rack", "targetExpressions": [{"targetKey": "app"}]}}}}]}}},
        {"name": "d", "minMember": 1}]"#;
    monoceros_config::task_groups::parse(text, &NameHolder::default()).unwrap()
}

fn requests() -> Vec<Request> {
    let id = || Arc::<str>::from("id");
    let amount = || Resources::of(&[("gpu", 0), ("vcore", -1)]);
    let tags: Option<Tags> = Some(Arc::new([("k".to_owned(), "v".to_owned())].into()));
    let attributes = || BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    let foreign = |preemptable| ForeignReport {
        key: id(),
        resources: amount(),
        tags: tags.clone(),
        priority: -3,
        preemptable,
        created_ns: Some(5),
    };
    let mut requests = each!(Request {
        AddApplication(Box::new(NewApplication {
            id: id(),
            queue: "root.q".into(),
            user: Arc::from("ada"),
            groups: vec!["g".into()],
            tags: tags.clone(),
            placeholder_ask: amount(),
            task_groups: Some(Box::new(Ok(gang()))),
            execution_timeout_ms: NonZeroU64::new(7),
            run_limit_ms: NonZeroU64::new(8),
            gang_style: GangStyle::Hard,
        })),
        RemoveApplication(id()),
        Application { id: id(), ops: ops() },
        CreateNode(Box::new(NewNode {
            id: id(),
            attributes: attributes(),
            total: amount(),
            occupied: Resources::new(),
            existing: vec![(id(), Existing { spec: full_ask(), uuid: id(), node: id() })],
            draining: true,
        })),
        ChangeNode { id: id(), change: Box::new(NodeChange::Leave) },
        RemoveNode(id()),
        Foreign(Box::new(ForeignRequest { node: id(), report: foreign(true) })),
        ForeignGone(id()),
        Refused(Box::new(RefusedItem::Node {
            id: id(),
            reason: Rejection::NodeUnknown(id()),
        })),
    });
    let changes = each!(NodeChange {
        Update { total: Some(amount()), occupied: None, attributes: attributes() },
        Drain(false),
        Leave,
        Foreign(Box::new(foreign(false))),
        ForeignGone(id()),
    });
    requests.extend(
        changes
            .into_iter()
            .map(|change| Request::ChangeNode { id: id(), change: Box::new(change) }),
    );
    for reason in rejections() {
        let (form, key, application) = (Form::Unified, id(), id());
        let refused = each!(RefusedItem {
            Ask { form, key, application, reason: reason.clone() },
            Application { id: id(), queue: "root.q".into(), reason: reason.clone() },
            Node { id: id(), reason },
        });
        requests.extend(refused.into_iter().map(|item| Request::Refused(Box::new(item))));
    }
    requests
}

fn inputs() -> Vec<Input> {
    let [id, key, _node] = ["id", "k", "n"].map(Arc::<str>::from);
    let (id, _key) = (|| Arc::clone(&id), || Arc::clone(&key));
    let application = ApplicationSlot::at(7);
    let reasons = || vec![("full".to_owned(), 3)];
    let verdicts = each!(Verdict {
        Passed { position: 1, scope: Scope::Node, assumed: false },
        Failed { reasons: reasons() },
        Presumed { reasons: reasons() },
        Unanswered,
    });
    let mut answers: Vec<_> =
        verdicts.into_iter().map(|it| (QuestionId(u64::MAX), Some(it))).collect();
    let elsewhere = Elsewhere { depends_on: vec![u64::MAX], affects: vec![1, 2] };
    let elsewhere = Arc::new(elsewhere);
    for scope in each!(Scope { Topology, Elsewhere(elsewhere), Node, Static }) {
        answers.push((QuestionId(1), Some(Verdict::Passed { position: 0, scope, assumed: true })));
    }
    answers.push((QuestionId(2), None));
    let text = "partitions: [{name: a, queues: [{name: root}]}, {name: b, queues: [{name: root, \
                queues: [{name: q, resources: {max: {vcore: 1, gpu: 0}}, limits: [{limit: all, \
                users: ['*'], maxapplications: 1}]}]}]}]";
    let mut inputs = each!(Input {
        Request(Request::RemoveNode(id())),
        Unfinished(application, vec![Op::Remove]),
        Answers(answers),
        PreemptionAnswers(QuestionId(7), vec![Answer::Fits(-1), Answer::Refused]),
        Control(Control::Hold(true)),
        Alarm(Alarm::ScaleUp),
        Acknowledged(usize::MAX),
        State(ObjectState::Active),
        Prepare(Some(wanted(text))),
        Conclude(Conclude::Apply),
    });
    inputs.push(Input::Prepare(None));
    inputs.extend(requests().into_iter().map(Input::Request));
    let controls = each!(Control {
        Hold(false),
        Predicates(Predicates::Hold),
        Invalidate(Invalidation { keys: vec!["k".into()], all: true, ..Invalidation::default() }),
        ReorderWindow(Duration::MAX),
        ReorderItems(5),
        StrictEnums(true),
        Elsewhere(Held { asks: 1, bytes: 2, ..Held::default() }),
    });
    inputs.extend(controls.into_iter().map(Input::Control));
    let ways = each!(Predicates { Local, Remote { in_flight: 4, holds: true }, Hold });
    inputs.extend(ways.into_iter().map(|way| Input::Control(Control::Predicates(way))));
    let order = Box::new(Op::Gang(GangOp::PlaceholdersOver));
    let alarms = each!(Alarm {
        Order { application, id: id(), op: order },
        NominationsWaited,
        QuotaScan { at_ns: 7 },
        ScaleUp,
        CleanQueues,
        Retention,
        ReorderWindow,
        ExecutionTimeout { allocation: allocation(4) },
        ReservationsWaited,
    });
    inputs.extend(alarms.into_iter().map(Input::Alarm));
    inputs.extend(each!(ObjectState { Active, Draining, Stopped }).into_iter().map(Input::State));
    inputs.extend(each!(Conclude { Apply, Forget }).into_iter().map(Input::Conclude));
    inputs
}

#[test]
fn every_input_that_was_written_reads_the_same() {
    for (input, at_ns) in inputs().into_iter().zip(-1..) {
        let stamped = Stamped { at_ns, input };
        assert_eq!(format!("{:?}", read_again(&stamped)), format!("{stamped:?}"));
    }
}

#[test]
fn a_configuration_that_does_not_say_what_it_must_is_not_read() {
    let read = |text: &str, partition: &str| {
        let json = serde_json::json!({ "text": text, "partition": partition });
        serde_json::from_value::<PartitionDocument>(json)
            .map(|wanted| wanted.config.name.to_string())
    };
    let text = "partitions: [{name: a, queues: [{name: root}]}]";
    assert_eq!(read(text, "a").unwrap(), "a");
    assert_eq!(read(text, "b").unwrap_err().to_string(), "the text has no partition `b`");
    assert!(read("partitions: 1", "a").is_err());
}
