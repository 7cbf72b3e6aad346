//! Why pods wait, and when that is told.
//!
//! # Invariants
//! * A condition is written when its reason or its object changes, not its numbers; at most once in
//!   [`APART`] for a pod, and all together at the rate that is set.
//! * `Unschedulable`, for which autoscalers buy machines, is written only where the engine has said that
//!   more machines would help, or where there has been no node for [`NO_NODE`].

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::Fits;

use super::applications::warning;
use super::record::Told;
use super::said::{Condition, Explanation, HandOrder, Key};
use super::{Shim, open};
use crate::translate::hold_key;

/// Between two conditions of a pod.
pub(super) const APART: Duration = Duration::from_secs(30);
/// What is placed before is not asked about.
const PATIENCE: Duration = Duration::from_secs(1);
/// The engine says this long after a request, at the latest, whether more machines would help.
const SIGNAL: Duration = Duration::from_secs(4);
/// How long there has to be no node before a pod is told that machines are missing.
const NO_NODE: Duration = Duration::from_secs(10);
/// The longest that a pod is not told why it waits because nodes are still counted.
const PATIENCE_TO_COUNT: Duration = Duration::from_secs(20);
/// The pause between two looks at whether nodes are counted.
const COUNTING: Duration = Duration::from_secs(1);
/// Counting rounds in a tick, about half a millisecond each.
const COUNTED_AT_ONCE: usize = 5;
/// Groups of a gang for which nodes are counted before its pods are told why they wait.
const GROUPS_COUNTED: usize = 20;
/// Keys of each class that an explanation names at the most.
const KEYS_NAMED: usize = 1_000;
/// Classes that an explanation has at the most.
const CLASSES_NAMED: usize = 20;

/// What something else is to be tried for at some time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A pod.
    Pod(Key),
    /// All pods of an application.
    Application(Arc<str>),
    /// Pods that wait until places are held again.
    HeldAgain,
}

/// Why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    pub(super) reason: String,
    pub(super) object: String,
    pub(super) message: String,
}

/// Why a pod waits, as it was told.
#[derive(Debug)]
pub(super) struct WhyTold {
    reason: String,
    object: String,
    at: Duration,
    /// It could not be written.
    has_failed: bool,
}

/// Whether the cause is that no node will do.
fn is_about_nodes(entry: &Explanation) -> bool {
    matches!(
        entry.cause.as_str(),
        "noNode" | "predicates" | "constraints" | "topology" | "requiredNode" | "gang"
    )
}

impl Why {
    pub(super) fn new(reason: &str, object: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), object: object.to_owned(), message: message.into() }
    }

    /// The reason of a condition for a cause of the engine.
    fn explained(entry: &Explanation, wants_nodes: bool) -> Self {
        let is_about_nodes = is_about_nodes(entry);
        let reason = match entry.cause.as_str() {
            _ if wants_nodes && is_about_nodes => "Unschedulable".to_owned(),
            "gang" | "placeholders" => "WaitingForGang".to_owned(),
            cause => {
                let mut letters = cause.chars();
                let first = letters.next().map(|letter| letter.to_ascii_uppercase());
                first.into_iter().chain(letters).collect()
            }
        };
        // The node that comes nearest is a number like any other; what keeps it off nodes is none.
        let object = if is_about_nodes { &entry.cause } else { &entry.object };
        Self::new(&reason, object, entry.message.clone())
    }
}

impl Shim {
    /// Has something be tried at that time.
    pub(super) fn alarm(&mut self, at: Duration, alarm: Alarm) {
        self.alarms.insert((at, alarm));
    }

    /// Has a pod be looked at then, and not before.
    fn set_due(&mut self, key: &Key, at: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if let Some(due) = record.due.replace(at) {
            self.due.remove(&(due, Arc::clone(key)));
        }
        self.due.insert((at, Arc::clone(key)));
    }

    /// Has a pod be looked at then, unless it is before.
    pub(super) fn schedule(&mut self, key: &Key, at: Duration) {
        let due = self.pods.get(key).and_then(|record| record.due);
        if due.is_none_or(|due| due > at) {
            self.set_due(key, at);
        }
    }

