//! Tests of the orders, by example and against their definitions, each written as plainly as
//! possible. A key packs the values that it compares into integers, so a definition that compares
//! the values themselves must agree with it.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::queues::{ApplicationSortPolicy, PriorityPolicy};

/// Returns the same quantity of two names, which the tables below write as "500 (both types)".
fn both(quantity: i64) -> Resources {
    Resources::of(&[("memory", quantity), ("vcore", quantity)])
}

/// The values that a [`QueueView`] borrows.
#[derive(Clone, Debug)]
struct Queue {
    priority: i32,
    allocated: Resources,
    guaranteed: Option<Resources>,
    fair_max: Option<Limits>,
    pending: Resources,
    path: Arc<str>,
}

impl Queue {
    fn key(&self, priority_first: bool) -> QueueKey {
        let view = QueueView {
            priority: self.priority,
            allocated: &self.allocated,
            guaranteed: self.guaranteed.as_ref(),
            fair_max: self.fair_max.as_ref(),
            pending: &self.pending,
            path: &self.path,
        };
        QueueKey::new(priority_first, &view)
    }

    fn share(&self) -> f64 {
        shares::fair_share(&self.allocated, self.guaranteed.as_ref(), self.fair_max.as_ref())
    }
}

fn queue(number: usize, used: i64, guaranteed: Option<i64>, priority: i32) -> Queue {
    Queue {
        priority,
        allocated: both(used),
        guaranteed: guaranteed.map(both),
        fair_max: Some(both(1000).into()),
        pending: both(1),
        path: Arc::from(format!("root.q{number}")),
    }
}

fn queues(used: [i64; 4], guaranteed: Option<[i64; 4]>, priorities: [i32; 4]) -> Vec<Queue> {
    (0..4).map(|n| queue(n, used[n], guaranteed.map(|g| g[n]), priorities[n])).collect()
}

/// Returns the numbers of the queues in order, `3210` for q3, q2, q1, q0; checks that both starting
/// orders lead to it.
fn sorted(queues: &[Queue], priority_first: bool) -> String {
    let text = |mut keys: Vec<QueueKey>| -> String {
        keys.sort();
        keys.iter().map(|key| key.path().chars().last().unwrap()).collect()
    };
    let forward = text(queues.iter().map(|queue| queue.key(priority_first)).collect());
    let backward = text(queues.iter().rev().map(|queue| queue.key(priority_first)).collect());
    assert_eq!(forward, backward, "the order depends on where it started");
    forward
}

#[test]
fn queues_are_ordered_by_priority_and_fair_share() {
    const GUARANTEED: Option<[i64; 4]> = Some([500, 300, 200, 200]);
    let cases = [
        ([300, 200, 100, 100], GUARANTEED, [1, 1, 1, 3], "3201", "3201"),
        ([200, 300, 100, 100], GUARANTEED, [1, 1, 1, 3], "3021", "0321"),
        ([300, 200, 100, 100], None, [1, 0, 2, 3], "3201", "3210"),
    ];
    for (used, guaranteed, priorities, with_priority, without) in cases {
        let queues = queues(used, guaranteed, priorities);
        assert_eq!(sorted(&queues, true), with_priority, "{used:?}, priority first");
        assert_eq!(sorted(&queues, false), without, "{used:?}, fairness first");
    }
}

#[test]
fn of_equals_the_queue_with_more_pending_is_first() {
    let mut few = queue(0, 100, None, 0);
    let mut many = queue(1, 100, None, 0);
    few.pending = both(5);
    many.pending = both(10);
    assert_eq!(sorted(&[few.clone(), many.clone()], true), "10");
    few.pending = Resources::of(&[("vcore", 99)]);
    assert_eq!(sorted(&[few.clone(), many.clone()], true), "10", "memory decides before vcore");
    few.pending = Resources::of(&[("gpu.example/a100", 1), ("vcore", 1)]);
    assert_eq!(sorted(&[few.clone(), many.clone()], true), "01", "gpu comes before memory");
    few.pending = both(10);
    many.pending.set(crate::values::resources::Name::keep("zero"), 0);
    assert_eq!(sorted(&[few, many], true), "01", "an explicit zero is no difference: by path");
}

