//! The shim's view of the cluster, kept in step with the scheduler's decisions.
//!
//! # Why
//! A shim answers predicates from its own view of nodes and pods. Of what the scheduler has just
//! placed it knows nothing until the orchestrator tells it, which takes seconds; it would pass two
//! requests for the same room. So it hears of each allocation here before it is asked anything
//! else.
//!
//! # Invariants
//! * Whatever is told of an allocation leaves here as a [`CacheSync`](cb::CacheSync) first, so that
//!   later questions find the shim's view up to date.
//! * Numbers of syncs rise over all streams of a session.
//! * A stream begins with everything that was told and runs, and was not reported by the RM. There
//!   is one exception: where nobody was to be asked (`callback.predicates` = `none`), and
//!   allocations were told before the first stream that keeps a view, no stream of the session
//!   begins so, and what ends while none is there is never told to be forgotten.
//! * A response whose allocations the shim is to assume is kept back until their sync has passed
//!   the stream's [`Gate`], for a limited time, and no longer than the stream lasts.
//! * Responses leave in the order in which they came, also those that are kept back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{AllocationsTold, NewAllocation};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::outgoing::portions;

#[cfg(test)]
mod tests;

/// Allocations in one message.
const SYNC_ITEMS: usize = 1_000;

/// What a message takes beside its allocations, at most.
const SYNC_OVERHEAD_BYTES: usize = 64;

/// An acknowledgement of what was not sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache sync {acknowledged} is acknowledged, the last one sent is {sent}")]
pub(super) struct NotSent {
    acknowledged: u64,
    sent: u64,
}

/// What a step comes to, in this order: syncs, responses, syncs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CacheStep {
    /// What the shim is to assume before it hears of the allocations.
    pub(super) assume: Vec<cb::CacheSync>,
    /// Responses for the allocation stream.
    pub(super) deliver: Vec<si::AllocationResponse>,
    /// What it is to forget after it has heard of the releases.
    pub(super) forget: Vec<cb::CacheSync>,
}

/// What an acknowledgement comes to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Confirmed {
    /// Responses for the allocation stream.
    pub(super) deliver: Vec<si::AllocationResponse>,
    /// Placements that the shim cannot have, for the scheduler to take back.
    pub(super) undo: Vec<si::AllocationRelease>,
    /// What it is to forget of these, because it may have meant others.
    pub(super) forget: Vec<cb::CacheSync>,
    /// Failures that name no application where several have the key, so that nothing is undone.
    pub(super) ambiguous: Vec<String>,
}

/// How far the syncs of a stream must have got before what they say is told elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// They have been written to the connection.
    Written,
    /// The shim has confirmed them.
    Confirmed,
}

/// A request: keys are unique in their application only.
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

/// The shim's view, as far as the scheduler has made it.
#[derive(Debug)]
pub(super) struct Cache {
    seq: u64,
    /// The gate of the present stream, if that keeps a view, and how long a response waits there.
    gate: Option<(Gate, Duration)>,
    /// No sync may be larger.
    max_bytes: usize,
    /// Allocations that the RM was told of and has not reported itself, by key. None: not kept,
    /// because no stream was expected to keep a view, and none ever did.
    ledger: Option<Ledger>,
    /// The partition that was named last: most RMs have one.
    partition: Arc<str>,
    /// Something was told before the ledger was begun: a list from it would not be complete.
    incomplete: bool,
    /// What the RM reported as running.
    reported: HashSet<RequestName>,
    /// Those of `reported` that came with a node which may yet be refused, by that node.
    reported_with: HashMap<String, Vec<RequestName>>,
    withheld: VecDeque<Withheld>,
}

/// What was placed, by its key; nearly every key is that of one application.
type Ledger = HashMap<Arc<str>, SmallVec<[Placed; 1]>>;

#[derive(Debug)]
struct Placed {
    application: Arc<str>,
    /// Empty where none was told.
    uuid: Arc<str>,
    node: Arc<str>,
    partition: Arc<str>,
}

