//! The resource manager uses the present dialect over three streams, numbered and acknowledged,
//! with the client library of this repository.

use std::net::SocketAddr;
use std::time::Duration;

use backon::ExponentialBuilder;
use monoceros_client::{Client, Event, Events, Options, Report, si};
use si::node_info::ActionFromRm;
use tonic::transport::Endpoint;

use crate::belief::{Answer, Belief, Order, Shared};

/// Sends, and receives in a task of its own.
pub(crate) struct Today(Client);

impl Today {
    pub(crate) fn start(addresses: &[SocketAddr], queues: &str, belief: &Shared) -> Self {
        let endpoint = |address| Endpoint::from_shared(format!("http://{address}")).unwrap();
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(10))
            .with_max_delay(Duration::from_millis(100))
            .without_max_times();
        let options = Options::new(endpoint(&addresses[0]), "rm").queues(queues).pauses(pauses);
        let others = addresses[1..].iter();
        let options = others.fold(options, |options, it| options.endpoint(endpoint(it)));
        let known = belief.clone();
        let state = move || {
            let mut belief = known.get();
            belief.begin_session();
            report(&belief)
        };
        let (client, events) = Client::start(options, state);
        tokio::spawn(receive(events, belief.clone()));
        Self(client)
    }

    pub(crate) async fn send(&self, orders: &[Order]) {
        for order in orders {
            let sent = match order {
                Order::NodeComes { id, capacity } => {
                    let new = node(id, *capacity, ActionFromRm::Create);
                    self.0.report(vec![new]).await
                }
                Order::NodeOpens { id, open } => {
                    let action = match open {
                        true => ActionFromRm::DrainToSchedulable,
                        false => ActionFromRm::DrainNode,
                    };
                    self.0.report(vec![si::NodeInfo::change(id, action)]).await
                }
                Order::NodeGoes { id } => {
                    self.0.report(vec![si::NodeInfo::change(id, ActionFromRm::Decomission)]).await
                }
                Order::Foreign { node, key, size: Some(size) } => {
                    self.0.ask(vec![foreign(node, key, *size)]).await
                }
                Order::Foreign { key, size: None, .. } => {
                    self.0.release(vec![si::AllocationRelease::new("", key)]).await
                }
                Order::ApplicationComes { id, queue } => {
                    self.0.submit(vec![application(id, queue)]).await
                }
                Order::ApplicationGoes { id } => {
                    let gone = si::RemoveApplicationRequest {
                        application_id: id.clone(),
                        partition_name: String::new(),
                    };
                    self.0.remove(vec![gone]).await
                }
                Order::Ask { application, key, size } => {
                    self.0.ask(vec![wanted(application, key, *size)]).await
                }
                Order::Release { application, key, .. } | Order::Withdraw { application, key } => {
                    self.0.release(vec![si::AllocationRelease::new(application, key)]).await
                }
            };
            sent.unwrap();
        }
    }
}

async fn receive(mut events: Events, shared: Shared) {
    while let Some(event) = events.next().await {
        let mut belief = shared.get();
        match event {
            Event::Registered { .. } => belief.note(&"registered"),
            Event::Disconnected(status) => belief.note(&status.message()),
            Event::Ended(status) => belief.fault(format!("the client gives up: {status}")),
            Event::Nodes(answers) => {
                for rejected in answers.rejected {
                    let (id, why) = (rejected.node_id, rejected.reason);
                    belief.receive(Answer::NodeRejected { id, why });
                }
            }
            Event::Applications(answers) => {
                for rejected in answers.rejected {
                    let (id, why) = (rejected.application_id, rejected.reason);
                    belief.receive(Answer::ApplicationRejected { id, why });
                }
            }
            Event::Allocations(answers) => allocations(answers, &mut belief),
        }
    }
}

fn allocations(answers: si::AllocationResponse, belief: &mut Belief) {
    for placed in answers.new {
        let (key, application) = (placed.allocation_key, placed.application_id);
        let (node, uuid) = (placed.node_id, String::new());
        belief.receive(Answer::Placed { key, application, node, uuid });
    }
    for released in answers.released {
        let (key, why) = (released.allocation_key, released.message);
        belief.receive(Answer::Released { key, why });
    }
    for rejected in answers.rejected_allocations {
        let (key, why) = (rejected.allocation_key, rejected.reason);
        belief.receive(Answer::Rejected { key, why });
    }
}

/// Reports everything to a scheduler without state.
fn report(belief: &Belief) -> Report {
    let mut report = Report::default();
    for (id, node_) in &belief.nodes {
        let action = if node_.is_open { ActionFromRm::Create } else { ActionFromRm::CreateDrain };
        report.nodes.push(node(id, node_.capacity, action));
        let others = node_.foreign.iter().map(|(key, size)| foreign(id, key, *size));
        report.allocations.extend(others);
    }
    for (id, known) in &belief.applications {
        report.applications.push(application(id, &known.queue));
        for (key, request) in &known.requests {
            let mut wanted = wanted(id, key, request.size);
            if let Some(place) = &request.placed {
                wanted.node_id.clone_from(&place.node);
            }
            report.allocations.push(wanted);
        }
    }
    report
}

fn node(id: &str, capacity: i64, action: ActionFromRm) -> si::NodeInfo {
    si::NodeInfo { action: action.into(), ..si::NodeInfo::new(id, [("vcore", capacity)]) }
}

fn application(id: &str, queue: &str) -> si::AddApplicationRequest {
    si::AddApplicationRequest::new(id, "ada").in_queue(queue)
}

fn wanted(application: &str, key: &str, size: i64) -> si::Allocation {
    si::Allocation::ask(application, key, [("vcore", size)])
}

fn foreign(node: &str, key: &str, size: i64) -> si::Allocation {
    wanted("", key, size).running_on(node).with_tag("foreign", "default")
}
