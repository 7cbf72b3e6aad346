//! Tests the trackers against a model that keeps only the applications and the limits as written,
//! and counts from scratch for every answer. The model has no lanes and no bounds, because those
//! may be wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::queues::QueueConfig;
use crate::values::again::written_and_read;
use crate::values::epoch::Loosening;
use crate::values::resources::{Limits, Resources};

const QUEUES: [&str; 6] = ["root", "root.a", "root.a.x", "root.a.y", "root.a.y.z", "root.b"];
const LEAVES: [&str; 4] = ["root.a.x", "root.a.y.z", "root.b", "root.c.dynamic"];
const USERS: [&str; 4] = ["ann", "bob", "cid", "dan"];
const GROUPS: [&str; 4] = ["dev", "ops", "qa", "sales"];

#[derive(Clone, Debug)]
enum Step {
    Join { user: &'static str, groups: Vec<&'static str>, leaf: &'static str },
    Charge { whose: Index, more: Resources },
    Release { whose: Index, part: Index },
    Leave { whose: Index },
    HoldBack { whose: Index, held_back: HeldBack },
    Reload { limits: Vec<WrittenLimit> },
    TakeReopened,
    WriteAndRead,
}

/// A limit as written, and its queue.
#[derive(Clone, Debug)]
struct WrittenLimit {
    path: &'static str,
    config: LimitConfig,
}

/// An application of the model.
#[derive(Clone, Debug)]
struct Member {
    id: Arc<str>,
    user: Arc<str>,
    groups: Vec<String>,
    leaf: Arc<str>,
    group: Option<Arc<str>>,
    /// The amounts that it holds, one per placement.
    holds: Vec<Resources>,
    lane: LaneId,
}

#[derive(Default)]
struct Model {
    limits: Vec<WrittenLimit>,
    members: Vec<Member>,
    /// The asks that lanes hold back, and whether they could have continued when that was recorded
    /// or last checked.
    held_back: BTreeMap<LaneId, (HeldBack, bool)>,
}

/// Returns the effective bounds of a limit; zeros alone are no limit.
fn effective(limit: &LimitConfig) -> (Option<&Limits>, u64) {
    let some = |limits: &&Limits| limits.entries().any(|(_, limit)| limit != 0);
    (limit.max_resources.as_ref().filter(some), limit.max_applications)
}

/// Whether a path is that of the leaf or of a queue above it.
fn is_above(path: &str, leaf: &str) -> bool {
    leaf == path || leaf.starts_with(&format!("{path}."))
}

impl Member {
    fn used(&self) -> Resources {
        self.holds.iter().fold(Resources::new(), |sum, piece| sum.plus(piece)).pruned()
    }

    fn subjects(&self) -> Vec<Subject> {
        let user = Subject::User(Arc::clone(&self.user));
        std::iter::once(user).chain(self.group.clone().map(Subject::Group)).collect()
    }
}

impl Model {
    fn limit(&self, path: &str, subject: &Subject) -> Option<&LimitConfig> {
        let here = || self.limits.iter().filter(|limit| limit.path == path).map(|l| &l.config);
        let named = |name: &str, names: fn(&LimitConfig) -> &Vec<String>| {
            here().find(|limit| names(limit).iter().any(|other| other == name))
        };
        match subject {
            Subject::User(user) => {
                named(user, |limit| &limit.users).or_else(|| named("*", |limit| &limit.users))
            }
            Subject::Group(group) => named(group, |limit| &limit.groups),
        }
    }

    fn group(&self, leaf: &str, groups: &[String]) -> Option<Arc<str>> {
        if groups.is_empty() {
            return None;
        }
        let mut above: Vec<&str> = QUEUES.iter().copied().filter(|q| is_above(q, leaf)).collect();
        above.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in above {
            let written = self.limits.iter().filter(|limit| limit.path == path);
            let written: Vec<_> = written.flat_map(|limit| &limit.config.groups).collect();
            let own = written.iter().find(|group| groups.contains(group));
            let wildcard = written.iter().find(|group| **group == "*");
            if let Some(group) = own.or(wildcard) {
                return Some(Arc::from(group.as_str()));
            }
        }
        None
    }

