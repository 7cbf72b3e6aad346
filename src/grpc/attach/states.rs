//! How the scheduling of requests stands: of each the latest, at most once per second
//! (scheduler-interface chapter, 2.7).

use std::collections::BTreeMap;
use std::time::Duration;

use monoceros_proto::callback::v1 as cb;
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

/// Between two messages.
const PAUSE: Duration = Duration::from_secs(1);

/// Kept for a stream that is away, at most.
const MOST: usize = 100_000;

/// In one message.
const BATCH: usize = 1_000;

/// What the RM has not been told yet.
#[derive(Debug, Default)]
pub(super) struct States {
    attached: bool,
    /// By application and key.
    latest: BTreeMap<(String, String), si::UpdateContainerSchedulingStateRequest>,
    /// Since when some of them wait.
    since: Option<Instant>,
    sent: Option<Instant>,
}

impl States {
    /// A stream that wants them is there, or not.
    pub(super) fn set_attached(&mut self, attached: bool) {
        self.attached = attached;
    }

    /// Takes states in; a later one of the same request takes the place of the earlier.
    pub(super) fn push(
        &mut self,
        now: Instant,
        states: Vec<si::UpdateContainerSchedulingStateRequest>,
    ) {
        for state in states {
            let name = (state.application_id.clone(), state.allocation_key.clone());
            if self.latest.len() < MOST || self.latest.contains_key(&name) {
                self.latest.insert(name, state);
                self.since.get_or_insert(now);
            }
        }
    }

    /// Everything that waits, if the last time is long enough ago.
    pub(super) fn next_batches(&mut self, now: Instant) -> Vec<cb::ContainerStateBatch> {
        if self.due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.sent = Some(now);
        self.since = None;
        let mut states = std::mem::take(&mut self.latest).into_values().peekable();
        let mut batches = Vec::new();
        while states.peek().is_some() {
            batches.push(cb::ContainerStateBatch { states: states.by_ref().take(BATCH).collect() });
        }
        batches
    }

    /// When to [send](Self::next_batches).
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.attached)?;
        Some(self.sent.map_or(since, |sent| since.max(sent + PAUSE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(key: &str, reason: &str) -> si::UpdateContainerSchedulingStateRequest {
        si::UpdateContainerSchedulingStateRequest {
            allocation_key: key.to_owned(),
            reason: reason.to_owned(),
            ..Default::default()
        }
    }

    fn read(batches: &[cb::ContainerStateBatch]) -> Vec<(&str, &str)> {
        let states = batches.iter().flat_map(|batch| &batch.states);
        states.map(|state| (&*state.allocation_key, &*state.reason)).collect()
    }

    #[test]
    fn the_latest_of_each_request_is_told_at_most_once_per_second() {
        let mut states = States::default();
        let now = Instant::now();
        states.push(now, vec![state("a", "early"), state("b", "early")]);
        assert_eq!(states.due(), None, "nobody is there");
        states.push(now, vec![state("a", "late")]);
        states.set_attached(true);
        assert_eq!(read(&states.next_batches(now)), [("a", "late"), ("b", "early")]);
        assert!(states.next_batches(now + PAUSE).is_empty());
        states.push(now + PAUSE / 2, vec![state("c", "")]);
        assert!(states.next_batches(now + PAUSE / 2).is_empty());
        assert_eq!(states.due(), Some(now + PAUSE));
        assert_eq!(read(&states.next_batches(now + PAUSE)), [("c", "")]);
    }

    #[test]
    fn many_are_told_in_several_messages() {
        let mut states = States::default();
        let now = Instant::now();
        states.set_attached(true);
        states.push(now, (0..2_500).map(|n| state(&n.to_string(), "")).collect());
        let sizes: Vec<_> =
            states.next_batches(now).iter().map(|batch| batch.states.len()).collect();
        assert_eq!(sizes, [1_000, 1_000, 500]);
    }
}
