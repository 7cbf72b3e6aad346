//! Counts and names the items of a message by hand, to check measuring and translation against.

use monoceros_actors::Ignored;
use monoceros_actors::fuzzing::{Item, List, Outcomes};
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use monoceros_proto::v1::shim_message::Body;
use si::placement_constraint::Constraint;

/// The RM that messages are fed to, and its partitions.
pub(crate) const RM: &str = "rmID";
pub(crate) const PARTITIONS: [&str; 2] = ["default", "partitionName"];

/// A message type whose lists are counted.
pub(crate) trait Lists {
    /// Number of messages in its lists, at every depth.
    fn n_items(&self) -> usize;

    /// The resource manager it names, if that is known before decoding.
    #[allow(clippy::unnecessary_literal_bound, reason = "most of them name one")]
    fn rm_id(&self) -> &str {
        ""
    }
}

impl Lists for si::AllocationRequest {
    fn n_items(&self) -> usize {
        let releases = self.releases.iter().map(|releases| {
            releases.allocations_to_release.len() + releases.allocation_asks_to_release.len()
        });
        self.asks.len() + self.allocations.len() + releases.sum::<usize>()
    }

    fn rm_id(&self) -> &str {
        &self.rm_id
    }
}

impl Lists for si::ApplicationRequest {
    fn n_items(&self) -> usize {
        self.remove.len() + self.new.iter().map(application).sum::<usize>()
    }

    fn rm_id(&self) -> &str {
        &self.rm_id
    }
}

impl Lists for si::NodeRequest {
    fn n_items(&self) -> usize {
        self.nodes.iter().map(|node| 1 + node.existing_allocations.len()).sum()
    }

    fn rm_id(&self) -> &str {
        &self.rm_id
    }
}

impl Lists for legacy::UpdateRequest {
    fn n_items(&self) -> usize {
        let releases = self.releases.iter().map(|releases| {
            releases.allocations_to_release.len() + releases.allocation_asks_to_release.len()
        });
        let nodes = self.new_schedulable_nodes.iter();
        self.asks.iter().map(ask).sum::<usize>()
            + releases.sum::<usize>()
            + nodes.map(|node| 1 + node.existing_allocations.len()).sum::<usize>()
            + self.updated_nodes.len()
            + self.utilization_reports.len()
            + self.new_applications.iter().map(application).sum::<usize>()
            + self.remove_applications.len()
    }

    fn rm_id(&self) -> &str {
        &self.rm_id
    }
}

impl Lists for si::RegisterResourceManagerRequest {
    fn n_items(&self) -> usize {
        0
    }

    fn rm_id(&self) -> &str {
        &self.rm_id
    }
}

impl Lists for si::UpdateConfigurationRequest {
    fn n_items(&self) -> usize {
        0
    }

    fn rm_id(&self) -> &str {
        &self.rm_id
    }
}

impl Lists for v1::UtilizationReports {
    fn n_items(&self) -> usize {
        self.reports.len()
    }
}

impl Lists for v1::ShimMessage {
    fn n_items(&self) -> usize {
        match &self.body {
            Some(Body::PredicateResults(results)) => {
                results.results.iter().map(|result| 1 + result.failures.len()).sum()
            }
            Some(Body::PreemptionResults(results)) => results.results.len(),
            Some(Body::CacheSyncAck(ack)) => ack.failures.len(),
            _ => 0,
        }
    }
}

fn application(new: &si::AddApplicationRequest) -> usize {
    let groups = new.task_groups.iter();
    1 + groups.map(|group| 1 + group.constraint.as_ref().map_or(0, constraint)).sum::<usize>()
}

fn constraint(constraint_of: &si::PlacementConstraint) -> usize {
    match &constraint_of.constraint {
        None => 0,
        Some(Constraint::SimpleConstraint(simple)) => {
            let node = simple.node_affinity_constraint.iter();
            let near = simple.allocation_affinity_attribute.iter();
            node.map(|node| node.target_expressions.len()).sum::<usize>()
                + near.map(|near| near.target_expressions.len()).sum::<usize>()
        }
        Some(Constraint::CompositeConstraint(composite)) => {
            let children = composite.child_constraints.iter().map(|child| 1 + constraint(child));
            let timed = composite.timed_child_constraints.iter();
            let timed =
                timed.map(|timed| 1 + timed.placement_constraint.as_ref().map_or(0, constraint));
            children.sum::<usize>() + timed.sum::<usize>()
        }
    }
}

