//! Reads a tree of values as partitions and queues with typed settings.
//!
//! Every key is either known or an error, so that none is ignored silently. This step checks the
//! types of values; [`super::validate`] checks their meaning. A value of the wrong type is reported
//! once and becomes [`Field::Bad`], so that no later check reports it again. `reader` reads the
//! types, `keys` lists the keys of each mapping, and `partitions` and `queues` read the settings.

mod keys;
mod partitions;
mod queues;
mod reader;

use self::keys::{DocumentKey, Key as _, PartitionKey};
use self::reader::{Cursor, Reader};
use super::error::{Location, Report};
use super::yaml::Node;

/// A value with its location in the text.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) place: Location,
}

/// Result of reading one key.
#[derive(Clone, Debug, Default)]
pub(super) enum Field<T> {
    /// The key is missing or null.
    #[default]
    Absent,
    /// The value is wrong and was reported.
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

/// Users and groups that a placement rule is for.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Location of the mapping; `None` if there is no mapping.
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

/// Settings that dynamic leaves copy.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) max_applications: Field<u64>,
    pub(super) properties: Texts,
    pub(super) resources: QueueResources,
}

/// Limits of some users and groups.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) place: Location,
    pub(super) description: Field<String>,
    pub(super) users: Names,
    pub(super) groups: Names,
    pub(super) max_resources: Field<Texts>,
    pub(super) max_applications: Field<u64>,
}

/// A mapping from text to text, in the order of the text.
pub(super) type Texts = Vec<(String, Located<String>)>;

/// A list of texts.
pub(super) type Names = Field<Vec<Located<String>>>;

/// Reads the document and reports what it cannot read.
pub(super) fn read(root: Option<&Node>, report: &mut Report) -> Document {
    let mut document = Document { partitions: Field::Absent };
    let Some(root) = root else { return document };
    let root = Cursor { node: root, path: String::new() };
    let mut reader = Reader { report };
    if !reader.is_mapping(&root, DocumentKey::OF) {
        document.partitions = Field::Bad;
    }
    for (key, at) in reader.fields::<DocumentKey>(&root) {
        match key {
            DocumentKey::Partitions => {
                document.partitions = reader.list(&at, PartitionKey::OF, Reader::partition);
            }
            DocumentKey::Checksum => {} // computed from the text, whatever is written
        }
    }
    document
}

impl<T> Field<T> {
    /// Returns the value; `None` if it is absent or bad.
    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Given(located) => Some(&located.value),
            Self::Absent | Self::Bad => None,
        }
    }

    /// Returns the location of the value, or `or` if there is none.
    pub(super) fn place_or<'f>(&'f self, or: &'f Location) -> &'f Location {
        match self {
            Self::Given(located) => &located.place,
            Self::Absent | Self::Bad => or,
        }
    }

    /// Whether the value could not be read, which was reported already.
    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }
}

impl<T> Field<Vec<T>> {
    /// Returns the items; empty if there is no list that could be read.
    pub(super) fn listed(&self) -> &[T] {
        self.value().map_or(&[], Vec::as_slice)
    }
}

impl Field<String> {
    /// Returns the text; empty if there is none that could be read.
    pub(super) fn text(&self) -> &str {
        self.value().map_or("", String::as_str)
    }
}
