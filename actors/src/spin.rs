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
//! * A thread that was sent nothing for so long sleeps: an idle scheduler uses no CPU.
//! * Where cores are free: not more threads spin at a time than the machine has cores, none where it has
//!   one, and behind each look whoever else wants the core has it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

thread_local! {
    /// How many messages this thread was sent so far, by which the spinner tells that there are new ones.
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
    /// Wakes the spinner of this thread, while it sleeps.
    static SLEEPER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Says that this thread was sent something.
pub(crate) fn received() {
    RECEIVED.set(RECEIVED.get().wrapping_add(1));
    if let Some(waker) = SLEEPER.take() {
        waker.wake();
    }
}

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
    /// So long after the last message; not at all where that is no time.
    pub(crate) fn new(lasts: Duration) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::on(lasts, cores)
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
        let mut seen = RECEIVED.get();
        loop {
            next_message(seen).await;
            let Some(_place) = self.places.take() else {
                seen = RECEIVED.get();
                continue;
            };
            let mut until = Instant::now();
            loop {
                let (received, now) = (RECEIVED.get(), Instant::now());
                if received != seen {
                    (seen, until) = (received, now + self.lasts);
                } else if now >= until {
                    break;
                }
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
        }
    }
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
