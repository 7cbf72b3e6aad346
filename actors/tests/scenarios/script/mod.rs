//! Scenarios as text: the messages of a resource manager, one per line.
//!
//! Every step is a value with a `Display` that [`Script::parse`] reads back, so that a failing
//! random run prints a script which can be pasted into a test.
//!
//! ```text
//! order binpacking vcore=4                                 the node order, before anything else
//! reservations never 60s                                   or after an age; and how long they wait
//! queue root.a max vcore=4 guaranteed vcore=1 maxapps=2 prop application.sort.policy=fair
//! queue root.b limit users=ada,* vcore=4 apps=2 limit groups=dev vcore=8
//! node  n1 vcore=4 memory=10 occupied vcore=1 attr ready=false holds a1/k9 vcore=1
//! node  n2 vcore=4 drained
//! app   a1 in root.a user ada groups dev,ops tag application.create.force=true
//! app   a2 in root.a gang vcore=4 style Hard timeout 5000             total of its placeholders
//! app   a3 in root.a needs w x3 vcore=1 prio=5 needs d x1             task groups; this d of any size
//! ask   a1 k1 x3 vcore=1 prio=5 node=n1 created=100 timeout=1000      an AllocationAsk
//! request a1 k2 vcore=1                                               an Allocation without node
//! exists a1 k3 on n1 vcore=1 uuid=u3                                  one with a node
//! ask a1 k4 vcore=1 ; ask a1 k5 vcore=1                               two items in one message
//! ask a2 p1 vcore=2 placeholder=workers                               a placeholder of a task group
//! ask a2 r1 vcore=1 group=workers                                     a member of it
//! app   a4 in root.a needs w x3 vcore=1 within=rack near=host,row      task groups with a topology
//! ask a1 k7 vcore=1 tags=app:web,tier:1 where={"simpleConstraint":{}}  tags, a placement constraint
//! confirm 0                                                           the first release not yet confirmed
//! confirm *                                                           all of them, in one message
//! confirm 0 as TIMEOUT                                                the first, with another type
//! confirm-again 0                                                     one that was confirmed before
//! ask a1 k6 vcore=1 &                                                 the next line does not wait
//! ask - k1 vcore=1                                                    an id or key `-` is empty
//! ```
//!
//! A reload begins with a new configuration:
//!
//! ```text
//! forget                                   the queues and the order of nodes written so far
//! queue root.b max vcore=2
//! reload
//! ```
//!
//! An RM whose scheduler was restarted registers again and reports its state: nodes, active
//! applications, allocations and pending asks. The number decides the order.
//!
//! ```text
//! recover 7
//! ```
//!
//! Settings without a word of their own are written as the text of a configuration, on one line. It
//! replaces queues and order until it is forgotten:
//!
//! ```text
//! config {partitions: [{placementrules: [{name: user, create: true}], queues: [{name: root}]}]}
//! ```
//!
//! After each line the run waits until no further decision is possible, unless the line ends in
//! `&`.

mod read;
mod written;

use std::time::Duration;

pub(crate) use written::kind_name;

/// Resource names with quantities, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(pub(crate) Vec<(String, i64)>);

/// An ask, or an existing allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) app: String,
    pub(crate) key: String,
    pub(crate) amounts: Amounts,
    pub(crate) repeat: i32,
    pub(crate) priority: i32,
    pub(crate) required: Option<String>,
    /// Text of the tag `creationTime`.
    pub(crate) created: Option<String>,
    pub(crate) timeout_ms: i64,
    pub(crate) uuid: String,
    pub(crate) partition: String,
    /// Task group of a placeholder, which may be empty. `None` for others.
    pub(crate) placeholder: Option<String>,
    /// Task group of a member; empty for none. Not used for placeholders.
    pub(crate) group: String,
    /// Preemption policy: `none`, `itself`, `others` or `both`; empty if the message has none.
    pub(crate) policy: String,
    /// Whether it is the originator of its application.
    pub(crate) originator: bool,
    /// Further tags with any name.
    pub(crate) tags: Vec<(String, String)>,
    /// Placement constraint as JSON without spaces; empty for none.
    pub(crate) constraint: String,
    /// Required topology of a task group: the attribute that must have one value for all members.
    /// Empty for none.
    pub(crate) within: String,
    /// Preferred topology of a task group: attributes that should have one value for all members.
    pub(crate) near: Vec<String>,
}

