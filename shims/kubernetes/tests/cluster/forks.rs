//! Forks of random clusters: the running scheduler and its fork go on with the same events, and place
//! the same pods on the same nodes in the same order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{
    Assumed, ForkedPredicates as _, Invalidation, Preferences, ResourceManagerCallback, Scheduler,
    SchedulerHandle,
};
use monoceros_kubernetes::fork::Fork;
use monoceros_kubernetes::objects::{Node, Pod};
use monoceros_kubernetes::predicates::VolumeChoice;
use monoceros_kubernetes::shim::{Change, open};
use monoceros_kubernetes::translate::{AskSpec, created};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{RM, World, in_virtual_time};

/// Random clusters, unless the environment says otherwise.
const CASES: u32 = 24;
const SHAPES: usize = 11;
const CLAIMS: usize = 4;
const HALF_A_SECOND: Duration = Duration::from_millis(500);

/// A pod: its shape, its claim if the shape mounts one, its application, and its cores.
#[derive(Clone, Copy, Debug)]
struct Look {
    shape: usize,
    claim: usize,
    application: usize,
    cores: usize,
}

/// An event. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Doing {
    /// A pod like another is created.
    Create(usize),
    /// A pod ends, or is deleted while it waits.
    End(usize),
    /// A node is removed, and then its pods.
    RemoveNode(usize),
    /// A node like another is added.
    AddNode(usize),
    Pass,
}

fn looks() -> impl Strategy<Value = Vec<Look>> {
    let look = (0..SHAPES, 0..CLAIMS, 0..3_usize, 1..3_usize);
    let look = look.prop_map(|(shape, claim, application, cores)| Look {
        shape,
        claim,
        application,
        cores,
    });
    prop::collection::vec(look, 4..24)
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let one = prop_oneof![
        6 => any::<usize>().prop_map(Doing::Create),
        6 => any::<usize>().prop_map(Doing::End),
        1 => any::<usize>().prop_map(Doing::RemoveNode),
        2 => any::<usize>().prop_map(Doing::AddNode),
        2 => Just(Doing::Pass),
    ];
    prop::collection::vec(one, 1..12)
}

