//! The kinds of events, and an event as the record that leaves. The catalogue for readers is
//! `docs/events.md`.
//!
//! # Why two forms
//! An [`Event`] is made where something happens and holds names and amounts that exist anyway. Most
//! events are never read, so texts and protobuf are made by [`Event::record`], for whoever reads
//! it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::event_record::{ChangeDetail as Detail, ChangeType as Change, Type};
use monoceros_rules::allocations::Grounds;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::gang::Lacking;
use monoceros_rules::applications::resource_seconds::Account;
use monoceros_rules::asks::failed_starts::NotStarted;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::instant;
use monoceros_rules::values::resources::{Limits, Resources};
use monoceros_rules::values::text::beginning;

use crate::api::told::resource;

/// The longest message of an event, in bytes.
const MESSAGE_BYTES: usize = 1024;

/// What happened, as a row of the catalogue: the object's type, the kind of change and its detail
/// ([`Self::kind`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A request does not fit what its queues have left, after it did.
    OverQuota,
    /// A request fits what its queues have left, after it did not.
    WithinQuota,
    /// A request does not fit what its user and group have left, after it did.
    OverUserQuota,
    /// A request fits what its user and group have left, after it did not.
    WithinUserQuota,
    /// Predicates refused a request on every node with room.
    RefusedByPredicates,
    /// An allocation of a request could not be started, and the request waits.
    NotStarted,
    /// No member of a gang could be started, and all of it waits.
    GangNotStarted,
    /// A task group of a gang lost a member and has fewer than it needs.
    GangLacksMembers,
    /// A placeholder is too small for a member of its group.
    PlaceholderTooSmall,
    /// An allocation was chosen to be preempted.
    VictimChosen,
    /// Nothing leaves the node that a request requires.
    NodeNotCleared,
    /// An application would have taken back from another what it lost to it, and does not.
    PreemptionLoop,
    /// An application came to its partition, perhaps to be rejected there.
    AppNew,
    /// An application entered this state, or was rejected.
    AppState(ApplicationState),
    /// A request of an application was added or replaced.
    AskAdded,
    /// A request of an application was withdrawn, or nothing is left of it.
    AskRemoved,
    /// A request of an application was given up, because its placeholders waited for too long.
    AskTimedOut,
    /// An application got an allocation, also a reported one.
    AllocationAdded,
    /// An allocation of an application was ended or given back by its RM.
    AllocationCancelled,
    /// An allocation of an application ended because its time was over.
    AllocationTimedOut,
    /// An allocation of an application ended because it was preempted.
    AllocationPreempted,
    /// A placeholder of an application ended because its place was taken.
    AllocationReplaced,
    /// An allocation of an application ended with its node.
    AllocationLostNode,
    /// An application left its queue.
    AppUnlinked,
    /// An application that ran is over; the message sums it up.
    AppSummary,
    /// What an application that is over has used on one instance type, in resource-seconds.
    AppUsed(Account),
    /// An application may not start: as many run in its queues as may.
    AppBlockedByQueue,
    /// An application may start again, as far as its queues are concerned.
    AppRunnableByQueue,
    /// An application may not start: as many of its user or group run as may.
    AppBlockedByQuota,
    /// An application may start again, as far as its user and group are concerned.
    AppRunnableByQuota,
    /// A node came, perhaps to be rejected.
    NodeAdded,
    /// A node left its partition, after everything that was on it.
    NodeRemoved,
    /// A node takes new allocations from now on, or does not; the message says which.
    NodeSchedulable,
    /// The capacity of a node is another one.
    NodeCapacity,
    /// The amount that others occupy on a node is another one.
    NodeOccupied,
    /// An allocation came to a node, perhaps a foreign one.
    NodeAllocationAdded,
    /// An allocation on a node ended, perhaps a foreign one.
    NodeAllocationRemoved,
    /// The readiness of a node changed; the message says to what.
    NodeReady,
    /// An ask has reserved a node.
    NodeReserved,
    /// A reservation of a node has ended.
    NodeUnreserved,
    /// A step of the partition that is referred to has not come home in time; told of its root.
    StepLate,
    /// A configured queue came.
    QueueAdded,
    /// A dynamic queue came, because an application needed it.
    DynamicQueueAdded,
    /// A configured queue went.
    QueueRemoved,
    /// A dynamic queue went, because it was empty.
    DynamicQueueRemoved,
    /// A configuration made a leaf a parent, or a parent a leaf.
    QueueType,
    /// The maximum of a queue is another one.
    QueueMax,
    /// The guarantee of a queue is another one.
    QueueGuaranteed,
    /// A queue that was above its maximum gives back what it may.
    QueuePreempted,
    /// An application joined a queue.
    QueueAppAdded,
    /// An application left a queue.
    QueueAppRemoved,
    /// A user has a limit on a queue, a changed one or the same as before.
    UserLimitSet,
    /// A user has no limit on a queue any more.
    UserLimitRemoved,
    /// A group has a limit on a queue, a changed one or the same as before.
    GroupLimitSet,
    /// A group has no limit on a queue any more.
    GroupLimitRemoved,
    /// An application counts for a group from now on.
    UserGroupLinked,
    /// An application does not count for its group any more.
    UserGroupUnlinked,
    /// A user uses more.
    UserCharged,
    /// A user uses less.
    UserDischarged,
    /// A group uses more.
    GroupCharged,
    /// A group uses less.
    GroupDischarged,
}