#[test]
fn each_queue_is_measured_by_its_own_fair_maximum() {
    let mut narrow = queue(0, 100, None, 0);
    let mut wide = queue(1, 150, None, 0);
    narrow.fair_max = Some(both(200).into());
    wide.fair_max = Some(both(1000).into());
    assert_eq!(sorted(&[narrow, wide], true), "10");
}

#[test]
fn a_fenced_queue_without_pending_asks_is_behind_an_unfenced_one() {
    let mut fenced = queue(0, 0, None, exposed_priority(MIN_PRIORITY, PriorityPolicy::Fence, 100));
    let open = queue(1, 500, None, exposed_priority(-5, PriorityPolicy::Default, 0));
    assert_eq!(sorted(&[fenced.clone(), open.clone()], true), "10");
    fenced.priority = exposed_priority(1000, PriorityPolicy::Fence, 0);
    assert_eq!(sorted(&[fenced, open], true), "01");
}

#[test]
fn a_queue_shows_its_priority_by_policy_and_offset() {
    use PriorityPolicy::{Default, Fence};
    let cases = [
        (MIN_PRIORITY, Default, 7, MIN_PRIORITY),
        (MIN_PRIORITY, Fence, 7, MIN_PRIORITY),
        (20, Default, 5, 25),
        (1000, Fence, 0, 0),
        (0, Fence, 3, 3),
        (i32::MAX - 9, Default, 100, i32::MAX),
        (10, Default, i32::MAX, i32::MAX),
        (-10, Default, i32::MIN, i32::MIN),
    ];
    for (raw, policy, offset, expected) in cases {
        assert_eq!(exposed_priority(raw, policy, offset), expected, "{raw} {policy:?} {offset}");
    }
    let through = |raw, offsets: &[i32]| {
        offsets.iter().fold(raw, |raw, offset| exposed_priority(raw, Default, *offset))
    };
    assert_eq!(through(0, &[1, 2, 3]), 6);
    assert_eq!(through(0, &[3, 5]), 8);
    assert_eq!(through(5, &[3, 5]), 13);
    let fenced = exposed_priority(5, Fence, 3);
    assert_eq!((fenced, exposed_priority(fenced, Default, 5)), (3, 8));
}

/// The values that an [`ApplicationView`] borrows.
#[derive(Clone, Debug)]
struct Application {
    priority: i32,
    lacks_members: bool,
    submitted: i64,
    allocated: Resources,
    id: Arc<str>,
}

impl Application {
    fn key(
        &self,
        policy: ApplicationSortPolicy,
        priority_first: bool,
        guaranteed: Option<&Resources>,
    ) -> ApplicationKey {
        let view = ApplicationView {
            priority: self.priority,
            lacks_members: self.lacks_members,
            submitted: self.submitted,
            allocated: &self.allocated,
            guaranteed,
            id: &self.id,
        };
        ApplicationKey::new(policy, priority_first, &view)
    }
}

/// One case: (submitted, priority, used vcore) of a0, a1, …, and the order expected.
struct Leaf {
    claim: &'static str,
    policy: ApplicationSortPolicy,
    priority_first: bool,
    applications: &'static [(i64, i32, i64)],
    expected: &'static str,
}

