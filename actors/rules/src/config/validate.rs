//! What was written → what it means, every rule of the chapter held (2.3 to 2.7, 3.1 to 3.8).
//!
//! Each partition goes through the checks in the order of section 2.4. A check whose input already
//! failed is skipped: what cannot be read counts as not written, so that the faults that follow
//! from it stay hidden until it is corrected.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::document::{Document, Field, Located, Partition, Queue, Texts};
use super::error::{Place, Report};
use super::settings;
use super::{Acl, NodeOrder, NodeSortPolicy, PartitionConfig, PreemptionFlags, QueueConfig};
use crate::quantity;
use crate::resources::{Limits, Name, Resources};

pub(super) const DEFAULT_PARTITION: &str = "default";
const ROOT: &str = "root";

/// Where applications go that no queue can take; the scheduler creates it itself, below root.
const RECOVERY: &str = "@recovery@";

/// Checks all partitions. The result is worth something only where no error was reported.
pub(super) fn partitions(document: Document, report: &mut Report) -> Vec<PartitionConfig> {
    let (partitions, place) = match document.partitions {
        Field::Bad => return Vec::new(),
        Field::Absent => (Vec::new(), Place::top()),
        Field::Given(Located { value, place }) => (value, place),
    };
    if partitions.is_empty() {
        report.error(
            "E_NO_PARTITIONS",
            &place,
            "there is no partition: list one under `partitions`",
        );
    }
    let mut first_lines = HashMap::new();
    partitions.into_iter().map(|raw| partition(raw, &mut first_lines, report)).collect()
}

fn partition(
    raw: Partition,
    first_lines: &mut HashMap<String, usize>,
    report: &mut Report,
) -> PartitionConfig {
    let name = partition_name(&raw, first_lines, report);
    let mut root = match raw.queues {
        Field::Given(Located { value, .. }) => Some(root_of(value, report)),
        Field::Bad => None,
        Field::Absent => {
            let message = "the partition has no `queues`; an empty list, `queues: []`, would do";
            report.error("E_NO_QUEUES", &raw.place, message);
            None
        }
    };
    if let Some(root) = &mut root {
        root.check_access_and_names(0, report);
        root.check_resources(&Limits::unlimited(), report);
    }
    let node_order = node_order(&raw.node_order_policy, raw.node_order_weights, report);
    if let Some(root) = &root {
        root.check_max_applications(report);
        root.check_properties(report);
    }
    let root = root.unwrap_or_else(|| Draft::of(Queue::inserted_root(Vec::new()), ""));
    PartitionConfig {
        name: Arc::from(name),
        placement: Vec::new(),
        preemption: PreemptionFlags::default(),
        resolver: String::new(),
        node_order,
        root: root.build(None),
    }
}

fn partition_name(
    raw: &Partition,
    first_lines: &mut HashMap<String, usize>,
    report: &mut Report,
) -> String {
    let (name, place) = match &raw.name {
        Field::Bad => return String::new(),
        Field::Absent => ("", &raw.place),
        Field::Given(Located { value, place }) => (&**value, place),
    };
    if name.contains(['[', ']']) {
        let message = format!("the partition name `{name}` must not contain `[` or `]`");
        report.error("E_PARTITION_IDENT", place, message);
    }
    let name = if name.is_empty() || name.eq_ignore_ascii_case(DEFAULT_PARTITION) {
        DEFAULT_PARTITION
    } else {
        name
    };
    if let Some(line) = first_lines.get(&name.to_lowercase()) {
        let message = format!(
            "there already is a partition `{name}`, on line {line}; case does not count, and no \
             name means `{DEFAULT_PARTITION}`"
        );
        report.error("E_PARTITION_DUP", place, message);
    } else {
        first_lines.insert(name.to_lowercase(), place.line);
    }
    name.to_owned()
}

