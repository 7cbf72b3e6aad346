//! The threads of all partitions, in bounded number.
//!
//! # Why partitions share threads
//! A thread costs memory and four file descriptors, and a process without free descriptors accepts no
//! connection, not even from a probe. An RM may have as many partitions as its quota allows, so the
//! number of threads is bounded for the process. Beyond the bound, partitions share threads and no
//! partition is refused, not even if an RM registers again while the partitions of its earlier session
//! are still closing. No partition runs on the front's thread: a slow partition delays only the
//! partitions on its own thread.
//!
//! # Invariants
//! * The number of threads never exceeds the bound. The first thread is started with the front.
//! * A thread without partitions is kept for the next one. Starting a thread blocks the front until
//!   the system runs it, and all RMs wait for the front, so an RM that registers in a loop could
//!   delay others. An idle thread costs memory and descriptors, and no processor time.
//! * The first partition of a session gets a thread of its own while the bound allows one more;
//!   other partitions only while half of the threads are free. So an RM with many partitions leaves
//!   threads to other RMs.
//! * A partition without a thread of its own shares a thread with partitions of the same RM if
//!   there is such a thread, otherwise the thread with the fewest partitions.
//! * A thread on which a partition was lost gets no more partitions if there is another thread. When it
//!   is empty it is stopped, together with the remains of the lost partition.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use actix_rt::{Arbiter, ArbiterHandle};
use tokio::sync::oneshot;
use tracing::Span;

use crate::spin::Spin;

/// The threads, shared by all sessions and by all clones.
#[derive(Clone)]
pub(crate) struct PartitionThreads(Rc<RefCell<Pool>>);

/// The seat of a partition on a thread; dropping it frees the seat.
pub(super) struct Seat {
    pool: PartitionThreads,
    thread: u64,
    occupant: Occupant,
}

/// A partition on a thread: its RM, and its name without the RM's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Occupant {
    rm: Arc<str>,
    partition: String,
}

struct Pool {
    most: usize,
    spin: Spin,
    threads_so_far: u64,
    threads: Vec<Thread>,
}

struct Thread {
    number: u64,
    arbiter: Arbiter,
    occupants: Vec<Occupant>,
    /// Whether a partition was lost on it.
    has_losses: bool,
    /// Ends the span in which the thread logs, when it is dropped.
    named: Option<oneshot::Sender<()>>,
}

impl PartitionThreads {
    /// Builds a pool of at most `most` threads, and at least one.
    pub(crate) fn new(most: usize, spin: Spin) -> Self {
        let pool = Pool { most: most.max(1), spin, threads_so_far: 0, threads: Vec::new() };
        Self(Rc::new(RefCell::new(pool)))
    }

    /// Starts the first thread, so that partitions can run even if the system gives no more threads
    /// later.
    pub(crate) fn begin(&self) {
        if let Err(error) = self.0.borrow_mut().start() {
            tracing::error!(%error, "no thread for partitions: they share the front's");
        }
    }

    /// Returns a seat for a partition of the RM, with its thread. `None` if the system has not
    /// given a single thread.
    pub(super) fn seat(
        &self,
        rm: &Arc<str>,
        partition: &str,
        is_first: bool,
    ) -> Option<(Seat, ArbiterHandle)> {
        let partition = monoceros_config::plain_name(partition).to_owned();
        let occupant = Occupant { rm: Arc::clone(rm), partition };
        let mut pool = self.0.borrow_mut();
        let thread = pool.thread_for(rm, is_first)?;
        thread.occupants.push(occupant.clone());
        thread.name();
        let (number, handle) = (thread.number, thread.arbiter.handle());
        Some((Seat { pool: self.clone(), thread: number, occupant }, handle))
    }
}

impl Pool {
    fn thread_for(&mut self, rm: &Arc<str>, is_first: bool) -> Option<&mut Thread> {
        let used = self.threads.iter().filter(|thread| !thread.occupants.is_empty()).count();
        let may_have_own = if is_first { used < self.most } else { 2 * used < self.most };
        if may_have_own {
            let is_free = |thread: &Thread| thread.occupants.is_empty() && !thread.has_losses;
            if let Some(at) = self.threads.iter().position(is_free) {
                return self.threads.get_mut(at);
            }
            if self.threads.len() < self.most {
                match self.start() {
                    Ok(()) => return self.threads.last_mut(),
                    Err(error) => {
                        tracing::warn!(%rm, %error, "no thread of its own: partitions share one");
                    }
                }
            }
        }
        let is_elsewhere =
            |thread: &Thread| !thread.occupants.iter().any(|occupant| occupant.rm == *rm);
        let rank = |thread: &&mut Thread| {
            (thread.has_losses, is_elsewhere(thread), thread.occupants.len(), thread.number)
        };
        self.threads.iter_mut().min_by_key(rank)
    }

