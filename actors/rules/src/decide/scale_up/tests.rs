use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::order::keys::{ApplicationView, QueueView};
use crate::queues::ApplicationSortPolicy;

fn vcores(n: i64) -> Resources {
    Resources::of(&[("vcore", n)])
}

/// Siblings are ordered by their priority here, the highest first.
fn queue(parent: Option<usize>, priority: i32, left: Limits) -> QueueRoom {
    let none = Resources::new();
    let path = Arc::from(format!("root.{priority}"));
    let view = QueueView {
        priority,
        allocated: &none,
        guaranteed: None,
        fair_max: None,
        pending: &none,
        path: &path,
    };
    QueueRoom { parent, key: QueueKey::new(true, &view), left }
}

/// Applications of a leaf are ordered by their number.
fn application(leaf: usize, number: u32, classes: Vec<(Resources, u64)>) -> ApplicationWaiting {
    let (allocated, id) = (Resources::new(), Arc::from(format!("{number:09}")));
    let view = ApplicationView {
        lacks_members: false,
        priority: 0,
        submitted: 0,
        allocated: &allocated,
        guaranteed: None,
        id: &id,
    };
    let key = ApplicationKey::new(ApplicationSortPolicy::Fifo, true, &view);
    let classes = classes.into_iter().zip((0..).map(ClassId::at));
    let waiting = |((resources, count), class)| Waiting { class, resources, count };
    let classes = classes.map(waiting).collect();
    ApplicationWaiting {
        application: ApplicationSlot::at(number),
        leaf,
        key,
        limits: Vec::new(),
        classes,
        together: false,
    }
}

fn gang(application: ApplicationWaiting) -> ApplicationWaiting {
    ApplicationWaiting { together: true, ..application }
}

fn counts(wanted: &[Wanted]) -> Vec<(usize, u64)> {
    wanted.iter().map(|wanted| (wanted.application.index(), wanted.count)).collect()
}

#[test]
fn what_is_counted_is_taken_from_applications_and_siblings_that_come_later() {
    let queues = vec![
        queue(None, 0, Limits::of(&[("vcore", 0)])),
        queue(Some(0), 0, Limits::of(&[("vcore", 10)])),
        queue(Some(1), 1, Limits::unlimited()),
        queue(Some(1), 2, Limits::of(&[("vcore", 3)])),
    ];
    let applications = vec![
        application(2, 1, vec![(vcores(2), 2)]),
        application(2, 0, vec![(vcores(5), 1), (vcores(1), 9)]),
        application(3, 2, vec![(vcores(2), 4)]),
    ];
    // The sibling of priority 2 takes 2 of its 3; application 0 takes all of the 8 that are left.
    assert_eq!(counts(&wanted(queues, BTreeMap::new(), applications)), [(2, 1), (0, 1), (0, 3)]);
}

#[test]
fn roots_own_limit_and_a_queue_that_is_over_its_own() {
    let queues = vec![
        queue(None, 0, Limits::of(&[("vcore", 0)])),
        queue(Some(0), 0, Limits::of(&[("vcore", -1)])),
        queue(Some(0), 1, Limits::unlimited()),
    ];
    let memory = Resources::of(&[("memory", 1), ("vcore", 0)]);
    let applications = vec![
        application(1, 0, vec![(vcores(1), 1), (memory, 2)]),
        application(2, 1, vec![(vcores(1), 7)]),
    ];
    assert_eq!(counts(&wanted(queues, BTreeMap::new(), applications)), [(1, 7), (0, 2)]);
}

/// Numbers these limits, each with the amount that it leaves.
fn rooms(left: &[Limits]) -> BTreeMap<LimitId, Limits> {
    (0..).map(LimitId::numbered).zip(left.iter().cloned()).collect()
}

fn limited(application: ApplicationWaiting, limits: &[u32]) -> ApplicationWaiting {
    let limits = limits.iter().copied().map(LimitId::numbered).collect();
    ApplicationWaiting { limits, ..application }
}

#[test]
fn what_is_counted_is_taken_from_user_and_group_in_all_their_queues() {
    let queues = vec![
        queue(None, 0, Limits::unlimited()),
        queue(Some(0), 3, Limits::unlimited()),
        queue(Some(0), 2, Limits::of(&[("vcore", 2)])),
        queue(Some(0), 1, Limits::unlimited()),
    ];
    let of_ann = Limits::of(&[("vcore", 7)]);
    let of_her_group = Limits::of(&[("vcore", 9), ("gpu", 0)]);
    let gpu = Resources::of(&[("gpu", 1)]);
    let (ann, group) = (0, 1);
    let applications = vec![
        limited(application(1, 0, vec![(vcores(2), 2), (gpu.clone(), 1)]), &[ann, group]),
        limited(application(2, 1, vec![(vcores(1), 9)]), &[ann, group]),
        limited(application(3, 2, vec![(vcores(1), 9)]), &[ann, group]),
        limited(application(3, 3, vec![(vcores(1), 9)]), &[group]),
        application(3, 4, vec![(vcores(1), 9), (gpu, 1)]),
    ];
    // Ann has 7: 4, then 2 that her second queue allows, then 1. Her group has 2 more.
    let wanted = wanted(queues, rooms(&[of_ann, of_her_group]), applications);
    assert_eq!(counts(&wanted), [(0, 2), (1, 2), (2, 1), (3, 2), (4, 9), (4, 1)]);
}