fn ask(ask: &legacy::AllocationAsk) -> usize {
    use legacy::placement_constraint::Constraint::SimpleConstraint;
    let constraint = ask.placement_constraint.as_ref().and_then(|it| it.constraint.as_ref());
    let Some(SimpleConstraint(simple)) = constraint else { return 1 };
    let node = simple.node_affinity_constraint.iter();
    let near = simple.allocation_affinity_attribute.iter();
    1 + node.map(|node| node.target_expressions.len()).sum::<usize>()
        + near.map(|near| near.traget_expressions.len()).sum::<usize>()
}

/// The items of a request, and the number of items that need no answer and are not counted.
pub(crate) struct Named {
    pub(crate) items: Vec<Item>,
    /// Releases of asks that confirm a timeout.
    confirmations: usize,
}

fn first_of<'a>(names: &[&'a str]) -> &'a str {
    names.iter().find(|name| !name.is_empty()).copied().unwrap_or_default()
}

fn is_known(partition: &str) -> bool {
    let is = |known: &&str| partition == *known || partition == format!("[{RM}]{known}");
    partition.is_empty() || PARTITIONS.iter().any(is)
}

/// The items of a request for asks, allocations and releases.
pub(crate) fn of_allocations(request: &si::AllocationRequest) -> Named {
    let allocations = request.allocations.iter();
    let allocations = allocations.map(|it| (List::Allocations, it.allocation_key.clone()));
    let asks = request.asks.iter().map(|it| (List::Asks, it.allocation_key.clone()));
    let mut items: Vec<Item> = allocations.chain(asks).collect();
    let mut confirmations = 0;
    if let Some(releases) = &request.releases {
        let timeout = i32::from(si::TerminationType::Timeout);
        for release in &releases.allocation_asks_to_release {
            items.push((List::AskReleases, release.allocation_key.clone()));
            let confirms = release.termination_type == timeout && is_known(&release.partition_name);
            confirmations += usize::from(confirms);
        }
        for release in &releases.allocations_to_release {
            let (key, uuid) =
                (&*release.allocation_key, first_of(&[&release.uuid, &release.allocation_id]));
            // A release without an application is of a foreign allocation, which has no UUID of its
            // own.
            let is_foreign = release.application_id.is_empty();
            let name = if is_foreign { first_of(&[key, uuid]) } else { first_of(&[uuid, key]) };
            items.push((List::Releases, name.to_owned()));
        }
    }
    Named { items, confirmations }
}

/// The items of a request for applications.
pub(crate) fn of_applications(request: &si::ApplicationRequest) -> Named {
    let new = request.new.iter().map(|it| (List::Applications, it.application_id.clone()));
    let removed = request.remove.iter().map(|it| (List::Removals, it.application_id.clone()));
    Named { items: new.chain(removed).collect(), confirmations: 0 }
}

/// The items of a request for nodes.
pub(crate) fn of_nodes(request: &si::NodeRequest) -> Named {
    let nodes = request.nodes.iter().map(|it| (List::Nodes, it.node_id.clone()));
    Named { items: nodes.collect(), confirmations: 0 }
}

impl Named {
    /// Checks that every item has one outcome, and each rejected item a reason and a code. `bytes`
    /// is the size of the request.
    pub(crate) fn check(mut self, outcomes: Outcomes, is_strict: bool, bytes: usize) {
        let n_items = self.items.len();
        let mut said = 0;
        for ((list, _), reason) in &outcomes.refused {
            assert!(reason.ends_with(']') && reason.contains(" ["), "{list:?}: {reason}");
            said += reason.len();
        }
        assert!(said <= 4 * bytes + 512 * n_items, "{said} bytes of reasons for {bytes}");
        let refused = outcomes.refused.into_iter().map(|(item, _)| item);
        let mut named: Vec<Item> = outcomes.taken.into_iter().chain(refused).collect();
        named.sort_unstable();
        self.items.sort_unstable();
        let mut named = named.into_iter().peekable();
        let mut unnamed = Vec::new();
        for item in self.items {
            match named.next_if_eq(&item) {
                Some(_) => {}
                None => unnamed.push(item.0),
            }
        }
        assert_eq!(named.next(), None, "an outcome of what was not there, or a second one");
        let is_outcome = |reason: &&Ignored| is_strict || **reason != Ignored::TerminationType;
        let ignored = outcomes.ignored.iter().filter(is_outcome).count();
        assert_eq!(unnamed.len(), ignored + self.confirmations, "{:?}", outcomes.ignored);
        for list in unnamed {
            let may_be_ignored =
                !matches!(list, List::Asks | List::Allocations | List::Applications);
            assert!(may_be_ignored, "of {list:?} one was ignored");
        }
    }
}
