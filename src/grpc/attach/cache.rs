//! The shim's cache of allocations, kept in step with the scheduler's decisions.
//!
//! # Why
//! A shim answers predicates from its own cache of nodes and pods. It learns of a new allocation
//! from the orchestrator only after seconds; until then it would let two requests pass for the same
//! capacity. So each allocation is sent to the shim here before the next question.
//!
//! # Invariants
//! * Every change of an allocation is sent as a [`CacheSync`](cb::CacheSync) first, so that later
//!   questions find the shim's cache up to date.
//! * Numbers of syncs rise over all streams of a session.
//! * A stream begins with all running allocations that the RM was notified of and did not report
//!   itself. One exception: if no questions were to be asked (`callback.predicates` = `none`) and
//!   allocations were made before the first stream that keeps a cache, no stream of the session
//!   begins with them, and releases that happen while no such stream is open are never sent.
//! * A response with allocations that the shim has to assume is withheld until their sync has
//!   passed the stream's [`Gate`], for a limited time, and no longer than the stream lasts.
//! * Responses are delivered in the order in which they arrived, including withheld ones.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::hashing::{SeededMap, SeededSet};
use monoceros_actors::{AllocationNotices, NewAllocation};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::outgoing::portions;

mod failures;
#[cfg(test)]
mod tests;

/// Most allocations of one message.
const SYNC_ITEMS: usize = 1_000;

/// Maximum size of a message without its allocations.
const SYNC_OVERHEAD_BYTES: usize = 64;

/// A sync was acknowledged that was not sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache sync {acknowledged} is acknowledged, the last one sent is {sent}")]
pub(super) struct NotSent {
    acknowledged: u64,
    sent: u64,
}

/// The result of a step, to be carried out in this order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CacheStep {
    /// Syncs to be sent before the allocations are delivered.
    pub(super) assume: Vec<cb::CacheSync>,
    /// Responses for the allocation stream.
    pub(super) deliver: Vec<si::AllocationResponse>,
    /// Syncs to be sent after the releases are delivered.
    pub(super) forget: Vec<cb::CacheSync>,
}

/// The result of an acknowledgement.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Confirmed {
    pub(super) deliver: Vec<si::AllocationResponse>,
    /// Placements that the shim refused, to be released in the scheduler.
    pub(super) undo: Vec<si::AllocationRelease>,
    /// Syncs that make the shim forget these placements, since it may have refused only some of
    /// them.
    pub(super) forget: Vec<cb::CacheSync>,
    /// Keys of failures without an application that several applications use; nothing is undone.
    pub(super) ambiguous: Vec<String>,
}

/// The progress of a sync that opens the gate for its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Written to the connection.
    Written,
    /// Confirmed by the shim.
    Confirmed,
}

/// The name of a request; keys are unique only within an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestName {
    pub(super) application: Arc<str>,
    pub(super) key: Arc<str>,
}

impl RequestName {
    fn new(application: &str, key: &str) -> Self {
        Self { application: application.into(), key: key.into() }
    }
}

/// The shim's cache as far as the scheduler determines it.
#[derive(Debug)]
pub(super) struct Cache {
    seq: u64,
    /// The gate and its timeout. `None` while no stream keeps a cache.
    gate: Option<(Gate, Duration)>,
    /// Maximum size of a sync.
    max_bytes: usize,
    /// Allocations that the RM was notified of and has not reported itself, by key. `None` if no
    /// stream was expected to keep a cache, and none ever did.
    ledger: Option<Ledger>,
    /// The partition named last, shared by most entries.
    partition: Arc<str>,
    /// Set if allocations were made before the ledger was kept: a snapshot would be incomplete.
    incomplete: bool,
    /// Requests that the RM reported as running.
    reported: SeededSet<RequestName>,
    /// Entries of `reported` that came with a node which may still be rejected, by node.
    reported_with: HashMap<String, Vec<RequestName>>,
    withheld: VecDeque<Withheld>,
}

/// Placements by allocation key; nearly every key has one application.
type Ledger = SeededMap<Arc<str>, SmallVec<[Placed; 1]>>;

#[derive(Debug)]
struct Placed {
    application: Arc<str>,
    /// Empty if the notification had none.
    uuid: Arc<str>,
    node: Arc<str>,
    partition: Arc<str>,
}

#[derive(Debug)]
struct Withheld {
    seq: u64,
    until: Instant,
    response: si::AllocationResponse,
}

