//! A resource manager: it registers, opens the three streams, and records all answers in [`Seen`].
//! A test waits for a state of that, never for a time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};

use super::messages::{QUEUES, application, node, registration};
use super::{PATIENCE, Service};

/// All answers, in the order of their arrival.
#[derive(Debug, Default)]
pub struct Seen {
    pub accepted_nodes: Vec<String>,
    /// Warnings in the answers to accepted nodes, with the node of each.
    pub node_warnings: Vec<(String, String)>,
    pub rejected_nodes: Vec<(String, String)>,
    pub accepted_applications: Vec<String>,
    pub rejected_applications: Vec<(String, String)>,
    pub updated_applications: Vec<si::UpdatedApplication>,
    pub new: Vec<si::Allocation>,
    pub released: Vec<si::AllocationRelease>,
    /// Keys of requests in `asks` that ended without an allocation.
    pub released_asks: Vec<String>,
    /// Rejected requests of `asks`.
    pub rejected_asks: Vec<(String, String)>,
    /// Rejected items of `allocations`.
    pub rejected_allocations: Vec<(String, String)>,
    /// Number of items of each response message.
    pub message_sizes: Vec<usize>,
    /// Status of each ended stream. `None` is OK.
    pub ends: BTreeMap<&'static str, Option<Status>>,
}

impl Seen {
    pub fn reason(&self, id: &str) -> Option<&str> {
        let lists = [
            &self.rejected_nodes,
            &self.rejected_applications,
            &self.rejected_asks,
            &self.rejected_allocations,
        ];
        let mut rejected = lists.into_iter().flatten();
        rejected.find(|(rejected, _)| rejected == id).map(|(_, reason)| reason.as_str())
    }

    /// Returns the status that ended a stream, as code and reason.
    pub fn end(&self, kind: &str) -> Option<(Code, String)> {
        self.ends.get(kind)?.as_ref().map(|status| (status.code(), reason_of(status)))
    }
}

/// Returns the machine-readable reason of a status.
pub fn reason_of(status: &Status) -> String {
    status.metadata().get("x-si-reason").map_or("", |reason| reason.to_str().unwrap()).to_owned()
}

/// A resource manager with its three streams.
pub struct Rm {
    pub id: String,
    pub client: SchedulerClient<Channel>,
    pub nodes: mpsc::Sender<si::NodeRequest>,
    pub applications: mpsc::Sender<si::ApplicationRequest>,
    pub allocations: mpsc::Sender<si::AllocationRequest>,
    seen: Arc<Mutex<Seen>>,
    news: Arc<Notify>,
}

impl Rm {
    /// Registers with [`QUEUES`] and opens the streams.
    pub async fn register(service: &Service, id: &str) -> Self {
        let mut client = service.client().await;
        client.register_resource_manager(registration(id, QUEUES)).await.unwrap();
        Self::open(client, id).await
    }

    /// Opens the streams of an RM, which need not be registered.
    pub async fn open(client: SchedulerClient<Channel>, id: &str) -> Self {
        let (seen, news) = (Arc::default(), Arc::new(Notify::new()));
        let (nodes, requests) = mpsc::channel(16);
        let replies = client.clone().update_node(ReceiverStream::new(requests)).await;
        follow("node", replies, &seen, &news, |seen: &mut Seen, reply: si::NodeResponse| {
            let size = reply.accepted.len() + reply.rejected.len();
            seen.message_sizes.push(size);
            let warned = reply.accepted.iter().filter(|node| !node.warning.is_empty());
            seen.node_warnings.extend(warned.map(|it| (it.node_id.clone(), it.warning.clone())));
            seen.accepted_nodes.extend(reply.accepted.into_iter().map(|node| node.node_id));
            let rejected = reply.rejected.into_iter().map(|node| (node.node_id, node.reason));
            seen.rejected_nodes.extend(rejected);
        });
        let (applications, requests) = mpsc::channel(16);
        let replies = client.clone().update_application(ReceiverStream::new(requests)).await;
        follow("application", replies, &seen, &news, |seen, reply: si::ApplicationResponse| {
            let size = reply.accepted.len() + reply.rejected.len() + reply.updated.len();
            seen.message_sizes.push(size);
            let accepted = reply.accepted.into_iter().map(|accepted| accepted.application_id);
            seen.accepted_applications.extend(accepted);
            let rejected = reply.rejected.into_iter();
            let rejected = rejected.map(|rejected| (rejected.application_id, rejected.reason));
            seen.rejected_applications.extend(rejected);
            seen.updated_applications.extend(reply.updated);
        });
        let (allocations, requests) = mpsc::channel(16);
        let replies = client.clone().update_allocation(ReceiverStream::new(requests)).await;
        follow("allocation", replies, &seen, &news, |seen, reply: si::AllocationResponse| {
            let size = reply.new.len()
                + reply.released.len()
                + reply.rejected.len()
                + reply.rejected_allocations.len();
            seen.message_sizes.push(size);
            seen.new.extend(reply.new);
            seen.released.extend(reply.released);
            seen.released_asks.extend(reply.released_asks.into_iter().map(|it| it.allocation_key));
            let rejected = reply.rejected.into_iter();
            let rejected = rejected.map(|rejected| (rejected.allocation_key, rejected.reason));
            seen.rejected_asks.extend(rejected);
            let rejected = reply.rejected_allocations.into_iter();
            let rejected = rejected.map(|rejected| (rejected.allocation_key, rejected.reason));
            seen.rejected_allocations.extend(rejected);
        });
        Self { id: id.to_owned(), client, nodes, applications, allocations, seen, news }
    }

