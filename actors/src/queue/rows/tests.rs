//! Tests rows and lanes against a flat list: the child that is chosen is the first of all that may
//! use the offer, and none is forgotten, however the limits change between offers. The flat list
//! has no lanes, because lanes must not change any choice.

use monoceros_rules::limits::{Joined, Tables};
use monoceros_rules::order::keys::{ApplicationKey, ApplicationView};
use monoceros_rules::queues::{ApplicationSortPolicy, LimitConfig, QueueConfig};
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::{Limits, Resources};
use monoceros_rules::waiting::{Parked, Phase, WaitSet};
use proptest::prelude::*;

use super::*;
use crate::queue::lanes::Narrowed;

mod leaves;

const APPLICATIONS: usize = 6;
/// The user of each application; two of one user may have different groups.
const USERS: [&str; APPLICATIONS] = ["ann", "ann", "ann", "bob", "bob", "eve"];
const GROUPS: [&[&str]; APPLICATIONS] =
    [&["dev", "ops"], &["dev", "ops"], &["ops"], &["dev"], &["qa", "dev"], &[]];

/// An application with the amount that it wants next; it holds amounts of earlier wants.
struct Application {
    id: Arc<str>,
    groups: Vec<String>,
    row: RowSlot,
    lane: Option<LaneId>,
    priority: i32,
    wants: Option<Resources>,
    holds: Resources,
    waits: WaitSet,
}

struct World {
    rows: Rows<usize>,
    trackers: Trackers,
    applications: Vec<Application>,
    step: Loosening,
    /// The number of the last reload, which counts as a loosening of root.
    reloaded: Loosening,
}

/// A change of one application, or a reload of the limits.
#[derive(Clone, Debug)]
enum Event {
    Ask { who: usize, vcores: i64, priority: i32 },
    Withdraw { who: usize },
    Free { who: usize },
    Reload(Vec<(bool, bool, usize, i64, u64)>),
}

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

