//! Scenarios as text: what a resource manager does, one message per line.
//!
//! Every step is a value with a `Display` that [`Script::parse`] reads back, so that a failing
//! random run prints a script which can be pasted into a test.
//!
//! ```text
//! order binpacking vcore=4                                 the node order, before anything else
//! queue root.a max vcore=4 guaranteed vcore=1 maxapps=2 prop application.sort.policy=fair
//! queue root.b limit users=ada,* vcore=4 apps=2 limit groups=dev vcore=8
//! node  n1 vcore=4 memory=10 occupied vcore=1 attr ready=false holds a1/k9 vcore=1
//! node  n2 vcore=4 drained
//! app   a1 in root.a user ada groups dev,ops tag application.create.force=true
//! app   a2 in root.a gang vcore=4                                     its placeholders want so much
//! ask   a1 k1 x3 vcore=1 prio=5 node=n1 created=100 timeout=1000      an AllocationAsk
//! request a1 k2 vcore=1                                               an Allocation without node
//! exists a1 k3 on n1 vcore=1 uuid=u3                                  one with a node
//! ask a1 k4 vcore=1 ; ask a1 k5 vcore=1                               two items in one message
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
//! What these words cannot say is written as the text of a configuration, on one line, which counts
//! instead of queues and order until it is forgotten:
//!
//! ```text
//! config {partitions: [{placementrules: [{name: user, create: true}], queues: [{name: root}]}]}
//! ```
//!
//! After each line the run waits until nothing more can be decided, unless the line ends in `&`.

use std::fmt;
use std::time::Duration;

