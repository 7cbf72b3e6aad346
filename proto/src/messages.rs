//! Making messages: a constructor with what a message cannot do without, and a method for each part
//! that many need. Whatever else a message has is a field, to be set by name.
//!
//! Units are those of the interface. Where a name carries its unit (`cores`, `gibibytes`), it is
//! converted; what does not fit into 64 bits is as much as fits.

use crate::si::v1::node_info::ActionFromRm;
use crate::si::v1::{
    AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest,
    AllocationRequest, ApplicationRequest, NodeInfo, NodeRequest, Quantity,
    RegisterResourceManagerRequest, RemoveApplicationRequest, Resource, TaskGroup, TerminationType,
    UserGroupInformation,
};

impl Resource {
    /// With this many cores.
    #[must_use]
    pub fn cores(self, cores: i64) -> Self {
        self.with("vcore", cores.saturating_mul(1_000))
    }

    /// With this many GiB of memory.
    #[must_use]
    pub fn gibibytes(self, gibibytes: i64) -> Self {
        self.with("memory", gibibytes.saturating_mul(1 << 30))
    }

    /// With so much of a resource, in its own unit: `vcore` in thousandths of a core, `memory` in
    /// bytes, any other in the one that its nodes report.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: i64) -> Self {
        self.resources.insert(name.into(), Quantity { value });
        self
    }
}

impl<const N: usize> From<[(&str, i64); N]> for Resource {
    /// Each in its own unit, as with [`Resource::with`].
    fn from(amounts: [(&str, i64); N]) -> Self {
        amounts.into_iter().fold(Self::default(), |sum, (name, value)| sum.with(name, value))
    }
}

impl RegisterResourceManagerRequest {
    /// A resource manager that takes the queues that the scheduler has for it.
    pub fn new(rm_id: impl Into<String>) -> Self {
        Self { rm_id: rm_id.into(), ..Self::default() }
    }

    /// With queues of its own (YAML).
    #[must_use]
    pub fn with_queues(mut self, yaml: impl Into<String>) -> Self {
        self.config = yaml.into();
        self
    }
}

impl NodeInfo {
    /// A new node, open for allocations.
    pub fn new(id: impl Into<String>, capacity: impl Into<Resource>) -> Self {
        let created = Self::change(id, ActionFromRm::Create);
        Self { schedulable_resource: Some(capacity.into()), ..created }
    }

    /// What happens to a node that is there: it drains, opens again, goes.
    pub fn change(id: impl Into<String>, action: ActionFromRm) -> Self {
        Self { node_id: id.into(), action: action.into(), ..Self::default() }
    }

    /// With an attribute, such as `si/node-partition` or what constraints look at.
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(key.into(), value.into());
        self
    }
}

impl AddApplicationRequest {
    /// An application of a user, whose groups the scheduler finds out. Placement rules choose its
    /// queue.
    pub fn new(id: impl Into<String>, user: impl Into<String>) -> Self {
        let ugi = Some(UserGroupInformation { user: user.into(), groups: Vec::new() });
        Self { application_id: id.into(), ugi, ..Self::default() }
    }

    /// Wants this queue, where placement rules let it choose.
    #[must_use]
    pub fn in_queue(mut self, queue: impl Into<String>) -> Self {
        self.queue_name = queue.into();
        self
    }

    /// Its user is in this group; with one given, none is looked up.
    #[must_use]
    pub fn with_group(mut self, group: impl Into<String>) -> Self {
        self.ugi.get_or_insert_default().groups.push(group.into());
        self
    }

    /// With a tag, such as `namespace`.
    #[must_use]
    pub fn with_tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Starts only when this group of members can, and each other that it has.
    #[must_use]
    pub fn with_task_group(mut self, group: TaskGroup) -> Self {
        self.task_groups.push(group);
        self
    }
}

impl TaskGroup {
    /// Needs this many members at once. Nothing is held for them: they start when all have
    /// asked, unless [`Self::member`] says what one of them is.
    pub fn new(name: impl Into<String>, min_members: i32) -> Self {
        Self { name: name.into(), min_members, ..Self::default() }
    }
}

impl RemoveApplicationRequest {
    /// The end of an application, with everything that it has.
    pub fn new(id: impl Into<String>) -> Self {
        Self { application_id: id.into(), ..Self::default() }
    }
}

impl Allocation {
    /// A request of an application for one container. The key names it within the application.
    pub fn ask(
        application: impl Into<String>,
        key: impl Into<String>,
        size: impl Into<Resource>,
    ) -> Self {
        Self {
            application_id: application.into(),
            allocation_key: key.into(),
            resource_per_alloc: Some(size.into()),
            ..Self::default()
        }
    }

    /// Runs on this node already: not a request.
    #[must_use]
    pub fn running_on(mut self, node: impl Into<String>) -> Self {
        self.node_id = node.into();
        self
    }

    /// Higher goes first; 0 unless set.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// With a tag, such as those that constraints look at.
    #[must_use]
    pub fn with_tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.allocation_tags.insert(key.into(), value.into());
        self
    }

    /// Is a member of this task group of its application.
    #[must_use]
    pub fn in_task_group(mut self, name: impl Into<String>) -> Self {
        self.task_group_name = name.into();
        self
    }
}

