//! Tests root and its leaves, whose applications share limits, against a flat list of applications:
//! each offer goes to the first application that may use it, none is missed, and offers come to an
//! end. There are limits that a leaf shows to root, limits that a leaf keeps to itself, and maxima
//! of leaves.

use monoceros_rules::order::keys::{QueueKey, QueueView};
use monoceros_rules::values::epoch::Epoch;
use monoceros_rules::waiting::Declined;

use super::*;

const LEAVES: [&str; 3] = ["root.a", "root.b", "root.c"];
const N_APPLICATIONS: usize = 9;
/// More consecutive offers than any correct run needs.
const MOST_OFFERS: usize = 200;

struct Leaf {
    rows: Rows<usize>,
    row: RowSlot,
    max: Limits,
    used: Resources,
    loosening: Loosening,
    declined: Declined,
}

/// An application, with the amount that it wants next and the amount that it holds.
struct Asker {
    id: Arc<str>,
    leaf: usize,
    row: RowSlot,
    lane: Option<LaneId>,
    wants: Option<Resources>,
    holds: Resources,
    waits: WaitSet,
}

struct Tree {
    root: Rows<usize>,
    leaves: Vec<Leaf>,
    trackers: Trackers,
    askers: Vec<Asker>,
    /// The number of the last loosening, and of the last that root noted.
    step: Loosening,
    noted: Loosening,
}

#[derive(Clone, Debug)]
struct Written {
    /// 0 is root, then the leaves.
    queue: usize,
    of_user: bool,
    whose: usize,
    most: (i64, i64),
    applications: u64,
}

#[derive(Clone, Debug)]
enum Happening {
    Ask { who: usize, amount: (i64, i64) },
    Withdraw { who: usize },
    Free { who: usize },
    Limits(Vec<Written>),
    Max { leaf: usize, most: (i64, i64) },
}

fn amount((vcores, memory): (i64, i64)) -> Resources {
    Resources::of(&[("vcore", vcores), ("memory", memory)]).pruned()
}

fn most((vcores, memory): (i64, i64)) -> Limits {
    Limits::of(&[("vcore", vcores), ("memory", memory)])
}

fn configured(limits: &[Written]) -> QueueConfig {
    let mut root = QueueConfig::bare("root", false);
    root.children.extend(LEAVES.map(|path| QueueConfig::bare(path, true)));
    for Written { queue, of_user, whose, most: most_of_it, applications } in limits {
        let mut limit = LimitConfig {
            max_resources: Some(most(*most_of_it)),
            max_applications: *applications,
            ..LimitConfig::default()
        };
        let name = |names: [&str; 3]| vec![names[whose % 3].to_owned()];
        if *of_user {
            limit.users = name(["ann", "bob", "*"]);
        } else {
            limit.groups = name(["dev", "ops", "*"]);
        }
        let queue = if *queue == 0 { &mut root } else { &mut root.children[queue - 1] };
        queue.limits.push(limit);
    }
    root
}

fn user(who: usize) -> (&'static str, Vec<String>) {
    let groups: [&[&str]; 4] = [&["dev"], &["dev", "ops"], &["ops"], &["qa"]];
    let groups = groups[who % 4].iter().map(|group| (*group).to_owned()).collect();
    (["ann", "bob", "eve"][who / 3 % 3], groups)
}

impl Tree {
    fn new() -> Self {
        let mut root = Rows::default();
        let mut leaves: Vec<Leaf> = (0..LEAVES.len())
            .map(|leaf| Leaf {
                rows: Rows::default(),
                row: root.add(leaf),
                max: Limits::unlimited(),
                used: Resources::new(),
                loosening: Loosening::NONE,
                declined: Declined::default(),
            })
            .collect();
        let asker = |who: usize| {
            let leaf = who % LEAVES.len();
            Asker {
                id: Arc::from(format!("a{who}")),
                leaf,
                row: leaves[leaf].rows.add(who),
                lane: None,
                wants: None,
                holds: Resources::new(),
                waits: WaitSet::Nothing,
            }
        };
        let askers = (0..N_APPLICATIONS).map(asker).collect();
        let trackers = Trackers::new(&configured(&[]));
        let (step, noted) = (Loosening::NONE, Loosening::NONE);
        Self { root, leaves, trackers, askers, step, noted }
    }

