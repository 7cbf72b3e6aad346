//! The limits of an edge's connections, and the handling of those beyond the limit.
//!
//! # Why connections beyond the limit are accepted
//! A health probe opens a connection of its own. If no connection were accepted beyond the limit, a
//! client that opens the maximum number of connections would make the service's own watchdogs kill
//! the service. So a few more are accepted. They answer health only, and the oldest of them makes
//! room for the next.
//!
//! # Invariants
//! * The number of open connections never exceeds the limits: served connections, those that answer
//!   health only, and newcomers that have sent nothing yet.
//! * A connection with an open call that counts is never closed to make room. Once all slots are
//!   taken, an idle connection is closed: the oldest that was never used by an authorized caller
//!   or, if there is none, the oldest of all.
//! * Calls that anyone may make do not count, and neither does a call whose message has not
//!   arrived: otherwise a client could keep a slot just by opening one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::locked::locked;

/// The lifetime of a connection that answers health only.
const SPARE_LIFE: Duration = Duration::from_secs(5);

/// The time that a newcomer waits for the slot of a connection being closed.
const MAKING_ROOM: Duration = Duration::from_secs(1);

/// The limits of an edge's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Served connections.
    pub served: usize,
    /// Connections beyond these that answer health only.
    pub spare: usize,
    /// Connections that have sent nothing yet.
    pub newcomers: usize,
    /// The longest time in which a client may receive nothing of the data written to it.
    pub patience: Duration,
}

/// The connection slots of one edge.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    served: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    /// The open connections, oldest first.
    open: Mutex<VecDeque<OpenConnection>>,
}

/// A connection that has a slot.
#[derive(Debug)]
struct OpenConnection {
    is_spare: bool,
    calls: Calls,
    /// Closes the connection; cancelled once it is closed.
    cut: CancellationToken,
}

/// Counts the open calls of a connection. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Usage>);

/// Counts as an open call until it is dropped.
#[derive(Debug)]
pub struct OpenCall(Arc<Usage>);

/// The use of a connection.
#[derive(Debug, Default)]
struct Usage {
    n_open: AtomicUsize,
    /// Whether an authorized caller has used the connection.
    is_authorized: AtomicBool,
}

/// The slot of one connection; returned on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    pub(super) is_spare: bool,
    _permit: OwnedSemaphorePermit,
}

impl Limits {
    /// The default limits with this number of served connections.
    pub fn serving(served: usize) -> Self {
        Self { served, spare: 64, newcomers: 256, patience: Duration::from_secs(30) }
    }

    /// The number of connections that may be open at the same time.
    pub fn in_all(&self) -> usize {
        self.served.saturating_add(self.spare).saturating_add(self.newcomers)
    }

    /// Reduces the limits to this number of descriptors; served connections get most of them.
    #[must_use]
    pub fn within(self, descriptors: usize) -> Self {
        if self.in_all() <= descriptors {
            return self;
        }
        let spare = self.spare.min((descriptors / 6).max(1));
        let newcomers = self.newcomers.min((descriptors / 3).max(1));
        let served = descriptors.saturating_sub(spare + newcomers).clamp(1, self.served);
        Self { served, spare, newcomers, ..self }
    }
}

impl ConnectionSlots {
    pub(super) fn new(limits: Limits) -> Self {
        let slots = |n: usize| Arc::new(Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS)));
        Self { served: slots(limits.served), spare: slots(limits.spare), open: Mutex::default() }
    }

    /// Takes a slot for a connection, which is closed by `cut`. `None` if there is no slot left,
    /// not even for health.
    pub(super) async fn acquire(
        &self,
        cut: &CancellationToken,
        calls: &Calls,
    ) -> Option<ConnectionSlot> {
        let is_full = self.served.available_permits() == 0;
        let is_idle = |open: &OpenConnection| !open.is_spare && open.calls.are_none();
        let is_spare = is_full
            && !self.turn_away(|open| is_idle(open) && !open.calls.is_authorized())
            && !self.turn_away(is_idle);
        let mut slots = &self.served;
        if is_spare {
            slots = &self.spare;
            if self.spare.available_permits() == 0 {
                self.turn_away(|open| open.is_spare);
            }
        }
        let permit = timeout(MAKING_ROOM, Arc::clone(slots).acquire_owned()).await;
        let permit = permit.ok()?.ok()?;
        let open = OpenConnection { is_spare, calls: calls.clone(), cut: cut.clone() };
        locked(&self.open).push_back(open);
        if !is_spare {
            return Some(ConnectionSlot { is_spare, _permit: permit });
        }
        let cut = cut.clone();
        tokio::spawn(async move {
            // The connection has closed, or its time is over.
            let _ = timeout(SPARE_LIFE, cut.cancelled()).await;
            cut.cancel();
        });
        Some(ConnectionSlot { is_spare, _permit: permit })
    }

    /// Closes the oldest connection for which `matches` holds. Returns whether there was one.
    fn turn_away(&self, matches: impl Fn(&OpenConnection) -> bool) -> bool {
        let mut open = locked(&self.open);
        open.retain(|open| !open.cut.is_cancelled());
        let Some(at) = open.iter().position(matches) else { return false };
        if let Some(oldest) = open.remove(at) {
            oldest.cut.cancel();
        }
        true
    }

    /// Drops closed connections from the list.
    pub(super) fn forget_closed(&self) {
        locked(&self.open).retain(|open| !open.cut.is_cancelled());
    }
}

