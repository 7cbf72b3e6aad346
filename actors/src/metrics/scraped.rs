//! Families that are read off the state of the cluster for each scrape.
//!
//! # Why not gauges
//! Some of these families have the path of a queue or a resource in their *name*, queues are created and
//! removed, and queues of two partitions may share a path. A gauge for each would have to be looked up,
//! summed and removed again. Here the whole set is made again from the snapshots, and series of removed
//! queues vanish.
//!
//! # Invariants
//! * A series of an existing queue falls to zero when its resource is not used or guaranteed any more.
//!   Resources that were used only between two scrapes have a series, too.
//! * A maximum has a series while it is set: zero would be a quota of nothing, and a queue without a
//!   maximum is not limited. The maximum of root is the capacity of all nodes, so it falls to zero with the
//!   last node that has the resource.
//! * Paths that become one name by [`sanitised`] are summed, so that each name appears once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::values::resources::Resources;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::inventory::{Family, Maker};
use super::states::label;
use crate::snapshot::QueueSnapshot;

const QUEUE_APP: &str = "Applications of a queue in a state; those that ended only rise.";
const QUEUE_RESOURCE: &str = "Resources of a queue: its quotas and what is used, waits or is \
                              being preempted; and the number of applications that may run \
                              (zero: any). A resource without a series of state max has no \
                              maximum.";
const QUEUE_CONTAINER: &str = "Allocations that a queue was given and gave back.";
const NODE_USAGE: &str = "Nodes by how much of a resource is allocated.";

const OBSERVED: &str = "monoceros_observed_usage";
const OBSERVED_HELP: &str =
    "What all nodes, and all allocations, really use that were reported in the last 5 minutes.";

const RANGES: [&str; 10] = [
    "[0,10%]",
    "(10%,20%]",
    "(20%,30%]",
    "(30%,40%]",
    "(40%,50%]",
    "(50%,60%]",
    "(60%,70%]",
    "(70%,80%]",
    "(80%,90%]",
    "(90%,100%]",
];
const APP_STATES: [&str; 9] = [
    "new",
    "accepted",
    "running",
    "resuming",
    "failing",
    "completing",
    "completed",
    "failed",
    "rejected",
];
const RESOURCE_STATES: [&str; 6] =
    ["guaranteed", "max", "allocated", "pending", "preempting", "maxRunningApps"];

/// The latest readings. A clone shows the same ones.
#[derive(Clone, Debug)]
pub(super) struct Scraped {
    legacy_names: bool,
    readings: Arc<Mutex<Readings>>,
}

