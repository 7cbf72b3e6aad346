//! The books of a resource manager with many allocations, which knows at each moment what may
//! happen to each of its asks, and notes whatever else does.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "for one benchmark")]

use std::time::Duration;

use monoceros_client::{Report, si};
use serde::Deserialize;
use tokio::time::Instant;

/// Most asks without an allocation.
const MOST_PENDING: usize = 20;
/// Capacity of a node, and size of an allocation.
const CAPACITY: [(&str, i64); 3] = [("memory", 64_000), ("vcore", 64_000), ("pods", 110)];
const SIZE: [(&str, i64); 3] = [("memory", 1_000), ("vcore", 500), ("pods", 1)];

/// A resource manager of some size, and the aims of its takeovers in seconds.
pub struct Shape {
    pub name: &'static str,
    pub nodes: usize,
    pub applications: usize,
    pub allocations: usize,
    pub killed: f64,
    pub moved: f64,
}

/// State of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Pending,
    /// Allocated on this node. `is_answered`: the present session has confirmed it.
    Running {
        node: usize,
        is_answered: bool,
    },
    Releasing,
    Released,
}

/// The resource manager's books. Asks are numbered in the order in which they were made.
pub struct Books {
    pub shape: &'static Shape,
    pub asks: Vec<Ask>,
    /// Number of the first ask that may still run.
    pub oldest: usize,
    pub n_pending: usize,
    pub n_releasing: usize,
    /// Reported allocations that the present session has not confirmed.
    pub n_unanswered: usize,
    pub is_paused: bool,
    pub session: u64,
    /// Session and time of the first new allocation in the present session.
    pub served: (u64, Instant),
    /// Time to make the last report.
    pub reporting: Duration,
    /// Faults: entries that contradict the history.
    pub lost: Vec<String>,
    pub doubled: Vec<String>,
}

impl Books {
    pub fn new(shape: &'static Shape) -> Self {
        let running = |ask| Ask::Running { node: ask % shape.nodes, is_answered: false };
        Self {
            shape,
            asks: (0..shape.allocations).map(running).collect(),
            oldest: 0,
            n_pending: 0,
            n_releasing: 0,
            n_unanswered: 0,
            is_paused: true,
            session: 0,
            served: (0, Instant::now()),
            reporting: Duration::ZERO,
            lost: Vec::new(),
            doubled: Vec::new(),
        }
    }

    pub fn message(&self, number: usize) -> si::Allocation {
        si::Allocation::ask(self.application(number), key(number), SIZE)
    }

    pub fn application(&self, number: usize) -> String {
        format!("app-{:04}", number % self.shape.applications)
    }

    /// Makes the report with which a session begins. Releases are carried out by leaving them out.
    pub fn report(&mut self) -> Report {
        let begun = Instant::now();
        let mut allocations = Vec::with_capacity(self.shape.allocations + MOST_PENDING);
        (self.n_unanswered, self.n_releasing) = (0, 0);
        for number in self.oldest..self.asks.len() {
            match &mut self.asks[number] {
                Ask::Pending => allocations.push(self.message(number)),
                Ask::Running { node, is_answered } => {
                    *is_answered = false;
                    self.n_unanswered += 1;
                    let node = node_id(*node);
                    allocations.push(self.message(number).running_on(node));
                }
                ask @ Ask::Releasing => *ask = Ask::Released,
                Ask::Released => {}
            }
        }
        let node = |number| si::NodeInfo::new(node_id(number), CAPACITY);
        let new = |number| {
            let application = si::AddApplicationRequest::new(self.application(number), "ada");
            application.with_group("dev").in_queue("root.a")
        };
        let report = Report {
            nodes: (0..self.shape.nodes).map(node).collect(),
            applications: (0..self.shape.applications).map(new).collect(),
            allocations,
        };
        self.reporting = begun.elapsed();
        report
    }

