//! The facts of a removal: the work that an application had when its RM removed it, for people who
//! ask later what became of it.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::applications::application::Application;
use crate::asks::Ask;
use crate::asks::failures::FailureLog;
use crate::values::readable;
use crate::values::resources::Resources;

/// The work of an application just before its RM removed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The number of its allocations, including placeholders, held places and placements that
    /// waited for an answer.
    pub n_allocations: usize,
    /// The sum of its pending asks.
    pub pending: Resources,
    /// The time for which the oldest pending ask had waited; `None` if none was pending.
    pub waited: Option<Duration>,
    /// The last reason why a pending ask was not placed; `None` if there is none.
    pub obstacle: Option<Box<str>>,
}

impl Removal {
    /// Reads the facts of an application that still has all its work.
    pub fn of(application: &Application, now_ns: i64) -> Self {
        let asks = &application.asks;
        let pending = || asks.iter().filter(|ask| ask.outstanding > 0);
        let oldest_ns = pending().map(Ask::stated_creation_ns).min();
        let logs = pending().filter_map(|ask| asks.failures_of(&ask.key));
        let last = logs.flat_map(FailureLog::iter).max_by_key(|failure| failure.last_ns);
        Self {
            n_allocations: application.each_allocation().count() + application.unsettled.len(),
            pending: asks.pending().shown().clone(),
            waited: oldest_ns.map(|since_ns| {
                let waited_ns = now_ns.saturating_sub(since_ns);
                Duration::from_nanos(u64::try_from(waited_ns).unwrap_or(0))
            }),
            obstacle: last.map(|failure| failure.text.clone().into_owned().into()),
        }
    }

    /// Words the facts as the rest of a sentence, which begins with a comma unless it is empty:
    /// `, waited for 2 min 27 s for 96 cores: Not enough queue quota`.
    pub fn words(&self) -> String {
        let mut text = String::new();
        match self.n_allocations {
            0 => {}
            1 => text.push_str(", had 1 allocation"),
            n => {
                let _ = write!(text, ", had {n} allocations");
            }
        }
        if let Some(waited) = self.waited {
            let (waited, amounts) = (readable::span(waited), readable::amounts(&self.pending));
            let _ = write!(text, ", waited for {waited} for {amounts}");
        }
        if let Some(obstacle) = &self.obstacle {
            let _ = write!(text, ": {obstacle}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_allocations_wait_and_obstacle() {
        assert_eq!(Removal::default().words(), "");
        let runs = Removal { n_allocations: 1, ..Removal::default() };
        assert_eq!(runs.words(), ", had 1 allocation");
        let waits = Removal {
            n_allocations: 3,
            pending: Resources::of(&[("vcore", 96_000)]),
            waited: Some(Duration::from_secs(147)),
            obstacle: Some("Not enough queue quota".into()),
        };
        assert_eq!(
            waits.words(),
            ", had 3 allocations, waited for 2 min 27 s for 96 cores: Not enough queue quota"
        );
    }
}
