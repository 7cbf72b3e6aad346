//! A simulated cluster with the real scheduler. Orders of the shim take effect at once, or fail as
//! the test wants. The scheduler itself is in `side`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::SchedulerHandle;
use monoceros_kubernetes::engine::Engine as _;
use monoceros_kubernetes::meters::Meters;
use monoceros_kubernetes::shim::{
    ApiOrder, Bind, Change, EngineOrder, Event, Evict, GroupCondition, Key, Notification, Outcome,
    SharedScene, Shim, open,
};
use monoceros_kubernetes::translate::Mapping;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::side::Side;

pub const RM: &str = "cluster";

/// Fate of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    Works,
    /// The pod is not bound.
    Fails,
    /// The pod is bound, and only the watch reports it.
    Lost,
    /// The binding takes until [`World::finish_bindings`], or until it is cancelled.
    Hangs,
}

/// What the replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leads,
    /// Another replica leads.
    StandsBy,
}

/// The simulated cluster.
pub struct World {
    pub shim: Shim,
    pub scheduler: SchedulerHandle,
    pub scene: SharedScene,
    pub side: Side,
    notifications: UnboundedReceiver<Notification>,
    pub now: Duration,
    pub role: Role,
    /// Pods by UID, as JSON.
    pub pods: BTreeMap<String, Value>,
    pub nodes: BTreeMap<String, Value>,
    pub binding: Binding,
    hanging: Vec<Bind>,
    /// Whether a hanging binding ends when it is cancelled.
    pub calls_off: bool,
    /// UID and node of each ordered binding.
    pub placed: Vec<(String, String)>,
    /// Ordered bindings, by UID.
    pub bound: BTreeMap<String, Vec<String>>,
    pub evicted: Vec<String>,
    /// Ordered evictions.
    pub evictions: Vec<Evict>,
    /// Whether budgets forbid all evictions.
    pub budgets_hold: bool,
    /// The last condition of each pod: reason and message.
    pub conditions: BTreeMap<String, (String, String)>,
    /// Time of each written condition, and its subject: the UID of a pod, or a PodGroup.
    pub writes: Vec<(Duration, String)>,
    pub group_conditions: Vec<GroupCondition>,
    /// Whether writing conditions fails.
    pub status_fails: bool,
    pub events: Vec<Event>,
    /// Summaries of all orders sent to the engine.
    pub sent: Vec<String>,
}

fn read<T: DeserializeOwned>(value: &Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value.clone()).unwrap())
}

/// Runs a test in virtual time.
pub fn in_virtual_time(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), test);
}

impl World {
    /// Makes a cluster with this many nodes of 4 cores. The shim has no session yet.
    pub fn new(nodes: usize) -> Self {
        let scene = SharedScene::default();
        let (notify, notifications) = unbounded_channel();
        let side = Side::new(Arc::clone(&scene), notify);
        let scheduler = side.scheduler.clone();
        let mapping = Mapping {
            scheduler_names: vec!["monoceros".to_owned()],
            trust_user: true,
            ..Mapping::default()
        };
        let meters = Arc::new(Meters::new(&prometheus::Registry::new()).unwrap());
        let mut shim = Shim::new(mapping, Arc::clone(&scene), meters, 50);
        shim.count_nodes(side.engine.reads_node_results());
        let mut world = Self {
            shim,
            scheduler,
            scene,
            side,
            notifications,
            now: Duration::ZERO,
            role: Role::Leads,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            binding: Binding::Works,
            hanging: Vec::new(),
            calls_off: true,
            placed: Vec::new(),
            bound: BTreeMap::new(),
            evicted: Vec::new(),
            evictions: Vec::new(),
            budgets_hold: false,
            conditions: BTreeMap::new(),
            writes: Vec::new(),
            group_conditions: Vec::new(),
            status_fails: false,
            events: Vec::new(),
            sent: Vec::new(),
        };
        world.set("ns", json!({"metadata": {"name": "ns"}}), Change::Namespace);
        for number in 0..nodes {
            world.set_node(&format!("n{number}"), json!({}));
        }
        world
    }

