//! The scheduling states of requests: the latest state of each, sent at most once per second.
//!
//! A pending request may change its state many times a second, and a shim only shows the newest to
//! people. A state superseded before it was sent is never sent, so a busy queue costs a shim one
//! message per second. States kept while no stream is attached are bounded: beyond that a state is
//! dropped, and the next change of the request brings another.

use std::collections::BTreeMap;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

use super::outgoing::portions;

/// The shortest interval between two messages.
const PAUSE: Duration = Duration::from_secs(1);

/// Most states kept.
const MOST: usize = 100_000;

/// Most states in one message.
const BATCH: usize = 1_000;

/// States not sent yet.
#[derive(Debug, Default)]
pub(super) struct States {
    /// The message limit of a stream that wants states. `None` without one.
    attached: Option<usize>,
    /// The latest state of each request, by application and key.
    latest: BTreeMap<(String, String), si::UpdateContainerSchedulingStateRequest>,
    /// The time since which states are kept.
    since: Option<Instant>,
    sent: Option<Instant>,
}

impl States {
    /// Sets the message limit of a stream that wants states, or `None`.
    pub(super) fn set_attached(&mut self, max_bytes: Option<usize>) {
        self.attached = max_bytes;
    }

    /// Adds states; a later state of a request replaces the earlier one.
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

    /// Takes all states, if the last message is long enough ago.
    pub(super) fn next_batches(&mut self, now: Instant) -> Vec<cb::ContainerStateBatch> {
        let Some(max_bytes) = self.attached.filter(|_| self.due().is_some_and(|due| due <= now))
        else {
            return Vec::new();
        };
        self.sent = Some(now);
        self.since = None;
        let states = std::mem::take(&mut self.latest).into_values().collect();
        portions(states, BATCH, max_bytes)
            .map(|states| cb::ContainerStateBatch { states })
            .collect()
    }

    /// The time of the next [`next_batches`](Self::next_batches).
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.attached.is_some())?;
        Some(self.sent.map_or(since, |sent| since.max(sent + PAUSE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

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
    fn latest_states_are_sent_once_per_second() {
        let mut states = States::default();
        let now = Instant::now();
        states.push(now, vec![state("a", "early"), state("b", "early")]);
        assert_eq!(states.due(), None, "nobody is there");
        states.push(now, vec![state("a", "late")]);
        states.set_attached(Some(BYTES));
        assert_eq!(read(&states.next_batches(now)), [("a", "late"), ("b", "early")]);
        assert!(states.next_batches(now + PAUSE).is_empty());
        states.push(now + PAUSE / 2, vec![state("c", "")]);
        assert!(states.next_batches(now + PAUSE / 2).is_empty());
        assert_eq!(states.due(), Some(now + PAUSE));
        assert_eq!(read(&states.next_batches(now + PAUSE)), [("c", "")]);
    }

    #[test]
    fn many_states_are_split() {
        let mut states = States::default();
        let mut now = Instant::now();
        for (max_bytes, expected) in [(BYTES, &[1_000, 1_000, 500][..]), (9_000, &[600; 4])] {
            states.set_attached(Some(max_bytes));
            states.push(now, (0..2_500).map(|n| state(&format!("{n:05}"), "")).collect());
            let batches = states.next_batches(now);
            let sizes: Vec<_> = batches.iter().map(|batch| batch.states.len()).collect();
            assert_eq!(sizes[..expected.len()], *expected);
            assert_eq!(sizes.iter().sum::<usize>(), 2_500);
            now += PAUSE;
        }
    }
}
