//! The present dialect over three streams, without numbers. Each part of a report is sent when the
//! part before is answered; nodes are closed until the allocations on them are known.

use monoceros_proto::si::v1 as si;
use si::node_info::ActionFromRm as Action;
use tonic::Status;

use super::rm::{APPLICATION, CAPACITY, NODES, Orders, Running, SIZE, TestRm};
use super::stock::{Client, Conversation, of_applications, of_nodes, queue, reject};

pub(super) async fn open(
    rm: &TestRm,
    mut client: Client,
    conversation: &Conversation,
    running: Running,
) -> Result<(), Status> {
    let (to_nodes, nodes) = queue();
    let (to_applications, applications) = queue();
    let (to_allocations, allocations) = queue();
    let rm_id = || rm.id().to_owned();
    let change = |action| {
        let nodes = NODES.iter().map(|id| node(id, action)).collect();
        si::NodeRequest { nodes, rm_id: rm_id(), ..Default::default() }
    };
    // The first message of a stream tells whose it is.
    to_nodes.send(change(Action::CreateDrain)).unwrap();
    to_applications.send(si::ApplicationRequest { rm_id: rm_id(), ..Default::default() }).unwrap();
    to_allocations.send(si::AllocationRequest { rm_id: rm_id(), ..Default::default() }).unwrap();
    let replies = client.update_node(nodes).await?;
    conversation.follow(rm, replies, to_nodes.clone(), |rm, conversation, reply| {
        conversation.accepted(reply.accepted.len(), 0);
        reject(rm, conversation.session, of_nodes(reply.rejected));
    });
    let replies = client.update_application(applications).await?;
    conversation.follow(rm, replies, to_applications.clone(), |rm, conversation, reply| {
        conversation.accepted(0, reply.accepted.len());
        reject(rm, conversation.session, of_applications(reply.rejected));
    });
    let replies = client.update_allocation(allocations).await?;
    conversation.follow(rm, replies, to_allocations.clone(), receive);

    conversation.until(rm, || conversation.n_nodes() >= NODES.len()).await?;
    let new = vec![si::AddApplicationRequest::new(APPLICATION, "ada").in_queue("root.a")];
    // Streams that have ended are noticed below.
    let _ = to_applications.send(si::ApplicationRequest { new, ..Default::default() });
    conversation.until(rm, || conversation.n_applications() >= 1).await?;
    let reported = running.iter().map(|(key, (node, _))| ask(key).running_on(node));
    let allocations = reported.collect();
    let _ = to_allocations.send(si::AllocationRequest { allocations, ..Default::default() });
    conversation.until(rm, || rm.is_answered()).await?;
    let _ = to_nodes.send(change(Action::DrainToSchedulable));
    let send = move |orders: Orders| {
        let _ = to_allocations.send(requests(&orders));
    };
    rm.begin_asks(conversation.session, Box::new(send));
    Ok(())
}

fn receive(rm: &TestRm, conversation: &Conversation, reply: si::AllocationResponse) {
    let session = conversation.session;
    for new in reply.new {
        rm.placed(session, new.allocation_key, new.node_id, String::new());
    }
    for released in reply.released {
        rm.released(session, &released.allocation_key, released.message);
    }
    let rejected = reply.rejected_allocations.into_iter();
    reject(rm, session, rejected.map(|it| (it.allocation_key, it.reason)));
}

fn requests(orders: &Orders) -> si::AllocationRequest {
    let release = |(key, _): &(String, String)| si::AllocationRelease::new(APPLICATION, key);
    let releases = si::AllocationReleasesRequest {
        allocations_to_release: orders.releases.iter().map(release).collect(),
        ..Default::default()
    };
    si::AllocationRequest {
        allocations: orders.asks.iter().map(|key| ask(key)).collect(),
        releases: Some(releases),
        ..Default::default()
    }
}

fn ask(key: &str) -> si::Allocation {
    si::Allocation::ask(APPLICATION, key, [("vcore", SIZE)])
}

fn node(id: &str, action: Action) -> si::NodeInfo {
    match action {
        Action::CreateDrain => {
            let new = si::NodeInfo::new(id, [("vcore", CAPACITY)]);
            si::NodeInfo { action: action.into(), ..new }
        }
        action => si::NodeInfo::change(id, action),
    }
}
