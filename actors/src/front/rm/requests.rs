//! Requests to a session: messages of its RM, and changes of its configuration and partitions.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::ConfigErrors;
use monoceros_config::difference::Usage;
use monoceros_proto::si::v1 as si;
use monoceros_rules::queues::object_state::ObjectState;
use tokio::sync::oneshot;

use crate::api::outcomes::{
    ConfigurationError, ConfigurationSnapshot, ConfigurationUpdate, PartitionStateError,
    UpdateError,
};
use crate::front::document::Document;
use crate::partition::Reports;

/// The content of a request of the RM.
pub(crate) enum Body {
    Allocation(si::AllocationRequest),
    Application(si::ApplicationRequest),
    Node(si::NodeRequest),
    /// Measurements of what nodes and allocations really use.
    Utilization(Reports),
    /// A barrier: the reply comes when everything before it has been decided and reported.
    Barrier(oneshot::Sender<()>),
}

/// A request of the RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Update {
    pub(crate) body: Body,
    /// Answered once there is room for more.
    pub(crate) taken: Taken,
}

/// The reply to a sender whose request was taken, or not.
pub(crate) type Taken = oneshot::Sender<Result<(), UpdateError>>;

/// The effect of a configuration that is sent.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Apply,
    /// Its queue part is applied. The extra part stays.
    Queues,
    /// It is only validated.
    None,
    /// It becomes the default configuration.
    Defaults(Arc<Document>),
}

/// Another configuration. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Reconfigure {
    pub(crate) request: si::UpdateConfigurationRequest,
    /// The text of the request, as read; `None` if it has no text.
    pub(crate) read: Option<Result<Arc<Document>, ConfigErrors>>,
    pub(crate) effect: Effect,
    pub(crate) reply: oneshot::Sender<Outcome>,
}

/// The answer to a [`Reconfigure`].
pub(crate) type Outcome = Result<(ConfigurationUpdate, Comparison), ConfigurationError>;

/// The old and the new configuration, to be compared by the caller.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) old: Arc<Document>,
    pub(crate) new: Arc<Document>,
    /// The usage wherever the new configuration allows less.
    pub(crate) usage: Usage,
}

/// Asks for the configuration in force. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReadConfiguration {
    pub(crate) reply: oneshot::Sender<Result<ConfigurationSnapshot, ConfigurationError>>,
}

/// Puts a partition, named as in requests, into another state. From the embedding API. If there is
/// no such partition, the reply is dropped.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ChangeState {
    pub(crate) partition: String,
    pub(crate) to: ObjectState,
    pub(crate) reply: oneshot::Sender<Result<ObjectState, PartitionStateError>>,
}
