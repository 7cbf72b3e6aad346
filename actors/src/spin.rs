//! How long a thread of the engine looks out for more before it sleeps.
//!
//! # Why
//! To wake a thread that sleeps takes longer than to decide an ask: a core that has halted has to be
//! started first. An ask that comes alone crosses to the partition's thread and back, and where its RM
//! waits for each answer both threads have gone to sleep before the next. A thread that spins is not
//! woken: it sees the message when it looks next.
//!
//! # Invariants
//! * Nothing spins unless it is set, nor on threads that are not the engine's own: so never in virtual
//!   time, which stands still meanwhile.
//! * A thread that was sent nothing for so long sleeps: an idle scheduler uses no CPU. The questions of a
//!   watchdog, which come whether anything happens or not, do not count
//!   ([`Receive::MAY_BE_FOLLOWED`](crate::mailbox::Receive::MAY_BE_FOLLOWED)).
//! * Where cores are free: not more threads spin at a time than the machine has cores, and none where it
//!   has one. Behind each look the core is offered to others, and a thread that does not have it back at
//!   once sleeps.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

/// A core that was offered and is not back after this time is wanted by somebody else.
const CROWDED: Duration = Duration::from_micros(50);

/// For how long the thread does not spin then: who sleeps gets a core when it is woken, and who spins in a
/// crowd has to wait for its turn.
const REST: Duration = Duration::from_millis(10);

thread_local! {
    /// How many messages this thread was sent so far, by which the spinner tells that there are new ones.
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
    /// Wakes the spinner of this thread, while it sleeps.
    static SLEEPER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Says that this thread was sent something that more may follow.
pub(crate) fn received() {
    RECEIVED.set(RECEIVED.get().wrapping_add(1));
    if let Some(waker) = SLEEPER.take() {
        waker.wake();
    }
}

/// How many messages this thread was sent so far that more may follow.
#[cfg(test)]
pub(crate) fn n_received() -> u64 {
    RECEIVED.get()
}

/// The longest that a thread may look out for more.
pub const SPIN_MAX: Duration = Duration::from_millis(10);

/// For how long the threads of a scheduler spin, and how many of them may. Clones share the places.
#[derive(Clone, Debug)]
pub(crate) struct Spin {
    lasts: Duration,
    places: Arc<Places>,
}

/// The places of threads that spin at the same time.
#[derive(Debug)]
struct Places {
    most: usize,
    taken: AtomicUsize,
}

/// The place of a thread that spins, until it is dropped.
struct Place<'a>(&'a Places);

impl Spin {
    /// So long after the last message, and for [`SPIN_MAX`] at most; not at all where that is no time.
    pub(crate) fn new(lasts: Duration) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::on(lasts.min(SPIN_MAX), cores)
    }

    /// On a machine with so many cores.
    fn on(lasts: Duration, cores: usize) -> Self {
        let most = if cores > 1 { cores } else { 0 };
        Self { lasts, places: Arc::new(Places { most, taken: AtomicUsize::new(0) }) }
    }

    /// What spins on a thread of the engine; nothing where no thread may. To be spawned there.
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

/// One look after another, each of which is a round of two tasks: the spinner among the actors, and one
/// outside of them, on the same thread.
///
/// # Why two
/// A thread that is sent something is woken by a system call of the sender, unless the runtime knows that
/// it will look by itself. It knows while a task among the actors has been woken from outside of them. So
/// the spinner has the other one wake it, which offers the core to others meanwhile: a sender pays for
/// the wake-up only in the short time in which the actors are being looked at.
#[derive(Default)]
struct Round {
    spinner: Mutex<Option<Waker>>,
    outside: Mutex<Option<Waker>>,
    is_crowded: AtomicBool,
}

impl Round {
    /// One look.
    async fn turn(&self) {
        let mut is_over = false;
        poll_fn(|context| {
            if std::mem::replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            *look(&self.spinner) = Some(context.waker().clone());
            if let Some(outside) = &*look(&self.outside) {
                outside.wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    /// Whether somebody else had the core in the last turn.
    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// The task outside.
    async fn go_round(self: Arc<Self>) {
        poll_fn::<(), _>(|context| self.pass(context)).await;
    }

    fn pass(&self, context: &mut Context<'_>) -> Poll<()> {
        *look(&self.outside) = Some(context.waker().clone());
        if let Some(spinner) = look(&self.spinner).take() {
            spinner.wake();
            let offered = Instant::now();
            std::thread::yield_now();
            self.is_crowded.store(offered.elapsed() > CROWDED, Ordering::Relaxed);
        }
        Poll::Pending
    }
}

fn look(waker: &Mutex<Option<Waker>>) -> MutexGuard<'_, Option<Waker>> {
    // Whoever panics holds nothing half done.
    waker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until this thread is sent something more than so many messages.
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
    async fn a_thread_spins_from_a_message_until_so_long_after_the_last() {
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
    fn nothing_spins_unless_it_is_set_nor_on_a_single_core() {
        assert!(Spin::on(Duration::ZERO, 8).spinner().is_none());
        assert!(Spin::on(LASTS, 1).spinner().is_none());
        assert!(Spin::on(LASTS, 2).spinner().is_some());
    }

    #[test]
    fn no_thread_spins_for_longer_than_it_may() {
        assert_eq!(Spin::new(Duration::MAX).lasts, SPIN_MAX);
        assert_eq!(Spin::new(LASTS).lasts, LASTS);
    }

    #[test]
    fn no_more_threads_spin_than_there_are_cores() {
        let Spin { places, .. } = Spin::on(LASTS, 2);
        let first = places.take();
        let second = places.take();
        assert!(first.is_some() && second.is_some() && places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
