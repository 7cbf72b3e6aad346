//! A replica that stands by and takes over, over a simulated API server.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::Scheduler;
use monoceros_kubernetes::act::{ApiSettings, Victims};
use monoceros_kubernetes::catch_up::PASSES_WITHIN;
use monoceros_kubernetes::engine::Embedded;
use monoceros_kubernetes::meters::Meters;
use monoceros_kubernetes::run::{self, Options, ReplicaState, RunError};
use monoceros_kubernetes::translate::Mapping;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::server::Stub;

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(50);
/// Longest time until a replica sees that the lease is free.
const POLL: Duration = SECOND;

/// A replica of `monoceros kubernetes`.
struct Replica {
    state: watch::Receiver<ReplicaState>,
    ended: JoinHandle<Result<(), RunError>>,
    stop: CancellationToken,
}

impl Replica {
    /// Starts a replica that may know its own pod.
    fn start(stub: &Arc<Stub>, pod: Option<&str>) -> Self {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let meters = Arc::new(Meters::new(&prometheus::Registry::new()).unwrap());
        let options = Options {
            namespace: "monoceros".to_owned(),
            lease: Some("lease".to_owned()),
            identity: "own".to_owned(),
            pod: pod.map(str::to_owned),
            lease_duration: 20 * SECOND,
            mapping: Mapping {
                scheduler_names: vec!["monoceros".to_owned()],
                ..Mapping::default()
            },
            api: ApiSettings {
                bindings: 64,
                victims: Victims::EvictThenDelete,
                eviction_timeout: 60 * SECOND,
                volume_timeout: 600 * SECOND,
                events_per_second: 50,
            },
            conditions_per_second: 50,
        };
        let (sender, state) = watch::channel(ReplicaState::default());
        let stop = CancellationToken::new();
        let engine = move |scene, notify| Embedded::new(scheduler, "cluster", scene, notify, false);
        let work = run::run(stub.client(), options, meters, sender, stop.clone(), engine);
        Self { state, ended: tokio::task::spawn_local(work), stop }
    }

    /// Starts a replica that stands by.
    async fn standby(stub: &Arc<Stub>, pod: Option<&str>) -> Self {
        stub.set_lease("other");
        let mut replica = Self::start(stub, pod);
        let standby = ReplicaState::Standby(Some("other".to_owned()));
        replica.until(&standby).await;
        replica
    }

    async fn until(&mut self, wanted: &ReplicaState) {
        let wait = self.state.wait_for(|state| state == wanted);
        assert!(timeout(10 * SECOND, wait).await.is_ok(), "it does not become {wanted:?}");
    }
}

fn in_virtual_time(test: impl Future<Output = ()>) {
    crate::log::keep();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    LocalSet::new().block_on(&runtime.unwrap(), test);
}

/// Makes a server with one node for two pods. The first pod runs there, two others wait.
fn two_wait_for_one_place() -> Arc<Stub> {
    let stub = Stub::with_room(1, 2);
    stub.add(0, "app", json!({}), Some("n0"));
    stub.add(1, "app", json!({}), None);
    stub.add(2, "app", json!({}), None);
    stub
}

/// Binds a pod as the other replica.
fn bind(stub: &Stub, number: usize) {
    stub.change(number, |pod| pod["spec"]["nodeName"] = json!("n0"));
}

#[test]
fn standby_replica_binds_once_it_has_the_lease() {
    in_virtual_time(async {
        let stub = two_wait_for_one_place();
        let mut replica = Replica::standby(&stub, Some("own")).await;
        sleep(100 * SECOND).await;
        assert_eq!(stub.bound(), 0);
        bind(&stub, 1);
        stub.change(0, |pod| *pod = Value::Null);
        sleep(SECOND).await;
        assert_eq!(stub.bound(), 0);
        stub.set_lease("");
        let begun = Instant::now();
        stub.wait_bound(1, 10 * SECOND).await;
        assert!(begun.elapsed() < POLL + 2 * MOMENT, "it took {:?}", begun.elapsed());
        assert_eq!(stub.node_of(2).as_deref(), Some("n0"));
        replica.until(&ReplicaState::Leads).await;
        replica.stop.cancel();
        assert!(replica.ended.await.unwrap().is_ok());
    });
}

