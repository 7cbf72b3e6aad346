//! Why pods wait, and when that is told.
//!
//! # Invariants
//! * A condition is written when its reason or its object changes, not its numbers; at most once in
//!   [`APART`] for a pod, and all together at the rate that is set.
//! * `Unschedulable`, for which autoscalers buy machines, is written only where the engine has said that
//!   more machines would help.

use std::sync::Arc;
use std::time::Duration;

use super::Shim;
use super::record::Told;
use super::said::{Condition, Explanation, HandOrder, Key};

/// Between two conditions of a pod.
const APART: Duration = Duration::from_secs(30);
/// What is placed before is not asked about.
const PATIENCE: Duration = Duration::from_secs(1);
/// The engine says this long after a request, at the latest, whether more machines would help.
const SIGNAL: Duration = Duration::from_secs(4);
/// Applications that are asked about at a time.
const QUESTIONS: usize = 20;

/// Why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    pub(super) reason: String,
    pub(super) object: String,
    pub(super) message: String,
}

/// Whether a cause is that no node will do.
fn is_about_nodes(cause: &str) -> bool {
    matches!(cause, "noNode" | "predicates" | "constraints" | "topology" | "requiredNode" | "gang")
}

impl Why {
    pub(super) fn new(reason: &str, object: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), object: object.to_owned(), message: message.into() }
    }

    /// The reason of a condition for a cause of the engine.
    fn explained(entry: &Explanation, wants_nodes: bool) -> Self {
        let is_about_nodes = is_about_nodes(&entry.cause);
        let reason = match entry.cause.as_str() {
            _ if wants_nodes && is_about_nodes => "Unschedulable".to_owned(),
            "gang" => "WaitingForGang".to_owned(),
            cause => {
                let mut letters = cause.chars();
                let first = letters.next().map(|letter| letter.to_ascii_uppercase());
                first.into_iter().chain(letters).collect()
            }
        };
        // The node that comes nearest is a number like any other.
        let object = if is_about_nodes { "" } else { &entry.object };
        Self::new(&reason, object, entry.message.clone())
    }
}

impl Shim {
    /// Has a pod be looked at then, unless it is before.
    pub(super) fn schedule(&mut self, key: &Key, at: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        if record.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = record.due.replace(at) {
            self.due.remove(&(due, Arc::clone(key)));
        }
        self.due.insert((at, Arc::clone(key)));
    }

    /// Has a pod that waits be looked at soon.
    pub(super) fn look_at(&mut self, key: &Key, now: Duration) {
        self.schedule(key, now + PATIENCE);
    }

    /// Time passes.
    pub fn tick(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.refilled).as_secs_f64();
        self.budget = (self.budget + passed * self.rate).min(self.rate);
        self.refilled = now;
        let mut questions = 0;
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.due.remove(&(at, Arc::clone(&key)));
            if let Some(record) = self.pods.get_mut(&key) {
                record.due = None;
            }
            if !self.is_active {
                continue;
            }
            self.reconcile(&key, now);
            let Some(record) = self.pods.get(&key) else { continue };
            if record.pod.node().is_some() || record.is_gone {
                continue;
            }
            match (&record.told, &record.waits_for, &record.application) {
                (Told::Nothing, Some(why), _) => {
                    let why = why.clone();
                    self.tell(&key, &why, now);
                }
                (Told::Asked, _, Some(application)) => {
                    let application = Arc::clone(application);
                    let asking = self.asking.entry(Arc::clone(&application)).or_default();
                    if asking.is_empty() {
                        questions += 1;
                        self.orders.explain(&application);
                    }
                    asking.push(key);
                    if questions == QUESTIONS {
                        break;
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn explained(&mut self, id: &Arc<str>, entries: &[Explanation], now: Duration) {
        let asking = self.asking.remove(id).unwrap_or_default();
        let whole = entries.iter().find(|entry| entry.keys.is_empty());
        let mut by_key: rustc_hash::FxHashMap<&str, &Explanation> = entries
            .iter()
            .flat_map(|entry| entry.keys.iter().map(move |key| (&**key, entry)))
            .collect();
        let others = entries.iter().rev().find(|entry| !entry.keys.is_empty());
        let mut of_group = None;
        for key in asking {
            let Some(record) = self.pods.get(&key) else { continue };
            if record.told != Told::Asked {
                continue;
            }
            let Some(entry) = by_key.remove(&*key).or(others) else {
                self.schedule(&key, now + APART);
                continue;
            };
            // What a member waits for is the gang, and that says who lacks what.
            let entry = if entry.cause == "gang" { whole.unwrap_or(entry) } else { entry };
            if entry.cause == "next" {
                self.schedule(&key, now + 2 * PATIENCE);
                continue;
            }
            let is_early = record.why.is_none() && record.asked + SIGNAL > now;
            if is_early && !record.wants_nodes && is_about_nodes(&entry.cause) {
                self.schedule(&key, now + PATIENCE);
                continue;
            }
            let why = Why::explained(entry, record.wants_nodes);
            self.tell(&key, &why, now);
            of_group = Some(why);
        }
        if let Some(why) = of_group {
            self.tell_group(id, false, &why.reason, &why.message);
        }
    }

    /// Writes why a pod waits, if that is something else than what stands there, and may be said now.
    fn tell(&mut self, key: &Key, why: &Why, now: Duration) {
        let Some(record) = self.pods.get_mut(key) else { return };
        let said = record.why.as_ref();
        let is_said =
            said.is_some_and(|(reason, object, _)| (reason, object) == (&why.reason, &why.object));
        let at = if is_said {
            now + 2 * APART
        } else if let Some((_, _, last)) = said.filter(|(.., last)| *last + APART > now) {
            *last + APART
        } else if self.budget < 1.0 {
            now + PATIENCE
        } else {
            let stands_there = record.pod.condition("PodScheduled").is_some_and(|condition| {
                condition.reason.as_deref() == Some(&why.reason)
                    && condition.message.as_deref() == Some(&why.message)
            });
            record.why = Some((why.reason.clone(), why.object.clone(), now));
            if !stands_there {
                self.budget -= 1.0;
                self.meters.conditions.inc();
                self.hands.push(HandOrder::Condition(Condition {
                    pod: Arc::clone(&record.pod),
                    reason: why.reason.clone(),
                    message: why.message.clone(),
                }));
            }
            now + 2 * APART
        };
        self.schedule(key, at);
    }
}
