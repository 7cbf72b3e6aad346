//! The answer: two replays, side by side, of one run or of several.
//!
//! # Which is which
//! A is the replay without the changes, B the one with them. Work is known in both by its number,
//! since both begin with the same image; what the question submits comes behind that.
//!
//! # Several runs
//! Of each time the median over the runs is told, in which one that did not start counts as later
//! than all others. What starts at once, and why something waits, is of the first run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::durations::DurationCounts;
use super::history::{AppHistory, Cause, Eviction, History, Reason};
use super::usage::{Held, Whose};
use crate::replay::grounds::Grounds;
use crate::replay::numbers::{rounded, seconds};
use crate::replay::waits::Waits;

/// Version of the format, raised when its readers have to change.
const FORMAT: u32 = 1;
/// The most rows of a list.
const ROWS_MAX: usize = 10_000;

/// The answer to a question. A is what happens without the changes, B with them. Times are seconds
/// after the snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub(super) format: u32,
    /// The resource manager.
    pub(super) rm: String,
    /// The time of the snapshot, ns since the epoch.
    pub(super) at: i64,
    /// How far the replays went, in seconds.
    pub(super) horizon: f64,
    pub(super) runs: u32,
    /// The changes, in words.
    pub(super) changes: Vec<String>,
    /// Whether nothing is evicted in B that is not evicted in A.
    pub(super) is_safe: bool,
    /// The number of allocations that are evicted in B only, in any run.
    pub(super) n_evicted_only_in_b: usize,
    pub(super) a: SideTotals,
    pub(super) b: SideTotals,
    /// The number of requests in B whose predicates are unknown, so that they pass. `None`: those of
    /// all requests pass, since the snapshot has none.
    pub(super) unknown_predicates: Option<usize>,
    /// Nodes and applications of the question that were refused.
    pub(super) refused: Vec<String>,
    /// What is evicted in B only.
    pub(super) evicted: Vec<EvictedRow>,
    /// Requests that start at another time in B, those with the largest difference first.
    pub(super) starts: Vec<StartRow>,
    /// The numbers of such requests.
    pub(super) differences: Differences,
    /// Requests that do not start in B until the horizon.
    pub(super) never: Vec<NeverRow>,
    /// Whether lists were cut.
    pub(super) is_cut: bool,
    pub(super) queues: Vec<ShareRow>,
    pub(super) users: Vec<ShareRow>,
    /// The shares of queues over time.
    pub(super) series: Series,
}

/// Numbers of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SideTotals {
    /// Allocations that start before any time has passed.
    pub(super) at_once: usize,
    /// Allocations that start until the horizon.
    pub(super) started: usize,
    pub(super) evicted: usize,
    /// Allocations that wait at the horizon.
    pub(super) waiting: u64,
    /// How the durations are known of what ran at the snapshot, and of what started later.
    pub(super) running_durations: DurationCounts,
    pub(super) started_durations: DurationCounts,
}

/// An allocation that is evicted in B only.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EvictedRow {
    pub(super) time: f64,
    #[serde(flatten)]
    pub(super) of: Names,
    pub(super) node: String,
    /// `guarantee`, `quota`, `requiredNode`, `nodeRemoved` or `other`.
    pub(super) grounds: &'static str,
    /// The queue that gains, or whose maximum is lower than what it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) for_queue: Option<String>,
    /// What the scheduler says.
    pub(super) why: String,
    /// How long it had run, in seconds.
    pub(super) ran: f64,
    /// Whether its work is asked for anew.
    pub(super) is_asked_anew: bool,
    /// When its work starts again.
    pub(super) again: Option<f64>,
    /// In how many runs it is evicted.
    pub(super) runs: u32,
}

/// The names of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Names {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) partition: String,
    pub(super) application: String,
    pub(super) key: String,
    pub(super) queue: String,
    pub(super) user: String,
}

fn is_default(partition: &str) -> bool {
    partition == "default"
}

/// A request that starts at another time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartRow {
    #[serde(flatten)]
    pub(super) of: Names,
    /// The number of its pending allocations.
    pub(super) count: u32,
    /// When all of them have started.
    pub(super) a: Option<f64>,
    pub(super) b: Option<f64>,
    /// b minus a. `None` if it starts in one of them only.
    pub(super) difference: Option<f64>,
    pub(super) is_submitted: bool,
}

