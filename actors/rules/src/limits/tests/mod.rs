//! A short language for tests of limits: scripts of the acts of applications, and the expected
//! answers of the trackers. Without it, each case would be twenty lines of calls, most of them
//! beside the point.

mod model;
mod reloading;
mod rows;
mod waits;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::queues::{LimitConfig, QueueConfig};
use crate::values::epoch::Loosening;
use crate::values::resources::{Limits, Resources};

/// Returns a queue tree with these limits, one per line or semicolon: the queue, then any of
/// `user=a,b`, `group=a,*`, `apps=n`, and amounts as `vcore=n`.
pub(crate) fn tree(limits: &str) -> QueueConfig {
    let mut root = QueueConfig::bare("root", false);
    for line in limits.split([';', '\n']) {
        let mut words = line.split_whitespace();
        let Some(path) = words.next() else { continue };
        let mut limit = LimitConfig::default();
        let mut max = Vec::new();
        for (key, value) in words.map(|word| word.split_once('=').expect("key=value")) {
            let names = || value.split(',').map(str::to_owned);
            match key {
                "user" => limit.users.extend(names()),
                "group" => limit.groups.extend(names()),
                "apps" => limit.max_applications = value.parse().unwrap(),
                name => max.push((name, value.parse().unwrap())),
            }
        }
        limit.max_resources = (!max.is_empty()).then(|| Limits::of(&max));
        queue(&mut root, path).limits.push(limit);
    }
    root
}

/// Returns the queue at a path, and adds it if it is missing.
pub(crate) fn queue<'a>(root: &'a mut QueueConfig, path: &str) -> &'a mut QueueConfig {
    let mut at = root;
    for (end, _) in path.match_indices('.').skip(1).chain([(path.len(), "")]) {
        let path = &path[..end];
        if path == "root" {
            continue;
        }
        let there = at.children.iter().position(|child| *child.path == *path);
        let place = there.unwrap_or_else(|| {
            at.children.push(QueueConfig::bare(path, true));
            at.children.len() - 1
        });
        at.is_leaf = false;
        at = &mut at.children[place];
    }
    at
}

/// Reads amounts such as `vcore=2`.
fn amount(words: &[&str]) -> Resources {
    let entries = words.iter().map(|word| {
        let (name, quantity) = word.split_once('=').expect("name=quantity");
        (name, quantity.parse().unwrap())
    });
    Resources::of(&entries.collect::<Vec<_>>())
}

struct Application {
    id: Arc<str>,
    leaf: Arc<str>,
    groups: Vec<String>,
    lane: LaneId,
    group: Option<Arc<str>>,
    used: Resources,
}

/// Trackers, and the applications that use them.
struct World {
    trackers: Trackers,
    applications: BTreeMap<Arc<str>, Application>,
    step: Loosening,
    said: String,
}

impl World {
    fn new(limits: &str) -> Self {
        let trackers = Trackers::new(&tree(limits));
        Self { trackers, applications: BTreeMap::new(), step: Loosening::NONE, said: String::new() }
    }

    /// | line | effect |
    /// |---|---|
    /// | `join app user/group,group queue` | adds an application |
    /// | `use app vcore=n` | charges usage, which may be negative; the first usage starts it |
    /// | `free app vcore=n` | subtracts usage; it stops with the last |
    /// | `hold app vcore=n` / `hold app start` / `go app` | its lane holds back an ask / a start / nothing |
    /// | `leave app` | removes the application |
    /// | `reload limits` | the limits as for [`tree`], separated by semicolons |
    /// | `ask app` | prints its group, its headroom, and whether it may start |
    /// | `usage user ann` / `usage group dev` | prints the counts, queue by queue |
    /// | `tracked` | prints the tracked users and groups |
    /// | `reopened` | prints the leaves that have to try again |
    fn play(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.step = self.step.next();
        let step = self.step;
        match *words {
            [] => {}
            ["join", id, who, leaf] => self.join(id, who, leaf),
            ["leave", id] => {
                let application = self.applications.remove(id).unwrap();
                self.trackers.leave(application.lane, id);
            }
            ["use", id, ref amounts @ ..] => self.charge(id, &amount(amounts)),
            ["free", id, ref amounts @ ..] => {
                self.charge(id, &Resources::new().minus(&amount(amounts)));
            }
            ["hold", id, "start"] => {
                let held_back = HeldBack { short: None, starting: true };
                self.trackers.hold_back(self.applications[id].lane, held_back);
            }
            ["hold", id, ref amounts @ ..] => {
                let held_back = HeldBack { short: Some(amount(amounts)), starting: false };
                self.trackers.hold_back(self.applications[id].lane, held_back);
            }
            ["go", id] => {
                self.trackers.hold_back(self.applications[id].lane, HeldBack::default());
            }
            ["reload", ..] => {
                let limits = line.trim_start().strip_prefix("reload").unwrap();
                self.reload(&tree(limits), step);
            }
            ["ask", id] => {
                let Application { lane, group, .. } = &self.applications[id];
                let group = group.as_deref().unwrap_or("no group");
                let headroom = self.trackers.headroom(*lane);
                let may = if self.trackers.may_start(*lane) { "may" } else { "may not" };
                writeln!(self.said, "{id}: {group}, {headroom}, {may} start").unwrap();
            }
            ["usage", kind, name] => {
                let queues = match kind {
                    "user" => self.trackers.user(name).map(|user| user.queues),
                    _ => self.trackers.group(name).map(|group| group.queues),
                };
                match queues {
                    Some(queues) => self.say_usage(&queues),
                    None => writeln!(self.said, "{name} is not tracked").unwrap(),
                }
            }
            ["tracked"] => {
                let users = self.trackers.users().map(|user| format!("user {}", user.name));
                let groups = self.trackers.groups().map(|group| format!("group {}", group.name));
                let all: Vec<String> = users.chain(groups).collect();
                self.compare_behind();
                writeln!(self.said, "tracked: {}", all.join(", ")).unwrap();
            }
            ["reopened"] => {
                let leaves: Vec<_> = self.trackers.take_reopened().into_keys().collect();
                writeln!(self.said, "reopened: {}", leaves.join(", ")).unwrap();
            }
            _ => panic!("what is `{line}`?"),
        }
    }

