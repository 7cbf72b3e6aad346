//! What a resource manager would report after a restart ([`Report`]), sent to a fresh scheduler: the
//! same allocations, the same pending asks, the same order of starts. The scenarios compare the
//! reports of all their ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::image::Report;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use crate::common::{in_virtual_time, vcore};

const RM: &str = "rm";
const QUEUES: &str = "
partitions:
  - name: default
    placementrules: [{name: tag, value: Team, parent: {name: fixed, value: root.teams}}, {name: provided}]
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: teams
            parent: true
            queues:
              - name: a
                resources: {max: {vcore: 6m}}
                limits: [{limit: everybody, users: ['*'], maxresources: {vcore: 5m}}]
              - {name: b, properties: {priority.offset: '2'}}
          - name: named
";

/// Records what starts.
#[derive(Default)]
struct Starts(Mutex<Vec<String>>);

impl Starts {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ResourceManagerCallback for Starts {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let started = response.new.iter();
        self.0.lock().unwrap().extend(started.map(|new| {
            format!("{}/{} on {}", new.application_id, new.allocation_key, new.node_id)
        }));
        assert!(response.rejected_allocations.is_empty() && response.rejected.is_empty());
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected);
    }

    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty());
    }
}

async fn start(epoch_ns: i64) -> (SchedulerHandle, Arc<Starts>) {
    let scheduler = Scheduler::builder().epoch_ns(epoch_ns).start_local().unwrap();
    let starts = Arc::new(Starts::default());
    let registration = si::RegisterResourceManagerRequest {
        config: QUEUES.to_owned(),
        ..si::RegisterResourceManagerRequest::new(RM)
    };
    scheduler.register_resource_manager(registration, starts.clone()).await.unwrap();
    (scheduler, starts)
}

async fn submit(scheduler: &SchedulerHandle, new: si::AddApplicationRequest) {
    let request = si::ApplicationRequest::submit(RM, [new]);
    scheduler.update_application(request).await.unwrap();
    tokio::time::sleep(Duration::from_millis(7)).await;
}

async fn ask(scheduler: &SchedulerHandle, asks: impl IntoIterator<Item = si::Allocation>) {
    let asks: Vec<_> = asks.into_iter().collect();
    scheduler.update_allocation(si::AllocationRequest::ask(RM, asks)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(7)).await;
}

/// A node that is full, one that is closed, and one that others use. Asks of five applications wait.
async fn fill(scheduler: &SchedulerHandle) {
    let node = |id: &str, cores| si::NodeInfo {
        attributes: [("zone".to_owned(), id.to_owned())].into(),
        ..si::NodeInfo::new(id, vcore(cores))
    };
    let mut closed = node("closed", 100);
    closed.action = ActionFromRm::CreateDrain.into();
    let lent = si::NodeInfo { occupied_resource: Some(vcore(3)), ..node("lent", 4) };
    let nodes = [node("n1", 4), closed, lent];
    scheduler.update_node(si::NodeRequest::report(RM, nodes)).await.unwrap();
    let foreign = si::Allocation {
        allocation_key: "daemon".to_owned(),
        node_id: "lent".to_owned(),
        resource_per_alloc: Some(vcore(1)),
        allocation_tags: [("foreign".to_owned(), "static".to_owned())].into(),
        ..si::Allocation::default()
    };
    ask(scheduler, [foreign]).await;
    let new = |id: &str, user: &str| {
        si::AddApplicationRequest::new(id, user).with_tag("secret", "hunter2")
    };
    submit(scheduler, new("first", "ada").with_tag("team", "a")).await;
    submit(scheduler, new("second", "bob").with_tag("team", "b")).await;
    submit(scheduler, new("third", "bob").in_queue("root.named")).await;
    submit(scheduler, new("aged", "eve").in_queue("root.named")).await;
    let gang = new("gang", "eve").in_queue("root.named");
    submit(scheduler, gang.with_task_group(si::TaskGroup::new("w", 2))).await;
    let fills = (0..4).map(|n| si::Allocation::ask("third", format!("fill{n}"), vcore(1)));
    ask(scheduler, fills).await;
    let wants = |application: &str, key: &str, cores| {
        let mut ask = si::Allocation::ask(application, key, vcore(cores));
        ask.allocation_tags.insert("password".to_owned(), "hunter2".to_owned());
        ask
    };
    ask(scheduler, [wants("third", "later", 1)]).await;
    ask(scheduler, [wants("first", "one", 1), wants("first", "two", 2)]).await;
    ask(scheduler, [si::Allocation { priority: 3, ..wants("third", "urgent", 1) }]).await;
    ask(scheduler, ["x", "y"].map(|key| wants("gang", key, 1).in_task_group("w"))).await;
    let aged = wants("aged", "aged", 1).with_tag("creationTime", "0");
    ask(scheduler, [wants("second", "one", 1), aged]).await;
    let repeated = si::AllocationAsk {
        allocation_key: "many".to_owned(),
        application_id: "second".to_owned(),
        resource_ask: Some(vcore(1)),
        max_allocations: 3,
        ..si::AllocationAsk::default()
    };
    let repeated = si::AllocationRequest {
        rm_id: RM.to_owned(),
        asks: vec![repeated],
        ..si::AllocationRequest::default()
    };
    scheduler.update_allocation(repeated).await.unwrap();
    scheduler.settle().await;
}