    fn key(&self, who: usize) -> RowKey {
        let Asker { id, holds, .. } = &self.askers[who];
        RowKey::Application(ApplicationKey::new(
            ApplicationSortPolicy::Fair,
            true,
            &ApplicationView {
                priority: 0,
                lacks_members: false,
                submitted: 0,
                allocated: holds,
                guaranteed: None,
                id,
            },
        ))
    }

    fn leaf_key(&self, leaf: usize) -> RowKey {
        let nothing = Resources::new();
        let view = QueueView {
            priority: 0,
            allocated: &self.leaves[leaf].used,
            guaranteed: None,
            fair_max: None,
            pending: &nothing,
            path: &Arc::from(LEAVES[leaf]),
        };
        RowKey::Queue(QueueKey::new(true, &view))
    }

    fn lane(&self, who: usize) -> Option<LaneId> {
        self.askers[who].lane.filter(|lane| self.trackers.is_limited(*lane))
    }

    fn update(&self, who: usize) -> RowUpdate {
        let it = &self.askers[who];
        let (nothing, starts) = (WaitSet::Nothing, it.holds.is_empty());
        let waits = Waits::new(it.waits.clone(), nothing.clone(), nothing, starts);
        let key = it.wants.is_some().then(|| self.key(who));
        RowUpdate { row: it.row, lane: self.lane(who), key, priority: 0, waits }
    }

    fn room(&self, leaf: usize) -> Limits {
        self.leaves[leaf].max.less(&self.leaves[leaf].used)
    }

    /// Reports a leaf to root.
    fn speak_for(&mut self, leaf: usize) {
        let is_asked = self.askers.iter().any(|it| it.leaf == leaf && it.wants.is_some());
        let (key, room) = (is_asked.then(|| self.leaf_key(leaf)), self.room(leaf));
        let Leaf { rows, row, loosening, declined, .. } = &self.leaves[leaf];
        let own = View::of_quota(&room, *loosening, true);
        let waits = rows.waits().as_seen_from_above(&own, declined);
        let update = RowUpdate { row: *row, lane: None, key, priority: 0, waits };
        self.root.update(update, &mut self.trackers);
    }

    fn speak(&mut self, who: usize) {
        let (update, leaf) = (self.update(who), self.askers[who].leaf);
        self.leaves[leaf].rows.update(update, &mut self.trackers);
        self.speak_for(leaf);
    }

    fn settle_lane(&mut self, who: usize) {
        let it = &mut self.askers[who];
        let is_in = it.wants.is_some() || !it.holds.is_empty();
        match it.lane {
            None if is_in => {
                let (user, groups) = user(who);
                let [user, leaf]: [Arc<str>; 2] = [user, LEAVES[it.leaf]].map(Arc::from);
                it.lane = Some(self.trackers.join(&user, &groups, &it.id, &leaf).lane);
            }
            Some(lane) if !is_in => {
                self.trackers.leave(lane, &it.id);
                it.lane = None;
            }
            _ => {}
        }
    }