/// The placements that a failure is about.
enum Meant {
    These(Vec<Placed>),
    /// It names no application, and several have placed the key.
    Unclear,
}

#[derive(Debug)]
struct Withheld {
    seq: u64,
    until: Instant,
    response: si::AllocationResponse,
}

impl Cache {
    /// A view of which nothing was told yet. With `keep`, what is told is remembered for a stream
    /// that will come.
    pub(super) fn new(keep: bool) -> Self {
        Self {
            seq: 0,
            gate: None,
            max_bytes: usize::MAX,
            ledger: keep.then(HashMap::new),
            partition: Arc::from(""),
            incomplete: false,
            reported: HashSet::new(),
            reported_with: HashMap::new(),
            withheld: VecDeque::new(),
        }
    }

    /// The number of the last sync; zero for a stream that keeps no view.
    pub(super) fn seq(&self) -> u64 {
        if self.gate.is_some() { self.seq } else { 0 }
    }

    /// Whether what is told has to be looked at: somebody may want to know of it, or something before it
    /// waits. If not, so many new allocations have gone past.
    fn concerns(&mut self, n_new: usize) -> bool {
        let is_in_use = self.ledger.is_some() || self.withholds();
        self.incomplete |= !is_in_use && n_new > 0;
        is_in_use
    }

