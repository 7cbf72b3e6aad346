//! Why pods wait, and when that is reported.
//!
//! # Invariants
//! * A condition is written when its reason or object changes; numbers in its message do not count.
//!   There is at most one in [`APART`] for each pod, and all together keep to the configured rate.
//! * `Unschedulable`, which makes autoscalers add nodes, is written only if the engine has
//!   signalled that more nodes would help, or if there has been no node for [`NO_NODE`].

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::Fits;

use super::applications::warning;
use super::messages::{ApiOrder, Condition, Explanation, Key};
use super::record::EngineState;
use super::{Shim, known, open};
use crate::translate::hold_key;

/// Shortest pause between two conditions of a pod.
pub(super) const APART: Duration = Duration::from_secs(30);
/// How long a pod may be pending before the shim asks why.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest time after an ask until the engine has signalled whether more nodes would help.
const SIGNAL: Duration = Duration::from_secs(4);
/// How long a cluster must be without nodes before pods are reported as `Unschedulable`.
const NO_NODE: Duration = Duration::from_secs(10);
/// Longest delay of a pod's first condition because nodes are still counted.
const PATIENCE_TO_COUNT: Duration = Duration::from_secs(20);
/// Pause before a pod whose nodes are still counted is examined again.
const COUNTING: Duration = Duration::from_secs(1);
/// Counting rounds per tick, about 0.5 ms each.
const COUNTED_AT_ONCE: usize = 5;
/// Most groups of a gang whose nodes are counted before its pods get a condition.
const GROUPS_COUNTED: usize = 20;
/// Most keys of each class that an explanation lists.
const KEYS_NAMED: usize = 1_000;
/// Most classes that an explanation lists.
const CLASSES_NAMED: usize = 20;

/// Something to be retried at a certain time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A pod.
    Pod(Key),
    /// All pods of an application.
    Application(Arc<str>),
    /// Asks that wait until places are held again.
    HeldAgain,
}

/// Why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitReason {
    pub(super) reason: String,
    pub(super) object: String,
    pub(super) message: String,
}

/// The last condition of a pod about its waiting.
#[derive(Debug)]
pub(super) struct WrittenReason {
    why: WaitReason,
    at: Duration,
    /// Whether it could not be written.
    has_failed: bool,
}

/// Returns whether the cause is that no node fits.
fn is_about_nodes(entry: &Explanation) -> bool {
    matches!(
        entry.cause.as_str(),
        "noNode" | "predicates" | "constraints" | "topology" | "requiredNode" | "gang"
    )
}

impl WaitReason {
    pub(super) fn new(reason: &str, object: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), object: object.to_owned(), message: message.into() }
    }

    /// Returns whether both have the same reason and object. Their messages may differ by numbers.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.reason, &self.object) == (&other.reason, &other.object)
    }

    /// Converts the engine's explanation into a reason for a condition.
    fn explained(entry: &Explanation, scale_up: bool) -> Self {
        let is_about_nodes = is_about_nodes(entry);
        let reason = match entry.cause.as_str() {
            _ if scale_up && is_about_nodes => "Unschedulable".to_owned(),
            "gang" | "placeholders" => "WaitingForGang".to_owned(),
            cause => {
                let mut letters = cause.chars();
                let first = letters.next().map(|letter| letter.to_ascii_uppercase());
                first.into_iter().chain(letters).collect()
            }
        };
        // The nearest node changes like a number, so it does not count. The cause does.
        let object = if is_about_nodes { &entry.cause } else { &entry.object };
        Self::new(&reason, object, entry.message.clone())
    }
}

impl Shim {
    /// Schedules a retry.
    pub(super) fn alarm(&mut self, at: Duration, alarm: Alarm) {
        self.alarms.insert((at, alarm));
    }

    /// Schedules the next examination of a pod, in place of an earlier one.
    fn set_due(&mut self, key: &Key, at: Duration) {
        let Some(record) = known(&mut self.pods, key) else { return };
        if let Some(due) = record.due.replace(at) {
            self.due.remove(&(due, Arc::clone(key)));
        }
        self.due.insert((at, Arc::clone(key)));
    }

    /// Schedules an examination of a pod, unless an earlier one is scheduled.
    pub(super) fn schedule(&mut self, key: &Key, at: Duration) {
        let due = self.pods.get(key).and_then(|record| record.due);
        if due.is_none_or(|due| due > at) {
            self.set_due(key, at);
        }
    }

