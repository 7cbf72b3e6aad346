//! The resource manager speaks the oldest dialect: one stream, without numbers. When it breaks, the
//! manager registers again and reports its belief, since it cannot know which messages arrived.

use std::net::SocketAddr;
use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::belief::{Answer, Belief, Order, Shared};
use crate::harness::{amount, application, registration};

/// The open stream, if there is one. It changes only while the belief is locked, so that each
/// request is sent either on a stream or in the report of the next one.
pub(crate) type Outgoing = Option<mpsc::UnboundedSender<legacy::UpdateRequest>>;

/// The secret by which a member of a cluster recognises the resource manager.
const PROOF: &str = "the secret of this process";

/// Receives in a task of its own. After an end it goes to the next address.
pub(crate) fn start(addresses: Vec<SocketAddr>, queues: &str, belief: &Shared) {
    let (queues, shared) = (queues.to_owned(), belief.clone());
    tokio::spawn(async move {
        for address in addresses.iter().cycle() {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
            if let Ok(channel) = endpoint.connect().await {
                // The conversation starts again, however it ended.
                let _ = converse(SchedulerClient::new(channel), &queues, &shared).await;
                shared.get().outgoing = None;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// Sends a message. Without a stream, it is part of the next report.
pub(crate) fn send(orders: &[Order], belief: &Belief) {
    if let Some(outgoing) = &belief.outgoing {
        for order in orders {
            // The stream may have broken just now.
            let _ = outgoing.send(request(order, belief));
        }
    }
}

async fn converse(
    mut client: SchedulerClient<Channel>,
    queues: &str,
    shared: &Shared,
) -> Result<(), tonic::Status> {
    let mut request = Request::new(registration("rm", queues));
    request.metadata_mut().insert("x-si-proof", PROOF.parse().unwrap());
    client.register_resource_manager(request).await?;
    let (outgoing, requests) = mpsc::unbounded_channel();
    {
        let mut belief = shared.get();
        belief.begin_session();
        for part in report(&belief) {
            outgoing.send(part).unwrap();
        }
        belief.outgoing = Some(outgoing);
    }
    let mut request = Request::new(UnboundedReceiverStream::new(requests));
    request.metadata_mut().insert("x-si-rm-id", "rm".parse().unwrap());
    let mut replies = client.update(request).await?.into_inner();
    while let Some(reply) = replies.message().await? {
        receive(reply, &mut shared.get());
    }
    Ok(())
}

fn receive(reply: legacy::UpdateResponse, belief: &mut Belief) {
    for rejected in reply.rejected_nodes {
        belief.receive(Answer::NodeRejected { id: rejected.node_id, why: rejected.reason });
    }
    for rejected in reply.rejected_applications {
        let (id, why) = (rejected.application_id, rejected.reason);
        belief.receive(Answer::ApplicationRejected { id, why });
    }
    for placed in reply.new_allocations {
        let (key, application) = (placed.allocation_key, placed.application_id);
        let (node, uuid) = (placed.node_id, placed.uuid);
        let answer = Answer::Placed {
            key: key.clone(),
            application: application.clone(),
            node,
            uuid: uuid.clone(),
        };
        belief.receive(answer);
        // A request that was withdrawn and placed at the same time needs a release.
        if belief.is_ending(&application, &key)
            && let Some(outgoing) = &belief.outgoing
        {
            let _ = outgoing.send(request(&Order::Release { application, key, uuid }, belief));
        }
    }
    for released in reply.released_allocations {
        match belief.key_of(&released.uuid) {
            Some(key) => belief.receive(Answer::Released { key, why: released.message }),
            None => belief.fault(format!("`{}` is released, and nobody's", released.uuid)),
        }
    }
    for released in reply.released_allocation_asks {
        let (key, why) = (released.allocationkey, released.message);
        belief.receive(Answer::Released { key, why });
    }
    for rejected in reply.rejected_allocations {
        let (key, why) = (rejected.allocation_key, rejected.reason);
        belief.receive(Answer::Rejected { key, why });
    }
}

fn request(order: &Order, belief: &Belief) -> legacy::UpdateRequest {
    use legacy::update_node_info::ActionFromRm;
    let mut request = legacy::UpdateRequest { rm_id: "rm".to_owned(), ..Default::default() };
    match order {
        Order::NodeComes { id, capacity } => {
            request.new_schedulable_nodes.push(node(id, *capacity));
        }
        Order::NodeOpens { id, open } => {
            let action = match open {
                true => ActionFromRm::DrainToSchedulable,
                false => ActionFromRm::DrainNode,
            };
            request.updated_nodes.push(change(id, action));
        }
        Order::NodeGoes { id } => {
            request.updated_nodes.push(change(id, ActionFromRm::Decomission));
        }
        // Foreign allocations are reported as a sum.
        Order::Foreign { node, .. } => {
            let sum = belief.nodes.get(node).map_or(0, |node| node.foreign.values().sum());
            let occupied_resource = Some(amount(&[("vcore", sum)]));
            let change = change(node, ActionFromRm::Update);
            request.updated_nodes.push(legacy::UpdateNodeInfo { occupied_resource, ..change });
        }
        Order::ApplicationComes { id, queue } => {
            request.new_applications.push(application(id, queue));
        }
        Order::ApplicationGoes { id } => {
            request.remove_applications.push(si::RemoveApplicationRequest {
                application_id: id.clone(),
                partition_name: "default".to_owned(),
            });
        }
        Order::Ask { application, key, size } => request.asks.push(ask(application, key, *size)),
        Order::Release { application, uuid, .. } => {
            let release = legacy::AllocationRelease {
                application_id: application.clone(),
                uuid: uuid.clone(),
                ..Default::default()
            };
            let releases = request.releases.get_or_insert_default();
            releases.allocations_to_release.push(release);
        }
        Order::Withdraw { application, key } => {
            let release = legacy::AllocationAskRelease {
                application_id: application.clone(),
                allocationkey: key.clone(),
                ..Default::default()
            };
            let releases = request.releases.get_or_insert_default();
            releases.allocation_asks_to_release.push(release);
        }
    }
    request
}

/// Reports everything to a scheduler without state: applications, nodes with their allocations, and
/// pending requests.
fn report(belief: &Belief) -> [legacy::UpdateRequest; 3] {
    let part = || legacy::UpdateRequest { rm_id: "rm".to_owned(), ..Default::default() };
    let (mut applications, mut nodes, mut wanted) = (part(), part(), part());
    for (id, known) in &belief.applications {
        applications.new_applications.push(application(id, &known.queue));
        let waiting =
            known.requests.iter().filter(|(_, known_request)| known_request.placed.is_none());
        wanted.asks.extend(waiting.map(|(key, known_request)| ask(id, key, known_request.size)));
    }
    for (id, known) in &belief.nodes {
        let occupied = known.foreign.values().sum();
        nodes.new_schedulable_nodes.push(legacy::NewNodeInfo {
            occupied_resource: Some(amount(&[("vcore", occupied)])),
            existing_allocations: existing(id, belief),
            ..node(id, known.capacity)
        });
        if !known.is_open {
            let action = legacy::update_node_info::ActionFromRm::DrainNode;
            wanted.updated_nodes.push(change(id, action));
        }
    }
    [applications, nodes, wanted]
}

fn existing(node: &str, belief: &Belief) -> Vec<legacy::Allocation> {
    let mut existing = Vec::new();
    for (id, application) in &belief.applications {
        for (key, known_request) in &application.requests {
            let Some(place) = known_request.placed.as_ref().filter(|place| place.node == node)
            else {
                continue;
            };
            existing.push(legacy::Allocation {
                allocation_key: key.clone(),
                application_id: id.clone(),
                uuid: place.uuid.clone(),
                node_id: node.to_owned(),
                queue_name: application.queue.clone(),
                resource_per_alloc: Some(amount(&[("vcore", known_request.size)])),
                ..Default::default()
            });
        }
    }
    existing
}

fn node(id: &str, capacity: i64) -> legacy::NewNodeInfo {
    legacy::NewNodeInfo {
        node_id: id.to_owned(),
        schedulable_resource: Some(amount(&[("vcore", capacity)])),
        ..Default::default()
    }
}

fn change(id: &str, action: legacy::update_node_info::ActionFromRm) -> legacy::UpdateNodeInfo {
    legacy::UpdateNodeInfo { node_id: id.to_owned(), action: action.into(), ..Default::default() }
}

fn ask(application: &str, key: &str, size: i64) -> legacy::AllocationAsk {
    legacy::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        resource_ask: Some(amount(&[("vcore", size)])),
        max_allocations: 1,
        ..Default::default()
    }
}
