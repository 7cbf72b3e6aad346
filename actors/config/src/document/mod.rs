//! A tree of values → partitions and queues as they were written.
//!
//! Here every key is known or unknown; an unknown one is an error, so that nothing is ever ignored
//! silently. Values get their types; what they say is judged in [`super::validate`]. A value of the
//! wrong type is reported once and then [`Field::Bad`], so that no later check complains about it
//! again. `reader` knows the types, `keys` the keys of each mapping, and what is read from each
//! stands in `partitions` and `queues`.

mod keys;
mod partitions;
mod queues;
mod reader;

pub(super) use self::keys::closest;
use self::reader::{Cursor, Reader};
use super::error::{Location, Report};
use super::yaml::Node;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) place: Location,
}

/// What became of one key.
#[derive(Clone, Debug, Default)]
pub(super) enum Field<T> {
    /// Not written, or null.
    #[default]
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
    pub(super) place: Location,
    pub(super) name: Field<String>,
    pub(super) queues: Field<Vec<Queue>>,
    pub(super) placement: Vec<Rule>,
    pub(super) limits: Field<Vec<Limit>>,
    pub(super) preemption: Field<bool>,
    pub(super) quota_preemption: Field<bool>,
    pub(super) node_order_policy: Field<String>,
    pub(super) node_order_weights: Vec<(String, Located<f64>)>,
    pub(super) resolver: Field<String>,
}

/// A placement rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) place: Location,
    pub(super) name: Field<String>,
    pub(super) create: bool,
    pub(super) filter: Filter,
    pub(super) parent: Option<Box<Rule>>,
    pub(super) value: Field<String>,
}

/// Whom a placement rule is for.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Of the mapping; none where there is none.
    pub(super) place: Option<Location>,
    pub(super) kind: Field<String>,
    pub(super) users: Names,
    pub(super) groups: Names,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) place: Location,
    pub(super) name: Field<String>,
    pub(super) parent: bool,
    pub(super) queues: Vec<Queue>,
    pub(super) resources: QueueResources,
    pub(super) max_applications: Field<u64>,
    pub(super) properties: Texts,
    pub(super) admin_acl: Field<String>,
    pub(super) submit_acl: Field<String>,
    pub(super) template: Field<Template>,
    pub(super) limits: Field<Vec<Limit>>,
}

/// `resources` of a queue or of a template.
#[derive(Debug, Default)]
pub(super) struct QueueResources {
    pub(super) guaranteed: Field<Texts>,
    pub(super) max: Field<Texts>,
}

/// What dynamic leaves are made of.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) max_applications: Field<u64>,
    pub(super) properties: Texts,
    pub(super) resources: QueueResources,
}

/// What some users and groups may use.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) place: Location,
    pub(super) description: Field<String>,
    pub(super) users: Names,
    pub(super) groups: Names,
    pub(super) max_resources: Field<Texts>,
    pub(super) max_applications: Field<u64>,
}

/// A mapping from text to text, in the order it was written.
pub(super) type Texts = Vec<(String, Located<String>)>;

/// A list of texts.
pub(super) type Names = Field<Vec<Located<String>>>;

/// Reads what the document says, reporting what it cannot say.
pub(super) fn read(root: Option<&Node>, report: &mut Report) -> Document {
    let mut document = Document { partitions: Field::Absent };
    let Some(root) = root else { return document };
    let root = Cursor { node: root, path: String::new() };
    let mut reader = Reader { report };
    if !reader.is_mapping(&root, &keys::DOCUMENT) {
        document.partitions = Field::Bad;
    }
    for (key, at) in reader.fields(&root, &keys::DOCUMENT) {
        match key {
            "partitions" => {
                document.partitions = reader.list(&at, &keys::PARTITION, Reader::partition);
            }
            "checksum" => {} // computed anew, whatever is written
            _ => unreachable!("{}", keys::KNOWN_ONLY),
        }
    }
    document
}

impl<T> Field<T> {
    /// The value, where there is one that could be read.
    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Given(located) => Some(&located.value),
            Self::Absent | Self::Bad => None,
        }
    }

    /// Where it stands, if anything was written; `or` otherwise.
    pub(super) fn place_or<'f>(&'f self, or: &'f Location) -> &'f Location {
        match self {
            Self::Given(located) => &located.place,
            Self::Absent | Self::Bad => or,
        }
    }

    /// Whether it could not be read, which was reported already.
    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }
}

impl<T> Field<Vec<T>> {
    /// What is listed; nothing where there is no list that could be read.
    pub(super) fn listed(&self) -> &[T] {
        self.value().map_or(&[], Vec::as_slice)
    }
}

impl Field<String> {
    /// The text; empty where there is none that could be read.
    pub(super) fn text(&self) -> &str {
        self.value().map_or("", String::as_str)
    }
}