impl AllocationRelease {
    /// The resource manager ends it, or withdraws the request.
    pub fn new(application: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            application_id: application.into(),
            allocation_key: key.into(),
            termination_type: TerminationType::StoppedByRm.into(),
            ..Self::default()
        }
    }
}

impl NodeRequest {
    /// Nodes of a resource manager that come, change or go.
    pub fn report(rm_id: impl Into<String>, nodes: impl Into<Vec<NodeInfo>>) -> Self {
        Self { rm_id: rm_id.into(), nodes: nodes.into(), ..Self::default() }
    }
}

impl ApplicationRequest {
    /// Applications that start.
    pub fn submit(
        rm_id: impl Into<String>,
        applications: impl Into<Vec<AddApplicationRequest>>,
    ) -> Self {
        Self { rm_id: rm_id.into(), new: applications.into(), ..Self::default() }
    }

    /// Applications that end.
    pub fn remove(
        rm_id: impl Into<String>,
        applications: impl Into<Vec<RemoveApplicationRequest>>,
    ) -> Self {
        Self { rm_id: rm_id.into(), remove: applications.into(), ..Self::default() }
    }
}

impl AllocationRequest {
    /// Requests, and what runs already.
    pub fn ask(rm_id: impl Into<String>, allocations: impl Into<Vec<Allocation>>) -> Self {
        Self { rm_id: rm_id.into(), allocations: allocations.into(), ..Self::default() }
    }

    /// Allocations and requests that end.
    pub fn release(rm_id: impl Into<String>, releases: impl Into<Vec<AllocationRelease>>) -> Self {
        let releases = AllocationReleasesRequest {
            allocations_to_release: releases.into(),
            ..AllocationReleasesRequest::default()
        };
        Self { rm_id: rm_id.into(), releases: Some(releases), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_units_of_the_interface() {
        let machine = Resource::default().cores(4).gibibytes(2).with("gpu", 1);
        assert_eq!(machine, [("vcore", 4_000), ("memory", 2_147_483_648), ("gpu", 1)].into());
        let most = Resource::default().cores(i64::MAX).gibibytes(i64::MIN);
        assert_eq!(most, [("vcore", i64::MAX), ("memory", i64::MIN)].into());
    }

    #[test]
    fn a_node_is_created_with_its_capacity_and_changed_without_one() {
        let node = NodeInfo::new("n1", [("vcore", 1)]).with_attribute("zone", "a");
        assert_eq!((node.action(), &*node.node_id), (ActionFromRm::Create, "n1"));
        assert_eq!(node.schedulable_resource, Some([("vcore", 1)].into()));
        assert_eq!(node.attributes["zone"], "a");
        let drained = NodeInfo::change("n1", ActionFromRm::DrainNode);
        assert_eq!(
            (drained.action(), drained.schedulable_resource),
            (ActionFromRm::DrainNode, None)
        );
    }

    #[test]
    fn an_application_has_a_user_and_what_is_added() {
        let group = TaskGroup::new("workers", 4);
        let plain = AddApplicationRequest::new("app", "ada");
        assert_eq!(plain.ugi.as_ref().map(|ugi| &*ugi.user), Some("ada"));
        let application = plain
            .in_queue("root.a")
            .with_group("staff")
            .with_tag("namespace", "lab")
            .with_task_group(group.clone());
        assert_eq!(application.queue_name, "root.a");
        let ugi = application.ugi.unwrap();
        assert_eq!((&*ugi.user, &*ugi.groups), ("ada", &["staff".to_owned()][..]));
        assert_eq!(
            (&*application.tags["namespace"], application.task_groups),
            ("lab", vec![group])
        );
    }

    #[test]
    fn what_runs_is_a_request_with_a_node() {
        let ask = Allocation::ask("app", "k", [("vcore", 1)]).with_priority(3);
        assert_eq!((&*ask.node_id, ask.priority), ("", 3));
        let ask = ask.with_tag("role", "db").in_task_group("workers");
        assert_eq!((&*ask.allocation_tags["role"], &*ask.task_group_name), ("db", "workers"));
        assert_eq!(ask.running_on("n1").node_id, "n1");
    }

    #[test]
    fn requests_say_whose_they_are() {
        let nodes = NodeRequest::report("rm", [NodeInfo::new("n", [])]);
        assert_eq!((&*nodes.rm_id, nodes.nodes.len()), ("rm", 1));
        let new = ApplicationRequest::submit("rm", [AddApplicationRequest::new("a", "u")]);
        assert_eq!((&*new.rm_id, new.new.len(), new.remove.len()), ("rm", 1, 0));
        let gone = ApplicationRequest::remove("rm", [RemoveApplicationRequest::new("a")]);
        assert_eq!((&*gone.remove[0].application_id, gone.new.len()), ("a", 0));
        let asks = AllocationRequest::ask("rm", [Allocation::ask("a", "k", [])]);
        assert_eq!((asks.allocations.len(), asks.releases), (1, None));
        let ended = AllocationRequest::release("rm", [AllocationRelease::new("a", "k")]);
        let releases = ended.releases.unwrap().allocations_to_release;
        assert_eq!(releases[0].termination_type(), TerminationType::StoppedByRm);
        let registration = RegisterResourceManagerRequest::new("rm").with_queues("partitions: []");
        assert_eq!((&*registration.rm_id, &*registration.config), ("rm", "partitions: []"));
    }
}
