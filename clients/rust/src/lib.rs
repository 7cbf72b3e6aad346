//! A client of Monoceros for resource managers, which own nodes and run applications on them.
//!
//! The client registers, opens the streams, and reopens them after a break. Requests are numbered
//! and kept until the scheduler acknowledges them, so a broken connection neither loses nor repeats
//! any. Small requests are joined. Received messages are acknowledged and delivered once. After a
//! restart of the scheduler or the loss of the session, the client registers again and reports the
//! [`State`] supplied by its user.
//!
//! ```no_run
//! # use monoceros_client::{Client, Event, Options, Report, si};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = si::NodeInfo::new("n1", si::Resource::default().cores(8).gibibytes(32));
//! // The full state, for a scheduler that has none.
//! let state = move || Report {
//!     nodes: vec![node.clone()],
//!     applications: vec![si::AddApplicationRequest::new("job", "ada").in_queue("root.default")],
//!     allocations: vec![si::Allocation::ask("job", "task-1", [("vcore", 1_000)])],
//! };
//! let (client, mut events) = Client::start(Options::at("http://127.0.0.1:50051", "my-rm")?, state);
//! while let Some(event) = events.next().await {
//!     if let Event::Allocations(decided) = event {
//!         for placed in decided.new {
//!             println!("start {} on {}", placed.allocation_key, placed.node_id);
//!         }
//!         // A real program records this, because `state` has to report it.
//!         client.ask(vec![si::Allocation::ask("job", "task-2", [("vcore", 500)])]).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Clusters
//! A scheduler may consist of several processes, the members of a cluster, of which one serves the
//! resource manager. If that one is lost or falls silent, the client registers at another member
//! and reports its state there: [`Event::Disconnected`], then [`Event::Registered`]. It learns the
//! addresses of all members from the first that answers. Messages of the lost member that the
//! program was not given by then are dropped: what they told never happened.
//!
//! # Invariants
//! * Requests take effect in the order in which they were made, over all kinds. Within one message
//!   of joined requests, the requests of one application take effect together.
//! * A new session does not repeat earlier requests: the reported state has to contain them. So the
//!   program first changes its state and then sends the request. An item that is in the state and
//!   is also sent while a session begins may be rejected with `R_NODE_EXISTS` or `R_APP_EXISTS`; it
//!   exists then.

// The code in the manual for shims is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/shims.md")]
struct Manual;

mod callbacks;
mod connect;
mod connection;
mod driver;
mod ending;
mod events;
mod identity;
mod options;
mod outgoing;
mod report;
mod request;
mod route;
mod silence;
mod stubs;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tonic::transport::Channel;

pub use monoceros_proto::si::v1 as si;
pub use monoceros_proto::v1 as callback;

pub use crate::callbacks::{Callbacks, Fit};
pub use crate::ending::{is_lost, reason};
pub use crate::events::Events;
pub use crate::identity::Identity;
pub use crate::options::Options;
pub use crate::stubs::v1::admin_service_client::AdminServiceClient;

use crate::callbacks::Invalid;
use crate::driver::{Command, Driver, Leave};
use crate::request::AnyRequest;

/// Queued requests for the client's task.
const COMMANDS_AHEAD: usize = 1_024;

/// The last connection of a client.
type OwnerChannel = Arc<Mutex<Option<Channel>>>;

/// Sends requests to the scheduler. Clones share one resource manager. When the last clone is
/// dropped, the requests made before are still delivered, and then the streams end.
#[derive(Clone, Debug)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    invalid: Arc<Invalid>,
    channel: OwnerChannel,
}

/// A message from the scheduler, or a change of the connection.
#[derive(Debug)]
pub enum Event {
    /// Answers about nodes.
    Nodes(si::NodeResponse),
    /// Answers about applications, and their states.
    Applications(si::ApplicationResponse),
    /// Allocations, releases and rejections.
    Allocations(si::AllocationResponse),
    /// A session begins and the [`State`] is about to be reported. If the session of an earlier
    /// instance was taken over, nothing is reported.
    Registered {
        /// Number of the session.
        session: u64,
        /// Whether the session of an earlier instance continues.
        resumed: bool,
    },
    /// The connection or a stream has ended; the client reconnects.
    Disconnected(Status),
    /// The client has ended: a retry cannot help, or it was limited to [one session](Options::once)
    /// and the session [is lost](is_lost). See [`reason`]. No event follows.
    Ended(Status),
}

/// The full state of a resource manager, for a scheduler that has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All nodes, in the form in which they are created (`CREATE`).
    pub nodes: Vec<si::NodeInfo>,
    /// All applications.
    pub applications: Vec<si::AddApplicationRequest>,
    /// Running allocations (with a node), foreign allocations (tag `foreign`), and asks (without a
    /// node). Nodes stay closed until the former are registered.
    pub allocations: Vec<si::Allocation>,
}