    /// Carries out a happening, then offers. Returns the number of offers that reached a leaf.
    fn happen(&mut self, happening: &Happening) -> usize {
        self.step = self.step.next();
        match happening {
            Happening::Ask { who, amount: wanted } => {
                let it = &mut self.askers[*who];
                (it.wants, it.waits) = (Some(amount(*wanted)), WaitSet::Due);
                self.settle_lane(*who);
                self.speak(*who);
            }
            Happening::Withdraw { who } => {
                let it = &mut self.askers[*who];
                (it.wants, it.waits) = (None, WaitSet::Nothing);
                self.settle_lane(*who);
                self.speak(*who);
            }
            Happening::Free { who } => self.free(*who),
            Happening::Limits(limits) => {
                let tables = Arc::new(Tables::of(&configured(limits)));
                let reloaded = self.trackers.reload(&tables, self.step);
                if reloaded.is_some_and(|reloaded| !reloaded.leaves.is_empty()) {
                    for (who, it) in self.askers.iter_mut().enumerate() {
                        let Some(lane) = it.lane else { continue };
                        let joined = self.trackers.rejoin(lane, &it.id, &user(who).1, &it.holds);
                        it.lane = joined.map_or(it.lane, |joined| Some(joined.lane));
                    }
                }
                self.refresh();
            }
            Happening::Max { leaf, most: own } => {
                self.leaves[*leaf].max = most(*own);
                self.refresh();
            }
        }
        for (path, lanes) in self.trackers.take_reopened() {
            let leaf = LEAVES.iter().position(|leaf| **leaf == *path).unwrap();
            self.leaves[leaf].rows.look_again(&lanes, &mut self.trackers);
            self.speak_for(leaf);
        }
        self.offer()
    }

    fn free(&mut self, who: usize) {
        let it = &mut self.askers[who];
        let held = std::mem::take(&mut it.holds);
        if let Some(lane) = it.lane.filter(|_| !held.is_empty()) {
            self.trackers.charge(lane, &Resources::new().minus(&held), self.step);
            self.trackers.stop(lane, &it.id, self.step);
            let leaf = &mut self.leaves[it.leaf];
            leaf.used.subtract(&held);
            leaf.used.prune();
            leaf.loosening = self.step;
        }
        self.settle_lane(who);
        self.speak(who);
    }

    /// Reloads: every application and leaf reports itself again, and root notes a loosening.
    fn refresh(&mut self) {
        self.step = self.step.next();
        self.noted = self.step;
        for leaf in 0..LEAVES.len() {
            let here = (0..N_APPLICATIONS).filter(|who| self.askers[*who].leaf == leaf);
            let updates = here.map(|who| self.update(who)).collect();
            self.leaves[leaf].rows.update_all(updates, &mut self.trackers);
            self.speak_for(leaf);
        }
    }

    fn fits(&self, who: usize) -> bool {
        let it = &self.askers[who];
        let Some(wanted) = &it.wants else { return false };
        let limits = self.lane(who).is_none_or(|lane| {
            let may_run = !it.holds.is_empty() || self.trackers.may_start(lane);
            may_run && self.trackers.headroom(lane).allows(wanted)
        });
        limits && self.room(it.leaf).allows(wanted)
    }

    fn first_that_fits(&self) -> Option<usize> {
        let fitting = (0..N_APPLICATIONS).filter(|who| self.fits(*who));
        fitting.min_by_key(|who| (self.leaf_key(self.askers[*who].leaf), self.key(*who)))
    }

    fn offer(&mut self) -> usize {
        let wide = Limits::unlimited();
        let (may_start, nodes, limits) = (true, None, None);
        for offers in 0..MOST_OFFERS {
            let at_root = View {
                headroom: &wide,
                loosening: self.noted,
                may_start,
                nodes,
                limits,
                queues: None,
            };
            let Some(First { child: leaf, .. }) =
                self.root.first(Phase::Normal, &at_root, &mut self.trackers, None)
            else {
                assert_eq!(self.first_that_fits(), None, "somebody is forgotten");
                return offers;
            };
            let headroom = self.room(leaf);
            let loosening = self.noted.max(self.leaves[leaf].loosening);
            let view =
                View { headroom: &headroom, loosening, may_start, nodes, limits, queues: None };
            let rows = &mut self.leaves[leaf].rows;
            let Some(First { child: who, .. }) =
                rows.first(Phase::Normal, &view, &mut self.trackers, None)
            else {
                let declined = Epoch { loosening: self.step, ..view.epoch() };
                self.leaves[leaf].declined.note(Phase::Normal, declined);
                self.speak_for(leaf);
                continue;
            };
            if self.fits(who) {
                assert_eq!(Some(who), self.first_that_fits(), "another comes first");
                self.give(who);
            } else {
                self.park(who, &view);
            }
            self.speak(who);
        }
        panic!("offers go on for ever");
    }

