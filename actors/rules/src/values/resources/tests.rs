//! Tests of arithmetic and comparisons, by example and against naive models. The fast paths rely on
//! sorted entries, and on both sides often having the same resource names; the models do not.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn of(entries: &[(&str, i64)]) -> Resources {
    Resources::of(entries)
}

fn limits(entries: &[(&str, i64)]) -> Limits {
    Limits::of(entries)
}

#[test]
fn sums_and_products_stop_at_the_ends() {
    let (most, least) = (of(&[("a", i64::MAX)]), of(&[("a", i64::MIN)]));
    let one = of(&[("a", 1)]);
    assert_eq!(most.plus(&one), most);
    assert_eq!(least.minus(&one), least);
    assert_eq!(least.times(-1), most);
    assert_eq!(Resources::new().minus(&least), most, "subtracting the least is no negation");
    assert_eq!(one.minus(&least), most);
    assert_eq!(of(&[("a", -1)]).minus(&least), most);
}

#[test]
fn a_difference_may_be_negative_and_need_not_have_new_names() {
    let difference = of(&[("a", 1)]).minus(&of(&[("b", 2)]));
    assert_eq!(difference, of(&[("a", 1), ("b", -2)]));
    assert_eq!(limits(&[("a", 5)]).less(&of(&[("a", 7), ("b", 1)])), limits(&[("a", -2)]));
}

#[test]
fn a_clamped_difference_stops_at_zero_for_what_is_taken() {
    let left = of(&[("a", 1), ("b", -4), ("c", 9)]);
    let right = of(&[("a", 2), ("c", 3), ("d", 1)]);
    let clamped = of(&[("a", 0), ("b", -4), ("c", 6), ("d", 0)]);
    assert_eq!(left.minus_clamped(&right), clamped);
    let below_zero = left.minus_checked(&right).unwrap_err();
    assert_eq!(below_zero.to_string(), "below zero: a, d");
    assert_eq!(below_zero.clamped, clamped);
    assert_eq!(right.minus_checked(&of(&[("a", 2)])), Ok(of(&[("a", 0), ("c", 3), ("d", 1)])));
}

#[test]
fn only_what_is_limited_is_given_back() {
    let mut headroom = limits(&[("a", 5)]);
    headroom.give(&of(&[("a", 1), ("c", 9)]));
    assert_eq!(headroom, limits(&[("a", 6)]));
}

#[test]
fn products_drop_all_names_at_factor_zero() {
    let amount = of(&[("a", 3), ("b", 0)]);
    assert_eq!(amount.times(0), Resources::new());
    assert_eq!(amount.scaled(0.0), Resources::new());
    assert_eq!(amount.times(2), of(&[("a", 6), ("b", 0)]));
}

#[test]
fn scaling_cuts_towards_zero_and_saturates() {
    for (value, ratio, expected) in [
        (10, 0.55, 5),
        (-10, 0.55, -5),
        (1, 0.999, 0),
        (0, f64::INFINITY, 0),
        (5, f64::NAN, 0),
        (5, f64::INFINITY, i64::MAX),
        (-5, f64::INFINITY, i64::MIN),
        (i64::MAX, 2.0, i64::MAX),
        (i64::MIN, -1.0, i64::MAX),
    ] {
        assert_eq!(of(&[("a", value)]).scaled(ratio), of(&[("a", expected)]), "{value} × {ratio}");
    }
}

#[test]
fn of_two_limits_the_smaller_counts_and_an_absent_one_is_unlimited() {
    let mut headroom = limits(&[("a", 5)]);
    headroom.narrow(&limits(&[("a", 7), ("b", 1)]));
    assert_eq!(headroom, limits(&[("a", 5), ("b", 1)]));
    let mut headroom = Limits::unlimited();
    headroom.narrow(&limits(&[("a", 1)]));
    assert_eq!(headroom, limits(&[("a", 1)]));
}

