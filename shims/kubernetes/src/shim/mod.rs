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
//! * A node is open for new pods only when the engine knows all that runs there: also what came of bindings
//!   to a node of that name that were under way when it was told, or that were placed before the engine
//!   heard that it is another one.
//! * A pod is evicted only while the engine wants that, and by one task at a time.
//! * What takes room on a node that exists is told to the engine, whoever it belongs to and whatever the
//!   engine thinks of its application.

mod applications;
mod conditions;
mod disruption;
mod gathering;
mod generations;
mod held_before;
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

use self::applications::Names;
use self::conditions::GroupWords;
use self::held_before::{Holding, Succeeded};
use self::orders::Orders;
use self::record::{Application, NodeRecord, Record, Told};
pub use self::said::{
    About, Bind, Change, Condition, EngineOrder, Event, Evict, Explanation, GroupCondition,
    HandOrder, Key, Outcome, Placed, Word,
};
use self::waiting::Alarm;
use crate::meters::Meters;
use crate::objects::{ConfigMap, Meta as _, Namespace, PodDisruptionBudget, PodGroup};
use crate::predicates::Scene;
use crate::translate::{CONFIG_MAPS, Mapping, QUEUES, Queues, queues, quota_tags};

/// The scene, as it is shared with whoever answers predicates.
pub type SharedScene = Arc<Mutex<Scene>>;

/// Pods, oldest first.
fn by_age<'p>(pods: impl Iterator<Item = (&'p Key, &'p Record)>) -> Vec<Key> {
    let mut all: Vec<_> = pods.collect();
    all.sort_unstable_by_key(|(key, record)| {
        (record.pod.created(), record.pod.namespace(), record.pod.name(), &***key)
    });
    all.into_iter().map(|(key, _)| Arc::clone(key)).collect()
}

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
    /// The number of pods that have come so far.
    n_pods: u64,
    applications: FxHashMap<Arc<str>, Application>,
    names: Names,
    nodes: BTreeMap<String, NodeRecord>,
    /// Pods by the node that their object names.
    on_node: FxHashMap<String, FxHashSet<Key>>,
    /// Pods by the node that they are being bound to.
    under_way: FxHashMap<Arc<str>, FxHashSet<Key>>,
    /// How often the engine was told of a node that came, and has not said whether it takes it.
    unanswered: FxHashMap<String, u32>,
    /// Pods that are ours, by namespace.
    of_namespace: FxHashMap<String, FxHashSet<Key>>,
    namespaces: FxHashMap<String, Arc<Namespace>>,
    /// Classes whose pods are not to be preempted.
    spared_classes: FxHashSet<String>,
    /// By namespace, then by name.
    budgets: FxHashMap<String, BTreeMap<String, Arc<PodDisruptionBudget>>>,
    groups: FxHashMap<String, Arc<PodGroup>>,
    group_words: GroupWords,
    maps: [Option<Arc<ConfigMap>>; CONFIG_MAPS.len()],
    configured: Queues,
    /// The last ones that could be read.
    readable: Queues,
    orders: Orders,
    hands: Vec<HandOrder>,
    /// When it is looked at again why pods wait.
    due: BTreeSet<(Duration, Key)>,
    /// When something else is tried.
    alarms: BTreeSet<(Duration, Alarm)>,
    /// Pods that are being asked about, by their application, or alone.
    asking: FxHashMap<(Arc<str>, Option<Key>), Vec<Key>>,
    n_asking: usize,
    /// Since when there is no node, while that is so and the engine is told.
    no_node_since: Option<Duration>,
    succeeded: Succeeded,
    holding: Holding,
    /// Whether somebody looks up what nodes say by themselves.
    counts_nodes: bool,
    /// When it is counted on what nodes say by themselves; none while all of that is known.
    counts_at: Option<Duration>,
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
            n_pods: 0,
            applications: FxHashMap::default(),
            names: Names::default(),
            nodes: BTreeMap::new(),
            on_node: FxHashMap::default(),
            under_way: FxHashMap::default(),
            unanswered: FxHashMap::default(),
            of_namespace: FxHashMap::default(),
            namespaces: FxHashMap::default(),
            spared_classes: FxHashSet::default(),
            budgets: FxHashMap::default(),
            groups: FxHashMap::default(),
            group_words: GroupWords::default(),
            maps: [const { None }; CONFIG_MAPS.len()],
            configured: Queues::default(),
            readable: Queues::default(),
            orders: Orders::default(),
            hands: Vec::new(),
            due: BTreeSet::new(),
            alarms: BTreeSet::new(),
            asking: FxHashMap::default(),
            n_asking: 0,
            no_node_since: None,
            succeeded: Succeeded::default(),
            holding: Holding::default(),
            counts_nodes: false,
            counts_at: None,
        }
    }

    /// Has what nodes say by themselves be counted, for an engine whose explanations look it up.
    pub fn count_nodes(&mut self, whether: bool) {
        self.counts_nodes = whether;
    }

    /// The queues that a registration is to bring: as ConfigMaps have them now; or, where these cannot be
    /// read, as they were before, or as a map has them that goes behind. The second is why.
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

    /// The engine has been registered with, with [`Self::queues`], and knows nothing: it is told everything.
    pub fn begin(&mut self, now: Duration) {
        self.is_active = true;
        self.no_node_since = self.nodes.is_empty().then_some(now);
        self.configured = self.configured_now();
        self.orders.clear();
        self.unanswered.clear();
        self.asking.clear();
        self.n_asking = 0;
        for application in self.applications.values_mut() {
            application.begin_anew();
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
        self.applications.retain(|_, application| !application.pods.is_empty());
        self.name_anew();
        for record in self.pods.values_mut() {
            record.told = Told::Nothing;
            // A binding that is under way ends at the API server, and is told; who goes, this engine says.
            record.let_stay();
        }
        self.all_move_on(now);
        let names: Vec<_> = self.nodes.keys().cloned().collect();
        for name in &names {
            self.tell_node(name);
        }
        let bound = self.pods.iter().filter(|(_, record)| record.pod.node().is_some());
        for key in by_age(bound) {
            self.reconcile(&key, now);
        }
        self.orders.cut();
        for name in &names {
            self.open_node(name);
        }
        self.orders.cut();
        self.hold_again(now);
    }

    /// The engine is not to be told of anything any more.
    pub fn pause(&mut self) {
        self.is_active = false;
        self.holding = Holding::default();
        self.orders.clear();
        self.hands.clear();
    }

    /// Something of the cluster has changed.
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
                        let now_said = quota_tags(&namespace).0;
                        match self.namespaces.insert(name.clone(), namespace) {
                            None => self.namespace_came(&name, now),
                            Some(before) if quota_tags(&before).0 != now_said => {
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

    /// How many pods there are of each kind: on nodes that are not there, and asked for.
    pub fn count(&self) {
        let is_stray =
            |record: &&Record| record.pod.node().is_some_and(|node| !self.nodes.contains_key(node));
        let stray = self.pods.values().filter(is_stray).count();
        let waiting = self.pods.values().filter(|record| record.told == Told::Asked).count();
        let refused = self.pods.values().filter(|record| record.is_refused()).count();
        self.meters.pods_refused.set(i64::try_from(refused).unwrap_or(i64::MAX));
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