    /// Checks that reading users and groups after each name returns those that come after it.
    fn compare_behind(&self) {
        let users: Vec<_> = self.trackers.users().collect();
        let groups: Vec<_> = self.trackers.groups().collect();
        assert!(self.trackers.users_behind("").eq(users.iter().cloned()));
        assert!(self.trackers.groups_behind("").eq(groups.iter().cloned()));
        for (at, user) in users.iter().enumerate() {
            let behind = self.trackers.users_behind(&user.name);
            assert!(behind.eq(users[at + 1..].iter().cloned()), "behind {}", user.name);
        }
        for (at, group) in groups.iter().enumerate() {
            let behind = self.trackers.groups_behind(&group.name);
            assert!(behind.eq(groups[at + 1..].iter().cloned()), "behind {}", group.name);
        }
    }

    fn join(&mut self, id: &str, who: &str, leaf: &str) {
        let (name, groups) = who.split_once('/').unwrap_or((who, ""));
        let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned);
        let [id, user, leaf]: [Arc<str>; 3] = [id, name, leaf].map(Arc::from);
        let groups: Vec<String> = groups.collect();
        let Joined { lane, group } = self.trackers.join(&user, &groups, &id, &leaf);
        let key = Arc::clone(&id);
        let application = Application { id, leaf, groups, lane, group, used: Resources::new() };
        self.applications.insert(key, application);
    }

    /// Changes the usage of an application, which runs as long as it uses anything.
    fn charge(&mut self, id: &str, change: &Resources) {
        let application = self.applications.get_mut(id).unwrap();
        let lane = application.lane;
        let ran = !application.used.is_empty();
        application.used = application.used.plus(change).pruned();
        let runs = !application.used.is_empty();
        let loosening = if change.has_negative() { self.step } else { Loosening::NONE };
        self.trackers.charge(lane, change, loosening);
        match (ran, runs) {
            (false, true) => self.trackers.start(lane, id),
            (true, false) => self.trackers.stop(lane, id, self.step),
            _ => {}
        }
    }

    fn reload(&mut self, root: &QueueConfig, step: Loosening) {
        let reloaded = self.trackers.reload(&Arc::new(Tables::of(root)), step);
        let Reloaded { leaves, events } = reloaded
            .unwrap_or_else(|| Reloaded { events: self.trackers.limits(), ..Reloaded::default() });
        for event in &events {
            let (kind, name) = match &event.subject {
                Subject::User(name) => ("user", name),
                Subject::Group(name) => ("group", name),
            };
            let what = if event.is_set { "set" } else { "removed" };
            writeln!(self.said, "{what} {kind} {name} {}", event.path).unwrap();
        }
        for application in self.applications.values_mut() {
            if !leaves.contains(&application.leaf) {
                continue;
            }
            let Application { id, groups, lane, used, .. } = application;
            if let Some(joined) = self.trackers.rejoin(*lane, id, groups, used) {
                application.lane = joined.lane;
                application.group = joined.group;
            }
        }
    }

    fn say_usage(&mut self, place: &PlaceUsage) {
        let PlaceUsage { path, usage, running, .. } = place;
        let max = place.max_resources.as_ref().map(|max| format!(" of {max}")).unwrap_or_default();
        let most = match place.max_applications {
            0 => String::new(),
            most => format!(" of {most}"),
        };
        let running = running.join(" ");
        writeln!(self.said, "{path}: {usage}{max}, runs [{running}]{most}").unwrap();
        for child in &place.children {
            self.say_usage(child);
        }
    }
}

/// Plays a script against trackers with these limits, and returns the answers.
fn played(limits: &str, script: &str) -> String {
    let mut world = World::new(limits);
    script.lines().for_each(|line| world.play(line));
    world.said
}

/// A case: its name, the limits, a script, and the expected answers; indentation is ignored.
type Case = (&'static str, &'static str, &'static str, &'static str);

fn check(cases: &[Case]) {
    for (name, limits, script, expected) in cases {
        let expected: Vec<&str> =
            expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let said = played(limits, script);
        assert_eq!(said.lines().map(str::trim).collect::<Vec<_>>(), expected, "{name}");
    }
}