    fn start(&mut self) -> std::io::Result<()> {
        let arbiter = Arbiter::try_new()?;
        if let Some(spinner) = self.spin.spinner() {
            arbiter.spawn(spinner);
        }
        let number = self.threads_so_far;
        self.threads_so_far += 1;
        let (occupants, has_losses, named) = (Vec::new(), false, None);
        self.threads.push(Thread { number, arbiter, occupants, has_losses, named });
        Ok(())
    }

    /// Frees the seat of a partition.
    fn leave(&mut self, number: u64, gone: &Occupant) {
        let Some(at) = self.threads.iter().position(|thread| thread.number == number) else {
            debug_assert!(false, "a thread is kept while a partition has a place on it");
            return;
        };
        let thread = &mut self.threads[at];
        let seat = thread.occupants.iter().position(|occupant| occupant == gone);
        debug_assert!(seat.is_some(), "a partition with a place is among the thread's occupants");
        if let Some(seat) = seat {
            thread.occupants.remove(seat);
        }
        if self.threads[at].occupants.is_empty() && self.threads[at].has_losses {
            self.threads.remove(at).arbiter.stop();
        } else {
            self.threads[at].name();
        }
    }
}

impl Thread {
    /// Sets the span of all log lines of the thread: its partition, or if it has several of one RM, the
    /// RM.
    fn name(&mut self) {
        let rms: BTreeSet<&str> = self.occupants.iter().map(|occupant| &*occupant.rm).collect();
        let span = match (&self.occupants[..], rms.first()) {
            ([one], _) => tracing::error_span!("partition", rm = &*one.rm, id = one.partition),
            (_, Some(rm)) if rms.len() == 1 => tracing::error_span!("partition", rm),
            _ => Span::none(),
        };
        let (named, until) = oneshot::channel::<()>();
        // The earlier span ends when its sender is dropped here.
        self.named = Some(named);
        self.arbiter.spawn_fn(move || {
            actix_rt::spawn(async move {
                let _entered = span.entered();
                // The sender never sends.
                let _ = until.await;
            });
        });
    }
}

impl Seat {
    /// Notes that the partition was lost: its remains are still on the thread.
    pub(super) fn was_lost(&self) {
        let mut pool = self.pool.0.borrow_mut();
        if let Some(thread) = pool.threads.iter_mut().find(|it| it.number == self.thread) {
            thread.has_losses = true;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pool.0.borrow_mut().leave(self.thread, &self.occupant);
    }
}

/// Shows the bound, and the number of partitions on each thread.
impl fmt::Debug for PartitionThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = self.0.borrow();
        let loads: Vec<usize> = pool.threads.iter().map(|thread| thread.occupants.len()).collect();
        f.debug_struct("PartitionThreads").field("most", &pool.most).field("loads", &loads).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_rt::System;

    use super::*;

    /// The number of partitions on each thread.
    fn loads(threads: &PartitionThreads) -> Vec<usize> {
        threads.0.borrow().threads.iter().map(|thread| thread.occupants.len()).collect()
    }

    fn seats(threads: &PartitionThreads, rm: &str, n: usize) -> Vec<Seat> {
        let rm = Arc::from(rm);
        let seat = |n| threads.seat(&rm, &format!("[{rm}]p{n}"), n == 0).unwrap().0;
        (0..n).map(seat).collect()
    }

    #[test]
    fn first_partition_of_each_rm_gets_a_thread_of_its_own() {
        System::new().block_on(async {
            let threads = PartitionThreads::new(4, Spin::new(Duration::ZERO));
            threads.begin();
            let greedy = seats(&threads, "greedy", 8);
            assert_eq!(loads(&threads), [4, 4]);
            let others = ["a", "b"].map(|rm| seats(&threads, rm, 2));
            assert_eq!(loads(&threads), [4, 4, 2, 2]);
            let late = seats(&threads, "late", 1);
            assert_eq!(loads(&threads), [4, 4, 3, 2]);
            // The next session of this RM gets seats on the same threads, and the earlier one ends.
            let again = seats(&threads, "greedy", 8);
            assert_eq!(loads(&threads), [8, 8, 3, 2]);
            drop(greedy);
            assert_eq!(loads(&threads), [4, 4, 3, 2]);
            drop((others, late));
            assert_eq!(loads(&threads), [4, 4, 0, 0], "a thread without partitions stays");
            drop(again);
            let next = seats(&threads, "next", 1);
            assert_eq!(loads(&threads), [1, 0, 0, 0], "and is the next one's");
            drop(next);
        });
    }

    #[test]
    fn thread_of_a_lost_partition_is_avoided_and_ends_empty() {
        System::new().block_on(async {
            let threads = PartitionThreads::new(2, Spin::new(Duration::ZERO));
            threads.begin();
            let (lost, other) = (seats(&threads, "lost", 1), seats(&threads, "other", 1));
            lost[0].was_lost();
            let next = seats(&threads, "next", 3);
            assert_eq!(loads(&threads), [1, 4]);
            drop(lost);
            assert_eq!(loads(&threads), [4]);
            drop((other, next));
        });
    }
}
