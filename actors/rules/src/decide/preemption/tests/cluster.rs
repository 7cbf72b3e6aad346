//! A cluster for tests: queues by path, nodes and allocations by name. Amounts have one resource,
//! if a test does not state another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::*;
use crate::allocations::{Allocation, AllocationTable, Leaving};
use crate::asks::preemption::NoPreemption;
use crate::pending::nominations::Nominations;
use crate::queues::QueueSettings;
use crate::specs::ask::{AskSpec, Preemption, TaskGroup};
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::resources::{Limits, Resources};

pub(super) const SECOND: i64 = 1_000_000_000;
/// The present time in tests, ns since the epoch; only tests that let time pass use later times.
pub(super) const NOW: i64 = 1_000_000 * SECOND;

pub(super) fn vcore(n: i64) -> Resources {
    Resources::of(&[("vcore", n)])
}

pub(super) struct Queue {
    pub(super) guaranteed: Option<Resources>,
    pub(super) max: Option<Limits>,
    pub(super) nominated: Resources,
    pub(super) settings: QueueSettings,
}

pub(super) struct Node {
    pub(super) name: String,
    pub(super) total: Resources,
    pub(super) is_open: bool,
    pub(super) claim: Claimed,
}

pub(super) struct Application {
    pub(super) queue: String,
    pub(super) allowance: Option<u32>,
    pub(super) is_barred: bool,
    pub(super) goes_as_one: bool,
    pub(super) groups: Vec<(TaskGroup, u32)>,
}

