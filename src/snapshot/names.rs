//! Names of a snapshot, and the made-up ones that replace them.
//!
//! # Why in sorted order
//! Names decide: of two applications that are equal in everything else, the one with the lesser name
//! goes first. So made-up names are numbers with leading zeros, in the order of the names that they
//! replace. First all names are collected, then they are numbered, then replaced.
//!
//! # What is kept
//! Words that this program knows ([`KEPT`], the keys in [`KEYS`]), numbers and times in tags that
//! decisions read. Of composed texts the parts are replaced: of paths of queues, of the full names of
//! partitions, and of the names of repeated allocations (`key#2`). The classes of run times are by
//! the stems of application names; of made-up names there are none, so they fall back to the next
//! larger class.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_actors::tags;

use super::header::Replaced;

/// Words that are kept.
const KEPT: [&str; 8] = ["", "*", "root", "default", "@recovery@", "true", "false", "UNKNOWN"];

/// Resource types that are kept.
const RESOURCES: [&str; 8] = [
    "vcore",
    "memory",
    "pods",
    "ephemeral-storage",
    "storage",
    "hugepages-1Gi",
    "hugepages-2Mi",
    "nvidia.com/gpu",
];

/// Keys of tags and of attributes of nodes that are kept.
const KEYS: [&str; 32] = [
    tags::NAMESPACE,
    tags::POD,
    tags::RUN_TIME_LIMIT,
    tags::HOLD_AGAIN_SINCE,
    tags::CREATED_NS,
    tags::STARTED_NS,
    tags::CREATION_TIME,
    tags::PLACEHOLDERS_SINCE,
    tags::REQUIRED_NODE,
    tags::ALLOW_PREEMPTION,
    tags::FOREIGN,
    "application.create.force",
    "monoceros.io/disruption",
    "monoceros.io/stays",
    "namespace",
    "namespace.resourcequota",
    "namespace.resourceguaranteed",
    "namespace.resourcemaxapps",
    "ready",
    "hostname",
    "si/node-partition",
    "si/hostname",
    "si.io/hostname",
    "si/rackname",
    "si.io/rackname",
    "si/instance-type",
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Tags whose values are numbers, times and words of this program.
const PLAIN_VALUES: [&str; 13] = [
    tags::RUN_TIME_LIMIT,
    tags::HOLD_AGAIN_SINCE,
    tags::CREATED_NS,
    tags::STARTED_NS,
    tags::CREATION_TIME,
    tags::PLACEHOLDERS_SINCE,
    tags::ALLOW_PREEMPTION,
    tags::FOREIGN,
    "application.create.force",
    "monoceros.io/disruption",
    "monoceros.io/stays",
    "namespace.resourcemaxapps",
    "ready",
];

/// Tags whose values are amounts in JSON.
const AMOUNTS: [&str; 2] = ["namespace.resourcequota", "namespace.resourceguaranteed"];

/// Names that are collected, or replaced.
#[derive(Debug)]
pub(super) struct Names {
    replaced: Replaced,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Keep,
    Collect(BTreeSet<String>),
    Replace(BTreeMap<String, String>),
}

impl Names {
    /// Replaces nothing.
    pub(super) fn kept() -> Self {
        Self { replaced: Replaced::Nothing, mode: Mode::Keep }
    }

    /// Collects the names that are to be replaced.
    pub(super) fn collecting(replaced: Replaced) -> Self {
        Self { replaced, mode: Mode::Collect(BTreeSet::new()) }
    }

    /// Replaces the names that were collected.
    pub(super) fn numbered(self) -> Self {
        let Mode::Collect(found) = self.mode else { return self };
        let width = found.len().to_string().len();
        let letter = if self.replaced == Replaced::Users { 'u' } else { 'n' };
        let numbered = found.into_iter().zip(1_u64..);
        let by = numbered.map(|(name, number)| (name, format!("{letter}{number:0width$}")));
        Self { replaced: self.replaced, mode: Mode::Replace(by.collect()) }
    }

    /// Whether nothing is collected or replaced.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.mode, Mode::Keep)
    }

    /// Collects a name.
    pub(super) fn add(&mut self, name: &str) {
        let mut name = name.to_owned();
        self.name(&mut name);
    }

    /// What replaces a name.
    pub(super) fn replaced_name(&mut self, name: &str) -> String {
        let mut name = name.to_owned();
        self.name(&mut name);
        name
    }

    /// A whole name.
    pub(super) fn name(&mut self, name: &mut String) {
        match &mut self.mode {
            Mode::Keep => {}
            _ if is_kept(name) => {}
            Mode::Collect(found) => {
                if self.replaced == Replaced::Everything && !found.contains(name.as_str()) {
                    found.insert(name.clone());
                }
            }
            Mode::Replace(by) => {
                if let Some(made_up) = by.get(name.as_str()) {
                    name.clone_from(made_up);
                }
            }
        }
    }

    /// The name of a user or group. Queues may be named after users.
    pub(super) fn user(&mut self, user: &mut String) {
        if self.replaced == Replaced::Users
            && let Mode::Collect(found) = &mut self.mode
        {
            let of_queue = user.replace('.', "_dot_").to_lowercase();
            let names = [user.clone(), of_queue];
            found.extend(names.into_iter().filter(|name| !is_kept(name)));
            return;
        }
        self.name(user);
    }

    /// The path of a queue.
    pub(super) fn path(&mut self, path: &mut String) {
        let parts = path.split('.').map(|part| self.replaced_name(part)).collect::<Vec<_>>();
        *path = parts.join(".");
    }

    /// A resource type.
    pub(super) fn resource(&mut self, resource: &mut String) {
        self.name(resource);
    }

    /// The key of a tag or attribute.
    pub(super) fn key(&mut self, key: &mut String) {
        if let Some(group) = key.strip_prefix(tags::HOLD_AGAIN) {
            *key = format!("{}{}", tags::HOLD_AGAIN, self.replaced_name(group));
        } else if !is_one_of(&KEYS, key) {
            self.name(key);
        }
    }

    /// A tag or attribute.
    pub(super) fn tag(&mut self, key: &mut String, value: &mut String) {
        if is_one_of(&AMOUNTS, key) {
            self.amounts(value);
        } else if !is_one_of(&PLAIN_VALUES, key) && !key.starts_with(tags::HOLD_AGAIN) {
            self.composed(value);
        }
        self.key(key);
    }

    /// Amounts in JSON. A text that is none is replaced as a whole.
    fn amounts(&mut self, text: &mut String) {
        let read = serde_json::from_str::<serde_json::Value>(text);
        let Ok(serde_json::Value::Object(mut parts)) = read else { return self.name(text) };
        parts.retain(|key, _| key == "resources");
        if let Some(serde_json::Value::Object(amounts)) = parts.get_mut("resources") {
            let before = std::mem::take(amounts).into_iter();
            let renamed = before.map(|(mut name, amount)| {
                self.resource(&mut name);
                (name, amount)
            });
            *amounts = renamed.filter(|(_, amount)| amount.is_object()).collect();
        }
        *text = serde_json::Value::Object(parts).to_string();
    }

    /// A text whose kind is not known: a name, or one that is composed of names.
    pub(super) fn composed(&mut self, text: &mut String) {
        if let Mode::Replace(by) = &self.mode
            && by.contains_key(text.as_str())
        {
            return self.name(text);
        }
        if text == "root" || text.starts_with("root.") {
            return self.path(text);
        }
        if let Some((rm, partition)) = text.strip_prefix('[').and_then(|it| it.split_once(']')) {
            let (rm, partition) = (self.replaced_name(rm), self.replaced_name(partition));
            *text = format!("[{rm}]{partition}");
            return;
        }
        // The names of repeated allocations and of held places end in a number.
        for mark in ['#', '~'] {
            if let Some((name, number)) = text.rsplit_once(mark)
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
            {
                *text = format!("{}{mark}{number}", self.replaced_name(name));
                return;
            }
        }
        self.name(text);
    }

    /// A text in the state, whose kind is not known.
    pub(super) fn data(&mut self, text: &mut String) {
        if text.starts_with(tags::HOLD_AGAIN) {
            self.key(text);
        } else if !is_kept(text) && !is_sum(text) {
            self.composed(text);
        }
    }
}