fn required(kind: &str, key: &str, app: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

/// The specification of a shape, without containers.
fn spec(look: Look) -> Value {
    let host = "kubernetes.io/hostname";
    let of_x = json!({"matchLabels": {"team": "x"}});
    let mut far = required("podAntiAffinity", host, "a1");
    far["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
        of_x;
    match look.shape {
        0 => json!({"nodeSelector": {"disk": "ssd"}}),
        1 => json!({"tolerations": [{"key": "only", "operator": "Exists"}]}),
        2 => required("podAntiAffinity", host, "a2"),
        3 => required("podAffinity", "zone", "a3"),
        4 => json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a4"}}}]}),
        5 | 6 => json!({"volumes": [{"name": "data",
            "persistentVolumeClaim": {"claimName": format!("c{}", look.claim)}}]}),
        7 => json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}),
        8 => json!({"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}}]}}}),
        9 => far,
        _ => json!({}),
    }
}

/// A pod, with settings that no predicate reads.
fn pod(look: Look) -> Value {
    let mut pod = json!({
        "metadata": {
            "labels": {"applicationId": format!("app-{}", look.application),
                "app": format!("a{}", look.shape), "secret": "label"},
            "annotations": {"secret": "annotation"},
        },
        "spec": spec(look),
    });
    let mut container = json!({"name": "main", "image": "secret/image", "command": ["secret"],
        "env": [{"name": "TOKEN", "value": "secret"}],
        "resources": {"requests": {"cpu": look.cores.to_string()}}});
    if look.shape == 10 {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    }
    pod["spec"]["containers"] = json!([container]);
    pod
}

/// A cluster with claims and volumes, and a controller that binds them.
struct Cluster {
    world: World,
    claims: BTreeMap<String, Value>,
    volumes: BTreeMap<String, Value>,
    added: usize,
}

impl Cluster {
    async fn new() -> Self {
        let world = World::new(0);
        let (claims, volumes) = (BTreeMap::new(), BTreeMap::new());
        let mut cluster = Self { world, claims, volumes, added: 0 };
        let namespace = json!({"metadata": {"name": "ns", "labels": {"team": "x"}}});
        cluster.world.set("ns", namespace, Change::Namespace);
        for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "csi")] {
            let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer"});
            cluster.world.set(name, class, Change::StorageClass);
        }
        for number in 0..4 {
            cluster.add_node(&format!("n{number}"), number);
        }
        for number in 0..CLAIMS {
            let class = if number == 0 { "made" } else { "local" };
            let mode = if number == 1 { "ReadWriteOncePod" } else { "ReadWriteOnce" };
            let name = format!("c{number}");
            cluster.set_claim(json!({
                "metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"storageClassName": class, "accessModes": [mode],
                    "resources": {"requests": {"storage": format!("{}Gi", number + 1)}}},
                "status": {"phase": "Pending"}}));
        }
        for number in 0..6 {
            let host = format!("n{}", number % 4);
            cluster.set_volume(json!({
                "metadata": {"name": format!("pv{number}")}, "status": {"phase": "Available"},
                "spec": {"capacity": {"storage": format!("{}Gi", number % 3 + 2)},
                    "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
                    "storageClassName": "local",
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]}}}}));
        }
        cluster.world.begin().await;
        cluster
    }

    /// Adds a node, whose number decides about its zone, disk and taint.
    fn add_node(&mut self, name: &str, number: usize) {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name,
                "zone": format!("z{}", number % 2), "disk": (if number == 2 { "ssd" } else { "hdd" })}},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
        if number == 3 {
            node["spec"] = json!({"taints": [{"key": "only", "effect": "NoSchedule"}]});
        }
        self.world.change_node(name, node);
        let drivers = json!({"metadata": {"name": name},
            "spec": {"drivers": [{"name": "csi", "allocatable": {"count": 2}}]}});
        self.world.set(name, drivers, Change::CsiNode);
    }

    fn set_claim(&mut self, claim: Value) {
        let key = format!("ns/{}", claim["metadata"]["name"].as_str().unwrap());
        self.world.set(&key, claim.clone(), Change::Claim);
        self.claims.insert(key, claim);
    }

    fn set_volume(&mut self, volume: Value) {
        let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
        self.world.set(&name, volume.clone(), Change::Volume);
        self.volumes.insert(name, volume);
    }

    /// Adds a pod, and the claim that is made for it.
    fn add(&mut self, pod: Value) -> String {
        let name = format!("p{:03}", self.added);
        self.added += 1;
        let is_ephemeral = pod["spec"]["volumes"][0].get("ephemeral").is_some();
        if is_ephemeral {
            let claim = format!("{name}-scratch");
            let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": name,
                "uid": format!("uid-{name}"), "controller": true}]);
            self.set_claim(json!({
                "metadata": {"name": claim, "namespace": "ns", "uid": claim,
                    "ownerReferences": owner},
                "spec": {"storageClassName": "made", "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Pending"}}));
        }
        self.world.add(&name, pod)
    }

    /// Lets the shim and the scheduler work, and binds the claims of placed pods.
    async fn settle(&mut self) {
        loop {
            self.world.settle().await;
            let placed: Vec<_> = self.world.pods.keys().cloned().collect();
            let mut is_done = true;
            for uid in placed {
                let Some(node) = self.world.node_of(&uid).map(str::to_owned) else { continue };
                let choices = open(&self.world.scene).volume_choices(&uid);
                for choice in choices {
                    is_done &= !self.bind(&node, &choice);
                }
            }
            if is_done {
                return;
            }
        }
    }

    /// Returns whether the claim was not bound yet.
    fn bind(&mut self, node: &str, choice: &VolumeChoice) -> bool {
        let mut claim = self.claims[&format!("ns/{}", choice.claim())].clone();
        let annotations = &claim["metadata"]["annotations"];
        if !annotations.is_null() {
            return false;
        }
        let Some(name) = choice.volume() else {
            claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": node});
            self.set_claim(claim);
            return true;
        };
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = json!(name);
        let mut volume = self.volumes[name].clone();
        volume["spec"]["claimRef"] = json!({"namespace": "ns", "name": choice.claim(),
            "uid": claim["metadata"]["uid"]});
        volume["status"]["phase"] = json!("Bound");
        self.set_volume(volume);
        self.set_claim(claim);
        true
    }
}

/// The callback of a replay: it records what starts, and has the fork answer.
struct Replay {
    fork: Fork,
    placed: Mutex<Vec<(String, String)>>,
}

impl ResourceManagerCallback for Replay {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let new = response.new.into_iter().map(|new| (new.allocation_key, new.node_id));
        self.placed.lock().unwrap().extend(new);
    }

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {}

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.fork.predicates(args)
    }

    fn hold_predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        self.fork.hold_predicates(args)
    }

    fn preferences(&self, allocation_key: &str) -> Preferences {
        self.fork.preferences(allocation_key)
    }

    fn preference(&self, args: &si::PredicatesArgs) -> i64 {
        self.fork.preference(args)
    }

    fn assumed(&self, what: &Assumed<'_>) {
        self.fork.assumed(what);
    }

    fn forgotten(&self, what: &Assumed<'_>) {
        self.fork.forgotten(what);
    }

    fn preemption_predicates(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        self.fork.preemption_predicates(args)
    }
}

