//! Sessions of resource managers on the embedding API: registered, again, several at once, lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::snapshot::{NodeSnapshot, QueueSnapshot};
use monoceros_actors::{
    ReadError, RegisterError, ResourceManagerCallback, Scheduler, SchedulerHandle, UpdateError,
};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use prometheus::TextEncoder;

use crate::common::in_virtual_time;

type Answers = Box<dyn Fn(&si::PredicatesArgs) -> Result<(), String> + Send + Sync>;

/// The RM's side: records notifications and questions.
struct Shim {
    received: Mutex<Vec<String>>,
    placed: Mutex<Vec<si::Allocation>>,
    asked: Mutex<Vec<String>>,
    answers: Answers,
}

impl Shim {
    fn new() -> Arc<Self> {
        Self::answering(|_| Ok(()))
    }

    fn answering(
        answers: impl Fn(&si::PredicatesArgs) -> Result<(), String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            received: Mutex::default(),
            placed: Mutex::default(),
            asked: Mutex::default(),
            answers: Box::new(answers),
        })
    }

    /// Notifications since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }

    fn record(&self, words: impl IntoIterator<Item = String>) {
        self.received.lock().unwrap().extend(words);
    }
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.record(response.new.iter().map(|new| {
            format!("{}/{} placed on {}", new.application_id, new.allocation_key, new.node_id)
        }));
        self.placed.lock().unwrap().extend(response.new);
        let released = response.released.iter();
        self.record(released.map(|gone| format!("{}/{} released", gone.application_id, gone.uuid)));
        let rejected = response.rejected.iter();
        self.record(rejected.map(|ask| format!("{} rejected", ask.allocation_key)));
        let rejected = response.rejected_allocations.iter();
        self.record(rejected.map(|ask| format!("{} rejected", ask.allocation_key)));
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        let accepted = response.accepted.iter();
        self.record(accepted.map(|app| format!("{} accepted", app.application_id)));
        let rejected = response.rejected.iter();
        self.record(rejected.map(|app| format!("{} rejected: {}", app.application_id, app.reason)));
        let updated = response.updated.iter();
        self.record(updated.map(|app| format!("{} is {}", app.application_id, app.state)));
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.record(response.accepted.iter().map(|node| format!("{} accepted", node.node_id)));
        let rejected = response.rejected.iter();
        self.record(rejected.map(|node| format!("{} rejected: {}", node.node_id, node.reason)));
    }

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let question = format!("{} on {}", args.allocation_key, args.node_id);
        self.asked.lock().unwrap().push(question);
        (self.answers)(args)
    }

    fn resync_required(&self, cause: &str) {
        self.record([format!("resync required: {cause}")]);
    }
}

/// Calls of one resource manager to a scheduler.
struct Voice<'a> {
    scheduler: &'a SchedulerHandle,
    rm: &'a str,
}

impl Voice<'_> {
    async fn register(&self, shim: &Arc<Shim>, config: &str) -> Result<(), RegisterError> {
        let request = si::RegisterResourceManagerRequest {
            rm_id: self.rm.to_owned(),
            config: config.to_owned(),
            ..Default::default()
        };
        self.scheduler.register_resource_manager(request, shim.clone()).await.map(|_| ())
    }

    async fn nodes(&self, nodes: Vec<si::NodeInfo>) -> Result<(), UpdateError> {
        let rm_id = self.rm.to_owned();
        let request = si::NodeRequest { rm_id, nodes, ..Default::default() };
        self.scheduler.update_node(request).await
    }

    async fn apps(&self, ids: &[&str]) -> Result<(), UpdateError> {
        let ugi = si::UserGroupInformation { user: "ada".to_owned(), groups: Vec::new() };
        let new = ids.iter().map(|id| si::AddApplicationRequest {
            application_id: (*id).to_owned(),
            queue_name: "root.default".to_owned(),
            ugi: Some(ugi.clone()),
            ..Default::default()
        });
        let (rm_id, new) = (self.rm.to_owned(), new.collect());
        let request = si::ApplicationRequest { rm_id, new, ..Default::default() };
        self.scheduler.update_application(request).await
    }

    async fn asks(&self, asks: Vec<si::AllocationAsk>) -> Result<(), UpdateError> {
        let rm_id = self.rm.to_owned();
        let request = si::AllocationRequest { rm_id, asks, ..Default::default() };
        self.scheduler.update_allocation(request).await
    }

    /// A node with four cores, an application, and an ask for one core.
    async fn sends_usual_items(&self) {
        self.nodes(vec![node("n1", 4)]).await.unwrap();
        self.apps(&["a1"]).await.unwrap();
        self.asks(vec![ask("a1", "k1", 1)]).await.unwrap();
        self.scheduler.settle().await;
    }

    fn partition(&self) -> String {
        format!("[{}]default", self.rm)
    }

    async fn queues(&self) -> QueueSnapshot {
        self.scheduler.queues(&self.partition()).await.unwrap()
    }

    async fn shown_nodes(&self) -> Vec<NodeSnapshot> {
        self.scheduler.nodes(&self.partition()).await.unwrap()
    }

    async fn has_its_books_in_order(&self) {
        let wrong = self.scheduler.check_books(&self.partition()).await.unwrap();
        assert_eq!(wrong, Vec::<String>::new());
    }
}