impl Cache {
    /// Creates an empty cache. With `keep`, allocations are recorded for a later stream.
    pub(super) fn new(keep: bool) -> Self {
        Self {
            seq: 0,
            gate: None,
            max_bytes: usize::MAX,
            ledger: keep.then(Ledger::default),
            partition: Arc::from(""),
            incomplete: false,
            reported: SeededSet::default(),
            reported_with: HashMap::new(),
            withheld: VecDeque::new(),
        }
    }

    /// The number of the last sync; 0 for a stream that keeps no cache.
    pub(super) fn seq(&self) -> u64 {
        if self.gate.is_some() { self.seq } else { 0 }
    }

    /// Whether a notification must be recorded or may have to wait. If not, records that new
    /// allocations are missing in the ledger.
    fn must_record(&mut self, n_new: usize) -> bool {
        let is_in_use = self.ledger.is_some() || self.withholds();
        self.incomplete |= !is_in_use && n_new > 0;
        is_in_use
    }

    /// Starts a stream that keeps a cache. Returns the snapshot, or nothing if the ledger is
    /// incomplete.
    pub(super) fn attach(
        &mut self,
        gate: Gate,
        patience: Duration,
        max_bytes: usize,
    ) -> Vec<cb::CacheSync> {
        self.gate = Some((gate, patience));
        self.max_bytes = max_bytes;
        let ledger = self.ledger.get_or_insert_default();
        if self.incomplete {
            return Vec::new();
        }
        let of_key = |(key, placed): (&Arc<str>, &SmallVec<[Placed; 1]>)| -> Vec<_> {
            let placed = placed.iter();
            placed.map(|placed| assumption(&placed.application, key, &placed.node)).collect()
        };
        let mut placed: Vec<_> = ledger.iter().flat_map(of_key).collect();
        placed.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut messages = self.sync(placed, Vec::new());
        if messages.is_empty() {
            messages.push(self.numbered(Vec::new(), Vec::new()));
        }
        for message in &mut messages {
            message.snapshot = true;
        }
        if let Some(last) = messages.last_mut() {
            last.snapshot_end = true;
        }
        messages
    }

    /// Records the loss of the stream. Returns the withheld responses.
    pub(super) fn detach(&mut self) -> Vec<si::AllocationResponse> {
        self.gate = None;
        self.withheld.drain(..).map(|withheld| withheld.response).collect()
    }