    /// Has a pod that waits be looked at soon.
    pub(super) fn look_at(&mut self, key: &Key, now: Duration) {
        self.schedule(key, now + PATIENCE);
    }

    /// When [`Self::tick`] is to be called at the latest, and then [`Self::engine_orders`].
    pub fn next_tick(&self) -> Option<Duration> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        let due = self.due.first().map(|(at, _)| *at);
        let due = due.into_iter().chain(self.group_words.first_turn()).min();
        let due = due.map(|at| {
            let refilled = self.refilled + Duration::from_secs_f64(1.0 / self.rate);
            if self.may_say() { at } else { refilled.max(at) }
        });
        alarm.into_iter().chain(due).chain(self.counts_at).chain(self.orders.due()).min()
    }

    /// Time passes.
    pub fn tick(&mut self, now: Duration) {
        self.refill(now);
        self.count_on(now);
        while let Some((at, _)) = self.alarms.first()
            && *at <= now
        {
            match self.alarms.pop_first() {
                Some((_, Alarm::Pod(key))) => self.reconcile(&key, now),
                Some((_, Alarm::Application(id))) => self.reconcile_all(&id, now),
                Some((_, Alarm::HeldAgain)) => self.go_on_holding(now),
                None => break,
            }
        }
        self.say_group_words(now);
        // Who cannot be told yet stays in the row, which is one of time.
        while self.may_say()
            && let Some((at, _)) = self.due.first()
            && *at <= now
            && let Some((_, key)) = self.due.pop_first()
        {
            if let Some(record) = self.pods.get_mut(&key) {
                record.due = None;
            }
            if self.is_active {
                self.look(&key, now);
            }
        }
    }

    /// Counts on what nodes say by themselves, a few milliseconds long.
    fn count_on(&mut self, now: Duration) {
        if self.counts_at.is_none_or(|at| at > now) {
            return;
        }
        for _ in 0..COUNTED_AT_ONCE {
            // Whoever is asked for predicates has the scene in between.
            if open(&self.scene).count_fits() == 0 {
                break;
            }
        }
        let is_left = open(&self.scene).has_to_count();
        self.counts_at = is_left.then_some(now);
    }

    /// Whether it is known of all nodes what they say by themselves to a pod, and to those for whom its gang
    /// wants places; from now on it is counted.
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

    /// Finds out why a pod waits.
    fn look(&mut self, key: &Key, now: Duration) {
        self.reconcile(key, now);
        let Some(record) = self.pods.get(key) else { return };
        if record.pod.node().is_some() || record.is_gone {
            return;
        }
        match (&record.told, &record.waits_for, &record.application) {
            (Told::Nothing, Some(why), application) => {
                let (why, application) = (why.clone(), application.clone());
                self.tell(key, &why, now);
                if let Some(id) = application {
                    self.tell_group(&id, false, &why, now);
                }
            }
            (Told::Asked, _, Some(application)) => {
                let (application, asked) = (Arc::clone(application), record.asked);
                // What is told first stands for long, so it waits until it can be told in full.
                if self.is_counted(key, &application, now) || asked + PATIENCE_TO_COUNT <= now {
                    self.ask_why(application, None, Arc::clone(key));
                } else {
                    self.schedule(key, now + COUNTING);
                }
            }
            _ => {}
        }
    }

    /// Asks the engine why a pod waits: about its application, or about it alone.
    fn ask_why(&mut self, application: Arc<str>, about: Option<Key>, key: Key) {
        let asking = self.asking.entry((Arc::clone(&application), about.clone())).or_default();
        if asking.is_empty() {
            self.orders.explain(application, about);
        }
        asking.push(key);
        self.n_asking += 1;
    }

    pub(super) fn explained(
        &mut self,
        id: &Arc<str>,
        about: Option<&Key>,
        entries: &[Explanation],
        now: Duration,
    ) {
        let asked = (Arc::clone(id), about.cloned());
        let asking = self.asking.remove(&asked).unwrap_or_default();
        self.n_asking = self.n_asking.saturating_sub(asking.len());
        let whole = entries.iter().find(|entry| entry.keys.is_empty());
        let by_key: rustc_hash::FxHashMap<&str, &Explanation> = entries
            .iter()
            .flat_map(|entry| entry.keys.iter().map(move |key| (&**key, entry)))
            .collect();
        // Of a class that is too large to be named in full, where there is one and all are there.
        let mut large = entries.iter().filter(|entry| entry.keys.len() >= KEYS_NAMED);
        let large = large.next().filter(|_| large.next().is_none());
        let large = large.filter(|_| entries.len() < CLASSES_NAMED);
        let mut of_group = None;
        for key in asking {
            let Some(record) = self.pods.get(&key) else { continue };
            if record.told != Told::Asked {
                continue;
            }
            let Some(entry) = by_key.get(&*key).copied().or(large) else {
                if about.is_none() && !entries.is_empty() {
                    self.ask_why(Arc::clone(id), Some(Arc::clone(&key)), key);
                } else {
                    // It could not be asked, or has just been placed.
                    self.schedule(&key, now + 2 * PATIENCE);
                }
                continue;
            };
            // What a member waits for is the gang, and that says who lacks what.
            let entry = if entry.cause == "gang" { whole.unwrap_or(entry) } else { entry };
            if entry.cause == "next" {
                self.schedule(&key, now + 2 * PATIENCE);
                continue;
            }
            // Where there is no node nothing is tried, and a machine is what is missing all the same.
            let is_without = self.no_node_since.is_some_and(|since| since + NO_NODE <= now);
            let wants_nodes = record.wants_nodes || is_without;
            let signal = if self.no_node_since.is_some() { NO_NODE } else { SIGNAL };
            let is_early = record.why.is_none() && record.asked + signal > now;
            if is_early && !wants_nodes && is_about_nodes(entry) {
                self.schedule(&key, now + PATIENCE);
                continue;
            }
            let why = Why::explained(entry, wants_nodes);
            self.tell(&key, &why, now);
            of_group = Some(why);
        }
        if let Some(why) = of_group {
            self.tell_group(id, false, &why, now);
        }
    }

    /// Why a pod waits could not be written. After a pause it is looked at again, and what it waits for then is
    /// written.
    pub(super) fn condition_failed(&mut self, key: &Key, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if let Some(told) = &mut record.why {
            told.has_failed = true;
            let at = now.max(told.at + APART);
            self.schedule(key, at);
        }
    }

    /// Writes why a pod waits, if that is something else than what stands there; not soon again.
    fn tell(&mut self, key: &Key, why: &Why, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let told = record.why.as_ref();
        let is_same =
            told.is_some_and(|told| (&told.reason, &told.object) == (&why.reason, &why.object));
        let has_failed = told.is_some_and(|told| told.has_failed);
        let at = if is_same && !has_failed {
            now + 2 * APART
        } else if let Some(told) = told.filter(|told| told.at + APART > now) {
            told.at + APART
        } else {
            let stands_there = record.pod.condition("PodScheduled").is_some_and(|condition| {
                condition.reason.as_deref() == Some(&why.reason)
                    && condition.message.as_deref() == Some(&why.message)
            });
            record.why = Some(WhyTold {
                reason: why.reason.clone(),
                object: why.object.clone(),
                at: now,
                has_failed: false,
            });
            if !stands_there {
                self.budget -= 1.0;
                self.meters.conditions.inc();
                self.hands.push(HandOrder::Condition(Condition {
                    key: Arc::clone(key),
                    pod: Arc::clone(&record.pod),
                    reason: why.reason.clone(),
                    message: why.message.clone(),
                }));
                // Conditions are not what `kubectl describe` prints.
                if !is_same {
                    let message = format!("{}: {}", why.reason, why.message);
                    let event = warning(&record.pod, "FailedScheduling", "Scheduling", message);
                    self.hands.push(event);
                }
            }
            now + 2 * APART
        };
        self.set_due(key, at);
    }
}