use monoceros_proto::si::v1::TerminationType;

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
        }
    }
}

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
    /// The queues and the order so far are not meant any more.
    Forget,
    /// The present RM is configured with the queues of the script so far.
    Reload,
    /// The partition of the present RM enters a state.
    State(String),
    /// The present RM leaves.
    Leave,
    Send {
        items: Vec<Item>,
        waits: bool,
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

// -------------------------------------------------------------------------------------- to text

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, quantity)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={quantity}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl fmt::Display for LimitWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" limit")?;
        for (word, names) in [("users", &self.users), ("groups", &self.groups)] {
            if !names.is_empty() {
                write!(f, " {word}={}", names.join(","))?;
            }
        }
        if !self.max.0.is_empty() {
            write!(f, " {}", self.max)?;
        }
        if self.max_apps > 0 {
            write!(f, " apps={}", self.max_apps)?;
        }
        Ok(())
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.repeat != 1 {
            write!(f, " x{}", self.repeat)?;
        }
        if !self.amounts.0.is_empty() {
            write!(f, " {}", self.amounts)?;
        }
        if self.priority != 0 {
            write!(f, " prio={}", self.priority)?;
        }
        for (name, value) in [
            ("node", &self.required),
            ("created", &self.created),
            ("placeholder", &self.placeholder),
        ] {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        for (name, value) in [("uuid", &self.uuid), ("partition", &self.partition)] {
            if !value.is_empty() {
                write!(f, " {name}={value}")?;
            }
        }
        if self.timeout_ms != 0 {
            write!(f, " timeout={}", self.timeout_ms)?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(or_dash(&self.id))?;
        if let Some(total) = &self.total {
            write!(f, " {total}")?;
        }
        if let Some(occupied) = &self.occupied {
            write!(f, " occupied {occupied}")?;
        }
        for (name, value) in &self.attributes {
            write!(f, " attr {name}={value}")?;
        }
        if self.drained {
            f.write_str(" drained")?;
        }
        for wish in &self.holds {
            write!(f, " holds {}/{}{wish}", wish.app, wish.key)?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Resize(node) => write!(f, "resize {node}"),
            Self::Drain(node) => write!(f, "drain {node}"),
            Self::Undrain(node) => write!(f, "undrain {node}"),
            Self::RemoveNode(node) => write!(f, "remove {node}"),
            Self::Act { node, action } => write!(f, "act {} {action}", or_dash(node)),
            Self::App { id, queue, user, groups, tags, partition, gang } => {
                write!(f, "app {}", or_dash(id))?;
                for (name, value) in
                    [("in", queue), ("user", user), ("groups", groups), ("partition", partition)]
                {
                    if !value.is_empty() {
                        write!(f, " {name} {value}")?;
                    }
                }
                for (name, value) in tags {
                    write!(f, " tag {name}={value}")?;
                }
                if !gang.0.is_empty() {
                    write!(f, " gang {gang}")?;
                }
                Ok(())
            }
            Self::RemoveApp(app) => write!(f, "remove-app {app}"),
            Self::Ask(wish) => write!(f, "ask {}{wish}", names(wish)),
            Self::Request(wish) => write!(f, "request {}{wish}", names(wish)),
            Self::Exists(wish, node) => {
                write!(f, "exists {}{}{wish}", names(wish), on(node))
            }
            Self::Foreign { key, node, amounts, kind } => {
                write!(f, "foreign {}{} {amounts} kind={kind}", or_dash(key), on(node))
            }
            Self::ForeignGone(key) => write!(f, "foreign-gone {key}"),
            Self::Withdraw { app, key } => {
                write!(f, "withdraw {app} {}", if key.is_empty() { "*" } else { key })
            }
            Self::Release { app, which, kind } => {
                let app = or_dash(app);
                match which {
                    Which::Key(key) => write!(f, "release {app} key={key}")?,
                    Which::Uuid(uuid) => write!(f, "release {app} uuid={uuid}")?,
                    Which::All => write!(f, "release {app} *")?,
                }
                if *kind != TerminationType::StoppedByRm as i32 {
                    write!(f, " as {}", kind_name(*kind))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { policy, weights } => write!(f, "order {policy} {weights}"),
            Self::Queue(queue) => {
                write!(f, "queue {}", queue.path)?;
                for (word, amounts) in [("max", &queue.max), ("guaranteed", &queue.guaranteed)] {
                    if let Some(amounts) = amounts {
                        write!(f, " {word} {amounts}")?;
                    }
                }
                if queue.max_apps > 0 {
                    write!(f, " maxapps={}", queue.max_apps)?;
                }
                for (name, value) in &queue.properties {
                    write!(f, " prop {name}={value}")?;
                }
                for limit in &queue.limits {
                    write!(f, "{limit}")?;
                }
                match &queue.submit {
                    Some(users) => write!(f, " submit {users}"),
                    None => Ok(()),
                }
            }
            Self::Config(text) => write!(f, "config {text}"),
            Self::As(rm) => write!(f, "as {rm}"),
            Self::Register => f.write_str("register"),
            Self::Forget => f.write_str("forget"),
            Self::Reload => f.write_str("reload"),
            Self::State(state) => write!(f, "state {state}"),
            Self::Leave => f.write_str("leave"),
            Self::Send { items, waits } => {
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { " ; " })?;
                }
                f.write_str(if *waits { "" } else { " &" })
            }
            Self::Refuse { key, node } => write!(f, "refuse {key} {node}"),
            Self::Explode { key, node } => write!(f, "explode {key} {node}"),
            Self::Waver { key, node } => write!(f, "waver {key} {node}"),
            Self::Allow { key, node } => write!(f, "allow {key} {node}"),
            Self::RefuseSome { percent, seed } => write!(f, "refuse-some {percent} {seed}"),
            Self::Wait(time) => write!(f, "wait {}ms", time.as_millis()),
            Self::Settle => f.write_str("settle"),
            Self::Quiet => f.write_str("quiet"),
            Self::Show(Show::Queues) => f.write_str("show queues"),
            Self::Show(Show::Shapes) => f.write_str("show shapes"),
            Self::Show(Show::Apps) => f.write_str("show apps"),
            Self::Show(Show::Nodes) => f.write_str("show nodes"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

fn or_dash(id: &str) -> &str {
    if id.is_empty() { "-" } else { id }
}

fn names(wish: &Wish) -> String {
    format!("{} {}", or_dash(&wish.app), or_dash(&wish.key))
}

fn on(node: &str) -> String {
    if node.is_empty() { String::new() } else { format!(" on {node}") }
}

pub(crate) fn kind_name(kind: i32) -> String {
    TerminationType::try_from(kind)
        .map_or_else(|_| kind.to_string(), |kind| kind.as_str_name().to_owned())
}

// ------------------------------------------------------------------------------------ from text

/// The words of one item, read from the left.
struct Words<'a> {
    line: &'a str,
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        Self { line, words: line.split_whitespace().peekable() }
    }

    fn next(&mut self) -> &'a str {
        self.words.next().unwrap_or_else(|| panic!("`{}` lacks a word", self.line))
    }

    fn text(&mut self) -> String {
        self.next().to_owned()
    }

    /// An id or key, which may be empty.
    fn id(&mut self) -> String {
        let word = self.next();
        if word == "-" { String::new() } else { word.to_owned() }
    }

    fn number<T: std::str::FromStr>(&self, word: &str) -> T {
        word.parse().unwrap_or_else(|_| panic!("`{word}` in `{}` is no number", self.line))
    }

    fn pair(&mut self) -> (String, String) {
        let word = self.next();
        let (name, value) = word
            .split_once('=')
            .unwrap_or_else(|| panic!("`{word}` in `{}` is not name=value", self.line));
        (name.to_owned(), value.to_owned())
    }

    /// Takes the word if it is the next one.
    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    /// Amounts up to the next word that is none.
    fn amounts(&mut self) -> Amounts {
        let mut amounts = Amounts::default();
        while let Some((name, value)) = self.words.peek().and_then(|word| word.split_once('=')) {
            let Ok(quantity) = value.parse() else { break };
            if OPTIONS.contains(&name) {
                break;
            }
            self.words.next();
            amounts.0.push((name.to_owned(), quantity));
        }
        amounts
    }

    fn end(&mut self) {
        assert!(self.words.peek().is_none(), "`{}` has words too many", self.line);
    }

    fn unknown(&self, word: &str) -> ! {
        panic!("`{word}` in `{}` has no meaning here", self.line)
    }
}

/// Words before `=` that name no resource.
const OPTIONS: [&str; 11] = [
    "prio",
    "node",
    "created",
    "placeholder",
    "uuid",
    "partition",
    "timeout",
    "maxapps",
    "users",
    "groups",
    "apps",
];

impl Script {
    /// Reads one step per line; empty lines and what follows `//` count for nothing.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(line, _)| line));
        let lines = lines.map(str::trim).filter(|line| !line.is_empty());
        Self(lines.map(step).collect())
    }
}

