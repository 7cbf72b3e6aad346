//! Seeds of each kind of message: the golden bytes of every revision, and messages that have an
//! effect in the fuzzed session.

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use monoceros_proto::v1::shim_message::Body;
use prost::Message;

use super::targets::Kind;

const GOLDEN: [&str; 4] = [
    include_str!("../../golden/l.hex"),
    include_str!("../../golden/m.hex"),
    include_str!("../../golden/n.hex"),
    include_str!("../../golden/t.hex"),
];

/// Queue configurations that together use every key.
pub(crate) const CONFIGURATIONS: [&str; 3] = [
    include_str!("../../../config/queues.yaml"),
    include_str!("../../../src/demo/queues.yaml"),
    r#"
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4.0, memory: 1.0}}
    preemption: {enabled: yes, quotapreemptionenabled: false}
    usergroupresolver: {type: os}
    placementrules:
      - name: provided
        filter: {type: deny, users: [root], groups: ["^guest"]}
      - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.eng, create: true}}
      - {name: user, create: true, parent: {name: fixed, value: people, create: true}}
    limits:
      - {limit: each, users: ["*"], maxresources: {vcore: 50, memory: 200Gi}, maxapplications: 20}
    queues:
      - name: root
        submitacl: "*"
        adminacl: "ada ops"
        queues:
          - name: eng
            parent: true
            maxapplications: 10
            childtemplate:
              maxapplications: 2
              properties: {application.sort.policy: fair}
              resources: {guaranteed: {vcore: 1}, max: {vcore: 20, memory: 600G}}
            resources: {guaranteed: {vcore: 500m}, max: {vcore: "30", pods: 1k}}
            limits:
              - {limit: some, users: [bob, ada], groups: [ops], maxapplications: 5}
              - {limit: others, users: ["*"], groups: ["*"], maxresources: {vcore: 10}}
          - name: people
            parent: true
            properties:
              priority.policy: fence
              priority.offset: "-5"
              preemption.policy: disabled
              preemption.delay: 1m30s
              quota.preemption.delay: 10s
              application.unschedasks.backoff: "3"
              application.unschedasks.backoff.delay: 5s
  - {name: gpu, queues: [{name: root, queues: [{name: a}, {name: b}]}]}
"#,
];

/// Number of operators' calls that the fuzz targets choose from.
const ADMIN_CALLS: u8 = 17;

const APPLICATION: &str = "applicationID";
const KEY: &str = "allocationKey";
const NODE: &str = "nodeID";

/// Returns the seeds of one kind.
pub(crate) fn of(kind: Kind) -> Vec<Vec<u8>> {
    match kind {
        Kind::Allocation => [golden("AllocationRequest"), encoded(&allocations())].concat(),
        Kind::Application => [golden("ApplicationRequest"), encoded(&applications())].concat(),
        Kind::Node => [golden("NodeRequest"), encoded(&nodes())].concat(),
        Kind::Update => [golden("UpdateRequest"), encoded(&[update()])].concat(),
        Kind::Register => {
            [golden("RegisterResourceManagerRequest"), encoded(&[registration()])].concat()
        }
        Kind::Callback => encoded(&answers()),
        Kind::Greeting => [encoded(&greetings()), encoded(&answers())].concat(),
        Kind::Admin => {
            let message = [
                golden("UpdateConfigurationRequest"),
                encoded(&[configuration()]),
                encoded(&[reports()]),
            ];
            let calls = (0..ADMIN_CALLS).flat_map(|call| {
                let messages = message.concat().into_iter();
                messages.map(move |message| [&[call], &message[..]].concat())
            });
            calls.collect()
        }
    }
}

