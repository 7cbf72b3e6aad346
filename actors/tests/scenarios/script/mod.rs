//! Scenarios as text: what a resource manager does, one message per line.
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
//! app   a2 in root.a gang vcore=4 style Hard timeout 5000             its placeholders want so much
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
//! A reload is written as a configuration anew:
//!
//! ```text
//! forget                                   the queues and the order of nodes written so far
//! queue root.b max vcore=2
//! reload
//! ```
//!
//! An RM that has lost its scheduler registers again and brings back what it knows: nodes, active
//! applications, what runs and what is pending. The number says in which order.
//!
//! ```text
//! recover 7
//! ```
//!
//! What these words cannot say is written as the text of a configuration, on one line, which counts
//! instead of queues and order until it is forgotten:
//!
//! ```text
//! config {partitions: [{placementrules: [{name: user, create: true}], queues: [{name: root}]}]}
//! ```
//!
//! After each line the run waits until nothing more can be decided, unless the line ends in `&`.

mod read;
mod written;

use std::time::Duration;

pub(crate) use written::kind_name;

/// Resource names with quantities, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(pub(crate) Vec<(String, i64)>);

/// What is asked for or exists already.
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
    /// Of a placeholder, its task group (which may be empty).
    pub(crate) placeholder: Option<String>,
    /// Of any other, its task group; empty for none.
    pub(crate) group: String,
    /// Whom it may preempt, and who may preempt it: `none`, `itself`, `others` or `both`; empty
    /// where it does not say.
    pub(crate) policy: String,
    /// It is the first of its application.
    pub(crate) originator: bool,
    /// Tags that a script gives any name.
    pub(crate) tags: Vec<(String, String)>,
    /// Its placement constraint, JSON without spaces; empty for none.
    pub(crate) constraint: String,
    /// Of a task group, the attribute of which all members are in one domain; empty for none.
    pub(crate) within: String,
    /// Of a task group, the attributes by which members are preferably together.
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

/// A release of what has failed, beside the termination types: the RM stops it, and says so.
pub(crate) const FAILED: i32 = 1_001;

/// Which allocations a release names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Key(String),
    Uuid(String),
    All,
}

/// A node as created or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeWords {
    pub(crate) id: String,
    /// Of a change: `None` says nothing of it.
    pub(crate) total: Option<Amounts>,
    pub(crate) occupied: Option<Amounts>,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) drained: bool,
    pub(crate) holds: Vec<Wish>,
}

/// A limit of users and groups, in the order in which it is written.
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
    /// Who may submit; everybody unless one queue says otherwise.
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
        /// Separated by commas; empty: as the user's name says.
        groups: String,
        tags: Vec<(String, String)>,
        partition: String,
        /// What its placeholders want together.
        gang: Amounts,
        /// What becomes of it when its placeholders time out, as written.
        style: String,
        timeout_ms: i64,
        /// Its task groups: each is named by a key, and needs so many members of this size.
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

/// What a script may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Queues,
    /// Which queues are there, and what they are limited to.
    Shapes,
    Apps,
    Nodes,
    /// What users and groups use.
    Users,
    /// The placeholders of each task group.
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
    /// The text of a configuration.
    Config(String),
    /// Later lines are this RM's, which registers unless it has.
    As(String),
    /// The present RM registers (again) with the queues of the script so far.
    Register,
    /// Later configurations are without the queues and the order so far.
    Forget,
    /// The present RM is configured with the queues of the script so far.
    Reload,
    /// The partition of the present RM enters a state.
    State(String),
    /// The present RM registers again and brings back all that it knows, in an order that the
    /// number decides.
    Recover(u64),
    /// The present RM leaves.
    Leave,
    Send {
        items: Vec<Item>,
        waits: bool,
    },
    /// The RM confirms a release that the scheduler asked for and that it has not confirmed yet: the
    /// one of this number, counted round and round; `None` all of them.
    Confirm {
        which: Option<usize>,
        /// Another termination type than the one that it was asked with.
        kind: Option<i32>,
        waits: bool,
    },
    /// The RM repeats one of its confirmations.
    ConfirmAgain(usize),
    /// Before anything else: how old an ask has to be before it reserves a node (`None`: it never
    /// does), and when a reservation is given up that cannot be used.
    Reservations {
        delay: Option<Duration>,
        timeout: Duration,
    },
    /// The ask prefers the node by so much, among equal ones or among all.
    Prefer {
        key: String,
        node: String,
        by: i64,
        among_all: bool,
    },
    /// The predicate says no; `*` is any ask or node.
    Refuse {
        key: String,
        node: String,
    },
    /// The predicate panics.
    Explode {
        key: String,
        node: String,
    },
    /// The predicate says no and yes in turns, beginning with no.
    Waver {
        key: String,
        node: String,
    },
    /// The predicate says yes again; `* *` is to everything.
    Allow {
        key: String,
        node: String,
    },
    /// What is of one kind keeps clear of each other: predicates refuse it where another runs.
    Apart,
    /// So many of a hundred pairs of ask and node are refused, the same in every run.
    RefuseSome {
        percent: u8,
        seed: u64,
    },
    Wait(Duration),
    Settle,
    /// Nothing more could be placed even if every predicate passed.
    Quiet,
    Show(Show),
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