fn step(line: &str) -> Step {
    let mut words = Words::of(line);
    let step = match words.next() {
        "order" => Step::Order { policy: words.text(), weights: words.amounts() },
        "queue" => Step::Queue(queue(&mut words)),
        "config" => return Step::Config(line.trim_start_matches("config").trim().to_owned()),
        "as" => Step::As(words.text()),
        "register" => Step::Register,
        "forget" => Step::Forget,
        "reload" => Step::Reload,
        "state" => Step::State(words.text()),
        "leave" => Step::Leave,
        "refuse" => Step::Refuse { key: words.text(), node: words.text() },
        "explode" => Step::Explode { key: words.text(), node: words.text() },
        "waver" => Step::Waver { key: words.text(), node: words.text() },
        "allow" => Step::Allow { key: words.text(), node: words.text() },
        "refuse-some" => {
            let (percent, seed) = (words.next(), words.next());
            Step::RefuseSome { percent: words.number(percent), seed: words.number(seed) }
        }
        "wait" => Step::Wait(duration(&mut words)),
        "settle" => Step::Settle,
        "quiet" => Step::Quiet,
        "show" => Step::Show(match words.next() {
            "queues" => Show::Queues,
            "shapes" => Show::Shapes,
            "apps" => Show::Apps,
            "nodes" => Show::Nodes,
            word => words.unknown(word),
        }),
        _ => {
            let (items, waits) = match line.strip_suffix('&') {
                Some(items) => (items, false),
                None => (line, true),
            };
            return Step::Send { items: items.split(';').map(item).collect(), waits };
        }
    };
    words.end();
    step
}

