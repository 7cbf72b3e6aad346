//! A client of Monoceros for resource managers: whoever owns machines, and wants to run things on
//! them.
//!
//! It registers, opens the streams, and keeps them open. What is sent is numbered and kept until the
//! scheduler has taken it, so a connection that breaks loses and doubles nothing; small requests go
//! together; what comes is acknowledged, and comes once. When the scheduler was restarted, or has lost
//! the session, the client registers again and reports the [`State`] that its user supplies.
//!
//! ```no_run
//! # use monoceros_client::{Client, Event, Options, Report, si};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = "http://127.0.0.1:50051".parse::<tonic::transport::Uri>()?.into();
//! let node = si::NodeInfo::new("n1", si::Resource::default().cores(8).gibibytes(32));
//! // Everything that the scheduler has to know whenever it knows nothing.
//! let state = move || Report {
//!     nodes: vec![node.clone()],
//!     applications: vec![si::AddApplicationRequest::new("job", "ada").in_queue("root.default")],
//!     allocations: vec![si::Allocation::ask("job", "task-1", [("vcore", 1_000)])],
//! };
//! let (client, mut events) = Client::start(Options::new(endpoint, "my-rm"), state);
//! while let Some(event) = events.next().await {
//!     if let Event::Allocations(decided) = event {
//!         for placed in decided.new {
//!             println!("start {} on {}", placed.allocation_key, placed.node_id);
//!         }
//!         // A real one remembers that: `state` has to say it.
//!         client.ask(vec![si::Allocation::ask("job", "task-2", [("vcore", 500)])]).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//! * Requests take effect in the order in which they were made, over all kinds; of small ones that go
//!   in one message, those of one application together.
//! * What was made before a new session is not said in it: the reported state has to have it. So the
//!   state is changed first, and then the scheduler is told. What is both in the state and said while
//!   a session begins may be rejected with `R_NODE_EXISTS` or `R_APP_EXISTS`: it is there.

// The code of the manual for shims is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/shims.md")]
struct Manual;

mod callbacks;
mod connection;
mod driver;
mod ending;
mod events;
mod options;
mod outgoing;
mod request;
mod stubs;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tonic::Status;

pub use monoceros_proto::si::v1 as si;
pub use monoceros_proto::v1 as callback;

pub use crate::callbacks::{Callbacks, Fit};
pub use crate::ending::{is_lost, reason};
pub use crate::events::Events;
pub use crate::options::Options;
pub use crate::stubs::v1::admin_service_client::AdminServiceClient;

use crate::callbacks::Invalid;
use crate::driver::{Command, Driver, Leave};
use crate::request::AnyRequest;

/// Requests that wait for the client's task.
const COMMANDS_AHEAD: usize = 1_024;

/// What a client is for: says things to the scheduler. Clones speak for the same resource manager. When
/// the last one is dropped, what was said is still delivered, and then the streams end.
#[derive(Clone, Debug)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    invalid: Arc<Invalid>,
}

/// Something that came back, or happened to the connection.
#[derive(Debug)]
pub enum Event {
    /// Answers about nodes.
    Nodes(si::NodeResponse),
    /// Answers about applications, and their states.
    Applications(si::ApplicationResponse),
    /// Allocations, releases and rejections.
    Allocations(si::AllocationResponse),
    /// A session begins, and the [`State`] is about to be reported; or, if it goes on, the session of
    /// an earlier instance was taken up, and nothing is.
    Registered {
        /// Its number.
        session: u64,
        /// It was there already.
        goes_on: bool,
    },
    /// The connection or a stream has ended; the client comes back by itself.
    Disconnected(Status),
    /// The client gives up, or was to have [one session only](Options::once) and [`is_lost`]: see
    /// [`reason`]. Nothing comes after that.
    Ended(Status),
}

/// Everything that the scheduler has to know when it knows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All nodes, as they come (`CREATE`).
    pub nodes: Vec<si::NodeInfo>,
    /// All applications.
    pub applications: Vec<si::AddApplicationRequest>,
    /// What runs (with its node), what belongs to nobody here (tag `foreign`), and what is wanted
    /// (without a node). Nodes are kept closed until the former are on the books.
    pub allocations: Vec<si::Allocation>,
}

/// What a resource manager remembers; the scheduler keeps nothing on disk.
pub trait State: Send + Sync + 'static {
    /// Everything, as it is now. Called whenever a session begins; must not wait for the client.
    /// What was told in the session before has been dealt with by then, unless the program waits for room
    /// to say something while it deals with it.
    fn report(&self) -> Report;
}

impl<F: Fn() -> Report + Send + Sync + 'static> State for F {
    fn report(&self) -> Report {
        self()
    }
}

/// The client has ended; its last event says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has ended")]
pub struct Ended;

impl Client {
    /// Starts a client, which connects in the background for as long as it takes. Must be called
    /// within a tokio runtime.
    pub fn start(options: Options, state: impl State) -> (Self, Events) {
        let (commands, received) = mpsc::channel(COMMANDS_AHEAD);
        let (tell, events) = mpsc::unbounded_channel();
        let (dealt, invalid) = (Arc::default(), Arc::default());
        let events = Events::new(events, Arc::clone(&dealt));
        let driver =
            Driver::new(options, Arc::new(state), received, tell, dealt, Arc::clone(&invalid));
        tokio::spawn(driver.run());
        (Self { commands, invalid }, events)
    }

    /// Nodes that come, change or go.
    pub async fn report(&self, nodes: Vec<si::NodeInfo>) -> Result<(), Ended> {
        self.send(si::NodeRequest { nodes, ..Default::default() }).await
    }

    /// Applications that come.
    pub async fn submit(&self, new: Vec<si::AddApplicationRequest>) -> Result<(), Ended> {
        self.send(si::ApplicationRequest { new, ..Default::default() }).await
    }

    /// Applications that go.
    pub async fn remove(&self, remove: Vec<si::RemoveApplicationRequest>) -> Result<(), Ended> {
        self.send(si::ApplicationRequest { remove, ..Default::default() }).await
    }

    /// What is wanted (without a node) or there (with one).
    pub async fn ask(&self, allocations: Vec<si::Allocation>) -> Result<(), Ended> {
        self.send(si::AllocationRequest { allocations, ..Default::default() }).await
    }

    /// What has ended, or is no longer wanted.
    pub async fn release(&self, releases: Vec<si::AllocationRelease>) -> Result<(), Ended> {
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: releases,
            ..Default::default()
        };
        let releases = Some(releases);
        self.send(si::AllocationRequest { releases, ..Default::default() }).await
    }

    /// Any request. Waits while [as many items](Options::most_items) as may be are on their way.
    pub async fn send(&self, request: impl Into<Request>) -> Result<(), Ended> {
        let Request(request) = request.into();
        self.commands.send(Command::Send(request)).await.map_err(|_| Ended)
    }

    /// Has everything tried again that [`Callbacks`] have refused: answers may be others by now. Said
    /// behind the answers that were given before, and once for all calls that come meanwhile.
    pub fn invalidate(&self) {
        self.invalid.say();
    }

    /// Ends the session: the scheduler forgets everything of the resource manager. Waits until that
    /// is done. What was sent and not taken by then is lost.
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