impl EventKind {
    /// What stands for this on the wire: the kind of object, what changed, and the detail.
    pub(crate) fn on_wire(self) -> (Type, Change, Detail) {
        use Change::{Add, None, Remove, Set};
        match self {
            Self::OverQuota
            | Self::WithinQuota
            | Self::OverUserQuota
            | Self::WithinUserQuota
            | Self::RefusedByPredicates
            | Self::NotStarted
            | Self::PlaceholderTooSmall
            | Self::NodeNotCleared
            | Self::VictimChosen => (Type::Request, None, Detail::DetailsNone),
            Self::AppNew => (Type::App, Add, Detail::AppNew),
            Self::AppState(state) => (Type::App, Set, entered(state)),
            Self::AskAdded => (Type::App, Add, Detail::AppRequest),
            Self::AskRemoved => (Type::App, Remove, Detail::RequestCancel),
            Self::AskTimedOut => (Type::App, Remove, Detail::RequestTimeout),
            Self::AllocationAdded => (Type::App, Add, Detail::AppAlloc),
            Self::AllocationCancelled => (Type::App, Remove, Detail::AllocCancel),
            Self::AllocationTimedOut => (Type::App, Remove, Detail::AllocTimeout),
            Self::AllocationPreempted => (Type::App, Remove, Detail::AllocPreempt),
            Self::AllocationReplaced => (Type::App, Remove, Detail::AllocReplaced),
            Self::AllocationLostNode => (Type::App, Remove, Detail::AllocNoderemoved),
            Self::PreemptionLoop => (Type::App, None, Detail::PreemptionLoop),
            Self::AppUnlinked => (Type::App, Remove, Detail::DetailsNone),
            Self::AppSummary | Self::AppUsed(_) | Self::GangNotStarted | Self::GangLacksMembers => {
                (Type::App, None, Detail::DetailsNone)
            }
            Self::AppBlockedByQueue => (Type::App, None, Detail::AppCannotrunQueue),
            Self::AppRunnableByQueue => (Type::App, None, Detail::AppRunnableQueue),
            Self::AppBlockedByQuota => (Type::App, None, Detail::AppCannotrunQuota),
            Self::AppRunnableByQuota => (Type::App, None, Detail::AppRunnableQuota),
            Self::NodeAdded => (Type::Node, Add, Detail::DetailsNone),
            Self::NodeRemoved => (Type::Node, Remove, Detail::NodeDecomission),
            Self::NodeSchedulable => (Type::Node, Set, Detail::NodeSchedulable),
            Self::NodeCapacity => (Type::Node, Set, Detail::NodeCapacity),
            Self::NodeOccupied => (Type::Node, Set, Detail::NodeOccupied),
            Self::NodeAllocationAdded => (Type::Node, Add, Detail::NodeAlloc),
            Self::NodeAllocationRemoved => (Type::Node, Remove, Detail::NodeAlloc),
            Self::NodeReady => (Type::Node, Set, Detail::NodeReady),
            Self::NodeReserved => (Type::Node, Add, Detail::NodeReservation),
            Self::NodeUnreserved => (Type::Node, Remove, Detail::NodeReservation),
            Self::StepLate => (Type::Queue, None, Detail::DetailsNone),
            Self::QueueAdded => (Type::Queue, Add, Detail::DetailsNone),
            Self::DynamicQueueAdded => (Type::Queue, Add, Detail::QueueDynamic),
            Self::QueueRemoved => (Type::Queue, Remove, Detail::DetailsNone),
            Self::DynamicQueueRemoved => (Type::Queue, Remove, Detail::QueueDynamic),
            Self::QueueType => (Type::Queue, Set, Detail::QueueType),
            Self::QueueGuaranteed => (Type::Queue, Set, Detail::QueueGuaranteed),
            Self::QueueMax => (Type::Queue, Set, Detail::QueueMax),
            Self::QueuePreempted => (Type::Queue, Set, Detail::QueuePreemption),
            Self::QueueAppAdded => (Type::Queue, Add, Detail::QueueApp),
            Self::QueueAppRemoved => (Type::Queue, Remove, Detail::QueueApp),
            Self::UserLimitSet => (Type::Usergroup, Set, Detail::UgUserLimit),
            Self::UserLimitRemoved => (Type::Usergroup, Remove, Detail::UgUserLimit),
            Self::GroupLimitSet => (Type::Usergroup, Set, Detail::UgGroupLimit),
            Self::GroupLimitRemoved => (Type::Usergroup, Remove, Detail::UgGroupLimit),
            Self::UserGroupLinked => (Type::Usergroup, Set, Detail::UgAppLink),
            Self::UserGroupUnlinked => (Type::Usergroup, Remove, Detail::UgAppLink),
            Self::UserCharged => (Type::Usergroup, Add, Detail::UgUserResource),
            Self::UserDischarged => (Type::Usergroup, Remove, Detail::UgUserResource),
            Self::GroupCharged => (Type::Usergroup, Add, Detail::UgGroupResource),
            Self::GroupDischarged => (Type::Usergroup, Remove, Detail::UgGroupResource),
        }
    }
}

