//! Rows of live applications.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::application::Application;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::resource_seconds::History;
use monoceros_rules::asks::failures::FailureLog;
use monoceros_rules::asks::{Asks, WaitEntry};
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::Reserver;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::ids::{ApplicationSlot, AskSlot};
use monoceros_rules::values::resources::Resources;

use super::allocations::{AllocationRow, AllocationsProgress};
use super::parts::LOOKS_PER_PART;
use crate::snapshot::PlaceholderData;
use crate::step::Baton;
use crate::views::placeholders;

/// A pending ask.
pub(crate) struct AskRow {
    pub(crate) spec: Arc<AskSpec>,
    pub(crate) created_ns: i64,
    pub(crate) outstanding: u32,
    /// When this was read, ns since the epoch.
    read_ns: i64,
    pub(crate) attempted: bool,
    pub(crate) signalled: bool,
    /// Whether victims were evicted for it or its gang.
    pub(crate) has_preempted: bool,
    /// The log of its class.
    pub(crate) failures: Option<Arc<FailureLog>>,
}

/// The progress in reading an application in parts.
#[derive(Clone, Debug)]
pub(crate) enum ApplicationProgress {
    /// In its asks, up to this slot.
    Asks(usize),
    /// After all asks, in its allocations.
    Allocations(AllocationsProgress),
}

/// A live application.
pub(crate) struct ApplicationRow {
    pub(crate) id: Arc<str>,
    /// How far this row has been read; `None` once it is read completely.
    pub(crate) progress: Option<ApplicationProgress>,
    /// The number of its parts: the cost of reading it.
    pub(crate) parts: usize,
    slot: Option<ApplicationSlot>,
    pub(crate) partition: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) groups: Vec<String>,
    /// `None` in a brief row.
    pub(crate) tags: Option<Tags>,
    pub(crate) used: Resources,
    pub(crate) peak: Resources,
    pub(crate) pending: Resources,
    pub(crate) submitted_ns: i64,
    pub(crate) started_ns: Option<i64>,
    pub(crate) finished_ns: Option<i64>,
    pub(crate) state: ApplicationState,
    pub(crate) log: Vec<(i64, ApplicationState)>,
    /// The last entry in a brief row.
    pub(crate) waits: Vec<WaitEntry>,
    pub(crate) placeholders: Vec<PlaceholderData>,
    pub(crate) history: History,
    pub(crate) priority: i32,
    /// ns since the epoch.
    pub(crate) backs_off_until: Option<i64>,
    pub(crate) requests: Vec<AskRow>,
    pub(crate) allocations: Vec<AllocationRow>,
    /// The number of allocations, if these are left out.
    pub(crate) n_allocations: Option<usize>,
    pub(crate) reservations: Vec<Arc<str>>,
}