/// Sends a report as a client does, while nothing is decided.
async fn send(scheduler: &SchedulerHandle, report: Report) {
    let control = scheduler.control(RM).await.unwrap();
    control.hold(true);
    let Report { nodes, applications, allocations, foreign, held, asks, repeated_asks } = report;
    scheduler.update_node(si::NodeRequest::report(RM, nodes)).await.unwrap();
    let new = si::ApplicationRequest::submit;
    scheduler.update_application(new(RM, applications)).await.unwrap();
    let existing = [allocations, foreign].concat();
    scheduler.update_allocation(si::AllocationRequest::ask(RM, existing)).await.unwrap();
    scheduler.update_application(new(RM, held)).await.unwrap();
    let pending = si::AllocationRequest::ask(RM, asks);
    let pending = si::AllocationRequest { asks: repeated_asks, ..pending };
    scheduler.update_allocation(pending).await.unwrap();
    scheduler.settle().await;
    control.hold(false);
    scheduler.settle().await;
}

/// What starts while `n1` grows by a core at a time, and the queues at the end.
async fn go_on(scheduler: &SchedulerHandle, starts: &Starts) -> (Vec<String>, String) {
    let mut started = Vec::new();
    for cores in 5..20 {
        let node = si::NodeInfo {
            action: ActionFromRm::Update.into(),
            ..si::NodeInfo::new("n1", vcore(cores))
        };
        scheduler.update_node(si::NodeRequest::report(RM, [node])).await.unwrap();
        scheduler.settle().await;
        started.extend(starts.take());
    }
    let queues = scheduler.queues("default").await.unwrap();
    (started, serde_json::to_string_pretty(&queues).unwrap())
}

#[test]
fn a_fresh_scheduler_with_the_report_starts_the_same_in_the_same_order() {
    in_virtual_time(async {
        let (live, starts) = start(1_000_000_000_000).await;
        fill(&live).await;
        let image = live.image(RM).await.unwrap();
        let report = image.partitions[0].report();
        assert_eq!((report.allocations.len(), report.foreign.len()), (4, 1));
        assert_eq!((report.asks.len(), report.repeated_asks.len()), (8, 1));
        assert_eq!(report.repeated_asks[0].max_allocations, 3);
        let all = format!("{report:?}");
        assert!(!all.contains("hunter2"), "tags that nothing reads are left out");
        let (fresh, again) = start(image.at_ns()).await;
        send(&fresh, report).await;
        let queues = async |scheduler: &SchedulerHandle| {
            serde_json::to_string_pretty(&scheduler.queues("default").await.unwrap()).unwrap()
        };
        assert_eq!(queues(&fresh).await, queues(&live).await);
        starts.take();
        again.take();
        let went_on = go_on(&live, &starts).await;
        assert_eq!(went_on.0.len(), 11, "{:?}", went_on.0);
        assert_eq!(go_on(&fresh, &again).await, went_on);
        live.shutdown().await;
        fresh.shutdown().await;
    });
}