#[test]
fn the_larger_of_two_amounts_counts_absent_as_zero() {
    for (left, right, expected) in [
        (of(&[("a", 5)]), of(&[("a", 7), ("b", 1)]), of(&[("a", 7), ("b", 1)])),
        (of(&[("a", -5)]), Resources::new(), of(&[("a", 0)])),
        (Resources::new(), of(&[("a", -5)]), of(&[("a", 0)])),
    ] {
        let mut raised = left.clone();
        raised.raise_to(&right);
        assert_eq!(raised, expected, "{left} {right}");
    }
}

#[test]
fn gaps_are_filled_from_the_other() {
    let filled = of(&[("a", 0)]).or(&of(&[("a", 7), ("b", 1)]));
    assert_eq!(filled, of(&[("a", 0), ("b", 1)]));
}

#[test]
fn pruning_deletes_zeros_alone() {
    assert_eq!(of(&[("a", 0), ("b", -1), ("c", 1)]).pruned(), of(&[("b", -1), ("c", 1)]));
}

#[test]
fn in_an_amount_an_absent_or_negative_name_holds_nothing() {
    assert!(of(&[("a", 5)]).holds(&of(&[("b", 0)])));
    assert!(!of(&[("a", 5)]).holds(&of(&[("b", 1)])));
    assert!(of(&[("a", -5)]).holds(&of(&[("a", 0)])));
    assert!(Resources::new().holds(&Resources::new()));
}

#[test]
fn in_limits_an_absent_name_allows_everything() {
    assert!(Limits::unlimited().allows(&of(&[("a", 1)])));
    assert!(limits(&[("a", -3)]).allows(&of(&[("a", 0)])));
    assert!(!limits(&[("a", -3)]).allows(&of(&[("a", 1)])));
    let exceeded = limits(&[("a", 1)]).first_exceeded(&of(&[("a", 2)])).unwrap();
    assert_eq!(exceeded.to_string(), "a");
}

#[test]
fn equality_may_or_may_not_tell_zero_absent_and_nothing_apart() {
    let (empty, zero) = (Resources::new(), of(&[("a", 0)]));
    assert!(!equal(None, Some(&empty)) && equal(None, None) && equal(Some(&empty), Some(&zero)));
    assert!(equal_or_zero(None, Some(&zero)) && equal_or_zero(Some(&empty), None));
    assert!(!equal_or_zero(None, Some(&of(&[("a", 1)]))));
    assert!(empty != zero, "`==` tells an explicit zero from none");
}

#[test]
fn an_amount_of_zeros_is_zero_and_not_empty() {
    for (amount, is_empty, is_zero, is_positive) in [
        (Resources::new(), true, true, false),
        (of(&[("a", 0)]), false, true, false),
        (of(&[("a", 5), ("b", 0)]), false, false, true),
        (of(&[("a", 5), ("b", -1)]), false, false, false),
    ] {
        assert_eq!(amount.is_empty(), is_empty, "{amount}");
        assert_eq!(amount.is_zero(), is_zero, "{amount}");
        assert_eq!(amount.is_positive(), is_positive, "{amount}");
    }
}

#[test]
fn amounts_of_different_names_do_not_exceed_each_other() {
    let (left, right) = (of(&[("a", 10)]), of(&[("b", 1)]));
    assert!(!left.exceeds(&right) && !right.exceeds(&left));
    assert!(left.exceeds(&Resources::new()) && !left.exceeds(&left) && left.at_least(&left));
    assert!(Resources::new().exceeds(&of(&[("a", -1)])));
}

#[test]
fn limits_cover_a_usage_of_the_names_they_list() {
    for (max, usage, covers, exceeds) in [
        (limits(&[("a", 10)]), of(&[("a", 10), ("b", 99)]), true, false),
        (limits(&[("a", 10)]), of(&[("b", 5)]), true, true),
        (Limits::unlimited(), of(&[("b", 5)]), false, false),
        (Limits::unlimited(), Resources::new(), false, false),
        (limits(&[("a", 10), ("b", 0)]), Resources::new(), false, false),
        (limits(&[("a", 10), ("b", 1)]), Resources::new(), true, true),
        (limits(&[("a", 10), ("b", 4)]), of(&[("a", 10), ("b", 3)]), true, true),
        (limits(&[("a", 10), ("b", 2)]), of(&[("a", 1), ("b", 3)]), false, false),
        (limits(&[("a", 0)]), of(&[("b", 3)]), true, true),
    ] {
        assert_eq!(max.covers(&usage), covers, "{max} covers {usage}");
        assert_eq!(max.exceeds(&usage), exceeds, "{max} exceeds {usage}");
    }
}

