//! What an answer repeats of what was said before, and the scheduler does not keep: the queue of
//! an application, and the priority of an ask as it was written.
//!
//! # Invariants
//! * Nothing is kept of an application that has left its partition, or was refused.
//! * An ask is forgotten once it has brought as many allocations as it wants, and when it is
//!   withdrawn or refused. Only asks that carried something to repeat are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_proto::si::legacy::v0::Priority;
use monoceros_rules::config;

/// What to repeat with each allocation of an ask.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Echo {
    /// As it was sent: in the arm it came in.
    pub priority: Option<Priority>,
    /// The tag for a required node was made of a constraint; the client has not sent it.
    pub hides_required_node: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Echoes {
    /// By partition, without the prefix of the RM, and application.
    applications: BTreeMap<(String, String), Known>,
}

#[derive(Debug, Default)]
struct Known {
    queue: Option<Arc<str>>,
    /// By allocation key.
    asks: BTreeMap<String, Kept>,
}

#[derive(Debug)]
struct Kept {
    echo: Echo,
    /// How many allocations it may still bring.
    outstanding: u32,
}

impl Echoes {
    /// An ask for `n` allocations is on its way to the scheduler.
    pub fn asked(&mut self, partition: &str, application: &str, key: &str, n: u32, echo: Echo) {
        if echo == Echo::default() {
            self.forget_ask(partition, application, key);
            return;
        }
        let known = self.applications.entry(place(partition, application)).or_default();
        let kept = known.asks.entry(key.to_owned());
        let kept = kept.or_insert_with(|| Kept { echo: Echo::default(), outstanding: 0 });
        kept.echo = echo;
        // Those of an ask that this one replaces may be on their way.
        kept.outstanding = kept.outstanding.saturating_add(n);
    }

    /// What goes with an allocation of this key, which brings it one nearer to its end.
    pub fn allocated(&mut self, partition: &str, application: &str, key: &str) -> Echo {
        let Some(known) = self.applications.get_mut(&place(partition, application)) else {
            return Echo::default();
        };
        let Some(kept) = known.asks.get_mut(key) else { return Echo::default() };
        kept.outstanding = kept.outstanding.saturating_sub(1);
        if kept.outstanding > 0 {
            return kept.echo.clone();
        }
        known.asks.remove(key).map(|kept| kept.echo).unwrap_or_default()
    }

    /// The ask was withdrawn or refused.
    pub fn forget_ask(&mut self, partition: &str, application: &str, key: &str) {
        let place = place(partition, application);
        let Some(known) = self.applications.get_mut(&place) else { return };
        known.asks.remove(key);
        self.drop_if_empty(&place);
    }

    /// All asks of the application were withdrawn.
    pub fn forget_asks(&mut self, partition: &str, application: &str) {
        let place = place(partition, application);
        let Some(known) = self.applications.get_mut(&place) else { return };
        known.asks.clear();
        self.drop_if_empty(&place);
    }

    /// An ask with this key was refused; the refusal does not say in which partition.
    pub fn refused(&mut self, application: &str, key: &str) {
        self.applications.retain(|(_, id), known| {
            if id == application {
                known.asks.remove(key);
            }
            !known.is_empty()
        });
    }

    /// The application was placed in `queue`, or has left.
    pub fn placed(&mut self, partition: &str, application: &str, queue: Option<&str>) {
        let place = place(partition, application);
        match queue {
            None => drop(self.applications.remove(&place)),
            Some(queue) => {
                self.applications.entry(place).or_default().queue = Some(Arc::from(queue));
            }
        }
    }

    /// The path of the queue that the application is in.
    pub fn queue(&self, partition: &str, application: &str) -> String {
        let known = self.applications.get(&place(partition, application));
        let queue = known.and_then(|known| known.queue.as_deref());
        queue.unwrap_or_default().to_owned()
    }

    fn drop_if_empty(&mut self, place: &(String, String)) {
        if self.applications.get(place).is_some_and(Known::is_empty) {
            self.applications.remove(place);
        }
    }
}

impl Known {
    fn is_empty(&self) -> bool {
        self.queue.is_none() && self.asks.is_empty()
    }
}

fn place(partition: &str, application: &str) -> (String, String) {
    let plain = match config::plain_name(partition) {
        "" => "default",
        name => name,
    };
    (plain.to_lowercase(), application.to_owned())
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::legacy::v0::priority;

    use super::*;

    fn priority(value: i32) -> Echo {
        let priority = Priority { priority: Some(priority::Priority::PriorityValue(value)) };
        Echo { priority: Some(priority), ..Echo::default() }
    }

    #[test]
    fn an_ask_is_repeated_once_per_allocation_and_then_forgotten() {
        let mut echoes = Echoes::default();
        echoes.asked("", "app", "k", 2, priority(7));
        assert_eq!(echoes.allocated("default", "app", "k"), priority(7));
        assert_eq!(echoes.allocated("[rm]default", "app", "k"), priority(7));
        assert_eq!(echoes.allocated("default", "app", "k"), Echo::default());
    }

    #[test]
    fn an_ask_that_replaces_another_counts_with_what_is_on_its_way() {
        let mut echoes = Echoes::default();
        echoes.asked("", "app", "k", 1, priority(1));
        echoes.asked("", "app", "k", 1, priority(2));
        assert_eq!(echoes.allocated("", "app", "k"), priority(2));
        assert_eq!(echoes.allocated("", "app", "k"), priority(2));
        echoes.asked("", "app", "k", 1, priority(3));
        echoes.asked("", "app", "k", 1, Echo::default());
        assert_eq!(echoes.allocated("", "app", "k"), Echo::default());
    }

    #[test]
    fn nothing_is_kept_of_what_has_left_or_was_refused() {
        let mut echoes = Echoes::default();
        echoes.placed("default", "app", Some("root.a"));
        echoes.asked("", "app", "k", 1, priority(1));
        assert_eq!(echoes.queue("", "app"), "root.a");
        echoes.placed("default", "app", None);
        assert_eq!(echoes.queue("", "app"), "");
        for withdraw in [
            |echoes: &mut Echoes| echoes.refused("app", "k"),
            |echoes: &mut Echoes| echoes.forget_ask("", "app", "k"),
            |echoes: &mut Echoes| echoes.forget_asks("", "app"),
        ] {
            echoes.asked("", "app", "k", 1, priority(1));
            withdraw(&mut echoes);
            assert!(echoes.applications.is_empty());
        }
    }
}