/// Numbers of requests by how their starts differ. What is submitted is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Differences {
    pub(super) earlier: usize,
    pub(super) later: usize,
    pub(super) same: usize,
    pub(super) only_in_a: usize,
    pub(super) only_in_b: usize,
    pub(super) in_neither: usize,
    /// Submitted requests that start, and those that do not.
    pub(super) submitted_started: usize,
    pub(super) submitted_waiting: usize,
}

/// A request that does not start until the horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NeverRow {
    #[serde(flatten)]
    pub(super) of: Names,
    /// The number of its allocations that wait.
    pub(super) count: u32,
    /// When all of it has started in A.
    pub(super) a: Option<f64>,
    /// Why it waits at the horizon.
    pub(super) why: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) gang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) cure: String,
}

/// A queue or a user.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ShareRow {
    pub(super) name: String,
    pub(super) a: Share,
    pub(super) b: Share,
}

/// What a queue or user gets in one replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Share {
    /// The mean over the horizon of the largest share of any resource.
    #[serde(rename = "share")]
    pub(super) mean: f64,
    pub(super) started: usize,
    /// The waits of what started, in seconds. Zero if nothing has.
    pub(super) wait_median: f64,
    pub(super) wait_p95: f64,
    pub(super) evicted: usize,
}

/// The shares of queues over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Series {
    /// The times, in seconds after the snapshot.
    pub(super) time: Vec<f64>,
    pub(super) a: BTreeMap<String, Vec<f64>>,
    pub(super) b: BTreeMap<String, Vec<f64>>,
}

/// The question, as it is repeated in the answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) rm: String,
    pub(super) at_ns: i64,
    /// In milliseconds.
    pub(super) horizon: i64,
    pub(super) changes: Vec<String>,
}

/// What is gathered of the runs.
pub(super) struct Gathered {
    asked: Asked,
    /// The replays of the first run.
    first: (Arc<History>, Arc<History>),
    /// Of each run: when all of a request has started, by the number of its work.
    starts: Vec<[Vec<Option<i64>>; 2]>,
    shares: Vec<[BTreeMap<Whose, Share>; 2]>,
    /// What is evicted in B only, by its work and the number among the evictions of that work.
    evicted: BTreeMap<(usize, usize), EvictedRow>,
}

impl Gathered {
    /// Begins with the first run.
    pub(super) fn new(asked: Asked, a: Arc<History>, b: Arc<History>) -> Self {
        let run = Run::of(&a, &b);
        let mut gathered = Self {
            asked,
            starts: Vec::new(),
            shares: Vec::new(),
            evicted: BTreeMap::new(),
            first: (a, b),
        };
        gathered.push(run);
        gathered
    }

    /// Adds a further run.
    pub(super) fn add(&mut self, a: &History, b: &History) {
        self.push(Run::of(a, b));
    }

    fn push(&mut self, run: Run) {
        self.starts.push(run.starts);
        self.shares.push(run.shares);
        for (key, row) in run.evicted {
            self.evicted.entry(key).and_modify(|known| known.runs += 1).or_insert(row);
        }
    }

    /// Returns the median over the runs of the time at which all of a request has started.
    fn start(&self, side: usize, work: usize) -> Option<i64> {
        let of_run = |run: &[Vec<Option<i64>>; 2]| run[side].get(work).copied().flatten();
        let mut times: Vec<_> =
            self.starts.iter().map(|run| of_run(run).unwrap_or(i64::MAX)).collect();
        times.sort_unstable();
        Some(times[(times.len() - 1) / 2]).filter(|time| *time < i64::MAX)
    }

    /// Returns the answer.
    pub(super) fn answer(self) -> Answer {
        let (first_a, first_b) = &self.first;
        let mut evicted: Vec<_> = self.evicted.values().cloned().collect();
        evicted.sort_by(|one, other| one.time.total_cmp(&other.time));
        let n_evicted_only_in_b = evicted.len();
        let (mut starts, differences) = self.start_rows();
        let mut never = self.never_rows();
        let is_cut = [evicted.len(), starts.len(), never.len()].iter().any(|n| *n > ROWS_MAX);
        evicted.truncate(ROWS_MAX);
        starts.truncate(ROWS_MAX);
        never.truncate(ROWS_MAX);
        let asked = &self.asked;
        Answer {
            format: FORMAT,
            rm: asked.rm.clone(),
            at: asked.at_ns,
            horizon: seconds(asked.horizon),
            runs: u32::try_from(self.starts.len()).unwrap_or(u32::MAX),
            changes: asked.changes.clone(),
            is_safe: n_evicted_only_in_b == 0,
            n_evicted_only_in_b,
            a: totals(first_a),
            b: totals(first_b),
            unknown_predicates: first_b.unknown_asks,
            refused: first_b.refused.clone(),
            evicted,
            starts,
            differences,
            never,
            is_cut,
            queues: self.share_rows(|whose| match whose {
                Whose::Queue(name) => Some(name),
                Whose::User(_) => None,
            }),
            users: self.share_rows(|whose| match whose {
                Whose::User(name) => Some(name),
                Whose::Queue(_) => None,
            }),
            series: Series {
                time: (0..super::usage::SAMPLES)
                    .map(|sample| seconds(asked.horizon * sample / super::usage::SAMPLES))
                    .collect(),
                a: series(first_a),
                b: series(first_b),
            },
        }
    }

