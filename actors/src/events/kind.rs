//! The kinds of events, and the types that each has on the wire.

use monoceros_proto::si::v1::event_record::{ChangeDetail as Detail, ChangeType as Change, Type};
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::resource_seconds::Account;

/// The kind of an event: a row of the catalogue in `docs/events.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A request does not fit the headroom of its queues any more.
    OverQuota,
    /// A request fits the headroom of its queues again.
    WithinQuota,
    /// A request does not fit the limits of its user and group any more.
    OverUserQuota,
    /// A request fits the limits of its user and group again.
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
    /// No allocation may be evicted from the node that a request requires.
    NodeNotCleared,
    /// An application would have preempted an application that had preempted it before, and did not.
    PreemptionLoop,
    /// An application arrived in its partition, which may still reject it.
    AppNew,
    /// An application entered this state, or was rejected.
    AppState(ApplicationState),
    /// A request of an application was added or replaced.
    AskAdded,
    /// A request of an application was withdrawn or satisfied.
    AskRemoved,
    /// A request of an application ended because its placeholders have timed out.
    AskTimedOut,
    /// An application got an allocation, or its RM reported an existing one.
    AllocationAdded,
    /// An allocation of an application was released by its RM.
    AllocationCancelled,
    /// An allocation of an application has timed out.
    AllocationTimedOut,
    /// An allocation of an application ended because it was preempted.
    AllocationPreempted,
    /// A placeholder of an application was replaced.
    AllocationReplaced,
    /// An allocation of an application ended with its node.
    AllocationLostNode,
    /// An application was removed from its queue.
    AppUnlinked,
    /// An application that ran has ended; the message has a summary.
    AppSummary,
    /// The usage of an application that has ended on one instance type, in resource-seconds.
    AppUsed(Account),
    /// An application may not start: the most applications run in one of its queues.
    AppBlockedByQueue,
    /// The queues of an application allow it to start again.
    AppRunnableByQueue,
    /// An application may not start: the most applications of its user or group run.
    AppBlockedByQuota,
    /// The limits of the user and group of an application allow it to start again.
    AppRunnableByQuota,
    /// A node was reported, and may still be rejected.
    NodeAdded,
    /// A node was removed, after everything that was on it.
    NodeRemoved,
    /// A node has become schedulable or unschedulable; the message says which.
    NodeSchedulable,
    /// The capacity of a node has changed.
    NodeCapacity,
    /// The amount that others occupy on a node has changed.
    NodeOccupied,
    /// An allocation was added to a node, perhaps a foreign one.
    NodeAllocationAdded,
    /// An allocation on a node ended, perhaps a foreign one.
    NodeAllocationRemoved,
    /// The readiness of a node changed; the message says to what.
    NodeReady,
    /// An ask has reserved a node.
    NodeReserved,
    /// A reservation of a node has ended.
    NodeUnreserved,
    /// A step of the referenced partition takes too long; the object is its root queue.
    StepLate,
    /// A configured queue was added.
    QueueAdded,
    /// A dynamic queue was created for an application.
    DynamicQueueAdded,
    /// A configured queue was removed.
    QueueRemoved,
    /// An empty dynamic queue was removed.
    DynamicQueueRemoved,
    /// A leaf became a parent, or a parent a leaf, by configuration.
    QueueType,
    /// The maximum of a queue has changed.
    QueueMax,
    /// The guarantee of a queue has changed.
    QueueGuaranteed,
    /// Allocations of a queue above its maximum were preempted.
    QueuePreempted,
    /// An application joined a queue.
    QueueAppAdded,
    /// An application was removed from a queue.
    QueueAppRemoved,
    /// The limit of a user on a queue was set, perhaps to the same value.
    UserLimitSet,
    /// A user has no limit on a queue any more.
    UserLimitRemoved,
    /// The limit of a group on a queue was set, perhaps to the same value.
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
    /// Another member of the cluster serves the RM.
    RmMoved,
    /// A member, or a new incarnation of it, has joined the cluster.
    MemberJoined,
    /// A member has left the cluster.
    MemberLeft,
    /// A member of the cluster was deposed.
    MemberDeposed,
    /// This member of the cluster may decide nothing.
    MemberFenced,
    /// This member of the cluster cannot apply the configuration of a policy group.
    ConfigurationNotInForce,
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
            Self::RmMoved => (Type::Cluster, Set, Detail::RmMoved),
            Self::MemberJoined => (Type::Cluster, Add, Detail::MemberJoined),
            Self::MemberLeft => (Type::Cluster, Remove, Detail::MemberLeft),
            Self::MemberDeposed => (Type::Cluster, Remove, Detail::MemberDeposed),
            Self::MemberFenced => (Type::Cluster, Set, Detail::MemberFenced),
            Self::ConfigurationNotInForce => (Type::Cluster, Set, Detail::ConfigurationNotInForce),
        }
    }
}

/// The detail of a state that was entered. No event leads to New or Removed.
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
        ApplicationState::Removed => Detail::DetailsNone,
    }
}
