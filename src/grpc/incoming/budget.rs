//! The memory budget of messages between the socket and the scheduler: one pool for streams with a
//! session, a smaller one for all other calls.
//!
//! # Why two pools
//! A call without a session may come from anyone. Such calls compete with each other, and never
//! delay a resource manager that has a session.
//!
//! # Why no message waits for ever
//! Credit is taken as bytes arrive, so that announcing a large message costs nothing. As a result
//! all messages may hold a part of the pool and wait for more. Therefore one message that has
//! waited for a second may exceed the pool; after it the next one may.
//!
//! # Invariants
//! * Small messages need no credit: the windows and the number of streams bound them.
//! * The credit granted never exceeds the pool plus one message of maximum size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Messages up to this size need no credit.
pub(super) const FREE_BYTES: usize = 64 << 10;

/// The wait after which a message may exceed the pool, one at a time.
const BEYOND_AFTER: Duration = Duration::from_secs(1);

/// The longest wait for credit.
const PATIENCE: Duration = Duration::from_secs(30);

/// Credit did not become available in time.
#[derive(Debug)]
pub(super) struct Exhausted;

/// The credit of one class of callers.
#[derive(Debug)]
pub(super) struct Pool {
    bytes: usize,
    credit: Arc<Semaphore>,
    /// The permission to exceed the pool; one permit.
    beyond: Arc<Semaphore>,
    /// Threads that may process large messages of this class at the same time.
    pub(super) workers: Arc<Semaphore>,
    n_waiting: AtomicUsize,
}

/// The pools of both classes.
#[derive(Debug)]
pub(super) struct Budget {
    /// Streams with a session.
    pub(super) bound: Arc<Pool>,
    /// All other calls.
    pub(super) unbound: Arc<Pool>,
}

/// The credit that one message holds; returned on drop.
#[derive(Debug)]
pub(super) struct Credit {
    pool: Arc<Pool>,
    granted: usize,
    permits: Option<OwnedSemaphorePermit>,
    beyond: Option<OwnedSemaphorePermit>,
}

struct Waiting<'p>(&'p Pool);

impl Budget {
    /// Creates pools of these sizes in bytes.
    pub(super) fn new(bound: usize, unbound: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            bound: Arc::new(Pool::new(bound, (cores / 2).max(1))),
            unbound: Arc::new(Pool::new(unbound, 1)),
        }
    }
}

impl Pool {
    fn new(bytes: usize, workers: usize) -> Self {
        let permits = bytes.min(Semaphore::MAX_PERMITS);
        Self {
            bytes,
            credit: Arc::new(Semaphore::new(permits)),
            beyond: Arc::new(Semaphore::new(1)),
            workers: Arc::new(Semaphore::new(workers)),
            n_waiting: AtomicUsize::new(0),
        }
    }

    /// The size of the pool.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether any message waits for credit; if so, slow clients are not tolerated.
    pub(super) fn is_short(&self) -> bool {
        self.n_waiting.load(Ordering::Relaxed) > 0
    }
}

impl Credit {
    /// No credit beyond the free bytes.
    pub(super) fn none(pool: &Arc<Pool>) -> Self {
        Self { pool: Arc::clone(pool), granted: FREE_BYTES, permits: None, beyond: None }
    }

    /// The pool that the credit comes from.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits for credit for a message of `bytes`, counted at most up to the size of the pool.
    pub(super) async fn cover(&mut self, bytes: usize) -> Result<(), Exhausted> {
        // More than the whole pool can never be granted.
        let bytes = bytes.min(self.pool.bytes.saturating_add(FREE_BYTES));
        let Some(missing) = bytes.checked_sub(self.granted).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        if self.beyond.is_none() {
            let pool = Arc::clone(&self.pool);
            let wanted = u32::try_from(missing).unwrap_or(u32::MAX);
            let waiting = async {
                let _waiting = Waiting::at(&pool);
                tokio::select! {
                    biased;
                    permits = Arc::clone(&pool.credit).acquire_many_owned(wanted) => (permits, true),
                    beyond = pool.beyond() => (beyond, false),
                }
            };
            let (permits, is_within) = match Arc::clone(&pool.credit).try_acquire_many_owned(wanted)
            {
                Ok(permits) => (Ok(permits), true),
                Err(_) => timeout(PATIENCE, waiting).await.map_err(|_| Exhausted)?,
            };
            let permits = permits.map_err(|_| Exhausted)?;
            if !is_within {
                self.beyond = Some(permits);
            } else if let Some(held) = &mut self.permits {
                held.merge(permits);
            } else {
                self.permits = Some(permits);
            }
        }
        self.granted = bytes;
        Ok(())
    }
}

impl Pool {
    async fn beyond(&self) -> Result<OwnedSemaphorePermit, tokio::sync::AcquireError> {
        sleep(BEYOND_AFTER).await;
        Arc::clone(&self.beyond).acquire_owned().await
    }
}

impl<'p> Waiting<'p> {
    fn at(pool: &'p Pool) -> Self {
        pool.n_waiting.fetch_add(1, Ordering::Relaxed);
        Self(pool)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.n_waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::Instant;

    use super::*;

    fn pool(bytes: usize) -> Arc<Pool> {
        Arc::new(Pool::new(bytes, 1))
    }

    #[tokio::test(start_paused = true)]
    async fn credit_is_returned_and_small_messages_need_none() {
        let pool = pool(1_000);
        let mut small = Credit::none(&pool);
        small.cover(FREE_BYTES).now_or_never().unwrap().unwrap();
        assert_eq!(pool.credit.available_permits(), 1_000);
        let mut large = Credit::none(&pool);
        large.cover(FREE_BYTES + 400).await.unwrap();
        large.cover(FREE_BYTES + 900).await.unwrap();
        assert_eq!(pool.credit.available_permits(), 100);
        drop(large);
        assert_eq!(pool.credit.available_permits(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_messages_exceed_the_pool_in_turn() {
        let pool = pool(1_000);
        let began = Instant::now();
        let messages = (0..10).map(|_| {
            let pool = Arc::clone(&pool);
            async move {
                let mut credit = Credit::none(&pool);
                credit.cover(FREE_BYTES + 100).await.unwrap();
                sleep(Duration::from_millis(10)).await;
                credit.cover(FREE_BYTES + 1_000).await.unwrap();
            }
        });
        futures::future::join_all(messages).await;
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(pool.credit.available_permits(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_credit_times_out() {
        let pool = pool(1_000);
        let (mut first, mut second) = (Credit::none(&pool), Credit::none(&pool));
        first.cover(FREE_BYTES + 1_000).await.unwrap();
        second.cover(FREE_BYTES + 1_000).await.unwrap();
        assert!(!pool.is_short());
        let mut third = Credit::none(&pool);
        let mut waits = Box::pin(third.cover(FREE_BYTES + 1));
        assert!((&mut waits).now_or_never().is_none());
        assert!(pool.is_short());
        waits.await.unwrap_err();
        assert!(!pool.is_short());
    }
}