fn node_order(
    policy: &Field<String>,
    weights: Vec<(String, Located<f64>)>,
    report: &mut Report,
) -> NodeOrder {
    let policy = match policy {
        Field::Absent | Field::Bad => NodeSortPolicy::default(),
        Field::Given(Located { value, place }) => match &**value {
            "" | "fair" => NodeSortPolicy::Fair,
            "binpacking" => NodeSortPolicy::BinPacking,
            unknown => {
                let message = format!(
                    "`{unknown}` is not a node sort policy; write `fair` or `binpacking`, in lower \
                     case"
                );
                report.error("E_NODESORT_POLICY", place, message);
                NodeSortPolicy::default()
            }
        },
    };
    let mut by_name = BTreeMap::new();
    for (name, Located { value, place }) in weights {
        if value < 0.0 {
            let message = format!("the weight of `{name}` is {value}; it has to be 0 or more");
            report.error("E_NODESORT_WEIGHT", &place, message);
        }
        by_name.insert(name, value);
    }
    if by_name.is_empty() {
        by_name = BTreeMap::from([("memory".to_owned(), 1.0), ("vcore".to_owned(), 1.0)]);
    }
    NodeOrder { policy, weights: by_name.into_iter().collect() }
}

/// The root queue among the top-level ones, or one inserted above them (2.6).
fn root_of(mut queues: Vec<Queue>, report: &mut Report) -> Draft {
    let is_root = |queue: &Queue| match &queue.name {
        Field::Given(name) => name.value.eq_ignore_ascii_case(ROOT),
        Field::Absent | Field::Bad => false,
    };
    if let [only] = &*queues
        && is_root(only)
    {
        let mut root = queues.pop().expect("there is one");
        for (key, resources) in [("guaranteed", &mut root.guaranteed), ("max", &mut root.max)] {
            if let Field::Given(Located { place, .. }) = resources {
                let message = format!(
                    "the root queue cannot have `{key}`: what it offers is what the nodes have"
                );
                report.error("E_ROOT_RESOURCES", place, message);
            }
            *resources = Field::Absent;
        }
        root.parent = true;
        return Draft::of(root, "");
    }
    if let Some(beside) = queues.iter().find(|queue| is_root(queue)) {
        let message = "`root` is not the only queue at the top, so that it became `root.root`; \
                       move the other queues below it";
        report.warn(&beside.place, message);
    }
    Draft::of(Queue::inserted_root(queues), "")
}

impl Queue {
    fn inserted_root(queues: Vec<Queue>) -> Self {
        let place = Place::top();
        Self {
            name: Field::Given(Located { value: ROOT.to_owned(), place: place.clone() }),
            place,
            parent: true,
            queues,
            guaranteed: Field::Absent,
            max: Field::Absent,
            max_applications: Field::Absent,
            properties: Vec::new(),
            admin_acl: Field::Absent,
            submit_acl: Field::Absent,
        }
    }
}

/// A queue on its way from what was written to what it means.
struct Draft {
    raw: Queue,
    /// The name as written; empty where there is none.
    name: String,
    /// The path as written, for messages.
    shown: String,
    admin_acl: Acl,
    submit_acl: Acl,
    guaranteed: Resources,
    max: Limits,
    children: Vec<Draft>,
}

impl Draft {
    fn of(mut raw: Queue, parent: &str) -> Self {
        let name = match &raw.name {
            Field::Given(name) if parent.is_empty() => name.value.to_ascii_lowercase(),
            Field::Given(name) => name.value.clone(),
            Field::Absent | Field::Bad => String::new(),
        };
        let shown = match (parent, &*name) {
            ("", _) => name.clone(),
            (_, "") => format!("{parent}.(unnamed)"),
            _ => format!("{parent}.{name}"),
        };
        let children = std::mem::take(&mut raw.queues);
        Self {
            children: children.into_iter().map(|child| Self::of(child, &shown)).collect(),
            raw,
            name,
            shown,
            admin_acl: Acl::default(),
            submit_acl: Acl::default(),
            guaranteed: Resources::new(),
            max: Limits::unlimited(),
        }
    }

    /// Access lists, then the names of the children, then the same for each child. The root is at
    /// level 0.
    fn check_access_and_names(&mut self, level: usize, report: &mut Report) {
        self.admin_acl = acl(&self.raw.admin_acl, report);
        self.submit_acl = acl(&self.raw.submit_acl, report);
        let mut first_lines = HashMap::new();
        for child in &self.children {
            child.check_name(&self.shown, level + 1, &mut first_lines, report);
        }
        for child in &mut self.children {
            child.check_access_and_names(level + 1, report);
        }
    }