    fn counted(&self, path: &str, subject: &Subject) -> (Resources, BTreeSet<Arc<str>>) {
        let (mut usage, mut running) = (Resources::new(), BTreeSet::new());
        for member in &self.members {
            if is_above(path, &member.leaf) && member.subjects().contains(subject) {
                usage.add(&member.used());
                if !member.holds.is_empty() {
                    running.insert(Arc::clone(&member.id));
                }
            }
        }
        (usage.pruned(), running)
    }

    /// Returns every limit that applies to an application, with the usage and the number of running
    /// applications counted there.
    fn limits_of(&self, member: &Member) -> Vec<(&LimitConfig, Resources, usize)> {
        let subjects = member.subjects();
        let places = QUEUES.iter().filter(|path| is_above(path, &member.leaf));
        let places = places.flat_map(|path| subjects.iter().map(move |subject| (path, subject)));
        let limited = places.filter_map(|(path, subject)| {
            let (usage, running) = self.counted(path, subject);
            Some((self.limit(path, subject)?, usage, running.len()))
        });
        limited.collect()
    }

    fn headroom(&self, member: &Member) -> Limits {
        let mut headroom = Limits::unlimited();
        for (limit, usage, _) in self.limits_of(member) {
            if let Some(max) = &limit.max_resources {
                headroom.narrow(&max.less(&usage));
            }
        }
        headroom
    }

    fn may_start(&self, member: &Member) -> bool {
        self.limits_of(member).iter().all(|(limit, _, running)| {
            limit.max_applications == 0 || (*running as u64) < limit.max_applications
        })
    }

    fn may_go_on(&self, lane: LaneId, held_back: &HeldBack) -> bool {
        let member = self.members.iter().find(|member| member.lane == lane).unwrap();
        let headroom = self.headroom(member);
        held_back.short.as_ref().is_some_and(|short| headroom.allows(short))
            || (held_back.starting && self.may_start(member))
    }

    /// Returns the tracked users and groups, each with the path of a queue.
    fn places(&self) -> BTreeSet<(Subject, String)> {
        let used = self.members.iter().flat_map(|member| {
            member.subjects().into_iter().map(|subject| (subject, member.leaf.to_string()))
        });
        let named = self.limits.iter().flat_map(|WrittenLimit { path, config }| {
            let users = config.users.iter().filter(|user| *user != "*");
            let users = users.map(|user| Subject::User(Arc::from(user.as_str())));
            let groups =
                config.groups.iter().map(|group| Subject::Group(Arc::from(group.as_str())));
            users.chain(groups).map(|subject| (subject, (*path).to_owned()))
        });
        let mut places = BTreeSet::new();
        for (subject, path) in used.chain(named) {
            for (end, _) in path.match_indices('.').chain([(path.len(), "")]) {
                places.insert((subject.clone(), path[..end].to_owned()));
            }
        }
        places
    }
}

/// Trackers and a model, to which every step is applied.
struct Pair {
    trackers: Trackers,
    model: Model,
    step: Loosening,
}

impl Pair {
    fn run(&mut self, step: Step) {
        self.step = self.step.next();
        let number = self.step;
        let whose = |whose: Index, members: &[Member]| {
            (!members.is_empty()).then(|| whose.index(members.len()))
        };
        match step {
            Step::Join { user, groups, leaf } => self.join(user, &groups, leaf),
            Step::Charge { whose: index, more } => {
                let Some(at) = whose(index, &self.model.members) else { return };
                let member = &mut self.model.members[at];
                self.trackers.charge(member.lane, &more, Loosening::NONE);
                if member.holds.is_empty() {
                    self.trackers.start(member.lane, &member.id);
                }
                member.holds.push(more);
            }
            Step::Release { whose: index, part } => {
                let Some(at) = whose(index, &self.model.members) else { return };
                let member = &mut self.model.members[at];
                if member.holds.is_empty() {
                    return;
                }
                let less = member.holds.swap_remove(part.index(member.holds.len()));
                let less = Resources::new().minus(&less);
                self.trackers.charge(member.lane, &less, number);
                if member.holds.is_empty() {
                    self.trackers.stop(member.lane, &member.id, number);
                }
            }
            Step::Leave { whose: index } => {
                let Some(at) = whose(index, &self.model.members) else { return };
                self.leave(at);
            }
            Step::HoldBack { whose: index, held_back } => {
                let Some(at) = whose(index, &self.model.members) else { return };
                let lane = self.model.members[at].lane;
                self.trackers.hold_back(lane, held_back.clone());
                let may = self.model.may_go_on(lane, &held_back);
                self.model.held_back.insert(lane, (held_back, may));
            }
            Step::Reload { limits } => self.reload(limits),
            Step::TakeReopened => self.take_reopened(),
            Step::WriteAndRead => self.trackers = written_and_read(&self.trackers),
        }
    }