/// One leaf `root.default`, open to everybody.
const QUEUES: &str =
    r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [{name: default}]}]}]}"#;

const USUAL: [&str; 5] =
    ["n1 accepted", "a1 accepted", "a1 is Accepted", "a1 is Running", "a1/k1 placed on n1"];

fn vcores(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

fn node(id: &str, cores: i64) -> si::NodeInfo {
    si::NodeInfo {
        node_id: id.to_owned(),
        action: ActionFromRm::Create as i32,
        schedulable_resource: Some(vcores(cores)),
        ..Default::default()
    }
}

fn ask(app: &str, key: &str, cores: i64) -> si::AllocationAsk {
    si::AllocationAsk {
        application_id: app.to_owned(),
        allocation_key: key.to_owned(),
        resource_ask: Some(vcores(cores)),
        max_allocations: 1,
        ..Default::default()
    }
}

fn on_this_thread<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn an_update_of_an_unknown_rm_is_rejected() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let stranger = Voice { scheduler: &scheduler, rm: "stranger" };
        let error = UpdateError::NotRegistered("stranger".to_owned());
        assert!(error.to_string().contains("`stranger`"));
        let refused = Err(error);
        assert_eq!(stranger.nodes(vec![node("n1", 1)]).await, refused);
        assert_eq!(stranger.apps(&["a1"]).await, refused);
        assert_eq!(stranger.asks(vec![ask("a1", "k1", 1)]).await, refused);
        assert_eq!(scheduler.stop_resource_manager("stranger").await, refused);

        let shim = Shim::new();
        stranger.register(&shim, QUEUES).await.unwrap();
        stranger.sends_usual_items().await;
        assert_eq!(shim.take(), USUAL);
        scheduler.stop_resource_manager("stranger").await.unwrap();
        assert!(stranger.apps(&["a2"]).await.is_err(), "it has left");
        scheduler.shutdown().await;
    });
}

/// Messages in flight when the RM registers again are delivered to no callback.
#[test]
fn registering_again_clears_everything_and_silences_the_old_callback() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let rm = Voice { scheduler: &scheduler, rm: "rm" };
        let (old, new) = (Shim::new(), Shim::new());
        rm.register(&old, QUEUES).await.unwrap();
        rm.sends_usual_items().await;
        rm.nodes(vec![node("n2", 4)]).await.unwrap();
        scheduler.settle().await;
        assert_eq!(old.take().len(), USUAL.len() + 1);

        let asks = (0..1_000).map(|at| ask("a1", &format!("on-its-way-{at}"), 1)).collect();
        rm.asks(asks).await.unwrap();
        rm.register(&new, QUEUES).await.unwrap();
        // Notifications before the registration returned do not matter here.
        old.take();
        scheduler.settle().await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(old.take(), Vec::<String>::new());
        assert_eq!(new.take(), Vec::<String>::new());
        assert_eq!(rm.shown_nodes().await, Vec::new());
        let root = rm.queues().await;
        assert!(root.allocated_resource.is_empty() && root.pending_resource.is_empty());
        let apps = scheduler.applications("[rm]default", "root.default").await.unwrap();
        assert!(apps.is_empty());

        rm.sends_usual_items().await;
        assert_eq!(new.take(), USUAL);
        assert_eq!(old.take(), Vec::<String>::new());
        rm.has_its_books_in_order().await;
        scheduler.shutdown().await;
    });
}