#[derive(Debug, Default)]
struct Readings {
    queues: BTreeMap<String, BTreeMap<Fact, i64>>,
    /// Nodes per range, by resource.
    nodes: BTreeMap<Arc<str>, [i64; RANGES.len()]>,
    /// Measured use, of nodes or of allocations, and by resource.
    observed: BTreeMap<(&'static str, Arc<str>), i64>,
}

/// One number of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    Applications(&'static str),
    Resource(&'static str, Arc<str>),
    Containers(&'static str),
}

impl Scraped {
    pub(super) fn with_legacy_names() -> Self {
        Self { legacy_names: true, readings: Arc::default() }
    }

    pub(super) fn without_legacy_names() -> Self {
        Self { legacy_names: false, readings: Arc::default() }
    }

    /// Registers these readings, with the families that they may show.
    pub(super) fn registered(self, make: &mut Maker) -> Self {
        make.collector(Box::new(self.clone()), self.families());
        self
    }

    pub(super) fn set_queues(&self, trees: &[QueueSnapshot]) {
        let mut fresh = BTreeMap::new();
        for tree in trees {
            read_queue(tree, &mut fresh);
        }
        let mut readings = self.readings.lock().expect("no holder panics");
        for (path, facts) in &mut fresh {
            let is_root = trees.iter().any(|tree| tree.queue_name == *path);
            for fact in readings.queues.get(path).into_iter().flat_map(BTreeMap::keys) {
                if is_root || !fact.is_maximum() {
                    facts.entry(fact.clone()).or_insert(0);
                }
            }
        }
        readings.queues = fresh;
    }

    pub(super) fn set_node_load<'a>(
        &self,
        nodes: impl IntoIterator<Item = (&'a Resources, &'a Resources)>,
    ) {
        let mut fresh = BTreeMap::new();
        for (capacity, allocated) in nodes {
            for (name, whole) in capacity.entries().filter(|(_, whole)| *whole > 0) {
                let counts = fresh.entry(name).or_insert([0; RANGES.len()]);
                counts[range(allocated.get(name), whole)] += 1;
            }
        }
        let mut readings = self.readings.lock().expect("no holder panics");
        for counts in readings.nodes.values_mut() {
            *counts = [0; RANGES.len()];
        }
        readings.nodes.extend(fresh.into_iter().map(|(name, counts)| (name.text(), counts)));
    }

    pub(super) fn set_observed(&self, by_nodes: &Resources, by_allocations: &Resources) {
        let mut readings = self.readings.lock().expect("no holder panics");
        for used in readings.observed.values_mut() {
            *used = 0;
        }
        for (subject, used) in [("node", by_nodes), ("allocation", by_allocations)] {
            let used = used.entries();
            let used = used.map(|(name, quantity)| ((subject, name.text()), quantity));
            readings.observed.extend(used);
        }
    }

    /// All families that [`Self::collect`] may return, for the documentation.
    fn families(&self) -> Vec<Family> {
        let gauge = |name, labels, help| Family { name, kind: "gauge", labels, help };
        let app_states = ("state", APP_STATES.to_vec());
        let resource_states = ("state", RESOURCE_STATES.to_vec());
        let mut families = vec![
            gauge("yunikorn_queue_app", vec![("queue", vec![]), app_states.clone()], QUEUE_APP),
            gauge(
                "yunikorn_queue_resource",
                vec![("queue", vec![]), ("resource", vec![]), resource_states.clone()],
                QUEUE_RESOURCE,
            ),
            Family {
                name: "yunikorn_<queue>_queue_container",
                kind: "counter",
                labels: vec![("state", vec!["allocated", "released"])],
                help: QUEUE_CONTAINER,
            },
            gauge(
                "yunikorn_scheduler_<resource>_node_usage_total",
                vec![("range", RANGES.to_vec())],
                NODE_USAGE,
            ),
            gauge(
                OBSERVED,
                vec![("subject", vec!["node", "allocation"]), ("resource", vec![])],
                OBSERVED_HELP,
            ),
        ];
        if self.legacy_names {
            families.push(gauge("yunikorn_<queue>_queue_app", vec![app_states], QUEUE_APP));
            families.push(gauge(
                "yunikorn_<queue>_queue_resource",
                vec![("resource", vec![]), resource_states],
                QUEUE_RESOURCE,
            ));
        }
        families
    }
}

impl Collector for Scraped {
    fn desc(&self) -> Vec<&Desc> {
        // Names are not known beforehand, and the registry asks for none.
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let readings = self.readings.lock().expect("no holder panics");
        let mut page = Page::default();
        for (path, facts) in &readings.queues {
            let part = sanitised(path);
            for (fact, value) in facts {
                let (ending, kind, help) = fact.family();
                let is_container = matches!(fact, Fact::Containers(_));
                let labels = fact.labels();
                if is_container || self.legacy_names {
                    let name = format!("yunikorn_{part}_queue_{ending}");
                    page.add(name, kind, help, labels.clone(), *value);
                }
                if !is_container {
                    let name = format!("yunikorn_queue_{ending}");
                    let labels = [vec![("queue", path.clone())], labels].concat();
                    page.add(name, kind, help, labels, *value);
                }
            }
        }
        for (resource, counts) in &readings.nodes {
            for (range, nodes) in RANGES.iter().zip(counts) {
                let name = format!("yunikorn_scheduler_{}_node_usage_total", sanitised(resource));
                let labels = vec![("range", (*range).to_owned())];
                page.add(name, MetricType::GAUGE, NODE_USAGE, labels, *nodes);
            }
        }
        for ((subject, resource), used) in &readings.observed {
            let labels =
                vec![("subject", (*subject).to_owned()), ("resource", resource.to_string())];
            page.add(OBSERVED.to_owned(), MetricType::GAUGE, OBSERVED_HELP, labels, *used);
        }
        page.families()
    }
}

impl Fact {
    fn is_maximum(&self) -> bool {
        matches!(self, Self::Resource("max", _))
    }