    /// Makes a cluster and begins a session.
    pub async fn begun(nodes: usize) -> Self {
        let mut world = Self::new(nodes);
        world.begin().await;
        world
    }

    pub async fn begin(&mut self) {
        self.role = Role::Leads;
        self.register().await;
        self.settle().await;
    }

    /// Begins a session while another replica leads.
    pub async fn stand_by(&mut self) {
        self.role = Role::StandsBy;
        self.register().await;
        self.settle().await;
    }

    /// Leads in the session in which it stood by.
    pub async fn lead(&mut self) {
        self.role = Role::Leads;
        self.shim.lead(self.now);
        self.settle().await;
    }

    async fn register(&mut self) {
        let (queues, unreadable) = self.shim.queues();
        let refused = self.side.engine.register(&queues).await.unwrap();
        while self.notifications.try_recv().is_ok() {}
        if self.role == Role::Leads {
            self.shim.begin(self.now);
        } else {
            self.shim.stand_by(self.now);
        }
        if let Some(why) = unreadable.or(refused) {
            self.shim.receive(Notification::Configured(Err(why)), self.now);
        }
    }

    /// Sets a node of 4 cores with these labels.
    pub fn set_node(&mut self, name: &str, labels: Value) {
        let node = json!({"metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
        self.change_node(name, node);
    }

    pub fn change_node(&mut self, name: &str, node: Value) {
        self.shim.change(Change::Node(name.to_owned(), Some(read(&node))), self.now);
        self.nodes.insert(name.to_owned(), node);
    }

    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.shim.change(Change::Node(name.to_owned(), None), self.now);
    }

    /// Sets any other object.
    pub fn set<T: DeserializeOwned>(
        &mut self,
        name: &str,
        object: Value,
        change: impl Fn(String, Option<Arc<T>>) -> Change,
    ) {
        self.shim.change(change(name.to_owned(), Some(read(&object))), self.now);
    }

    /// Adds a pod of one core; `more` is merged into it.
    pub fn add(&mut self, name: &str, more: Value) -> String {
        let uid = format!("uid-{name}");
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": uid,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"schedulerName": "monoceros",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        });
        merge(&mut pod, more);
        self.pods.insert(uid.clone(), pod);
        self.deliver(&uid);
        uid
    }

    /// Changes a pod.
    pub fn change(&mut self, uid: &str, more: Value) {
        merge(self.pods.get_mut(uid).unwrap(), more);
        self.deliver(uid);
    }

    pub fn remove(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.deliver(uid);
    }

    /// Reports a pod to the shim, as the watch would.
    pub fn deliver(&mut self, uid: &str) {
        let pod = self.pods.get(uid).map(read);
        self.shim.change(Change::Pod(Key::from(uid), pod), self.now);
    }

    pub fn node_of(&self, uid: &str) -> Option<&str> {
        self.pods.get(uid)?["spec"]["nodeName"].as_str()
    }

    /// Returns how many of these pods are bound.
    pub fn count(&self, uids: &[String]) -> usize {
        uids.iter().filter(|uid| self.node_of(uid).is_some()).count()
    }

    /// Carries out orders until there are none.
    pub async fn settle(&mut self) {
        loop {
            let orders = self.shim.engine_orders(self.now);
            let api_orders = self.shim.api_orders();
            let is_idle = orders.is_empty() && api_orders.is_empty();
            for order in orders {
                self.sent.push(short(&order));
                self.side.engine.send(order).await.unwrap();
            }
            for order in api_orders {
                self.carry_out(order);
            }
            let is_over = |bind: &mut Bind| self.calls_off && bind.called_off.is_cancelled();
            for bind in self.hanging.extract_if(.., is_over) {
                let why = "it is called off".to_owned();
                self.shim.done(Outcome::NotBound(bind.key, why), self.now);
            }
            self.side.settle().await;
            let mut received = false;
            while let Ok(notification) = self.notifications.try_recv() {
                received = true;
                match notification {
                    Notification::Lost(_) => self.register().await,
                    Notification::Ended(why) => panic!("{why}"),
                    notification => self.shim.receive(notification, self.now),
                }
            }
            if is_idle && !received && !self.shim.has_more() {
                return;
            }
        }
    }

    /// Sends orders to the engine, and receives no notifications.
    pub async fn send_only(&mut self) {
        for order in self.shim.engine_orders(self.now) {
            self.sent.push(short(&order));
            self.side.engine.send(order).await.unwrap();
        }
        self.side.settle().await;
    }

    /// Lets time pass.
    pub async fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let step = Duration::from_millis(500).min(until.saturating_sub(self.now));
            tokio::time::advance(step).await;
            self.now += step;
            self.shim.tick(self.now);
            self.settle().await;
        }
    }

    fn carry_out(&mut self, order: ApiOrder) {
        assert_eq!(self.role, Role::Leads, "{order:?}");
        match order {
            ApiOrder::Bind(bind) => {
                let uid = bind.key.to_string();
                let node = bind.node.to_string();
                self.placed.push((uid.clone(), node.clone()));
                self.bound.entry(uid).or_default().push(node.clone());
                match self.binding {
                    Binding::Hangs => self.hanging.push(bind),
                    Binding::Fails => {
                        let why = "the server says no".to_owned();
                        self.shim.done(Outcome::NotBound(bind.key, why), self.now);
                    }
                    Binding::Works | Binding::Lost => self.finish(bind.key, &node),
                }
            }
            ApiOrder::Evict(evict) => {
                self.evicted.push(evict.key.to_string());
                self.evictions.push(evict.clone());
                if !self.budgets_hold {
                    self.shim.done(Outcome::Evicting(evict.key), self.now);
                }
            }
            ApiOrder::Condition(it) => {
                let uid = it.key.to_string();
                self.writes.push((self.now, uid.clone()));
                if self.status_fails {
                    return self.shim.done(Outcome::ConditionFailed(it.key), self.now);
                }
                self.conditions.insert(uid, (it.reason, it.message));
            }
            ApiOrder::GroupCondition(it) if self.status_fails => {
                self.shim.done(Outcome::GroupConditionFailed(it), self.now);
            }
            ApiOrder::GroupCondition(it) => {
                self.writes.push((self.now, format!("{}/{}", it.namespace, it.name)));
                self.group_conditions.push(it.clone());
                self.shim.done(Outcome::GroupConditionWritten(it), self.now);
            }
            ApiOrder::Event(event) => self.events.push(event),
        }
    }

    fn finish(&mut self, key: Key, node: &str) {
        let uid = key.to_string();
        let Some(pod) = self.pods.get_mut(&uid) else {
            let why = "the pod is gone".to_owned();
            return self.shim.done(Outcome::NotBound(key, why), self.now);
        };
        let there = pod["spec"]["nodeName"].as_str().map(str::to_owned);
        match there {
            None if self.nodes.contains_key(node) => {
                pod["spec"]["nodeName"] = json!(node);
                if self.binding != Binding::Lost {
                    self.shim.done(Outcome::Bound(key), self.now);
                }
                self.deliver(&uid);
            }
            Some(there) if there == node => self.shim.done(Outcome::Bound(key), self.now),
            _ => self.shim.done(Outcome::NotBound(key, "it cannot be".to_owned()), self.now),
        }
    }

    /// Finishes the bindings that hang.
    pub async fn finish_bindings(&mut self, binding: Binding) {
        self.binding = binding;
        for Bind { key, node, .. } in std::mem::take(&mut self.hanging) {
            if binding == Binding::Fails {
                let why = "the server says no".to_owned();
                self.shim.done(Outcome::NotBound(key, why), self.now);
            } else {
                self.finish(key, &node);
            }
        }
        self.settle().await;
    }

    /// Describes why a pod waits, by the engine and the shim.
    pub async fn explain(&self, uid: &str) -> String {
        let application = self.pods[uid]["metadata"]["labels"]["applicationId"].as_str();
        let application = application.unwrap_or("ns-autogen");
        let explained = self.scheduler.explain_ask("default", application, uid).await;
        let lines: Vec<_> = self.sent.iter().filter(|line| line.contains(uid)).collect();
        format!("{explained:#?} {lines:#?} {}", self.shim.described(uid))
    }

    /// Checks that the books of the engine, the shim, the scene and the API agree.
    pub async fn check(&self) {
        self.check_each().await;
        let mut api: BTreeMap<String, i64> = BTreeMap::new();
        for pod in self.pods.values() {
            if let Some(node) = pod["spec"]["nodeName"].as_str()
                && self.nodes.contains_key(node)
            {
                *api.entry(node.to_owned()).or_default() += 1;
            }
        }
        let mut engine: BTreeMap<String, i64> = BTreeMap::new();
        for node in self.scheduler.nodes("default").await.unwrap() {
            let node = serde_json::to_value(node).unwrap();
            let used = |key: &str| node[key]["pods"].as_i64().unwrap_or(0);
            let sum = used("allocated") + used("occupied");
            if sum > 0 {
                engine.insert(node["nodeID"].as_str().unwrap().to_owned(), sum);
            }
        }
        assert_eq!(engine, api, "{:#?}", self.sent);
    }
}

