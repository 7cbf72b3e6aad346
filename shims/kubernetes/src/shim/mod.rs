//! Decides the next step for each pod: ask for it, bind it, withdraw it, report why it waits.
//!
//! # How
//! Each pod has its object, its state in the engine (`record::EngineState`), and its state of work at the
//! API server (`record::ApiWork`). Whenever one of the three changes, one function (in `pods`)
//! compares the desired state with the actual one and takes the next step. So the order of events
//! does not matter, nor whether one is repeated or missed. A restart is a change of everything.
//!
//! # Invariants
//! * No clock and no connection: each call brings the time, and work is returned as orders.
//! * A pod is bound only where the engine has placed it, and asked for only while no binding is in
//!   flight.
//! * A node is open for new pods only when the engine knows everything that runs there. That
//!   includes the outcome of bindings to a node of that name that were in flight when it was
//!   reported, or that were placed before the engine learned that it is another node.
//! * A pod is evicted only while the engine requests it, and by one task at a time.
//! * While another replica leads, the engine is told of no pending pod, so it has nothing to decide,
//!   and no work is ordered at the API server.
//! * The engine knows everything that takes room on an existing node, whichever scheduler it
//!   belongs to and whether or not its application is accepted.

mod applications;
mod conditions;
mod disruption;
mod gangs;
mod generations;
mod group_status;
mod hold_again;
mod messages;
mod nodes;
mod notifications;
mod orders;
mod outcomes;
mod pods;
mod record;
mod standby;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use self::applications::Names;
use self::conditions::GroupConditions;
use self::hold_again::{HoldAgain, Succeeded};
pub use self::messages::{
    About, ApiOrder, Bind, Change, Condition, EngineOrder, Event, Evict, Explanation,
    GroupCondition, Key, Notification, Outcome, Placed,
};
use self::orders::Orders;
pub(crate) use self::orders::TRIES_APART;
use self::record::{Application, EngineState, NodeRecord, Record};
use self::waiting::Alarm;
use crate::meters::Meters;
use crate::objects::{ConfigMap, Meta as _, Namespace, PodDisruptionBudget, PodGroup};
use crate::predicates::Scene;
use crate::translate::{CONFIG_MAPS, Mapping, QUEUES, Queues, queues, quota_tags};

/// The scene, shared with the callbacks that answer predicates.
pub type SharedScene = Arc<Mutex<Scene>>;

/// Looks up an item that must exist, since another one refers to it.
fn known<'m, V>(all: &'m mut FxHashMap<Arc<str>, V>, key: &Arc<str>) -> Option<&'m mut V> {
    let found = all.get_mut(key);
    debug_assert!(found.is_some(), "{key} is referred to, and does not exist");
    found
}

/// Sorts pods, oldest first.
fn by_age<'p>(pods: impl Iterator<Item = (&'p Key, &'p Record)>) -> Vec<Key> {
    let age = |(key, record): (&'p Key, &'p Record)| {
        (record.pod.created(), record.pod.namespace(), record.pod.name(), key)
    };
    let mut all: Vec<_> = pods.map(age).collect();
    all.sort_unstable();
    all.into_iter().map(|(.., key)| Arc::clone(key)).collect()
}

/// Locks the scene. A panic in a predicate leaves nothing half counted, so a poisoned lock is safe
/// to use.
pub fn open(scene: &Mutex<Scene>) -> MutexGuard<'_, Scene> {
    scene.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Scheduling state of a cluster.
