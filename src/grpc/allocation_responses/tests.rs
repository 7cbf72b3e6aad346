//! Queued allocation responses equal the scheduler's messages after every encoding, join and cut.

use std::sync::{Arc, Mutex};

use monoceros_actors::{AllocationNotices, NewAllocation, ResourceManagerCallback, Scheduler};
use proptest::prelude::*;

use super::*;
use crate::grpc::outbox::Bounds;
use crate::grpc::session::backlog::Load;

/// A callback that records every notification twice: as message and as queued response.
#[derive(Default)]
struct Both(Mutex<Vec<[si::AllocationResponse; 2]>>);

impl ResourceManagerCallback for Both {
    fn update_allocation(&self, _: si::AllocationResponse) {
        unreachable!("it takes what is told itself");
    }

    fn allocations(&self, told: AllocationNotices<'_>) {
        let new = told.new_allocations().map(NewAllocation::message).collect();
        let message = si::AllocationResponse { new, ..told.others().clone() };
        let said = QueuedAllocations::of(told).into_message();
        self.0.lock().unwrap().push([message, said]);
    }

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {}
}

fn amount(amounts: &[(&str, i64)]) -> si::Resource {
    let resources = amounts.iter().map(|&(name, value)| (name.to_owned(), si::Quantity { value }));
    si::Resource { resources: resources.collect() }
}