    /// Schedules an examination of a pending pod soon.
    pub(super) fn examine_soon(&mut self, key: &Key, now: Duration) {
        self.schedule(key, now + PATIENCE);
    }

    /// Returns when [`Self::tick`], and then [`Self::engine_orders`], must be called.
    pub fn next_tick(&self) -> Option<Duration> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        let due = self.due.first().map(|(at, _)| *at);
        let due = due.into_iter().chain(self.group_conditions.first_turn()).min();
        // Another replica writes why pods wait.
        let due = due.filter(|_| self.leads);
        let due = due.map(|at| {
            let refilled = self.refilled + Duration::from_secs_f64(1.0 / self.rate);
            if self.has_budget() { at } else { refilled.max(at) }
        });
        alarm.into_iter().chain(due).chain(self.counts_at).chain(self.orders.due()).min()
    }

    /// Does what is due at this time.
    pub fn tick(&mut self, now: Duration) {
        self.refill(now);
        self.count_on(now);
        while let Some((at, _)) = self.alarms.first()
            && *at <= now
        {
            match self.alarms.pop_first() {
                Some((_, Alarm::Pod(key))) => self.reconcile(&key, now),
                Some((_, Alarm::Application(id))) => self.reconcile_all(&id, now),
                Some((_, Alarm::HeldAgain)) => self.continue_holding(now),
                None => break,
            }
        }
        if !self.leads {
            return;
        }
        self.order_group_conditions(now);
        // A pod that may not get a condition yet keeps its turn.
        while self.has_budget()
            && let Some((at, _)) = self.due.first()
            && *at <= now
            && let Some((_, key)) = self.due.pop_first()
        {
            if let Some(record) = self.pods.get_mut(&key) {
                record.due = None;
            }
            if self.is_active {
                self.examine(&key, now);
            }
        }
    }

    /// Counts nodes for explanations, for a few milliseconds.
    fn count_on(&mut self, now: Duration) {
        if self.counts_at.is_none_or(|at| at > now) {
            return;
        }
        for _ in 0..COUNTED_AT_ONCE {
            // The lock is released in between for predicates.
            if open(&self.scene).count_fits() == 0 {
                break;
            }
        }
        let is_left = open(&self.scene).has_to_count();
        self.counts_at = is_left.then_some(now);
    }

    /// Returns whether the nodes are counted for a pod, and for the groups of its gang. If not,
    /// they are from now on.
    fn is_counted(&mut self, key: &Key, id: &Arc<str>, now: Duration) -> bool {
        if !self.counts_nodes {
            return true;
        }
        let gang = self.applications.get(id).and_then(|application| application.gang.as_ref());
        let held = gang.into_iter().flat_map(|gang| gang.templates.keys());
        let mut scene = open(&self.scene);
        let mut is_counted = !matches!(scene.fits(key), Fits::Counting);
        for group in held.take(GROUPS_COUNTED) {
            is_counted &= !matches!(scene.fits(&hold_key(id, group)), Fits::Counting);
        }
        if !is_counted {
            self.counts_at.get_or_insert(now);
        }
        is_counted
    }

    /// Examines why a pod waits.
    fn examine(&mut self, key: &Key, now: Duration) {
        self.reconcile(key, now);
        let Some(record) = self.pods.get(key) else { return };
        if record.pod.node().is_some() || record.is_gone {
            return;
        }
        match (&record.engine, &record.blocked_by, &record.application) {
            (EngineState::Absent, Some(why), application) => {
                let (why, application) = (why.clone(), application.clone());
                self.write_condition(key, &why, now);
                if let Some(id) = application {
                    self.report_group(&id, false, &why, now);
                }
            }
            (EngineState::Asked, _, Some(application)) => {
                let (application, asked) = (Arc::clone(application), record.asked);
                // The first condition stays for long, so it is delayed until it is complete.
                if self.is_counted(key, &application, now) || asked + PATIENCE_TO_COUNT <= now {
                    self.ask_why(application, None, Arc::clone(key));
                } else {
                    self.schedule(key, now + COUNTING);
                }
            }
            _ => {}
        }
    }

    /// Asks the engine why a pod is pending: about its application, or about the pod alone.
    fn ask_why(&mut self, application: Arc<str>, about: Option<Key>, key: Key) {
        let explaining =
            self.explaining.entry((Arc::clone(&application), about.clone())).or_default();
        if explaining.is_empty() {
            self.orders.explain(application, about);
        }
        explaining.push(key);
        self.n_explaining += 1;
    }

    pub(super) fn explained(
        &mut self,
        id: &Arc<str>,
        about: Option<&Key>,
        entries: &[Explanation],
        now: Duration,
    ) {
        let asked = (Arc::clone(id), about.cloned());
        let explaining = self.explaining.remove(&asked).unwrap_or_default();
        self.n_explaining = self.n_explaining.saturating_sub(explaining.len());
        let whole = entries.iter().find(|entry| entry.keys.is_empty());
        let by_key: rustc_hash::FxHashMap<&str, &Explanation> = entries
            .iter()
            .flat_map(|entry| entry.keys.iter().map(move |key| (&**key, entry)))
            .collect();
        // The only class that is too large to be listed in full, if all classes are listed.
        let mut large = entries.iter().filter(|entry| entry.keys.len() >= KEYS_NAMED);
        let large = large.next().filter(|_| large.next().is_none());
        let large = large.filter(|_| entries.len() < CLASSES_NAMED);
        let mut of_group = None;
        for key in explaining {
            let Some(record) = self.pods.get(&key) else { continue };
            if record.engine != EngineState::Asked {
                continue;
            }
            let Some(entry) = by_key.get(&*key).copied().or(large) else {
                if about.is_none() && !entries.is_empty() {
                    self.ask_why(Arc::clone(id), Some(Arc::clone(&key)), key);
                } else {
                    // The engine did not answer, or has just placed the pod.
                    self.schedule(&key, now + 2 * PATIENCE);
                }
                continue;
            };
            // A member waits for its gang, whose entry says what is missing.
            let entry = if entry.cause == "gang" { whole.unwrap_or(entry) } else { entry };
            if entry.cause == "next" {
                self.schedule(&key, now + 2 * PATIENCE);
                continue;
            }
            // Without nodes the engine tries nothing, and another node would help.
            let is_without = self.no_node_since.is_some_and(|since| since + NO_NODE <= now);
            let scale_up = record.scale_up || is_without;
            let signal = if self.no_node_since.is_some() { NO_NODE } else { SIGNAL };
            let is_early = record.written.is_none() && record.asked + signal > now;
            if is_early && !scale_up && is_about_nodes(entry) {
                self.schedule(&key, now + PATIENCE);
                continue;
            }
            let why = WaitReason::explained(entry, scale_up);
            self.write_condition(&key, &why, now);
            of_group = Some(why);
        }
        if let Some(why) = of_group {
            self.report_group(id, false, &why, now);
        }
    }

    /// Handles a condition that could not be written. The pod is examined again after a pause.
    pub(super) fn condition_failed(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if let Some(last) = &mut record.written {
            last.has_failed = true;
            let at = now.max(last.at + APART);
            self.schedule(key, at);
        }
    }

    /// Writes why a pod waits, if that has changed, with a pause between two conditions.
    fn write_condition(&mut self, key: &Key, why: &WaitReason, now: Duration) {
        let Some(record) = known(&mut self.pods, key) else { return };
        let last = record.written.as_ref();
        let is_same = last.is_some_and(|last| last.why.is_same(why));
        let has_failed = last.is_some_and(|last| last.has_failed);
        let at = if is_same && !has_failed {
            now + 2 * APART
        } else if let Some(last) = last.filter(|last| last.at + APART > now) {
            last.at + APART
        } else {
            let is_written = record.pod.condition("PodScheduled").is_some_and(|condition| {
                condition.reason.as_deref() == Some(&why.reason)
                    && condition.message.as_deref() == Some(&why.message)
            });
            record.written = Some(WrittenReason { why: why.clone(), at: now, has_failed: false });
            if !is_written {
                self.budget -= 1.0;
                self.meters.conditions.inc();
                self.api_orders.push(ApiOrder::Condition(Condition {
                    key: Arc::clone(key),
                    pod: Arc::clone(&record.pod),
                    reason: why.reason.clone(),
                    message: why.message.clone(),
                }));
                // `kubectl describe` prints events instead of conditions.
                if !is_same {
                    let message = format!("{}: {}", why.reason, why.message);
                    let event = warning(&record.pod, "FailedScheduling", "Scheduling", message);
                    self.api_orders.push(event);
                }
            }
            now + 2 * APART
        };
        self.set_due(key, at);
    }
}
