//! Parses scripts. An invalid line is a panic that shows the line.

use std::time::Duration;

use monoceros_proto::si::v1::TerminationType;

use super::{
    Amounts, FAILED, Item, LimitWords, NodeWords, QueueWords, Script, Show, Step, Which, Wish,
};

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

    /// Reads an id or key, which may be empty.
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

    /// Takes the next word if it is `word`.
    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    /// Reads amounts up to the next word that is not an amount.
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

/// Words before `=` that are not resource names.
const OPTIONS: [&str; 12] = [
    "prio",
    "node",
    "created",
    "placeholder",
    "group",
    "uuid",
    "partition",
    "timeout",
    "maxapps",
    "users",
    "groups",
    "apps",
];

impl Script {
    /// Reads one step per line. Empty lines and text after `//` are ignored.
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
        "recover" => {
            let word = words.next();
            Step::Recover(words.number(word))
        }
        "confirm" => {
            let which = match words.next() {
                "*" => None,
                word => Some(words.number(word)),
            };
            let kind = words.words.peek().is_some_and(|word| *word == "as");
            let kind = kind.then(|| self::kind(&mut words));
            Step::Confirm { which, kind, waits: !words.takes("&") }
        }
        "confirm-again" => {
            let word = words.next();
            Step::ConfirmAgain(words.number(word))
        }
        "prefer" => {
            let (key, node, by) = (words.text(), words.text(), words.next());
            let (by, among_all) = (words.number(by), words.takes("among-all"));
            Step::Prefer { key, node, by, among_all }
        }
        "refuse" => Step::Refuse { key: words.text(), node: words.text() },
        "explode" => Step::Explode { key: words.text(), node: words.text() },
        "waver" => Step::Waver { key: words.text(), node: words.text() },
        "allow" => Step::Allow { key: words.text(), node: words.text() },
        "apart" => Step::Apart,
        "refuse-some" => {
            let (percent, seed) = (words.next(), words.next());
            Step::RefuseSome { percent: words.number(percent), seed: words.number(seed) }
        }
        "reservations" => {
            let delay = if words.takes("never") { None } else { Some(duration(&mut words)) };
            Step::Reservations { delay, timeout: duration(&mut words) }
        }
        "wait" => Step::Wait(duration(&mut words)),
        "settle" => Step::Settle,
        "quiet" => Step::Quiet,
        "show" => Step::Show(match words.next() {
            "queues" => Show::Queues,
            "shapes" => Show::Shapes,
            "apps" => Show::Apps,
            "nodes" => Show::Nodes,
            "users" => Show::Users,
            "task-groups" => Show::TaskGroups,
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
            let key = if key == "*" { String::new() } else { key.to_owned() };
            Item::Withdraw { app, key, kind: kind(&mut words) }
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
    let (mut style, mut timeout_ms, mut needs) = (String::new(), 0, Vec::new());
    while let Some(word) = words.words.next() {
        match word {
            "in" => queue = words.text(),
            "user" => user = words.text(),
            "groups" => groups = words.text(),
            "partition" => partition = words.text(),
            "tag" => tags.push(words.pair()),
            "gang" => gang = words.amounts(),
            "needs" => {
                let name = words.id();
                let group = wish("", &name, words);
                needs.push(group);
            }
            "style" => style = words.text(),
            "timeout" => {
                let word = words.next();
                timeout_ms = words.number(word);
            }
            word => words.unknown(word),
        }
    }
    Item::App { id, queue, user, groups, tags, partition, gang, style, timeout_ms, needs }
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
            "group" => value.clone_into(&mut wish.group),
            "policy" => value.clone_into(&mut wish.policy),
            "originator" => wish.originator = value == "true",
            "uuid" => value.clone_into(&mut wish.uuid),
            "partition" => value.clone_into(&mut wish.partition),
            "timeout" => wish.timeout_ms = words.number(value),
            "tags" => {
                let tags = value.split(',').filter_map(|tag| tag.split_once(':'));
                wish.tags = tags.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
            }
            "where" => value.clone_into(&mut wish.constraint),
            "within" => value.clone_into(&mut wish.within),
            "near" => wish.near = value.split(',').map(str::to_owned).collect(),
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
    Item::Release { app, which, kind: kind(words) }
}

/// Reads a termination type by name or number. The default is a stop by the RM.
fn kind(words: &mut Words<'_>) -> i32 {
    if !words.takes("as") {
        return TerminationType::StoppedByRm as i32;
    }
    let name = words.next();
    match TerminationType::from_str_name(name) {
        _ if name == "FAILED" => FAILED,
        Some(kind) => kind as i32,
        None => words.number(name),
    }
}