    fn start_rows(&self) -> (Vec<StartRow>, Differences) {
        let b = &self.first.1;
        let mut differences = Differences::default();
        let mut rows = Vec::new();
        for (number, work) in b.works.iter().enumerate().filter(|(_, work)| work.pending > 0) {
            let [of_a, of_b] = [0, 1].map(|side| self.start(side, number));
            let count = match (of_a, of_b) {
                (_, Some(_)) if work.is_submitted => &mut differences.submitted_started,
                (_, None) if work.is_submitted => &mut differences.submitted_waiting,
                (Some(a), Some(b)) if b < a => &mut differences.earlier,
                (Some(a), Some(b)) if b > a => &mut differences.later,
                (Some(_), Some(_)) => &mut differences.same,
                (Some(_), None) => &mut differences.only_in_a,
                (None, Some(_)) => &mut differences.only_in_b,
                (None, None) => &mut differences.in_neither,
            };
            *count += 1;
            if of_a == of_b {
                continue;
            }
            rows.push(StartRow {
                of: names(b, number),
                count: work.pending,
                a: of_a.map(seconds),
                b: of_b.map(seconds),
                difference: of_a.zip(of_b).map(|(a, b)| seconds(b - a)),
                is_submitted: work.is_submitted,
            });
        }
        let weight = |row: &StartRow| row.difference.map_or(f64::INFINITY, f64::abs);
        rows.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
        (rows, differences)
    }

    fn never_rows(&self) -> Vec<NeverRow> {
        let b = &self.first.1;
        let works = b.works.iter().enumerate();
        let waiting = works.filter(|(number, work)| {
            let is_asked = work.pending > 0 && self.start(1, *number).is_none();
            // What was evicted and waits, too.
            is_asked || work.waiting > 0
        });
        let row = |(number, work): (usize, &super::history::WorkHistory)| {
            let reason = b.reasons.get(&number).cloned().unwrap_or_default();
            let Reason { why, cure, gang } = reason;
            NeverRow {
                of: names(b, number),
                count: work.waiting,
                a: self.start(0, number).map(seconds),
                why: work.refused.clone().unwrap_or(why),
                gang,
                cure,
            }
        };
        waiting.map(row).collect()
    }

    fn share_rows(&self, name_of: impl Fn(&Whose) -> Option<&Arc<str>>) -> Vec<ShareRow> {
        let mut names: Vec<&Whose> =
            self.shares.iter().flatten().flat_map(BTreeMap::keys).collect();
        names.sort_unstable();
        names.dedup();
        let side = |side: usize, whose: &Whose| {
            let shares = self.shares.iter().filter_map(|run| run[side].get(whose));
            median(&shares.collect::<Vec<_>>())
        };
        let row = |whose: &Whose| {
            let name = name_of(whose)?.to_string();
            Some(ShareRow { name, a: side(0, whose), b: side(1, whose) })
        };
        names.into_iter().filter_map(row).collect()
    }
}

/// What is kept of a run.
struct Run {
    starts: [Vec<Option<i64>>; 2],
    shares: [BTreeMap<Whose, Share>; 2],
    evicted: Vec<((usize, usize), EvictedRow)>,
}

impl Run {
    fn of(a: &History, b: &History) -> Self {
        Self {
            starts: [all_started(a), all_started(b)],
            shares: [shares(a), shares(b)],
            evicted: evicted_only_in(b, a),
        }
    }
}

/// Returns when all pending allocations of each work have started.
fn all_started(history: &History) -> Vec<Option<i64>> {
    let of = |work: &super::history::WorkHistory| {
        let pending = usize::try_from(work.pending).unwrap_or(usize::MAX);
        let last = work.starts.iter().max().copied();
        last.filter(|_| work.starts.len() >= pending)
    };
    history.works.iter().map(of).collect()
}