/// The detail of a state that is entered. No event leads to New.
fn entered(state: ApplicationState) -> Detail {
    match state {
        ApplicationState::New => Detail::AppNew,
        ApplicationState::Accepted => Detail::AppAccepted,
        ApplicationState::Running => Detail::AppRunning,
        ApplicationState::Resuming => Detail::AppResuming,
        ApplicationState::Completing => Detail::AppCompleting,
        ApplicationState::Completed => Detail::AppCompleted,
        ApplicationState::Failing => Detail::AppFailing,
        ApplicationState::Failed => Detail::AppFailed,
        ApplicationState::Rejected => Detail::AppReject,
        ApplicationState::Expired => Detail::AppExpired,
    }
}

/// The content of an event's message; its text is made when the event is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Nothing,
    Says(&'static str),
    Rejected(Box<Rejection>),
    /// The event is about so many places that are held for members of a task group, or were.
    Held(u64),
    /// An application that ran is over.
    Summary(Box<Summary>),
    /// The ask does not fit what the queues on its path have left.
    OverQuota {
        queue: Arc<str>,
        available: Box<Limits>,
    },
    /// The ask fits what the queues on its path have left, again.
    WithinQuota {
        queue: Arc<str>,
    },
    /// The ask does not fit what its user and group have left.
    OverUserQuota {
        available: Box<Limits>,
    },
    /// The ask fits what its user and group have left, again.
    WithinUserQuota,
    /// The reasons of predicates that refused the ask, each with the number of nodes.
    Refused(BTreeMap<String, u32>),
    /// An allocation of a request could not be started.
    NotStarted(Box<NotStarted>),
    /// No member of a gang could be started.
    GangNotStarted(Box<NotStarted>),
    /// A task group has fewer members than it needs.
    LacksMembers(Box<Lacking>),
    /// A placeholder is too small for a member.
    TooSmall(Box<TooSmall>),
    /// Nothing leaves the node that a request requires.
    NodeNotCleared(Arc<str>),
    /// For whom an allocation is preempted, and by which rule.
    Preempted(Preempted),
    /// What a queue gives back that is above its maximum.
    GivesBack(Box<GivenBack>),
}

/// For whom an allocation is preempted, and what its gang is left with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preempted {
    pub(crate) grounds: Arc<Grounds>,
    /// Its gang has fewer members than it needs.
    pub(crate) leaves_short: bool,
}

impl fmt::Display for Preempted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.grounds.fmt(f)?;
        f.write_str(if self.leaves_short {
            "; its task group has fewer members now than it needs"
        } else {
            ""
        })
    }
}

/// What a queue gives back that is above its maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenBack {
    /// What is too much, as far as guarantees let it be taken.
    pub(crate) planned: Resources,
    /// What the victims hold.
    pub(crate) claimed: Resources,
    /// How many allocations could be chosen.
    pub(crate) candidates: usize,
    /// How many were.
    pub(crate) victims: usize,
}

impl fmt::Display for GivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { planned, claimed, candidates, victims } = self;
        write!(
            f,
            "above its maximum: planned to take {planned}, claimed {claimed}, preempted {victims} \
             of {candidates} candidates"
        )
    }
}

