//! Traced placements: the recorded stages and their times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{PlacementTrace, Scheduler, SchedulerHandle, TraceSink};

use crate::recording_callback::RecordingCallback;
use crate::world::{ONE_LEAF, in_virtual_time, register, send_lines};

/// Records the traces.
#[derive(Debug, Default)]
struct RecordedTraces(Mutex<Vec<PlacementTrace>>);

impl TraceSink for RecordedTraces {
    fn decided(&self, trace: PlacementTrace) {
        self.0.lock().unwrap().push(trace);
    }
}

impl RecordedTraces {
    /// Formats each trace, with the seconds of its stages.
    fn take(&self) -> Vec<String> {
        let line = |it: PlacementTrace| {
            let times = [it.received_ns, it.entered_ns, it.offered_ns, it.asked_ns, it.decided_ns];
            let seconds = times.map(|ns| ns / 1_000_000_000);
            let PlacementTrace { application, allocation_key, node, queue, user, .. } = &it;
            let kind = if it.is_placeholder { " keeps a place" } else { "" };
            format!(
                "{application}/{allocation_key}{kind} on {node} in {queue} of {user}: {seconds:?}"
            )
        };
        let mut notified = std::mem::take(&mut *self.0.lock().unwrap());
        assert!(notified.iter().all(|it| !it.is_asked_rm && it.placement.contains('.')));
        notified.sort_by(|a, b| a.allocation_key.cmp(&b.allocation_key));
        notified.into_iter().map(line).collect()
    }
}

async fn followed(ratio: f64) -> (SchedulerHandle, Arc<RecordedTraces>) {
    let notified = Arc::new(RecordedTraces::default());
    let builder = Scheduler::builder().epoch_ns(0).traces(ratio, notified.clone());
    let scheduler = builder.start_local().unwrap();
    register(&scheduler, "rm", ONE_LEAF, Arc::new(RecordingCallback::default())).await;
    (scheduler, notified)
}

#[test]
fn a_journey_has_request_and_decision_times() {
    in_virtual_time(async {
        let (scheduler, notified) = followed(1.0).await;
        let wait = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
        send_lines(&scheduler, "rm", "app a1 in root.default user ada\nask a1 k1 vcore=1").await;
        wait(5).await;
        send_lines(&scheduler, "rm", "ask a1 k2 x2 vcore=1").await;
        assert_eq!(notified.take(), [""; 0], "there is no node");
        wait(2).await;
        send_lines(&scheduler, "rm", "node n1 vcore=2").await;
        wait(1).await;
        send_lines(&scheduler, "rm", "node n2 vcore=1").await;
        assert_eq!(
            notified.take(),
            [
                "a1/k1 on n1 in root.default of ada: [0, 0, 7, 7, 7]",
                "a1/k2 on n1 in root.default of ada: [5, 5, 7, 7, 7]",
                "a1/k2 on n2 in root.default of ada: [5, 5, 8, 8, 8]",
            ]
        );
        // An allocation that is reported as running was not placed.
        send_lines(&scheduler, "rm", "node n3 vcore=4\nexists a1 k3 on n3 vcore=1").await;
        assert_eq!(notified.take(), [""; 0]);
        scheduler.shutdown().await;
    });
}

#[test]
fn members_of_a_gang_tell_their_own_ways() {
    in_virtual_time(async {
        let (scheduler, notified) = followed(1.0).await;
        send_lines(&scheduler, "rm", "app a1 in root.default user ada needs a x3 vcore=1").await;
        send_lines(&scheduler, "rm", "ask a1 k1 vcore=1 group=a").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        send_lines(&scheduler, "rm", "ask a1 k2 vcore=1 group=a\nnode n1 vcore=4").await;
        let with_the_gang = [
            "a1/k1 on n1 in root.default of ada: [0, 0, 3, 3, 3]",
            "a1/k2 on n1 in root.default of ada: [3, 3, 3, 3, 3]",
        ];
        assert_eq!(notified.take(), with_the_gang, "nobody asked for the third");
        tokio::time::sleep(Duration::from_secs(1)).await;
        send_lines(&scheduler, "rm", "ask a1 k3 vcore=1 group=a").await;
        assert_eq!(notified.take(), ["a1/k3 on n1 in root.default of ada: [4, 4, 4, 4, 4]"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn untraced_placements_have_no_journey() {
    in_virtual_time(async {
        let (scheduler, notified) = followed(0.0).await;
        send_lines(
            &scheduler,
            "rm",
            "node n1 vcore=4\napp a1 in root.default\nask a1 k1 x3 vcore=1",
        )
        .await;
        assert_eq!(notified.take(), [""; 0]);
        scheduler.shutdown().await;
    });
}
