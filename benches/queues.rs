//! Cost of an allocation as queues grow in number, in depth, or in users with limits.
//!
//! `cargo bench --bench queues -- [leaves|depth|users|shared]` prints a row for each of the first
//! three and a table for the last. The sizes of a row are measured in turns. All asks arrive before
//! the nodes, so that the measurement, from the first node to the last allocation, covers deciding
//! and notifying. Twice as many asks are pending as fit, so that no queue runs out. See
//! docs/performance.md for the figures.

#![allow(clippy::print_stdout, missing_docs)]

mod aims;
mod allocator;
mod runs;
mod shapes;
mod shim;

use std::fmt::Write as _;
use std::time::Duration;

use monoceros_actors::Threads;
use tokio::time::{Instant, sleep};

use crate::aims::at_most;
use crate::runs::{in_turns, print_growth, print_growth_head};
use crate::shim::{Shim, cpu_time, median};

const NODES: usize = 1_000;
const ROOM: usize = 50_000;
/// Number of leaves that wait for the same limit.
const LEAVES: usize = 1_000;
const RELEASES: u32 = 2_000;
const SMALL: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];

struct Tree {
    config: String,
    applications: usize,
    /// The queue of each application.
    queue: Box<dyn Fn(usize) -> String>,
    /// Its user, whose group is one of a hundred.
    user: Box<dyn Fn(usize) -> usize>,
}

/// Makes one partition with these queues and limits of root.
fn configured(queues: &str, limits: &str) -> String {
    format!(
        "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
         limits: [{limits}]\n    queues:\n{queues}"
    )
}

/// Leaves of one parent.
fn flat(n_leaves: usize) -> Tree {
    let mut queues = String::new();
    for leaf in 0..n_leaves {
        let _ = writeln!(queues, "    - {{name: l{leaf}}}");
    }
    Tree {
        config: configured(&queues, "").replace("    limits: []\n", ""),
        applications: n_leaves,
        queue: Box::new(|n| format!("root.l{n}")),
        user: Box::new(|_| 0),
    }
}

/// 64 leaves, each at the end of its own chain.
fn deep(n_levels: usize) -> Tree {
    const LEAVES: usize = 64;
    let mut queues = String::new();
    for leaf in 0..LEAVES {
        let below = "queues: [{name: q, ".repeat(n_levels - 2);
        let ends = "}]".repeat(n_levels - 2);
        let _ = writeln!(queues, "    - {{name: l{leaf}, {below}parent: false{ends}}}");
    }
    Tree {
        config: configured(&queues, "").replace("    limits: []\n", ""),
        applications: LEAVES,
        queue: Box::new(move |n| format!("root.l{n}{}", ".q".repeat(n_levels - 2))),
        user: Box::new(|_| 0),
    }
}

/// 10,000 users with an application each in one of 100 leaves. Half of the users are named, and the
/// others are covered by `*`, and so are the groups.
fn users(limits: &str) -> Tree {
    let mut queues = String::new();
    for leaf in 0..100 {
        let _ = writeln!(queues, "    - {{name: l{leaf}}}");
    }
    let config = configured(&queues, limits);
    Tree {
        config: if limits.is_empty() { config.replace("    limits: []\n", "") } else { config },
        applications: 10_000,
        queue: Box::new(|n| format!("root.l{}", n / 7 % 100)),
        user: Box::new(|n| n),
    }
}

/// Limits each user to some of the ten containers that each wants, by name or by `*`.
fn user_limits(named: usize, other: usize) -> String {
    let mut limits = String::new();
    for user in (0..10_000).step_by(2) {
        let _ = write!(limits, "{{users: [u{user}], maxresources: {{vcore: {named}m}}}}, ");
    }
    let _ = write!(limits, "{{users: ['*'], maxresources: {{vcore: {other}m}}}}, ");
    for group in (0..100).step_by(2) {
        let _ = write!(limits, "{{groups: [g{group}], maxresources: {{vcore: 1000}}}}, ");
    }
    limits.push_str("{groups: ['*'], maxresources: {vcore: 1000}}");
    limits
}

/// Creates this many asks, in blocks of equal size over the applications.
async fn begin(shape: &Tree, asks: usize) -> Shim {
    let shim = Shim::start(&shape.config, Threads::PerPartition).await;
    let owner = |n| {
        let user = (shape.user)(n);
        (format!("u{user}"), vec![format!("g{}", user % 100)])
    };
    shim.applications_of(shape.applications, &shape.queue, owner).await;
    shim.asks("ask", asks, shape.applications, &SMALL).await;
    shim.scheduler.settle().await;
    // The scan for the scale-up signal follows a second later, and is measured in `idle`.
    sleep(Duration::from_secs(3)).await;
    shim.scheduler.settle().await;
    shim
}