/// Builds queues with these limits: each is on root or on the leaf, and of a user or group.
fn tree(limits: &[(bool, bool, usize, i64, u64)]) -> QueueConfig {
    let mut root = QueueConfig::bare("root", false);
    root.children.push(QueueConfig::bare("root.a", true));
    for (on_root, of_user, whose, most, max_applications) in limits {
        let mut limit = LimitConfig {
            max_resources: Some(Limits::of(&[("vcore", *most)])),
            max_applications: *max_applications,
            ..LimitConfig::default()
        };
        let name = |names: [&str; 4]| vec![names[whose % 4].to_owned()];
        if *of_user {
            limit.users = name(["ann", "bob", "eve", "*"]);
        } else {
            limit.groups = name(["dev", "ops", "qa", "*"]);
        }
        let queue = if *on_root { &mut root } else { &mut root.children[0] };
        queue.limits.push(limit);
    }
    root
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::default();
        let application = |number: usize| Application {
            id: Arc::from(format!("a{number}")),
            groups: GROUPS[number].iter().map(|group| (*group).to_owned()).collect(),
            row: rows.add(number),
            lane: None,
            priority: 0,
            wants: None,
            holds: Resources::new(),
            waits: WaitSet::Nothing,
        };
        let applications = (0..APPLICATIONS).map(application).collect();
        Self {
            rows,
            trackers: Trackers::new(&tree(&[])),
            applications,
            step: Loosening::NONE,
            reloaded: Loosening::NONE,
        }
    }

    fn key(&self, who: usize) -> RowKey {
        let Application { id, priority, holds, .. } = &self.applications[who];
        RowKey::Application(ApplicationKey::new(
            ApplicationSortPolicy::Fair,
            true,
            &ApplicationView {
                lacks_members: false,
                priority: *priority,
                submitted: 0,
                allocated: holds,
                guaranteed: None,
                id,
            },
        ))
    }

    fn limited_lane(&self, who: usize) -> Option<LaneId> {
        self.applications[who].lane.filter(|lane| self.trackers.is_limited(*lane))
    }

    fn update(&self, who: usize) -> RowUpdate {
        let it = &self.applications[who];
        let set = it.waits.clone();
        let waits = Waits::new(set, WaitSet::Nothing, WaitSet::Nothing, it.holds.is_empty());
        let key = it.wants.is_some().then(|| self.key(who));
        RowUpdate { row: it.row, lane: self.limited_lane(who), key, priority: it.priority, waits }
    }

    fn speak(&mut self, who: usize) {
        let update = self.update(who);
        self.rows.update(update, &mut self.trackers);
    }

    /// Keeps the lane of an application up to date: it is in one while it has pending asks or
    /// allocations.
    fn settle_lane(&mut self, who: usize) {
        let it = &mut self.applications[who];
        let is_in = it.wants.is_some() || !it.holds.is_empty();
        match it.lane {
            None if is_in => {
                let [user, leaf]: [Arc<str>; 2] = [USERS[who], "root.a"].map(Arc::from);
                let Joined { lane, .. } = self.trackers.join(&user, &it.groups, &it.id, &leaf);
                it.lane = Some(lane);
            }
            Some(lane) if !is_in => {
                self.trackers.leave(lane, &it.id);
                it.lane = None;
            }
            _ => {}
        }
    }

    fn happen(&mut self, event: &Event) {
        self.step = self.step.next();
        match event {
            Event::Ask { who, vcores: wanted, priority } => {
                let it = &mut self.applications[*who];
                (it.wants, it.priority) = (Some(vcores(*wanted)), *priority);
                it.waits = WaitSet::Due;
                self.settle_lane(*who);
                self.speak(*who);
            }
            Event::Withdraw { who } => {
                let it = &mut self.applications[*who];
                (it.wants, it.waits) = (None, WaitSet::Nothing);
                self.settle_lane(*who);
                self.speak(*who);
            }
            Event::Free { who } => {
                let it = &mut self.applications[*who];
                let held = std::mem::take(&mut it.holds);
                if let Some(lane) = it.lane.filter(|_| !held.is_empty()) {
                    let less = Resources::new().minus(&held);
                    self.trackers.charge(lane, &less, self.step);
                    self.trackers.stop(lane, &it.id, self.step);
                }
                self.settle_lane(*who);
                self.speak(*who);
            }
            Event::Reload(limits) => {
                self.reloaded = self.step;
                let tables = Arc::new(Tables::of(&tree(limits)));
                let reloaded = self.trackers.reload(&tables, self.step);
                if reloaded.is_some_and(|reloaded| !reloaded.leaves.is_empty()) {
                    for it in &mut self.applications {
                        let Some(lane) = it.lane else { continue };
                        let joined = self.trackers.rejoin(lane, &it.id, &it.groups, &it.holds);
                        it.lane = joined.map_or(it.lane, |joined| Some(joined.lane));
                    }
                }
                let updates = (0..APPLICATIONS).map(|who| self.update(who)).collect();
                self.rows.update_all(updates, &mut self.trackers);
            }
        }
        for (_, lanes) in self.trackers.take_reopened() {
            self.rows.look_again(&lanes, &mut self.trackers);
        }
        self.offer();
    }

    /// Whether the limits of user and group allow the amount that the application wants.
    fn fits(&self, who: usize) -> bool {
        let it = &self.applications[who];
        let Some(wanted) = &it.wants else { return false };
        self.limited_lane(who).is_none_or(|lane| {
            let may_run = !it.holds.is_empty() || self.trackers.may_start(lane);
            may_run && self.trackers.headroom(lane).allows(wanted)
        })
    }

    /// Returns the first application in order that may have the amount that it wants, by a list
    /// without lanes and bounds.
    fn first_that_fits(&self) -> Option<usize> {
        let fitting = (0..APPLICATIONS).filter(|who| self.fits(*who));
        fitting.min_by_key(|who| self.key(*who))
    }

    /// Offers to the first child until no child may use an offer.
    fn offer(&mut self) {
        let headroom = Limits::unlimited();
        let view = View::of_quota(&headroom, self.reloaded, true);
        while let Some(First { child: who, runner_up, .. }) =
            self.rows.first(Phase::Normal, &view, &mut self.trackers, None)
        {
            let key = self.key(who);
            assert!(runner_up.is_none_or(|next| key < next), "a{who} is not before the next");
            if self.fits(who) {
                assert_eq!(Some(who), self.first_that_fits(), "another comes first");
                let it = &mut self.applications[who];
                let taken = it.wants.take().unwrap();
                let lane = it.lane.unwrap();
                self.trackers.charge(lane, &taken, Loosening::NONE);
                if it.holds.is_empty() {
                    self.trackers.start(lane, &it.id);
                }
                it.holds.add(&taken);
                it.waits = WaitSet::Nothing;
            } else {
                let lane = self.limited_lane(who).expect("only limits hold anybody here");
                let narrowed = Narrowed::of(lane, &view, &self.trackers);
                let it = &mut self.applications[who];
                let wanted = it.wants.as_ref().unwrap();
                let parked = Parked::short(wanted, &narrowed.view(&view));
                it.waits = WaitSet::Parked(Box::new(parked));
            }
            self.speak(who);
        }
        assert_eq!(self.first_that_fits(), None, "somebody is forgotten");
        let asking = self.applications.iter().filter(|it| it.wants.is_some());
        let highest = asking.map(|it| it.priority).max().unwrap_or(MIN_PRIORITY);
        assert_eq!(self.rows.priority(), highest);
        self.rows.lanes.check();
    }
}