/// Whether this is a word of this program.
fn is_kept(text: &str) -> bool {
    let words = [&KEPT[..], &RESOURCES, &KEYS, &WORDS];
    words.iter().any(|words| words.contains(&text))
}

/// Whether this is a sum beyond the range of an amount, which is written as a text.
fn is_sum(text: &str) -> bool {
    text.len() >= 19 && text.parse::<i128>().is_ok()
}

/// Texts in which the state has values of this program: states of applications and queues.
const WORDS: [&str; 15] = [
    "New",
    "Accepted",
    "Running",
    "Resuming",
    "Completing",
    "Completed",
    "Failing",
    "Failed",
    "Rejected",
    "Expired",
    "Removed",
    "Active",
    "Draining",
    "Stopped",
    "Start",
];

/// Whether this is one of these keys. Some of them are compared without case when they are read.
fn is_one_of(keys: &[&str], key: &str) -> bool {
    keys.iter().any(|known| known.eq_ignore_ascii_case(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacing(replaced: Replaced, collect: impl FnOnce(&mut Names)) -> Names {
        let mut names = Names::collecting(replaced);
        collect(&mut names);
        names.numbered()
    }

    fn shown(text: &str, replace: impl FnOnce(&mut String)) -> String {
        let mut text = text.to_owned();
        replace(&mut text);
        text
    }

    #[test]
    fn made_up_names_sort_as_the_names_that_they_replace() {
        let all: Vec<String> = (0..120).map(|n| format!("job-{n}")).collect();
        let mut names = replacing(Replaced::Everything, |found| {
            for name in &all {
                found.add(name);
            }
        });
        let mut sorted = all.clone();
        sorted.sort();
        let made_up: Vec<_> = sorted.iter().map(|name| names.replaced_name(name)).collect();
        assert!(made_up.is_sorted_by(|a, b| a < b), "{made_up:?}");
        assert_eq!((&*made_up[0], &*made_up[119]), ("n001", "n120"));
    }

    #[test]
    fn composed_texts_are_replaced_in_parts() {
        let collected = ["lab", "a", "rm", "job", "w", "root.lab.a", "job#12"];
        let mut names = replacing(Replaced::Everything, |found| {
            for text in collected {
                found.composed(&mut text.to_owned());
            }
        });
        let mut of = |text| shown(text, |it| names.composed(it));
        assert_eq!(of("root.lab.a"), "root.n3.n1");
        assert_eq!(of("root"), "root");
        assert_eq!(of("[rm]default"), "[n4]default");
        assert_eq!(of("job#12"), "n2#12");
        assert_eq!(of("w~3"), "n5~3");
    }

    #[test]
    fn tags_keep_what_decisions_read_as_numbers() {
        let tags = [
            ("creationTime", "17"),
            ("app", "web"),
            ("monoceros.io/hold-again.web", "3"),
            ("namespace.resourceQuota", r#"{"resources":{"gpu":{"value":5}},"why":"x"}"#),
        ];
        let visit = |names: &mut Names| {
            tags.map(|(key, value)| {
                let (mut key, mut value) = (key.to_owned(), value.to_owned());
                names.tag(&mut key, &mut value);
                format!("{key}={value}")
            })
        };
        let mut names = replacing(Replaced::Everything, |found| {
            visit(found);
        });
        assert_eq!(
            visit(&mut names),
            [
                "creationTime=17",
                "n1=n3",
                "monoceros.io/hold-again.n3=3",
                r#"namespace.resourceQuota={"resources":{"n2":{"value":5}}}"#,
            ]
        );
    }

    #[test]
    fn only_users_are_replaced_on_request() {
        let mut names = replacing(Replaced::Users, |found| {
            found.add("job");
            found.user(&mut "Ada.L".to_owned());
        });
        assert_eq!(names.replaced_name("job"), "job");
        assert_eq!(shown("Ada.L", |it| names.user(it)), "u1");
        assert_eq!(shown("root.ada_dot_l", |it| names.path(it)), "root.u2");
    }
}
