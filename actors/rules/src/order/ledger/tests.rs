//! Tests of a queue's accounts, by example and against their definition: headroom that is one unit
//! too large would break a maximum without any error.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

type Entries<'a> = &'a [(&'a str, i64)];

fn resources(entries: Entries) -> Resources {
    Resources::of(entries)
}

fn limits(entries: Entries) -> Limits {
    Limits::of(entries)
}

/// Returns a ledger with a maximum (`None` if `max` is empty) and some usage.
fn ledger(max: Entries, allocated: Entries) -> QueueLedger {
    let max = (!max.is_empty()).then(|| limits(max));
    let mut ledger = QueueLedger { max, ..QueueLedger::default() };
    apply(&mut ledger, &placed(allocated));
    ledger
}

fn apply(ledger: &mut QueueLedger, delta: &LedgerDelta) {
    assert_eq!(ledger.apply(delta), None, "nothing is cut");
}

fn placed(allocated: Entries) -> LedgerDelta {
    LedgerDelta { allocated: resources(allocated), ..LedgerDelta::default() }
}

fn asked(pending: Entries) -> LedgerDelta {
    LedgerDelta { pending: resources(pending).into(), ..LedgerDelta::default() }
}

fn started(running: i64) -> LedgerDelta {
    LedgerDelta { running, ..LedgerDelta::default() }
}

/// Returns the headroom of the last queue of a chain that begins at root.
fn headroom_of(chain: &[QueueLedger]) -> Limits {
    chain.iter().fold(Limits::unlimited(), |parent, ledger| ledger.headroom(&parent))
}

#[test]
fn headroom_is_what_every_level_has_left() {
    let root = ledger(&[("first", 20), ("second", 10)], &[("first", 10), ("second", 6)]);
    let parent = ledger(&[("first", 20), ("second", 8)], &[("first", 10), ("second", 6)]);
    let leaf = ledger(&[], &[("first", 5), ("second", 3)]);
    let chain = [root, parent, leaf];
    assert_eq!(headroom_of(&chain[..1]), limits(&[("first", 10), ("second", 4)]));
    assert_eq!(headroom_of(&chain[..2]), limits(&[("first", 10), ("second", 2)]));
    assert_eq!(headroom_of(&chain), limits(&[("first", 10), ("second", 2)]));
    let [root, parent, leaf] = chain;
    assert_eq!(
        headroom_of(&[parent, leaf]),
        limits(&[("first", 10), ("second", 2)]),
        "max headroom"
    );
    let no_nodes = QueueLedger { max: None, ..root };
    assert!(headroom_of(&[no_nodes]).is_unlimited(), "root limits nothing of its own");
}

#[test]
fn headroom_unites_the_names_that_any_level_limits() {
    let root = ledger(&[], &[("a", 5), ("b", 5), ("c", 10), ("d", 5)]);
    let parent = ledger(&[("a", 20), ("b", 10)], &[("a", 5), ("b", 5), ("c", 10), ("d", 5)]);
    let leaf = ledger(&[("a", 10), ("c", 10)], &[("a", 5), ("b", 5), ("c", 5)]);
    assert_eq!(headroom_of(&[root, parent, leaf]), limits(&[("a", 5), ("b", 5), ("c", 5)]));
}

#[test]
fn headroom_is_negative_in_what_a_queue_is_over() {
    let over = ledger(&[("a", 3), ("b", 4)], &[("a", 5)]);
    let headroom = headroom_of(&[over]);
    assert_eq!(headroom, limits(&[("a", -2), ("b", 4)]));
    assert!(headroom.allows(&resources(&[("a", 0), ("b", 4)])));
    assert!(!headroom.allows(&resources(&[("a", 1)])));
}

#[test]
fn an_effective_maximum_is_the_least_of_all_levels() {
    let root = limits(&[("first", 10), ("second", 5)]);
    let parent = limits(&[("third", 2)]);
    let leaf = limits(&[("first", 5), ("second", 10)]);
    let below = |root: Option<&Limits>| {
        effective_max(effective_max(root, Some(&parent)).as_ref(), Some(&leaf))
    };
    let effective = limits(&[("first", 5), ("second", 5), ("third", 2)]);
    assert_eq!(below(Some(&root)), Some(effective));
    let configured = limits(&[("first", 5), ("second", 10), ("third", 2)]);
    assert_eq!(below(None), Some(configured), "configured: root does not count");
    assert_eq!(effective_max(Some(&root), None), Some(root));
    assert_eq!(effective_max(None, None), None);
}

#[test]
fn in_a_fair_maximum_the_own_value_wins() {
    let cases: &[(Option<Entries>, Option<Entries>, Option<Entries>)] = &[
        (Some(&[("vcore", 1000)]), Some(&[("vcore", 1200)]), Some(&[("vcore", 1200)])),
        (Some(&[("m", 1000)]), Some(&[("gpu", 100)]), Some(&[("m", 1000), ("gpu", 100)])),
        (Some(&[("m", 1000)]), Some(&[("m", 0), ("v", 1)]), Some(&[("m", 0), ("v", 1)])),
        (Some(&[("m", 1000)]), None, Some(&[("m", 1000)])),
        (Some(&[("m", 1000)]), Some(&[]), Some(&[("m", 1000)])),
        (Some(&[]), Some(&[("m", 5)]), Some(&[])),
        (None, Some(&[("m", 5)]), None),
        (None, None, None),
    ];
    for (parent, own, expected) in cases {
        let fair = fair_max(parent.map(limits).as_ref(), own.map(limits).as_ref());
        assert_eq!(fair, expected.map(limits), "{parent:?} {own:?}");
    }
}

#[test]
fn a_quota_is_checked_in_the_names_that_are_asked() {
    let cases: &[(Entries, Entries, Entries, bool)] = &[
        (&[("a", 1)], &[("a", 1)], &[("b", 1)], true),
        (&[("a", 1)], &[("a", 1)], &[("a", 1)], false),
        (&[("a", 1), ("b", 0)], &[("b", 1)], &[("a", 1)], true),
        (&[("a", 1), ("b", 0)], &[("b", 1)], &[("a", 1), ("b", 0)], true),
        (&[("a", 1), ("b", 0)], &[], &[("b", 1)], false),
        (&[("zz", 1), ("aa", 1)], &[], &[("zz", 2), ("aa", 2)], false),
        (&[], &[("a", 5)], &[("a", i64::MAX)], true),
    ];
    for (max, used, ask, expected) in cases {
        let fits = headroom_of(&[ledger(max, used)]).allows(&resources(ask));
        assert_eq!(fits, *expected, "max {max:?} used {used:?} ask {ask:?}");
    }
}

#[test]
fn a_decrease_below_zero_is_cut_and_reported() {
    let mut queue = ledger(&[], &[("a", 2)]);
    apply(&mut queue, &asked(&[("a", 5), ("b", 1)]));
    let cut = queue.apply(&asked(&[("a", -7), ("b", -1), ("c", -3)])).unwrap();
    assert_eq!(cut.pending, resources(&[("a", 2), ("c", 3)]));
    assert_eq!(
        cut.to_string(),
        "allocated map[], pending map[a:2 c:3], preempting map[], running 0, starting 0"
    );
    assert!(queue.pending().is_empty(), "no entry of zero stays");
    assert_eq!(queue.allocated(), &resources(&[("a", 2)]), "only pending was concerned");

    let down = LedgerDelta {
        preempting: resources(&[("a", -1)]),
        allocated: resources(&[("a", -3)]),
        running: -2,
        ..LedgerDelta::default()
    };
    apply(&mut queue, &started(1));
    let cut = queue.apply(&down).unwrap();
    assert_eq!((cut.preempting, cut.allocated), (resources(&[("a", 1)]), resources(&[("a", 1)])));
    assert_eq!((cut.running, queue.running()), (1, 0));
    assert_eq!(queue, QueueLedger::default());
    let least = queue.apply(&asked(&[("a", i64::MIN)])).unwrap();
    assert_eq!(least.pending, resources(&[("a", i64::MAX)]));
    assert_eq!(queue, QueueLedger::default());
}

#[test]
fn only_positive_amounts_are_stored() {
    assert_eq!(stored_limits(&resources(&[("memory", 0)])), None, "no quota at all");
    assert_eq!(stored_limits(&resources(&[])), None);
    assert_eq!(stored_limits(&resources(&[("a", -1), ("b", 2)])), None);
    let kept = resources(&[("memory", 0), ("vcore", 10)]);
    assert_eq!(stored_limits(&kept), Some(limits(&[("memory", 0), ("vcore", 10)])));
    assert_eq!(stored_guaranteed(&kept), Some(kept.clone()));
    assert_eq!(stored_guaranteed(&resources(&[("memory", 0)])), None);
}

/// An application whose placement waits for its predicate counts although it is Accepted; there is
/// no second check when it runs.
#[test]
fn an_application_that_is_about_to_run_counts_on_every_level() {
    let mut root = QueueLedger { max_running: 2, ..QueueLedger::default() };
    let mut parent = QueueLedger { max_running: 1, ..QueueLedger::default() };
    let may_start = |levels: [&QueueLedger; 2]| levels.iter().all(|it| it.has_room_to_run());
    assert!(may_start([&root, &parent]));
    let begins = LedgerDelta { starting: 1, ..LedgerDelta::default() };
    let runs = LedgerDelta { starting: -1, running: 1, ..LedgerDelta::default() };
    for delta in [begins, runs] {
        for level in [&mut root, &mut parent] {
            apply(level, &delta);
        }
        assert!(root.has_room_to_run() && !parent.has_room_to_run(), "{delta:?}");
    }
    assert_eq!((parent.running(), parent.starting()), (1, 0));
    parent.max_running = 2;
    assert!(may_start([&root, &parent]));
}

#[test]
fn the_running_count_is_not_capped() {
    let mut queue = QueueLedger { max_running: 2, ..QueueLedger::default() };
    apply(&mut queue, &started(3));
    assert_eq!(queue.running(), 3);
    apply(&mut queue, &started(-1));
    assert_eq!(queue.running(), 2);
    assert!(!queue.has_room_to_run());
    queue.max_running = 0;
    assert!(queue.has_room_to_run(), "zero is unlimited");
}

#[test]
fn a_delta_of_zeros_is_nothing() {
    assert!(placed(&[("a", 0)]).is_nothing() && LedgerDelta::default().is_nothing());
    assert!(!placed(&[("a", 3)]).is_nothing());
    assert!(!started(1).is_nothing());
}

const NAMES: [&str; 5] = ["memory", "vcore", "aa.example/x", "zz.example/y", "nn"];

fn amounts() -> impl Strategy<Value = Resources> {
    prop::collection::vec((select(NAMES.to_vec()), 0..9_i64), 0..4)
        .prop_map(|entries| Resources::of(&entries))
}

fn charges() -> impl Strategy<Value = LedgerDelta> {
    (amounts(), amounts(), amounts(), 0..3_i64, 0..3_i64).prop_map(
        |(allocated, pending, preempting, running, starting)| LedgerDelta {
            allocated,
            pending: pending.into(),
            preempting,
            running,
            starting,
        },
    )
}

fn ledgers() -> impl Strategy<Value = QueueLedger> {
    (prop::option::of(amounts()), charges()).prop_map(|(max, charge)| {
        let max = max.and_then(|max| stored_limits(&max));
        let mut ledger = QueueLedger { max, ..QueueLedger::default() };
        apply(&mut ledger, &charge);
        ledger
    })
}

fn is_tidy(amount: &Resources) -> bool {
    amount.entries().all(|(_, quantity)| quantity > 0)
}

type Sparse = BTreeMap<Arc<str>, i64>;

fn sparse(sorted: Vec<(Arc<str>, i64)>) -> Sparse {
    sorted.into_iter().collect()
}

/// The definition of headroom, over maps by text: per name, the least headroom of the queue and of
/// all queues above it. `None` is unlimited.
fn headroom_as_written(parent: Option<&Sparse>, queue: &QueueLedger) -> Option<Sparse> {
    let Some(max) = &queue.max else { return parent.cloned() };
    let used = sparse(queue.allocated().sorted());
    let mut left = sparse(max.sorted());
    for (name, limit) in &mut left {
        *limit -= used.get(name).unwrap_or(&0);
    }
    for (name, above) in parent.into_iter().flatten() {
        let here = left.entry(Arc::clone(name)).or_insert(*above);
        *here = (*here).min(*above);
    }
    Some(left)
}

/// The definition of the quota check, for a queue other than root: a requested name would be above
/// the maximum.
fn is_refused_as_written(queue: &QueueLedger, ask: &Resources) -> bool {
    let Some(max) = &queue.max else { return false };
    let (max, used) = (sparse(max.sorted()), sparse(queue.allocated().sorted()));
    let above = |(name, wanted): (Arc<str>, i64)| {
        let need = wanted + used.get(&name).unwrap_or(&0);
        wanted > 0 && max.get(&name).is_some_and(|most| need > *most)
    };
    ask.sorted().into_iter().any(above)
}

proptest! {
    #[test]
    fn charging_and_refunding_leaves_nothing_behind(
        start in ledgers(),
        charges in prop::collection::vec(charges(), 1..6),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let mut ledger = start.clone();
        let mut to_charge = charges;
        let mut to_refund: Vec<LedgerDelta> = Vec::new();
        // Any order in which each refund comes after its charge.
        for pick in picks {
            let n_choices = to_charge.len() + to_refund.len();
            if n_choices == 0 {
                break;
            }
            let at = pick.index(n_choices);
            let delta = if at < to_charge.len() {
                let charge = to_charge.swap_remove(at);
                to_refund.push(charge.clone());
                charge
            } else {
                to_refund.swap_remove(at - to_charge.len()).reversed()
            };
            prop_assert_eq!(ledger.apply(&delta), None);
            for total in [ledger.allocated(), ledger.pending().shown(), ledger.preempting()] {
                prop_assert!(is_tidy(total), "{}", total);
            }
        }
        prop_assert!(to_charge.is_empty() && to_refund.is_empty());
        prop_assert_eq!(ledger, start);
    }

    #[test]
    fn totals_are_never_negative_and_a_cut_is_what_was_missing(
        start in ledgers(), charge in charges(),
    ) {
        let mut ledger = start.clone();
        let cut = ledger.apply(&charge.reversed()).unwrap_or_default();
        prop_assert!(is_tidy(ledger.allocated()) && is_tidy(ledger.pending().shown()));
        prop_assert!(is_tidy(ledger.preempting()));
        let expected = start.pending().since(&charge.pending);
        prop_assert_eq!(ledger.pending().since(&cut.pending.clone().into()), expected);
        prop_assert_eq!(ledger.running() + charge.running.unsigned_abs(), start.running() + cut.running);
    }

    /// If a leaf can subtract an amount, every queue above it can, too.
    #[test]
    fn what_a_leaf_can_give_back_every_queue_above_can(
        steps in prop::collection::vec((0..3_usize, amounts(), any::<bool>()), 1..12),
    ) {
        // Leaves 0 and 1 have a parent of their own, leaf 2 is directly below root.
        let mut leaves: [QueueLedger; 3] = Default::default();
        let (mut parent, mut root) = (QueueLedger::default(), QueueLedger::default());
        for (at, amount, is_release) in steps {
            let has_it = leaves[at].allocated().holds(&amount);
            let charge = LedgerDelta { allocated: amount, ..LedgerDelta::default() };
            let delta = match is_release {
                true if has_it => charge.reversed(),
                // The leaf uses less than that: there is no allocation to release.
                true => continue,
                false => charge,
            };
            prop_assert_eq!(leaves[at].apply(&delta), None);
            if at < 2 {
                prop_assert_eq!(parent.apply(&delta), None);
            }
            prop_assert_eq!(root.apply(&delta), None);
        }
        let mut sum = leaves[2].allocated().clone();
        sum.add(parent.allocated());
        prop_assert!(root.allocated().same_amount(&sum));
    }

    #[test]
    fn headroom_of_a_chain_is_as_written(chain in prop::collection::vec(ledgers(), 1..5)) {
        let mut in_place = Limits::unlimited();
        let mut written: Option<Sparse> = None;
        for queue in &chain {
            queue.narrow(&mut in_place);
            written = headroom_as_written(written.as_ref(), queue);
        }
        prop_assert_eq!(&in_place, &headroom_of(&chain));
        prop_assert_eq!(sparse(in_place.sorted()), written.unwrap_or_default());
    }

    #[test]
    fn an_ask_fits_the_headroom_when_no_quota_refuses_it(
        chain in prop::collection::vec(ledgers(), 1..5), ask in amounts(),
    ) {
        let fits = headroom_of(&chain).allows(&ask);
        let refused = chain.iter().any(|queue| is_refused_as_written(queue, &ask));
        prop_assert_eq!(fits, !refused);
    }
}

#[test]
fn what_one_sum_is_more_than_an_earlier_one_has_no_zeros() {
    let before = LedgerDelta { running: 2, ..placed(&[("a", 5), ("b", 1)]) };
    let after = LedgerDelta {
        allocated: resources(&[("a", 5), ("b", 3)]),
        pending: resources(&[("a", -4)]).into(),
        running: 1,
        starting: 1,
        ..LedgerDelta::default()
    };
    let more = LedgerDelta {
        allocated: resources(&[("b", 2)]),
        pending: resources(&[("a", -4)]).into(),
        running: -1,
        starting: 1,
        ..LedgerDelta::default()
    };
    assert_eq!(after.since(&before), more);
    assert_eq!(after.since(&after), LedgerDelta::default());
}

#[test]
fn root_limits_nothing_while_all_nodes_can_be_counted_beside_its_use() {
    let mut root = QueueLedger::default();
    assert!(root.apply(&placed(&[("gpu", i64::MAX - 3), ("vcore", 7)])).is_none());
    let narrowed = |capacity| {
        let mut headroom = Limits::of(&[("vcore", 5)]);
        root.narrow_to_countable(&resources(&[("gpu", capacity), ("vcore", 9)]), &mut headroom);
        headroom
    };
    assert_eq!(narrowed(3), Limits::of(&[("vcore", 5)]));
    assert_eq!(narrowed(4), Limits::of(&[("gpu", 3), ("vcore", 5)]));
    assert_eq!(root.countable_max(&resources(&[("gpu", 4)])), Limits::of(&[("gpu", i64::MAX)]));
}

#[test]
fn pending_beyond_a_quantity_is_exact() {
    let mut queue = QueueLedger::default();
    let most = asked(&[("gpu", i64::MAX)]);
    for _ in 0..3 {
        assert!(queue.apply(&most).is_none());
    }
    assert_eq!(queue.pending().shown(), &resources(&[("gpu", i64::MAX)]));
    assert!(queue.apply(&asked(&[("gpu", 1)])).is_none());
    for _ in 0..3 {
        assert!(queue.apply(&most.reversed()).is_none());
    }
    assert_eq!(queue.pending().shown(), &resources(&[("gpu", 1)]));
}