/// Returns the golden bytes of a message, of every revision that has it.
fn golden(message: &str) -> Vec<Vec<u8>> {
    let lines = GOLDEN.iter().flat_map(|fixtures| fixtures.lines());
    let hex = lines.filter_map(|line| line.strip_prefix(&format!("{message} ")));
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let mut all: Vec<Vec<u8>> =
        hex.map(|hex| (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect()).collect();
    all.sort();
    all.dedup();
    assert!(!all.is_empty(), "{message}");
    all
}

fn encoded<M: Message>(messages: &[M]) -> Vec<Vec<u8>> {
    messages.iter().map(Message::encode_to_vec).collect()
}

fn amount(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

fn allocations() -> Vec<si::AllocationRequest> {
    let ask = si::AllocationAsk {
        allocation_key: "many".to_owned(),
        application_id: APPLICATION.to_owned(),
        resource_ask: Some(amount(100)),
        max_allocations: 3,
        execution_timeout_milli_seconds: 1,
        ..Default::default()
    };
    let allocation = |key: &str, node: &str| si::Allocation {
        allocation_key: key.to_owned(),
        application_id: APPLICATION.to_owned(),
        node_id: node.to_owned(),
        resource_per_alloc: Some(amount(500)),
        ..Default::default()
    };
    let foreign = si::Allocation {
        application_id: String::new(),
        allocation_tags: [("foreign".to_owned(), "default".to_owned())].into(),
        ..allocation("foreign", NODE)
    };
    let release = |key: &str, termination_type| si::AllocationRelease {
        application_id: APPLICATION.to_owned(),
        allocation_key: key.to_owned(),
        termination_type,
        ..Default::default()
    };
    let asked = si::AllocationRequest {
        asks: vec![ask],
        allocations: vec![allocation("new", ""), allocation("found", NODE), foreign],
        ..Default::default()
    };
    let released = (0..=5).map(|termination_type| si::AllocationRequest {
        releases: Some(si::AllocationReleasesRequest {
            allocations_to_release: vec![
                release(KEY, termination_type),
                release("waits", termination_type),
                release("", termination_type),
            ],
            allocation_asks_to_release: vec![si::AllocationAskRelease {
                application_id: APPLICATION.to_owned(),
                ..Default::default()
            }],
        }),
        ..asked.clone()
    });
    released.collect()
}

fn applications() -> Vec<si::ApplicationRequest> {
    let new = si::AddApplicationRequest {
        application_id: "new".to_owned(),
        queue_name: "root.a".to_owned(),
        ugi: Some(si::UserGroupInformation { user: "user".to_owned(), groups: vec![] }),
        tags: [("application.create.force".to_owned(), "true".to_owned())].into(),
        ..Default::default()
    };
    let remove = si::RemoveApplicationRequest {
        application_id: APPLICATION.to_owned(),
        ..Default::default()
    };
    vec![si::ApplicationRequest { new: vec![new], remove: vec![remove], ..Default::default() }]
}

fn nodes() -> Vec<si::NodeRequest> {
    let node = |action| si::NodeInfo {
        node_id: NODE.to_owned(),
        action,
        schedulable_resource: Some(amount(1_000 * i64::from(action))),
        occupied_resource: Some(amount(100)),
        ..Default::default()
    };
    let existing = si::Allocation {
        allocation_key: "found".to_owned(),
        application_id: APPLICATION.to_owned(),
        resource_per_alloc: Some(amount(500)),
        ..Default::default()
    };
    let mut requests: Vec<_> = (1..=6)
        .map(|action| si::NodeRequest { nodes: vec![node(action)], ..Default::default() })
        .collect();
    let again = si::NodeInfo { existing_allocations: vec![existing], ..node(1) };
    requests.push(si::NodeRequest { nodes: vec![node(4), again], ..Default::default() });
    requests
}

fn update() -> legacy::UpdateRequest {
    let priority = legacy::priority::Priority::PriorityClassName("high".to_owned());
    let ask = legacy::AllocationAsk {
        allocation_key: "new".to_owned(),
        application_id: APPLICATION.to_owned(),
        resource_ask: Some(amount(100)),
        max_allocations: 2,
        priority: Some(legacy::Priority { priority: Some(priority) }),
        ..Default::default()
    };
    let node = legacy::NewNodeInfo {
        node_id: "new".to_owned(),
        schedulable_resource: Some(amount(2_000)),
        existing_allocations: vec![legacy::Allocation {
            allocation_key: "found".to_owned(),
            application_id: APPLICATION.to_owned(),
            resource_per_alloc: Some(amount(100)),
            ..Default::default()
        }],
        ..Default::default()
    };
    let changed = (0..=3).map(|action| legacy::UpdateNodeInfo {
        node_id: NODE.to_owned(),
        action,
        ..Default::default()
    });
    let releases = legacy::AllocationReleasesRequest {
        allocations_to_release: vec![legacy::AllocationRelease {
            application_id: APPLICATION.to_owned(),
            uuid: KEY.to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    legacy::UpdateRequest {
        asks: vec![ask],
        releases: Some(releases),
        new_schedulable_nodes: vec![node],
        updated_nodes: changed.collect(),
        new_applications: applications().remove(0).new,
        utilization_reports: vec![si::UtilizationReport {
            id: NODE.to_owned(),
            actual_used_resource: Some(amount(50)),
        }],
        ..Default::default()
    }
}

fn registration() -> si::RegisterResourceManagerRequest {
    si::RegisterResourceManagerRequest {
        rm_id: "rmID".to_owned(),
        config: include_str!("../../../config/queues.yaml").to_owned(),
        ..Default::default()
    }
}

fn configuration() -> si::UpdateConfigurationRequest {
    si::UpdateConfigurationRequest {
        rm_id: "rmID".to_owned(),
        config: include_str!("../../../config/queues.yaml").to_owned(),
        ..Default::default()
    }
}

/// A message whose first field is the name of the RM, as in most calls.
fn reports() -> v1::UtilizationReports {
    let report = |id: &str, value| si::UtilizationReport {
        id: id.to_owned(),
        actual_used_resource: Some(amount(value)),
    };
    v1::UtilizationReports {
        rm_id: "rmID".to_owned(),
        reports: vec![report(NODE, 50), report("nobody", 50), report(NODE, -1)],
        ..Default::default()
    }
}

/// First messages.
fn greetings() -> Vec<v1::ShimMessage> {
    let hello = |rm_id: &str, capabilities: &[i32]| v1::Hello {
        rm_id: rm_id.to_owned(),
        capabilities: capabilities.to_vec(),
        ..Default::default()
    };
    let hellos = [
        hello("rmID", &[1, 2, 3, 4, 5, 6, 7]),
        hello("rmID", &[-1, 0, 77, 1, 1]),
        hello("", &[1]),
        hello("nobody", &[1]),
    ];
    let bodies = hellos.into_iter().map(|hello| Some(Body::Hello(hello)));
    bodies.map(|body| v1::ShimMessage { body }).collect()
}

/// Each kind of message of a shim after its first message.
fn answers() -> Vec<v1::ShimMessage> {
    let result = v1::PredicateResult {
        query_id: 1,
        outcome: v1::Outcome::Evaluated.into(),
        evaluated: 1,
        pass_bitmap: vec![1],
        elsewhere: Some(v1::Elsewhere { depends_on: vec![1], affects: vec![2] }),
        ..Default::default()
    };
    let bodies = [
        Body::PredicateResults(v1::PredicateResults {
            batch_id: 1,
            last: true,
            results: vec![result],
            ..Default::default()
        }),
        Body::PreemptionResults(v1::PreemptionResults { batch_id: 1, ..Default::default() }),
        Body::StateDump(v1::StateDumpChunk {
            request_id: 1,
            last: true,
            data: b"{}".to_vec(),
            ..Default::default()
        }),
        Body::CacheSyncAck(v1::CacheSyncAck {
            cache_seq: 1,
            failures: vec![v1::CacheSyncFailure {
                allocation_key: KEY.to_owned(),
                application_id: APPLICATION.to_owned(),
                ..Default::default()
            }],
        }),
        Body::Invalidate(v1::Invalidate {
            node_ids: vec![NODE.to_owned()],
            allocation_keys: vec![KEY.to_owned()],
            all: true,
        }),
        Body::EventCredit(v1::EventCredit { add: 10, ack_seq: 1 }),
        Body::Heartbeat(v1::Heartbeat { nonce: 1, reply: true, ..Default::default() }),
        Body::ConfigSave(v1::ConfigSaveResult { request_id: 1, ..Default::default() }),
        Body::Goodbye(v1::Goodbye::default()),
        Body::Hello(v1::Hello { rm_id: "rmID".to_owned(), ..Default::default() }),
    ];
    bodies.into_iter().map(|body| v1::ShimMessage { body: Some(body) }).collect()
}