    /// Ending of the family's name, its type and its help.
    fn family(&self) -> (&'static str, MetricType, &'static str) {
        match self {
            Self::Applications(_) => ("app", MetricType::GAUGE, QUEUE_APP),
            Self::Resource(..) => ("resource", MetricType::GAUGE, QUEUE_RESOURCE),
            Self::Containers(_) => ("container", MetricType::COUNTER, QUEUE_CONTAINER),
        }
    }

    fn labels(&self) -> Labels {
        match self {
            Self::Applications(state) | Self::Containers(state) => {
                vec![("state", (*state).to_owned())]
            }
            Self::Resource(state, resource) => {
                vec![("resource", resource.to_string()), ("state", (*state).to_owned())]
            }
        }
    }
}

type Labels = Vec<(&'static str, String)>;

/// Families under construction: series with the same name and labels are summed.
#[derive(Default)]
struct Page(BTreeMap<String, (MetricType, &'static str, BTreeMap<Labels, i64>)>);

impl Page {
    fn add(
        &mut self,
        name: String,
        kind: MetricType,
        help: &'static str,
        labels: Labels,
        value: i64,
    ) {
        let (_, _, series) = self.0.entry(name).or_insert((kind, help, BTreeMap::new()));
        let sum = series.entry(labels).or_insert(0);
        *sum = sum.saturating_add(value);
    }

    fn families(self) -> Vec<MetricFamily> {
        let family =
            |(name, (kind, help, series)): (String, (MetricType, &str, BTreeMap<_, _>))| {
                let mut family = MetricFamily::default();
                family.set_name(name);
                family.set_help(help.to_owned());
                family.set_field_type(kind);
                family.set_metric(
                    series.into_iter().map(|(l, value)| metric(kind, l, value)).collect(),
                );
                family
            };
        self.0.into_iter().map(family).collect()
    }
}

fn metric(kind: MetricType, labels: Labels, value: i64) -> Metric {
    let pairs = labels.into_iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value);
        pair
    });
    let mut metric = Metric::from_label(pairs.collect());
    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(value as f64);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value as f64);
        metric.set_gauge(gauge);
    }
    metric
}

fn read_queue(queue: &QueueSnapshot, into: &mut BTreeMap<String, BTreeMap<Fact, i64>>) {
    let facts = into.entry(queue.queue_name.clone()).or_default();
    let mut add = |fact, value: i64| {
        let sum = facts.entry(fact).or_insert(0);
        *sum = sum.saturating_add(value);
    };
    for (state, applications) in &queue.applications {
        if *state != ApplicationState::Expired {
            add(Fact::Applications(label(*state)), *applications);
        }
    }
    for (state, amounts) in [
        ("guaranteed", queue.guaranteed_resource.sorted()),
        ("max", queue.max_resource.sorted()),
        ("allocated", queue.allocated_resource.sorted()),
        ("pending", queue.pending_resource.sorted()),
        ("preempting", queue.preempting_resource.sorted()),
    ] {
        for (resource, quantity) in amounts {
            add(Fact::Resource(state, resource), quantity);
        }
    }
    let used = &queue.used_names;
    for (state, names) in [
        ("allocated", used.allocated()),
        ("pending", used.pending()),
        ("preempting", used.preempting()),
    ] {
        for resource in names {
            add(Fact::Resource(state, resource), 0);
        }
    }
    let limit = i64::try_from(queue.max_running_apps).unwrap_or(i64::MAX);
    add(Fact::Resource("maxRunningApps", "apps".into()), limit);
    if queue.is_leaf {
        for (state, containers) in
            [("allocated", queue.allocated_containers), ("released", queue.released_containers)]
        {
            add(Fact::Containers(state), i64::try_from(containers).unwrap_or(i64::MAX));
        }
    }
    for child in &queue.children {
        read_queue(child, into);
    }
}

/// The index in [`RANGES`] of `allocated` as a share of `whole`, which is above zero.
fn range(allocated: i64, whole: i64) -> usize {
    let tenths = (i128::from(allocated) * 10 + i128::from(whole) - 1) / i128::from(whole);
    usize::try_from(tenths - 1).unwrap_or(0).min(RANGES.len() - 1)
}

/// `text` as a part of a metric name: other characters become `_`.
fn sanitised(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut name = String::with_capacity(text.len() + 1);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        name.push('_');
    }
    // Byte by byte, as dashboards expect the names: a letter of two bytes becomes two underscores.
    name.extend(text.bytes().map(char::from).map(|c| if allowed(c) { c } else { '_' }));
    name
}