    fn give(&mut self, who: usize) {
        let it = &mut self.askers[who];
        let (taken, lane) = (it.wants.take().unwrap(), it.lane.unwrap());
        self.trackers.charge(lane, &taken, Loosening::NONE);
        if it.holds.is_empty() {
            self.trackers.start(lane, &it.id);
        }
        it.holds.add(&taken);
        it.waits = WaitSet::Nothing;
        self.leaves[it.leaf].used.add(&taken);
    }

    fn park(&mut self, who: usize, view: &View<'_>) {
        let narrowed = self.lane(who).map(|lane| Narrowed::of(lane, view, &self.trackers));
        let own = narrowed.as_ref().map_or(*view, |narrowed| narrowed.view(view));
        let it = &mut self.askers[who];
        let parked = Parked::short(it.wants.as_ref().unwrap(), &own);
        it.waits = WaitSet::Parked(Box::new(parked));
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    let who = || 0..N_APPLICATIONS;
    let quantities = || (1..6_i64, 1..6_i64);
    let limit = (0..4_usize, any::<bool>(), 0..3_usize, quantities(), 0..4_u64).prop_map(
        |(queue, of_user, whose, most, applications)| Written {
            queue: if queue == 3 { 0 } else { queue },
            of_user,
            whose,
            most,
            applications: applications.saturating_sub(1),
        },
    );
    prop_oneof![
        8 => (who(), (0..4_i64, 1..4_i64))
            .prop_map(|(who, amount)| Happening::Ask { who, amount }),
        1 => who().prop_map(|who| Happening::Withdraw { who }),
        5 => who().prop_map(|who| Happening::Free { who }),
        1 => prop::collection::vec(limit, 0..5).prop_map(Happening::Limits),
        1 => (0..LEAVES.len(), quantities()).prop_map(|(leaf, most)| Happening::Max { leaf, most }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_leaves_that_share_limits_the_first_that_may_goes_first_and_none_is_forgotten(
        happenings in prop::collection::vec(happening(), 1..80)
    ) {
        let mut tree = Tree::new();
        for happening in &happenings {
            tree.happen(happening);
        }
    }
}

/// Three leaves wait for one limit, of resources or of running applications. An amount that one of
/// them frees goes to the first of the others, and no other leaf is notified or searched.
#[test]
fn leaves_behind_the_first_are_skipped_when_what_a_limit_gave_is_used_again() {
    for (most, applications) in [((1, 9), 0), ((9, 9), 1)] {
        let mut tree = Tree::new();
        let all = Written { queue: 0, of_user: false, whose: 2, most, applications };
        tree.happen(&Happening::Limits(vec![all]));
        for who in [0, 1, 2, 3, 4, 5] {
            tree.happen(&Happening::Ask { who, amount: (1, 0) });
        }
        let holders = |tree: &Tree| -> Vec<usize> {
            (0..N_APPLICATIONS).filter(|who| !tree.askers[*who].holds.is_empty()).collect()
        };
        let mut order = holders(&tree);
        for _ in 0..5 {
            let who = *order.last().unwrap();
            let lane = tree.askers[who].lane.unwrap();
            let is_other = |it: &Asker| it.lane != Some(lane) || it.id == tree.askers[who].id;
            assert!(tree.askers.iter().all(is_other));
            let offers = tree.happen(&Happening::Free { who });
            assert_eq!(offers, 1, "after {order:?}");
            order.extend(holders(&tree));
        }
        assert_eq!(order, [0, 3, 1, 4, 2, 5]);
    }
}