/// A scheduler that goes on from an image.
struct Forked {
    scheduler: SchedulerHandle,
    replay: Arc<Replay>,
    /// Pods that started, and their nodes, in order.
    started: Vec<(String, String)>,
    /// Whether refused asks are to be tried again, at `next_try` or later.
    tries_again: bool,
    next_try: Duration,
}

impl Forked {
    async fn of(image: ResourceManagerImage) -> Self {
        let builder = Scheduler::builder().reservation_delay(None).epoch_ns(image.at_ns());
        let scheduler = builder.start_local().unwrap();
        let fork = Fork::from_mirror(image.mirror.as_ref().unwrap()).unwrap();
        let replay = Arc::new(Replay { fork, placed: Mutex::default() });
        let callback = Arc::clone(&replay) as Arc<dyn ResourceManagerCallback>;
        scheduler.restore(image, callback).await.unwrap();
        let (started, next_try) = (Vec::new(), Duration::ZERO);
        Self { scheduler, replay, started, tries_again: false, next_try }
    }

    async fn settle(&mut self, now: Duration) {
        loop {
            self.scheduler.settle().await;
            tokio::task::yield_now().await;
            let placed = std::mem::take(&mut *self.replay.placed.lock().unwrap());
            for (key, node) in &placed {
                self.replay.fork.started(key, node);
            }
            let is_idle = placed.is_empty();
            self.started.extend(placed);
            self.tries_again |= self.replay.fork.take_unblocked();
            if self.tries_again && self.next_try <= now {
                self.tries_again = false;
                self.next_try = now + self.replay.fork.retries_apart();
                let all = Invalidation { all: true, ..Invalidation::default() };
                self.scheduler.control(RM).await.unwrap().invalidate(all);
            } else if is_idle {
                return;
            }
        }
    }

    /// Asks for a pod like another.
    async fn create(&self, uid: &str, like: &str, pod: &Value) {
        self.replay.fork.created(uid, like);
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let application = pod.metadata.labels.as_ref().unwrap()["applicationId"].clone();
        let group = pod.metadata.annotations.as_ref().unwrap().get("monoceros.io/task-group-name");
        let spec = AskSpec::of(&pod, true).unwrap();
        let ask = spec.message(&pod, &application, group.map(String::as_str), None);
        self.scheduler.update_allocation(si::AllocationRequest::ask(RM, [ask])).await.unwrap();
    }

    async fn end(&self, uid: &str, application: &str) {
        self.replay.fork.ended(uid);
        let release = si::AllocationRelease::new(application, uid);
        let request = si::AllocationRequest::release(RM, [release]);
        self.scheduler.update_allocation(request).await.unwrap();
    }

    /// Removes a gang whose last pod is gone.
    async fn remove(&self, application: &str) {
        let gone = si::RemoveApplicationRequest::new(application);
        let request = si::ApplicationRequest::remove(RM, [gone]);
        self.scheduler.update_application(request).await.unwrap();
    }

    async fn report(&self, node: si::NodeInfo) {
        self.scheduler.update_node(si::NodeRequest::report(RM, [node])).await.unwrap();
    }
}

fn nth(all: impl Iterator<Item = String>, at: usize) -> Option<String> {
    let all: Vec<_> = all.collect();
    all.get(at.checked_rem(all.len())?).cloned()
}

fn application(pod: &Value) -> String {
    pod["metadata"]["labels"]["applicationId"].as_str().unwrap().to_owned()
}