/// All facts for a survey.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) nodes: Vec<Node>,
    pub(super) applications: Vec<(String, Application)>,
    pub(super) table: AllocationTable,
    pub(super) names: BTreeMap<String, AllocationId>,
    pub(super) nominations: Nominations,
    n_runs: i64,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let mut cluster = Self::default();
        cluster.queue("root");
        cluster
    }

    /// Returns a queue to be configured. The queues above it have to exist.
    pub(super) fn queue(&mut self, path: &str) -> &mut Queue {
        self.queues.entry(path.to_owned()).or_insert_with(|| Queue {
            guaranteed: None,
            max: None,
            nominated: Resources::new(),
            settings: QueueSettings::default(),
        })
    }

    /// Adds a queue with a guarantee.
    pub(super) fn guarantees(&mut self, path: &str, guaranteed: i64) -> &mut Queue {
        let queue = self.queue(path);
        queue.guaranteed = Some(vcore(guaranteed));
        queue
    }

    pub(super) fn node(&mut self, name: &str, total: i64) -> &mut Node {
        self.node_of(name, vcore(total))
    }

    pub(super) fn node_of(&mut self, name: &str, total: Resources) -> &mut Node {
        self.nodes.push(Node { name: name.to_owned(), total, is_open: true, claim: Claimed::Free });
        self.nodes.last_mut().unwrap()
    }

    /// Returns the application with this name, in this queue; adds it if needed.
    pub(super) fn application(&mut self, name: &str, queue: &str) -> &mut Application {
        let at = self.applications.iter().position(|(known, _)| known == name);
        let at = at.unwrap_or_else(|| {
            self.queue(queue);
            let application = Application {
                queue: queue.to_owned(),
                allowance: None,
                is_barred: false,
                goes_as_one: false,
                groups: Vec::new(),
            };
            self.applications.push((name.to_owned(), application));
            self.applications.len() - 1
        });
        &mut self.applications[at].1
    }

    pub(super) fn slot(&mut self, application: &str) -> ApplicationSlot {
        let at = self.applications.iter().position(|(known, _)| known == application);
        ApplicationSlot::at(u32::try_from(at.expect("the application is there")).unwrap())
    }

    pub(super) fn node_slot(&self, name: &str) -> NodeSlot {
        let at = self.nodes.iter().position(|node| node.name == name);
        NodeSlot::at(u32::try_from(at.expect("the node is there")).unwrap())
    }

    /// Adds an allocation of the application that has the name of its queue. Each allocation is
    /// newer than those before.
    pub(super) fn runs(
        &mut self,
        name: &str,
        queue: &str,
        node: &str,
        size: i64,
    ) -> &mut Allocation {
        self.application(queue, queue);
        self.runs_of(name, queue, node, vcore(size))
    }

    /// Adds an allocation of an existing application.
    pub(super) fn runs_of(
        &mut self,
        name: &str,
        application: &str,
        node: &str,
        size: Resources,
    ) -> &mut Allocation {
        self.n_runs += 1;
        let created_ns = NOW - 1_000_000 * SECOND + self.n_runs * SECOND;
        let spec = Arc::new(AskSpec::new(name, size));
        let (slot, node) = (self.slot(application), self.node_slot(node));
        let id = self.table.insert(Allocation::new(slot, spec, node, created_ns, created_ns));
        self.names.insert(name.to_owned(), id);
        self.table.get_mut(id).unwrap()
    }

    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut Allocation)) {
        change(self.table.get_mut(self.names[name]).unwrap());
    }

    pub(super) fn spec(&mut self, name: &str, change: impl FnOnce(&mut AskSpec)) {
        self.change(name, |allocation| change(Arc::make_mut(&mut allocation.spec)));
    }

    pub(super) fn priority(&mut self, name: &str, priority: i32) {
        self.spec(name, |spec| spec.priority = priority);
    }

    pub(super) fn opts_out(&mut self, name: &str) {
        self.spec(name, |spec| spec.preemption = Preemption::Neither);
    }

    pub(super) fn is_originator(&mut self, name: &str) {
        self.spec(name, |spec| spec.originator = true);
    }

    pub(super) fn is_being_preempted(&mut self, name: &str) {
        self.change(name, |allocation| allocation.change().leaving = Some(Leaving::Preempted));
    }

    pub(super) fn ends(&mut self, name: &str) {
        let id = self.names.remove(name).unwrap();
        self.table.remove(id).unwrap();
    }

    /// Returns the facts of the queues, with their usage.
    pub(super) fn facts(&self) -> Vec<QueueFacts> {
        let paths: Vec<&String> = self.queues.keys().collect();
        let within = |path: &str, of: &str| {
            path == of || path.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'))
        };
        let of = |path: &String| {
            let queue = &self.queues[path];
            let sum = |is_counted: fn(&Allocation) -> bool| {
                let mut sum = Resources::new();
                for (_, it) in self.table.iter().filter(|(_, it)| is_counted(it)) {
                    if within(&self.applications[it.application.index()].1.queue, path) {
                        sum.add(it.resources());
                    }
                }
                sum
            };
            let mut nominated = Resources::new();
            for (below, queue) in &self.queues {
                if within(below, path) {
                    nominated.add(&queue.nominated);
                }
            }
            let mut total = Resources::new();
            for node in &self.nodes {
                total.add(&node.total);
            }
            QueueFacts {
                path: Arc::from(&**path),
                parent: path.rsplit_once('.').map(|(above, _)| {
                    paths.iter().position(|path| **path == above).expect("queues above exist")
                }),
                guaranteed: queue.guaranteed.clone(),
                max: queue.max.clone(),
                capacity: (path == "root").then(|| total.into()),
                allocated: sum(|_| true),
                preempting: sum(|it| it.leaving == Some(Leaving::Preempted)),
                nominated,
                settings: queue.settings,
            }
        };
        paths.iter().map(|path| of(path)).collect()
    }

    pub(super) fn queue_index(&self, path: &str) -> usize {
        self.queues.keys().position(|known| known == path).expect("the queue is there")
    }

    pub(super) fn available(&self, node: NodeSlot) -> Resources {
        let mut available = self.nodes[node.index()].total.clone();
        for (_, it) in self.table.iter().filter(|(_, it)| it.node == node) {
            available.subtract(it.resources());
        }
        available
    }

    /// Returns a preemptor for one ask of this size.
    pub(super) fn ask(&mut self, queue: &str, size: i64) -> Demand {
        self.ask_of(queue, vcore(size))
    }

    pub(super) fn ask_of(&mut self, queue: &str, size: Resources) -> Demand {
        self.application(queue, queue);
        Demand::ask(self.slot(queue), self.queue_index(queue), 0, size)
    }

    pub(super) fn gang(&mut self, queue: &str, members: &[i64]) -> Demand {
        self.application(queue, queue);
        let members = members.iter().map(|size| vcore(*size)).collect();
        Demand::gang(self.slot(queue), self.queue_index(queue), 0, members)
    }

    /// Makes a survey of all facts for this preemptor.
    pub(super) fn survey(&self, preemptor: Demand) -> Result<Planner, NoPreemption> {
        let mut survey = Survey::begin(&self.facts(), preemptor, NOW)?;
        for (at, node) in self.nodes.iter().enumerate() {
            let slot = NodeSlot::at(u32::try_from(at).unwrap());
            survey.node(&NodeFacts {
                slot,
                total: node.total.clone(),
                available: match self.nominations.kept(slot) {
                    Some(kept) => self.available(slot).minus(&kept),
                    None => self.available(slot),
                },
                is_open: node.is_open,
                claim: node.claim,
            });
        }
        for (at, (_, application)) in self.applications.iter().enumerate() {
            let slot = ApplicationSlot::at(u32::try_from(at).unwrap());
            let groups = application.groups.iter().map(|(name, min_members)| GroupFacts {
                name: TaskGroup::clone(name),
                min_members: *min_members,
            });
            survey.application(&ApplicationFacts {
                slot,
                queue: self.queue_index(&application.queue),
                allowance: application.allowance,
                is_barred: application.is_barred,
                bound_ends_ns: None,
                goes_as_one: application.goes_as_one,
                groups: groups.collect(),
            });
        }
        for (id, allocation) in self.table.iter() {
            survey.allocation(id, allocation);
        }
        Ok(survey.finish())
    }

    pub(super) fn plan(&self, preemptor: Demand) -> Result<Plan, NoPreemption> {
        self.survey(preemptor)?.plan(&AnyNode)
    }

    /// Returns the plan as text like `n1: a, b`, or the reason why there is none.
    pub(super) fn planned(&self, preemptor: Demand) -> String {
        self.shown(&self.plan(preemptor))
    }

    pub(super) fn shown(&self, plan: &Result<Plan, NoPreemption>) -> String {
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return format!("{why:?}"),
        };
        let nodes: Vec<&str> =
            plan.places.iter().map(|place| &*self.nodes[place.node.index()].name).collect();
        let held = if plan.holds.is_empty() {
            String::new()
        } else {
            format!(" and held {}", self.names_of(&plan.holds))
        };
        format!("{}: {}{held}", nodes.join(" "), self.names_of(&plan.victims))
    }

    pub(super) fn names_of(&self, ids: &[AllocationId]) -> String {
        let name = |id: &AllocationId| {
            let found = self.names.iter().find(|(_, known)| *known == id);
            &**found.expect("it has a name").0
        };
        ids.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn least_runtime(&mut self, queue: &str, seconds: u64) {
        self.queue(queue).settings.eviction.min_runtime = Duration::from_secs(seconds);
    }
}
