//! Golden bytes: every message of every revision, encoded by that revision's own encoder.
//!
//! The bytes in `tests/golden/*.hex` come from the protobuf project's own compiler and runtime
//! (`tests/golden/generate.py`), with the definitions in this folder. Here they are compared with
//! the same message built from the same definitions by another implementation, and decoded into the
//! structs of the service: every field must arrive under its name.

use expect_test::expect;
use monoceros::grpc::stubs;
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage as _, Value,
};

use super::client::{Client, Revision, series_reaches};
use crate::harness::Service;

/// The value of a field by the rule of `generate.py`.
fn value_of(field: &FieldDescriptor, kind: &Kind, above: &[String], arm: usize) -> Value {
    let number = i32::try_from(field.number()).unwrap();
    match kind {
        Kind::Message(message) => Value::Message(filled(message, above, arm)),
        Kind::Enum(values) => {
            // `generate.py` uses the one declared last.
            let last = values.values().last().unwrap();
            Value::EnumNumber(last.number())
        }
        Kind::String => Value::String(field.name().to_owned()),
        Kind::Bool => Value::Bool(true),
        Kind::Int32 => Value::I32(-1000 * number),
        Kind::Int64 => Value::I64(1000 * i64::from(number)),
        other => panic!("no revision has a field of kind {other:?}"),
    }
}

/// A message with every field set, by the same rule.
fn filled(message: &MessageDescriptor, above: &[String], arm: usize) -> DynamicMessage {
    let mut result = DynamicMessage::new(message.clone());
    let above = [above, &[message.full_name().to_owned()]].concat();
    for field in message.fields() {
        if let Some(oneof) = field.containing_oneof() {
            let arms: Vec<_> = oneof.fields().collect();
            if arms[arm.min(arms.len() - 1)] != field {
                continue;
            }
        }
        let kind = field.kind();
        let value = match &kind {
            Kind::Message(entry) if entry.is_map_entry() => {
                let inner = entry.map_entry_value_field();
                let value = value_of(&inner, &inner.kind(), &above, arm);
                Value::Map([(MapKey::String("key".to_owned()), value)].into())
            }
            Kind::Message(inner) if above.iter().any(|name| name == inner.full_name()) => continue,
            kind if field.is_list() => Value::List(vec![value_of(&field, kind, &above, arm)]),
            kind => value_of(&field, kind, &above, arm),
        };
        result.set_field(&field, value);
    }
    result
}

/// Decodes and encodes with the service's struct of this message.
type Pass = fn(&[u8]) -> Vec<u8>;

fn pass<M: Message + Default>(bytes: &[u8]) -> Vec<u8> {
    M::decode(bytes).unwrap().encode_to_vec()
}

macro_rules! passes {
    ($package:ident, $name:expr; $($message:ident)*) => {
        match $name { $(stringify!($message) => Some(pass::<$package::$message> as Pass),)* _ => None }
    };
}

/// The struct of the legacy dialect, for its own messages.
fn legacy_struct(name: &str) -> Option<Pass> {
    passes!(legacy, name; UpdateRequest UpdateResponse AllocationAsk Allocation Priority
        AllocationReleasesRequest AllocationRelease AllocationAskRelease NewNodeInfo UpdateNodeInfo
        PlacementConstraint SimplePlacementConstraint NodeAffinityConstraints
        AllocationAffinityConstraints AffinityTargetExpression)
}

/// The struct of all dialects.
fn shared_struct(name: &str) -> Option<Pass> {
    // Rust spells the first two words of one name differently.
    passes!(si, name; Resource Quantity UserGroupInformation AcceptedApplication
        RejectedApplication UpdatedApplication AcceptedNode RejectedNode RemoveApplicationRequest
        RegisterResourceManagerRequest RegisterResourceManagerResponse PredicatesArgs
        AddApplicationRequest AllocationRequest AllocationResponse ApplicationRequest
        ApplicationResponse NodeRequest NodeResponse NodeInfo PreemptionPolicy AllocationAsk
        Allocation AllocationReleasesRequest AllocationRelease AllocationAskRelease
        RejectedAllocationAsk RejectedAllocation PreemptionPredicatesArgs
        PreemptionPredicatesResponse UpdateContainerSchedulingStateRequest
        UpdateConfigurationRequest UpdateConfigurationResponse EventRecord
        ReSyncSchedulerCacheArgs AssumedAllocation ForgotAllocation UtilizationReport
        NodeRecommendation AutoScalingMetrics OutstandingResourceRequest)
}

/// The present name of a field of a revision.
fn today(name: &str) -> &str {
    match name {
        "applicartionID" => "applicationID",
        name => name,
    }
}

