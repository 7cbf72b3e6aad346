//! Spinning: a thread of the engine polls for messages for a while before it sleeps.
//!
//! # Why
//! Waking a sleeping thread takes longer than deciding an ask, because a halted core has to be started
//! first. A lone ask crosses to the partition's thread and back; if its RM waits for each answer, both
//! threads are asleep before the next ask. A thread that spins need not be woken: it sees the message at
//! its next poll.
//!
//! # Invariants
//! * Threads spin only if that is configured, and only threads of the engine: so never in virtual
//!   time, which would stand still while a thread spins.
//! * A thread sleeps after the configured time without messages: an idle scheduler uses no CPU. Pings of a
//!   watchdog do not count as messages, since they are sent in any case
//!   ([`Receive::MAY_BE_FOLLOWED`](crate::mailbox::Receive::MAY_BE_FOLLOWED)).
//! * At most as many threads spin at a time as the machine has cores, and none on a single core. After
//!   each poll the thread yields its core; if it does not get it back at once, it sleeps.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

/// If a thread gets its core back later than this after a yield, another thread needs the core.
const CROWDED: Duration = Duration::from_micros(50);

/// The time for which the thread does not spin after that: on a busy machine a sleeping thread gets a core when it is
/// woken, and a spinning one has to wait for its turn.
const REST: Duration = Duration::from_millis(10);

thread_local! {
    /// The number of messages that this thread has received, by which the spinner detects new ones.
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
    /// Wakes the spinner of this thread, while it sleeps.
    static SLEEPER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Notes that this thread has received a message that others may follow.
pub(crate) fn received() {
    RECEIVED.set(RECEIVED.get().wrapping_add(1));
    if let Some(waker) = SLEEPER.take() {
        waker.wake();
    }
}

/// Returns the number of such messages.
#[cfg(test)]
pub(crate) fn n_received() -> u64 {
    RECEIVED.get()
}

/// The longest time for which a thread may spin.
pub const SPIN_MAX: Duration = Duration::from_millis(10);

/// The spinning of the threads of a scheduler: its duration, and the number of threads that may
/// spin at the same time. Clones share that number.
#[derive(Clone, Debug)]
pub(crate) struct Spin {
    lasts: Duration,
    places: Arc<Places>,
}

/// The most threads that may spin at the same time, and the number of those that do.
#[derive(Debug)]
struct Places {
    most: usize,
    taken: AtomicUsize,
}

/// The permission of one thread to spin; dropping it frees the permission for another thread.
struct Place<'a>(&'a Places);

impl Spin {
    /// Threads spin for `lasts` after the last message, at most for [`SPIN_MAX`]; zero: not at all.
    pub(crate) fn new(lasts: Duration) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::on(lasts.min(SPIN_MAX), cores)
    }

    /// As [`Self::new`], on a machine with this number of cores.
    fn on(lasts: Duration, cores: usize) -> Self {
        let most = if cores > 1 { cores } else { 0 };
        Self { lasts, places: Arc::new(Places { most, taken: AtomicUsize::new(0) }) }
    }

    /// The task that spins, to be spawned on each thread of the engine. `None` if no thread may spin.
    pub(crate) fn spinner(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let may_spin = !self.lasts.is_zero() && self.places.most > 0;
        may_spin.then(|| self.clone().run())
    }

    async fn run(self) {
        let round = Arc::new(Round::default());
        tokio::spawn(Arc::clone(&round).go_round());
        let (mut seen, mut rests_until) = (RECEIVED.get(), Instant::now());
        loop {
            next_message(seen).await;
            seen = RECEIVED.get();
            if Instant::now() < rests_until {
                continue;
            }
            let Some(_place) = self.places.take() else { continue };
            let mut until = Instant::now() + self.lasts;
            while Instant::now() < until {
                round.turn().await;
                if round.is_crowded() {
                    rests_until = Instant::now() + REST;
                    break;
                }
                if RECEIVED.get() != seen {
                    (seen, until) = (RECEIVED.get(), Instant::now() + self.lasts);
                }
            }
        }
    }
}