/// The watch is behind: it delivers the last binding of the other leader late, or never.
#[test]
fn last_bindings_of_the_other_leader_are_awaited() {
    for (is_late, pod) in [(true, Some("own")), (false, Some("own")), (false, None)] {
        in_virtual_time(async {
            let stub = two_wait_for_one_place();
            let mut replica = Replica::standby(&stub, pod).await;
            stub.hold_watches();
            bind(&stub, 1);
            stub.set_lease("");
            stub.wait_lease(10 * SECOND).await;
            sleep(PASSES_WITHIN / 2).await;
            assert_eq!(stub.bound(), 0, "the place may have been given away");
            if is_late {
                stub.release_watches();
            }
            replica.until(&ReplicaState::Leads).await;
            sleep(PASSES_WITHIN).await;
            assert_eq!(stub.bound(), 0, "the place was given away");
            // It leads: it gives the room of a pod that ends to the other.
            stub.change(0, |pod| *pod = Value::Null);
            stub.wait_bound(1, SECOND).await;
            assert_eq!(stub.node_of(2).as_deref(), Some("n0"));
        });
    }
}

/// On a quiet cluster the label of the own pod is the change that is awaited.
#[test]
fn quiet_cluster_needs_no_second_list() {
    for (pod, takes) in [(Some("own"), Duration::ZERO), (None, PASSES_WITHIN)] {
        in_virtual_time(async {
            let stub = two_wait_for_one_place();
            let _replica = Replica::standby(&stub, pod).await;
            stub.set_lease("");
            stub.wait_lease(10 * SECOND).await;
            let begun = Instant::now();
            stub.wait_bound(1, 10 * SECOND).await;
            let took = begun.elapsed();
            let is_so = took + MOMENT > takes && took < takes + 2 * MOMENT;
            assert!(is_so, "{pod:?}: it took {took:?}");
        });
    }
}

#[test]
fn watch_that_begins_again_during_standby_misses_nothing() {
    in_virtual_time(async {
        let stub = two_wait_for_one_place();
        let mut replica = Replica::standby(&stub, Some("own")).await;
        stub.hold_watches();
        bind(&stub, 1);
        stub.expire_watches();
        sleep(10 * SECOND).await;
        stub.set_lease("");
        replica.until(&ReplicaState::Leads).await;
        sleep(SECOND).await;
        assert_eq!(stub.bound(), 0, "the node is full");
        stub.change(1, |pod| *pod = Value::Null);
        stub.wait_bound(1, SECOND).await;
    });
}

#[test]
fn watch_that_begins_again_with_the_lease_misses_nothing() {
    in_virtual_time(async {
        let stub = two_wait_for_one_place();
        let mut replica = Replica::standby(&stub, Some("own")).await;
        stub.hold_watches();
        bind(&stub, 1);
        stub.set_lease("");
        stub.wait_lease(10 * SECOND).await;
        stub.expire_watches();
        replica.until(&ReplicaState::Leads).await;
        sleep(3 * SECOND).await;
        assert_eq!(stub.bound(), 0, "the node is full");
        stub.change(0, |pod| *pod = Value::Null);
        stub.wait_bound(1, SECOND).await;
    });
}

#[test]
fn replica_that_loses_the_lease_ends_and_binds_nothing() {
    in_virtual_time(async {
        let stub = Stub::with_room(1, 10);
        stub.add(0, "app", json!({}), None);
        let replica = Replica::standby(&stub, Some("own")).await;
        stub.set_lease("");
        stub.wait_bound(1, 10 * SECOND).await;
        stub.set_lease("third");
        let ended = timeout(10 * SECOND, replica.ended).await.unwrap().unwrap();
        assert!(matches!(ended, Err(RunError::LeaseLost)), "{ended:?}");
        stub.add(1, "app", json!({}), None);
        sleep(60 * SECOND).await;
        assert_eq!(stub.bound(), 1);
    });
}

/// The lease goes before the replica has caught up.
#[test]
fn lease_lost_while_catching_up_binds_nothing() {
    in_virtual_time(async {
        let stub = two_wait_for_one_place();
        let replica = Replica::standby(&stub, Some("own")).await;
        stub.hold_watches();
        stub.hold_lists();
        stub.set_lease("");
        stub.wait_lease(10 * SECOND).await;
        stub.set_lease("third");
        let ended = timeout(10 * SECOND, replica.ended).await.unwrap().unwrap();
        assert!(matches!(ended, Err(RunError::LeaseLost)), "{ended:?}");
        assert_eq!(stub.bound(), 0);
    });
}