impl ApplicationRow {
    /// Reads about `most` parts of an application, after `behind`. A brief row has no allocations.
    /// `backs_off_until`: ns since the epoch.
    pub(crate) fn part(
        book: &Application,
        behind: Option<&ApplicationProgress>,
        (most, is_brief): (usize, bool),
        backs_off_until: Option<i64>,
        baton: &Baton,
    ) -> Self {
        let mut parts = 1;
        let slot = baton.directory.application_slot(&book.id);
        let has_nomination = |who: Preemptor| baton.books.has_preempted(who);
        let has_preempted = |ask: AskSlot, of_gang: bool| {
            slot.is_some_and(|application| {
                has_nomination(Preemptor::Ask(Reserver { application, ask }))
                    || of_gang && has_nomination(Preemptor::Gang(application))
            })
        };
        let mut logs = Logs::default();
        let (mut requests, mut reservations) = (Vec::new(), Vec::new());
        let mut at = behind.cloned().unwrap_or(ApplicationProgress::Asks(0));
        if let ApplicationProgress::Asks(place) = &mut at {
            let end = book.asks.bound();
            let mut n_looked_at = 0;
            // Satisfied asks are examined, too.
            while *place < end && parts + n_looked_at / LOOKS_PER_PART < most {
                let at = u32::try_from(*place).ok().map(AskSlot::at);
                *place += 1;
                n_looked_at += 1;
                let Some((at, ask)) = at.and_then(|at| Some((at, book.asks.find(at)?))) else {
                    continue;
                };
                if ask.is_reserved() {
                    reservations.push(Arc::clone(&ask.key));
                }
                if ask.outstanding == 0 {
                    continue;
                }
                requests.push(AskRow {
                    spec: Arc::clone(&ask.spec),
                    created_ns: ask.stated_creation_ns(),
                    outstanding: ask.outstanding,
                    read_ns: baton.now_ns,
                    attempted: ask.attempted,
                    signalled: ask.signalled,
                    has_preempted: has_preempted(at, ask.task_group.is_some()),
                    failures: logs.shared(book.asks.failures_of(&ask.key)),
                });
                parts += 1;
            }
            parts += n_looked_at / LOOKS_PER_PART;
            if *place >= end && !is_brief {
                let held = book.allocations.values().copied().chain(book.holds());
                at = ApplicationProgress::Allocations(AllocationsProgress::begin(held));
            }
        }
        let mut allocations = Vec::new();
        let is_over = |at: &ApplicationProgress| match at {
            ApplicationProgress::Asks(place) => is_brief && *place >= book.asks.bound(),
            ApplicationProgress::Allocations(_) => false,
        };
        let mut progress = Some(at).filter(|at| !is_over(at));
        if let Some(ApplicationProgress::Allocations(held)) = &mut progress {
            let before = held.taken;
            let is_its = |entry: &Allocation| Some(entry.application) == slot;
            allocations = held.take(most.saturating_sub(parts), is_its, baton);
            parts += held.taken - before;
            if held.is_done() {
                progress = None;
            }
        }
        Self {
            id: Arc::clone(&book.id),
            progress,
            parts,
            slot,
            partition: Arc::clone(&baton.guard.partition),
            queue: Arc::clone(&book.queue),
            user: Arc::clone(&book.user),
            groups: book.groups.clone(),
            tags: book.tags.clone().filter(|_| !is_brief),
            used: book.allocated().minus(book.placeholders()).pruned(),
            peak: book.peak().clone(),
            pending: book.asks.pending().shown().clone(),
            submitted_ns: book.submitted_ns,
            started_ns: book.started_ns,
            finished_ns: book.finished_ns,
            state: book.state(),
            log: book.log().to_vec(),
            waits: waits(&book.asks, is_brief),
            placeholders: placeholders::of(book),
            history: book.history.clone(),
            priority: book.asks.priority(),
            backs_off_until,
            requests,
            allocations,
            n_allocations: is_brief.then(|| book.allocations.len() + book.holds().count()),
            reservations,
        }
    }

    /// Appends the next part of the same application. Returns a row of another one.
    pub(crate) fn append(&mut self, next: Self) -> Option<Self> {
        if self.progress.is_none() || self.id != next.id || self.slot != next.slot {
            return Some(next);
        }
        self.progress = next.progress;
        self.requests.extend(next.requests);
        self.allocations.extend(next.allocations);
        self.reservations.extend(next.reservations);
        if self.progress.is_none() {
            self.settle();
        }
        None
    }

    /// Removes contradictions between parts: the last reading of an ask counts if it was withdrawn
    /// and sent again, and an ask that was placed after it was read is not pending any more.
    fn settle(&mut self) {
        let mut last = HashMap::new();
        for (at, request) in self.requests.iter().enumerate() {
            last.insert(Arc::clone(&request.spec.key), at);
        }
        let mut at = 0;
        self.requests.retain(|request| {
            at += 1;
            last[&request.spec.key] == at - 1
        });
        let mut places: HashMap<_, _> =
            self.requests.iter_mut().map(|it| (Arc::clone(&it.spec.key), it)).collect();
        for AllocationRow { allocation, .. } in &self.allocations {
            if let Some(request) = places.get_mut(allocation.key())
                && allocation.bound_ns >= request.read_ns
            {
                request.outstanding = request.outstanding.saturating_sub(1);
            }
        }
        drop(places);
        self.requests.retain(|request| request.outstanding > 0);
    }
}

/// Returns the wait log, or its last entry alone.
fn waits(asks: &Asks, is_brief: bool) -> Vec<WaitEntry> {
    if is_brief { asks.wait_log().last().into_iter().collect() } else { asks.wait_log().collect() }
}

/// Copies of failure logs, one for all asks that share a log.
#[derive(Default)]
struct Logs(BTreeMap<*const FailureLog, Arc<FailureLog>>);

impl Logs {
    fn shared(&mut self, log: Option<&FailureLog>) -> Option<Arc<FailureLog>> {
        let log = log?;
        // Nothing moves while one application is read, so an address identifies a log.
        let known = self.0.entry(std::ptr::from_ref(log));
        Some(Arc::clone(known.or_insert_with(|| Arc::new(log.clone()))))
    }
}
