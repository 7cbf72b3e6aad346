//! Tests what the audit derives for users and groups, and which faults it finds. All its other
//! results are compared with whole partitions in other tests.

use super::*;
use crate::limits::Trackers;
use crate::limits::tests::{queue, tree};
use crate::values::epoch::Loosening;

/// An application: id, user and groups, leaf, state, and the amount that it holds, in vcores.
type Told = (&'static str, &'static str, &'static str, ApplicationState, i64);

const ACCEPTED: ApplicationState = ApplicationState::Accepted;
const RUNNING: ApplicationState = ApplicationState::Running;

fn vcores(n: i64) -> Resources {
    Resources::of(&[("vcore", n)]).pruned()
}

/// The queues, users, groups and applications of a partition.
fn facts(limits: &str, applications: &[Told]) -> Facts {
    let mut root = tree(limits);
    let mut trackers = Trackers::new(&root);
    let mut facts = Facts::default();
    for (number, (id, who, leaf, state, holds)) in (0..).zip(applications) {
        queue(&mut root, leaf);
        let (name, groups) = who.split_once('/').unwrap_or((who, ""));
        let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned);
        let groups: Vec<String> = groups.collect();
        let [id, user, leaf]: [Arc<str>; 3] = [*id, name, *leaf].map(Arc::from);
        let joined = trackers.join(&user, &groups, &id, &leaf);
        let mut unsettled = Vec::new();
        if *holds > 0 {
            trackers.charge(joined.lane, &vcores(*holds), Loosening::NONE);
            trackers.start(joined.lane, &id);
            unsettled.push(AllocationId::numbered(number));
        }
        facts.applications.push(ApplicationFact {
            domains: Vec::new(),
            slot: ApplicationSlot::at(number),
            id,
            leaf: 0,
            user,
            groups,
            group: joined.group,
            state: *state,
            submitted_ns: 0,
            allocated: vcores(*holds),
            pending: Sum::default(),
            priority: 0,
            allocations: Vec::new(),
            unsettled,
            placeholders: Resources::new(),
            task_groups: BTreeMap::new(),
            asks: Vec::new(),
            reserved: 0,
            suspended: 0,
            has_placeholder_timer: false,
            backs_off: false,
            aging_ns: None,
            is_native: false,
            members: Vec::new(),
            bundle: None,
        });
    }
    plant(&mut facts, root, None);
    for (application, (_, _, leaf, ..)) in facts.applications.iter_mut().zip(applications) {
        let leaf = facts.queues.iter().find(|queue| *queue.config.path == **leaf);
        application.leaf = leaf.unwrap().slot;
    }
    facts.users = trackers.users().collect();
    facts.groups = trackers.groups().collect();
    facts
}

fn plant(facts: &mut Facts, mut config: QueueConfig, parent: Option<u32>) {
    let slot = u32::try_from(facts.queues.len()).unwrap();
    let children = std::mem::take(&mut config.children);
    facts.queues.push(QueueFact {
        slot,
        parent,
        ledger: QueueLedger::default(),
        priority: 0,
        config: Arc::new(config),
        state: ObjectState::Active,
        fair_max: None,
    });
    for child in children {
        plant(facts, child, Some(slot));
    }
}

fn wrong(facts: &Facts) -> Vec<String> {
    let mut wrong = Vec::new();
    facts.check_usage(&mut wrong);
    wrong
}

const LIMITS: &str = "root user=ann vcore=9 apps=2
                      root.a user=* vcore=5
                      root.a group=dev,* vcore=7 apps=1";

#[test]
fn headroom_and_the_right_to_run_are_those_of_user_and_group_on_every_level() {
    let facts = facts(
        LIMITS,
        &[
            ("a", "ann/dev", "root.a", RUNNING, 3),
            ("b", "bob/dev", "root.a.x", ACCEPTED, 2),
            ("c", "ann/sales", "root.a.x", ACCEPTED, 0),
            ("d", "ann/dev", "root.b", ACCEPTED, 0),
            ("e", "cid/dev", "root.a.x", ACCEPTED, 0),
            ("f", "eve/dev", "root.b", ACCEPTED, 0),
        ],
    );
    assert_eq!(wrong(&facts), Vec::<String>::new());
    let told = |application| {
        let headroom = facts.user_headroom(application).to_string();
        (headroom, facts.may_run(application))
    };
    let told: Vec<(String, bool)> = facts.applications.iter().map(told).collect();
    let expected = [
        ("map[vcore:2]", true),
        ("map[vcore:2]", true),
        ("map[vcore:2]", true),
        ("map[vcore:6]", true),
        ("map[vcore:2]", false),
        ("map[]", true),
    ];
    assert_eq!(told, expected.map(|(headroom, may)| (headroom.to_owned(), may)));
}

#[test]
fn what_ran_and_asks_for_more_still_counts_as_running() {
    let mut facts = facts(
        "root user=ann apps=1",
        &[("a", "ann", "root.a", RUNNING, 1), ("b", "ann", "root.a", ACCEPTED, 0)],
    );
    facts.applications[0].allocated = Resources::new();
    facts.applications[0].unsettled.clear();
    let place = &mut facts.users[0].queues;
    place.usage = Resources::new();
    place.children[0].usage = Resources::new();
    assert_eq!(wrong(&facts), Vec::<String>::new());
    assert!(!facts.may_run(&facts.applications[1]));
}

/// Tests that each kind of fault is found and named.
#[test]
fn wrong_books_are_found() {
    type Spoil = fn(&mut Facts);
    let cases: &[(&str, Spoil, &str)] = &[
        ("usage", |facts| facts.users[0].queues.usage = vcores(4), "usage: "),
        (
            "usage below",
            |facts| facts.groups[1].queues.children[0].usage = Resources::new(),
            "usage: ",
        ),
        ("not tracked", |facts| drop(facts.users.remove(0)), "is not tracked at"),
        ("no group tracked", |facts| drop(facts.groups.remove(1)), "is not tracked at"),
        (
            "a zero",
            |facts| {
                let usage = Resources::of(&[("vcore", 3), ("memory", 0)]);
                facts.users[0].queues.usage = usage;
            },
            "not above zero: ",
        ),
        ("nobody runs", |facts| facts.users[0].queues.running.clear(), "running: "),
        ("somebody runs", |facts| facts.groups[1].queues.running.push(Arc::from("b")), "running: "),
        ("another limit", |facts| facts.users[0].queues.max_resources = None, "not as configured"),
        (
            "a limit of a queue that is configured no more",
            |facts| facts.queues[1].state = ObjectState::Draining,
            "not as configured",
        ),
        (
            "another group",
            |facts| facts.applications[0].group = Some(Arc::from("ops")),
            "which cannot be",
        ),
        ("a link too few", |facts| facts.users[0].groups.clear(), "counts for"),
        ("an application too few", |facts| facts.groups[1].applications.clear(), "counts"),
    ];
    let right = facts(
        LIMITS,
        &[("a", "ann/dev", "root.a", RUNNING, 3), ("b", "bob/dev", "root.a", ACCEPTED, 0)],
    );
    assert_eq!(wrong(&right), Vec::<String>::new());
    for (name, spoil, expected) in cases {
        let mut spoiled = right.clone();
        spoil(&mut spoiled);
        let wrong = wrong(&spoiled);
        assert!(wrong.iter().any(|text| text.contains(expected)), "{name}: {wrong:?}");
    }
}