/// Polling in rounds of two tasks on one thread: the spinner, inside the `LocalSet` of the actors, and a
/// task outside of it.
///
/// # Why two
/// A sender wakes the thread by a system call, unless the runtime knows that the thread will poll anyway. It
/// knows that while a task of the `LocalSet` has been woken from outside of it. So the outer task wakes the
/// spinner, and yields the core in between: a sender pays for a system call only during the short time in
/// which the actors are being polled.
#[derive(Default)]
struct Round {
    spinner: Mutex<Option<Waker>>,
    outside: Mutex<Option<Waker>>,
    is_crowded: AtomicBool,
}

impl Round {
    /// One round.
    async fn turn(&self) {
        let mut is_over = false;
        poll_fn(|context| {
            if std::mem::replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            *locked(&self.spinner) = Some(context.waker().clone());
            if let Some(outside) = &*locked(&self.outside) {
                outside.wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    /// Whether another thread had the core in the last round.
    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// The outer task.
    async fn go_round(self: Arc<Self>) {
        poll_fn::<(), _>(|context| self.pass(context)).await;
    }

    fn pass(&self, context: &mut Context<'_>) -> Poll<()> {
        *locked(&self.outside) = Some(context.waker().clone());
        if let Some(spinner) = locked(&self.spinner).take() {
            spinner.wake();
            let offered = Instant::now();
            std::thread::yield_now();
            self.is_crowded.store(offered.elapsed() > CROWDED, Ordering::Relaxed);
        }
        Poll::Pending
    }
}

fn locked(waker: &Mutex<Option<Waker>>) -> MutexGuard<'_, Option<Waker>> {
    // No code panics while it holds the lock.
    waker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until this thread has received more messages than `seen`.
async fn next_message(seen: u64) {
    poll_fn(|context| {
        if RECEIVED.get() != seen {
            return Poll::Ready(());
        }
        SLEEPER.set(Some(context.waker().clone()));
        Poll::Pending
    })
    .await;
}

impl Places {
    fn take(&self) -> Option<Place<'_>> {
        let one_more = |taken| (taken < self.most).then_some(taken + 1);
        let took = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        took.is_ok().then_some(Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use super::*;

    const LASTS: Duration = Duration::from_micros(100);
    const NEARLY: Duration = Duration::from_micros(99);

    fn spinning(spin: &Spin) -> usize {
        spin.places.taken.load(Ordering::Acquire)
    }

    async fn turns() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn thread_spins_until_the_time_after_its_last_message() {
        let (local, spin) = (LocalSet::new(), Spin::on(LASTS, 2));
        local
            .run_until(async {
                tokio::task::spawn_local(spin.spinner().unwrap());
                turns().await;
                assert_eq!(spinning(&spin), 0, "there was no message");
                for _ in 0..3 {
                    received();
                    turns().await;
                    assert_eq!(spinning(&spin), 1);
                    tokio::time::advance(NEARLY).await;
                    turns().await;
                    assert_eq!(spinning(&spin), 1);
                }
                tokio::time::advance(Duration::from_micros(1)).await;
                turns().await;
                assert_eq!(spinning(&spin), 0);
                received();
                turns().await;
                assert_eq!(spinning(&spin), 1, "and again");
            })
            .await;
    }

    #[test]
    fn no_thread_spins_by_default_or_on_one_core() {
        assert!(Spin::on(Duration::ZERO, 8).spinner().is_none());
        assert!(Spin::on(LASTS, 1).spinner().is_none());
        assert!(Spin::on(LASTS, 2).spinner().is_some());
    }

    #[test]
    fn spinning_time_is_bounded() {
        assert_eq!(Spin::new(Duration::MAX).lasts, SPIN_MAX);
        assert_eq!(Spin::new(LASTS).lasts, LASTS);
    }

    #[test]
    fn number_of_spinning_threads_is_bounded_by_cores() {
        let Spin { places, .. } = Spin::on(LASTS, 2);
        let first = places.take();
        let second = places.take();
        assert!(first.is_some() && second.is_some() && places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
