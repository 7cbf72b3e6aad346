//! What to do next, for each pod: ask for it, bind it, give it back, tell why it waits.
//!
//! # How
//! For each pod there is what its object says, what the engine was told (`record::Told`) of it, and what the
//! hands (`record::Hand`) do for it at the API server. Whenever one of the three changes, one function
//! (in `pods`) compares what is wanted with what is there, and takes the next step. So it does not matter
//! what came first, what came twice, and what was missed: a restart is the same as a change of everything.
//!
//! # Invariants
//! * No clock and no connection: the time comes with each call, and what is to be done comes out as orders.
//! * A pod is bound only where the engine has placed it, and is asked for only while nobody binds it.
//! * A node is open for new pods only when the engine knows all that runs there.
//! * What takes room on a node that exists is told to the engine, whoever it belongs to and whatever the
//!   engine thinks of its application.

mod applications;
mod nodes;
mod orders;
mod pods;
mod record;
mod said;
mod waiting;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use self::orders::Orders;
use self::record::{Application, Hand, NodeRecord, Record, Told};
pub use self::said::{
    About, Bind, Change, Condition, EngineOrder, Event, Evict, Explanation, GroupCondition,
    HandOrder, Key, Outcome, Word,
};
use crate::meters::Meters;
use crate::objects::{ConfigMap, Meta as _, Namespace, PodDisruptionBudget, PodGroup};
use crate::predicates::Scene;
use crate::translate::{CONFIG_MAPS, Mapping, Queues, queues};

/// The scene, as it is shared with whoever answers predicates.
pub type SharedScene = Arc<Mutex<Scene>>;

/// Opens a scene. A panic in a predicate leaves it as it was: nothing is half counted.
pub fn open(scene: &Mutex<Scene>) -> MutexGuard<'_, Scene> {
    scene.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is decided for a cluster.
#[derive(Debug)]
pub struct Shim {
    mapping: Mapping,
    scene: SharedScene,
    meters: Arc<Meters>,
    /// Condition writes that may still be made now.
    budget: f64,
    /// How many of them are given in a second.
    rate: f64,
    refilled: Duration,
    /// The engine is told; else only the cluster is followed.
    is_active: bool,
    pods: FxHashMap<Key, Record>,
    applications: FxHashMap<Arc<str>, Application>,
    nodes: BTreeMap<String, NodeRecord>,
    /// Pods by the node that their object names.
    on_node: FxHashMap<String, FxHashSet<Key>>,
    /// Pods that are ours, by namespace.
    of_namespace: FxHashMap<String, FxHashSet<Key>>,
    namespaces: FxHashMap<String, Arc<Namespace>>,
    /// Classes whose pods are not to be preempted.
    spared_classes: FxHashSet<String>,
    /// By namespace, then by name.
    budgets: FxHashMap<String, BTreeMap<String, Arc<PodDisruptionBudget>>>,
    groups: FxHashMap<String, Arc<PodGroup>>,
    maps: [Option<Arc<ConfigMap>>; CONFIG_MAPS.len()],
    configured: Queues,
    orders: Orders,
    hands: Vec<HandOrder>,
    /// When pods are looked at again.
    due: BTreeSet<(Duration, Key)>,
    /// Pods whose application is being asked about.
    asking: FxHashMap<Arc<str>, Vec<Key>>,
}

impl Shim {
    /// A shim of a cluster of which nothing is known yet, which writes so many conditions in a second.
    pub fn new(mapping: Mapping, scene: SharedScene, meters: Arc<Meters>, rate: u32) -> Self {
        Self {
            mapping,
            scene,
            meters,
            budget: f64::from(rate),
            rate: f64::from(rate),
            refilled: Duration::ZERO,
            is_active: false,
            pods: FxHashMap::default(),
            applications: FxHashMap::default(),
            nodes: BTreeMap::new(),
            on_node: FxHashMap::default(),
            of_namespace: FxHashMap::default(),
            namespaces: FxHashMap::default(),
            spared_classes: FxHashSet::default(),
            budgets: FxHashMap::default(),
            groups: FxHashMap::default(),
            maps: [const { None }; CONFIG_MAPS.len()],
            configured: Queues::default(),
            orders: Orders::default(),
            hands: Vec::new(),
            due: BTreeSet::new(),
            asking: FxHashMap::default(),
        }
    }

    /// The queues as ConfigMaps have them now: what a registration is to bring.
    pub fn queues(&self) -> Queues {
        queues(CONFIG_MAPS.into_iter().zip(self.maps.iter().map(Option::as_deref)))
    }