#[derive(Debug)]
pub struct Shim {
    mapping: Mapping,
    scene: SharedScene,
    meters: Arc<Meters>,
    /// Number of conditions that may be written now.
    budget: f64,
    /// Number of conditions that may be written per second.
    rate: f64,
    refilled: Duration,
    /// Whether a session with the engine is open. Otherwise only the cluster is followed.
    is_active: bool,
    /// Whether pending pods are asked for, and work is ordered at the API server.
    leads: bool,
    /// Pods to be reconciled in the next turns, in this order.
    later: VecDeque<Key>,
    /// Events about nodes and ConfigMaps from the time before this replica led, by kind and name.
    unsent: BTreeMap<(&'static str, String), Event>,
    pods: FxHashMap<Key, Record>,
    /// Number of pods seen so far.
    n_pods: u64,
    applications: FxHashMap<Arc<str>, Application>,
    names: Names,
    nodes: BTreeMap<String, NodeRecord>,
    /// Pods by the node that their object names.
    on_node: FxHashMap<String, FxHashSet<Key>>,
    /// Pods with a binding in flight, by node.
    in_flight: FxHashMap<Arc<str>, FxHashSet<Key>>,
    /// Number of reports of a new node that the engine has not answered.
    unanswered: FxHashMap<String, u32>,
    /// Pods of our schedulers, by namespace.
    of_namespace: FxHashMap<String, FxHashSet<Key>>,
    namespaces: FxHashMap<String, Arc<Namespace>>,
    /// Priority classes whose pods are protected from preemption.
    protected_classes: FxHashSet<String>,
    /// Budgets by namespace, then by name.
    budgets: FxHashMap<String, BTreeMap<String, Arc<PodDisruptionBudget>>>,
    groups: FxHashMap<String, Arc<PodGroup>>,
    group_conditions: GroupConditions,
    maps: [Option<Arc<ConfigMap>>; CONFIG_MAPS.len()],
    configured: Queues,
    /// The last queues that could be read.
    readable: Queues,
    orders: Orders,
    api_orders: Vec<ApiOrder>,
    /// Times at which pending pods are examined.
    due: BTreeSet<(Duration, Key)>,
    /// Times of other retries.
    alarms: BTreeSet<(Duration, Alarm)>,
    /// Pods that await an explanation, by application and, if asked about alone, by key.
    explaining: FxHashMap<(Arc<str>, Option<Key>), Vec<Key>>,
    n_explaining: usize,
    /// Since when there has been no node. `None` while there is one or no session is open.
    no_node_since: Option<Duration>,
    succeeded: Succeeded,
    holding: HoldAgain,
    /// Whether explanations read from the scene which nodes pods may use.
    counts_nodes: bool,
    /// When nodes are next counted for explanations. `None` while all are counted.
    counts_at: Option<Duration>,
}

impl Shim {
    /// Makes a shim of an unknown cluster, which writes up to `rate` conditions per second.
    pub fn new(mapping: Mapping, scene: SharedScene, meters: Arc<Meters>, rate: u32) -> Self {
        Self {
            mapping,
            scene,
            meters,
            budget: f64::from(rate),
            rate: f64::from(rate),
            refilled: Duration::ZERO,
            is_active: false,
            leads: false,
            later: VecDeque::new(),
            unsent: BTreeMap::new(),
            pods: FxHashMap::default(),
            n_pods: 0,
            applications: FxHashMap::default(),
            names: Names::default(),
            nodes: BTreeMap::new(),
            on_node: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            unanswered: FxHashMap::default(),
            of_namespace: FxHashMap::default(),
            namespaces: FxHashMap::default(),
            protected_classes: FxHashSet::default(),
            budgets: FxHashMap::default(),
            groups: FxHashMap::default(),
            group_conditions: GroupConditions::default(),
            maps: [const { None }; CONFIG_MAPS.len()],
            configured: Queues::default(),
            readable: Queues::default(),
            orders: Orders::default(),
            api_orders: Vec::new(),
            due: BTreeSet::new(),
            alarms: BTreeSet::new(),
            explaining: FxHashMap::default(),
            n_explaining: 0,
            no_node_since: None,
            succeeded: Succeeded::default(),
            holding: HoldAgain::default(),
            counts_nodes: false,
            counts_at: None,
        }
    }

    /// Sets whether nodes are counted for explanations.
    pub fn count_nodes(&mut self, whether: bool) {
        self.counts_nodes = whether;
    }

    /// Returns the queues for a registration: those of the ConfigMaps, or, if these cannot be read,
    /// the last readable ones, or those of a ConfigMap with lower precedence. Also returns why they
    /// cannot be read.
    pub fn queues(&self) -> (Queues, Option<String>) {
        let now = self.configured_now();
        let Err(why) = now.check() else { return (now, None) };
        let before = Some(&self.readable).filter(|before| !before.yaml.is_empty());
        let maps = self.maps.iter().map(Option::as_deref);
        let usable = before.cloned().unwrap_or_else(|| {
            let readable = |map: Option<&ConfigMap>| {
                let map = map?;
                let alone = queues([("", Some(map))]);
                let mut map = map.clone();
                if alone.check().is_err() {
                    map.data.retain(|key, _| key != QUEUES);
                }
                Some(map)
            };
            let maps: Vec<_> = maps.map(readable).collect();
            queues(CONFIG_MAPS.into_iter().zip(maps.iter().map(Option::as_ref)))
        });
        (Queues { extra: now.extra, ..usable }, Some(why))
    }