/// The state kept by a resource manager; the scheduler keeps nothing on disk.
pub trait State: Send + Sync + 'static {
    /// Returns the full present state. Called whenever a session begins; must not wait for the
    /// client. Before the call all messages of the earlier session have been processed, unless the
    /// program is blocked by the full request queue while processing one.
    fn report(&self) -> Report;
}

impl<F: Fn() -> Report + Send + Sync + 'static> State for F {
    fn report(&self) -> Report {
        self()
    }
}

/// The client has ended; its last event holds the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has ended")]
pub struct Ended;

impl Client {
    /// Starts a client, which connects in the background and retries as long as needed. Must be
    /// called within a tokio runtime.
    pub fn start(options: Options, state: impl State) -> (Self, Events) {
        let (commands, received) = mpsc::channel(COMMANDS_AHEAD);
        let (queue, events) = mpsc::unbounded_channel();
        let (processed, invalid, channel) = (Arc::default(), Arc::default(), Arc::default());
        let events = Events::new(events, Arc::clone(&processed));
        let client = Self { commands, invalid, channel };
        let (invalid, channel) = (Arc::clone(&client.invalid), Arc::clone(&client.channel));
        let driver =
            Driver::new(options, Arc::new(state), received, queue, processed, invalid, channel);
        tokio::spawn(driver.run());
        (client, events)
    }

    /// Reports new, changed or removed nodes.
    pub async fn report(&self, nodes: Vec<si::NodeInfo>) -> Result<(), Ended> {
        self.send(si::NodeRequest { nodes, ..Default::default() }).await
    }

    /// Submits applications.
    pub async fn submit(&self, new: Vec<si::AddApplicationRequest>) -> Result<(), Ended> {
        self.send(si::ApplicationRequest { new, ..Default::default() }).await
    }

    /// Removes applications.
    pub async fn remove(&self, remove: Vec<si::RemoveApplicationRequest>) -> Result<(), Ended> {
        self.send(si::ApplicationRequest { remove, ..Default::default() }).await
    }

    /// Sends asks (without a node) or existing allocations (with a node).
    pub async fn ask(&self, allocations: Vec<si::Allocation>) -> Result<(), Ended> {
        self.send(si::AllocationRequest { allocations, ..Default::default() }).await
    }

    /// Releases allocations or withdraws asks.
    pub async fn release(&self, releases: Vec<si::AllocationRelease>) -> Result<(), Ended> {
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: releases,
            ..Default::default()
        };
        let releases = Some(releases);
        self.send(si::AllocationRequest { releases, ..Default::default() }).await
    }

    /// Sends any request. Waits while [the maximum of items](Options::most_items) is
    /// unacknowledged.
    pub async fn send(&self, request: impl Into<Request>) -> Result<(), Ended> {
        let Request(request) = request.into();
        self.commands.send(Command::Send(request)).await.map_err(|_| Ended)
    }

    /// Makes the scheduler retry all requests that [`Callbacks`] have refused, because answers may
    /// have changed. The message follows the answers given before; several calls in the meantime
    /// give one message.
    pub fn invalidate(&self) {
        self.invalid.request();
    }

    /// Returns the last connection, for calls of other services. In a cluster it leads to the member
    /// that serves the resource manager; after a loss, to the one that was reached last. `None` before
    /// the first connection.
    pub fn channel(&self) -> Option<Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the session: the scheduler forgets the resource manager. Waits until that is done.
    /// Unacknowledged requests are lost. In a cluster whose owner is lost, another member takes over
    /// the resource manager first.
    pub async fn leave(&self, reason: &str) -> Result<(), Status> {
        let ended = || Status::unavailable(Ended.to_string());
        let (left, done) = oneshot::channel();
        let leave = Leave { reason: reason.to_owned(), left };
        self.commands.send(Command::Leave(leave)).await.map_err(|_| ended())?;
        done.await.map_err(|_| ended())?
    }
}

/// A request of any kind.
#[derive(Clone, Debug)]
pub struct Request(AnyRequest);

impl From<si::NodeRequest> for Request {
    fn from(request: si::NodeRequest) -> Self {
        Self(request.into())
    }
}

impl From<si::ApplicationRequest> for Request {
    fn from(request: si::ApplicationRequest) -> Self {
        Self(request.into())
    }
}

impl From<si::AllocationRequest> for Request {
    fn from(request: si::AllocationRequest) -> Self {
        Self(request.into())
    }
}
