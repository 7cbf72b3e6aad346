//! Random histories against a model that counts everything again.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::node;
use super::super::ports::HostPort;
use super::super::question::{Guard, compile, guards, pod_term};
use super::super::selectors::{Labels, PodTerm};
use super::super::tally::TallySpec;
use super::*;
use crate::fork::reread;
use crate::objects::Meta as _;

const NODES: u8 = 4;
const ZONES: u8 = 3;

/// Specifications that differ in what they require.
fn specs() -> Vec<Value> {
    let none = json!({});
    let of_x = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
    let host = json!({"topologyKey": "kubernetes.io/hostname"});
    let two = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}},
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["db"]}]}}]}}});
    vec![
        none.clone(),
        near("podAntiAffinity", "zone", &none),
        near("podAntiAffinity", "kubernetes.io/hostname", &of_x),
        near("podAffinity", "zone", &none),
        near("podAffinity", "zone", &of_x),
        two,
        spread(&none),
        spread(&json!({"minDomains": 3})),
        with(&spread(&host), &json!({"nodeSelector": {"zone": "z1"}})),
        spread(&json!({"nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": null}})),
        json!({"containers": [{"ports": [{"hostPort": 80}]}]}),
    ]
}

/// Properties of a pod that may change.
#[derive(Clone, Copy, Debug)]
struct Look {
    app: u8,
    is_going: bool,
}

impl Look {
    /// Makes the pod with this number, which decides its specification and namespace.
    fn pod(self, number: u8) -> Arc<Pod> {
        let specs = specs();
        let (name, number) = (format!("p{number}"), usize::from(number));
        let app = ["db", "web", "job"][usize::from(self.app)];
        let namespace = ["ns", "other"][number / specs.len() % 2];
        let spec = &specs[number % specs.len()];
        let gone = self.is_going.then_some("2026-01-01T00:00:00Z");
        from(json!({"metadata": {"name": name, "namespace": namespace, "uid": name,
            "labels": {"app": app}, "deletionTimestamp": gone}, "spec": spec}))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Settle(u8, u8, Look),
    Clear(usize),
    Node {
        node: u8,
        zone: Option<u8>,
        is_tainted: bool,
    },
    Remove(u8),
    Expect(u8, Look),
    Dismiss(usize),
    Assume(usize, u8),
    Forget(usize),
    Namespace(u8, Option<bool>),
    Restart,
    /// Takes the unblocked flag, and compares it with the model.
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let look = || {
        let look = (0..3_u8, prop::bool::weighted(0.1));
        look.prop_map(|(app, is_going)| Look { app, is_going })
    };
    let pods = 2 * u8::try_from(specs().len()).expect("a few");
    let (pod, node, nth) = (|| 0..pods, || 0..NODES, any::<usize>);
    let step = prop_oneof![
        6 => (pod(), node(), look()).prop_map(|(pod, node, look)| Step::Settle(pod, node, look)),
        3 => nth().prop_map(Step::Clear),
        3 => (node(), prop::option::of(0..ZONES), prop::bool::weighted(0.2))
            .prop_map(|(node, zone, is_tainted)| Step::Node { node, zone, is_tainted }),
        1 => node().prop_map(Step::Remove),
        5 => (pod(), look()).prop_map(|(pod, look)| Step::Expect(pod, look)),
        1 => nth().prop_map(Step::Dismiss),
        5 => (nth(), node()).prop_map(|(asked, node)| Step::Assume(asked, node)),
        4 => nth().prop_map(Step::Forget),
        1 => (0..2_u8, prop::option::of(any::<bool>())).prop_map(|(name, x)| Step::Namespace(name, x)),
        1 => Just(Step::Restart),
        6 => Just(Step::Look),
    ];
    let start = (0..NODES).map(|node| Step::Node { node, zone: Some(node % 2), is_tainted: false });
    let start: Vec<_> = start.collect();
    prop::collection::vec(step, 1..80)
        .prop_map(move |steps| start.iter().cloned().chain(steps).collect())
}

/// The state of a scene without derived counts.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Arc<Node>>,
    /// Pods by key and node, and how often each is counted.
    there: BTreeMap<(String, String), (Arc<Pod>, u32)>,
    /// Nodes of settled pods.
    settled: BTreeMap<String, String>,
    asked: BTreeMap<String, Arc<Pod>>,
    namespaces: BTreeMap<String, Labels>,
}

fn matches(term: &PodTerm, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
    term.matches(pod.namespace(), pod.labels(), namespaces)
}

impl Model {
    fn on<'m>(&'m self, node: &'m str) -> impl Iterator<Item = &'m (Arc<Pod>, u32)> {
        self.there.iter().filter(move |((_, on), _)| on == node).map(|(_, counted)| counted)
    }

