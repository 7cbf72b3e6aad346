//! Random histories of gangs: placeholders and members in any order, with a right or wrong total,
//! releases confirmed in any order, twice, with another type or never, while asks are withdrawn,
//! sizes change, nodes are added and removed, time passes and the scheduler is restarted.
//!
//! `PROPTEST_CASES` sets the number of histories of each kind, for a long run.

use std::time::Duration;

use monoceros_proto::si::v1::TerminationType;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::histories::{
    LEAVES, USUAL, holds_true, item, key, kind_of, node, order, patience, reload, run, survives,
    tree, with_end,
};
use crate::script::{
    Amounts, FAILED, Item, NodeWords, QueueWords, Script, Show, Step, Which, Wish,
};
use crate::world::How;

/// Few, so that most items refer to an existing application.
const APPS: usize = 4;

/// The default timeout of placeholders.
const BY_DEFAULT: Duration = Duration::from_secs(15 * 60);

pub(crate) fn app() -> impl Strategy<Value = String> {
    (1..=APPS).prop_map(|number| format!("a{number}"))
}

pub(crate) fn group() -> impl Strategy<Value = String> {
    prop::sample::select(&["x", "x", "y"][..]).prop_map(str::to_owned)
}

pub(crate) fn size() -> impl Strategy<Value = Amounts> {
    let memory = prop_oneof![4 => Just(None), 1 => (1..=3_i64).prop_map(Some)];
    (1..=3_i64, memory).prop_map(|(vcore, memory)| {
        let memory = memory.map(|quantity| ("memory".to_owned(), quantity));
        Amounts([("vcore".to_owned(), vcore)].into_iter().chain(memory).collect())
    })
}

/// A node with some of every resource, so that most asks fit somewhere.
pub(crate) fn roomy(id: impl Strategy<Value = String>) -> impl Strategy<Value = NodeWords> {
    let amount = |name: &str, quantity| (name.to_owned(), quantity);
    (id, 1..=9_i64, 3..=12_i64).prop_map(move |(id, vcore, memory)| {
        let total = Amounts(vec![amount("vcore", vcore), amount("memory", memory)]);
        NodeWords { id, total: Some(total), ..NodeWords::default() }
    })
}

fn first_nodes() -> impl Strategy<Value = Vec<Item>> {
    let nodes: Vec<_> = (1..=5).map(|number| roomy(Just(format!("n{number}")))).collect();
    (nodes, 2..=5_usize).prop_map(|(nodes, n)| nodes.into_iter().take(n).map(Item::Node).collect())
}

/// Queues of any history, or queues without limits.
fn queues() -> impl Strategy<Value = Vec<QueueWords>> {
    let leaf = |path: &&str| QueueWords { path: (*path).to_owned(), ..QueueWords::default() };
    prop_oneof![2 => tree(), 3 => Just(LEAVES.iter().map(leaf).collect())]
}

fn gang_app(
    id: impl Strategy<Value = String>,
    gang: impl Strategy<Value = Amounts>,
) -> impl Strategy<Value = Item> {
    let style = prop::sample::select(&["", "Soft", "Hard"][..]);
    let timeout = prop_oneof![2 => Just(0_i64), 3 => 1..8_000_i64];
    // Some gangs are older than the scheduler, and some so old that their timeout has passed.
    let created = prop_oneof![
        8 => Just(None),
        1 => (990..1_010_i64).prop_map(|s| Some(s.to_string())),
        1 => Just(Some("long-ago".to_owned())),
    ];
    let leaf = prop::sample::select(&LEAVES[..]);
    (id, leaf, gang, style, timeout, created).prop_map(
        |(id, queue, gang, style, timeout_ms, created)| Item::App {
            id,
            queue: queue.to_owned(),
            user: "ada".to_owned(),
            groups: String::new(),
            tags: created
                .map(|at| ("yunikorn.apache.org/creationTime".to_owned(), at))
                .into_iter()
                .collect(),
            partition: String::new(),
            gang,
            style: style.to_owned(),
            timeout_ms,
            needs: Vec::new(),
        },
    )
}