#[test]
fn texts_are_in_order_of_the_names() {
    // Interned in another order than the alphabet's.
    let amount = of(&[("zebra", 3), ("aardvark", 1), ("memory", 2)]);
    assert_eq!(amount.to_string(), "map[aardvark:1 memory:2 zebra:3]");
    assert_eq!(Resources::new().to_string(), "map[]");
    let json = serde_json::to_string(&Limits::from(amount)).unwrap();
    assert_eq!(json, r#"{"aardvark":1,"memory":2,"zebra":3}"#);
}

#[test]
fn an_amount_that_was_written_is_read_again_with_its_zeros() {
    for entries in [&[][..], &[("zebra", 0)], &[("zebra", i64::MAX), ("aardvark", -1), ("new", 0)]]
    {
        let amount = of(entries);
        let json = serde_json::to_string(&amount).unwrap();
        assert_eq!(serde_json::from_str::<Resources>(&json).unwrap(), amount, "{json}");
    }
}

type Model = BTreeMap<&'static str, i64>;

/// Interned in an order that is not alphabetical.
const NAMES: [&str; 6] = ["vcore", "zz", "aa", "memory", "mm", "pods"];

fn models(quantities: impl Strategy<Value = i64> + Clone) -> impl Strategy<Value = Model> {
    prop::collection::btree_map(prop::sample::select(&NAMES[..]), quantities, 0..6)
}

/// Small quantities, so that sums often coincide, and the ends of the range.
fn any_quantity() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![
        4 => -3..=3_i64,
        1 => prop::sample::select(vec![i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]),
        1 => any::<i64>(),
    ]
}

fn built(model: &Model) -> Resources {
    of(&model.iter().map(|(name, quantity)| (*name, *quantity)).collect::<Vec<_>>())
}

fn names_of(left: &Model, right: &Model) -> BTreeSet<&'static str> {
    left.keys().chain(right.keys()).copied().collect()
}

fn at(model: &Model, name: &str) -> i64 {
    model.get(name).copied().unwrap_or(0)
}

/// Applies an operation to every name of either side, saturating, in wide numbers.
fn each(left: &Model, right: &Model, op: impl Fn(i128, i128) -> i128) -> Resources {
    let saturated =
        |wide: i128| i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX });
    let entry =
        |name: &'static str| (name, saturated(op(at(left, name).into(), at(right, name).into())));
    of(&names_of(left, right).into_iter().map(entry).collect::<Vec<_>>())
}

