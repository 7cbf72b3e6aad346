//! The tags that are written of an image: those that a decision reads. Others may hold anything, a
//! password too, so they are left out.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_config::placement::{FORCE, NAMESPACE_TAGS};
use monoceros_rules::decide::preemption::DISRUPTION;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::tags::{
    ALLOW_PREEMPTION, CREATED_NS, CREATION_TIME, FOREIGN, NAMESPACE, PLACEHOLDERS_SINCE, POD,
    REQUIRED_NODE, RUN_TIME_LIMIT, TagMap,
};

use crate::partition::PartitionImage;

/// The tags of applications that decisions read. The names of some are compared without case.
const OF_APPLICATIONS: [&str; 6] =
    [FORCE, DISRUPTION, PLACEHOLDERS_SINCE, RUN_TIME_LIMIT, NAMESPACE, CREATED_NS];
/// The tags of asks and allocations that decisions read, and the name of their pod.
const OF_ASKS: [&str; 8] = [
    CREATION_TIME,
    CREATED_NS,
    REQUIRED_NODE,
    ALLOW_PREEMPTION,
    RUN_TIME_LIMIT,
    FOREIGN,
    NAMESPACE,
    POD,
];

/// The names of the tags that are written.
#[derive(Clone, Debug, Default)]
pub struct KeptTags {
    /// Of applications, in lower case.
    of_applications: BTreeSet<String>,
    /// Of asks and allocations.
    of_asks: BTreeSet<String>,
}

impl KeptTags {
    /// The tags that decisions of this partition read: those that this program knows, those of its
    /// placement rules, and those by which constraints count allocations.
    pub fn of(image: &PartitionImage) -> Self {
        let of_rules = image.placement_tags.iter().map(|name| &**name);
        let names = OF_APPLICATIONS.into_iter().chain(NAMESPACE_TAGS).chain(of_rules);
        let mut kept = Self {
            of_applications: names.map(str::to_lowercase).collect(),
            of_asks: OF_ASKS.into_iter().map(str::to_owned).collect(),
        };
        for application in &image.actors.applications {
            for ask in application.book.asks.iter() {
                kept.add_counted_by(&ask.spec);
            }
            let groups = application
                .book
                .native()
                .map(monoceros_rules::applications::native::Native::groups)
                .unwrap_or_default();
            for spec in groups.iter().filter_map(|group| group.spec.as_deref()) {
                kept.add_counted_by(spec);
            }
        }
        for (_, entry) in image.books.allocations.iter() {
            kept.add_counted_by(&entry.spec);
        }
        kept
    }

    /// Adds the tags by which the constraint of an ask counts allocations.
    fn add_counted_by(&mut self, spec: &AskSpec) {
        let Some(constraint) = &spec.constraint else { return };
        for simple in constraint.constraint().simple() {
            for expression in simple.near.iter().flat_map(|near| &near.expressions) {
                if !self.of_asks.contains(&expression.key) {
                    self.of_asks.insert(expression.key.clone());
                }
            }
        }
    }

    /// The tags of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.of_applications.extend(other.of_applications);
        self.of_asks.extend(other.of_asks);
        self
    }

    /// Whether a tag of this name is written, of whatever it is a tag.
    pub fn has(&self, name: &str) -> bool {
        self.of_asks.contains(name) || self.of_applications.contains(&name.to_lowercase())
    }

    /// The tags of an application that are written.
    pub(super) fn of_application(&self, tags: Option<&TagMap>) -> BTreeMap<String, String> {
        kept(tags, |name| self.of_applications.contains(&name.to_lowercase()))
    }

    /// The tags of an ask or allocation that are written.
    pub(super) fn of_ask(&self, tags: Option<&TagMap>) -> BTreeMap<String, String> {
        kept(tags, |name| self.of_asks.contains(name))
    }
}

fn kept(tags: Option<&TagMap>, is_kept: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let tags = tags.into_iter().flat_map(|tags| tags.iter());
    let tags = tags.filter(|(name, _)| is_kept(name));
    tags.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}