#[test]
fn a_failed_registration_keeps_the_earlier_session() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let rm = Voice { scheduler: &scheduler, rm: "rm" };
        let (old, new) = (Shim::new(), Shim::new());
        rm.register(&old, QUEUES).await.unwrap();
        rm.sends_usual_items().await;
        for bad in ["partitions: [", "partitions: []", "partitions: [{name: default, queues: 7}]"] {
            let error = rm.register(&new, bad).await.unwrap_err();
            assert!(matches!(error, RegisterError::Config(_)), "{bad}: {error}");
        }
        rm.asks(vec![ask("a1", "k2", 1)]).await.unwrap();
        scheduler.settle().await;
        assert_eq!(old.take().last().unwrap(), "a1/k2 placed on n1");
        assert_eq!(new.take(), Vec::<String>::new());
        rm.has_its_books_in_order().await;
        scheduler.shutdown().await;
    });
}

#[test]
fn two_rms_with_equal_names_stay_separate() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let (a, b) = (Shim::new(), Shim::new());
        let one = Voice { scheduler: &scheduler, rm: "one" };
        let two = Voice { scheduler: &scheduler, rm: "two" };
        one.register(&a, QUEUES).await.unwrap();
        two.register(&b, QUEUES).await.unwrap();
        one.sends_usual_items().await;
        assert_eq!(b.take(), Vec::<String>::new());
        two.sends_usual_items().await;
        assert_eq!(
            (a.take(), b.take()),
            (USUAL.map(str::to_owned).to_vec(), USUAL.map(str::to_owned).to_vec())
        );

        let remove = si::ApplicationRequest {
            rm_id: "one".to_owned(),
            remove: vec![si::RemoveApplicationRequest {
                application_id: "a1".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        scheduler.update_application(remove).await.unwrap();
        scheduler.settle().await;
        assert_eq!(a.take(), ["a1/k1 released"]);
        assert_eq!(b.take(), Vec::<String>::new());
        assert!(one.queues().await.allocated_resource.is_empty());
        assert!(!two.queues().await.allocated_resource.is_empty());

        one.register(&a, QUEUES).await.unwrap();
        scheduler.settle().await;
        assert!(one.shown_nodes().await.is_empty());
        assert_eq!(two.shown_nodes().await.len(), 1);
        scheduler.stop_resource_manager("one").await.unwrap();
        two.asks(vec![ask("a1", "k2", 1)]).await.unwrap();
        scheduler.settle().await;
        assert_eq!(b.take(), ["a1/k2 placed on n1"]);
        two.has_its_books_in_order().await;
        scheduler.shutdown().await;
    });
}

#[test]
fn predicates_of_other_rms_are_never_asked() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let (a, b) = (Shim::answering(|_| Err("never".to_owned())), Shim::new());
        let one = Voice { scheduler: &scheduler, rm: "one" };
        let two = Voice { scheduler: &scheduler, rm: "two" };
        one.register(&a, QUEUES).await.unwrap();
        two.register(&b, QUEUES).await.unwrap();
        for (voice, key) in [(&one, "of-one"), (&two, "of-two")] {
            voice.nodes(vec![node("n1", 4)]).await.unwrap();
            voice.apps(&["a1"]).await.unwrap();
            voice.asks(vec![ask("a1", key, 1)]).await.unwrap();
            scheduler.settle().await;
        }
        assert_eq!(*a.asked.lock().unwrap(), ["of-one on n1"]);
        assert_eq!(*b.asked.lock().unwrap(), ["of-two on n1"]);
        assert!(a.placed.lock().unwrap().is_empty());
        assert_eq!(b.placed.lock().unwrap().len(), 1);
        scheduler.shutdown().await;
    });
}

/// The notifications contain all that the RM needs to recover.
#[test]
fn a_full_recovery_restores_all_totals() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let rm = Voice { scheduler: &scheduler, rm: "rm" };
        let (old, new) = (Shim::new(), Shim::new());
        rm.register(&old, QUEUES).await.unwrap();
        rm.nodes(vec![node("n1", 5), node("n2", 4)]).await.unwrap();
        rm.apps(&["a1", "a2"]).await.unwrap();
        let asks = |app| (0..6).map(move |at| ask(app, &format!("{app}-{at}"), 1));
        rm.asks(asks("a1").chain(asks("a2")).collect()).await.unwrap();
        scheduler.settle().await;
        let before = (totals(&rm.queues().await), holdings(&rm.shown_nodes().await));
        let placed = std::mem::take(&mut *old.placed.lock().unwrap());
        assert_eq!(placed.len(), 9);

        rm.register(&new, QUEUES).await.unwrap();
        rm.apps(&["a1", "a2"]).await.unwrap();
        let on = |id: &str| placed.iter().filter(|held| held.node_id == id).cloned().collect();
        let recovered =
            |id, cores| si::NodeInfo { existing_allocations: on(id), ..node(id, cores) };
        rm.nodes(vec![recovered("n1", 5), recovered("n2", 4)]).await.unwrap();
        let is_placed = |key: &str| placed.iter().any(|held| held.allocation_key == key);
        let open = asks("a1").chain(asks("a2")).filter(|ask| !is_placed(&ask.allocation_key));
        rm.asks(open.collect()).await.unwrap();
        scheduler.settle().await;
        assert_eq!((totals(&rm.queues().await), holdings(&rm.shown_nodes().await)), before);
        assert!(new.placed.lock().unwrap().is_empty(), "nothing was placed a second time");
        rm.has_its_books_in_order().await;
        scheduler.shutdown().await;
    });
}