#[test]
fn applications_are_ordered_by_policy_and_priority() {
    use ApplicationSortPolicy::{Fair, Fifo};
    let cases = [
        Leaf {
            claim: "fifo without priority is by age",
            policy: Fifo,
            priority_first: false,
            applications: &[(3, 0, 0), (1, 0, 0), (2, 0, 0), (0, 0, 0)],
            expected: "3120",
        },
        Leaf {
            claim: "of one age the higher priority is first",
            policy: Fifo,
            priority_first: false,
            applications: &[(7, 3, 0), (7, 0, 0), (7, 5, 0)],
            expected: "201",
        },
        Leaf {
            claim: "an older low one comes before a newer high one while priority is disabled",
            policy: Fifo,
            priority_first: false,
            applications: &[(2, 9, 0), (1, 0, 0)],
            expected: "10",
        },
        Leaf {
            claim: "fair is ascending usage",
            policy: Fair,
            priority_first: false,
            applications: &[(0, 0, 400), (0, 0, 300), (0, 0, 200), (0, 0, 100)],
            expected: "3210",
        },
        Leaf {
            claim: "negative usage is the least",
            policy: Fair,
            priority_first: false,
            applications: &[(0, 0, 100), (0, 0, 0), (0, 0, -100)],
            expected: "210",
        },
        Leaf {
            claim: "priority first goes over usage",
            policy: Fair,
            priority_first: true,
            applications: &[(0, 0, 100), (0, 5, 400), (0, 0, 0)],
            expected: "120",
        },
        Leaf {
            claim: "priority first goes over age",
            policy: Fifo,
            priority_first: true,
            applications: &[(0, 0, 0), (1, 0, 0), (2, 5, 0)],
            expected: "201",
        },
        Leaf {
            claim: "of equal usage the older is first, then the id decides",
            policy: Fair,
            priority_first: true,
            applications: &[(2, 0, 7), (1, 0, 7), (1, 0, 7)],
            expected: "120",
        },
        Leaf {
            claim: "of equal usage priority comes before age",
            policy: Fair,
            priority_first: false,
            applications: &[(1, 0, 7), (2, 4, 7)],
            expected: "10",
        },
    ];
    for leaf in cases {
        let mut keys: Vec<ApplicationKey> = leaf
            .applications
            .iter()
            .enumerate()
            .map(|(number, &(submitted, priority, used))| {
                let allocated = Resources::of(&[("vcore", used)]);
                let id = Arc::from(number.to_string());
                let lacks_members = false;
                let application = Application { priority, lacks_members, submitted, allocated, id };
                application.key(leaf.policy, leaf.priority_first, None)
            })
            .collect();
        keys.sort();
        let order: String = keys.iter().map(|key| &**key.id()).collect();
        assert_eq!(order, leaf.expected, "{}", leaf.claim);
    }
}

/// A gang that lost members comes first, whatever its age and its usage. It does not come before a
/// higher priority if priorities are compared first.
#[test]
fn a_gang_that_lost_members_goes_first_among_equals() {
    use ApplicationSortPolicy::{Fair, Fifo};
    let application = |id: &str, priority, lacks_members, submitted, used| Application {
        priority,
        lacks_members,
        submitted,
        allocated: Resources::of(&[("vcore", used)]),
        id: Arc::from(id),
    };
    let all = [
        application("low gang", i32::MIN, true, 9, 9),
        application("old", 0, false, 1, 1),
        application("gang", 0, true, 9, 9),
        application("older gang", 0, true, 8, 8),
        application("important", 1, false, 9, 9),
    ];
    for (policy, priority_first, expected) in [
        (Fifo, true, ["important", "older gang", "gang", "old", "low gang"]),
        (Fair, true, ["important", "older gang", "gang", "old", "low gang"]),
        (Fifo, false, ["older gang", "gang", "low gang", "old", "important"]),
        (Fair, false, ["older gang", "gang", "low gang", "old", "important"]),
    ] {
        let mut keys: Vec<_> = all.iter().map(|it| it.key(policy, priority_first, None)).collect();
        keys.sort();
        let order: Vec<&str> = keys.iter().map(|key| &**key.id()).collect();
        assert_eq!(order, expected, "{policy:?} {priority_first}");
    }
}