    /// Records a notification like [`Self::pass`], if nothing else is needed; otherwise returns
    /// false. `confirm` is called with each new allocation.
    pub(super) fn record(
        &mut self,
        notification: &AllocationNotices<'_>,
        mut confirm: impl FnMut(NewAllocation<'_>),
    ) -> bool {
        if !self.must_record(notification.new_allocations().len()) {
            return true;
        }
        if self.gate.is_some() || self.withholds() {
            return false;
        }
        for new in notification.new_allocations() {
            confirm(new);
            let name = RequestName {
                application: Arc::clone(new.application_id()),
                key: Arc::clone(new.allocation_key()),
            };
            let uuid = new.uuid().cloned().unwrap_or_default();
            self.insert_placed(name, uuid, Arc::clone(new.node_id()), new.partition_name());
        }
        let _ = self.note_others(notification.others());
        true
    }

    /// Records everything except new allocations. Returns the allocations released or removed.
    fn note_others(&mut self, response: &si::AllocationResponse) -> Vec<cb::ForgotAllocation> {
        for rejected in &response.rejected_allocations {
            let name = RequestName::new(&rejected.application_id, &rejected.allocation_key);
            self.reported.remove(&name);
        }
        response.released.iter().filter_map(|release| self.remove_released(release)).collect()
    }

    /// Processes a response for the RM. `is_assumed` says whether the shim already assumed an
    /// allocation with its answer.
    pub(super) fn pass(
        &mut self,
        now: Instant,
        response: si::AllocationResponse,
        mut is_assumed: impl FnMut(&si::Allocation) -> bool,
    ) -> CacheStep {
        if !self.must_record(response.new.len()) {
            return CacheStep { deliver: vec![response], ..CacheStep::default() };
        }
        let (mut assumed, mut gone) = (Vec::new(), Vec::new());
        for allocation in &response.new {
            let known = is_assumed(allocation);
            let si::Allocation { application_id, allocation_key, node_id, .. } = allocation;
            let name = RequestName::new(application_id, allocation_key);
            let [uuid, node] = [&*allocation.uuid, &**node_id].map(Arc::from);
            if self.insert_placed(name, uuid, node, &allocation.partition_name) && !known {
                assumed.push(assumption(application_id, allocation_key, node_id));
            }
        }
        gone.extend(self.note_others(&response));
        let mut step = CacheStep::default();
        if self.gate.is_some() && !assumed.is_empty() {
            step.assume = self.sync(assumed, Vec::new());
        }
        match (self.gate, step.assume.last()) {
            (Some((_, patience)), Some(sync)) => {
                let (seq, until) = (sync.cache_seq, now + patience);
                self.withheld.push_back(Withheld { seq, until, response });
            }
            // The response must not overtake withheld ones.
            (Some((_, patience)), None) if !self.withheld.is_empty() => {
                let withheld = Withheld { seq: 0, until: now + patience, response };
                self.withheld.push_back(withheld);
            }
            _ => step.deliver.push(response),
        }
        // Sent even if the release is withheld: later questions depend on it.
        if self.gate.is_some() && !gone.is_empty() {
            step.forget = self.sync(Vec::new(), gone);
        }
        step
    }

    /// Records that syncs up to `seq` were written to the connection. Returns the responses whose
    /// gate this opens.
    pub(super) fn written(&mut self, seq: u64) -> Vec<si::AllocationResponse> {
        match self.gate {
            Some((Gate::Written, _)) => self.pass_gate(seq),
            Some((Gate::Confirmed, _)) | None => Vec::new(),
        }
    }

    fn pass_gate(&mut self, seq: u64) -> Vec<si::AllocationResponse> {
        let mut passed = Vec::new();
        while let Some(withheld) = self.withheld.front()
            && withheld.seq <= seq
        {
            passed.extend(self.withheld.pop_front().map(|withheld| withheld.response));
        }
        passed
    }

    /// Whether responses are withheld.
    pub(super) fn withholds(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Whether withheld responses wait for the shim's confirmation.
    pub(super) fn awaits_confirmation(&self) -> bool {
        self.withholds() && matches!(self.gate, Some((Gate::Confirmed, _)))
    }

    /// Takes the responses withheld for too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<si::AllocationResponse> {
        let mut overdue = Vec::new();
        while let Some(withheld) = self.withheld.front()
            && withheld.until <= now
        {
            overdue.extend(self.withheld.pop_front().map(|withheld| withheld.response));
        }
        overdue
    }

    /// When the next response is [overdue](Self::overdue).
    pub(super) fn due(&self) -> Option<Instant> {
        self.withheld.front().map(|withheld| withheld.until)
    }

    /// Makes the shim forget requests that it may have assumed. A request that was allocated since,
    /// or whose assumption stands according to `assumed_on`, is assumed again instead.
    pub(super) fn forget(
        &mut self,
        requests: &[RequestName],
        assumed_on: impl Fn(&RequestName) -> Option<Arc<str>>,
    ) -> Vec<cb::CacheSync> {
        if self.gate.is_none() || requests.is_empty() {
            return Vec::new();
        }
        let (mut again, mut gone) = (Vec::new(), Vec::new());
        for request in requests {
            let RequestName { application, key } = request;
            let of_key = self.ledger.as_ref().and_then(|ledger| ledger.get(&**key));
            let placed = of_key.and_then(|of_key| {
                of_key.iter().rev().find(|placed| *placed.application == **application)
            });
            if let Some(placed) = placed {
                again.push(assumption(application, key, &placed.node));
            } else if let Some(node) = assumed_on(request) {
                again.push(assumption(application, key, &node));
            } else {
                gone.push(forgotten(application, key));
            }
        }
        // A new assumption replaces the earlier one.
        self.sync(again, gone)
    }

    /// Records a request that the RM reports as running. Returns whether it is new.
    pub(super) fn reported(&mut self, application: &str, key: &str) -> bool {
        let Some(ledger) = &mut self.ledger else { return false };
        remove_newest(ledger, key, |placed| *placed.application == *application);
        self.reported.insert(RequestName::new(application, key))
    }

    /// Records a request reported with a new node, until that [is answered](Self::node_answered).
    pub(super) fn reported_with(&mut self, node: &str, application: &str, key: &str) {
        if self.reported(application, key) {
            let name = RequestName::new(application, key);
            self.reported_with.entry(node.to_owned()).or_default().push(name);
        }
    }

    /// Records whether a node was accepted with everything reported with it.
    pub(super) fn node_answered(&mut self, node: &str, accepted: bool) {
        let names = self.reported_with.remove(node);
        if !accepted {
            for name in names.into_iter().flatten() {
                self.reported.remove(&name);
            }
        }
    }

    /// Records a release by the RM that the scheduler does not answer.
    pub(super) fn released_by_rm(&mut self, release: &si::AllocationRelease) {
        let _ = self.remove_released(release);
    }

    /// Records an allocation, unless the RM has reported it itself. Returns whether it was
    /// recorded.
    fn insert_placed(
        &mut self,
        name: RequestName,
        uuid: Arc<str>,
        node: Arc<str>,
        partition_name: &str,
    ) -> bool {
        let Some(ledger) = &mut self.ledger else { return false };
        if self.reported.contains(&name) {
            return false;
        }
        if *self.partition != *partition_name {
            self.partition = Arc::from(partition_name);
        }
        let RequestName { application, key } = name;
        let of_key = ledger.entry(key).or_default();
        // The RM has returned the earlier allocation, and the request was allocated again.
        of_key.retain(|one| one.application != application || one.uuid != uuid);
        of_key.push(Placed { application, uuid, node, partition: Arc::clone(&self.partition) });
        true
    }

    fn remove_released(&mut self, release: &si::AllocationRelease) -> Option<cb::ForgotAllocation> {
        let ledger = self.ledger.as_mut()?;
        let si::AllocationRelease { application_id, allocation_key, uuid, .. } = release;
        let key = match (&**allocation_key, uuid.rsplit_once('#')) {
            ("", Some((key, _))) if !ledger.contains_key(&**uuid) => key,
            ("", _) => uuid,
            (key, _) => key,
        };
        let is_it = |placed: &Placed| {
            *placed.application == **application_id && (uuid.is_empty() || *placed.uuid == **uuid)
        };
        let placed = remove_newest(ledger, key, is_it).is_some();
        let reported = self.reported.remove(&RequestName::new(application_id, key));
        (placed || reported).then(|| forgotten(application_id, key))
    }

    /// Splits assumed and forgotten allocations into syncs; forgotten ones come last.
    fn sync(
        &mut self,
        assumed: Vec<cb::AssumedAllocation>,
        forgotten: Vec<cb::ForgotAllocation>,
    ) -> Vec<cb::CacheSync> {
        let max_bytes = self.max_bytes.saturating_sub(SYNC_OVERHEAD_BYTES);
        let assumed = portions(assumed, SYNC_ITEMS, max_bytes);
        let mut syncs: Vec<_> = assumed.map(|portion| self.numbered(portion, Vec::new())).collect();
        let forgotten = portions(forgotten, SYNC_ITEMS, max_bytes);
        syncs.extend(forgotten.map(|portion| self.numbered(Vec::new(), portion)));
        syncs
    }

    fn numbered(
        &mut self,
        assumed_allocations: Vec<cb::AssumedAllocation>,
        forget_allocations: Vec<cb::ForgotAllocation>,
    ) -> cb::CacheSync {
        self.seq += 1;
        let args = cb::CacheSyncArgs { assumed_allocations, forget_allocations };
        cb::CacheSync { cache_seq: self.seq, args: Some(args), ..Default::default() }
    }
}

/// The order of a snapshot.
fn order(one: &cb::AssumedAllocation) -> (&str, &str, &str) {
    (&one.allocation_key, &one.application_id, &one.node_id)
}

fn assumption(application: &str, key: &str, node: &str) -> cb::AssumedAllocation {
    cb::AssumedAllocation {
        allocation_key: key.to_owned(),
        node_id: node.to_owned(),
        application_id: application.to_owned(),
    }
}

fn forgotten(application: &str, key: &str) -> cb::ForgotAllocation {
    cb::ForgotAllocation { allocation_key: key.to_owned(), application_id: application.to_owned() }
}

/// Removes the newest allocation of that key for which `is_it` holds.
fn remove_newest(
    ledger: &mut Ledger,
    key: &str,
    is_it: impl Fn(&Placed) -> bool,
) -> Option<Placed> {
    let of_key = ledger.get_mut(key)?;
    let placed = of_key.remove(of_key.iter().rposition(is_it)?);
    if of_key.is_empty() {
        ledger.remove(key);
    }
    Some(placed)
}
