//! What planning costs where a queue takes back what it is guaranteed: 500 nodes, 4,000 allocations
//! that run, and 4,000 asks that wait. Run it with `cargo bench -p monoceros-rules --bench preemption`.

use std::sync::Arc;

use divan::{Bencher, black_box};
use monoceros_rules::allocations::{Allocation, AllocationTable};
use monoceros_rules::decide::preemption::{
    Answer, AnyNode, ApplicationFacts, Claimed, Demand, Inquiry, Next, NodeFacts, Planner,
    QueueFacts, Survey,
};
use monoceros_rules::queues::QueueSettings;
use monoceros_rules::specs::ask::{AskSpec, Preemption};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::{Limits, Resources};

const NODES: u32 = 500;
const ON_NODE: u32 = 8;
const ASKS: i64 = (NODES * ON_NODE) as i64;

fn main() {
    divan::main();
}

fn gpus(n: i64) -> Resources {
    Resources::of(&[("nvidia.com/gpu", n), ("vcore", 1_000 * n), ("memory", 4_096 * n)])
}

fn queue(path: &str, parent: Option<usize>, guaranteed: Option<i64>, used: i64) -> QueueFacts {
    QueueFacts {
        path: Arc::from(path),
        parent,
        guaranteed: guaranteed.map(gpus),
        max: None,
        capacity: parent.is_none().then(|| Limits::from(gpus(ASKS))),
        allocated: gpus(used),
        preempting: Resources::new(),
        nominated: Resources::new(),
        settings: QueueSettings::default(),
    }
}

/// What runs: applications of ten, one allocation of one GPU each.
struct Cluster {
    queues: Vec<QueueFacts>,
    table: AllocationTable,
}

fn cluster(guaranteed: i64, preemption: Preemption, priority: i32) -> Cluster {
    let mut table = AllocationTable::new();
    for number in 0..NODES * ON_NODE {
        let spec = AskSpec {
            preemption,
            priority,
            ..AskSpec::new(format!("allocation-{number:05}"), gpus(1))
        };
        let application = ApplicationSlot::at(1 + number / 10);
        let node = NodeSlot::at(number / ON_NODE);
        let created_ns = i64::from(number % 97);
        table.insert(Allocation::new(application, Arc::new(spec), node, created_ns, created_ns));
    }
    let queues = vec![
        queue("root", None, None, ASKS),
        queue("root.taking", Some(0), Some(guaranteed), 0),
        queue("root.losing", Some(0), Some(ASKS - guaranteed), ASKS),
    ];
    Cluster { queues, table }
}

fn surveyed(cluster: &Cluster, size: i64) -> Planner {
    let preemptor = Demand::ask(ApplicationSlot::at(0), 1, 0, gpus(size));
    let mut survey = Survey::begin(&cluster.queues, preemptor, 0).expect("there is a guarantee");
    for number in 0..NODES {
        survey.node(&NodeFacts {
            slot: NodeSlot::at(number),
            total: gpus(i64::from(ON_NODE)),
            available: Resources::new(),
            is_open: true,
            claim: Claimed::Free,
        });
    }
    for number in 0..NODES * ON_NODE / 10 {
        survey.application(&ApplicationFacts::of(ApplicationSlot::at(1 + number), 2));
    }
    for (id, allocation) in cluster.table.iter() {
        survey.allocation(id, allocation);
    }
    survey.finish()
}

/// Collecting and sorting, once for all asks that are alike.
#[divan::bench]
fn survey(bencher: Bencher) {
    let cluster = cluster(ASKS, Preemption::Itself, 0);
    bencher.bench_local(|| surveyed(black_box(&cluster), 1));
}

/// One survey and the plans of as many asks as there are nodes: each reserves one.
fn reclaim(bencher: Bencher, guaranteed: i64, preemption: Preemption, size: i64) {
    let cluster = cluster(guaranteed, preemption, 0);
    bencher.bench_local(|| {
        let mut planner = surveyed(&cluster, size);
        let mut victims = 0;
        while let Ok(plan) = planner.plan(&AnyNode) {
            victims += plan.victims.len();
            planner.commit(&plan);
        }
        assert!(victims > 0);
        victims
    });
}