    /// Binds all three streams with empty messages.
    pub async fn hello(&self) {
        self.send_nodes(vec![]).await;
        self.send_applications(vec![], vec![]).await;
        self.send_allocations(vec![], vec![], vec![]).await;
    }

    pub async fn send_nodes(&self, nodes: Vec<si::NodeInfo>) {
        let request = si::NodeRequest { nodes, rm_id: self.id.clone(), ..Default::default() };
        self.nodes.send(request).await.unwrap();
    }

    pub async fn send_applications(
        &self,
        new: Vec<si::AddApplicationRequest>,
        remove: Vec<si::RemoveApplicationRequest>,
    ) {
        let rm_id = self.id.clone();
        let request = si::ApplicationRequest { new, remove, rm_id, ..Default::default() };
        self.applications.send(request).await.unwrap();
    }

    pub async fn send_allocations(
        &self,
        asks: Vec<si::AllocationAsk>,
        allocations: Vec<si::Allocation>,
        releases: Vec<si::AllocationRelease>,
    ) {
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: releases,
            ..Default::default()
        };
        let request = si::AllocationRequest {
            asks,
            allocations,
            releases: Some(releases),
            rm_id: self.id.clone(),
            ..Default::default()
        };
        self.allocations.send(request).await.unwrap();
    }

    /// Reports nodes of 4 cores and 16 GB, and waits for their acceptance.
    pub async fn with_nodes(self, ids: &[&str]) -> Self {
        self.send_nodes(ids.iter().map(|id| node(id, 4_000, 16)).collect()).await;
        let n_nodes = self.read(|seen| seen.accepted_nodes.len()) + ids.len();
        self.until("nodes accepted", |seen| seen.accepted_nodes.len() >= n_nodes).await;
        self
    }

    /// Submits an application and waits for its acceptance.
    pub async fn with_application(self, id: &str, queue: &str) -> Self {
        self.send_applications(vec![application(id, queue)], vec![]).await;
        let accepted = |seen: &Seen| seen.accepted_applications.iter().any(|known| known == id);
        self.until("application accepted", accepted).await;
        self
    }

    /// Reads the answers received until now.
    pub fn read<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }

    /// Waits until the answers satisfy `reached`. `what` is for the failure message.
    pub async fn until(&self, what: &str, reached: impl Fn(&Seen) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                if self.read(&reached) {
                    return;
                }
                news.await;
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            self.read(|seen| panic!("{}: not reached: {what}; seen: {seen:#?}", self.id));
        }
    }

    /// Waits for the rejection of `id`, and expects the reason code.
    pub async fn expect_rejection(&self, id: &str, code: &str) -> String {
        self.until(&format!("`{id}` rejected"), |seen| seen.reason(id).is_some()).await;
        let reason = self.read(|seen| seen.reason(id).unwrap().to_owned());
        let code = format!("[{code}");
        assert!(reason.contains(&code) && reason.ends_with(']'), "`{id}`: {reason}");
        reason
    }
}

fn follow<R: Send + Debug + 'static>(
    kind: &'static str,
    replies: Result<Response<Streaming<R>>, Status>,
    seen: &Arc<Mutex<Seen>>,
    news: &Arc<Notify>,
    note: fn(&mut Seen, R),
) {
    let (seen, news) = (Arc::clone(seen), Arc::clone(news));
    tokio::spawn(async move {
        let end = match replies {
            Err(status) => Some(status),
            Ok(replies) => {
                let mut replies = replies.into_inner();
                loop {
                    match replies.message().await {
                        Ok(Some(reply)) => note(&mut seen.lock().unwrap(), reply),
                        Ok(None) => break None,
                        Err(status) => break Some(status),
                    }
                    news.notify_waiters();
                }
            }
        };
        seen.lock().unwrap().ends.insert(kind, end);
        news.notify_waiters();
    });
}