/// Messages of the oldest revision whose enums have other numbers and which no call carries: they
/// are used only on the callback stream, with the present numbers.
fn is_renumbered(revision: &str, message: &str) -> bool {
    revision == "l" && ["EventRecord", "UpdateContainerSchedulingStateRequest"].contains(&message)
}

/// Checks that every field of `theirs` is in `ours` under its name with its value.
fn compare(theirs: &DynamicMessage, ours: &DynamicMessage, place: &str) {
    for (field, value) in theirs.fields() {
        let place = format!("{place}.{}", field.name());
        let same = ours.descriptor().get_field_by_name(today(field.name()));
        let same = same.unwrap_or_else(|| panic!("{place} is not known"));
        compare_values(&field.kind(), value, &same.kind(), &ours.get_field(&same), &place);
    }
    assert_eq!(ours.unknown_fields().count(), 0, "{place}");
}

fn compare_values(kind: &Kind, theirs: &Value, our_kind: &Kind, ours: &Value, place: &str) {
    match (theirs, ours) {
        (Value::Message(theirs), Value::Message(ours)) => compare(theirs, ours, place),
        (Value::List(theirs), Value::List(ours)) => {
            assert_eq!(theirs.len(), ours.len(), "{place}");
            for (their, our) in theirs.iter().zip(ours) {
                compare_values(kind, their, our_kind, our, place);
            }
        }
        (Value::Map(theirs), Value::Map(ours)) => {
            let (Kind::Message(entry), Kind::Message(our_entry)) = (kind, our_kind) else {
                panic!("{place}: a map is a list of messages");
            };
            let value = entry.map_entry_value_field().kind();
            let our_value = our_entry.map_entry_value_field().kind();
            assert_eq!(theirs.len(), ours.len(), "{place}");
            for (key, their) in theirs {
                compare_values(&value, their, &our_value, &ours[key], place);
            }
        }
        (Value::EnumNumber(their), Value::EnumNumber(our)) => {
            let (Kind::Enum(values), Kind::Enum(our_values)) = (kind, our_kind) else {
                panic!("{place}: an enumeration");
            };
            let name = values.get_value(*their).unwrap().name().to_owned();
            let our_name = our_values.get_value(*our).unwrap().name().to_owned();
            assert_eq!(name, our_name, "{place}");
        }
        _ => assert_eq!(theirs, ours, "{place}"),
    }
}

fn check(name: &str, fixtures: &str) {
    let revision = Revision::new(name);
    let today = DescriptorPool::decode(stubs::DESCRIPTORS).unwrap();
    let mut seen = Vec::new();
    for line in fixtures.lines() {
        let (title, hex) = line.split_once(' ').unwrap_or((line, ""));
        let (message, arm) = title.split_once('#').unwrap_or((title, "0"));
        let theirs = filled(&revision.message(message), &[], arm.parse().unwrap());
        assert_eq!(encoded(&theirs), hex, "{name}: {title}: another encoder of the same fields");
        seen.push(message.to_owned());

        let own = legacy_struct(message).filter(|_| name == "l");
        let package = if own.is_some() { "monoceros.si.legacy.v0" } else { "monoceros.si.v1" };
        let pass = own.or_else(|| shared_struct(message));
        let pass = pass.unwrap_or_else(|| panic!("{name}: {message} has no struct"));
        let bytes = pass(&theirs.encode_to_vec());
        assert_eq!(hex_of(&bytes), hex, "{name}: {title}: our struct");
        if !is_renumbered(name, message) {
            let ours = today.get_message_by_name(&format!("{package}.{message}")).unwrap();
            let ours = DynamicMessage::decode(ours, &*bytes).unwrap();
            compare(&theirs, &ours, message);
        }
    }
    for message in revision.messages() {
        assert!(seen.iter().any(|name| name == message.name()), "{name}: {}", message.name());
    }
}

/// Encodes like `generate.py`: fields in the order of their numbers.
fn encoded(message: &DynamicMessage) -> String {
    hex_of(&message.encode_to_vec())
}

