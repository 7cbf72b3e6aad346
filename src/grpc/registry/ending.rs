//! The end of sessions: stopped on purpose, timed out, lost by the scheduler, or by their claim.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::Removed;
use tokio::sync::RwLockWriteGuard;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{info, warn};

use super::super::end::{Cause, ClaimRefusal, StreamEnd};
use super::super::session::Session;
use super::super::session::state::SessionState;
use super::Registry;

/// Cause of the end of a session whose claim was lost, for later clients.
pub(super) const CLAIM_LOST: &str = "claimLost";

impl Registry {
    /// Stops the current session of `rm_id`; if `number` is given, only the session with this
    /// number. Its allocations are released, and its streams end with `ABORTED`. Later clients
    /// learn the cause `by`. Returns the session, if there was one, and the counts of removed objects.
    pub async fn stop(
        &self,
        rm_id: &str,
        number: Option<u64>,
        by: &str,
    ) -> Option<(Arc<Session>, Removed)> {
        let slot = self.slot(rm_id)?;
        let mut current = slot.write().await;
        let is_it = |session: &&Arc<Session>| number.is_none_or(|it| it == session.number());
        let session = Arc::clone(current.as_ref().filter(is_it)?);
        // If the callback of the session hangs, the session ends all the same, with unknown counts.
        let removed = timeout(self.registration.timeout, self.handle.deregister(rm_id)).await;
        self.end(&mut current, &session, by, &StreamEnd::Deregistered).await;
        drop(current);
        self.remove_unused_slot(rm_id, &slot);
        Some((session, removed.ok().and_then(Result::ok).unwrap_or_default()))
    }

    /// Frees the claim of a resource manager that has no session here, if the process is its owner
    /// in a cluster.
    pub async fn give_up(&self, rm_id: &str) -> Result<(), ClaimRefusal> {
        match &self.claims {
            Some(claims) => claims.give_up(rm_id).await,
            None => Ok(()),
        }
    }

    /// Makes a resource manager register and report everything again. Returns the number of its
    /// streams that were open.
    pub fn resync(&self, rm_id: &str, cause: &str) -> usize {
        let session = self.session(rm_id);
        session.map_or(0, |session| session.lose(Cause::Asked(cause.to_owned())))
    }

    /// Stops a session that the scheduler no longer knows although it was not ended.
    pub async fn scheduler_lost(&self, session: &Arc<Session>) {
        let end = StreamEnd::Internal("the scheduler lost the session through a bug");
        self.stop_if(session, "internalError", &end, |_| true).await;
    }

    /// Applies the timeouts of a session until it stops.
    pub(super) async fn apply_timeouts(self: Arc<Self>, session: Arc<Session>) {
        let mut deadlines = session.deadlines();
        // Often enough that the messages of an idle session are freed soon; never without a pause.
        let mut forgetting = interval(session.grace().max(Duration::from_secs(1)));
        forgetting.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while session.state() != SessionState::Stopped {
            let deadline = *deadlines.borrow_and_update();
            let overdue = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = deadlines.changed() => {}
                _ = forgetting.tick() => session.forget_confirmed(),
                () = overdue => {
                    if session.expire() {
                        let (rm_id, by) = (session.rm_id().to_owned(), "pauseTimeout");
                        let end = StreamEnd::NotRegistered { rm_id, stopped_by: Some(by.to_owned()) };
                        // A stream may have been bound in the meantime.
                        self.stop_if(&session, by, &end, Session::expire).await;
                    }
                }
            }
        }
    }

    /// Stops the session if it is still the current one and `is_due` holds under the lock.
    async fn stop_if(
        &self,
        session: &Arc<Session>,
        by: &str,
        end: &StreamEnd,
        is_due: impl Fn(&Session) -> bool + Send,
    ) {
        let Some(slot) = self.slot(session.rm_id()) else { return };
        let mut current = slot.write().await;
        let is_it = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session));
        if is_it && is_due(session) {
            warn!(rm = session.rm_id(), session = session.number(), by, "session stopped");
            self.end(&mut current, session, by, end).await;
        }
        drop(current);
        self.remove_unused_slot(session.rm_id(), &slot);
    }

    /// Ends a session because its claim was lost: its streams end before this returns, and a task
    /// removes it from the scheduler.
    pub fn end_unclaimed(self: &Arc<Self>, rm_id: &str, number: u64, end: StreamEnd) {
        let session = self.session(rm_id).filter(|session| session.number() == number);
        let Some(session) = session else { return };
        info!(rm = rm_id, session = number, %end, "session ended by the cluster");
        session.stop(&end);
        let registry = Arc::clone(self);
        tokio::spawn(async move {
            let Some(slot) = registry.slot(session.rm_id()) else { return };
            let mut current = slot.write().await;
            // A registration may have replaced it.
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &session)) {
                registry.remove(&mut current, &session, CLAIM_LOST, &end).await;
            }
            drop(current);
            registry.remove_unused_slot(session.rm_id(), &slot);
        });
    }

    /// Ends the current session for a reason of this process, and frees its claim; the caller holds
    /// its slot.
    ///
    /// The slot stays locked until the arbiter has answered: a registration that began meanwhile
    /// would find the claim being changed, and be refused. Only calls of the same resource manager
    /// wait, and not for long: one read and at most four writes, each with the timeout of the arbiter.
    async fn end(
        &self,
        current: &mut RwLockWriteGuard<'_, Option<Arc<Session>>>,
        session: &Arc<Session>,
        by: &str,
        end: &StreamEnd,
    ) {
        self.remove(current, session, by, end).await;
        if let Some(claims) = &self.claims {
            claims.free(session.rm_id(), session.number()).await;
        }
    }

    /// Removes the current session; the caller holds its slot.
    pub(super) async fn remove(
        &self,
        current: &mut RwLockWriteGuard<'_, Option<Arc<Session>>>,
        session: &Arc<Session>,
        by: &str,
        end: &StreamEnd,
    ) {
        // Fails only if the scheduler no longer knows the session.
        let _ = self.handle.stop_resource_manager(session.rm_id()).await;
        current.take();
        self.note_ended(session.rm_id());
        self.tombstones().put(session.rm_id().to_owned(), by.to_owned());
        session.stop(end);
    }

    /// Removes the session from the entry of its resource manager, and the entry unless it is
    /// reserved.
    fn note_ended(&self, rm_id: &str) {
        let mut current = self.current();
        let Some(entry) = current.get_mut(rm_id) else { return };
        entry.session = None;
        if entry.n_reserved == 0 {
            current.remove(rm_id);
        }
    }
}
