//! Fields that a legacy reply repeats from earlier requests and the scheduler does not keep: the
//! queue of an application, and the priority of an ask as written.
//!
//! An ask may be sent again with another priority, and the second request may be rejected while the
//! first ask stays pending. A rejection names only the key, not which of the requests it rejects,
//! and acceptance is not reported. So we cannot know which text is in force, and keep the last few
//! of each key. An allocation carries the priority as a number; it gets the latest text that stands
//! for that number.
//!
//! # Invariants
//! * Nothing is kept of an application that was removed from its partition or rejected.
//! * The record of an ask is dropped once the ask has all its allocations, when it is withdrawn, or
//!   when it was rejected as often as it was sent. Asks without a field to repeat have no record.
//! * The cost of one ask does not depend on the number of applications.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_actors::config;
use monoceros_proto::si::legacy::v0::Priority;

/// Most texts kept of one key.
const TEXTS: usize = 4;

/// The fields to repeat with each allocation of an ask.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Echo {
    /// The priority as sent: a number or a class.
    pub priority: Option<Priority>,
    /// Set if the tag for a required node was derived from a constraint and not sent by the client.
    pub hides_required_node: bool,
}

/// The echoes of one session: queues of its applications and texts of their pending asks.
#[derive(Debug, Default)]
pub struct Echoes {
    /// Applications by id and partition, the latter without the prefix of the RM.
    applications: BTreeMap<(String, String), KnownApplication>,
}

#[derive(Debug, Default)]
struct KnownApplication {
    queue: Option<Arc<str>>,
    /// Pending asks by allocation key.
    asks: BTreeMap<String, KnownAsk>,
}

#[derive(Debug, Default)]
struct KnownAsk {
    /// The texts sent for the ask, each with its priority as a number; latest last.
    texts: Vec<(i32, Echo)>,
    /// The number of times that the ask was sent, minus its rejections.
    unrefused: u32,
    /// The number of allocations it may still get.
    outstanding: u32,
}

impl KnownAsk {
    fn asked(&mut self, n: u32, priority: i32, echo: Echo) {
        self.texts.retain(|(_, known)| *known != echo);
        self.texts.push((priority, echo));
        if self.texts.len() > TEXTS {
            self.texts.remove(0);
        }
        self.unrefused = self.unrefused.saturating_add(1);
        // Allocations of an ask that this one replaces may still be in flight.
        self.outstanding = self.outstanding.saturating_add(n);
    }

    fn echo(&self, priority: i32) -> Echo {
        let meant = self.texts.iter().rev().find(|(of, _)| *of == priority);
        meant.map(|(_, echo)| echo.clone()).unwrap_or_default()
    }
}

impl Echoes {
    /// Records an ask for `n` allocations that is sent to the scheduler. `priority` is the number
    /// that the scheduler receives.
    pub fn asked(
        &mut self,
        (partition, application, key): (&str, &str, &str),
        n: u32,
        priority: i32,
        echo: Echo,
    ) {
        let place = place(partition, application);
        let known = self.applications.get_mut(&place);
        if let Some(kept) = known.and_then(|known| known.asks.get_mut(key)) {
            kept.asked(n, priority, echo);
        } else if echo != Echo::default() {
            let asks = &mut self.applications.entry(place).or_default().asks;
            asks.entry(key.to_owned()).or_default().asked(n, priority, echo);
        }
    }

    /// The echo for an allocation of this key and priority. Counts the allocation.
    pub fn allocated(
        &mut self,
        partition: &str,
        application: &str,
        key: &str,
        priority: i32,
    ) -> Echo {
        let Some(known) = self.applications.get_mut(&place(partition, application)) else {
            return Echo::default();
        };
        let Some(kept) = known.asks.get_mut(key) else { return Echo::default() };
        let echo = kept.echo(priority);
        kept.outstanding = kept.outstanding.saturating_sub(1);
        if kept.outstanding == 0 {
            known.asks.remove(key);
        }
        echo
    }

    /// Drops an ask that was withdrawn.
    pub fn forget_ask(&mut self, partition: &str, application: &str, key: &str) {
        let place = place(partition, application);
        let Some(known) = self.applications.get_mut(&place) else { return };
        known.asks.remove(key);
        self.drop_if_empty(&place);
    }

    /// Drops all asks of an application.
    pub fn forget_asks(&mut self, partition: &str, application: &str) {
        let place = place(partition, application);
        let Some(known) = self.applications.get_mut(&place) else { return };
        known.asks.clear();
        self.drop_if_empty(&place);
    }

    /// Counts a rejection of an ask. The rejection does not name the partition.
    pub fn refused(&mut self, application: &str, key: &str) {
        let mut emptied = Vec::new();
        let from = (application.to_owned(), String::new());
        for (place, known) in self.applications.range_mut(from..) {
            if place.0 != application {
                break;
            }
            let Some(kept) = known.asks.get_mut(key) else { continue };
            kept.unrefused -= 1;
            if kept.unrefused == 0 {
                known.asks.remove(key);
                if known.is_empty() {
                    emptied.push(place.clone());
                }
            }
        }
        for place in emptied {
            self.applications.remove(&place);
        }
    }

