//! Resource managers on a shared thread take turns.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;

use crate::common::{ask_for, in_virtual_time, send_ask, vcore};

const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

/// RMs of the placed or released allocations, in the order of the notifications.
type Received = Arc<Mutex<Vec<&'static str>>>;

struct RecordingCallback(&'static str, Received);

impl ResourceManagerCallback for RecordingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let n = response.new.len() + response.released.len();
        self.1.lock().unwrap().extend(std::iter::repeat_n(self.0, n));
    }
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

/// Registers an RM with a node and an application.
async fn register(scheduler: &SchedulerHandle, rm: &'static str, received: &Received) {
    let request = si::RegisterResourceManagerRequest {
        rm_id: rm.to_owned(),
        config: QUEUES.to_owned(),
        ..Default::default()
    };
    let callback = Arc::new(RecordingCallback(rm, Arc::clone(received)));
    scheduler.register_resource_manager(request, callback).await.unwrap();
    let node = si::NodeInfo {
        node_id: "n1".to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        schedulable_resource: Some(vcore(1_000_000)),
        ..Default::default()
    };
    let nodes = si::NodeRequest { rm_id: rm.to_owned(), nodes: vec![node], ..Default::default() };
    scheduler.update_node(nodes).await.unwrap();
    let new = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        queue_name: "root.a".to_owned(),
        ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let new = si::ApplicationRequest { rm_id: rm.to_owned(), new: vec![new], ..Default::default() };
    scheduler.update_application(new).await.unwrap();
}

async fn ask(scheduler: &SchedulerHandle, rm: &str, count: i32) {
    send_ask(scheduler, rm, ask_for("k", count)).await;
}

#[test]
fn a_large_end_lets_another_rm_have_its_turn() {
    const MANY: usize = 10_000;
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let received = Received::default();
        register(&scheduler, "large", &received).await;
        register(&scheduler, "small", &received).await;
        ask(&scheduler, "large", i32::try_from(MANY).unwrap()).await;
        scheduler.settle().await;
        assert_eq!(std::mem::take(&mut *received.lock().unwrap()).len(), MANY);

        let remove =
            si::RemoveApplicationRequest { application_id: "app".to_owned(), ..Default::default() };
        let request = si::ApplicationRequest {
            rm_id: "large".to_owned(),
            remove: vec![remove],
            ..Default::default()
        };
        scheduler.update_application(request).await.unwrap();
        // When it is notified of the first end, another one asks.
        while received.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(received.lock().unwrap().len() < 1_000, "they come in parts");
        ask(&scheduler, "small", 1).await;
        scheduler.settle().await;
        let received = received.lock().unwrap();
        assert_eq!(received.len(), MANY + 1);
        let at = received.iter().position(|rm| *rm == "small").unwrap();
        assert!(at < MANY / 2, "placed behind {at} of {MANY} ends");
    });
}

/// Threads that spin for more work place asks that arrive one by one, also after a pause in which
/// they went to sleep.
#[tokio::test]
async fn spinning_threads_place_asks_before_and_after_sleeping() {
    const LASTS: Duration = Duration::from_millis(2);
    for threads in [Threads::PerPartition, Threads::One] {
        let scheduler = Scheduler::builder().threads(threads).spin(LASTS).start().unwrap();
        let received = Received::default();
        register(&scheduler, "rm", &received).await;
        for number in 1..=20 {
            send_ask(&scheduler, "rm", ask_for(&format!("k{number}"), 1)).await;
            scheduler.settle().await;
            assert_eq!(received.lock().unwrap().len(), number);
            if number % 5 == 0 {
                tokio::time::sleep(2 * LASTS).await;
            }
        }
        scheduler.shutdown().await;
        scheduler.ended().await;
    }
}