impl Wish {
    pub(crate) fn of(app: &str, key: &str, amounts: Amounts) -> Self {
        Self {
            app: app.to_owned(),
            key: key.to_owned(),
            amounts,
            repeat: 1,
            priority: 0,
            required: None,
            created: None,
            timeout_ms: 0,
            uuid: String::new(),
            partition: String::new(),
            placeholder: None,
            group: String::new(),
            policy: String::new(),
            originator: false,
            tags: Vec::new(),
            constraint: String::new(),
            within: String::new(),
            near: Vec::new(),
        }
    }
}

/// Type of a release after a failure, besides the termination types: the RM stops the allocation
/// and reports that it failed.
pub(crate) const FAILED: i32 = 1_001;

/// The allocations that a release names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Key(String),
    Uuid(String),
    All,
}

/// A created or changed node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeWords {
    pub(crate) id: String,
    /// Capacity. `None` in a change that does not name it.
    pub(crate) total: Option<Amounts>,
    pub(crate) occupied: Option<Amounts>,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) drained: bool,
    pub(crate) holds: Vec<Wish>,
}

/// A limit of users and groups, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitWords {
    pub(crate) users: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) max: Amounts,
    pub(crate) max_apps: u64,
}

/// A queue of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueWords {
    pub(crate) path: String,
    pub(crate) max: Option<Amounts>,
    pub(crate) guaranteed: Option<Amounts>,
    pub(crate) max_apps: u64,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) limits: Vec<LimitWords>,
    /// Submit access list. `None` admits everybody, unless another queue has a list.
    pub(crate) submit: Option<String>,
}

/// One item of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Node(NodeWords),
    Resize(NodeWords),
    Drain(String),
    Undrain(String),
    RemoveNode(String),
    /// A node action by its number.
    Act {
        node: String,
        action: i32,
    },
    App {
        id: String,
        queue: String,
        user: String,
        /// Groups separated by commas. Empty if the resolver decides by the user's name.
        groups: String,
        tags: Vec<(String, String)>,
        partition: String,
        /// Total of its placeholders.
        gang: Amounts,
        /// Gang scheduling style as written.
        style: String,
        timeout_ms: i64,
        /// Task groups. The key is the name of the group, `repeat` the number of members, the
        /// amounts the size of each.
        needs: Vec<Wish>,
    },
    RemoveApp(String),
    Ask(Wish),
    Request(Wish),
    Exists(Wish, String),
    Foreign {
        key: String,
        node: String,
        amounts: Amounts,
        kind: String,
    },
    ForeignGone(String),
    Withdraw {
        app: String,
        key: String,
        kind: i32,
    },
    Release {
        app: String,
        which: Which,
        kind: i32,
    },
}