    fn join(&mut self, user: &str, groups: &[&str], leaf: &str) {
        let id: Arc<str> = Arc::from(format!("app-{}", self.step.number()));
        let groups: Vec<String> = groups.iter().copied().map(str::to_owned).collect();
        let (user, leaf) = (Arc::from(user), Arc::from(leaf));
        let Joined { lane, group } = self.trackers.join(&user, &groups, &id, &leaf);
        assert_eq!(group, self.model.group(&leaf, &groups));
        let member = Member { id, user, groups, leaf, group, holds: Vec::new(), lane };
        self.model.members.push(member);
    }

    fn leave(&mut self, at: usize) {
        let member = self.model.members.remove(at);
        self.trackers.charge(member.lane, &Resources::new().minus(&member.used()), self.step);
        if !member.holds.is_empty() {
            self.trackers.stop(member.lane, &member.id, self.step);
        }
        self.trackers.leave(member.lane, &member.id);
        self.forget_empty_lanes();
    }

    fn reload(&mut self, limits: Vec<WrittenLimit>) {
        let before = std::mem::replace(&mut self.model.limits, limits);
        let before = Model { limits: before, ..Model::default() };
        let mut root = QueueConfig::bare("root", false);
        for limit in &self.model.limits {
            queue(&mut root, limit.path).limits.push(limit.config.clone());
        }
        let tables = Arc::new(Tables::of(&root));
        let regrouping = self.trackers.regrouping(&tables);
        let foreseen = self
            .model
            .members
            .iter()
            .map(|member| regrouping.moves(&self.trackers, member.lane, &member.groups));
        let foreseen: Vec<_> = foreseen.collect();
        let choosing = regrouping.leaves(&self.trackers);
        let reloaded = self.trackers.reload(&tables, self.step);
        let Reloaded { leaves, events } = reloaded
            .unwrap_or_else(|| Reloaded { events: self.trackers.limits(), ..Reloaded::default() });
        let set = events.iter().filter(|event| event.is_set);
        let set: BTreeSet<_> = set.map(|e| (e.subject.clone(), e.path.to_string())).collect();
        let limited = self.model.places().into_iter();
        let limited = limited.filter(|(subject, path)| self.model.limit(path, subject).is_some());
        assert_eq!(set, limited.collect());
        #[expect(clippy::needless_range_loop, reason = "members change on the way")]
        for at in 0..self.model.members.len() {
            let Member { id, lane, leaf, groups, group, .. } = &self.model.members[at];
            let is_lost = group.clone().map(Subject::Group).is_some_and(|group| {
                let had = QUEUES.iter().filter(|path| before.limit(path, &group).is_some());
                had.filter(|path| is_above(path, leaf))
                    .any(|path| self.model.limit(path, &group).is_none())
            });
            if !leaves.contains(leaf) {
                let member = &self.model.members[at];
                for subject in member.subjects() {
                    for path in QUEUES.iter().filter(|path| is_above(path, leaf)) {
                        let limits = [&before, &self.model].map(|it| it.limit(path, &subject));
                        let effective = limits.map(|it| it.map(effective));
                        assert_eq!(effective[0], effective[1], "{path} of {subject:?}");
                    }
                }
                assert!(!is_lost, "{id} may have to move");
                if group.is_none() {
                    assert_eq!(self.model.group(leaf, groups), None, "{id} has a group now");
                }
                continue;
            }
            let keeps = group.is_some() && !is_lost;
            let should = if keeps { group.clone() } else { self.model.group(leaf, groups) };
            let moves = Moves { from: group.clone(), to: should.clone() };
            assert_eq!(foreseen[at], (should != *group).then_some(moves), "{id} moves as foreseen");
            assert!(should == *group || choosing.contains(leaf), "{id} is asked");
            let used = self.model.members[at].used();
            let joined = self.trackers.rejoin(*lane, id, groups, &used);
            assert_eq!(joined.is_some(), should != *group, "{id} moves");
            if let Some(joined) = joined {
                assert_eq!(joined.group, should);
                self.model.members[at].lane = joined.lane;
                self.model.members[at].group = joined.group;
                // The id of its old lane may be that of the next application's new lane.
                self.forget_empty_lanes();
            }
        }
    }

