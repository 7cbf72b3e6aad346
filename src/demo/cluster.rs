//! The machines of the demo, and the messages about its containers.
//!
//! Forty nodes of two sizes in four racks: enough for visible differences, few enough to be read.

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;

/// Nodes of 16 cores and 64 GiB.
const SMALL_NODES: u64 = 24;
/// Nodes of 48 cores and 192 GiB.
const LARGE_NODES: u64 = 16;
/// Number of nodes.
pub const NODES: u64 = SMALL_NODES + LARGE_NODES;
/// Number of cores.
pub const CORES: u64 = SMALL_NODES * 16 + LARGE_NODES * 48;

const GIB: u64 = 1 << 30;

/// Returns the name of a node.
pub fn node_name(number: u64) -> String {
    format!("demo-node-{:02}", number + 1)
}

/// Makes a new node, open for allocations.
pub fn node(number: u64) -> si::NodeInfo {
    let (cores, gib) = if number < SMALL_NODES { (16, 64) } else { (48, 192) };
    let rack = format!("/rack-{}", number % 4 + 1);
    let attributes = [("si/hostname", node_name(number)), ("si/rackname", rack)];
    si::NodeInfo {
        schedulable_resource: Some(amount(cores, gib)),
        attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        ..action(node_name(number), ActionFromRm::Create)
    }
}

/// Makes an action on an existing node.
pub fn action(node_id: String, action: ActionFromRm) -> si::NodeInfo {
    si::NodeInfo { node_id, action: action.into(), ..Default::default() }
}

/// Converts cores and GiB of memory to the units of the interface.
pub fn amount(cores: u64, gib: u64) -> si::Resource {
    let quantity = |value: u64| si::Quantity { value: value.cast_signed() };
    let resources = [("vcore", quantity(cores * 1_000)), ("memory", quantity(gib * GIB))];
    si::Resource { resources: resources.map(|(name, value)| (name.to_owned(), value)).into() }
}

/// Makes the release of a container, or the confirmation of one.
pub fn release(id: &str, key: &str, cause: TerminationType) -> si::AllocationRelease {
    si::AllocationRelease {
        application_id: id.to_owned(),
        allocation_key: key.to_owned(),
        partition_name: "default".to_owned(),
        termination_type: cause.into(),
        ..Default::default()
    }
}