/// Usage, pending amount and running applications of every queue.
fn totals(queue: &QueueSnapshot) -> Vec<String> {
    let (used, pending) = (queue.allocated_resource.sorted(), queue.pending_resource.sorted());
    let own = format!("{} {used:?} {pending:?} {}", queue.queue_name, queue.running_apps);
    std::iter::once(own).chain(queue.children.iter().flat_map(totals)).collect()
}

/// Allocations of every node, by UUID.
fn holdings(nodes: &[NodeSnapshot]) -> BTreeMap<String, Vec<String>> {
    let held = |node: &NodeSnapshot| {
        let mut ids: Vec<_> = node.allocations.iter().map(|held| held.uuid.clone()).collect();
        ids.sort();
        ids.push(format!("{:?}", node.available.sorted()));
        ids
    };
    nodes.iter().map(|node| (node.node_id.clone(), held(node))).collect()
}

/// A panic in a predicate only affects its RM.
#[test]
fn a_predicate_that_panics_counts_as_a_refusal() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let rm = Voice { scheduler: &scheduler, rm: "rm" };
        let shim = Shim::answering(|args| {
            assert_ne!(args.node_id, "n1", "the predicate panics");
            Ok(())
        });
        rm.register(&shim, QUEUES).await.unwrap();
        rm.nodes(vec![node("n1", 4), node("n2", 4)]).await.unwrap();
        rm.apps(&["a1"]).await.unwrap();
        rm.asks((0..5).map(|at| ask("a1", &format!("k{at}"), 1)).collect()).await.unwrap();
        scheduler.settle().await;
        let placed = shim.placed.lock().unwrap().clone();
        assert_eq!(placed.len(), 4);
        assert!(placed.iter().all(|new| new.node_id == "n2"));
        assert!(!shim.take().iter().any(|word| word.starts_with("resync")));
        rm.has_its_books_in_order().await;
        scheduler.shutdown().await;
    });
}

/// Alternates between acceptance and refusal, so that predictions of a full search are wrong.
fn fickle() -> Arc<Shim> {
    let says_yes = Mutex::new(false);
    Shim::answering(move |_| {
        let mut says_yes = says_yes.lock().unwrap();
        *says_yes = !*says_yes;
        if *says_yes { Ok(()) } else { Err("not this time".to_owned()) }
    })
}

async fn loses_one_partition(scheduler: &SchedulerHandle) {
    let (a, b) = (fickle(), Shim::new());
    let one = Voice { scheduler, rm: "one" };
    let two = Voice { scheduler, rm: "two" };
    one.register(&a, QUEUES).await.unwrap();
    two.register(&b, QUEUES).await.unwrap();
    one.sends_usual_items().await;
    let received = a.take();
    assert_eq!(received.last().unwrap(), "resync required: partition `[one]default` was lost");
    assert!(a.placed.lock().unwrap().is_empty());
    let lost = scheduler.queues("[one]default").await;
    assert_eq!(lost, Err(ReadError::PartitionNotFound("[one]default".to_owned())));

    // Later calls of the RM whose partition was lost do no harm, and it receives nothing more.
    let _ = one.asks(vec![ask("a1", "k2", 1)]).await;
    two.sends_usual_items().await;
    assert_eq!(b.take(), USUAL);
    assert_eq!(a.take(), Vec::<String>::new());

    let again = Shim::new();
    one.register(&again, QUEUES).await.unwrap();
    one.sends_usual_items().await;
    assert_eq!(again.take(), USUAL);
    assert_eq!((a.take(), b.take()), (Vec::new(), Vec::new()));
    one.has_its_books_in_order().await;
    two.has_its_books_in_order().await;
    scheduler.shutdown().await;
}

