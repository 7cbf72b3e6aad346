//! The Monoceros scheduler as an embeddable actor system.
//!
//! Every resource manager, partition, queue, application and node is an actix actor; their
//! decisions are made by the crate `monoceros-rules`. This crate speaks the messages of the
//! Scheduler Interface (`monoceros-proto`) as plain structs, so that an embedder of the scheduler
//! does not have to link gRPC and HTTP.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//!
//! use monoceros_actors::{ResourceManagerCallback, Scheduler};
//! use monoceros_proto::si::v1 as si;
//!
//! /// Sends each allocation through a channel.
//! struct Shim(mpsc::Sender<String>);
//!
//! impl ResourceManagerCallback for Shim {
//!     fn update_allocation(&self, response: si::AllocationResponse) {
//!         for allocation in response.new {
//!             self.0.send(format!("{} on {}", allocation.allocation_key, allocation.node_id)).ok();
//!         }
//!     }
//!     fn update_application(&self, _response: si::ApplicationResponse) {}
//!     fn update_node(&self, _response: si::NodeResponse) {}
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! // One queue that takes anybody; `Scheduler::builder` takes other queues.
//! let scheduler = Scheduler::simple().start()?;
//! let (sender, allocations) = mpsc::channel();
//! let registration = si::RegisterResourceManagerRequest::new("rm");
//! scheduler.register_resource_manager(registration, Arc::new(Shim(sender))).await?;
//! let node = si::NodeInfo::new("n1", si::Resource::default().cores(8).gibibytes(32));
//! scheduler.update_node(si::NodeRequest::report("rm", [node])).await?;
//! let application = si::AddApplicationRequest::new("app", "ada");
//! scheduler.update_application(si::ApplicationRequest::submit("rm", [application])).await?;
//! let ask = si::Allocation::ask("app", "task", si::Resource::default().cores(2));
//! scheduler.update_allocation(si::AllocationRequest::ask("rm", [ask])).await?;
//! scheduler.settle().await;
//! assert_eq!(allocations.recv()?, "task on n1");
//! scheduler.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! Reading order: [`scheduler`], the handle; `api`, the side of a resource manager ([`callback`],
//! [`users`]); then the actors from outside inwards: `front::rm_proxy`, `front::rm`, `partition`, `queue`,
//! `application`, `node`. The baton that travels between the last four is in `step`. Messages to a
//! session are in `session`, their contents in `notices`.

// The program of the manual for embedders is run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Manual;

mod api;
pub mod events;
pub mod image;
pub mod metrics;
pub mod scheduler;
pub mod snapshot;

mod application;
mod clock;
mod front;
mod mailbox;
mod node;
mod notices;
mod partition;
mod pulse;
mod queue;
mod run_times;
mod session;
mod spin;
mod step;
mod tally;
mod views;

use actix::Message;

pub use api::allocations::{AllocationNotices, NewAllocation};
pub use api::callback::{Assumed, Preferences, ResourceManagerCallback, RmState, StateDump};
pub use api::listing::{
    ApplicationFilter, ApplicationList, DecisionFilter, DecisionKind, Listed, Page, Steps,
};
pub use api::mirror::{ForkedPredicates, Mirror, MirrorMaker};
pub use api::predicates::{
    AnswerSink, BundlePlace, Elsewhere, Invalidation, PredicateAnswer, PredicateQuestion,
    Predicates, PreemptionQuestions, QuestionBundle, QuestionId, Scope, Verdict,
};
pub use api::scale_up::{ScaleUpNotice, ScaleUpRequest};
pub use api::traces::{PlacementTrace, TRACEPARENT, TraceSink};
pub use api::users::{Lookup, UserGroupResolver};
pub use api::{allocations, callback, listing, mirror, predicates, scale_up, traces, users};
pub use events::{
    ClusterEvent, EventFilter, EventRange, EventReader, EventSettings, EventSubscription, History,
    NamedEvent, StreamLimits, Streamed,
};
#[doc(hidden)]
pub use front::fuzzing;
pub use front::rm_proxy::check_rm_id;
pub use scheduler::{
    ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate, ExplainError, Handover,
    OutcomeOfDefaults, PartitionStateError, PendingOutcome, PendingUpdate, ReadError,
    RegisterError, Removed, Scheduler, SchedulerBuilder, SchedulerHandle, StartError, Threads,
    TooBusy, UpdateError,
};
/// Tags with the names by which people know an object.
pub mod tags {
    pub use monoceros_rules::specs::tags::{
        ALLOW_PREEMPTION, CREATED_NS, CREATION_TIME, FOREIGN, HELD_AGAIN, HOLD_AGAIN,
        HOLD_AGAIN_SINCE, NAMESPACE, NAMESPACE_CHANGED, PLACEHOLDERS_SINCE, POD, REQUIRED_NODE,
        RUN_TIME_LIMIT, STARTED_NS, pod_of, run_time_limit,
    };
}

pub use monoceros_config as config;
pub use monoceros_rules::applications::application_state::ApplicationState;
pub use monoceros_rules::audit::Facts;
pub use monoceros_rules::decisions::KEPT_MAX as DECISIONS_MAX;
pub use monoceros_rules::nodes::{Fits, NodeFits, NodePlaces};
pub use monoceros_rules::queues::object_state::{ObjectState, Refused};
pub use monoceros_rules::runtimes;
pub use monoceros_rules::specs::identity::LookupError;
pub use monoceros_rules::specs::quotas::Quotas;
pub use monoceros_rules::specs::rejection::{Ignored, Overflow, Rejection};
pub use monoceros_rules::values::hashing;
pub use monoceros_rules::values::instant::rfc3339;
pub use monoceros_rules::values::resources::{Limits, Name, Resources};
pub use monoceros_rules::values::{names, partition_name, readable};
pub use partition::surveys::NodeLoad;
pub use pulse::{PartitionSign, Sign};
pub use run_times::RunTimesOf;
pub use scheduler::control::{self, ResourceManagerControl};
pub use scheduler::pulses::Pulses;
pub use spin::SPIN_MAX;

/// Ends the actor that receives it; later messages in its mailbox are dropped.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Halt;
