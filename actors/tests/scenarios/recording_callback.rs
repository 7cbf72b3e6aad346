//! A callback that records the notifications of the scheduler one by one. There is no cluster
//! behind it: a script decides how its predicates answer.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

use monoceros_actors::tags::HELD_AGAIN;
use monoceros_actors::{
    Assumed, Elsewhere, PredicateAnswer, PredicateQuestion, Preferences, ResourceManagerCallback,
    Scope, Verdict,
};
use monoceros_proto::si::v1 as si;

use crate::assuming::Counted;
use crate::script::kind_name;

/// One notification of the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Notification {
    AppAccepted(String),
    AppRejected(String, String),
    AppUpdated(si::UpdatedApplication),
    Allocated(si::Allocation),
    Released(si::AllocationRelease),
    /// The scheduler ends an ask.
    AskReleased(si::AllocationAskRelease),
    /// In `rejected`.
    AskRejected(si::RejectedAllocationAsk),
    /// In `rejectedAllocations`.
    AllocationRejected(si::RejectedAllocation),
    NodeAccepted(String),
    NodeRejected(String, String),
    Resync(String),
}

/// The code at the end of a reason.
fn code(reason: &str) -> &str {
    let code = reason.rsplit_once('[').and_then(|(_, code)| code.strip_suffix(']'));
    code.unwrap_or(reason)
}

/// Formats an allocation: its application and UUID, with the key if that differs; the key alone if
/// there is no UUID, as in the present form.
fn name(app: &str, key: &str, uuid: &str) -> String {
    if uuid.is_empty() || key == uuid {
        format!("{app}/{key}")
    } else {
        format!("{app}/{uuid} of {key}")
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AppAccepted(id) | Self::NodeAccepted(id) => write!(f, "{id} accepted"),
            Self::AppRejected(id, reason) | Self::NodeRejected(id, reason) => {
                write!(f, "{id} rejected: {}", code(reason))
            }
            Self::AppUpdated(app) if app.message == HELD_AGAIN => {
                write!(f, "{}: {HELD_AGAIN}", app.application_id)
            }
            Self::AppUpdated(app) => write!(f, "{} is {}", app.application_id, app.state),
            Self::Allocated(new) => {
                let name = name(&new.application_id, &new.allocation_key, &new.uuid);
                write!(f, "{name} placed on {}", new.node_id)
            }
            Self::Released(gone) => {
                let name = name(&gone.application_id, &gone.allocation_key, &gone.uuid);
                write!(f, "{name} released: {}", kind_name(gone.termination_type))
            }
            Self::AskReleased(gone) => {
                let (app, key) = (&gone.application_id, &gone.allocation_key);
                write!(f, "ask {app}/{key} released: {}", kind_name(gone.termination_type))
            }
            Self::AskRejected(ask) => {
                let (app, key) = (&ask.application_id, &ask.allocation_key);
                write!(f, "ask {app}/{key} rejected: {}", code(&ask.reason))
            }
            Self::AllocationRejected(ask) => {
                let (app, key) = (&ask.application_id, &ask.allocation_key);
                write!(f, "allocation {app}/{key} rejected: {}", code(&ask.reason))
            }
            Self::Resync(cause) => write!(f, "resync required: {cause}"),
        }
    }
}

/// Answers of a predicate other than acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Refuses,
    Panics,
    /// Refuses the next time, and accepts the time after.
    Wavers,
    /// Accepts the next time, and refuses the time after.
    WaversBack,
}

/// The answers of predicates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Predicates {
    /// Answers by key and node; `*` is any. A key `reserve:KEY` applies to reservations only,
    /// `allocate:KEY` to all other questions.
    pub(crate) answers: BTreeMap<(String, String), Answer>,
    /// Preferences of asks by key and node: the score, and whether it applies among all nodes.
    pub(crate) preferred: BTreeMap<(String, String), (i64, bool)>,
    /// Percentage of refused pairs, and the seed.
    pub(crate) some: Option<(u8, u64)>,
    /// Whether later answers are random: their scope, whether the RM assumes them, and sometimes no
    /// answer.
    pub(crate) dice: bool,
    /// Whether allocations of one kind, among those counted, exclude each other.
    pub(crate) apart: bool,
}

impl Predicates {
    fn answer(&mut self, key: &str, node: &str, allocate: bool) -> Option<Answer> {
        for (key_pattern, node_pattern) in [(key, node), (key, "*"), ("*", node), ("*", "*")] {
            let answers = self.answers.get_mut(&(key_pattern.to_owned(), node_pattern.to_owned()));
            match answers {
                None => {}
                Some(answer @ Answer::Wavers) => {
                    *answer = Answer::WaversBack;
                    return Some(Answer::Refuses);
                }
                Some(answer @ Answer::WaversBack) => {
                    *answer = Answer::Wavers;
                    return None;
                }
                Some(answer) => return Some(*answer),
            }
        }
        let (percent, seed) = self.some?;
        let mut hasher = DefaultHasher::new();
        (key, node, seed).hash(&mut hasher);
        if !allocate {
            // A node may be refused for reservations and not for allocations, and vice versa.
            "reserve".hash(&mut hasher);
        }
        (hasher.finish() % 100 < u64::from(percent)).then_some(Answer::Refuses)
    }
}

/// Records all notifications of one session.
#[derive(Debug, Default)]
pub(crate) struct RecordingCallback {
    received: Mutex<Vec<Notification>>,
    predicates: Mutex<Predicates>,
    counted: Mutex<Counted>,
}