/// Adds nodes for half of the asks. Returns seconds of wall and CPU until they are full.
async fn fill(shim: &Shim) -> (f64, f64) {
    let per_node = i64::try_from(ROOM / NODES).expect("small");
    shim.expect(ROOM);
    let (start, cpu) = (Instant::now(), cpu_time());
    shim.nodes(NODES, &[("memory", 10 * per_node), ("vcore", per_node)]).await;
    shim.all_allocated().await;
    let cpu = cpu_time().saturating_sub(cpu);
    (start.elapsed().as_secs_f64(), cpu.as_secs_f64())
}

/// Prints a row: the shapes grow from the first to the last.
async fn row(what: &str, shapes: &[Tree], aim: f64) {
    let sizes = in_turns(shapes.len(), ROOM, async |size| {
        let shim = begin(&shapes[size], 2 * ROOM).await;
        let took = fill(&shim).await;
        shim.scheduler.shutdown().await;
        took
    });
    print_growth(what, &sizes.await, aim);
}

/// The limit that a thousand leaves wait for.
#[derive(Clone, Copy, PartialEq)]
enum Awaited {
    Node,
    /// The limit of all users together on their usage.
    Quota,
    /// Their limit on running applications.
    Start,
}

impl Awaited {
    fn shape(self) -> Tree {
        let mut shape = flat(LEAVES);
        let limit = match self {
            Self::Node => return shape,
            Self::Quota => format!("maxresources: {{vcore: {ROOM}m}}"),
            Self::Start => {
                shape.applications = LEAVES + RELEASES as usize;
                shape.queue = Box::new(|n| format!("root.l{}", n % LEAVES));
                format!("maxapplications: {LEAVES}")
            }
        };
        let limits = format!("    limits: [{{groups: [nobody, '*'], {limit}}}]\n    queues:\n");
        shape.config = shape.config.replace("    queues:\n", &limits);
        shape
    }

    /// Returns the number of allocations that fit.
    fn room(self) -> usize {
        if self == Self::Start { LEAVES } else { ROOM }
    }

    fn nodes(self) -> usize {
        if self == Self::Quota { 2 * NODES } else { NODES }
    }
}

/// A thousand waiting leaves, with one release, or one ended application, at a time.
async fn shared() {
    println!(
        "\n| 1,000 leaves wait for | CPU µs per release | release to reuse, median µs | aim |"
    );
    println!("|---|---|---|---|");
    for (name, awaited) in [
        ("a node", Awaited::Node),
        ("one limit of all groups", Awaited::Quota),
        ("one limit on running applications", Awaited::Start),
    ] {
        let shape = awaited.shape();
        // Each application that waits to start has one ask.
        let asks = if awaited == Awaited::Start { shape.applications } else { 2 * ROOM };
        let shim = begin(&shape, asks).await;
        let per_node = i64::try_from(ROOM / NODES).expect("small");
        shim.expect(awaited.room());
        shim.nodes(awaited.nodes(), &[("memory", 10 * per_node), ("vcore", per_node)]).await;
        shim.all_allocated().await;
        shim.scheduler.settle().await;
        let (cpu, mut taken) = (cpu_time(), Vec::new());
        for _ in 0..RELEASES {
            shim.expect(1);
            let start = Instant::now();
            if awaited == Awaited::Start {
                shim.remove_last().await;
            } else {
                shim.release_last().await;
            }
            shim.all_allocated().await;
            taken.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let cpu: Duration = cpu_time().saturating_sub(cpu) / RELEASES;
        let reused = at_most(median(&mut taken), 1_000.0, 0);
        println!("| {name} | {} | {reused} | 1,000 |", cpu.as_micros());
        shim.scheduler.shutdown().await;
    }
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let wants = |name: &str| name.starts_with(filter.as_str());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        if ["leaves", "depth", "users"].iter().any(|name| wants(name)) {
            print_growth_head();
        }
        if wants("leaves") {
            let shapes = [10, 100, 1_000, 10_000].map(flat);
            row("leaves 10 · 100 · 1,000 · 10,000, an application each", &shapes, 2.0).await;
        }
        if wants("depth") {
            row("levels 2 · 4 · 6 · 8, 64 leaves", &[2, 4, 6, 8].map(deep), 2.0).await;
        }
        if wants("users") {
            let limits = [String::new(), user_limits(100, 100), user_limits(3, 100)];
            let what =
                "10,000 users: no limits · limits that do not bind · limits that bind half of them";
            row(what, &limits.map(|limits| users(&limits)), 1.3).await;
        }
        if wants("shared") {
            shared().await;
        }
    });
}