/// A member and a placeholder of its group that it is larger than; the event is about the
/// placeholder, with the amount of the member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TooSmall {
    pub(crate) application: Arc<str>,
    pub(crate) group: TaskGroup,
    /// The member's pod, or else its key.
    pub(crate) member: Arc<str>,
    /// What the placeholder has.
    pub(crate) placeholder: Resources,
}

/// What there is to say of an application that is over, beside what it used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The RM that it belonged to.
    pub(crate) rm: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) state: ApplicationState,
    pub(crate) submitted_ns: i64,
    pub(crate) started_ns: i64,
    pub(crate) finished_ns: i64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rm, queue, user, state, .. } = self;
        let [submitted, started, finished] =
            [self.submitted_ns, self.started_ns, self.finished_ns].map(instant::rfc3339);
        write!(
            f,
            "state={state} submitted={submitted} started={started} finished={finished} rm={rm} \
             user={user} queue={queue}"
        )
    }
}

/// Something that happened to an object of a partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    pub(crate) object: Arc<str>,
    pub(crate) reference: Option<Arc<str>>,
    /// Namespace and name of the pod that the event is about: its key or UUID is the object of an event
    /// about a request, and the reference of others.
    pub(crate) pod: Option<Arc<str>>,
    /// The queue of an application, for readers of older revisions of the interface.
    pub(crate) queue: Option<Arc<str>>,
    pub(crate) resources: Resources,
    pub(crate) message: Message,
}

impl Event {
    pub(crate) fn of(kind: EventKind, object: &Arc<str>, at_ns: i64) -> Self {
        Self {
            kind,
            at_ns,
            object: Arc::clone(object),
            reference: None,
            pod: None,
            queue: None,
            resources: Resources::new(),
            message: Message::Nothing,
        }
    }

    /// The event that a node takes new allocations from now on, or does not.
    pub(crate) fn schedulable(node: &Arc<str>, is_open: bool, at_ns: i64) -> Self {
        let text = if is_open { "schedulable: true" } else { "schedulable: false" };
        Self::of(EventKind::NodeSchedulable, node, at_ns).with_message(Message::Says(text))
    }

    /// Names the other object that the event is about.
    #[must_use]
    pub(crate) fn referring(mut self, to: &Arc<str>) -> Self {
        self.reference = Some(Arc::clone(to));
        self
    }

    /// Names the pod that has the key or UUID, if it is one.
    #[must_use]
    pub(crate) fn of_pod(mut self, pod: Option<&Arc<str>>) -> Self {
        self.pod = pod.cloned();
        self
    }

    /// It refers to this request, and is about its amount.
    #[must_use]
    pub(crate) fn asked_for(self, spec: &AskSpec) -> Self {
        self.referring(&spec.key).of_pod(spec.pod()).amount(&spec.resources)
    }

    /// It refers to this allocation, and is about its amount.
    #[must_use]
    pub(crate) fn allocated(self, uuid: &Arc<str>, spec: &AskSpec) -> Self {
        self.referring(uuid).of_pod(spec.pod()).amount(&spec.resources)
    }

    #[must_use]
    pub(crate) fn in_queue(mut self, path: &Arc<str>) -> Self {
        self.queue = Some(Arc::clone(path));
        self
    }

    #[must_use]
    pub(crate) fn amount(mut self, resources: &Resources) -> Self {
        self.resources.clone_from(resources);
        self
    }

    #[must_use]
    pub(crate) fn with_message(mut self, message: Message) -> Self {
        self.message = message;
        self
    }

    /// The event as it is sent.
    pub(crate) fn record(&self) -> si::EventRecord {
        let (object, change, detail) = self.kind.on_wire();
        let reference = self.reference.as_deref().unwrap_or_default();
        let group = match object {
            Type::Request => reference,
            _ => self.queue.as_deref().unwrap_or_default(),
        };
        let reason = match detail {
            Detail::DetailsNone => "",
            detail => detail.as_str_name(),
        };
        si::EventRecord {
            r#type: object as i32,
            object_id: self.object.to_string(),
            group_id: group.to_owned(),
            reason: reason.to_owned(),
            message: cut(self.text()),
            timestamp_nano: self.at_ns,
            event_change_type: change as i32,
            event_change_detail: detail as i32,
            reference_id: reference.to_owned(),
            resource: Some(resource(&self.resources)),
            seq: 0,
        }
    }

    /// The event as it is read.
    pub(crate) fn read(&self) -> NamedEvent {
        NamedEvent { record: self.record(), pod: self.pod.clone() }
    }

