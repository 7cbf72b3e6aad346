//! Messages of a resource manager, with defaults for fields that a test does not need.

use monoceros_proto::si::v1 as si;

/// Two leaves under root. Applications must name one of them.
pub const QUEUES: &str = r#"
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
          - name: b
"#;

/// Makes a registration with its own queues.
pub fn registration(id: &str, queues: &str) -> si::RegisterResourceManagerRequest {
    si::RegisterResourceManagerRequest {
        rm_id: id.to_owned(),
        version: "test".to_owned(),
        policy_group: "queues".to_owned(),
        config: queues.to_owned(),
        ..Default::default()
    }
}

/// Makes an amount of thousandths of a core and gigabytes.
pub fn resource(vcore: i64, gigabytes: i64) -> si::Resource {
    amount(&[("vcore", vcore), ("memory", gigabytes.saturating_mul(1_000_000_000))])
}

/// Makes an amount from names.
pub fn amount(quantities: &[(&str, i64)]) -> si::Resource {
    let resources = quantities.iter();
    let resources =
        resources.map(|(name, value)| ((*name).to_owned(), si::Quantity { value: *value }));
    si::Resource { resources: resources.collect() }
}

/// Makes a new node, open for allocations.
pub fn node(id: &str, vcore: i64, gigabytes: i64) -> si::NodeInfo {
    si::NodeInfo {
        node_id: id.to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        schedulable_resource: Some(resource(vcore, gigabytes)),
        ..Default::default()
    }
}

/// Makes an application of user `alice`.
pub fn application(id: &str, queue: &str) -> si::AddApplicationRequest {
    let ugi = si::UserGroupInformation { user: "alice".to_owned(), groups: vec!["dev".to_owned()] };
    si::AddApplicationRequest {
        application_id: id.to_owned(),
        queue_name: queue.to_owned(),
        partition_name: "default".to_owned(),
        ugi: Some(ugi),
        ..Default::default()
    }
}

/// Makes a request for one container of 1 core and 1 GB.
pub fn ask(application: &str, key: &str) -> si::Allocation {
    si::Allocation {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        partition_name: "default".to_owned(),
        resource_per_alloc: Some(resource(1_000, 1)),
        ..Default::default()
    }
}

/// Makes the same request in the form of older RMs.
pub fn old_ask(application: &str, key: &str, n: i32) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        partition_name: "default".to_owned(),
        resource_ask: Some(resource(1_000, 1)),
        max_allocations: n,
        ..Default::default()
    }
}

pub fn release(application: &str, key: &str) -> si::AllocationRelease {
    si::AllocationRelease {
        application_id: application.to_owned(),
        allocation_key: key.to_owned(),
        partition_name: "default".to_owned(),
        termination_type: si::TerminationType::StoppedByRm.into(),
        ..Default::default()
    }
}