    /// Records the queue of an application, or its removal.
    pub fn placed(&mut self, partition: &str, application: &str, queue: Option<&str>) {
        let place = place(partition, application);
        match queue {
            None => drop(self.applications.remove(&place)),
            Some(queue) => {
                self.applications.entry(place).or_default().queue = Some(Arc::from(queue));
            }
        }
    }

    /// The path of the application's queue.
    pub fn queue(&self, partition: &str, application: &str) -> String {
        let known = self.applications.get(&place(partition, application));
        let queue = known.and_then(|known| known.queue.as_deref());
        queue.unwrap_or_default().to_owned()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    fn drop_if_empty(&mut self, place: &(String, String)) {
        if self.applications.get(place).is_some_and(KnownApplication::is_empty) {
            self.applications.remove(place);
        }
    }
}

impl KnownApplication {
    fn is_empty(&self) -> bool {
        self.queue.is_none() && self.asks.is_empty()
    }
}

fn place(partition: &str, application: &str) -> (String, String) {
    let plain = match config::plain_name(partition) {
        "" => "default",
        name => name,
    };
    (application.to_owned(), plain.to_lowercase())
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::legacy::v0::priority;

    use super::*;

    fn priority(value: i32) -> Echo {
        let priority = Priority { priority: Some(priority::Priority::PriorityValue(value)) };
        Echo { priority: Some(priority), ..Echo::default() }
    }

    fn ask(echoes: &mut Echoes, n: u32, value: i32) {
        echoes.asked(("", "app", "k"), n, value, priority(value));
    }

    #[test]
    fn echo_lasts_for_the_asked_allocations() {
        let mut echoes = Echoes::default();
        ask(&mut echoes, 2, 7);
        assert_eq!(echoes.allocated("default", "app", "k", 7), priority(7));
        assert_eq!(echoes.allocated("[rm]default", "app", "k", 7), priority(7));
        assert_eq!(echoes.allocated("default", "app", "k", 7), Echo::default());
    }

    #[test]
    fn replaced_ask_adds_to_outstanding() {
        let mut echoes = Echoes::default();
        ask(&mut echoes, 1, 1);
        ask(&mut echoes, 1, 2);
        assert_eq!(echoes.allocated("", "app", "k", 1), priority(1));
        assert_eq!(echoes.allocated("", "app", "k", 2), priority(2));
        ask(&mut echoes, 1, 3);
        echoes.asked(("", "app", "k"), 1, 0, Echo::default());
        assert_eq!(echoes.allocated("", "app", "k", 0), Echo::default());
    }

    #[test]
    fn rejected_ask_keeps_the_pending_priority() {
        let mut echoes = Echoes::default();
        ask(&mut echoes, 1, 1);
        ask(&mut echoes, 1, 2);
        echoes.refused("app", "k");
        echoes.asked(("", "app", "k"), 1, 0, Echo::default());
        echoes.refused("app", "k");
        assert_eq!(echoes.allocated("", "app", "k", 1), priority(1));
        for value in 3..100 {
            ask(&mut echoes, 1, value);
        }
        let kept = &echoes.applications[&place("", "app")].asks["k"];
        assert_eq!(kept.texts.len(), TEXTS);
        assert_eq!(echoes.allocated("", "app", "k", 99), priority(99));
    }

    #[test]
    fn echoes_are_dropped_with_their_objects() {
        let mut echoes = Echoes::default();
        echoes.placed("default", "app", Some("root.a"));
        ask(&mut echoes, 1, 1);
        assert_eq!(echoes.queue("", "app"), "root.a");
        echoes.placed("default", "app", None);
        assert_eq!(echoes.queue("", "app"), "");
        for withdraw in [
            |echoes: &mut Echoes| echoes.refused("app", "k"),
            |echoes: &mut Echoes| echoes.forget_ask("", "app", "k"),
            |echoes: &mut Echoes| echoes.forget_asks("", "app"),
        ] {
            ask(&mut echoes, 1, 1);
            withdraw(&mut echoes);
            assert!(echoes.applications.is_empty());
        }
    }

    #[test]
    fn rejection_applies_in_every_partition() {
        let mut echoes = Echoes::default();
        for (partition, application) in [("", "a"), ("", "ab"), ("gpu", "a"), ("gpu", "b")] {
            echoes.asked((partition, application, "k"), 1, 1, priority(1));
        }
        echoes.refused("a", "k");
        let left: Vec<_> = echoes.applications.keys().map(|(id, _)| id.as_str()).collect();
        assert_eq!(left, ["ab", "b"]);
    }
}