    fn configured_now(&self) -> Queues {
        queues(CONFIG_MAPS.into_iter().zip(self.maps.iter().map(Option::as_deref)))
    }

    /// Handles a change of the cluster.
    pub fn change(&mut self, change: Change, now: Duration) {
        match change {
            Change::Pod(key, pod) => self.pod_changed(&key, pod, now),
            Change::Node(name, node) => {
                self.node_changed(&name, node, now);
                let since = self.no_node_since.unwrap_or(now);
                self.no_node_since = self.nodes.is_empty().then_some(since);
            }
            Change::Namespace(name, namespace) => {
                open(&self.scene).set_namespace(&name, namespace.as_deref());
                match namespace {
                    Some(namespace) => {
                        let tags = quota_tags(&namespace).0;
                        match self.namespaces.insert(name.clone(), namespace) {
                            None => self.namespace_came(&name, now),
                            Some(before) if quota_tags(&before).0 != tags => {
                                self.namespace_changed(&name, now);
                            }
                            Some(_) => {}
                        }
                    }
                    None => drop(self.namespaces.remove(&name)),
                }
            }
            Change::PriorityClass(name, class) => self.class_changed(&name, class.as_deref(), now),
            Change::Budget(name, budget) => self.budget_changed(&name, budget.as_ref(), now),
            Change::Group(name, group) => self.group_changed(name, group, now),
            Change::ConfigMap(name, map) => self.map_changed(&name, map),
            Change::Claim(key, claim) => open(&self.scene).set_claim(&key, claim),
            Change::Volume(name, volume) => open(&self.scene).set_volume(&name, volume),
            Change::StorageClass(name, class) => open(&self.scene).set_class(&name, class),
            Change::CsiNode(name, node) => open(&self.scene).set_csi_node(&name, node),
        }
    }

    fn map_changed(&mut self, name: &str, map: Option<Arc<ConfigMap>>) {
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        let Some(position) = CONFIG_MAPS.iter().position(|known| *known == name) else { return };
        self.maps[position] = map;
        let queues = self.configured_now();
        let checked = queues.check();
        if checked.is_ok() {
            self.readable = queues.clone();
        }
        if !self.is_active || queues == self.configured {
            return;
        }
        self.configured = queues.clone();
        match checked {
            Ok(()) => self.orders.configure(queues.yaml, queues.extra),
            Err(why) => self.queues_refused(&why),
        }
    }

    /// Returns the orders for the engine, in sequence.
    pub fn engine_orders(&mut self, now: Duration) -> VecDeque<EngineOrder> {
        if !self.is_active {
            return VecDeque::new();
        }
        self.reconcile_later(now);
        let is_delayed = self.orders.due().is_some();
        if open(&self.scene).take_unblocked() {
            self.orders.try_again();
        }
        let orders = self.orders.take(now);
        if self.orders.due().is_some() != is_delayed {
            open(&self.scene).set_retry_delayed(!is_delayed);
        }
        orders
    }

    /// Returns the application of a pod. `None` for a pod that is foreign or gone.
    fn application_of(&self, key: &Key) -> Option<Arc<str>> {
        self.pods.get(key)?.application.clone()
    }

    /// Updates the gauges.
    pub fn count(&self) {
        let is_on_unknown =
            |record: &&Record| record.pod.node().is_some_and(|node| !self.nodes.contains_key(node));
        let on_unknown = self.pods.values().filter(is_on_unknown).count();
        let waiting =
            self.pods.values().filter(|record| record.engine == EngineState::Asked).count();
        let refused = self.pods.values().filter(|record| record.is_refused()).count();
        self.meters.pods_refused.set(i64::try_from(refused).unwrap_or(i64::MAX));
        self.meters.pods_on_unknown_nodes.set(i64::try_from(on_unknown).unwrap_or(i64::MAX));
        self.meters.pods_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Describes the state of a pod, for debugging.
    pub fn described(&self, key: &str) -> String {
        self.pods.get(key).map(|record| format!("{record:?}")).unwrap_or_default()
    }

    /// Returns the node of each allocation that the engine should have, by UID. For tests and
    /// dumps.
    pub fn placed(&self) -> BTreeMap<String, String> {
        let placed = self.pods.iter().filter_map(|(key, record)| match &record.engine {
            EngineState::Placed(node) => Some((key.to_string(), node.to_string())),
            _ => None,
        });
        placed.collect()
    }
}