#[test]
fn usage_without_a_guarantee_has_the_unit_of_its_type() {
    let key = |id: &str, entries: &[(&str, i64)]| {
        let application = Application {
            priority: 0,
            lacks_members: false,
            submitted: 0,
            allocated: Resources::of(entries),
            id: Arc::from(id),
        };
        application.key(ApplicationSortPolicy::Fair, true, None)
    };
    let rule = |first: &[(&str, i64)], second: &[(&str, i64)]| {
        let verdict = key("a", first).verdict(&key("b", second), SiblingOrder::FairByPriority);
        verdict.to_string()
    };
    assert_eq!(
        rule(&[("memory", 16 << 30), ("vcore", 4_000)], &[("memory", 64 << 30)]),
        "its usage of 16 GiB of memory is smaller than 64 GiB of memory"
    );
    assert_eq!(
        rule(&[("memory", 1 << 30), ("vcore", 500)], &[("memory", 1 << 30), ("vcore", 2_000)]),
        "its usage of 0.5 cores is smaller than 2 cores"
    );
    assert_eq!(rule(&[], &[("vcore", 1_000)]), "its usage of 0 cores is smaller than 1 core");
    assert_eq!(
        rule(&[("vcore", 1_000)], &[("memory", 2_000)]),
        "its usage 1000 is smaller than 2000",
        "quantities of different types have no unit in common"
    );
}

#[test]
fn usage_is_a_share_of_the_guarantee_of_the_leaf() {
    let application = |id: &str, entries| Application {
        priority: 0,
        lacks_members: false,
        submitted: 0,
        allocated: Resources::of(entries),
        id: Arc::from(id),
    };
    let cores = application("cores", &[("vcore", 50)]);
    let bytes = application("bytes", &[("memory", 100)]);
    let key =
        |app: &Application, guaranteed| app.key(ApplicationSortPolicy::Fair, true, guaranteed);
    assert!(key(&cores, None) < key(&bytes, None));
    let guaranteed = Resources::of(&[("vcore", 100), ("memory", 1000)]);
    assert!(key(&cores, Some(&guaranteed)) > key(&bytes, Some(&guaranteed)));
}

#[test]
fn asks_are_ordered_by_priority_then_age_then_arrival() {
    let expected = [
        AskKey::new(9, 8, 4),
        AskKey::new(1, 1, 9),
        AskKey::new(1, 2, 0),
        AskKey::new(1, 2, 1),
        AskKey::new(-3, 0, 2),
        AskKey::new(i32::MIN, 0, 3),
    ];
    let mut keys = expected;
    keys.reverse();
    keys.sort();
    assert_eq!(keys, expected);
}

// Few distinct values, so that ties and cycles are likely.
fn amounts() -> impl Strategy<Value = Resources> {
    let name = select(vec!["memory", "vcore", "aa.example/x", "zz.example/y", "nn"]);
    prop::collection::vec((name, -1..4_i64), 0..4).prop_map(|entries| Resources::of(&entries))
}

fn any_queue() -> impl Strategy<Value = Queue> {
    let maybe = || prop::option::of(amounts());
    (0..2_i32, amounts(), maybe(), maybe(), amounts(), 0..3_u8).prop_map(
        |(priority, allocated, guaranteed, fair_max, pending, path)| Queue {
            priority,
            allocated,
            guaranteed,
            fair_max: fair_max.map(Limits::from),
            pending,
            path: Arc::from(format!("root.{path}")),
        },
    )
}

fn any_application() -> impl Strategy<Value = Application> {
    (0..2_i32, any::<bool>(), 0..2_i64, amounts(), 0..3_u8).prop_map(
        |(priority, lacks_members, submitted, allocated, id)| {
            let id = Arc::from(id.to_string());
            Application { priority, lacks_members, submitted, allocated, id }
        },
    )
}

fn is(left: f64, right: f64) -> bool {
    left.total_cmp(&right).is_eq()
}

