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
    /// A node is visited with a change; the consequences for its allocations are further tasks.
    VisitNode(NodeSlot, NodeChange),
    /// The RM answered questions about one application.
    TakeAnswers(Answers),
    /// Actors are visited one after another. `S` is a survey.
    Survey(S),
    /// An application that is in the directory joins its leaf.
    Attach(ApplicationSlot),
    /// An application that has ended is removed from its leaf and the directory.
    Detach(ApplicationSlot, RowSlot),
    /// A new application joins the leaf of this path, which earlier tasks have created.
    Join(Box<NewApplication>, Arc<str>),
    /// A queue is to be added below an existing one.
    AddQueue(Arc<QueueConfig>),
    /// An empty queue is removed.
    RemoveQueue(QueueSlot),
    /// A node is removed from the directory.
    ForgetNode(NodeSlot),
    /// All answers of one message have been taken.
    EndOfAnswers,
    /// A reload is over: the queues are as configured.
    Reloaded { since: Instant },
}