fn in_order(amount: &Resources) -> bool {
    amount.0.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn sums_and_differences_agree_with_wide_numbers(
        left in models(any_quantity()),
        right in models(any_quantity()),
    ) {
        let (l, r) = (built(&left), built(&right));
        prop_assert_eq!(l.plus(&r), each(&left, &right, |l, r| l + r));
        prop_assert_eq!(l.minus(&r), each(&left, &right, |l, r| l - r));
        let mut raised = l.clone();
        raised.raise_to(&r);
        prop_assert_eq!(raised, each(&left, &right, i128::max));
        let mut lowered = l.clone();
        lowered.lower_to(&r);
        prop_assert_eq!(lowered, each(&left, &right, i128::min).pruned());
        prop_assert_eq!(l.plus(&r), r.plus(&l));
    }

    #[test]
    fn every_result_is_in_order_of_its_names(
        left in models(any_quantity()),
        right in models(any_quantity()),
    ) {
        let (l, r) = (built(&left), built(&right));
        let mut narrowed = Limits::from(l.clone());
        narrowed.narrow(&Limits::from(r.clone()));
        for amount in [
            l.plus(&r), l.minus(&r), l.minus_clamped(&r), l.or(&r), l.times(3), l.scaled(0.5),
            l.clone().pruned(), narrowed.as_resources(),
        ] {
            prop_assert!(in_order(&amount), "{}", amount);
        }
    }

    #[test]
    fn what_is_added_and_taken_away_again_changes_nothing(
        left in models(-1_000_000..1_000_000_i64),
        right in models(-1_000_000..1_000_000_i64),
    ) {
        let (l, r) = (built(&left), built(&right));
        prop_assert!(l.plus(&r).minus(&r).same_amount(&l));
        let mut headroom = Limits::from(l.clone());
        headroom.take(&r);
        headroom.give(&r);
        prop_assert_eq!(headroom, Limits::from(l));
    }

    #[test]
    fn fitting_agrees_with_a_naive_model(
        larger in models(any_quantity()),
        smaller in models(any_quantity()),
    ) {
        let (l, s) = (built(&larger), built(&smaller));
        let holds = smaller.iter().all(|(name, wanted)| *wanted <= at(&larger, name).max(0));
        prop_assert_eq!(l.holds(&s), holds);
        let limits = Limits::from(l);
        let exceeded: BTreeSet<&str> = smaller
            .iter()
            .filter(|(name, wanted)| larger.get(*name).is_some_and(|limit| **wanted > *limit.max(&0)))
            .map(|(name, _)| *name)
            .collect();
        prop_assert_eq!(limits.allows(&s), exceeded.is_empty());
        let first = limits.first_exceeded(&s).map(Name::text);
        prop_assert!(first.is_none_or(|name| exceeded.contains(&*name)));
    }

    #[test]
    fn comparisons_agree_with_a_naive_model(
        left in models(-2..=2_i64),
        right in models(-2..=2_i64),
    ) {
        let (l, r) = (built(&left), built(&right));
        let names = names_of(&left, &right);
        let at_least = names.iter().all(|name| at(&left, name) >= at(&right, name));
        let same = names.iter().all(|name| at(&left, name) == at(&right, name));
        prop_assert_eq!(l.at_least(&r), at_least);
        prop_assert_eq!(l.same_amount(&r), same);
        prop_assert_eq!(l.exceeds(&r), at_least && !same);
        prop_assert_eq!(l.clone().pruned() == r.clone().pruned(), same);
        prop_assert_eq!(l == r, left == right);
        let max = Limits::from(l);
        prop_assert!(max.covers(&r) || !max.exceeds(&r), "more includes enough");
    }

    #[test]
    fn narrowing_takes_both_limits_in_any_order(
        a in models(any_quantity()),
        b in models(any_quantity()),
        c in models(any_quantity()),
        ask in models(any_quantity()),
    ) {
        let [a, b, c] = [&a, &b, &c].map(|model| Limits::from(built(model)));
        let ask = built(&ask);
        let both = |left: &Limits, right: &Limits| {
            let mut narrowed = left.clone();
            narrowed.narrow(right);
            narrowed
        };
        prop_assert_eq!(both(&a, &b), both(&b, &a));
        prop_assert_eq!(both(&a, &a), a.clone());
        prop_assert_eq!(both(&both(&a, &b), &c), both(&a, &both(&b, &c)));
        prop_assert_eq!(both(&a, &Limits::unlimited()), a.clone());
        prop_assert_eq!(both(&a, &b).allows(&ask), a.allows(&ask) && b.allows(&ask));
    }
}

#[test]
fn narrowing_to_the_rest_is_narrowing_by_what_is_left_whatever_the_names() {
    let all: [&[(&str, i64)]; 5] = [
        &[],
        &[("memory", 4)],
        &[("vcore", 3), ("gpu", 0)],
        &[("memory", 7), ("vcore", 1)],
        &[("gpu", 2), ("memory", -1), ("vcore", 9), ("pods", 5), ("disk", 6)],
    ];
    for headroom in all {
        for max in all {
            for used in all {
                let (max, used) = (Limits::of(max), Resources::of(used));
                let mut expected = Limits::of(headroom);
                expected.narrow(&max.less(&used));
                let mut narrowed = Limits::of(headroom);
                narrowed.narrow_to_rest(&max, &used);
                assert_eq!(narrowed, expected, "{headroom:?} by {max} less {used}");
            }
        }
    }
}