fn any_policy() -> impl Strategy<Value = ApplicationSortPolicy> {
    select(vec![ApplicationSortPolicy::Fifo, ApplicationSortPolicy::Fair])
}

/// Whether `left` is at least as large in every name and larger in one.
fn clearly_larger(left: &Resources, right: &Resources) -> bool {
    left.minus(right).is_positive()
}

/// Compares queues by priority and share, in the order of the setting, then puts the clearly larger
/// pending amount first. Equal if none of these decides.
fn queues_as_written(priority_first: bool, left: &Queue, right: &Queue) -> Ordering {
    let priority = right.priority.cmp(&left.priority);
    let share = left.share().total_cmp(&right.share());
    let lead = if priority_first { priority.then(share) } else { share.then(priority) };
    lead.then_with(|| {
        clearly_larger(&right.pending, &left.pending)
            .cmp(&clearly_larger(&left.pending, &right.pending))
    })
}

/// Compares applications by age or by usage, and by priority, according to the leaf's policy.
fn applications_as_written(
    policy: ApplicationSortPolicy,
    priority_first: bool,
    guaranteed: Option<&Resources>,
    left: &Application,
    right: &Application,
) -> Ordering {
    let priority = right.priority.cmp(&left.priority);
    let age = left.submitted.cmp(&right.submitted);
    let by_policy = match policy {
        ApplicationSortPolicy::Fifo => age,
        ApplicationSortPolicy::Fair => {
            let share = |of: &Application| shares::shares(&of.allocated, guaranteed);
            shares::compare_shares(&share(left), &share(right))
        }
    };
    let lost = right.lacks_members.cmp(&left.lacks_members);
    let lead = if priority_first {
        priority.then(lost).then(by_policy)
    } else {
        lost.then(by_policy).then(priority)
    };
    lead.then(age).then_with(|| left.id.cmp(&right.id))
}