    /// Makes an ask and a release, unless too much is pending.
    pub fn orders(&mut self) -> (Vec<si::Allocation>, Vec<si::AllocationRelease>) {
        if self.is_paused || self.n_pending >= MOST_PENDING || self.session == 0 {
            return (Vec::new(), Vec::new());
        }
        self.asks.push(Ask::Pending);
        self.n_pending += 1;
        let asks = vec![self.message(self.asks.len() - 1)];
        while self.asks[self.oldest] == Ask::Released {
            self.oldest += 1;
        }
        let mut releases = Vec::new();
        let answered = |ask: &Ask| matches!(ask, Ask::Running { is_answered: true, .. });
        let running = (self.oldest..self.asks.len()).find(|number| answered(&self.asks[*number]));
        if let Some(number) = running {
            self.asks[number] = Ask::Releasing;
            self.n_releasing += 1;
            releases.push(si::AllocationRelease::new(self.application(number), key(number)));
        }
        (asks, releases)
    }

    pub fn take(&mut self, reply: si::AllocationResponse) {
        for new in reply.new {
            let (number, node) = (number(&new.allocation_key), number(&new.node_id));
            match &mut self.asks[number] {
                ask @ Ask::Pending => {
                    *ask = Ask::Running { node, is_answered: true };
                    self.n_pending -= 1;
                    if self.served.0 != self.session {
                        self.served = (self.session, Instant::now());
                    }
                }
                Ask::Running { node: reported, is_answered }
                    if *reported == node && !*is_answered =>
                {
                    *is_answered = true;
                    self.n_unanswered -= 1;
                }
                other => {
                    self.doubled.push(format!("{other:?} is placed: {}", new.allocation_key));
                }
            }
        }
        for released in reply.released {
            match &mut self.asks[number(&released.allocation_key)] {
                ask @ Ask::Releasing => {
                    *ask = Ask::Released;
                    self.n_releasing -= 1;
                }
                Ask::Released => {}
                _ => self.lost.push(format!("released unasked: {released:?}")),
            }
        }
        let rejected = reply.rejected_allocations.iter();
        self.lost.extend(rejected.map(|rejected| format!("rejected: {rejected:?}")));
    }

    /// Whether nothing is under way.
    pub fn is_at_rest(&self) -> bool {
        self.n_pending + self.n_releasing + self.n_unanswered == 0
    }

    /// Compares with the allocations of the owner. Both sides must be at rest.
    pub fn compare(&mut self, owned: &[NodeRow]) {
        let mut theirs = vec![None; self.asks.len()];
        for row in owned {
            for allocation in &row.allocations {
                let place = &mut theirs[number(&allocation.key)];
                if place.replace(number(&row.id)).is_some() {
                    self.doubled.push(format!("{} is on two nodes", allocation.key));
                }
            }
        }
        for (number, (ask, theirs)) in self.asks.iter().zip(theirs).enumerate() {
            match (ask, theirs) {
                (Ask::Running { node, .. }, Some(other)) if *node == other => {}
                (Ask::Running { .. }, _) => {
                    self.lost.push(format!("{}: {ask:?}, for the owner {theirs:?}", key(number)));
                }
                (_, Some(node)) => {
                    self.doubled.push(format!("{}: {ask:?}, for the owner {node}", key(number)));
                }
                (_, None) => {}
            }
        }
    }
}

pub fn key(number: usize) -> String {
    format!("ask-{number:07}")
}

pub fn node_id(number: usize) -> String {
    format!("node-{number:04}")
}

/// The number in a key or the id of a node.
pub fn number(name: &str) -> usize {
    name.split('-').nth(1).and_then(|number| number.parse().ok()).unwrap()
}

/// A node as REST shows it.
#[derive(Deserialize)]
pub struct NodeRow {
    #[serde(rename = "nodeID")]
    pub id: String,
    #[serde(default)]
    pub allocations: Vec<AllocationRow>,
}

#[derive(Deserialize)]
pub struct AllocationRow {
    #[serde(rename = "allocationKey")]
    pub key: String,
}
