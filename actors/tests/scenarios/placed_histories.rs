//! Random histories of placement rules: queues are created, filled, emptied, limited by namespaces,
//! cleaned, configured and removed, in any order.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::histories::{app, left_over, run, some_step, there, with_end};
use crate::placement::{OPEN, PROVIDED, config};
use crate::script::{Amounts, Item, Script, Show, Step};
use crate::world::{How, play};

const NAMES: [&str; 8] = [
    "root.a",
    "root.p.x",
    "root.p.y.z",
    "root.p",
    "b",
    "root.fixed.b",
    "root..",
    "root.@recovery@",
];

/// An application of any user, with any attribute that rules read.
fn placed() -> impl Strategy<Value = Item> {
    let tag = |name: &'static str, values: &'static [&'static str], share: f64| {
        let value = prop::sample::select(values);
        let pair = value.prop_map(move |value| (name.to_owned(), value.to_owned()));
        prop::option::weighted(share, pair)
    };
    let quotas: &[&str] = &[
        r#"{"resources":{"vcore":{"value":2}}}"#,
        r#"{"resources":{"vcore":{"value":5},"memory":{"value":1}}}"#,
        r#"{"resources":{"vcore":{"value":-1}}}"#,
    ];
    let tags = (
        tag("ns", &["x", "y", "root.p.x"], 0.4),
        tag("namespace.resourcequota", quotas, 0.2),
        tag("namespace.resourceguaranteed", quotas, 0.1),
        tag("namespace.resourcemaxapps", &["1", "2", "none"], 0.2),
        tag("application.create.force", &["true"], 0.15),
    );
    let user = prop::sample::select(&["ada", "bob", "x"][..]);
    let gang = prop_oneof![19 => Just(Vec::new()), 1 => Just(vec![("vcore".to_owned(), 4)])];
    (app(), prop::option::weighted(0.7, prop::sample::select(&NAMES[..])), user, tags, gang)
        .prop_map(|(id, queue, user, (a, b, c, d, e), gang)| Item::App {
            id,
            queue: queue.unwrap_or_default().to_owned(),
            user: user.to_owned(),
            groups: String::new(),
            tags: [a, b, c, d, e].into_iter().flatten().collect(),
            partition: String::new(),
            gang: Amounts(gang),
            style: String::new(),
            timeout_ms: 0,
            needs: Vec::new(),
        })
}

/// Rules and queues; each is valid alone and in any combination.
fn configuration() -> impl Strategy<Value = Step> {
    let some_of = |all: &[&'static str]| {
        prop::sample::subsequence(all.to_vec(), 0..=all.len()).prop_map(|some| some.join(", "))
    };
    let rules = some_of(&[
        "{name: provided}",
        "{name: tag, value: ns, create: true, parent: {name: fixed, value: p, create: true}}",
        "{name: user, create: true, filter: {type: deny, users: [x]}}",
        "{name: fixed, value: fixed.b, create: true}",
    ]);
    let template = prop::sample::select(
        &[
            "",
            "childtemplate: {maxapplications: 1}, ",
            "childtemplate: {resources: {max: {vcore: 3m}}, \
             properties: {application.sort.policy: fair}}, ",
        ][..],
    );
    let queues = some_of(&[
        "{name: a, resources: {max: {vcore: 4m}}}",
        "{name: p, parent: true, resources: {max: {vcore: 9m}}, \
         childtemplate: {resources: {guaranteed: {vcore: 1m}}}}",
        "{name: fixed, queues: [{name: b, maxapplications: 2}]}",
        "{name: default}",
        "{name: bob, submitacl: bob}",
    ]);
    let makes = prop::bool::weighted(0.8);
    (rules, makes, template, queues, prop::bool::weighted(0.9)).prop_map(
        |(mut rules, makes, template, queues, is_open)| {
            if makes {
                let separator = if rules.is_empty() { "" } else { ", " };
                rules = format!("{rules}{separator}{PROVIDED}");
            }
            let open = if is_open { OPEN } else { "submitacl: bob, " };
            let line = config(&rules, &format!("{open}{template}"), &queues);
            Script::parse(&line).0.remove(0)
        },
    )
}

fn placed_history() -> impl Strategy<Value = Script> {
    let send = |item| vec![Step::Send { items: vec![item], waits: true }];
    let some = prop_oneof![
        30 => some_step().prop_map(|step| vec![step]),
        12 => placed().prop_map(send),
        6 => app().prop_map(Item::RemoveApp).prop_map(send),
        2 => prop::sample::select(&[4_000_u64, 9_999, 10_001][..])
            .prop_map(|ms| vec![Step::Wait(std::time::Duration::from_millis(ms))]),
        2 => configuration().prop_map(|step| vec![step, Step::Reload]),
        1 => Just(vec![Step::Show(Show::Shapes)]),
    ];
    let first = prop::collection::vec(placed(), 4..20);
    (configuration(), there(), first, prop::collection::vec(some, 0..80)).prop_map(
        move |(configuration, there, first, steps)| {
            let first = first.into_iter().flat_map(send);
            let head = [configuration].into_iter().chain(there).chain(first).collect();
            let mut all = with_end(head, steps.into_iter().flatten().collect()).0;
            // After this wait no dynamic queue is left.
            let shown = all.pop().expect("it ends in a look at the queues");
            all.push(Step::Wait(std::time::Duration::from_secs(11)));
            all.extend([shown, Step::Show(Show::Shapes)]);
            Script(all)
        },
    )
}

fn ends_with_configured_queues(script: &Script) -> Result<(), TestCaseError> {
    let plain = play(script, How::Plain);
    prop_assert_eq!(&plain.wrong, &Vec::<String>::new());
    prop_assert!(!plain.text.contains("resync"), "a partition was lost");
    prop_assert_eq!(left_over(&plain), Vec::<&str>::new());
    let (_, end) = plain.text.rsplit_once("root is a configured parent").unwrap();
    prop_assert!(!end.contains(" is a dynamic "), "a dynamic queue is left over");
    for how in [How::OneAtATime, How::Watched, How::Later(1)] {
        prop_assert_eq!(&play(script, how), &plain, "{:?} differs from the default", how);
    }
    Ok(())
}

#[test]
fn dynamic_queue_histories_equal_a_full_search() {
    run(4, placed_history(), ends_with_configured_queues);
}
