//! The deregistration of a client.

use tokio::sync::oneshot;
use tonic::Status;

use super::{Driver, within};
use crate::connection::Connection;
use crate::ending;

/// A request to end the session, and the channel for its result.
pub(crate) struct Leave {
    pub(crate) reason: String,
    pub(crate) left: oneshot::Sender<Result<(), Status>>,
}

impl Driver {
    /// The session that a deregistration can end without another registration. In a cluster the
    /// claim of a lost owner stays, so the client takes it over before it deregisters.
    pub(super) fn session_to_leave(&self) -> Option<u64> {
        self.session.or_else(|| self.last_session.filter(|_| !self.route.is_cluster()))
    }

    /// Ends the session. `Err` if another connection has to try again.
    pub(super) async fn leave(
        &mut self,
        connection: &Connection<'_>,
        session: u64,
        leave: Leave,
    ) -> Result<(), Status> {
        let patience = self.route.patience().map(|it| it.answer);
        let done = within(patience, connection.deregister(session, leave.reason.clone())).await;
        if let Err(status) = &done
            && ending::may_leave_later(status)
        {
            self.leave_requested = Some(leave);
            return Err(status.clone());
        }
        // The caller may have stopped waiting.
        let _ = leave.left.send(done);
        Ok(())
    }
}