impl RecordingCallback {
    /// Returns the notifications since the last call.
    pub(crate) fn take(&self) -> Vec<Notification> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }

    /// The answers of predicates.
    pub(crate) fn predicates(&self) -> MutexGuard<'_, Predicates> {
        self.predicates.lock().unwrap()
    }

    /// The allocations that it counts as running.
    pub(crate) fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap()
    }

    /// Whether the allocation is compatible with those counted on the node, if that is checked. A
    /// placement that waits for a release passes.
    fn keeps_clear(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let mut counted = self.counted();
        if self.predicates().apart && args.allocate && !counted.is_clear(args) {
            return Err("something of its kind is there".to_owned());
        }
        counted.passes(args);
        Ok(())
    }

    fn record(&self, words: impl IntoIterator<Item = Notification>) {
        self.received.lock().unwrap().extend(words);
    }
}

impl ResourceManagerCallback for RecordingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        response.new.iter().for_each(|new| self.counted().receive(new));
        // Clients process the lists of a message in this order.
        self.record(response.new.into_iter().map(Notification::Allocated));
        self.record(response.rejected.into_iter().map(Notification::AskRejected));
        self.record(
            response.rejected_allocations.into_iter().map(Notification::AllocationRejected),
        );
        self.record(response.released.into_iter().map(Notification::Released));
        self.record(response.released_asks.into_iter().map(Notification::AskReleased));
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        let accepted = response.accepted.into_iter();
        self.record(accepted.map(|app| Notification::AppAccepted(app.application_id)));
        let rejected = response.rejected.into_iter();
        self.record(rejected.map(|app| Notification::AppRejected(app.application_id, app.reason)));
        self.record(response.updated.into_iter().map(Notification::AppUpdated));
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.record(
            response.accepted.into_iter().map(|node| Notification::NodeAccepted(node.node_id)),
        );
        let rejected = response.rejected.into_iter();
        self.record(rejected.map(|node| Notification::NodeRejected(node.node_id, node.reason)));
    }

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let (key, node) = (&args.allocation_key, &args.node_id);
        let kind = if args.allocate { "allocate" } else { "reserve" };
        let of_kind = (format!("{kind}:{key}"), node.clone());
        let answer = self.predicates().answers.get(&of_kind).copied();
        let answer = answer.or_else(|| self.predicates().answer(key, node, args.allocate));
        match answer {
            None => self.keeps_clear(args),
            Some(Answer::Panics) => panic!("the script panics"),
            Some(_) => Err("the script refuses".to_owned()),
        }
    }

    /// Refuses held places as often as other questions, and where a script refuses everything on a
    /// node.
    fn hold_predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        assert_eq!((&*args.allocation_key, args.allocate), ("", true));
        let key = format!("hold:{}/{}", args.application_id, args.task_group_name);
        let answer = self.predicates().answer(&key, &args.node_id, true);
        match answer {
            None => self.keeps_clear(args),
            Some(Answer::Panics) => panic!("the script panics"),
            Some(_) => Err("the script refuses".to_owned()),
        }
    }

    fn preferences(&self, allocation_key: &str) -> Preferences {
        let predicates = self.predicates();
        let its = predicates.preferred.iter().filter(|((key, _), _)| key == allocation_key);
        match its.map(|(_, (_, among_all))| *among_all).max() {
            None => Preferences::None,
            Some(false) => Preferences::AmongEqualNodes,
            Some(true) => Preferences::AmongAllNodes,
        }
    }

    fn preference(&self, args: &si::PredicatesArgs) -> i64 {
        let (key, node) = (args.allocation_key.clone(), args.node_id.clone());
        self.predicates().preferred.get(&(key, node)).map_or(0, |(by, _)| *by)
    }

    fn assumed(&self, what: &Assumed<'_>) {
        self.counted().assumes(what);
    }

    fn forgotten(&self, what: &Assumed<'_>) {
        self.counted().forgets(what);
    }

    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let mut args = si::PredicatesArgs { allocate: true, ..Default::default() };
        let mut answers = Vec::new();
        let sink = questions[0].answers.clone();
        for PredicateQuestion { id, application, key, group, nodes, allocate, .. } in questions {
            args.allocation_key = key.to_string();
            args.application_id = application.to_string();
            group.as_deref().unwrap_or_default().clone_into(&mut args.task_group_name);
            args.allocate = allocate;
            // A panic counts as a refusal, as it does during a placement.
            let position = nodes.iter().position(|node| {
                args.node_id = node.to_string();
                let asked = catch_unwind(AssertUnwindSafe(|| match group {
                    Some(_) => self.hold_predicates(&args),
                    None => ResourceManagerCallback::predicates(self, &args),
                }));
                matches!(asked, Ok(Ok(())))
            });
            let dice = self.predicates().dice.then_some(id.0.wrapping_mul(0x9e37_79b9) >> 16);
            let verdict = match (position, dice.unwrap_or(1)) {
                (_, dice) if dice % 8 == 0 => Verdict::Unanswered,
                (Some(position), dice) => {
                    let elsewhere =
                        Elsewhere { depends_on: vec![dice / 4 % 3], affects: vec![dice / 16 % 3] };
                    let scope = match dice % 4 {
                        0 => Scope::Node,
                        1 => Scope::Static,
                        2 => Scope::Topology,
                        _ => Scope::Elsewhere(Arc::new(elsewhere)),
                    };
                    Verdict::Passed { position, scope, assumed: dice % 2 == 0 }
                }
                (None, _) => Verdict::Failed { reasons: Vec::new() },
            };
            answers.push(PredicateAnswer { id, verdict });
        }
        sink.answer(answers);
    }

    fn resync_required(&self, cause: &str) {
        self.record([Notification::Resync(cause.to_owned())]);
    }
}