    fn forget_empty_lanes(&mut self) {
        let lanes: BTreeSet<LaneId> = self.model.members.iter().map(|m| m.lane).collect();
        self.model.held_back.retain(|lane, _| lanes.contains(lane));
    }

    /// Checks that every lane that may continue since the last check is reported, and no other.
    fn take_reopened(&mut self) {
        let told = self.trackers.take_reopened();
        for (leaf, lanes) in &told {
            let is_there =
                |lane| self.model.members.iter().any(|m| m.lane == lane && m.leaf == *leaf);
            assert!(lanes.iter().all(|lane| is_there(*lane)), "{leaf} has other lanes");
        }
        let told: BTreeSet<LaneId> = told.into_values().flatten().collect();
        for (lane, (held_back, could)) in std::mem::take(&mut self.model.held_back) {
            let may = self.model.may_go_on(lane, &held_back);
            assert!(may || !told.contains(&lane), "{lane:?} is told and may not go on");
            assert!(!may || could || told.contains(&lane), "{lane:?} is forgotten");
            self.model.held_back.insert(lane, (held_back, may));
        }
    }

    fn check(&self) {
        for member in &self.model.members {
            assert_eq!(self.trackers.headroom(member.lane), self.model.headroom(member));
            assert_eq!(self.trackers.may_start(member.lane), self.model.may_start(member));
            let is_limited = !self.model.limits_of(member).is_empty();
            assert_eq!(self.trackers.is_limited(member.lane), is_limited);
        }
        let mut places = BTreeSet::new();
        for user in self.trackers.users() {
            self.check_place(&Subject::User(Arc::clone(&user.name)), &user.queues, &mut places);
            let of_user = self.model.members.iter().filter(|member| member.user == user.name);
            let groups = of_user.filter_map(|m| Some((Arc::clone(&m.id), m.group.clone()?)));
            assert_eq!(user.groups, groups.collect());
            assert_eq!(self.trackers.user(&user.name), Some(user));
        }
        for group in self.trackers.groups() {
            let name = Some(Arc::clone(&group.name));
            self.check_place(&Subject::Group(Arc::clone(&group.name)), &group.queues, &mut places);
            let of_group = self.model.members.iter().filter(|member| member.group == name);
            let ids: BTreeSet<_> = of_group.map(|member| Arc::clone(&member.id)).collect();
            assert_eq!(group.applications, ids.into_iter().collect::<Vec<_>>());
            assert_eq!(self.trackers.group(&group.name), Some(group));
        }
        assert_eq!(places, self.model.places());
    }