/// A placeholder of the group, or a member of it.
pub(crate) fn of_group(
    app: &str,
    key: &str,
    amounts: &Amounts,
    group: &str,
    is_placeholder: bool,
) -> Wish {
    let mut wish = Wish::of(app, key, amounts.clone());
    if is_placeholder {
        wish.placeholder = Some(group.to_owned());
    } else {
        group.clone_into(&mut wish.group);
    }
    wish
}

/// A gang as an RM submits it, with members that fit their places or not, all in any order.
fn gang(id: BoxedStrategy<String>) -> BoxedStrategy<Vec<Item>> {
    let places = (1..=4_usize, size());
    let members = prop::collection::vec(prop::option::weighted(0.3, size()), 0..=5);
    let announced = prop_oneof![4 => Just(0_i64), 1 => Just(1), 1 => Just(-1)];
    (id, places, members, group(), announced, any::<bool>())
        .prop_flat_map(|(id, (n_places, size), members, group, more, is_unified)| {
            let n = i64::try_from(n_places).unwrap();
            let all = size.0.iter().map(|(name, quantity)| (name.clone(), quantity * n + more));
            let all = Amounts(all.filter(|(_, quantity)| *quantity > 0).collect());
            gang_app(Just(id), Just(all)).prop_flat_map(move |app| {
                let Item::App { id, .. } = &app else { unreachable!("it is an application") };
                let item = |wish| if is_unified { Item::Request(wish) } else { Item::Ask(wish) };
                let places = (1..=n_places)
                    .map(|number| item(of_group(id, &format!("k{number}"), &size, &group, true)));
                let members = members.iter().zip(5..).map(|(own, number)| {
                    let amounts = own.as_ref().unwrap_or(&size);
                    item(of_group(id, &format!("k{number}"), amounts, &group, false))
                });
                let asks: Vec<Item> = places.chain(members).collect();
                (Just(app.clone()), Just(asks).prop_shuffle())
            })
        })
        .prop_map(|(app, asks)| [app].into_iter().chain(asks).collect())
        .boxed()
}

/// One ask of an application that may exist.
fn wish() -> impl Strategy<Value = Wish> {
    let repeat = prop_oneof![5 => Just(1), 1 => 2..=3];
    let kind = prop_oneof![3 => Just(Some(true)), 4 => Just(Some(false)), 1 => Just(None)];
    let required = prop::option::weighted(0.08, node());
    let created = prop_oneof![12 => Just(None), 1 => (0..2_000_i64).prop_map(Some)];
    (
        app(),
        key(),
        size(),
        group(),
        repeat,
        kind,
        (prop_oneof![4 => Just(0), 1 => -2..=2], required, created),
    )
        .prop_map(|(app, key, amounts, group, repeat, kind, (priority, required, created))| {
            let wish = match kind {
                None => Wish::of(&app, &key, amounts),
                Some(is_placeholder) => of_group(&app, &key, &amounts, &group, is_placeholder),
            };
            let created = created.map(|at| at.to_string());
            Wish { repeat, priority, required, created, ..wish }
        })
}

fn kinds() -> impl Strategy<Value = i32> {
    prop_oneof![
        6 => Just(TerminationType::StoppedByRm as i32),
        2 => Just(TerminationType::Timeout as i32),
        2 => Just(TerminationType::PlaceholderReplaced as i32),
        2 => Just(TerminationType::SchedulingFailedOnRm as i32),
        1 => Just(TerminationType::PreemptedByScheduler as i32),
        1 => Just(FAILED),
        1 => Just(0),
    ]
}