fn totals(history: &History) -> SideTotals {
    SideTotals {
        at_once: history.starts.iter().filter(|start| start.at == 0).count(),
        started: history.starts.len(),
        evicted: history.evictions.len(),
        waiting: history.works.iter().map(|work| u64::from(work.waiting)).sum(),
        running_durations: history.running,
        started_durations: history.started,
    }
}

fn names(history: &History, work: usize) -> Names {
    let work = &history.works[work];
    let AppHistory { partition, id, queue, user } = &history.applications[work.application];
    Names {
        partition: partition.to_string(),
        application: id.to_string(),
        key: work.key.to_string(),
        queue: queue.to_string(),
        user: user.to_string(),
    }
}

/// Returns the evictions of one replay that the other does not have.
fn evicted_only_in(one: &History, other: &History) -> Vec<((usize, usize), EvictedRow)> {
    let mut in_other: BTreeMap<usize, usize> = BTreeMap::new();
    for eviction in &other.evictions {
        *in_other.entry(eviction.work).or_default() += 1;
    }
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    let mut rows = Vec::new();
    for eviction in &one.evictions {
        let number = numbers.entry(eviction.work).or_default();
        *number += 1;
        if *number > in_other.get(&eviction.work).copied().unwrap_or(0) {
            rows.push(((eviction.work, *number), evicted_row(one, eviction)));
        }
    }
    rows
}

fn evicted_row(history: &History, eviction: &Eviction) -> EvictedRow {
    let (grounds, for_queue) = match &eviction.cause {
        Cause::NodeRemoved => ("nodeRemoved", None),
        Cause::Preempted(grounds) => {
            let name = match grounds {
                Grounds::Guarantee { .. } => "guarantee",
                Grounds::Quota { .. } => "quota",
                Grounds::RequiredNode => "requiredNode",
                Grounds::Other => "other",
            };
            (name, grounds.queue().map(str::to_owned))
        }
    };
    EvictedRow {
        time: seconds(eviction.at),
        of: names(history, eviction.work),
        node: eviction.node.to_string(),
        grounds,
        for_queue,
        why: eviction.why.clone(),
        ran: seconds(eviction.ran),
        is_asked_anew: eviction.is_asked_anew,
        again: eviction.again.map(seconds),
        runs: 1,
    }
}

/// Returns what each queue and user gets in a replay.
fn shares(history: &History) -> BTreeMap<Whose, Share> {
    let mut waits: BTreeMap<Whose, Vec<i64>> = BTreeMap::new();
    let mut shares: BTreeMap<Whose, Share> = BTreeMap::new();
    let whose = |work: usize| {
        let of = &history.applications[history.works[work].application];
        [Whose::Queue(Arc::clone(&of.queue)), Whose::User(Arc::clone(&of.user))]
    };
    for start in &history.starts {
        for whose in whose(start.work) {
            waits.entry(whose).or_default().push(start.wait);
        }
    }
    for eviction in &history.evictions {
        for whose in whose(eviction.work) {
            shares.entry(whose).or_default().evicted += 1;
        }
    }
    for (whose, held) in &history.held {
        shares.entry(whose.clone()).or_default().mean = rounded(held.mean);
    }
    for (whose, of) in waits {
        let share = shares.entry(whose).or_default();
        share.started = of.len();
        let waits = Waits::of(of);
        (share.wait_median, share.wait_p95) = (waits.p50, waits.p95);
    }
    shares
}

/// Returns the median of each figure.
fn median(shares: &[&Share]) -> Share {
    let middle = |mut figures: Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
    };
    let figure = |of: fn(&Share) -> f64| middle(shares.iter().map(|share| of(share)).collect());
    let count = |of: fn(&Share) -> usize| {
        let mut counts: Vec<_> = shares.iter().map(|share| of(share)).collect();
        counts.sort_unstable();
        counts.get(counts.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    };
    Share {
        mean: figure(|share| share.mean),
        started: count(|share| share.started),
        wait_median: figure(|share| share.wait_median),
        wait_p95: figure(|share| share.wait_p95),
        evicted: count(|share| share.evicted),
    }
}

fn series(history: &History) -> BTreeMap<String, Vec<f64>> {
    let of_queue = |(whose, held): (&Whose, &Held)| match whose {
        Whose::Queue(path) => {
            Some((path.to_string(), held.samples.iter().copied().map(rounded).collect()))
        }
        Whose::User(_) => None,
    };
    history.held.iter().filter_map(of_queue).collect()
}