    fn check_place(
        &self,
        subject: &Subject,
        place: &PlaceUsage,
        places: &mut BTreeSet<(Subject, String)>,
    ) {
        let (usage, running) = self.model.counted(&place.path, subject);
        assert_eq!(place.usage, usage, "{subject:?} at {}", place.path);
        assert_eq!(place.running, running.into_iter().collect::<Vec<_>>());
        let limit = self.model.limit(&place.path, subject).cloned().unwrap_or_default();
        assert_eq!(place.max_resources, limit.max_resources);
        assert_eq!(place.max_applications, limit.max_applications);
        places.insert((subject.clone(), place.path.to_string()));
        place.children.iter().for_each(|child| self.check_place(subject, child, places));
    }
}

fn amounts(most: i64) -> impl Strategy<Value = Resources> {
    (0..=most, 0..=most)
        .prop_map(|(vcore, memory)| Resources::of(&[("vcore", vcore), ("memory", memory)]).pruned())
}

fn names(known: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(select(known), 0..3)
}

/// Generates limits as the configuration allows them: no name twice on a queue, wildcards last.
fn written() -> impl Strategy<Value = Vec<WrittenLimit>> {
    let max = prop::option::of((1_i64..9, prop::option::of(0_i64..9))).prop_map(|max| {
        max.map(|(vcore, memory)| match memory {
            Some(memory) => Limits::of(&[("vcore", vcore), ("memory", memory)]),
            None => Limits::of(&[("vcore", vcore)]),
        })
    });
    let limit = (
        select(&QUEUES[..]),
        names(&["ann", "bob", "cid", "*"]),
        names(&["dev", "ops", "qa", "*"]),
        max,
        0_u64..4,
    );
    prop::collection::vec(limit, 0..8).prop_map(|limits| {
        let mut seen = BTreeSet::new();
        let mut is_new = |kind, path, name| {
            seen.insert((kind, path, name)) && (name == "*" || !seen.contains(&(kind, path, "*")))
        };
        let limits = limits.into_iter().map(|(path, users, groups, max_resources, most)| {
            let users = users.into_iter().filter(|name| is_new("user", path, *name));
            let users = users.map(str::to_owned).collect();
            let groups = groups.into_iter().filter(|name| is_new("group", path, *name));
            let groups = groups.map(str::to_owned).collect();
            let description = String::new();
            let config =
                LimitConfig { description, users, groups, max_resources, max_applications: most };
            WrittenLimit { path, config }
        });
        limits.collect()
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let held_back = (prop::option::of(amounts(4)), any::<bool>())
        .prop_map(|(short, starting)| HeldBack { short, starting });
    prop_oneof![
        4 => (select(&USERS[..]), names(&GROUPS), select(&LEAVES[..]))
            .prop_map(|(user, groups, leaf)| Step::Join { user, groups, leaf }),
        6 => (any::<Index>(), amounts(4)).prop_map(|(whose, more)| Step::Charge { whose, more }),
        5 => (any::<Index>(), any::<Index>())
            .prop_map(|(whose, part)| Step::Release { whose, part }),
        2 => any::<Index>().prop_map(|whose| Step::Leave { whose }),
        4 => (any::<Index>(), held_back)
            .prop_map(|(whose, held_back)| Step::HoldBack { whose, held_back }),
        1 => written().prop_map(|limits| Step::Reload { limits }),
        3 => Just(Step::TakeReopened),
        2 => Just(Step::WriteAndRead),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Usage, headroom, groups, and the tracked users and groups equal those of the model after
    /// every step; waiting lanes are notified in time; and nothing is left in the end.
    #[test]
    fn trackers_agree_with_a_model_that_counts_anew(
        limits in written(),
        steps in prop::collection::vec(steps(), 0..60),
    ) {
        let (trackers, model) = (Trackers::default(), Model::default());
        let mut pair = Pair { trackers, model, step: Loosening::NONE };
        pair.run(Step::Reload { limits });
        for step in steps {
            pair.run(step);
            pair.check();
        }
        while !pair.model.members.is_empty() {
            pair.step = pair.step.next();
            pair.leave(0);
        }
        pair.check();
        prop_assert_eq!(pair.trackers.lanes.ids(), []);
        pair.run(Step::Reload { limits: Vec::new() });
        prop_assert_eq!(pair.trackers.forest.in_order().len(), 0);
        prop_assert_eq!(pair.trackers.forest.roots().count(), 0);
    }
}
