//! On real threads and in real time: the wiring between arbiters holds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;

const NODES: usize = 50;
const APPS: usize = 20;
const ASKS: usize = 10_000;

/// Notes which key is where, and how often it heard of one twice.
#[derive(Default)]
struct Shim(Mutex<Placed>);

#[derive(Default)]
struct Placed {
    nodes: BTreeMap<(String, String), String>,
    twice: usize,
    released: usize,
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let mut placed = self.0.lock().unwrap();
        for new in response.new {
            let id = (new.application_id, new.uuid);
            placed.twice += usize::from(placed.nodes.insert(id, new.node_id).is_some());
        }
        for gone in response.released {
            let known = placed.nodes.remove(&(gone.application_id, gone.uuid));
            placed.released += usize::from(known.is_some());
        }
    }
    fn update_application(&self, _response: si::ApplicationResponse) {}
    fn update_node(&self, _response: si::NodeResponse) {}
}

fn vcores(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

async fn register(scheduler: &SchedulerHandle, rm: &str) -> Arc<Shim> {
    let shim = Arc::new(Shim::default());
    let request = si::RegisterResourceManagerRequest { rm_id: rm.into(), ..Default::default() };
    scheduler.register_resource_manager(request, shim.clone()).await.unwrap();
    shim
}

/// Room for all, asks in messages of a thousand, then half of it goes with its applications.
async fn work(scheduler: &SchedulerHandle, rm: &str) {
    let rm_id = || rm.to_owned();
    let nodes = (0..NODES).map(|number| si::NodeInfo {
        node_id: format!("n{number}"),
        action: si::node_info::ActionFromRm::Create as i32,
        schedulable_resource: Some(vcores(1_000)),
        ..Default::default()
    });
    let request = si::NodeRequest { rm_id: rm_id(), nodes: nodes.collect(), ack_seq: 0 };
    scheduler.update_node(request).await.unwrap();
    let new = (0..APPS).map(|number| si::AddApplicationRequest {
        application_id: format!("a{number}"),
        queue_name: "root.default".into(),
        ugi: Some(si::UserGroupInformation { user: "ada".into(), groups: Vec::new() }),
        ..Default::default()
    });
    let request =
        si::ApplicationRequest { rm_id: rm_id(), new: new.collect(), ..Default::default() };
    scheduler.update_application(request).await.unwrap();
    for thousand in 0..ASKS / 1_000 {
        let asks = (0..1_000).map(|number| si::AllocationAsk {
            allocation_key: format!("k{thousand}-{number}"),
            application_id: format!("a{}", number % APPS),
            resource_ask: Some(vcores(1 + i64::from(number % 3 == 0))),
            max_allocations: 1,
            ..Default::default()
        });
        let request =
            si::AllocationRequest { rm_id: rm_id(), asks: asks.collect(), ..Default::default() };
        scheduler.update_allocation(request).await.unwrap();
    }
    scheduler.settle().await;
}

async fn remove_half(scheduler: &SchedulerHandle, rm: &str) {
    let remove = (0..APPS / 2).map(|number| si::RemoveApplicationRequest {
        application_id: format!("a{number}"),
        partition_name: String::new(),
    });
    let request = si::ApplicationRequest {
        rm_id: rm.to_owned(),
        remove: remove.collect(),
        ..Default::default()
    };
    scheduler.update_application(request).await.unwrap();
    scheduler.settle().await;
}

async fn two_rms_at_once(threads: Threads) {
    let scheduler = Scheduler::builder().threads(threads).start().unwrap();
    let shims = [register(&scheduler, "rm1").await, register(&scheduler, "rm2").await];
    tokio::join!(work(&scheduler, "rm1"), work(&scheduler, "rm2"));
    for (shim, rm) in shims.iter().zip(["rm1", "rm2"]) {
        let partition = format!("[{rm}]default");
        assert_eq!(scheduler.check_books(&partition).await, Ok(Vec::new()));
        assert_eq!(shim.0.lock().unwrap().nodes.len(), ASKS);
        remove_half(&scheduler, rm).await;
        let placed = shim.0.lock().unwrap();
        assert_eq!((placed.nodes.len(), placed.released, placed.twice), (ASKS / 2, ASKS / 2, 0));
    }
    let shown = scheduler.nodes("[rm1]default").await.unwrap();
    let shown = shown.iter().flat_map(|node| {
        let held = node.allocations.iter();
        held.map(|held| {
            let id = (held.application_id.clone(), held.allocation_key.clone());
            (id, node.node_id.clone())
        })
    });
    assert_eq!(shown.collect::<BTreeMap<_, _>>(), shims[0].0.lock().unwrap().nodes);
    scheduler.shutdown().await;
}

#[tokio::test]
async fn two_rms_at_once_on_threads_of_their_own() {
    two_rms_at_once(Threads::PerPartition).await;
}

#[tokio::test]
async fn two_rms_at_once_on_one_thread() {
    two_rms_at_once(Threads::One).await;
}