/// Has the running scheduler and the fork go on with one event.
async fn act(cluster: &mut Cluster, forked: &mut Forked, doing: &Doing) {
    match doing {
        Doing::Create(at) => {
            let Some(like) = nth(cluster.world.pods.keys().cloned(), *at) else { return };
            let mut pod = cluster.world.pods[&like].clone();
            let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("monoceros.io/task-groups");
            for added in ["name", "uid"] {
                pod["metadata"].as_object_mut().unwrap().remove(added);
            }
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
            let uid = cluster.add(pod);
            let pod = cluster.world.pods[&uid].clone();
            forked.create(&uid, &like, &pod).await;
        }
        Doing::End(at) => {
            let is_gang = |pod: &Value| application(pod) == "gang";
            let pods = cluster.world.pods.iter().filter(|(_, pod)| !is_gang(pod));
            let Some(uid) = nth(pods.map(|(uid, _)| uid.clone()), *at) else { return };
            let application = application(&cluster.world.pods[&uid]);
            cluster.world.remove(&uid);
            forked.end(&uid, &application).await;
        }
        Doing::RemoveNode(at) => {
            let Some(name) = nth(cluster.world.nodes.keys().cloned(), *at) else { return };
            if cluster.world.nodes.len() < 3 {
                return;
            }
            let there = |uid: &&String| cluster.world.node_of(uid) == Some(&name);
            let lost: Vec<_> = cluster.world.pods.keys().filter(there).cloned().collect();
            cluster.world.remove_node(&name);
            cluster.world.shim.change(Change::CsiNode(name.clone(), None), cluster.world.now);
            forked.replay.fork.node_removed(&name);
            forked.report(si::NodeInfo::change(&name, ActionFromRm::Decomission)).await;
            cluster.settle().await;
            forked.settle(cluster.world.now).await;
            let gang = |cluster: &Cluster| {
                cluster.world.pods.values().filter(|pod| application(pod) == "gang").count()
            };
            let members = gang(cluster);
            for uid in lost {
                cluster.world.remove(&uid);
                forked.replay.fork.ended(&uid);
            }
            if members > 0 && gang(cluster) == 0 {
                forked.remove("gang").await;
            }
        }
        Doing::AddNode(at) => {
            let Some(like) = nth(cluster.world.nodes.keys().cloned(), *at) else { return };
            let name = format!("new-{}", cluster.world.nodes.len());
            if cluster.world.nodes.contains_key(&name) {
                return;
            }
            let mut node = cluster.world.nodes[&like].clone();
            node["metadata"]["name"] = json!(name);
            node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
            forked.replay.fork.node_added(&name, &like);
            let new: Node = serde_json::from_value(node.clone()).unwrap();
            let drivers = json!({"metadata": {"name": name},
                "spec": {"drivers": [{"name": "csi", "allocatable": {"count": 2}}]}});
            cluster.world.set(&name, drivers, Change::CsiNode);
            cluster.world.change_node(&name, node);
            forked.report(created(&new).unwrap()).await;
            forked.report(si::NodeInfo::change(&name, ActionFromRm::DrainToSchedulable)).await;
        }
        Doing::Pass => cluster.world.pass(HALF_A_SECOND).await,
    }
}

/// A gang of three, of which one is to come.
fn add_gang(cluster: &mut Cluster) {
    let groups = json!([{"name": "workers", "minMember": 3, "minResource": {"cpu": "1"}}]);
    for declares in [true, false] {
        let mut member = pod(Look { shape: 2, claim: 0, application: 0, cores: 1 });
        member["metadata"]["labels"]["applicationId"] = json!("gang");
        member["metadata"]["annotations"]["monoceros.io/task-group-name"] = json!("workers");
        if declares {
            member["metadata"]["annotations"]["monoceros.io/task-groups"] =
                json!(groups.to_string());
        }
        cluster.add(member);
    }
}

fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { CASES };
    ProptestConfig { cases, ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn fork_places_what_the_running_scheduler_places(
        looks in looks(),
        ended in prop::collection::vec(any::<usize>(), 0..4),
        has_gang in any::<bool>(),
        doings in doings(),
    ) {
        in_virtual_time(async {
            let mut cluster = Cluster::new().await;
            if has_gang {
                add_gang(&mut cluster);
                cluster.settle().await;
            }
            for look in &looks {
                cluster.add(pod(*look));
            }
            cluster.settle().await;
            for at in ended {
                let running = cluster.world.pods.iter();
                let running = running.filter(|(_, pod)| application(pod) != "gang");
                if let Some(uid) = nth(running.map(|(uid, _)| uid.clone()), at) {
                    cluster.world.remove(&uid);
                    cluster.settle().await;
                }
            }
            // No retry is delayed.
            cluster.world.pass(2 * HALF_A_SECOND).await;
            let image = cluster.world.scheduler.image(RM).await.unwrap();
            let text = serde_json::to_string(&image.mirror).unwrap();
            assert!(!text.contains("secret"), "{text}");
            let mut forked = Forked::of(image).await;
            cluster.world.placed.clear();
            for doing in &doings {
                act(&mut cluster, &mut forked, doing).await;
                cluster.settle().await;
                forked.settle(cluster.world.now).await;
                assert_eq!(forked.started, cluster.world.placed, "after {doing:?}");
                let scene = open(forked.replay.fork.scene());
                assert_eq!(scene.check_books(), <[String; 0]>::default());
                assert_eq!(scene.placed(), open(&cluster.world.scene).placed());
            }
            assert_eq!(forked.replay.fork.unknown_asks(), 0);
            cluster.world.check_each().await;
        });
    }
}