fn duration(words: &mut Words<'_>) -> Duration {
    let word = words.next();
    if let Some(number) = word.strip_suffix("ms") {
        return Duration::from_millis(words.number(number));
    }
    let number = word.strip_suffix('s').unwrap_or_else(|| words.unknown(word));
    Duration::from_secs(words.number(number))
}

fn queue(words: &mut Words<'_>) -> QueueWords {
    let mut queue = QueueWords { path: words.text(), ..QueueWords::default() };
    while let Some(word) = words.words.next() {
        match word {
            "max" => queue.max = Some(words.amounts()),
            "guaranteed" => queue.guaranteed = Some(words.amounts()),
            "prop" => {
                let pair = words.pair();
                queue.properties.push(pair);
            }
            "limit" => queue.limits.push(limit(words)),
            "submit" => queue.submit = Some(words.text()),
            word => match word.strip_prefix("maxapps=") {
                Some(number) => queue.max_apps = words.number(number),
                None => words.unknown(word),
            },
        }
    }
    queue
}

fn limit(words: &mut Words<'_>) -> LimitWords {
    let mut limit = LimitWords::default();
    let names = |text: &str| text.split(',').map(str::to_owned).collect();
    loop {
        limit.max.0.extend(words.amounts().0);
        let is_own = |word: &&str| {
            let name = word.split_once('=').map(|(name, _)| name);
            matches!(name, Some("users" | "groups" | "apps"))
        };
        let Some(word) = words.words.next_if(is_own) else { return limit };
        match word.split_once('=').expect("it has one") {
            ("users", users) => limit.users = names(users),
            ("groups", groups) => limit.groups = names(groups),
            (_, number) => limit.max_apps = words.number(number),
        }
    }
}

fn item(text: &str) -> Item {
    let mut words = Words::of(text.trim());
    let item = match words.next() {
        "node" => Item::Node(node(&mut words)),
        "resize" => Item::Resize(node(&mut words)),
        "drain" => Item::Drain(words.text()),
        "undrain" => Item::Undrain(words.text()),
        "remove" => Item::RemoveNode(words.text()),
        "act" => {
            let (node, number) = (words.id(), words.next());
            Item::Act { node, action: words.number(number) }
        }
        "app" => app(&mut words),
        "remove-app" => Item::RemoveApp(words.text()),
        "ask" => {
            let (app, key) = (words.id(), words.id());
            Item::Ask(wish(&app, &key, &mut words))
        }
        "request" => {
            let (app, key) = (words.id(), words.id());
            Item::Request(wish(&app, &key, &mut words))
        }
        "exists" => {
            let (app, key) = (words.id(), words.id());
            let node = if words.takes("on") { words.text() } else { String::new() };
            Item::Exists(wish(&app, &key, &mut words), node)
        }
        "foreign" => {
            let key = words.id();
            let node = if words.takes("on") { words.text() } else { String::new() };
            let amounts = words.amounts();
            let kind = match words.words.next() {
                None => "default".to_owned(),
                Some(word) => {
                    let kind = word.strip_prefix("kind=");
                    kind.unwrap_or_else(|| words.unknown(word)).to_owned()
                }
            };
            Item::Foreign { key, node, amounts, kind }
        }
        "foreign-gone" => Item::ForeignGone(words.text()),
        "withdraw" => {
            let (app, key) = (words.text(), words.next());
            Item::Withdraw { app, key: if key == "*" { String::new() } else { key.to_owned() } }
        }
        "release" => release(&mut words),
        word => words.unknown(word),
    };
    words.end();
    item
}