    /// Counts the pods of a rule in one domain, or in all.
    fn count(&self, spec: &TallySpec, domain: Option<&str>) -> u32 {
        let is_there = |node: &&Arc<Node>| {
            let own = spec.domain(node);
            own.is_some() && domain.is_none_or(|domain| own == Some(domain))
        };
        let pods = self.nodes.values().filter(is_there).flat_map(|node| self.on(node.name()));
        pods.filter(|(pod, _)| spec.counts(pod, &self.namespaces)).map(|(_, times)| times).sum()
    }

    fn may_run(&self, pod: &Arc<Pod>, node: &Node) -> bool {
        let mut rules = Vec::new();
        let question = compile(pod, |spec| {
            rules.push(spec);
            rules.len() - 1
        });
        let has = |spec: &TallySpec| {
            spec.domain(node).is_some_and(|domain| self.count(spec, Some(domain)) > 0)
        };
        let near: Vec<_> = question.near.iter().map(|id| &rules[*id]).collect();
        let affinity = pod.spec.affinity.as_ref().and_then(|all| all.pod_affinity.as_ref());
        let required = affinity
            .and_then(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
        let mut terms = required.into_iter().flatten().map(|term| pod_term(pod, term));
        let is_first = near.iter().all(|spec| self.count(spec, None) == 0)
            && terms.all(|term| matches(&term, pod, &self.namespaces));
        let is_near = near.iter().all(|spec| spec.domain(node).is_some())
            && (is_first || near.iter().all(|spec| has(spec)));
        let is_away = question.away.iter().all(|id| !has(&rules[*id]));
        let is_even = question.spread.iter().all(|rule| {
            let spec = &rules[rule.tally];
            let Some(domain) = node.label(&spec.key) else { return false };
            let domains: std::collections::BTreeSet<_> =
                self.nodes.values().filter_map(|node| spec.domain(node)).collect();
            let least = domains.iter().map(|domain| self.count(spec, Some(domain))).min();
            let min_domains = spec.spread.as_ref().map_or(0, |eligible| eligible.min_domains);
            let is_few = u32::try_from(domains.len()).is_ok_and(|many| many < min_domains);
            let least = if is_few { 0 } else { least.unwrap_or(0) };
            let there = if domains.contains(domain) { self.count(spec, Some(domain)) } else { 0 };
            there + u32::from(rule.counts_itself) <= rule.max_skew + least
        });
        let is_kept_away = self.there.iter().any(|((_, on), (other, _))| {
            let Some(there) = self.nodes.get(on) else { return false };
            guards(other).iter().any(|Guard { term, key }| {
                matches(term, pod, &self.namespaces)
                    && there.label(key).is_some()
                    && there.label(key) == node.label(key)
            })
        });
        let mut taken = self.on(node.name()).flat_map(|(other, _)| HostPort::of(other));
        let is_free = !taken.any(|one| question.ports.iter().any(|port| port.collides(&one)));
        node::check(&question.node, node).is_ok()
            && is_near
            && is_away
            && is_even
            && !is_kept_away
            && is_free
    }

    /// Returns the pairs of pod and node that pass.
    fn passing(&self) -> Vec<(String, String)> {
        let pairs = self
            .asked
            .iter()
            .flat_map(|(key, pod)| self.nodes.values().map(move |node| (key, pod, node)));
        let passing = pairs.filter(|(_, pod, node)| self.may_run(pod, node));
        passing.map(|(key, _, node)| (key.clone(), node.name().to_owned())).collect()
    }

    fn step(&mut self, scene: &mut Scene, step: &Step) {
        fn nth<K: Clone, V>(of: &BTreeMap<K, V>, at: usize) -> Option<K> {
            of.keys().nth(at.checked_rem(of.len())?).cloned()
        }
        let name = |node: &u8| format!("n{node}");
        match step {
            Step::Settle(one, on, look) => {
                let (pod, on) = (look.pod(*one), name(on));
                let key = pod.name().to_owned();
                scene.settle(&key, &on, &pod);
                self.there.retain(|(other, _), _| *other != key);
                self.there.insert((key.clone(), on.clone()), (pod, 1));
                self.settled.insert(key, on);
            }
            Step::Clear(at) => {
                let Some((key, _)) = nth(&self.there, *at) else { return };
                scene.clear(&key);
                self.there.retain(|(other, _), _| *other != key);
                self.settled.remove(&key);
            }
            Step::Node { node: number, zone, is_tainted } => {
                let name = name(number);
                let mut labels = json!({"kubernetes.io/hostname": name});
                if let Some(zone) = zone {
                    labels["zone"] = json!(format!("z{zone}"));
                }
                let taints = is_tainted.then(|| json!([{"key": "x", "effect": "NoSchedule"}]));
                let node: Arc<Node> = from(json!({"metadata": {"name": name, "labels": labels},
                    "spec": {"taints": taints}}));
                scene.set_node(Arc::clone(&node));
                self.nodes.insert(name, node);
            }
            Step::Remove(node) => {
                scene.remove_node(&name(node));
                self.nodes.remove(&name(node));
            }
            Step::Expect(one, look) => {
                let pod = look.pod(*one);
                scene.expect(pod.name(), Arc::clone(&pod));
                self.asked.insert(pod.name().to_owned(), pod);
            }
            Step::Dismiss(at) => {
                let Some(key) = nth(&self.asked, *at) else { return };
                scene.dismiss(&key);
                self.asked.remove(&key);
            }
            Step::Assume(at, on) => {
                let Some(key) = nth(&self.asked, *at) else { return };
                scene.assume(&key, &name(on));
                let counted = || (Arc::clone(&self.asked[&key]), 0);
                self.there.entry((key.clone(), name(on))).or_insert_with(counted).1 += 1;
            }
            Step::Forget(at) => {
                let Some(place) = nth(&self.there, *at) else { return };
                let is_settled = self.settled.get(&place.0) == Some(&place.1);
                let is_assumed = !is_settled || self.there[&place].1 > 1;
                assert_eq!(scene.forget(&place.0, &place.1), is_assumed);
                if !is_assumed {
                    return;
                }
                if let Some((_, times)) = self.there.get_mut(&place) {
                    *times -= 1;
                    if *times == 0 {
                        self.there.remove(&place);
                    }
                }
            }
            Step::Namespace(number, is_x) => {
                let name = ["ns", "other"][usize::from(*number)];
                let team = is_x.map(|is_x| if is_x { "x" } else { "y" });
                let namespace: Option<Arc<Namespace>> = team.map(|team| {
                    from(json!({"metadata": {"name": name, "labels": {"team": team}}}))
                });
                scene.set_namespace(name, namespace.as_deref());
                match namespace {
                    Some(namespace) => {
                        self.namespaces.insert(name.to_owned(), namespace.labels().clone());
                    }
                    None => drop(self.namespaces.remove(name)),
                }
            }
            Step::Restart => {
                scene.restart();
                self.there.clear();
                self.settled.clear();
                self.asked.clear();
            }
            Step::Look => {}
        }
    }

    /// Finds how many of these pods must leave the node, in this order.
    fn without(&mut self, pod: &Arc<Pod>, node: &Node, leaving: &[String]) -> Option<usize> {
        let there = self.there.clone();
        let mut enough = None;
        for count in 0..=leaving.len() {
            if self.may_run(pod, node) {
                enough = Some(count);
                break;
            }
            if let Some(victim) = leaving.get(count) {
                self.there.remove(&(victim.clone(), node.name().to_owned()));
            }
        }
        self.there = there;
        enough
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Counts kept over time equal a full count, each refused pod that may run now was
    /// unblocked, and a scene that is read from a mirror answers alike.
    #[test]
    fn histories_equal_a_full_count(steps in steps()) {
        let mut scene = Scene::default();
        let mut model = Model::default();
        let mut before = Vec::new();
        // Pairs that cannot have been refused before: the pod was not expected, or the node did not
        // exist.
        let mut new: Vec<(String, String)> = Vec::new();
        for step in &steps {
            let (asked, nodes) = (model.asked.clone(), model.nodes.clone());
            model.step(&mut scene, step);
            prop_assert_eq!(scene.check_books(), [""; 0], "{:?}", step);
            let passing = model.passing();
            for (key, pod) in &model.asked {
                for (name, node) in &model.nodes {
                    let pair = (key.clone(), name.clone());
                    let may = scene.check(key, name);
                    prop_assert_eq!(may.is_ok(), passing.contains(&pair), "{:?} {:?} {:?}", pair, may, step);
                    let is_same = asked.get(key).is_some_and(|old| Arc::ptr_eq(old, pod));
                    if !is_same || !nodes.contains_key(name) {
                        new.push(pair);
                    }
                    let _ = node;
                }
            }
            if matches!(step, Step::Look) {
                let copy = reread(&scene);
                prop_assert_eq!(copy.check_books(), [""; 0], "of a copy");
                prop_assert_eq!(copy.placed(), scene.placed());
                for (key, node) in model.asked.keys().flat_map(|key| model.nodes.keys().map(move |node| (key, node))) {
                    prop_assert_eq!(copy.check(key, node).is_ok(), scene.check(key, node).is_ok());
                }
                let leaving: Vec<_> = model.there.keys().map(|(key, _)| key.clone()).collect();
                for (key, pod) in model.asked.clone() {
                    let Some(node) = model.nodes.values().next().cloned() else { continue };
                    let enough = model.without(&pod, &node, &leaving);
                    prop_assert_eq!(scene.check_without(&key, node.name(), &leaving, 0), enough);
                }
                prop_assert_eq!(scene.check_books(), [""; 0], "after all came back");
                let is_helped = |pair: &&(String, String)| !before.contains(*pair) && !new.contains(pair);
                let helped: Vec<_> = passing.iter().filter(is_helped).collect();
                let unblocked = scene.take_unblocked();
                prop_assert!(unblocked || helped.is_empty(), "{:?} were not helped", helped);
                before = passing;
                new.clear();
            }
        }
    }
}
