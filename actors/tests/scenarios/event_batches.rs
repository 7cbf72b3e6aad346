//! Events that a resource manager receives: its own, in batches, within a bound. A slow receiver
//! must not delay decisions.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{EventSettings, ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1 as si;

use crate::events::{line, named};
use crate::script::Script;
use crate::wire;
use crate::world::{ONE_LEAF, in_virtual_time, register, send_lines};

/// Records events only, batch by batch.
#[derive(Default)]
struct Listener(Mutex<Vec<Vec<String>>>);

impl ResourceManagerCallback for Listener {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}

    fn send_events(&self, events: Vec<si::EventRecord>) {
        self.0.lock().unwrap().push(events.iter().map(line).collect());
    }
}

impl Listener {
    /// The objects of the events of each batch.
    fn batches(&self) -> Vec<String> {
        let object = |line: &String| line.split(' ').nth(1).unwrap().to_owned();
        let batches = std::mem::take(&mut *self.0.lock().unwrap());
        let objects = |batch: &Vec<String>| batch.iter().map(object).collect::<Vec<_>>().join(" ");
        batches.iter().map(objects).collect()
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn an_rm_receives_its_own_events_each_second() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let (one, two) = (Arc::new(Listener::default()), Arc::new(Listener::default()));
        register(&scheduler, "one", ONE_LEAF, one.clone()).await;
        register(&scheduler, "two", ONE_LEAF, two.clone()).await;
        seconds(3).await;
        assert_eq!(one.batches(), ["root root.default"]);
        assert_eq!(two.batches(), ["root root.default"]);
        send_lines(&scheduler, "one", "node n1 vcore=1").await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        send_lines(&scheduler, "one", "drain n1").await;
        assert!(one.batches().is_empty(), "the batch is not due yet");
        seconds(1).await;
        assert_eq!(one.batches(), ["n1 n1 root n1"]);
        seconds(60).await;
        assert!(one.batches().is_empty() && two.batches().is_empty());
    });
}

#[test]
fn events_beyond_the_batch_bound_stay_in_the_ring() {
    in_virtual_time(async {
        let settings = EventSettings {
            request_capacity: NonZeroUsize::new(5).unwrap(),
            ring_capacity: NonZeroUsize::new(7).unwrap(),
            ..EventSettings::default()
        };
        let scheduler = Scheduler::builder().events(settings).start_local().unwrap();
        let rm = Arc::new(Listener::default());
        register(&scheduler, "rm", ONE_LEAF, rm.clone()).await;
        send_lines(&scheduler, "rm", "node n1 vcore=1\nnode n2 vcore=1").await;
        seconds(3).await;
        assert_eq!(rm.batches(), ["root root.default n1 n1 root"]);
        let range = scheduler.events().range(1, 9);
        assert_eq!((range.lowest, range.highest, range.records.len()), (1, 7, 7));
    });
}

#[test]
fn without_event_tracking_nothing_is_sent_or_kept() {
    in_virtual_time(async {
        let off = EventSettings { tracking: false, ..EventSettings::default() };
        let scheduler = Scheduler::builder().events(off).start_local().unwrap();
        let rm = Arc::new(Listener::default());
        register(&scheduler, "rm", ONE_LEAF, rm.clone()).await;
        send_lines(&scheduler, "rm", "node n1 vcore=1").await;
        seconds(3).await;
        let events = scheduler.events();
        assert_eq!((events.range(0, u64::MAX).records.len(), events.is_tracking()), (0, false));
        assert!(rm.batches().is_empty());
    });
}

/// Event settings in the extra configuration of one RM apply to that RM alone.
#[test]
fn extra_configuration_applies_to_one_rm_only() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let other = Arc::new(Listener::default());
        register(&scheduler, "other", ONE_LEAF, other.clone()).await;
        let extra = [
            ("event.trackingEnabled", "false"),
            ("event.ringBufferCapacity", "1"),
            ("event.maxStreams", "1"),
            ("event.requestCapacity", "2"),
            ("service.schedulingInterval", "1s"),
        ];
        let extra_config =
            extra.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let request = si::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            config: ONE_LEAF.to_owned(),
            extra_config,
            ..Default::default()
        };
        let rm = Arc::new(Listener::default());
        scheduler.register_resource_manager(request, rm.clone()).await.unwrap();
        for id in ["rm", "other"] {
            send_lines(&scheduler, id, "node n1 vcore=1\nnode n2 vcore=1").await;
        }
        seconds(3).await;
        let events = scheduler.events();
        assert!(events.is_tracking() && events.range(0, 99).records.len() > 10);
        assert_eq!(events.stream_limits().in_all, 100);
        let n_told = |of: &Listener| -> usize {
            of.batches().iter().map(|batch| batch.split(' ').count()).sum()
        };
        assert_eq!(n_told(&rm), 2, "its own capacity holds");
        assert!(n_told(&other) > 5, "and not for another");
    });
}

#[test]
fn a_node_without_partition_only_has_a_schedulable_event() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", ONE_LEAF, Arc::new(Listener::default())).await;
        let Some(crate::script::Step::Send { items, .. }) =
            Script::parse("node n1 vcore=1 attr si/node-partition=nowhere").0.pop()
        else {
            panic!("a message");
        };
        let wire::Message::Node(request) = wire::message("rm", &items) else { panic!("of nodes") };
        scheduler.update_node(request).await.unwrap();
        let notified: Vec<_> = scheduler.events().range(2, 9).records.iter().map(named).collect();
        assert_eq!(notified, ["NODE n1 SET NODE_SCHEDULABLE: schedulable: true"]);
    });
}