/// Lets the scheduler send notifications of every kind to the callback: new allocations for asks,
/// for allocations of the present form, with one or several resources, and a release.
pub(in crate::grpc) async fn notify(callback: Arc<impl ResourceManagerCallback>) {
    let scheduler = Scheduler::builder().start().unwrap();
    let rm_id = "rm".to_owned();
    let registration = si::RegisterResourceManagerRequest {
        rm_id: rm_id.clone(),
        config: "partitions: [{name: blue, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
            .to_owned(),
        ..Default::default()
    };
    scheduler.register_resource_manager(registration, callback).await.unwrap();
    let partition_name = "[rm]blue".to_owned();
    let node = si::NodeInfo {
        node_id: "n1".to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        attributes: [("si/node-partition".to_owned(), "[rm]blue".to_owned())].into(),
        schedulable_resource: Some(amount(&[("vcore", 1_000), ("memory", 1_000), ("gpu", 8)])),
        ..Default::default()
    };
    let nodes = si::NodeRequest { nodes: vec![node], rm_id: rm_id.clone(), ..Default::default() };
    scheduler.update_node(nodes).await.unwrap();
    let new = ["app", "b"].map(|id| si::AddApplicationRequest {
        application_id: id.to_owned(),
        queue_name: "root.a".to_owned(),
        partition_name: partition_name.clone(),
        ugi: Some(si::UserGroupInformation { user: "u".to_owned(), groups: vec![] }),
        ..Default::default()
    });
    let new = new.to_vec();
    let request = si::ApplicationRequest { new, rm_id: rm_id.clone(), ..Default::default() };
    scheduler.update_application(request).await.unwrap();
    // Alternates the kinds: a field of one must not leak into the next.
    let amounts: [&[(&str, i64)]; 3] =
        [&[("vcore", 1), ("memory", 2)], &[("memory", 3)], &[("gpu", 1), ("memory", 4)]];
    let asks = (0..8_u32).map(|number| si::AllocationAsk {
        allocation_key: format!("ask-{number}"),
        application_id: if number % 2 == 0 { "app" } else { "b" }.to_owned(),
        partition_name: partition_name.clone(),
        resource_ask: Some(amount(amounts[number as usize % 3])),
        max_allocations: 1,
        priority: i32::try_from(number).unwrap(),
        tags: (0..number % 3).map(|tag| (format!("tag{tag}"), "x".repeat(9))).collect(),
        task_group_name: "workers".repeat(usize::from(number > 5)),
        placeholder: number > 5,
        preemption_policy: (number == 4).then_some(si::PreemptionPolicy {
            allow_preempt_self: true,
            allow_preempt_other: true,
        }),
        ..Default::default()
    });
    let asks = asks.collect();
    let allocations = (0..8_usize).map(|number| si::Allocation {
        allocation_key: format!("pod-{number}"),
        application_id: if number % 3 == 0 { "app" } else { "b" }.to_owned(),
        partition_name: partition_name.clone(),
        resource_per_alloc: Some(amount(amounts[number % 3])),
        originator: number == 1,
        priority: 5,
        preemption_policy: (number == 2).then(si::PreemptionPolicy::default),
        ..Default::default()
    });
    let allocations = allocations.collect();
    let request =
        si::AllocationRequest { asks, allocations, rm_id: rm_id.clone(), ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
    scheduler.settle().await;
    let release = si::AllocationRelease {
        partition_name,
        application_id: "app".to_owned(),
        allocation_key: "pod-0".to_owned(),
        termination_type: si::TerminationType::StoppedByRm.into(),
        ..Default::default()
    };
    let releases = si::AllocationReleasesRequest {
        allocations_to_release: vec![release],
        ..Default::default()
    };
    let releases = Some(releases);
    let request = si::AllocationRequest { releases, rm_id, ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
    scheduler.settle().await;
    scheduler.shutdown().await;
}

#[tokio::test]
async fn bytes_equal_those_of_the_message() {
    let both = Arc::new(Both::default());
    notify(Arc::clone(&both)).await;
    let told = both.0.lock().unwrap().clone();
    let new = told.iter().flat_map(|[_, said]| &said.new);
    let mut keys: Vec<_> = new.map(|new| new.allocation_key.clone()).collect();
    keys.sort();
    let mut expected: Vec<_> = (0..8).map(|number| format!("ask-{number}")).collect();
    expected.extend((0..8).map(|number| format!("pod-{number}")));
    assert_eq!(keys, expected);
    assert!(told.iter().any(|[_, said]| !said.released.is_empty()));
    for [message, said] in told {
        assert_eq!(said, message);
    }
}

fn messages() -> impl Strategy<Value = si::AllocationResponse> {
    let keys = || proptest::collection::vec("[a-c]{0,40}", 0..4);
    (keys(), keys(), keys()).prop_map(|(new, released, rejected)| {
        let allocation = |key: String| si::Allocation { allocation_key: key, ..Default::default() };
        let release =
            |key: String| si::AllocationRelease { allocation_key: key, ..Default::default() };
        let refusal =
            |key: String| si::RejectedAllocation { allocation_key: key, ..Default::default() };
        si::AllocationResponse {
            new: new.into_iter().map(allocation).collect(),
            released: released.into_iter().map(release).collect(),
            rejected_allocations: rejected.into_iter().map(refusal).collect(),
            ..Default::default()
        }
    })
}

/// Joins the items of all messages in one message.
fn joined(messages: impl IntoIterator<Item = si::AllocationResponse>) -> si::AllocationResponse {
    let mut all = si::AllocationResponse::default();
    for message in messages {
        all.new.extend(message.new);
        all.released.extend(message.released);
        all.rejected_allocations.extend(message.rejected_allocations);
    }
    all
}

proptest! {
    #[test]
    fn joining_and_cutting_preserve_content(
        messages in proptest::collection::vec(messages(), 1..5),
        chunk_items in 1_usize..6,
        chunk_bytes in 20_usize..200,
    ) {
        let expected = joined(messages.clone());
        let mut said = QueuedAllocations::default();
        for message in messages {
            said.append(message.into());
        }
        let bytes = said.encode_to_vec();
        prop_assert_eq!(bytes.len(), said.encoded_len());
        prop_assert_eq!(&si::AllocationResponse::decode(&*bytes).unwrap(), &expected);
        prop_assert_eq!(&QueuedAllocations::decode(&*bytes).unwrap().into_message(), &expected);
        let named: Vec<_> = said.new_allocations().map(|(_, key)| key).collect();
        prop_assert!(named.iter().eq(expected.new.iter().map(|new| &new.allocation_key)));
        let bounds = Bounds {
            chunk_items,
            chunk_bytes,
            outbox: Load { items: 1_000, bytes: 100_000 },
            grace: std::time::Duration::ZERO,
            resyncs: false,
        };
        let mut cutter = Cutter::new(bounds);
        said.cut(&mut cutter);
        let chunks = cutter.finish();
        for chunk in &chunks {
            let items: usize = chunk.lengths().iter().sum();
            prop_assert!(items <= chunk_items);
            prop_assert!(items == 1 || chunk.encoded_len() <= chunk_bytes);
        }
        prop_assert_eq!(joined(chunks.into_iter().map(QueuedAllocations::into_message)), expected);
    }
}

#[test]
fn a_long_first_item_reserves_little_for_the_others() {
    let mut items = EncodedItems::default();
    let (short, long) = ("x".repeat(100), "x".repeat(2 << 20));
    items.add(short.as_bytes(), [short.len()]);
    items.reserve(255);
    assert!(items.bytes.capacity() >= 256 * 100, "{}", items.bytes.capacity());

    let mut items = EncodedItems::default();
    items.add(long.as_bytes(), [long.len()]);
    let before = items.bytes.capacity();
    items.reserve(255);
    let reserved = items.bytes.capacity() - before;
    assert!(reserved <= RESERVED_BYTES, "{reserved} bytes");
    items.add(short.as_bytes(), [short.len()]);
    assert_eq!(items.ranges().last(), Some(long.len()..long.len() + short.len()));
}
