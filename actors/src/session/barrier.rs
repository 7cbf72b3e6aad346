//! A barrier: an entry of every partition's inbox that reports when everything before it has been
//! decided and delivered.

use actix::Message;
use tokio::sync::oneshot;

use crate::mailbox::Destination;

/// A barrier of a session, shared by its partitions. When the last copy is dropped, the session gets
/// [`BarrierPassed`] and answers: after all notices sent to it before, and after the loss of a
/// partition that held a copy.
#[derive(Debug)]
pub(crate) struct Barrier {
    /// `None` only while it is dropped.
    reply: Option<Reply>,
    session: Destination<BarrierPassed>,
}

/// Answers when it is dropped: by a session that handled it, or together with a session that has
/// ended.
#[derive(Debug)]
struct Reply(Option<oneshot::Sender<()>>);

/// The last copy of a barrier was dropped.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BarrierPassed {
    _reply: Reply,
}

impl Barrier {
    pub(crate) fn new(reply: oneshot::Sender<()>, session: Destination<BarrierPassed>) -> Self {
        Self { reply: Some(Reply(Some(reply))), session }
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            self.session.post(BarrierPassed { _reply: reply });
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            // The caller may have given up.
            let _ = reply.send(());
        }
    }
}
