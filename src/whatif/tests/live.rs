//! What the answer predicts is what the scheduler then does.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::durations::Draw;
use super::super::history::{Eviction, History, Start};
use super::super::replay::{Course, Replay, replay};
use super::world::{Ask, Step, World};
use crate::replay::virtual_time::in_virtual_time;

const QUEUES: [&str; 4] = [
    "{name: a}, {name: b}",
    "{name: a, resources: {guaranteed: {vcore: 4}}}, {name: b}",
    "{name: a, resources: {guaranteed: {vcore: 3}}}, {name: b, resources: {max: {vcore: 6}}}",
    "{name: a, properties: {application.sort.policy: fair}}, {name: b, resources: {max: {vcore: 5}}}",
];
const APPLICATIONS: [&str; 5] = ["p", "q", "r", "s", "t"];
/// How far the scheduler is followed, in milliseconds.
const HORIZON: i64 = 4 * 3_600_000;

/// The number of random states; few unless the environment asks for more.
fn cases() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 12;
    }
    config
}

fn random_ask() -> impl Strategy<Value = Ask> {
    let limit = prop::option::weighted(0.8, 1..4_000_u64);
    let size = (1..4_i64, 1..4_i32, -1..2_i32);
    (0..APPLICATIONS.len(), size, limit, any::<bool>()).prop_map(
        |(application, (cores, count, priority), limit, preempts)| Ask {
            application: APPLICATIONS[application].to_owned(),
            key: String::new(),
            cores,
            count,
            priority,
            limit,
            preempts,
            node: None,
        },
    )
}

/// A script: nodes and applications first, then requests, ends and time.
fn script() -> impl Strategy<Value = Vec<Step>> {
    let node = prop::collection::vec(2..9_i64, 1..4);
    let step = prop_oneof![
        6 => random_ask().prop_map(Step::Ask),
        1 => (0..APPLICATIONS.len(), 0..30_usize).prop_map(|(application, key)| {
            Step::End(APPLICATIONS[application].to_owned(), format!("k{key}"))
        }),
        2 => (1..60_u64).prop_map(Step::Wait),
    ];
    (node, prop::collection::vec(step, 1..40)).prop_map(|(nodes, mut steps)| {
        let mut number = 0;
        for step in &mut steps {
            if let Step::Ask(ask) = step {
                ask.key = format!("k{number}");
                number += 1;
            }
        }
        let ids = ["n1", "n2", "n3"].into_iter();
        let nodes = ids.zip(nodes).map(|(id, cores)| Step::Node(id, cores));
        let applications = APPLICATIONS.iter().enumerate().map(|(number, id)| {
            let (leaf, user) = (["a", "b"][number % 2], ["ada", "bob"][number / 3]);
            Step::Application((*id).to_owned(), leaf, user)
        });
        nodes.chain(applications).chain(steps).collect()
    })
}

fn course() -> Course {
    Course {
        builder: monoceros_actors::Scheduler::builder(),
        predicates: None,
        horizon: HORIZON,
        leave_after: 1_000,
        draw: Draw::Median,
        explains: true,
        cancelled: Arc::default(),
    }
}

/// Returns what the scheduler does after a script, and what a replay from its image predicts.
fn done_and_predicted(queues: &'static str, steps: Vec<Step>) -> (History, History) {
    let both = in_virtual_time(async move {
        let world = World::start(queues).await;
        world.play(&steps).await;
        let image = world.image().await;
        world.recorder.take();
        let mut live = Replay::new(world.scheduler, &image, None, &course());
        live.recorder = world.recorder;
        live.settle().await?;
        live.run().await?;
        let done = live.finish().await?;
        Ok((done, replay(image, None, course()).await?))
    });
    both.unwrap()
}

fn rows(history: &History) -> (Vec<Start>, Vec<String>) {
    let row = |eviction: &Eviction| format!("{eviction:?}");
    (history.starts.clone(), history.evictions.iter().map(row).collect())
}

proptest! {
    #![proptest_config(cases())]

    /// Order, times and waits of all starts, and all evictions.
    #[test]
    fn the_replay_does_what_the_scheduler_does(queues in 0..QUEUES.len(), steps in script()) {
        let (done, predicted) = done_and_predicted(QUEUES[queues], steps);
        prop_assert_eq!(rows(&done), rows(&predicted));
        prop_assert_eq!(&done.held, &predicted.held);
        let waiting = |history: &History| {
            history.works.iter().map(|work| work.waiting).collect::<Vec<_>>()
        };
        prop_assert_eq!(waiting(&done), waiting(&predicted));
    }
}