    /// A stream that keeps a view begins with the whole of it. Nothing for one that does not, and
    /// where allocations were told before anybody took note.
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
        messages.last_mut().expect("there is one").snapshot_end = true;
        messages
    }

    /// The stream is lost: no gate will open for what is kept back.
    pub(super) fn detach(&mut self) -> Vec<si::AllocationResponse> {
        self.gate = None;
        self.withheld.drain(..).map(|withheld| withheld.response).collect()
    }

    /// As [`Self::pass`], of what is no message yet, where it comes to nothing but notes; or does
    /// nothing. `confirm` hears of each new allocation.
    pub(super) fn notes(
        &mut self,
        told: &AllocationsTold<'_>,
        mut confirm: impl FnMut(NewAllocation<'_>),
    ) -> bool {
        if !self.concerns(told.new_allocations().len()) {
            return true;
        }
        if self.gate.is_some() || self.withholds() {
            return false;
        }
        for new in told.new_allocations() {
            confirm(new);
            let name = RequestName {
                application: Arc::clone(new.application_id()),
                key: Arc::clone(new.allocation_key()),
            };
            let uuid = new.uuid().cloned().unwrap_or_default();
            self.enter(name, uuid, Arc::clone(new.node_id()), new.partition_name());
        }
        let _ = self.note_others(told.others());
        true
    }

    /// Takes note of all but what is new. Returns what was placed or reported and is no more.
    fn note_others(&mut self, response: &si::AllocationResponse) -> Vec<cb::ForgotAllocation> {
        for rejected in &response.rejected_allocations {
            let name = RequestName::new(&rejected.application_id, &rejected.allocation_key);
            self.reported.remove(&name);
        }
        response.released.iter().filter_map(|release| self.leave(release)).collect()
    }

    /// A response on its way to the RM. `is_assumed` says of an allocation whether the
    /// shim knows it already, because it assumed it with its answer.
    pub(super) fn pass(
        &mut self,
        now: Instant,
        response: si::AllocationResponse,
        mut is_assumed: impl FnMut(&si::Allocation) -> bool,
    ) -> CacheStep {
        if !self.concerns(response.new.len()) {
            return CacheStep { deliver: vec![response], ..CacheStep::default() };
        }
        let (mut assumed, mut gone) = (Vec::new(), Vec::new());
        for allocation in &response.new {
            let known = is_assumed(allocation);
            let si::Allocation { application_id, allocation_key, node_id, .. } = allocation;
            let name = RequestName::new(application_id, allocation_key);
            let [uuid, node] = [&*allocation.uuid, &**node_id].map(Arc::from);
            if self.enter(name, uuid, node, &allocation.partition_name) && !known {
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
            // Not to overtake what waits.
            (Some((_, patience)), None) if !self.withheld.is_empty() => {
                let withheld = Withheld { seq: 0, until: now + patience, response };
                self.withheld.push_back(withheld);
            }
            _ => step.deliver.push(response),
        }
        // At once, also where the release waits: later questions rest on it.
        if self.gate.is_some() && !gone.is_empty() {
            step.forget = self.sync(Vec::new(), gone);
        }
        step
    }

    /// The shim has applied everything up to `seq`, but for what failed.
    pub(super) fn acknowledge(&mut self, ack: &cb::CacheSyncAck) -> Result<Confirmed, NotSent> {
        if ack.cache_seq > self.seq {
            return Err(NotSent { acknowledged: ack.cache_seq, sent: self.seq });
        }
        let mut confirmed = Confirmed::default();
        for failure in &ack.failures {
            match self.meant(ack.cache_seq, failure) {
                Meant::These(placed) => {
                    // Which of several it failed to take in is not known: it is to have none.
                    let forgotten: Vec<_> = match &placed[..] {
                        [] | [_] => Vec::new(),
                        several => several
                            .iter()
                            .map(|one| forgotten(&one.application, &failure.allocation_key))
                            .collect(),
                    };
                    confirmed.forget.extend(self.sync(Vec::new(), forgotten));
                    let undone = placed.into_iter().map(|one| self.undo(&one, failure));
                    confirmed.undo.extend(undone);
                }
                Meant::Unclear => confirmed.ambiguous.push(failure.allocation_key.clone()),
            }
        }
        confirmed.deliver = self.pass_gate(ack.cache_seq);
        Ok(confirmed)
    }

    /// Everything up to `seq` has been written to the connection. Returns the responses that waited
    /// for no more than that.
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

    /// Whether responses are kept back.
    pub(super) fn withholds(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Whether what is kept back waits for the shim to confirm it.
    pub(super) fn awaits_confirmation(&self) -> bool {
        self.withholds() && matches!(self.gate, Some((Gate::Confirmed, _)))
    }

    /// Responses that have been kept back for too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<si::AllocationResponse> {
        let mut overdue = Vec::new();
        while let Some(withheld) = self.withheld.front()
            && withheld.until <= now
        {
            overdue.extend(self.withheld.pop_front().map(|withheld| withheld.response));
        }
        overdue
    }

    /// The time at which the next response is [overdue](Self::overdue).
    pub(super) fn due(&self) -> Option<Instant> {
        self.withheld.front().map(|withheld| withheld.until)
    }

    /// The shim may have assumed these requests and shall not: unless they were placed since, or
    /// assumed for good, which is then said again. `assumed_on` knows the latter.
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
        // Assuming it elsewhere takes the place of what was assumed before.
        self.sync(again, gone)
    }

    /// The RM reports this as running: it needs not be told of it. Whether it is new.
    pub(super) fn reported(&mut self, application: &str, key: &str) -> bool {
        let Some(ledger) = &mut self.ledger else { return false };
        take(ledger, key, |placed| *placed.application == *application);
        self.reported.insert(RequestName::new(application, key))
    }

    /// The same, with a node that comes and [is answered](Self::node_answered).
    pub(super) fn reported_with(&mut self, node: &str, application: &str, key: &str) {
        if self.reported(application, key) {
            let name = RequestName::new(application, key);
            self.reported_with.entry(node.to_owned()).or_default().push(name);
        }
    }

    /// The node is taken in with all that was reported with it, or nothing of that.
    pub(super) fn node_answered(&mut self, node: &str, accepted: bool) {
        let names = self.reported_with.remove(node);
        if !accepted {
            for name in names.into_iter().flatten() {
                self.reported.remove(&name);
            }
        }
    }

    /// The RM released this, in a way that is not answered.
    pub(super) fn released_by_rm(&mut self, release: &si::AllocationRelease) {
        let _ = self.leave(release);
    }

    /// Takes note of an allocation, unless the RM has reported it itself. Says whether it is noted.
    fn enter(
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
        // Told again, after the RM gave it back.
        of_key.retain(|one| one.application != application || one.uuid != uuid);
        of_key.push(Placed { application, uuid, node, partition: Arc::clone(&self.partition) });
        true
    }

    fn leave(&mut self, release: &si::AllocationRelease) -> Option<cb::ForgotAllocation> {
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
        let placed = take(ledger, key, is_it).is_some();
        let reported = self.reported.remove(&RequestName::new(application_id, key));
        (placed || reported).then(|| forgotten(application_id, key))
    }

    /// The placements that a failure is about, which are the shim's no more. Of each application
    /// that comes into question it is the newest that waits for this very acknowledgement. Where
    /// none waits, it is the newest of the one application that comes into question.
    fn meant(&mut self, acknowledged: u64, failure: &cb::CacheSyncFailure) -> Meant {
        let cb::CacheSyncFailure { allocation_key: key, application_id, .. } = failure;
        let is_meant =
            |application: &str| application_id.is_empty() || application == application_id;
        let Some(ledger) = &mut self.ledger else { return Meant::These(Vec::new()) };
        let mut waiting: Vec<&si::Allocation> = Vec::new();
        let withheld = self.withheld.iter().rev().filter(|withheld| withheld.seq <= acknowledged);
        for one in withheld.flat_map(|withheld| withheld.response.new.iter().rev()) {
            let is_known = waiting.iter().any(|other| other.application_id == one.application_id);
            if one.allocation_key == *key && is_meant(&one.application_id) && !is_known {
                waiting.push(one);
            }
        }
        if !waiting.is_empty() {
            let placed = waiting.into_iter().filter_map(|one| {
                take(ledger, key, |placed| {
                    *placed.application == *one.application_id && *placed.uuid == *one.uuid
                })
            });
            return Meant::These(placed.collect());
        }
        let of_key = ledger.get(&**key).into_iter().flatten();
        let mut applications = of_key.map(|placed| &placed.application);
        let first = applications.find(|application| is_meant(application));
        if applications.any(|other| is_meant(other) && Some(other) != first) {
            return Meant::Unclear;
        }
        Meant::These(
            take(ledger, key, |placed| is_meant(&placed.application)).into_iter().collect(),
        )
    }

    /// Takes a placement back that the shim cannot have. It is not told if it still waits.
    fn undo(&mut self, placed: &Placed, failure: &cb::CacheSyncFailure) -> si::AllocationRelease {
        for withheld in &mut self.withheld {
            // Where none was told, the UUID is the same for all; where one key has several, the key is.
            let is_it = |one: &si::Allocation| {
                *one.application_id == *placed.application
                    && one.allocation_key == failure.allocation_key
                    && *one.uuid == *placed.uuid
            };
            withheld.response.new.retain(|allocation| !is_it(allocation));
        }
        si::AllocationRelease {
            application_id: placed.application.to_string(),
            uuid: placed.uuid.to_string(),
            allocation_key: failure.allocation_key.clone(),
            partition_name: placed.partition.to_string(),
            termination_type: si::TerminationType::SchedulingFailedOnRm.into(),
            message: failure.reason.clone(),
            exclude_node: !failure.retryable,
            ..Default::default()
        }
    }

    /// As many syncs as it takes; what is forgotten comes last.
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

/// The order of a complete list.
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

/// Takes the newest of the allocations of that key that `is_it`.
fn take(ledger: &mut Ledger, key: &str, is_it: impl Fn(&Placed) -> bool) -> Option<Placed> {
    let of_key = ledger.get_mut(key)?;
    let placed = of_key.remove(of_key.iter().rposition(is_it)?);
    if of_key.is_empty() {
        ledger.remove(key);
    }
    Some(placed)
}