fn app(words: &mut Words<'_>) -> Item {
    let id = words.id();
    let (mut queue, mut user, mut partition) = (String::new(), String::new(), String::new());
    let (mut groups, mut tags, mut gang) = (String::new(), Vec::new(), Amounts::default());
    while let Some(word) = words.words.next() {
        match word {
            "in" => queue = words.text(),
            "user" => user = words.text(),
            "groups" => groups = words.text(),
            "partition" => partition = words.text(),
            "tag" => tags.push(words.pair()),
            "gang" => gang = words.amounts(),
            word => words.unknown(word),
        }
    }
    Item::App { id, queue, user, groups, tags, partition, gang }
}

fn node(words: &mut Words<'_>) -> NodeWords {
    let mut node = NodeWords { id: words.id(), ..NodeWords::default() };
    let total = words.amounts();
    node.total = (!total.0.is_empty()).then_some(total);
    while let Some(word) = words.words.next() {
        match word {
            "occupied" => node.occupied = Some(words.amounts()),
            "attr" => {
                let pair = words.pair();
                node.attributes.push(pair);
            }
            "drained" => node.drained = true,
            "holds" => {
                let name = words.next();
                let (app, key) = name.split_once('/').unwrap_or_else(|| words.unknown(name));
                let wish = wish(app, key, words);
                node.holds.push(wish);
            }
            word => words.unknown(word),
        }
    }
    node
}

fn wish(app: &str, key: &str, words: &mut Words<'_>) -> Wish {
    let mut wish = Wish::of(app, key, Amounts::default());
    loop {
        wish.amounts.0.extend(words.amounts().0);
        let Some(word) = words.words.next_if(|word| word.contains('=') || word.starts_with('x'))
        else {
            return wish;
        };
        if let Some(number) = word.strip_prefix('x') {
            wish.repeat = words.number(number);
            continue;
        }
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "prio" => wish.priority = words.number(value),
            "node" => wish.required = Some(value.to_owned()),
            "created" => wish.created = Some(value.to_owned()),
            "placeholder" => wish.placeholder = Some(value.to_owned()),
            "uuid" => value.clone_into(&mut wish.uuid),
            "partition" => value.clone_into(&mut wish.partition),
            "timeout" => wish.timeout_ms = words.number(value),
            _ => words.unknown(word),
        }
    }
}

fn release(words: &mut Words<'_>) -> Item {
    let app = words.id();
    let word = words.next();
    let which = if word == "*" {
        Which::All
    } else if let Some(key) = word.strip_prefix("key=") {
        Which::Key(key.to_owned())
    } else if let Some(uuid) = word.strip_prefix("uuid=") {
        Which::Uuid(uuid.to_owned())
    } else {
        words.unknown(word)
    };
    let kind = if words.takes("as") {
        let name = words.next();
        match TerminationType::from_str_name(name) {
            Some(kind) => kind as i32,
            None => words.number(name),
        }
    } else {
        TerminationType::StoppedByRm as i32
    };
    Item::Release { app, which, kind }
}

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
        node n1 vcore=4 memory=10 occupied vcore=1 attr ready=false drained holds a1/k9 vcore=1 uuid=u
        resize n1 occupied vcore=2 attr x=y
        drain n1 ; undrain n1 ; remove n1 ; act n1 99 &
        app a1 in root.a user ada groups dev,ops partition gpu tag a=b
        remove-app a1
        ask a1 k1 x3 vcore=1 prio=5 node=n1 created=100 timeout=1000 ; ask a1 k2 memory=1
        request a1 k1 x-1 vcore=-1 placeholder=
        exists a1 k1 on n1 vcore=1 uuid=u1 partition=p
        exists a1 k1 vcore=1
        ask - - vcore=1
        release - key=f1
        foreign f1 on n1 vcore=1 kind=static
        foreign-gone f1
        withdraw a1 *
        withdraw a1 k1
        release a1 * as TIMEOUT
        release a1 key=k1
        release a1 uuid=k1#2 as 77
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
        forget
        reload
        state Draining
        leave
    ";
    let script = Script::parse(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let written = script.to_string();
    assert_eq!(written.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
    assert_eq!(Script::parse(&written), script);
}