#[test]
fn a_user_with_nothing_left_wants_no_machines() {
    let queues = vec![queue(None, 0, Limits::unlimited()), queue(Some(0), 0, Limits::unlimited())];
    let applications = vec![limited(application(1, 0, vec![(vcores(1), 1)]), &[0])];
    for left in [0, -3] {
        let left = rooms(&[Limits::of(&[("vcore", left)])]);
        assert_eq!(wanted(queues.clone(), left, applications.clone()), []);
    }
}

#[test]
fn a_gang_is_counted_as_a_whole_or_not_at_all() {
    let gpu = Resources::of(&[("gpu", 1)]);
    let of = |left: i64, members| {
        let queues = vec![
            queue(None, 0, Limits::unlimited()),
            queue(Some(0), 0, Limits::of(&[("vcore", left), ("gpu", 1)])),
        ];
        let asked = vec![(vcores(2), members), (vcores(3), 1), (gpu.clone(), 1)];
        let applications =
            vec![gang(application(1, 0, asked)), application(1, 1, vec![(vcores(2), 9)])];
        counts(&wanted(queues, BTreeMap::new(), applications))
    };
    assert_eq!(of(11, 4), [(0, 4), (0, 1), (0, 1)], "all of it, and nothing is left");
    assert_eq!(of(10, 4), [(1, 5)], "3 of 4 members would not run; what comes later may");
    assert_eq!(of(13, 4), [(0, 4), (0, 1), (0, 1), (1, 1)]);
}

#[test]
fn a_gang_that_its_user_may_not_have_as_a_whole_wants_no_machines() {
    let queues = vec![queue(None, 0, Limits::unlimited()), queue(Some(0), 0, Limits::unlimited())];
    let asked = vec![(vcores(1), 3), (vcores(2), 1)];
    let applications = vec![gang(limited(application(1, 0, asked), &[0]))];
    let wanted = |left| {
        wanted(queues.clone(), rooms(&[Limits::of(&[("vcore", left)])]), applications.clone())
    };
    assert_eq!(wanted(4), []);
    assert_eq!(counts(&wanted(5)), [(0, 3), (0, 1)]);
}

/// Counts by definition: one ask after the other, each taking its share of what is left.
fn one_by_one(
    mut queues: Vec<QueueRoom>,
    mut limits: BTreeMap<LimitId, Limits>,
    applications: &[ApplicationWaiting],
) -> Vec<(usize, u64)> {
    let mut counts = Vec::new();
    for leaf in in_order(&queues) {
        let mut here: Vec<_> = applications.iter().filter(|a| a.leaf == leaf).collect();
        here.sort_by(|a, b| a.key.cmp(&b.key));
        let path = path(&queues, leaf);
        for application in here {
            let total = application.total();
            let fits = path.iter().all(|queue| queues[*queue].left.allows(&total))
                && application.limits.iter().all(|limit| limits[limit].allows(&total));
            if application.together && !fits {
                continue;
            }
            for waiting in &application.classes {
                let mut count = 0;
                for _ in 0..waiting.count {
                    let wanted = &waiting.resources;
                    if path.iter().all(|queue| queues[*queue].left.allows(wanted))
                        && application.limits.iter().all(|limit| limits[limit].allows(wanted))
                    {
                        count += 1;
                        for limit in &application.limits {
                            limits.get_mut(limit).unwrap().take(wanted);
                        }
                        for queue in &path {
                            queues[*queue].left.take(&waiting.resources);
                        }
                    }
                }
                if count > 0 {
                    counts.push((application.application.index(), count));
                }
            }
        }
    }
    counts
}

fn amounts() -> impl Strategy<Value = Resources> {
    (0_i64..4, 0_i64..4)
        .prop_map(|(memory, vcore)| Resources::of(&[("memory", memory), ("vcore", vcore)]))
}

fn limits() -> impl Strategy<Value = Limits> {
    (-2_i64..20, prop::option::of(0_i64..20)).prop_map(|(memory, vcore)| match vcore {
        Some(vcore) => Limits::of(&[("memory", memory), ("vcore", vcore)]),
        None => Limits::of(&[("memory", memory)]),
    })
}

/// The requests of an application: its leaf, its classes, its limits, and whether it is a gang.
type Asked = (prop::sample::Index, Vec<(Resources, u64)>, Vec<u32>, bool);