    /// The engine has been registered with, with [`Self::queues`], and knows nothing: it is told everything.
    pub fn begin(&mut self, now: Duration) {
        self.is_active = true;
        self.configured = self.queues();
        self.orders.clear();
        self.asking.clear();
        self.applications.retain(|_, application| !application.pods.is_empty());
        for application in self.applications.values_mut() {
            let pods = std::mem::take(&mut application.pods);
            *application = Application { pods, ..Application::default() };
        }
        {
            let mut scene = open(&self.scene);
            scene.restart();
            for (key, record) in &self.pods {
                if let Some(node) = record.pod.node().filter(|_| !record.is_gone) {
                    scene.settle(key, node, &record.pod);
                }
            }
        }
        let gone = self.pods.iter().filter(|(_, record)| record.is_gone);
        let gone: Vec<_> = gone.map(|(key, _)| Arc::clone(key)).collect();
        for key in gone {
            self.drop_record(&key);
        }
        for record in self.pods.values_mut() {
            record.told = Told::Nothing;
            record.ending = None;
            // What is under way at the API server ends there, and is told.
            if record.hand == Hand::Evicting {
                record.hand = Hand::Idle;
            }
        }
        let names: Vec<_> = self.nodes.keys().cloned().collect();
        for name in &names {
            self.tell_node(name);
        }
        let (mut bound, mut waiting): (Vec<_>, Vec<_>) =
            self.pods.iter().partition(|(_, record)| record.pod.node().is_some());
        let by_age = |all: &mut Vec<(&Key, &Record)>| -> Vec<Key> {
            all.sort_unstable_by_key(|(key, record)| {
                (record.pod.created(), record.pod.namespace(), record.pod.name(), &***key)
            });
            all.iter().map(|(key, _)| Arc::clone(key)).collect()
        };
        let (bound, waiting) = (by_age(&mut bound), by_age(&mut waiting));
        for key in bound {
            self.reconcile(&key, now);
        }
        self.orders.cut();
        for name in &names {
            self.open_node(name);
        }
        self.orders.cut();
        for key in waiting {
            self.reconcile(&key, now);
        }
    }

    /// The engine is not to be told of anything any more.
    pub fn pause(&mut self) {
        self.is_active = false;
        self.orders.clear();
        self.hands.clear();
    }

    /// Something of the cluster has changed.
    pub fn change(&mut self, change: Change, now: Duration) {
        match change {
            Change::Pod(key, pod) => self.pod_changed(&key, pod, now),
            Change::Node(name, node) => self.node_changed(&name, node, now),
            Change::Namespace(name, namespace) => {
                open(&self.scene).set_namespace(&name, namespace.as_deref());
                match namespace {
                    Some(namespace) => drop(self.namespaces.insert(name, namespace)),
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
        let queues = self.queues();
        if self.is_active && queues != self.configured {
            self.orders.configure(queues.yaml.clone(), queues.extra.clone());
            self.configured = queues;
        }
    }

    /// What the engine is to be told now, in this order.
    pub fn engine_orders(&mut self, now: Duration) -> VecDeque<EngineOrder> {
        if !self.is_active {
            return VecDeque::new();
        }
        if open(&self.scene).take_help() {
            self.orders.try_again();
        }
        self.orders.take(now)
    }

    /// What is to be done at the API server now.
    pub fn hand_orders(&mut self) -> Vec<HandOrder> {
        std::mem::take(&mut self.hands)
    }

    /// When [`Self::tick`] is to be called at the latest, and then [`Self::engine_orders`].
    pub fn next_tick(&self) -> Option<Duration> {
        let due = self.due.first().map(|(at, _)| *at);
        due.into_iter().chain(self.orders.due()).min()
    }

    /// How many pods there are of each kind: on nodes that are not there, and asked for.
    pub fn count(&self) {
        let is_stray =
            |record: &&Record| record.pod.node().is_some_and(|node| !self.nodes.contains_key(node));
        let stray = self.pods.values().filter(is_stray).count();
        let waiting = self.pods.values().filter(|record| record.told == Told::Asked).count();
        self.meters.pods_on_unknown_nodes.set(i64::try_from(stray).unwrap_or(i64::MAX));
        self.meters.pods_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// What is remembered of a pod, for people who look for a fault.
    pub fn described(&self, key: &str) -> String {
        self.pods.get(key).map(|record| format!("{record:?}")).unwrap_or_default()
    }

    /// Where the engine should have which pods, when nothing is under way: by UID. For tests and dumps.
    pub fn placed(&self) -> BTreeMap<String, String> {
        let placed = self.pods.iter().filter_map(|(key, record)| match &record.told {
            Told::Placed(node) => Some((key.to_string(), node.to_string())),
            _ => None,
        });
        placed.collect()
    }
}