    fn check_name(
        &self,
        parent: &str,
        level: usize,
        first_lines: &mut HashMap<String, usize>,
        report: &mut Report,
    ) {
        let place = match &self.raw.name {
            Field::Bad => return,
            Field::Absent => &self.raw.place,
            Field::Given(name) => &name.place,
        };
        let name = &self.name;
        if !is_queue_name(name) {
            let dots = if name.contains('.') {
                "; for a user name, write `_dot_` for each dot"
            } else {
                ""
            };
            let message = format!(
                "`{name}` is not a queue name: it takes 1 to 64 characters of a-z A-Z 0-9 _ : # / \
                 @ -{dots}"
            );
            report.error("E_QUEUE_NAME", place, message);
            return;
        }
        if level == 1 && name.eq_ignore_ascii_case(RECOVERY) {
            let message = format!(
                "the queue `{name}` below root belongs to the scheduler; choose another name of 1 \
                 to 64 characters of a-z A-Z 0-9 _ : # / @ -"
            );
            report.error("E_QUEUE_NAME", place, message);
            return;
        }
        if let Some(line) = first_lines.get(&name.to_ascii_lowercase()) {
            let message = format!(
                "`{parent}` already has a queue `{name}` at level {level}, on line {line}; case \
                 does not count"
            );
            report.error("E_QUEUE_DUP", place, message);
        } else {
            first_lines.insert(name.to_ascii_lowercase(), place.line);
        }
    }

    /// The resource hierarchy (3.4). `parent_max` is the least of the limits above; returns what
    /// this queue guarantees, to be compared with what its parent does.
    fn check_resources(&mut self, parent_max: &Limits, report: &mut Report) -> Resources {
        self.guaranteed = self.quantities("guaranteed", &self.raw.guaranteed, report);
        self.max = Limits::from(self.quantities("max", &self.raw.max, report));
        let shown = &self.shown;
        let place_of = |field: &Field<Texts>| match field {
            Field::Given(texts) => texts.place.clone(),
            Field::Absent | Field::Bad => self.raw.place.clone(),
        };
        if !self.max.allows(&self.guaranteed) {
            let message = format!(
                "queue `{shown}` is guaranteed {}, more than its max {}",
                self.guaranteed, self.max
            );
            report.error("E_GUAR_GT_MAX", &place_of(&self.raw.guaranteed), message);
        }
        if !parent_max.allows(&self.max.as_resources()) {
            let message = format!(
                "queue `{shown}` has the max {}, more than the queues above it allow, {parent_max}",
                self.max
            );
            report.error("E_MAX_GT_PARENT", &place_of(&self.raw.max), message);
        }
        let mut effective_max = self.max.clone();
        effective_max.narrow(parent_max);
        let mut sum = Resources::new();
        for child in &mut self.children {
            sum.add(&child.check_resources(&effective_max, report));
        }
        // For the sum, a name that is not guaranteed here is not compared: the reading of limits.
        if !Limits::from(self.guaranteed.clone()).allows(&sum) {
            let message = format!(
                "the children of queue `{shown}` are guaranteed {sum} together, more than its own \
                 guarantee {}",
                self.guaranteed
            );
            let place = place_of(&self.raw.guaranteed);
            report.error("E_CHILD_GUAR_GT_PARENT_GUAR", &place, message);
        }
        if !effective_max.allows(&sum) {
            let message = format!(
                "the children of queue `{shown}` are guaranteed {sum} together, more than it may \
                 use, {effective_max}"
            );
            report.error("E_CHILD_GUAR_GT_MAX", &place_of(&self.raw.max), message);
        }
        if self.guaranteed.is_zero() { sum } else { self.guaranteed.clone() }
    }