/// 500 plans of one victim each.
#[divan::bench]
fn plan_500_small(bencher: Bencher) {
    reclaim(bencher, ASKS, Preemption::Itself, 1);
}

/// 500 plans of eight victims each.
#[divan::bench]
fn plan_500_whole_nodes(bencher: Bencher) {
    reclaim(bencher, ASKS, Preemption::Itself, 8);
}

/// The same until the guarantee of the losing queue is reached.
#[divan::bench]
fn plan_250_whole_nodes_up_to_the_guarantee(bencher: Bencher) {
    reclaim(bencher, ASKS / 2, Preemption::Itself, 8);
}

/// Everybody asked not to be preempted.
#[divan::bench]
fn plan_500_of_those_who_opted_out(bencher: Bencher) {
    reclaim(bencher, ASKS, Preemption::Neither, 1);
}

/// One after another, as their RM confirms at once: each ask is placed before the next is planned.
/// 4,000 surveys would be too dear, so a new survey is made for each 500.
#[divan::bench]
fn plan_4000_small_on_8_surveys(bencher: Bencher) {
    bencher.with_inputs(|| cluster(ASKS, Preemption::Itself, 0)).bench_local_values(
        |mut cluster| {
            let mut n_plans = 0;
            while let Ok(victims) = some_plans(&cluster) {
                n_plans += victims.len();
                for id in &victims {
                    cluster.table.remove(*id);
                }
                let more = gpus(i64::try_from(victims.len()).expect("few"));
                cluster.queues[2].allocated.subtract(&more);
                cluster.queues[1].allocated.add(&more);
            }
            assert_eq!(n_plans, 4_000);
        },
    );
}

fn some_plans(cluster: &Cluster) -> Result<Vec<AllocationId>, ()> {
    if cluster.table.is_empty() {
        return Err(());
    }
    let mut planner = surveyed(cluster, 1);
    let mut victims = Vec::new();
    while let Ok(plan) = planner.plan(&AnyNode) {
        victims.extend(&plan.victims);
        planner.commit(&plan);
    }
    if victims.is_empty() { Err(()) } else { Ok(victims) }
}

/// The RM says yes to every question; ten are asked for each plan.
#[divan::bench]
fn plan_500_small_with_questions(bencher: Bencher) {
    let cluster = cluster(ASKS, Preemption::Itself, 0);
    bencher.bench_local(|| {
        let mut planner = surveyed(&cluster, 1);
        loop {
            let Ok(mut inquiry) = Inquiry::begin(&mut planner, |_| true) else { return };
            let plan = loop {
                match inquiry.next(&mut planner, &AnyNode) {
                    Next::Ask(questions) => {
                        let answers: Vec<_> =
                            questions.iter().map(|it| Answer::Fits(it.start_index)).collect();
                        inquiry.answer(&mut planner, &answers);
                    }
                    Next::Done(plan) => break plan,
                }
            };
            let Ok(plan) = plan else { return };
            planner.commit(&plan);
        }
    });
}

/// Nobody may be taken: the losing queue is within its guarantee, which is seen before anything is
/// collected of it.
#[divan::bench]
fn in_vain_within_guarantees(bencher: Bencher) {
    let mut cluster = cluster(ASKS / 2, Preemption::Itself, 0);
    cluster.queues[2].guaranteed = Some(gpus(ASKS));
    let preemptor = Demand::ask(ApplicationSlot::at(0), 1, 0, gpus(1));
    bencher.bench_local(|| {
        let survey = Survey::begin(&cluster.queues, preemptor.clone(), 0).expect("a guarantee");
        assert!(!survey.may_lose(2));
        survey
    });
}

/// Nobody may be taken, because everybody is more important.
#[divan::bench]
fn in_vain_among_more_important(bencher: Bencher) {
    let cluster = cluster(ASKS, Preemption::Itself, 1);
    bencher.bench_local(|| surveyed(&cluster, 1).plan(&AnyNode).expect_err("nobody may be taken"));
}
