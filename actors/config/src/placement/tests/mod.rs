//! Tests of each placement rule over a tree given as a list of paths: `docs/placement.md`, case by
//! case.

mod building;
mod model;
mod placing;
mod tags;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::FilterConfig;
use monoceros_rules::queues::QueueConfig;

/// Returns a rule with this name only.
fn rule(name: &str) -> RuleConfig {
    RuleConfig { name: name.to_owned(), ..RuleConfig::default() }
}

fn fixed(value: &str) -> RuleConfig {
    RuleConfig { value: value.to_owned(), ..rule("fixed") }
}

fn tagged(value: &str) -> RuleConfig {
    RuleConfig { value: value.to_owned(), ..rule("tag") }
}

/// Lets the rule create its queue.
fn creating(rule: RuleConfig) -> RuleConfig {
    RuleConfig { create: true, ..rule }
}

fn below(parent: RuleConfig, rule: RuleConfig) -> RuleConfig {
    RuleConfig { parent: Some(Box::new(parent)), ..rule }
}

fn filtered(kind: &str, users: &[&str], groups: &[&str], rule: RuleConfig) -> RuleConfig {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let filter =
        FilterConfig { denies: kind == "deny", users: owned(users), groups: owned(groups) };
    RuleConfig { filter, ..rule }
}

/// Queues by path. A final `/` makes a parent, a final `!` a draining queue; after a space follow
/// the users who may submit there and below.
#[derive(Debug, Default)]
struct Queues(BTreeMap<String, Kind>);

#[derive(Debug)]
struct Kind {
    is_leaf: bool,
    is_draining: bool,
    users: Vec<String>,
}

impl Queues {
    fn new(queues: &[&str]) -> Self {
        let mut all = Self::default();
        for queue in queues {
            let (path, users) = queue.split_once(' ').unwrap_or((queue, ""));
            let is_leaf = !path.contains('/');
            let is_draining = path.contains('!');
            let users = users.split(' ').filter(|user| !user.is_empty()).map(str::to_owned);
            let kind = Kind { is_leaf, is_draining, users: users.collect() };
            all.0.insert(path.replace(['/', '!'], ""), kind);
        }
        all
    }
}

impl<'t> QueueTree for &'t Queues {
    type Queue = (&'t str, &'t Kind);

    fn find(&self, path: &str) -> Option<Self::Queue> {
        self.0.get_key_value(path).map(|(path, kind)| (path.as_str(), kind))
    }

    fn names_below(&self, path: &str) -> impl Iterator<Item = &str> {
        let below = format!("{path}.");
        let names = self.0.keys().filter_map(move |path| path.strip_prefix(&*below));
        names.filter(|name| !name.contains('.'))
    }

    fn is_leaf(&self, (_, kind): Self::Queue) -> bool {
        kind.is_leaf
    }

    fn is_draining(&self, (_, kind): Self::Queue) -> bool {
        kind.is_draining
    }

    fn may_submit(&self, (path, _): Self::Queue, user: &str, _groups: &[String]) -> bool {
        let is_here_or_above = |above: &str| {
            path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut grants = self.0.iter().filter(|(above, _)| is_here_or_above(above));
        grants.any(|(_, kind)| kind.users.iter().any(|grant| grant == user || grant == "*"))
    }
}

/// An application to be placed, of the user `dev`.
#[derive(Debug)]
struct Application {
    queue: String,
    user: String,
    groups: Vec<String>,
    tags: Tags,
}

fn application(queue: &str) -> Application {
    let (queue, user) = (queue.to_owned(), "dev".to_owned());
    Application { queue, user, groups: Vec::new(), tags: Tags::default() }
}

fn of_user(user: &str, groups: &[&str]) -> Application {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Application { user: user.to_owned(), groups, ..application("") }
}

fn with_tag(name: &str, value: &str, other: Application) -> Application {
    let mut tags = other.tags.to_map();
    tags.insert(name.to_owned(), value.to_owned());
    Application { tags: Arc::new(tags.into()), ..other }
}

fn forced(other: Application) -> Application {
    with_tag("Application.Create.Force", "T", other)
}

/// Returns the path, prefixed with `+` if the queue must be created, or the code of the rejection.
fn place(rules: &[RuleConfig], queues: &[&str], application: &Application) -> String {
    let placement = PlacementRules::build(rules).unwrap();
    let submission = Submission {
        queue: &application.queue,
        user: &application.user,
        groups: &application.groups,
        tags: Some(&application.tags),
        is_forced: is_forced(application.tags.iter()),
    };
    let queues = Queues::new(queues);
    match placement.place(&submission, &&queues) {
        Ok(placed) if placed.leaf.is_some() => placed.path,
        Ok(placed) => format!("+{}", placed.path),
        Err(Refused::NotLeaf(path)) => format!("not a leaf: {path}"),
        Err(refused) => refused.cause().to_owned(),
    }
}

/// Returns the codes of the errors found while building.
fn codes(rules: &[RuleConfig]) -> Vec<&'static str> {
    let errors = PlacementRules::build(rules).err().unwrap_or_default();
    errors.iter().map(|error| error.code).collect()
}

/// Returns the root of a configuration, its queues in flow style.
fn configured(queues: &str) -> QueueConfig {
    let text = format!("partitions: [{{queues: [{{name: root, queues: [{queues}]}}]}}]");
    crate::parse(&text).unwrap().partitions.remove(0).root
}