    /// What people know the object by.
    fn name(&self) -> &str {
        let is_of_request = self.kind.on_wire().0 == Type::Request;
        self.pod.as_ref().filter(|_| is_of_request).unwrap_or(&self.object)
    }

    fn text(&self) -> String {
        let name = self.name();
        match &self.message {
            Message::Nothing => String::new(),
            Message::Says(text) => (*text).to_owned(),
            Message::Rejected(reason) => reason.to_string(),
            Message::Summary(summary) => summary.to_string(),
            Message::Held(count) => {
                format!("{count} places held for members of the task group, each of this size")
            }
            Message::OverQuota { queue, available } => format!(
                "request `{name}` does not fit in queue `{queue}` (requested {}, available {available})",
                self.resources
            ),
            Message::WithinQuota { queue } => {
                format!("request `{name}` has become schedulable in queue `{queue}`")
            }
            Message::OverUserQuota { available } => format!(
                "Not enough user quota: request `{name}` does not fit what user and group have left \
                 (requested {}, available {available})",
                self.resources
            ),
            Message::NodeNotCleared(node) => format!(
                "request `{name}` runs on node `{node}` only, and nothing there may leave for it"
            ),
            Message::Preempted(why) => why.to_string(),
            Message::GivesBack(given) => given.to_string(),
            Message::WithinUserQuota => {
                format!("request `{name}` fits what user and group have left")
            }
            Message::Refused(reasons) => {
                let mut text = format!("request `{name}` was refused by predicates:");
                for (reason, nodes) in reasons {
                    write!(text, " {reason} ({nodes}x);").expect("a string takes everything");
                }
                text
            }
            Message::NotStarted(why) => format!("request `{name}` {why}"),
            Message::GangNotStarted(why) => format!("no member of the gang runs: it {why}"),
            Message::LacksMembers(lacking) => lacking.to_string(),
            Message::TooSmall(it) => format!(
                "placeholder `{name}` of task group `{}` of application `{}` has {} and is too small for \
                 request `{}` of {}",
                it.group, it.application, it.placeholder, it.member, self.resources
            ),
        }
    }
}

/// An event as it is read. Dereferences to what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedEvent {
    /// What happened, as the interface says it.
    pub record: si::EventRecord,
    /// Namespace and name of the pod that it is about, as `NAMESPACE/NAME`, where it is about one. What
    /// the record has of that pod is the key or UUID: as the object of an event of the type `REQUEST`,
    /// and as the reference of others.
    pub pod: Option<Arc<str>>,
}

impl Deref for NamedEvent {
    type Target = si::EventRecord;

    fn deref(&self) -> &si::EventRecord {
        &self.record
    }
}

/// The message in at most [`MESSAGE_BYTES`] bytes, cut between characters.
fn cut(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES {
        text.truncate(beginning(&text, MESSAGE_BYTES - 3).len());
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: Message) -> Event {
        Event::of(EventKind::RefusedByPredicates, &Arc::from("k"), 7)
            .referring(&Arc::from("app"))
            .with_message(message)
    }

    #[test]
    fn a_message_of_1024_bytes_stays_and_a_longer_one_ends_in_dots_within_them() {
        let whole = "x".repeat(MESSAGE_BYTES);
        assert_eq!(cut(whole.clone()), whole);
        assert_eq!(cut("x".repeat(1025)), format!("{}...", "x".repeat(1021)));
        // The cut falls into the middle of a character of three bytes.
        let many = cut("€".repeat(400));
        assert_eq!(many, format!("{}...", "€".repeat(340)));
    }

    #[test]
    fn reasons_are_counted_and_sorted_by_text() {
        let reasons = [("no disk".to_owned(), 1), ("affinity".to_owned(), 12)].into();
        let record = event(Message::Refused(reasons)).record();
        assert!(record.message.ends_with("affinity (12x); no disk (1x);"), "{}", record.message);
        assert!(record.message.contains("`k`"));
    }

    #[test]
    fn older_readers_find_the_group_and_the_reason() {
        let record = event(Message::Nothing).record();
        assert_eq!((record.group_id.as_str(), record.reason.as_str()), ("app", ""));
        let added = Event::of(EventKind::AskAdded, &Arc::from("app"), 7)
            .in_queue(&Arc::from("root.a"))
            .referring(&Arc::from("k"))
            .amount(&Resources::of(&[("vcore", 1)]))
            .record();
        assert_eq!((added.group_id.as_str(), added.reason.as_str()), ("root.a", "APP_REQUEST"));
        assert_eq!((added.r#type, added.event_change_type, added.event_change_detail), (2, 2, 201));
        assert_eq!(added.resource.unwrap().resources["vcore"].value, 1);
    }
}
