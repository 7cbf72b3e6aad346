//! Cost of a question: what another configuration changes on a large cluster.
//!
//! `cargo bench --bench whatif`: 10,000 nodes, 100,000 allocations and 50,000 requests that wait, of
//! 100 applications in two queues (the first argument divides all three: `-- 10`). One queue has
//! reached its maximum, which the question raises by 5,000 cores. All run times are claimed, from a
//! minute to a day. It prints how long the answer takes that looks no further than what starts at
//! once, and the one for the next day; both replays run at the same time. See docs/performance.md
//! for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

mod aims;
mod shim;

use std::sync::Arc;
use std::time::Duration;

use monoceros::whatif::{Changes, Options, answer};
use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::tags::RUN_TIME_LIMIT;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use crate::aims::at_most;
use crate::shim::median;

const RUNS: usize = 3;

/// Does nothing: the resource manager before the question.
struct Nobody;

impl ResourceManagerCallback for Nobody {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

/// Two queues, the second with a maximum in cores.
fn queues(cores: usize) -> String {
    format!(
        "partitions: [{{name: default, queues: [{{name: root, submitacl: '*', \
         queues: [{{name: a}}, {{name: b, resources: {{max: {{vcore: {cores}}}}}}}]}}]}}]"
    )
}

fn amount(vcore: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value: vcore })].into() }
}

fn application(n: usize) -> String {
    format!("app-{:03}", n % 100)
}

/// A request with a claimed run time of up to a day.
fn ask(n: usize, key: String, vcore: i64) -> si::Allocation {
    let minutes = 1 + n.wrapping_mul(7_919) % 1_440;
    si::Allocation::ask(application(n), key, amount(vcore))
        .with_tag(RUN_TIME_LIMIT, format!("{minutes}m"))
}

/// Reports the cluster, with what runs and what waits for the maximum of its queue, or for room.
async fn fill(scheduler: &SchedulerHandle, divisor: usize) {
    let (n_nodes, n_allocations, n_asks) = (10_000 / divisor, 100_000 / divisor, 50_000 / divisor);
    let nodes = (0..n_nodes).map(|n| si::NodeInfo::new(format!("node-{n:05}"), amount(12_000)));
    scheduler.update_node(si::NodeRequest::report("rm", nodes.collect::<Vec<_>>())).await.unwrap();
    let applications = (0..100).map(|n| {
        let leaf = if n % 2 == 0 { "root.a" } else { "root.b" };
        si::AddApplicationRequest::new(application(n), format!("user-{}", n % 20)).in_queue(leaf)
    });
    let request = si::ApplicationRequest::submit("rm", applications.collect::<Vec<_>>());
    scheduler.update_application(request).await.unwrap();
    for n in 0..n_allocations {
        let existing = ask(n, format!("a-{n}"), 1_000);
        let existing = existing.running_on(format!("node-{:05}", n % n_nodes));
        scheduler.update_allocation(si::AllocationRequest::ask("rm", [existing])).await.unwrap();
    }
    for n in 0..n_asks {
        // Those of `a` are larger than what any node has left.
        let vcore = if n % 2 == 0 { 3_000 } else { 1_000 } + i64::try_from(n % 20).unwrap();
        let ask = ask(n, format!("w-{n}"), vcore);
        scheduler.update_allocation(si::AllocationRequest::ask("rm", [ask])).await.unwrap();
    }
    scheduler.settle().await;
}

/// The median time of some answers in s, and the number of starts at once.
fn measured(image: &ResourceManagerImage, changes: &Changes, horizon: Duration) -> (f64, String) {
    let options = Options { horizon, ..Options::default() };
    let (mut took, mut lines) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let begin = Instant::now();
        let answer = answer(image, changes, &options).unwrap();
        took.push(begin.elapsed().as_secs_f64());
        lines = answer.lines();
    }
    let at_once = lines.iter().find(|line| line.starts_with("starts at once"));
    (median(&mut took), at_once.cloned().unwrap_or_default())
}

fn main() {
    let divisor: usize = std::env::args().skip(1).find_map(|it| it.parse().ok()).unwrap_or(1);
    let n_cores = 50_000 / divisor;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let image = runtime.block_on(async {
        let scheduler = Scheduler::builder().default_queues(queues(n_cores)).start().unwrap();
        let request = si::RegisterResourceManagerRequest::new("rm");
        scheduler.register_resource_manager(request, Arc::new(Nobody)).await.unwrap();
        fill(&scheduler, divisor).await;
        let image = scheduler.image("rm").await.unwrap();
        scheduler.shutdown().await;
        image
    });
    let queues = Some(queues(n_cores + 5_000 / divisor));
    let changes = Changes { queues, ..Changes::default() };
    println!("| question | s | |");
    println!("|---|---|---|");
    for (name, horizon, aim) in [("what starts at once", 1, 3.0), ("a day", 86_400, 20.0)] {
        let (took, at_once) = measured(&image, &changes, Duration::from_secs(horizon));
        println!("| {name} | {} | {at_once} |", at_most(took, aim, 2));
    }
}
