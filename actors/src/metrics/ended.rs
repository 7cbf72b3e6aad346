//! `yunikorn_queue_app_total`: the number of applications that ended in each queue, as a counter that
//! continues when the queue is removed and created again.
//!
//! # Why it is counted by name
//! All other metrics of a queue are read off the queue for a scrape, and vanish with it. An application may
//! end, and its queue be removed, between two scrapes. So the end is counted when it happens: once for each
//! application, which is rare enough to look up a series by text.
//!
//! # Invariants
//! * At most [`QUEUES`] paths have series, however many queues are created. A further path replaces the
//!   oldest one, whose counter starts again at zero if another application ends there.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use monoceros_rules::applications::application_state::ApplicationState;
use prometheus::IntCounterVec;

use super::inventory::Maker;
use super::states::label;

/// The most paths with series.
const QUEUES: usize = 10_000;

/// The label of rejected applications that named no existing queue. It differs from all paths, which begin
/// with `root`.
const NONE: &str = "none";

const ENDS: [ApplicationState; 3] =
    [ApplicationState::Completed, ApplicationState::Failed, ApplicationState::Rejected];

/// The numbers of applications that ended, by queue and end.
#[derive(Debug)]
pub(super) struct EndedApplications {
    counters: IntCounterVec,
    known: Mutex<Known>,
}

/// The paths that have series.
#[derive(Debug, Default)]
struct Known {
    paths: BTreeSet<Arc<str>>,
    /// Oldest first.
    in_order: VecDeque<Arc<str>>,
}

impl EndedApplications {
    pub(super) fn with(make: &mut Maker) -> Self {
        let counters = make.counters_by_name(
            "yunikorn_queue_app_total",
            "Applications that ended in a queue, by how; those that were rejected without having been \
             in a queue count for the one they named, or for `none`. Goes on when a queue is removed and \
             made again.",
            ["queue", "state"],
        );
        make.label_values("state", &ENDS.map(label));
        Self { counters, known: Mutex::default() }
    }

    /// Counts an application that entered `state`, if that is an end.
    pub(super) fn count(&self, queue: Option<&Arc<str>>, state: ApplicationState) {
        if !ENDS.contains(&state) {
            return;
        }
        if let Some(path) = queue {
            self.note(path);
        }
        let path = queue.map_or(NONE, |path| &**path);
        self.counters.with_label_values(&[path, label(state)]).inc();
    }

    /// Makes sure that the path is known, if necessary in place of the oldest one.
    fn note(&self, path: &Arc<str>) {
        let mut known = self.known.lock().expect("no holder panics");
        if known.paths.contains(path) {
            return;
        }
        if known.paths.len() == QUEUES
            && let Some(oldest) = known.in_order.pop_front()
        {
            known.paths.remove(&oldest);
            for state in ENDS {
                // Some ends may have no series.
                let _ = self.counters.remove_label_values(&[&*oldest, label(state)]);
            }
        }
        known.paths.insert(Arc::clone(path));
        known.in_order.push_back(Arc::clone(path));
    }
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector;

    use super::*;

    #[test]
    fn number_of_counted_queues_is_bounded() {
        let ended = EndedApplications::with(&mut Maker::default());
        let count = |n: usize| {
            let path = Arc::from(format!("root.q{n}"));
            ended.count(Some(&path), ApplicationState::Completed);
        };
        (0..=QUEUES).for_each(count);
        let shown = |path: &str| {
            let family = &ended.counters.collect()[0];
            let of_path = family.get_metric().iter().find(|it| it.get_label()[0].value() == path);
            of_path.map(|it| it.get_counter().get_value().to_string())
        };
        assert_eq!(ended.counters.collect()[0].get_metric().len(), QUEUES);
        assert_eq!((shown("root.q0"), shown("root.q1").as_deref()), (None, Some("1")));
        count(1);
        assert_eq!(shown("root.q1").as_deref(), Some("2"));
    }
}