/// Builds queues of these sizes, and applications with their requests, leaves and limits.
fn tree_of(
    sizes: Vec<(prop::sample::Index, i32, Limits)>,
    asked: Vec<Asked>,
) -> (Vec<QueueRoom>, Vec<ApplicationWaiting>) {
    let mut queues: Vec<QueueRoom> = Vec::new();
    for (at, (parent, priority, left)) in sizes.into_iter().enumerate() {
        let parent = (at > 0).then(|| parent.index(at));
        queues.push(queue(parent, priority, left));
    }
    let applications = (0..).zip(asked).map(|(number, (leaf, classes, limits, together))| {
        let leaf = leaf.index(queues.len());
        let application = limited(application(leaf, number, classes), &limits);
        ApplicationWaiting { together, ..application }
    });
    let applications = applications.collect();
    (queues, applications)
}

fn sizes() -> impl Strategy<Value = Vec<(prop::sample::Index, i32, Limits)>> {
    let left = prop_oneof![limits(), Just(Limits::unlimited())];
    prop::collection::vec((any::<prop::sample::Index>(), 0..3, left), 1..6)
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let classes = prop::collection::vec((amounts(), 1_u64..6), 1..4);
    let limits = prop::sample::subsequence(vec![0, 1, 2], 0..3);
    prop::collection::vec((any::<prop::sample::Index>(), classes, limits, any::<bool>()), 0..8)
}

proptest! {
    /// Counting by class and ask by ask has the same result; no sum exceeds a limit, and no ask is
    /// missed.
    #[test]
    fn classes_count_as_their_asks_would_one_by_one(
        sizes in sizes(),
        asked in asked(),
        left in prop::collection::vec(limits(), 3),
    ) {
        let left = rooms(&left);
        let (mut queues, applications) = tree_of(sizes, asked);
        let wanted = wanted(queues.clone(), left.clone(), applications.clone());
        prop_assert_eq!(counts(&wanted), one_by_one(queues.clone(), left.clone(), &applications));

        let of = |wanted: &Wanted| {
            let application =
                applications.iter().find(|a| a.application == wanted.application).unwrap();
            let class = application.classes.iter().find(|c| c.class == wanted.class).unwrap();
            (application, class)
        };
        let (before, mut rest) = (queues.clone(), left.clone());
        for wanted in &wanted {
            let (application, class) = of(wanted);
            let times = i64::try_from(wanted.count).unwrap();
            for queue in path(&queues, application.leaf) {
                queues[queue].left.take(&class.resources.times(times));
            }
            for limit in &application.limits {
                rest.get_mut(limit).unwrap().take(&class.resources.times(times));
            }
        }
        for (limit, after) in &rest {
            let before = left[limit].as_resources();
            let within = after.entries().all(|(name, left)| left >= before.get(name).min(0));
            prop_assert!(within, "over what a user has left");
        }
        for (before, after) in before.iter().zip(&queues).filter(|(_, q)| q.parent.is_some()) {
            let before = before.left.as_resources();
            let within = after.left.entries().all(|(name, left)| left >= before.get(name).min(0));
            prop_assert!(within, "over what a queue has left");
        }
        for application in &applications {
            let n_given: usize =
                wanted.iter().filter(|w| w.application == application.application).count();
            if application.together && n_given == 0 {
                let total = application.total();
                let path = path(&queues, application.leaf);
                let fits = path.iter().all(|queue| queues[*queue].left.allows(&total))
                    && application.limits.iter().all(|limit| rest[limit].allows(&total));
                prop_assert!(!fits, "a gang is passed over though it fits");
                continue;
            }
            for class in &application.classes {
                let given = wanted
                    .iter()
                    .find(|w| (w.application, w.class) == (application.application, class.class))
                    .map_or(0, |wanted| wanted.count);
                let path = path(&queues, application.leaf);
                let fits = path.iter().all(|queue| queues[*queue].left.allows(&class.resources))
                    && application.limits.iter().all(|limit| rest[limit].allows(&class.resources));
                prop_assert!(given == class.count || !fits, "passed over though it fits");
                prop_assert!(given == class.count || !application.together, "a part of a gang");
            }
        }
    }
    /// The counts of some applications are the same whether all waiting applications are counted,
    /// or only those that share a maximum or a limit with them.
    #[test]
    fn who_shares_nothing_need_not_be_counted(
        sizes in sizes(),
        asked in asked(),
        left in prop::collection::vec(limits(), 3),
        unsignalled in prop::collection::vec(any::<bool>(), 8),
    ) {
        let left = rooms(&left);
        let (queues, applications) = tree_of(sizes, asked);
        let is_unsignalled = |number: ApplicationSlot| unsignalled[number.index()];
        let of_unsignalled = |queues: &[QueueRoom], applications: &[ApplicationWaiting]| {
            let mut wanted = wanted(queues.to_vec(), left.clone(), applications.to_vec());
            wanted.retain(|wanted| is_unsignalled(wanted.application));
            wanted
        };
        let all = of_unsignalled(&queues, &applications);

        let is_counted =
            |it: &ApplicationWaiting| is_unsignalled(it.application) || !it.limits.is_empty();
        let leaves = applications.iter().filter(|it| is_counted(it)).map(|it| it.leaf);
        let whole = shares_room(&queues, &leaves.collect());
        let mut counted = applications;
        counted.retain(|it| is_counted(it) || whole[it.leaf]);
        prop_assert_eq!(of_unsignalled(&queues, &counted), all);
    }
}