/// Checks that three keys are ordered antisymmetrically and transitively, and that sorting has one
/// result from every start.
fn is_a_total_order<K: Ord + Clone + std::fmt::Debug>(keys: &[K; 3]) -> Result<(), TestCaseError> {
    const STARTS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for [a, b, c] in STARTS {
        let (a, b, c) = (&keys[a], &keys[b], &keys[c]);
        prop_assert_eq!(a.cmp(b), b.cmp(a).reverse());
        prop_assert_eq!(a == b, a.cmp(b).is_eq());
        prop_assert!(!(a <= b && b <= c) || a <= c, "{:?} <= {:?} <= {:?}", a, b, c);
        prop_assert!(a != b || a.cmp(c) == b.cmp(c));
    }
    let sorted = |start: [usize; 3]| {
        let mut keys = start.map(|at| keys[at].clone());
        keys.sort();
        keys
    };
    for start in STARTS {
        prop_assert_eq!(sorted(start), sorted(STARTS[0]));
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_order_of_queues_is_total(
        queues in prop::array::uniform3(any_queue()), priority_first in any::<bool>(),
    ) {
        is_a_total_order(&queues.map(|queue| queue.key(priority_first)))?;
    }

    #[test]
    fn the_order_of_applications_is_total(
        applications in prop::array::uniform3(any_application()),
        guaranteed in prop::option::of(amounts()),
        policy in any_policy(),
        priority_first in any::<bool>(),
    ) {
        let guaranteed = guaranteed.as_ref();
        is_a_total_order(&applications.map(|app| app.key(policy, priority_first, guaranteed)))?;
    }

    #[test]
    fn the_order_of_asks_is_total(
        asks in prop::array::uniform3((0..2_i32, 0..2_i64, 0..2_u64)),
    ) {
        let key = |(priority, created, arrival)| AskKey::new(priority, created, arrival);
        is_a_total_order(&asks.map(key))?;
    }

    #[test]
    fn queues_are_ordered_as_written_wherever_something_is_written(
        left in any_queue(), right in any_queue(), priority_first in any::<bool>(),
    ) {
        let order = left.key(priority_first).cmp(&right.key(priority_first));
        let written = queues_as_written(priority_first, &left, &right);
        if written.is_ne() {
            prop_assert_eq!(order, written);
        } else if left.pending.same_amount(&right.pending) {
            prop_assert_eq!(order, left.path.cmp(&right.path));
        } else {
            prop_assert!(order.is_ne());
        }
    }

    #[test]
    fn applications_are_ordered_as_written(
        left in any_application(),
        right in any_application(),
        guaranteed in prop::option::of(amounts()),
        policy in any_policy(),
        priority_first in any::<bool>(),
    ) {
        let guaranteed = guaranteed.as_ref();
        let order = left
            .key(policy, priority_first, guaranteed)
            .cmp(&right.key(policy, priority_first, guaranteed));
        let written = applications_as_written(policy, priority_first, guaranteed, &left, &right);
        prop_assert_eq!(order, written);
    }

    #[test]
    fn what_puts_a_queue_first_is_what_the_order_says(
        left in any_queue(), right in any_queue(), priority_first in any::<bool>(),
    ) {
        let keys = [left.key(priority_first), right.key(priority_first)];
        let verdict = keys[0].verdict(&keys[1], SiblingOrder::of_queues(priority_first));
        let order = keys[0].cmp(&keys[1]);
        prop_assume!(order.is_ne());
        prop_assert_eq!(verdict.order(), order, "{:?}", verdict);
        let figures = match verdict {
            Verdict::Priority { first, second } => {
                (f64::from(first), f64::from(second)) == (f64::from(left.priority), f64::from(right.priority))
            }
            Verdict::Share { first, second } => {
                is(first.value(), left.share()) && is(second.value(), right.share())
            }
            Verdict::Pending { name, first, second } => {
                (left.pending.get(name), right.pending.get(name)) == (first, second)
            }
            Verdict::Name { .. } => left.pending.same_amount(&right.pending),
            _ => false,
        };
        prop_assert!(figures, "{:?}", verdict);
    }

    #[test]
    fn what_puts_an_application_first_is_what_the_order_says(
        left in any_application(),
        right in any_application(),
        guaranteed in prop::option::of(amounts()),
        policy in any_policy(),
        priority_first in any::<bool>(),
    ) {
        let key = |of: &Application| of.key(policy, priority_first, guaranteed.as_ref());
        let (first, second) = (key(&left), key(&right));
        let order = first.cmp(&second);
        prop_assume!(order.is_ne());
        let verdict = first.verdict(&second, SiblingOrder::of_applications(policy, priority_first));
        prop_assert_eq!(verdict.order(), order, "{:?}", verdict);
        match verdict {
            Verdict::Priority { first, second } => {
                prop_assert_eq!((first, second), (left.priority, right.priority));
            }
            Verdict::Submitted { first, second } => {
                prop_assert_eq!((first, second), (left.submitted, right.submitted));
            }
            Verdict::Usage { .. } | Verdict::BareUsage { .. } => {
                prop_assert_eq!(policy, ApplicationSortPolicy::Fair);
            }
            Verdict::LostMembers { is_first } => {
                prop_assert_eq!((is_first, !is_first), (left.lacks_members, right.lacks_members));
            }
            _ => {}
        }
    }

    #[test]
    fn pendings_are_compared_by_the_alphabetically_first_difference(
        left in amounts(), right in amounts(),
    ) {
        let mut texts: Vec<_> = left.sorted().into_iter().chain(right.sorted()).collect();
        texts.sort();
        let value = |amount: &Resources, text: &str| {
            amount.sorted().iter().find(|(name, _)| &**name == text).map_or(0, |(_, q)| *q)
        };
        let written = texts
            .iter()
            .map(|(text, _)| value(&left, text).cmp(&value(&right, text)))
            .find(|order| order.is_ne());
        prop_assert_eq!(left.alphabetical(&right), written.unwrap_or(Ordering::Equal));
    }
}