pub(crate) fn one() -> BoxedStrategy<Item> {
    let unified = |wish: Wish| Wish { repeat: 1, ..wish };
    let recovered = |(wish, uuid): (Wish, String)| Wish { uuid, repeat: 1, ..wish };
    let which = prop_oneof![
        5 => key().prop_map(Which::Key),
        5 => key().prop_map(Which::Uuid),
        2 => (key(), 1..4).prop_map(|(key, number)| Which::Uuid(format!("{key}#{number}"))),
        1 => Just(Which::All),
    ];
    let stopped = TerminationType::StoppedByRm as i32;
    let other = prop_oneof![1 => Just(stopped), 1 => Just(TerminationType::Timeout as i32)];
    prop_oneof![
        30 => wish().prop_map(Item::Ask),
        14 => wish().prop_map(unified).prop_map(Item::Request),
        4 => (wish().prop_map(unified), node()).prop_map(|(wish, node)| Item::Exists(wish, node)),
        3 => ((wish(), key()).prop_map(recovered), node())
            .prop_map(|(wish, node)| Item::Exists(wish, node)),
        14 => (app(), which, kinds()).prop_map(|(app, which, kind)| Item::Release {
            app,
            which,
            kind,
        }),
        5 => (app(), prop_oneof![6 => key(), 1 => Just(String::new())], other)
            .prop_map(|(app, key, kind)| Item::Withdraw { app, key, kind }),
        3 => app().prop_map(Item::RemoveApp),
        2 => gang_app(app(), size()),
        3 => node().prop_map(Item::RemoveNode),
        6 => roomy(node()).prop_map(Item::Node),
        5 => roomy(node()).prop_map(Item::Resize),
        3 => node().prop_map(Item::Drain),
        4 => node().prop_map(Item::Undrain),
        // Any other item.
        6 => item(USUAL),
    ]
    .boxed()
}

/// A confirmation of one release.
fn confirms(waits: bool) -> impl Strategy<Value = Step> {
    let one = prop_oneof![3 => Just(0_usize), 2 => 0..6_usize].prop_map(Some);
    let kind = prop::option::weighted(0.15, kinds());
    prop_oneof![
        8 => (one, kind).prop_map(move |(which, kind)| Step::Confirm { which, kind, waits }),
        1 => (0..6_usize).prop_map(Step::ConfirmAgain),
    ]
}

fn time() -> impl Strategy<Value = Step> {
    let some = &[1_u64, 1_000, 2_500, 8_000, 31_000];
    prop_oneof![
        9 => prop::sample::select(&some[..]).prop_map(Duration::from_millis),
        1 => Just(BY_DEFAULT),
    ]
    .prop_map(Step::Wait)
}

fn send(item: Item) -> Step {
    Step::Send { items: vec![item], waits: true }
}

fn refusals() -> impl Strategy<Value = Option<Step>> {
    prop_oneof![
        2 => Just(None),
        1 => (10..60_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ]
}

/// Generators of a kind of history.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// A gang with this id, and the items sent with it.
    pub(crate) gang: fn(BoxedStrategy<String>) -> BoxedStrategy<Vec<Item>>,
    /// Any later item.
    pub(crate) one: fn() -> BoxedStrategy<Item>,
}

const OF_PLACEHOLDERS: Kind = Kind { gang, one };

impl Kind {
    fn any_gang(self) -> BoxedStrategy<Vec<Item>> {
        (self.gang)(app().boxed())
    }
}

fn steps(kind: Kind) -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        9 => kind.any_gang().prop_map(|items| items.into_iter().map(send).collect()),
        40 => (kind.one)().prop_map(|item| vec![send(item)]),
        26 => confirms(true).prop_map(|step| vec![step]),
        4 => prop::collection::vec(confirms(true), 1..6),
        9 => time().prop_map(|step| vec![step]),
        1 => reload(),
        1 => any::<u8>().prop_map(|number| vec![Step::Recover(number.into())]),
    ]
}

/// Appends steps after which all releases are confirmed and all timeouts have passed, those of
/// placeholders included: no application is in a transient state.
fn calms_down(mut steps: Vec<Step>) -> Vec<Step> {
    for seconds in [31, 901, 31] {
        steps.extend((0..40).map(|_| Step::Confirm { which: Some(0), kind: None, waits: true }));
        steps.push(Step::Wait(Duration::from_secs(seconds)));
    }
    steps.extend((0..40).map(|_| Step::Confirm { which: Some(0), kind: None, waits: true }));
    steps.push(Step::Wait(Duration::from_secs(31)));
    steps.push(Step::Show(Show::Apps));
    steps
}

pub(crate) fn history(kind: Kind) -> impl Strategy<Value = Script> {
    let first = (1..=APPS).map(|number| (kind.gang)(Just(format!("a{number}")).boxed()));
    let first: Vec<_> = first.collect();
    let steps = prop::collection::vec(steps(kind), 0..60);
    (order(), patience(), queues(), refusals(), first_nodes(), (first, steps)).prop_map(
        |(order, patience, queues, refusals, there, (first, steps))| {
            let queues = queues.into_iter().map(Step::Queue);
            let there = there.into_iter().chain(first.into_iter().flatten()).map(send);
            let head = [order]
                .into_iter()
                .chain(patience)
                .chain(queues)
                .chain(refusals)
                .chain(there)
                .collect();
            with_end(head, calms_down(steps.into_iter().flatten().collect()))
        },
    )
}

