//! A tree of values → partitions and queues as they were written.
//!
//! Here every key is known, known but not yet supported, or unknown; each of the last two is an
//! error, so that nothing is ever ignored silently. Values get their types; what they say is judged
//! in [`super::validate`]. A value of the wrong type is reported once and then [`Field::Bad`], so
//! that no later check complains about it again.

use super::error::{Place, Report};
use super::settings;
use super::yaml::{self, At, Node, Value};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// What became of one key.
#[derive(Debug)]
pub(super) enum Field<T> {
    /// Not written, or null.
    Absent,
    /// Written and already reported as wrong.
    Bad,
    Given(Located<T>),
}

#[derive(Debug)]
pub(super) struct Document {
    pub(super) partitions: Field<Vec<Partition>>,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) place: Place,
    pub(super) name: Field<String>,
    pub(super) queues: Field<Vec<Queue>>,
    pub(super) node_order_policy: Field<String>,
    pub(super) node_order_weights: Vec<(String, Located<f64>)>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) place: Place,
    pub(super) name: Field<String>,
    pub(super) parent: bool,
    pub(super) queues: Vec<Queue>,
    pub(super) guaranteed: Field<Texts>,
    pub(super) max: Field<Texts>,
    pub(super) max_applications: Field<u64>,
    pub(super) properties: Texts,
    pub(super) admin_acl: Field<String>,
    pub(super) submit_acl: Field<String>,
}

/// A mapping from text to text, in the order it was written.
pub(super) type Texts = Vec<(String, Located<String>)>;

/// The keys of one kind of mapping.
struct Keys {
    /// What the mapping describes, with its article.
    of: &'static str,
    known: &'static [&'static str],
    /// Keys that the format has and this version does not support.
    later: &'static [&'static str],
}

const DOCUMENT: Keys =
    Keys { of: "the configuration", known: &["partitions", "checksum"], later: &[] };
const PARTITION: Keys = Keys {
    of: "a partition",
    known: &["name", "queues", "nodesortpolicy"],
    later: &["placementrules", "limits", "preemption", "usergroupresolver"],
};
const NODE_ORDER: Keys =
    Keys { of: "a node sort policy", known: &["type", "resourceweights"], later: &[] };
const QUEUE: Keys = Keys {
    of: "a queue",
    known: &[
        "name",
        "parent",
        "queues",
        "resources",
        "maxapplications",
        "properties",
        "adminacl",
        "submitacl",
    ],
    later: &["childtemplate", "limits"],
};
const RESOURCES: Keys =
    Keys { of: "`resources` of a queue", known: &["guaranteed", "max"], later: &[] };
/// Mappings whose keys are free.
const TEXTS: Keys = Keys { of: "this", known: &[], later: &[] };
const WEIGHTS: Keys = Keys { of: "`resourceweights`", known: &[], later: &[] };

/// Why a match over the keys that [`Reader::fields`] returned is complete.
const KNOWN_ONLY: &str = "a key outside `known` is reported and not returned";

/// Reads what the document says, reporting what it cannot say.
pub(super) fn read(root: Option<&Node>, report: &mut Report) -> Document {
    let mut document = Document { partitions: Field::Absent };
    let Some(root) = root else { return document };
    let root = Cursor { node: root, path: String::new() };
    let mut reader = Reader { report };
    if !reader.is_mapping(&root, &DOCUMENT) {
        document.partitions = Field::Bad;
    }
    for (key, at) in reader.fields(&root, &DOCUMENT) {
        match key {
            "partitions" => document.partitions = reader.list(&at, &PARTITION, Reader::partition),
            "checksum" => {} // computed anew, whatever is written
            _ => unreachable!("{KNOWN_ONLY}"),
        }
    }
    document
}

/// A value and the keys that lead to it.
struct Cursor<'n> {
    node: &'n Node,
    path: String,
}