/// Kinds of content that a script may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Queues,
    /// Existing queues and their limits.
    Shapes,
    Apps,
    Nodes,
    /// Usage of users and groups.
    Users,
    /// Placeholders of each task group.
    TaskGroups,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Order {
        policy: String,
        weights: Amounts,
    },
    Queue(QueueWords),
    /// Text of a configuration.
    Config(String),
    /// Selects the RM of the following lines. It registers if it has not yet.
    As(String),
    /// The present RM registers (again) with the queues of the script so far.
    Register,
    /// Clears the queues and the node order for later configurations.
    Forget,
    /// The present RM updates its configuration to the queues of the script so far.
    Reload,
    /// The partition of the present RM changes its state.
    State(String),
    /// The present RM registers again and reports its state, in an order chosen by the number.
    Recover(u64),
    /// The present RM deregisters.
    Leave,
    Send {
        items: Vec<Item>,
        waits: bool,
    },
    /// The RM confirms an open release of the scheduler. `which` is its number, taken modulo the
    /// open ones; `None` confirms all of them.
    Confirm {
        which: Option<usize>,
        /// Termination type, if other than that of the release.
        kind: Option<i32>,
        waits: bool,
    },
    /// The RM repeats one of its confirmations.
    ConfirmAgain(usize),
    /// Settings of reservations, before anything else: the age from which an ask reserves a node
    /// (`None`: never), and the time after which an unused reservation is given up.
    Reservations {
        delay: Option<Duration>,
        timeout: Duration,
    },
    /// The ask prefers the node by this score, among equal nodes or among all.
    Prefer {
        key: String,
        node: String,
        by: i64,
        among_all: bool,
    },
    /// The predicate refuses the ask on the node; `*` is any ask or node.
    Refuse {
        key: String,
        node: String,
    },
    /// The predicate panics.
    Explode {
        key: String,
        node: String,
    },
    /// The predicate alternates between refusing and accepting, beginning with a refusal.
    Waver {
        key: String,
        node: String,
    },
    /// The predicate accepts again; `* *` is every pair.
    Allow {
        key: String,
        node: String,
    },
    /// Predicates refuse a node with another allocation of the same kind.
    Apart,
    /// Predicates refuse this percentage of the pairs of ask and node, the same ones in every run.
    RefuseSome {
        percent: u8,
        seed: u64,
    },
    Wait(Duration),
    Settle,
    /// Asserts that no ask could be placed even if every predicate passed.
    Quiet,
    Show(Show),
}

impl Step {
    /// Whether the scheduler may have work left after this step.
    pub(crate) fn leaves_work(&self) -> bool {
        matches!(self, Self::Send { waits: false, .. } | Self::Confirm { waits: false, .. })
    }
}

/// A whole scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script(pub(crate) Vec<Step>);

#[test]
fn a_script_reads_what_it_writes() {
    let text = "
        order binpacking vcore=4 memory=1
        queue root max vcore=4
        queue root.a max vcore=4 guaranteed vcore=1 maxapps=2 prop priority.offset=3 submit ada
        queue root.b max vcore=4 limit users=ada,* groups=dev vcore=1 apps=2 limit users=bob apps=1
        as rm2
        register
        refuse-some 20 17
        apart
        node n1 vcore=4 memory=10 occupied vcore=1 attr ready=false drained holds a1/k9 vcore=1 uuid=u
        resize n1 occupied vcore=2 attr x=y
        drain n1 ; undrain n1 ; remove n1 ; act n1 99 &
        app a1 in root.a user ada groups dev,ops partition gpu tag a=b
        app a1 in root.a gang vcore=4 memory=1 style Hard timeout 5000
        app a1 in root.a needs w x3 vcore=1 prio=5 needs d
        remove-app a1
        ask a1 k1 x3 vcore=1 prio=5 node=n1 created=100 timeout=1000 ; ask a1 k2 memory=1
        request a1 k1 x-1 vcore=-1 placeholder=
        ask a1 k9 vcore=1 tags=app:web,tier:1 where={}
        ask a1 p1 vcore=1 placeholder=tg ; ask a1 r1 vcore=1 group=tg
        exists a1 k1 on n1 vcore=1 uuid=u1 partition=p
        exists a1 k1 vcore=1
        ask - - vcore=1
        release - key=f1
        foreign f1 on n1 vcore=1 kind=static
        foreign-gone f1
        withdraw a1 *
        withdraw a1 k1
        withdraw a1 k1 as TIMEOUT
        release a1 * as TIMEOUT
        confirm 3
        confirm *
        confirm 2 as TIMEOUT &
        confirm * &
        confirm-again 0
        release a1 key=k1
        release a1 uuid=k1#2 as 77
        release a1 uuid=k1 as FAILED
        refuse k1 *
        explode * n1
        waver k1 n1
        allow k1 *
        wait 30000ms
        settle
        quiet
        show queues
        show apps
        show nodes
        show users
        show task-groups
        forget
        reload
        state Draining
        recover 7
        leave
    ";
    let script = Script::parse(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let written = script.to_string();
    assert_eq!(written.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
    assert_eq!(Script::parse(&written), script);
}