fn event() -> impl Strategy<Value = Event> {
    let limit = (any::<bool>(), any::<bool>(), 0..4_usize, 1..6_i64, 0..3_u64);
    let who = || 0..APPLICATIONS;
    prop_oneof![
        6 => (who(), 1..4_i64, 0..3)
            .prop_map(|(who, vcores, priority)| Event::Ask { who, vcores, priority }),
        1 => who().prop_map(|who| Event::Withdraw { who }),
        4 => who().prop_map(|who| Event::Free { who }),
        2 => prop::collection::vec(limit, 0..5).prop_map(Event::Reload),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn under_changing_limits_the_first_child_that_may_goes_first_and_none_is_forgotten(
        events in prop::collection::vec(event(), 1..60)
    ) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
    }
}

#[test]
fn an_application_that_wants_nothing_more_is_not_woken() {
    let mut world = World::new();
    // One limit of a group: a3 waits until a0 frees its amount, and then wants nothing more.
    world.happen(&Event::Reload(vec![(true, false, 0, 3, 0)]));
    let ask = |who| Event::Ask { who, vcores: 3, priority: 0 };
    for event in [ask(0), ask(3), Event::Free { who: 0 }] {
        world.happen(&event);
    }
    let (lane, given) = (world.applications[3].lane.unwrap(), vcores(-3));
    assert_eq!(world.applications[3].holds, vcores(3));
    world.trackers.charge(lane, &given, Loosening::numbered(99));
    assert!(world.trackers.take_reopened().is_empty(), "nobody waits");
}

#[test]
fn a_lane_without_an_update_is_left_alone_when_many_rows_are_updated() {
    let mut world = World::new();
    world.happen(&Event::Reload(vec![(true, false, 0, 3, 0)]));
    for who in [0, 3] {
        world.happen(&Event::Ask { who, vcores: 3, priority: 0 });
    }
    // The trackers report the lane to its leaf; the updates of rows do not.
    world.trackers.charge(
        world.applications[0].lane.unwrap(),
        &vcores(-3),
        Loosening::numbered(99),
    );
    let before = world.rows.waits();
    world.rows.update_all(Vec::new(), &mut world.trackers);
    assert_eq!(world.rows.waits(), before);
    let lane = world.applications[3].lane.unwrap();
    world.rows.look_again(&[lane], &mut world.trackers);
    assert_ne!(world.rows.waits(), before);
}