/// Messages of several items, sent without waiting; predicates change their answers, if they
/// `may_change`. At the end they accept, and no ask that fits is pending.
pub(crate) fn rush(kind: Kind, may_change: bool) -> impl Strategy<Value = Script> {
    let several = prop::collection::vec((kind.one)(), 1..6);
    let items = prop_oneof![2 => kind.any_gang(), 5 => several];
    let items = items.prop_map(|items| {
        let of = kind_of(&items[0]);
        let mut parts = vec![Vec::new()];
        let mut last = of;
        for item in items {
            let kind = kind_of(&item);
            if kind != last {
                parts.push(Vec::new());
                last = kind;
            }
            parts.last_mut().expect("there is one").push(item);
        }
        parts
    });
    let send_lines = (items, prop::bool::weighted(0.2)).prop_map(|(parts, waits)| {
        let parts = parts.into_iter().filter(|items| !items.is_empty());
        parts.map(|items| Step::Send { items, waits }).collect()
    });
    let asked = || {
        let any = || Just("*".to_owned());
        (prop_oneof![4 => key(), 1 => any()], prop_oneof![4 => node(), 1 => any()])
    };
    let mind = prop_oneof![
        2 => asked().prop_map(|(key, node)| Step::Refuse { key, node }),
        1 => asked().prop_map(|(key, node)| Step::Waver { key, node }),
        2 => asked().prop_map(|(key, node)| Step::Allow { key, node }),
    ];
    let mind = if may_change { mind.boxed() } else { Just(Step::Settle).boxed() };
    let single = prop_oneof![
        14 => prop::bool::weighted(0.3).prop_flat_map(confirms),
        3 => any::<bool>().prop_map(|waits| Step::Confirm { which: None, kind: None, waits }),
        4 => mind,
        3 => time(),
        1 => Just(Step::Settle),
        1 => any::<u8>().prop_map(|number| Step::Recover(number.into())),
    ];
    let steps =
        prop_oneof![30 => send_lines, 22 => single.prop_map(|step| vec![step]), 1 => reload()];
    let steps = prop::collection::vec(steps, 0..40);
    (queues(), first_nodes(), steps, any::<bool>()).prop_map(|(queues, there, steps, by_time)| {
        let queues = queues.into_iter().map(Step::Queue);
        let there = there.into_iter().map(|item| Step::Send { items: vec![item], waits: false });
        let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
        steps.extend([Step::Settle, Step::Allow { key: "*".to_owned(), node: "*".to_owned() }]);
        if by_time {
            // The longest wait of an ask before its next try.
            steps.push(Step::Wait(Duration::from_secs(30)));
        } else {
            // Any change of a node may change predicates.
            let touch = |number: usize| {
                let id = format!("n{number}");
                send(Item::Resize(NodeWords { id, ..NodeWords::default() }))
            };
            steps.extend((1..=6).map(touch));
        }
        steps.push(Step::Quiet);
        with_end(queues.chain(there).collect(), calms_down(steps))
    })
}

pub(crate) fn survives_at_once(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Plain, How::OneAtATime])
}

pub(crate) fn survives_watched(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Plain, How::OneAtATime, How::Watched])
}

pub(crate) fn survives_late_answers(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Later(1), How::Later(64), How::Dice(1), How::Dice(64)])
}

#[test]
fn gang_histories_equal_a_full_search() {
    run(3, history(OF_PLACEHOLDERS), holds_true);
}

#[test]
fn gangs_in_haste_break_nothing() {
    run(3, rush(OF_PLACEHOLDERS, false), survives_watched);
}

#[test]
fn gangs_survive_changing_predicates() {
    run(3, rush(OF_PLACEHOLDERS, true), survives_at_once);
}

#[test]
fn gangs_survive_late_predicates() {
    run(3, rush(OF_PLACEHOLDERS, true), survives_late_answers);
}

#[test]
fn gang_histories_survive_late_predicates() {
    run(3, history(OF_PLACEHOLDERS), survives_late_answers);
}