impl Calls {
    /// Counts one more call until the result is dropped.
    pub fn begin(&self) -> OpenCall {
        self.0.n_open.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(&self.0))
    }

    /// Marks the connection as used by an authorized caller.
    pub fn mark_authorized(&self) {
        self.0.is_authorized.store(true, Ordering::Relaxed);
    }

    fn are_none(&self) -> bool {
        self.0.n_open.load(Ordering::Relaxed) == 0
    }

    fn is_authorized(&self) -> bool {
        self.0.is_authorized.load(Ordering::Relaxed)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[test]
    fn limits_shrink_to_the_descriptors() {
        let usual = Limits::serving(1_024);
        assert_eq!(usual.within(10_000), usual);
        let few = usual.within(36);
        assert_eq!((few.served, few.spare, few.newcomers), (18, 6, 12));
        assert_eq!(few.in_all(), 36);
        assert!(usual.within(0).in_all() <= 3, "one each, whatever happens");
    }

    #[tokio::test(start_paused = true)]
    async fn spare_connections_are_short_lived() {
        let slots = ConnectionSlots::new(Limits { served: 1, spare: 2, ..Limits::serving(1) });
        let cuts = [(); 4].map(|()| CancellationToken::new());
        let (busy, idle) = (Calls::default(), Calls::default());
        let _call = busy.begin();
        let served = slots.acquire(&cuts[0], &busy).await.unwrap();
        let first = slots.acquire(&cuts[1], &idle).await.unwrap();
        let second = slots.acquire(&cuts[2], &idle).await.unwrap();
        assert!(!served.is_spare && first.is_spare && second.is_spare);
        let closed = cuts[1].clone();
        tokio::spawn(async move {
            closed.cancelled().await;
            drop(first);
        });
        assert!(slots.acquire(&cuts[3], &idle).await.unwrap().is_spare);
        assert!(cuts[1].is_cancelled() && !cuts[0].is_cancelled() && !cuts[2].is_cancelled());
        let began = Instant::now();
        cuts[2].cancelled().await;
        assert!(began.elapsed() <= SPARE_LIFE);
        sleep(SPARE_LIFE).await;
        assert!(!cuts[0].is_cancelled(), "what is served stays");
        drop(served);
        assert!(!slots.acquire(&CancellationToken::new(), &idle).await.unwrap().is_spare);
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_idle_connection_makes_room() {
        let slots = ConnectionSlots::new(Limits { served: 3, spare: 2, ..Limits::serving(3) });
        let cuts = [(); 4].map(|()| CancellationToken::new());
        let calls = [(); 4].map(|()| Calls::default());
        let _call = calls[0].begin();
        let mut open = Vec::new();
        for (cut, calls) in cuts.iter().zip(&calls).take(3) {
            open.push(slots.acquire(cut, calls).await.unwrap());
        }
        let (closed, idle) = (cuts[1].clone(), open.remove(1));
        tokio::spawn(async move {
            closed.cancelled().await;
            drop(idle);
        });
        assert!(!slots.acquire(&cuts[3], &calls[3]).await.unwrap().is_spare);
        assert_eq!(cuts.map(|cut| cut.is_cancelled()), [false, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn unauthorized_connections_are_closed_first() {
        let slots = ConnectionSlots::new(Limits { served: 2, spare: 2, ..Limits::serving(2) });
        let calls = [(); 2].map(|()| Calls::default());
        calls[0].mark_authorized();
        let mut closed = Vec::new();
        for calls in &calls {
            let cut = CancellationToken::new();
            let slot = slots.acquire(&cut, calls).await.unwrap();
            closed.push(cut.clone());
            tokio::spawn(async move {
                cut.cancelled().await;
                drop(slot);
            });
        }
        for wanted in [[false, true], [true, true]] {
            let next = Calls::default();
            next.mark_authorized();
            let slot = slots.acquire(&CancellationToken::new(), &next).await.unwrap();
            assert!(!slot.is_spare);
            assert_eq!([0, 1].map(|n| closed[n].is_cancelled()), wanted);
            std::mem::forget(slot);
        }
    }
}