impl Cursor<'_> {
    fn place(&self) -> Place {
        self.node.at.place(&self.path)
    }

    fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Scalar { is_null: true, .. })
    }

    /// What the value is, for the message that something else was expected.
    fn kind(&self) -> String {
        match &self.node.value {
            Value::Scalar { text, .. } => format!("`{text}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

struct Reader<'r> {
    report: &'r mut Report,
}

impl Reader<'_> {
    fn partition(&mut self, at: &Cursor<'_>) -> Partition {
        let mut partition = Partition {
            place: at.place(),
            name: Field::Absent,
            queues: Field::Absent,
            node_order_policy: Field::Absent,
            node_order_weights: Vec::new(),
        };
        for (key, at) in self.fields(at, &PARTITION) {
            match key {
                "name" => partition.name = self.text(&at),
                "queues" => partition.queues = self.list(&at, &QUEUE, Self::queue),
                "nodesortpolicy" => self.node_order(&at, &mut partition),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        partition
    }

    fn node_order(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, &NODE_ORDER) {
            return;
        }
        for (key, at) in self.fields(at, &NODE_ORDER) {
            match key {
                "type" => partition.node_order_policy = self.text(&at),
                "resourceweights" => partition.node_order_weights = self.weights(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
    }

    fn queue(&mut self, at: &Cursor<'_>) -> Queue {
        let mut queue = Queue {
            place: at.place(),
            name: Field::Absent,
            parent: false,
            queues: Vec::new(),
            guaranteed: Field::Absent,
            max: Field::Absent,
            max_applications: Field::Absent,
            properties: Vec::new(),
            admin_acl: Field::Absent,
            submit_acl: Field::Absent,
        };
        for (key, at) in self.fields(at, &QUEUE) {
            match key {
                "name" => queue.name = self.text(&at),
                "parent" => queue.parent = self.truth(&at),
                "queues" => {
                    let below = self.list(&at, &QUEUE, Self::queue);
                    queue.queues = below.given().unwrap_or_default();
                }
                "resources" => self.resources(&at, &mut queue),
                "maxapplications" => queue.max_applications = self.count(&at),
                "properties" => queue.properties = self.properties(&at),
                "adminacl" => queue.admin_acl = self.text(&at),
                "submitacl" => queue.submit_acl = self.text(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        queue
    }

    fn resources(&mut self, at: &Cursor<'_>, queue: &mut Queue) {
        if !self.is_mapping(at, &RESOURCES) {
            return;
        }
        for (key, at) in self.fields(at, &RESOURCES) {
            match key {
                "guaranteed" => queue.guaranteed = self.texts(&at),
                "max" => queue.max = self.texts(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
    }

    fn properties(&mut self, at: &Cursor<'_>) -> Texts {
        let mut properties = self.texts(at).given().unwrap_or_default();
        properties.retain(|(key, text)| {
            let is_for_later = settings::is_for_later(key);
            if is_for_later {
                let message = format!("the property `{key}` is not supported yet; remove it");
                self.report.error("E_CONF_UNSUPPORTED", &text.place, message);
            }
            !is_for_later
        });
        properties
    }

    /// The supported keys of a mapping with their values; every other key is reported.
    fn fields<'n>(&mut self, at: &Cursor<'n>, keys: &Keys) -> Vec<(&'n str, Cursor<'n>)> {
        let mut fields = entries(at);
        fields.retain(|(key, key_at, value)| {
            if keys.known.contains(key) {
                return true;
            }
            let place = key_at.place(&value.path);
            if keys.later.contains(key) {
                let message = format!("`{key}` of {} is not supported yet; remove it", keys.of);
                self.report.error("E_CONF_UNSUPPORTED", &place, message);
            } else {
                let instead = match closest(key, keys.known.iter().chain(keys.later).copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("known are: {}", keys.known.join(", ")),
                };
                let message = format!("unknown key `{key}` of {}; {instead}", keys.of);
                self.report.error("E_CONF_PARSE", &place, message);
            }
            false
        });
        fields.into_iter().map(|(key, _, value)| (key, value)).collect()
    }

    /// Whether the value has keys, or is null and could have; reported where it is not.
    fn is_mapping(&mut self, at: &Cursor<'_>, keys: &Keys) -> bool {
        let is_mapping = matches!(at.node.value, Value::Map(_)) || at.is_null();
        if !is_mapping {
            let message = format!("{} has to be a mapping with keys, not {}", keys.of, at.kind());
            self.wrong(at, message);
        }
        is_mapping
    }

    /// A list of mappings.
    fn list<T>(
        &mut self,
        at: &Cursor<'_>,
        keys: &Keys,
        each: impl Fn(&mut Self, &Cursor<'_>) -> T,
    ) -> Field<Vec<T>> {
        if at.is_null() {
            return Field::Absent;
        }
        let Value::List(items) = &at.node.value else {
            self.wrong(at, format!("expected a list, not {}", at.kind()));
            return Field::Bad;
        };
        let mut list = Vec::with_capacity(items.len());
        for (number, node) in items.iter().enumerate() {
            let at = Cursor { node, path: format!("{}[{number}]", at.path) };
            if self.is_mapping(&at, keys) {
                list.push(each(self, &at));
            }
        }
        if list.is_empty() && !items.is_empty() {
            return Field::Bad;
        }
        Field::Given(Located { value: list, place: at.place() })
    }

    fn text(&mut self, at: &Cursor<'_>) -> Field<String> {
        let Value::Scalar { text, .. } = &at.node.value else {
            self.wrong(at, format!("expected a text, not {}", at.kind()));
            return Field::Bad;
        };
        Field::Given(Located { value: text.clone(), place: at.place() })
    }

    fn texts(&mut self, at: &Cursor<'_>) -> Field<Texts> {
        if at.is_null() {
            return Field::Absent;
        }
        if !self.is_mapping(at, &TEXTS) {
            return Field::Bad;
        }
        let mut texts = Vec::new();
        let mut all_read = true;
        for (key, _, value) in entries(at) {
            match self.text(&value) {
                Field::Given(text) => texts.push((key.to_owned(), text)),
                Field::Absent | Field::Bad => all_read = false,
            }
        }
        if all_read {
            Field::Given(Located { value: texts, place: at.place() })
        } else {
            Field::Bad
        }
    }

    fn weights(&mut self, at: &Cursor<'_>) -> Vec<(String, Located<f64>)> {
        let mut weights = Vec::new();
        if !self.is_mapping(at, &WEIGHTS) {
            return weights;
        }
        for (key, _, value) in entries(at) {
            let weight = match &value.node.value {
                Value::Scalar { text, .. } => text.parse().ok().filter(|w: &f64| w.is_finite()),
                _ => None,
            };
            let Some(weight) = weight else {
                let message = format!("the weight of `{key}` is a number, not {}", value.kind());
                self.wrong(&value, message);
                continue;
            };
            weights.push((key.to_owned(), Located { value: weight, place: value.place() }));
        }
        weights
    }

    /// A whole number of 0 or more, in decimal digits.
    fn count(&mut self, at: &Cursor<'_>) -> Field<u64> {
        if at.is_null() {
            return Field::Absent;
        }
        if let Value::Scalar { text, .. } = &at.node.value
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(value) = text.parse()
        {
            return Field::Given(Located { value, place: at.place() });
        }
        let message =
            format!("expected a whole number between 0 and {}, not {}", u64::MAX, at.kind());
        self.wrong(at, message);
        Field::Bad
    }

    /// Yes or no in the spellings of YAML 1.2 and 1.1; no where it is null or unreadable.
    fn truth(&mut self, at: &Cursor<'_>) -> bool {
        if let Value::Scalar { text, is_null } = &at.node.value {
            match &**text {
                "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y"
                | "Y" => return true,
                "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n"
                | "N" => return false,
                _ if *is_null => return false,
                _ => {}
            }
        }
        self.wrong(at, format!("expected `true` or `false`, not {}", at.kind()));
        false
    }

    fn wrong(&mut self, at: &Cursor<'_>, message: String) {
        self.report.error("E_CONF_PARSE", &at.place(), message);
    }
}

/// All keys of a mapping with their places and values; none where it is no mapping.
fn entries<'n>(at: &Cursor<'n>) -> Vec<(&'n str, At, Cursor<'n>)> {
    let Value::Map(entries) = &at.node.value else { return Vec::new() };
    entries
        .iter()
        .map(|entry| {
            let path = yaml::join(&at.path, &entry.key);
            (&*entry.key, entry.key_at, Cursor { node: &entry.value, path })
        })
        .collect()
}

impl<T> Field<T> {
    pub(super) fn given(self) -> Option<T> {
        match self {
            Self::Given(located) => Some(located.value),
            Self::Absent | Self::Bad => None,
        }
    }
}

/// The word a writer most likely meant: spelled the same but for case and separators, or with a
/// third of its letters wrong at most.
pub(super) fn closest<'w>(written: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let bare = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let written = bare(&written.chars().take(64).collect::<String>());
    words
        .map(|word| (strsim::damerau_levenshtein(&written, &bare(word)), word))
        .filter(|(distance, word)| *distance <= word.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
