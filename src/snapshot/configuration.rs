//! The queue configuration of a snapshot: its text as it is, or rewritten with made-up names.
//!
//! A rewritten one is JSON, which YAML includes. The names of its keys are those of the document, so
//! every text in it has a kind. Texts for people are removed, and filters of placement rules, which
//! may be regular expressions.

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{ConfigurationSnapshot, config};
use serde_json::{Map, Value};

use super::SnapshotError;
use super::header::Replaced;
use super::names::Names;

/// The note about filters that were removed.
pub(super) const FILTERS_DROPPED: &str =
    "filters of placement rules are left out, since they are expressions on names";

/// The configuration as a document; null if it cannot be read as one.
pub(super) fn of(image: &ResourceManagerImage) -> Value {
    config::document_of(&image.configuration.config).unwrap_or_default()
}

/// The text that is written.
pub(super) fn text(
    document: &Value,
    configuration: &ConfigurationSnapshot,
    replaced: Replaced,
) -> Result<String, SnapshotError> {
    if replaced == Replaced::Nothing {
        return Ok(configuration.config.clone());
    }
    if document.is_null() && !configuration.config.trim().is_empty() {
        let why = "the configuration cannot be rewritten".to_owned();
        return Err(SnapshotError::Unwritten(why));
    }
    serde_json::to_string(document).map_err(|error| SnapshotError::Unwritten(error.to_string()))
}

/// Shows all names of a document to `names`, which may replace them. Returns whether a filter was
/// removed.
pub(super) fn visit(document: &mut Value, names: &mut Names) -> bool {
    if names.is_idle() {
        return false;
    }
    let mut visitor = Visitor { names, dropped: false };
    let Value::Object(document) = document else { return false };
    document.retain(|key, _| !key.eq_ignore_ascii_case("checksum"));
    for (_, partitions) in entries(document, "partitions") {
        each(partitions, |partition| visitor.partition(partition));
    }
    visitor.dropped
}

struct Visitor<'n> {
    names: &'n mut Names,
    dropped: bool,
}

impl Visitor<'_> {
    fn partition(&mut self, partition: &mut Map<String, Value>) {
        for (key, value) in partition {
            match &*key.to_lowercase() {
                "name" => self.name(value),
                "queues" => each(value, |queue| self.queue(queue)),
                "placementrules" => each(value, |rule| self.rule(rule)),
                "limits" => each(value, |limit| self.limit(limit)),
                "nodesortpolicy" => one(value, |policy| {
                    entries(policy, "resourceweights").for_each(|(_, it)| self.amounts(it));
                }),
                _ => {}
            }
        }
    }

    fn queue(&mut self, queue: &mut Map<String, Value>) {
        for (key, value) in queue {
            match &*key.to_lowercase() {
                "name" => {
                    // Paths are in lower case.
                    if let Value::String(name) = value {
                        *name = name.to_lowercase();
                        self.names.path(name);
                    }
                }
                "queues" => each(value, |queue| self.queue(queue)),
                "limits" => each(value, |limit| self.limit(limit)),
                "adminacl" | "submitacl" => self.access(value),
                "resources" => self.resources(value),
                "childtemplate" => one(value, |template| {
                    entries(template, "resources").for_each(|(_, it)| self.resources(it));
                }),
                _ => {}
            }
        }
    }

    fn resources(&mut self, resources: &mut Value) {
        one(resources, |resources| resources.values_mut().for_each(|it| self.amounts(it)));
    }

    fn limit(&mut self, limit: &mut Map<String, Value>) {
        for (key, value) in limit {
            match &*key.to_lowercase() {
                "limit" => *value = Value::String(String::new()),
                "users" | "groups" => self.users(value),
                "maxresources" => self.amounts(value),
                _ => {}
            }
        }
    }

    fn rule(&mut self, rule: &mut Map<String, Value>) {
        let name = entries(rule, "name").find_map(|(_, name)| name.as_str().map(str::to_lowercase));
        let n_keys = rule.len();
        rule.retain(|key, _| !key.eq_ignore_ascii_case("filter"));
        self.dropped |= rule.len() < n_keys;
        for (key, value) in rule {
            match (&*key.to_lowercase(), value) {
                ("parent", value) => one(value, |parent| self.rule(parent)),
                ("value", Value::String(value)) => {
                    if let Some("tag") = name.as_deref() {
                        self.names.key(value);
                    } else {
                        *value = value.to_lowercase();
                        self.names.path(value);
                    }
                }
                _ => {}
            }
        }
    }

    /// An access list: users, separated by commas, then after a space groups.
    fn access(&mut self, list: &mut Value) {
        let Value::String(list) = list else { return };
        let kinds = list.split(' ').map(|kind| {
            let users = kind.split(',').map(|user| {
                let mut user = user.to_owned();
                self.names.user(&mut user);
                user
            });
            users.collect::<Vec<_>>().join(",")
        });
        *list = kinds.collect::<Vec<_>>().join(" ");
    }

    fn users(&mut self, users: &mut Value) {
        match users {
            Value::Array(users) => users.iter_mut().for_each(|user| self.users(user)),
            Value::String(user) => self.names.user(user),
            _ => {}
        }
    }

    fn name(&mut self, name: &mut Value) {
        if let Value::String(name) = name {
            self.names.name(name);
        }
    }

    /// Amounts by resource type.
    fn amounts(&mut self, amounts: &mut Value) {
        one(amounts, |amounts| {
            let before = std::mem::take(amounts).into_iter();
            amounts.extend(before.map(|(mut name, amount)| {
                self.names.resource(&mut name);
                (name, amount)
            }));
        });
    }
}

/// The entries of a mapping with this key, in whatever case it is written.
fn entries<'m>(
    map: &'m mut Map<String, Value>,
    key: &'m str,
) -> impl Iterator<Item = (&'m String, &'m mut Value)> {
    map.iter_mut().filter(move |(known, _)| known.eq_ignore_ascii_case(key))
}

fn one(value: &mut Value, visit: impl FnOnce(&mut Map<String, Value>)) {
    if let Value::Object(map) = value {
        visit(map);
    }
}

fn each(value: &mut Value, mut visit: impl FnMut(&mut Map<String, Value>)) {
    if let Value::Array(list) = value {
        for item in list {
            one(item, &mut visit);
        }
    }
}
