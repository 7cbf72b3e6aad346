//! Placements that are followed: what is noted of their way, and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{Journey, Journeys, Scheduler, SchedulerHandle};

use crate::ear::Ear;
use crate::world::{ONE_LEAF, in_virtual_time, register, say};

/// Who is told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<Journey>>);

impl Journeys for Told {
    fn decided(&self, journey: Journey) {
        self.0.lock().unwrap().push(journey);
    }
}

impl Told {
    /// What is said of each placement, with the seconds at which what happened.
    fn take(&self) -> Vec<String> {
        let line = |it: Journey| {
            let times = [it.received_ns, it.entered_ns, it.offered_ns, it.asked_ns, it.decided_ns];
            let seconds = times.map(|ns| ns / 1_000_000_000);
            let Journey { application, allocation_key, node, queue, user, .. } = &it;
            let kind = if it.is_placeholder { " keeps a place" } else { "" };
            format!(
                "{application}/{allocation_key}{kind} on {node} in {queue} of {user}: {seconds:?}"
            )
        };
        let mut told = std::mem::take(&mut *self.0.lock().unwrap());
        assert!(told.iter().all(|it| !it.is_asked_rm && it.placement.contains('.')));
        told.sort_by(|a, b| a.allocation_key.cmp(&b.allocation_key));
        told.into_iter().map(line).collect()
    }
}

async fn followed(ratio: f64) -> (SchedulerHandle, Arc<Told>) {
    let told = Arc::new(Told::default());
    let builder = Scheduler::builder().epoch_ns(0).journeys(ratio, told.clone());
    let scheduler = builder.start_local().unwrap();
    register(&scheduler, "rm", ONE_LEAF, Arc::new(Ear::default())).await;
    (scheduler, told)
}

#[test]
fn a_placement_tells_when_its_request_came_and_when_it_was_decided() {
    in_virtual_time(async {
        let (scheduler, told) = followed(1.0).await;
        let wait = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
        say(&scheduler, "rm", "app a1 in root.default user ada\nask a1 k1 vcore=1").await;
        wait(5).await;
        say(&scheduler, "rm", "ask a1 k2 x2 vcore=1").await;
        assert_eq!(told.take(), [""; 0], "there is no node");
        wait(2).await;
        say(&scheduler, "rm", "node n1 vcore=2").await;
        wait(1).await;
        say(&scheduler, "rm", "node n2 vcore=1").await;
        assert_eq!(
            told.take(),
            [
                "a1/k1 on n1 in root.default of ada: [0, 0, 7, 7, 7]",
                "a1/k2 on n1 in root.default of ada: [5, 5, 7, 7, 7]",
                "a1/k2 on n2 in root.default of ada: [5, 5, 8, 8, 8]",
            ]
        );
        // What runs already when it is reported was not placed.
        say(&scheduler, "rm", "node n3 vcore=4\nexists a1 k3 on n3 vcore=1").await;
        assert_eq!(told.take(), [""; 0]);
        scheduler.shutdown().await;
    });
}

#[test]
fn members_of_a_gang_tell_their_own_ways() {
    in_virtual_time(async {
        let (scheduler, told) = followed(1.0).await;
        say(&scheduler, "rm", "app a1 in root.default user ada needs a x3 vcore=1").await;
        say(&scheduler, "rm", "ask a1 k1 vcore=1 group=a").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        say(&scheduler, "rm", "ask a1 k2 vcore=1 group=a\nnode n1 vcore=4").await;
        let with_the_gang = [
            "a1/k1 on n1 in root.default of ada: [0, 0, 3, 3, 3]",
            "a1/k2 on n1 in root.default of ada: [3, 3, 3, 3, 3]",
        ];
        assert_eq!(told.take(), with_the_gang, "nobody asked for the third");
        tokio::time::sleep(Duration::from_secs(1)).await;
        say(&scheduler, "rm", "ask a1 k3 vcore=1 group=a").await;
        assert_eq!(told.take(), ["a1/k3 on n1 in root.default of ada: [4, 4, 4, 4, 4]"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn nothing_is_told_of_what_nobody_follows() {
    in_virtual_time(async {
        let (scheduler, told) = followed(0.0).await;
        say(&scheduler, "rm", "node n1 vcore=4\napp a1 in root.default\nask a1 k1 x3 vcore=1")
            .await;
        assert_eq!(told.take(), [""; 0]);
        scheduler.shutdown().await;
    });
}
