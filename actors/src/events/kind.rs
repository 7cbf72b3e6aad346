//! The kinds of events, and what stands for each on the wire.

use monoceros_proto::si::v1::event_record::{ChangeDetail as Detail, ChangeType as Change, Type};
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::resource_seconds::Account;

/// The kind of an event: a row of the catalogue in `docs/events.md`.
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
    /// The kind on the wire: the type of the object, the type of the change, and its detail.
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

/// The detail of a state that was entered. No event leads to New.
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