fn hex_of(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The bytes of a message of a revision.
fn fixture(fixtures: &str, message: &str) -> Vec<u8> {
    let line = fixtures.lines().find_map(|line| line.strip_prefix(&format!("{message} "))).unwrap();
    let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
    (0..line.len()).step_by(2).map(byte).collect()
}

const L: &str = include_str!("../../golden/l.hex");
const M: &str = include_str!("../../golden/m.hex");
const N: &str = include_str!("../../golden/n.hex");
const T: &str = include_str!("../../golden/t.hex");

#[test]
fn every_field_of_every_revision_arrives() {
    for (name, fixtures) in [("l", L), ("m", M), ("n", N), ("t", T)] {
        check(name, fixtures);
    }
}

/// The replies to the requests of a revision: stream, request, and the lists that are filled.
type Answers = &'static [(&'static str, &'static str, &'static [&'static str])];

const L_ANSWERS: Answers = &[(
    "Update",
    "UpdateRequest",
    &["rejectedAllocations", "rejectedApplications", "rejectedNodes"],
)];
const M_ANSWERS: Answers = &[
    ("UpdateAllocation", "AllocationRequest", &["rejected"]),
    ("UpdateApplication", "ApplicationRequest", &["rejected"]),
    // A change of an unknown node, which is counted.
    ("UpdateNode", "NodeRequest", &[]),
];
const N_ANSWERS: Answers = &[
    ("UpdateAllocation", "AllocationRequest", &["rejected", "rejectedAllocations"]),
    ("UpdateApplication", "ApplicationRequest", &["rejected"]),
    ("UpdateNode", "NodeRequest", &["rejected"]),
];
const T_ANSWERS: Answers = &[
    ("UpdateAllocation", "AllocationRequest", &["rejectedAllocations"]),
    ("UpdateApplication", "ApplicationRequest", &["rejected"]),
    ("UpdateNode", "NodeRequest", &["accepted"]),
];

/// Every list is filled, mostly with items about unknown objects: the replies repeat the names, and
/// show which value was read.
#[tokio::test]
async fn replies_use_the_client_revision() {
    let mut told = Vec::new();
    for (name, fixtures, answers) in
        [("l", L, L_ANSWERS), ("m", M, M_ANSWERS), ("n", N, N_ANSWERS), ("t", T, T_ANSWERS)]
    {
        let service = Service::start();
        let mut rm = Client::connect(&service, &Revision::new(name), "rmID").await;
        let registration = fixture(fixtures, "RegisterResourceManagerRequest");
        match rm.register_bytes(registration).await {
            Ok(_) => told.push(format!("{name} registers")),
            Err(status) => told.push(format!("{name} {}", status.message())),
        }
        rm.register_again().await;
        for (method, request, lists) in answers {
            rm.open(method).await;
            rm.send_bytes(method, fixture(fixtures, request)).await;
            for list in *lists {
                let text = rm.last_text(method, list, 1).await;
                told.push(format!("{name} {method} {list}: {text}"));
            }
        }
        if name == "m" {
            let reason = "G_NODE_UNKNOWN";
            let series = format!(
                r#"monoceros_si_ignored_total{{dialect="split",reason="{reason}",rm="rmID"}}"#
            );
            series_reaches(&service, &series, 1).await;
        }
    }
    expect![[r#"
        l registers
        l Update rejectedAllocations: allocationKey:"allocationKey",applicationID:"applicationID",reason:"allocation `allocationKey`: Failed to find partition `partitionName` [R_PARTITION_UNKNOWN]"
        l Update rejectedApplications: applicationID:"applicationID",reason:"application `applicationID`: partition doesn\'t exist: `partitionName` [R_PARTITION_UNKNOWN]"
        l Update rejectedNodes: nodeID:"nodeID",reason:"failed to find application `applicationID` [R_APP_UNKNOWN]"
        m line 1, column 1: the configuration has to be a mapping with keys, not `config` [E_CONF_PARSE]
        m UpdateAllocation rejected: allocationKey:"allocationKey",applicationID:"applicationID",reason:"allocation `allocationKey`: Failed to find partition `partitionName` [R_PARTITION_UNKNOWN]"
        m UpdateApplication rejected: applicationID:"applicationID",reason:"application `applicationID`: partition doesn\'t exist: `partitionName` [R_PARTITION_UNKNOWN]"
        n line 1, column 1: the configuration has to be a mapping with keys, not `config` [E_CONF_PARSE]
        n UpdateAllocation rejected: allocationKey:"allocationKey",applicationID:"applicationID",reason:"allocation `allocationKey`: Failed to find partition `partitionName` [R_PARTITION_UNKNOWN]"
        n UpdateAllocation rejectedAllocations: allocationKey:"allocationKey",applicationID:"applicationID",reason:"allocation `allocationKey`: Failed to find partition `partitionName` [R_PARTITION_UNKNOWN]"
        n UpdateApplication rejected: applicationID:"applicationID",reason:"application `applicationID`: partition doesn\'t exist: `partitionName` [R_PARTITION_UNKNOWN]"
        n UpdateNode rejected: nodeID:"nodeID",reason:"failed to find application `applicationID` [R_APP_UNKNOWN]"
        t line 1, column 1: the configuration has to be a mapping with keys, not `config` [E_CONF_PARSE]
        t UpdateAllocation rejectedAllocations: allocationKey:"allocationKey",applicationID:"applicationID",reason:"allocation `allocationKey`: Failed to find partition `partitionName` [R_PARTITION_UNKNOWN]"
        t UpdateApplication rejected: applicationID:"applicationID",reason:"application `applicationID`: partition doesn\'t exist: `partitionName` [R_PARTITION_UNKNOWN]"
        t UpdateNode accepted: nodeID:"nodeID""#]].assert_eq(&told.join("\n"));
}

fn tags(key: &str, value: &str) -> std::collections::BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

fn one_resource() -> si::Resource {
    let quantity = si::Quantity { value: 1000 };
    si::Resource { resources: [("key".to_owned(), quantity)].into() }
}

#[test]
fn legacy_ask_decodes_into_its_own_struct() {
    let ask = legacy::AllocationAsk::decode(&*fixture(L, "AllocationAsk")).unwrap();
    let expression = legacy::AffinityTargetExpression {
        target_operator: None,
        target_key: "targetKey".to_owned(),
        target_values: vec!["targetValues".to_owned()],
    };
    let simple = legacy::SimplePlacementConstraint {
        node_affinity_constraint: Some(legacy::NodeAffinityConstraints {
            target_expressions: vec![expression.clone()],
        }),
        allocation_affinity_attribute: Some(legacy::AllocationAffinityConstraints {
            scope: "scope".to_owned(),
            traget_expressions: vec![expression],
            min_cardinality: -3000,
            max_cardinality: -4000,
            required: true,
        }),
    };
    let expected = legacy::AllocationAsk {
        allocation_key: "allocationKey".to_owned(),
        application_id: "applicationID".to_owned(),
        partition_name: "partitionName".to_owned(),
        resource_ask: Some(one_resource()),
        max_allocations: -5000,
        priority: Some(legacy::Priority {
            priority: Some(legacy::priority::Priority::PriorityValue(-1000)),
        }),
        execution_timeout_milli_seconds: 7000,
        tags: tags("key", "value"),
        placement_constraint: Some(legacy::PlacementConstraint {
            constraint: Some(legacy::placement_constraint::Constraint::SimpleConstraint(simple)),
        }),
        task_group_name: "taskGroupName".to_owned(),
        placeholder: true,
    };
    assert_eq!(ask, expected);
}

#[test]
fn later_asks_decode_into_the_common_struct() {
    for fixtures in [M, N] {
        let ask = si::AllocationAsk::decode(&*fixture(fixtures, "AllocationAsk")).unwrap();
        let expected = si::AllocationAsk {
            allocation_key: "allocationKey".to_owned(),
            application_id: "applicationID".to_owned(),
            partition_name: "partitionName".to_owned(),
            resource_ask: Some(one_resource()),
            max_allocations: -5000,
            priority: -6000,
            execution_timeout_milli_seconds: 7000,
            tags: tags("key", "value"),
            task_group_name: "taskGroupName".to_owned(),
            placeholder: true,
            originator: true,
            preemption_policy: Some(si::PreemptionPolicy {
                allow_preempt_self: true,
                allow_preempt_other: true,
            }),
            placement_constraint: None,
        };
        assert_eq!(ask, expected);
    }
}

#[test]
fn same_bytes_differ_in_the_legacy_dialect() {
    let bytes = fixture(M, "AllocationRelease");
    let later = si::AllocationRelease::decode(&*bytes).unwrap();
    assert_eq!(later.termination_type(), si::TerminationType::PlaceholderReplaced);
    let bytes = fixture(L, "AllocationRelease");
    let oldest = legacy::AllocationRelease::decode(&*bytes).unwrap();
    assert_eq!(
        oldest.termination_type(),
        legacy::allocation_release::TerminationType::PlaceholderReplaced
    );
    assert_eq!(oldest.termination_type + 1, later.termination_type);
}

#[test]
fn clients_skip_unknown_fields() {
    let response = si::AllocationResponse {
        new: vec![si::Allocation {
            allocation_key: "k".to_owned(),
            uuid: "u".to_owned(),
            allocation_id: "u".to_owned(),
            originator: true,
            ..si::Allocation::default()
        }],
        rejected_allocations: vec![si::RejectedAllocation::default()],
        seq: 7,
        ..si::AllocationResponse::default()
    };
    let bytes = response.encode_to_vec();
    for name in ["m", "n", "t"] {
        let message = Revision::new(name).message("AllocationResponse");
        let read = DynamicMessage::decode(message, &*bytes).unwrap();
        let new = read.get_field_by_name("new").unwrap().into_owned();
        let key = new.as_list().unwrap()[0].as_message().unwrap().clone();
        assert_eq!(key.get_field_by_name("allocationKey").unwrap().as_str(), Some("k"));
        assert!(read.unknown_fields().count() > 0, "{name}: seq at least");
    }
}