    /// Reads a resource map; empty where it cannot be read.
    fn quantities(&self, key: &str, texts: &Field<Texts>, report: &mut Report) -> Resources {
        let Field::Given(texts) = texts else { return Resources::new() };
        let mut quantities = Resources::new();
        let mut all_read = true;
        for (resource, Located { value: text, place }) in &texts.value {
            let mut wrong = |code, message: String| {
                let message = format!("{key} of queue `{}`: {message}", self.shown);
                report.error(code, place, message);
                all_read = false;
            };
            match quantity::parse(resource, text) {
                Err(error) => wrong(error.code(), error.message()),
                Ok(quantity) => match Name::intern(resource) {
                    Err(error) => wrong("E_CONF_PARSE", error.to_string()),
                    Ok(name) => quantities.set(name, quantity),
                },
            }
        }
        if !all_read {
            return Resources::new();
        }
        if key == "max" && !quantities.is_empty() && quantities.is_zero() {
            let message = format!(
                "max of queue `{}` lists only zeros, which sets no quota at all; zeros count where \
                 another limit is above zero",
                self.shown
            );
            report.warn(&texts.place, message);
        }
        quantities
    }

    /// Where a parent limits its applications, each child does, and to no more (3.5).
    fn check_max_applications(&self, report: &mut Report) {
        let own = self.max_applications();
        for child in &self.children {
            let place = match &child.raw.max_applications {
                Field::Bad => continue,
                Field::Absent => &child.raw.place,
                Field::Given(count) => &count.place,
            };
            let (limit, parent, shown) = (child.max_applications(), &self.shown, &child.shown);
            if own != 0 && limit == 0 {
                let message = format!(
                    "queue `{shown}` has maxapplications 0, unlimited, below `{parent}` with {own}; \
                     write 1 to {own}"
                );
                report.error("E_MAXAPPS_CHILD_UNSET", place, message);
            } else if own != 0 && limit > own {
                let message = format!(
                    "queue `{shown}` has maxapplications {limit}, more than `{parent}` with {own}"
                );
                report.error("E_MAXAPPS_CHILD_LARGER", place, message);
            }
        }
        for child in &self.children {
            child.check_max_applications(report);
        }
    }

    fn max_applications(&self) -> u64 {
        match &self.raw.max_applications {
            Field::Given(count) => count.value,
            Field::Absent | Field::Bad => 0,
        }
    }

    fn check_properties(&self, report: &mut Report) {
        settings::check(&self.raw.properties, report);
        for child in &self.children {
            child.check_properties(report);
        }
    }

    fn build(self, parent: Option<&QueueConfig>) -> QueueConfig {
        let name = self.name.to_ascii_lowercase();
        let path = parent.map_or_else(|| name.clone(), |parent| format!("{}.{name}", parent.path));
        let is_leaf = !self.raw.parent && self.children.is_empty();
        let inherited = parent.map(|parent| &parent.properties);
        let properties = settings::effective(inherited, &self.raw.properties);
        let max_applications = self.max_applications();
        let max = self.max.as_resources().is_positive().then_some(self.max);
        let mut queue = QueueConfig {
            name: Arc::from(name),
            path: Arc::from(path),
            is_leaf,
            max,
            guaranteed: self.guaranteed.is_positive().then_some(self.guaranteed),
            max_applications,
            submit_acl: self.submit_acl,
            admin_acl: self.admin_acl,
            settings: settings::settings(&properties, is_leaf),
            properties,
            template: None,
            limits: Vec::new(),
            is_dynamic: false,
            children: Vec::new(),
        };
        queue.children = self.children.into_iter().map(|child| child.build(Some(&queue))).collect();
        queue
    }
}

/// Reads an access list; nobody where it cannot be read.
fn acl(text: &Field<String>, report: &mut Report) -> Acl {
    let Field::Given(Located { value: text, place }) = text else { return Acl::default() };
    match Acl::parse_with_dropped(text) {
        Ok((acl, dropped)) => {
            for name in dropped {
                let what = match name {
                    "" => "an empty name".to_owned(),
                    _ => format!("`{name}`, which nobody can be called,"),
                };
                let message = format!(
                    "{what} in the access list `{text}` is left out; users come before the space, \
                     groups after it"
                );
                report.warn(place, message);
            }
            acl
        }
        Err(error) => {
            report.error("E_ACL_SPACES", place, error.to_string());
            Acl::default()
        }
    }
}

fn is_queue_name(name: &str) -> bool {
    static PATTERN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^[a-zA-Z0-9_:#/@-]{1,64}$").expect("the pattern is valid"));
    PATTERN.is_match(name)
}