impl World {
    /// Checks the books of the engine and those of the scene by themselves.
    pub async fn check_each(&self) {
        let wrong = self.scheduler.check_books("default").await.unwrap();
        assert_eq!(wrong, <[String; 0]>::default());
        assert_eq!(open(&self.scene).check_books(), <[String; 0]>::default());
        self.check_scene();
    }

    /// Checks that exactly the running and placed pods count in the scene.
    fn check_scene(&self) {
        let mut counted = open(&self.scene).placed();
        for (uid, pod) in &self.pods {
            let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|_| !is_over) {
                let place = (uid.clone(), node.to_owned());
                assert!(counted.remove(&place), "{place:?} does not count");
            }
        }
        let decided = self.shim.placed();
        counted.retain(|(name, node)| {
            let is_decided = decided.get(name) == Some(node);
            // Held and planned places of gangs have other names.
            !is_decided && name.starts_with("uid-")
        });
        assert!(counted.is_empty(), "{counted:?} count");
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn short(order: &EngineOrder) -> String {
    match order {
        EngineOrder::Nodes(nodes) => {
            let shown: Vec<_> =
                nodes.iter().map(|node| format!("{} {:?}", node.node_id, node.action())).collect();
            format!("nodes {}", shown.join(", "))
        }
        EngineOrder::Submit(all) => {
            let ids: Vec<_> = all.iter().map(|one| one.application_id.as_str()).collect();
            format!("submit {}", ids.join(", "))
        }
        EngineOrder::Remove(all) => {
            let ids: Vec<_> = all.iter().map(|one| one.application_id.as_str()).collect();
            format!("remove {}", ids.join(", "))
        }
        EngineOrder::Allocations(all) => {
            let shown: Vec<_> = all
                .iter()
                .map(|one| match one.node_id.as_str() {
                    "" => format!("ask {}", one.allocation_key),
                    node => format!("{} on {node}", one.allocation_key),
                })
                .collect();
            shown.join(", ")
        }
        EngineOrder::Release(all) => {
            let shown: Vec<_> = all
                .iter()
                .map(|one| format!("{} {:?}", one.allocation_key, one.termination_type()))
                .collect();
            format!("release {}", shown.join(", "))
        }
        EngineOrder::TryAgain => "try again".to_owned(),
        EngineOrder::Configure { .. } => "configure".to_owned(),
        EngineOrder::Explain(application, _) => format!("explain {application}"),
    }
}