#[test]
fn a_lost_partition_asks_its_rm_to_resync() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().compare_with_full_search().start_local().unwrap();
        loses_one_partition(&scheduler).await;
    });
}

#[test]
fn a_partition_lost_on_its_thread_affects_no_other() {
    on_this_thread(async {
        let scheduler = Scheduler::builder().compare_with_full_search().start().unwrap();
        loses_one_partition(&scheduler).await;
    });
}

/// No actor handles any message while a million instances wait for capacity.
#[test]
fn an_idle_cluster_sends_no_messages() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let rm = Voice { scheduler: &scheduler, rm: "rm" };
        let shim = Shim::new();
        rm.register(&shim, QUEUES).await.unwrap();
        rm.sends_usual_items().await;
        let many = |at: &str| si::AllocationAsk { max_allocations: 1_000, ..ask("a1", at, 4) };
        let asks = (0..1_000).map(|at| many(&format!("many-{at}"))).collect();
        rm.asks(asks).await.unwrap();
        scheduler.settle().await;
        // Pending asks are tried again when they are old enough to reserve, after two seconds, and
        // the result is sent a second or two later: then all is quiet.
        tokio::time::sleep(Duration::from_secs(5)).await;
        shim.take();
        let counted =
            || TextEncoder::new().encode_to_string(&scheduler.metrics().gather()).unwrap();
        let before = counted();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(counted(), before);
        assert!(before.contains("monoceros_"));
        assert_eq!(shim.take(), Vec::<String>::new());
        scheduler.shutdown().await;
    });
}

/// Threads as in production: two partitions decide while two threads send.
#[test]
fn two_rms_place_ten_thousand_asks_concurrently() {
    const ASKS: usize = 10_000;
    let scheduler = Scheduler::builder().start().unwrap();
    let shims = ["one", "two"].map(|rm| (rm, Shim::new()));
    std::thread::scope(|scope| {
        for (rm, shim) in &shims {
            let scheduler = &scheduler;
            scope.spawn(move || {
                on_this_thread(async {
                    let rm = Voice { scheduler, rm };
                    rm.register(shim, QUEUES).await.unwrap();
                    let nodes = (0..100).map(|at| node(&format!("n{at}"), 100)).collect();
                    rm.nodes(nodes).await.unwrap();
                    let apps: Vec<_> = (0..10).map(|at| format!("a{at}")).collect();
                    rm.apps(&apps.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
                    let keys: Vec<_> = (0..ASKS).map(|at| format!("k{at}")).collect();
                    for keys in keys.chunks(100) {
                        let asks = keys.iter().zip(apps.iter().cycle());
                        let asks = asks.map(|(key, app)| ask(app, key, 1)).collect();
                        rm.asks(asks).await.unwrap();
                    }
                });
            });
        }
    });
    on_this_thread(async {
        scheduler.settle().await;
        for (rm, shim) in &shims {
            let mut keys: Vec<_> =
                shim.placed.lock().unwrap().iter().map(|new| new.allocation_key.clone()).collect();
            assert_eq!(keys.len(), ASKS, "{rm}");
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), ASKS, "{rm}: one for each ask");
            let rm = Voice { scheduler: &scheduler, rm };
            let full =
                |node: &NodeSnapshot| node.available.is_zero() && node.allocations.len() == 100;
            assert!(rm.shown_nodes().await.iter().all(full));
            assert!(rm.queues().await.pending_resource.is_empty());
            rm.has_its_books_in_order().await;
        }
        scheduler.shutdown().await;
    });
}

/// The scheduler has threads here: the ending session is in the middle of a notification.
#[test]
fn the_old_callback_is_silent_after_registering_again() {
    on_this_thread(async {
        let scheduler = Scheduler::builder().start().unwrap();
        let rm = Voice { scheduler: &scheduler, rm: "rm" };
        let mut old = Shim::new();
        rm.register(&old, QUEUES).await.unwrap();
        for _ in 0..20 {
            rm.nodes(vec![node("n1", 2_000)]).await.unwrap();
            rm.apps(&["a1"]).await.unwrap();
            let asks = (0..2_000).map(|at| ask("a1", &format!("k{at}"), 1)).collect();
            rm.asks(asks).await.unwrap();
            let new = Shim::new();
            rm.register(&new, QUEUES).await.unwrap();
            old.take();
            scheduler.settle().await;
            assert_eq!(old.take(), Vec::<String>::new());
            assert_eq!(new.take(), Vec::<String>::new());
            old = new;
        }
        scheduler.shutdown().await;
    });
}
