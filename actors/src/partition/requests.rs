//! What an RM may want of a partition, translated; each request is one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::Tags;
use monoceros_rules::work::application::NewApplication;
use monoceros_rules::work::rejection::Ignored;

use super::early::Awaited;
use super::{Partition, Preparing, StateChange, Task};
use crate::application::{Existing, Op};
use crate::front::rm::Barrier;
use crate::node::NodeChange;
use crate::step::{Baton, Notice};

/// One request of an RM, translated. Each is one step.
pub(crate) enum Request {
    AddApplication(Box<NewApplication>),
    RemoveApplication(Arc<str>),
    /// Everything that one message wants of one application, in order.
    Application {
        id: Arc<str>,
        ops: Vec<Op>,
    },
    CreateNode(Box<NewNode>),
    ChangeNode {
        id: Arc<str>,
        change: NodeChange,
    },
    RemoveNode(Arc<str>),
    /// Something placed by others.
    Foreign(Box<ForeignRequest>),
    ForeignGone(Arc<str>),
    /// What the translation refused already.
    Notice(Notice),
    /// A configuration is wanted: could this partition have it? Nothing happens until the answer is
    /// [concluded](super::Conclude).
    Prepare(Preparing),
    /// Another state.
    ChangeState(StateChange),
    /// Pass this on once nothing is left to decide.
    Barrier(Arc<Barrier>),
}

impl Request {
    /// How much of a chunk it takes.
    pub(crate) fn items(&self) -> usize {
        match self {
            Self::Application { ops, .. } => ops.len(),
            _ => 1,
        }
    }
}

/// A node as its RM reports it.
pub(crate) struct NewNode {
    pub(crate) id: Arc<str>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) total: Resources,
    pub(crate) occupied: Resources,
    pub(crate) existing: Vec<(Arc<str>, Existing)>,
    pub(crate) draining: bool,
}

/// An allocation that somebody else made.
pub(crate) struct ForeignRequest {
    pub(crate) key: Arc<str>,
    pub(crate) node: Arc<str>,
    pub(crate) resources: Resources,
    pub(crate) tags: Option<Tags>,
    pub(crate) preemptable: bool,
}

impl Partition {
    pub(super) fn request(&mut self, request: Request, baton: &mut Baton) {
        match request {
            Request::AddApplication(new) => self.add_application(*new, baton),
            Request::RemoveApplication(id) => {
                if let Some(slot) = baton.directory.application_by_id.get(&id) {
                    self.agenda.push_back(Task::Visit(*slot, vec![Op::Remove]));
                } else {
                    baton.notices.push(Notice::Ignored(Ignored::RemovalOfUnknown));
                }
                self.application_gone(&id, baton);
            }
            Request::Application { id, ops } => self.application_request(&id, ops, None, baton),
            Request::CreateNode(new) => self.create_node(new, None, baton),
            Request::ChangeNode { id, change } => self.change_node(&id, change, baton),
            Request::RemoveNode(id) => self.remove_node(&id, baton),
            Request::Foreign(foreign) => self.foreign(*foreign, baton),
            Request::ForeignGone(key) => self.foreign_gone(&key, baton),
            Request::Prepare(preparing) => self.prepare(preparing, baton),
            Request::ChangeState(change) => self.change_state(change, baton),
            Request::Barrier(barriers) => self.barriers.push(barriers),
            Request::Notice(notice) => {
                if let Notice::ApplicationRejected { id, .. } = &notice {
                    baton.directory.rejected += 1;
                    baton.tally.application_rejected();
                    if !baton.directory.application_by_id.contains_key(id) {
                        self.application_gone(id, baton);
                    }
                }
                if matches!(notice, Notice::AskRejected { .. }) {
                    baton.tally.ask_rejected(false);
                }
                baton.notices.push(notice);
            }
        }
    }

    /// The application was refused, or its RM wants it no more: nothing waits for it.
    pub(super) fn application_gone(&mut self, id: &Arc<str>, baton: &mut Baton) {
        self.early.application_gone(id);
        self.reject_early(&Awaited::Application(Arc::clone(id)), baton);
    }
}
