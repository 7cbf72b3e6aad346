//! The tasks of a step: each sends the baton out once, or is done at home.

use std::sync::Arc;

use monoceros_rules::applications::application::NewApplication;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};
use tokio::time::Instant;

use crate::step::{Answers, NodeChange, Op, QueueSlot, RowSlot};

/// A task that a step has still to do.
pub(in crate::partition) enum Task<S> {
    /// An application is visited with orders.
    Visit(ApplicationSlot, Vec<Op>),
    /// A node is visited with a change; what follows for its allocations is further tasks.
    VisitNode(NodeSlot, NodeChange),
    /// The RM answered questions about one application.
    TakeAnswers(Answers),
    /// Actors are visited one after another. `S` is a survey.
    Survey(S),
    /// An application that is in the directory joins its leaf.
    Attach(ApplicationSlot),
    /// An application that has ended leaves its leaf and the directory.
    Detach(ApplicationSlot, RowSlot),
    /// A new application joins the leaf of this path, which exists by now.
    Join(Box<NewApplication>, Arc<str>),
    /// A queue is to be added below one that is there.
    AddQueue(Arc<QueueConfig>),
    /// An empty queue is removed.
    RemoveQueue(QueueSlot),
    /// A node leaves the directory.
    ForgetNode(NodeSlot),
    /// All answers that came together are taken.
    EndOfAnswers,
    /// A reload is over: the queues are as configured.
    Reloaded { since: Instant },
}
