//! The oldest dialect: one stream, without numbers.

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use tonic::{Request, Status};

use super::rm::{APPLICATION, CAPACITY, NODES, Orders, Running, SIZE, TestRm};
use super::stock::{Client, Conversation, of_applications, of_nodes, queue, reject};
use crate::harness::amount;

pub(super) async fn open(
    rm: &TestRm,
    mut client: Client,
    conversation: &Conversation,
    running: Running,
) -> Result<(), Status> {
    let (sender, requests) = queue();
    for part in report(rm, &running) {
        sender.send(part).unwrap();
    }
    let mut request = Request::new(requests);
    request.metadata_mut().insert("x-si-rm-id", rm.id().parse().unwrap());
    let replies = client.update(request).await?;
    conversation.follow(rm, replies, sender.clone(), receive);
    let send = move |orders| {
        // A stream that has ended is noticed by its reader.
        let _ = sender.send(request_of(orders));
    };
    rm.begin_asks(conversation.session, Box::new(send));
    Ok(())
}

fn receive(rm: &TestRm, conversation: &Conversation, reply: legacy::UpdateResponse) {
    let session = conversation.session;
    for new in reply.new_allocations {
        rm.placed(session, new.allocation_key, new.node_id, new.uuid);
    }
    for released in reply.released_allocations {
        rm.released_uuid(session, &released.uuid, released.message);
    }
    for released in reply.released_allocation_asks {
        rm.released(session, &released.allocationkey, released.message);
    }
    let rejected = reply.rejected_allocations.into_iter();
    reject(rm, session, rejected.map(|it| (it.allocation_key, it.reason)));
    reject(rm, session, of_nodes(reply.rejected_nodes));
    reject(rm, session, of_applications(reply.rejected_applications));
}

fn request_of(orders: Orders) -> legacy::UpdateRequest {
    let ask = |key| legacy::AllocationAsk {
        allocation_key: key,
        application_id: APPLICATION.to_owned(),
        resource_ask: Some(amount(&[("vcore", SIZE)])),
        max_allocations: 1,
        ..Default::default()
    };
    let release = |(_, uuid)| legacy::AllocationRelease {
        application_id: APPLICATION.to_owned(),
        uuid,
        ..Default::default()
    };
    let releases = legacy::AllocationReleasesRequest {
        allocations_to_release: orders.releases.into_iter().map(release).collect(),
        ..Default::default()
    };
    legacy::UpdateRequest {
        asks: orders.asks.into_iter().map(ask).collect(),
        releases: Some(releases),
        ..Default::default()
    }
}

/// The application, and the nodes with their allocations.
fn report(rm: &TestRm, running: &Running) -> [legacy::UpdateRequest; 2] {
    let part = || legacy::UpdateRequest { rm_id: rm.id().to_owned(), ..Default::default() };
    let application = si::AddApplicationRequest::new(APPLICATION, "ada").in_queue("root.a");
    let nodes = NODES.iter().map(|id| legacy::NewNodeInfo {
        node_id: (*id).to_owned(),
        schedulable_resource: Some(amount(&[("vcore", CAPACITY)])),
        existing_allocations: existing(id, running),
        ..Default::default()
    });
    [
        legacy::UpdateRequest { new_applications: vec![application], ..part() },
        legacy::UpdateRequest { new_schedulable_nodes: nodes.collect(), ..part() },
    ]
}

fn existing(id: &str, running: &Running) -> Vec<legacy::Allocation> {
    let on_node = running.iter().filter(|(_, (node, _))| node == id);
    let existing = on_node.map(|(key, (node, uuid))| legacy::Allocation {
        allocation_key: key.clone(),
        application_id: APPLICATION.to_owned(),
        uuid: uuid.clone(),
        node_id: node.clone(),
        queue_name: "root.a".to_owned(),
        resource_per_alloc: Some(amount(&[("vcore", SIZE)])),
        ..Default::default()
    });
    existing.collect()
}
