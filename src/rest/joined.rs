//! Readings that several requests share.
//!
//! # Why
//! Thirty-two dashboards that ask for one list each second would have it read, and made into JSON,
//! thirty-two times. Instead one reading of it is under way at a time. Who asks meanwhile waits for
//! the *next* one, together with everybody else who does.
//!
//! # Invariants
//! * Nobody gets an answer that is older than the question: a reading that has begun is joined by
//!   nobody.
//! * Of one subject (such as the nodes of a partition) one reading is under way at a time, whatever
//!   part of it is wanted. So memory for readings is bounded by the number of subjects.
//! * A reading that nobody waits for any more ends at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};

/// A reading with an answer for all who wait for it.
type Reading<T> = Shared<BoxFuture<'static, T>>;

/// The right to read a subject: one reading holds it at a time.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// The readings that have not begun, and those that are under way.
pub(super) struct Joined<T>(Arc<Mutex<Tables<T>>>);

struct Tables<T> {
    /// What is to be read next, by what is wanted.
    waiting: HashMap<String, WeakShared<BoxFuture<'static, T>>>,
    turns: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
}

/// Not derived, because an answer need have nothing of its own.
impl<T> Clone for Joined<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// As [`Clone`].
impl<T> Default for Joined<T> {
    fn default() -> Self {
        let tables = Tables { waiting: HashMap::new(), turns: HashMap::new() };
        Self(Arc::new(Mutex::new(tables)))
    }
}

/// As [`Clone`].
impl<T> fmt::Debug for Joined<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> Joined<T> {
    /// The answer of a reading of `wanted` that begins after this call. It is begun by `read`,
    /// unless another one waits to begin already.
    pub(super) async fn read<F>(
        &self,
        subject: &str,
        wanted: &str,
        read: impl FnOnce() -> F + Send + 'static,
    ) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.reading(subject, wanted, read).await
    }

    fn reading<F>(
        &self,
        subject: &str,
        wanted: &str,
        read: impl FnOnce() -> F + Send + 'static,
    ) -> Reading<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut tables = self.tables();
        if let Some(waiting) = tables.waiting.get(wanted).and_then(WeakShared::upgrade) {
            return waiting;
        }
        let turn = tables.turn(subject);
        let (this, key) = (self.clone(), wanted.to_owned());
        let reading = async move {
            let _turn = turn.lock_owned().await;
            // From here on others have to wait for the next one.
            this.tables().waiting.remove(&key);
            read().await
        };
        let reading = reading.boxed().shared();
        // Those that everybody has left go when others come.
        tables.waiting.retain(|_, waiting| waiting.upgrade().is_some());
        let weak = reading.downgrade().expect("a reading that was never asked is not over");
        tables.waiting.insert(wanted.to_owned(), weak);
        reading
    }

    fn tables(&self) -> MutexGuard<'_, Tables<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Tables<T> {
    fn turn(&mut self, subject: &str) -> Turn {
        if let Some(turn) = self.turns.get(subject).and_then(Weak::upgrade) {
            return turn;
        }
        self.turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Turn::default();
        self.turns.insert(subject.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::poll;
    use tokio::sync::Semaphore;

    use super::*;

    /// Readings that are counted when they begin, and end when they are let.
    struct Source {
        joined: Joined<u32>,
        begun: Arc<AtomicU32>,
        ends: Arc<Semaphore>,
    }

    impl Source {
        fn new() -> Self {
            let ends = Arc::new(Semaphore::new(0));
            Self { ends, joined: Joined::default(), begun: Arc::default() }
        }

        fn read(&self, subject: &str, wanted: &str) -> Reading<u32> {
            let (begun, ends) = (Arc::clone(&self.begun), Arc::clone(&self.ends));
            self.joined.reading(subject, wanted, move || async move {
                let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                ends.acquire().await.unwrap().forget();
                number
            })
        }
    }

    #[tokio::test]
    async fn who_comes_while_a_reading_is_under_way_shares_the_next() {
        let source = Source::new();
        let mut first = source.read("nodes", "all");
        assert!(poll!(&mut first).is_pending());
        let mut late = [source.read("nodes", "all"), source.read("nodes", "all")];
        for late in &mut late {
            assert!(poll!(late).is_pending());
        }
        assert_eq!(source.begun.load(Ordering::SeqCst), 1, "one is under way at a time");
        source.ends.add_permits(2);
        assert_eq!(first.await, 1);
        for late in late {
            assert_eq!(late.await, 2, "it began after they had asked, once for both");
        }
    }

    #[tokio::test]
    async fn those_who_ask_before_it_begins_share_one() {
        let source = Source::new();
        let [one, other] = [source.read("nodes", "all"), source.read("nodes", "all")];
        source.ends.add_permits(1);
        assert_eq!(futures::join!(one, other), (1, 1));
    }

    #[tokio::test]
    async fn a_reading_that_everybody_has_left_ends_and_the_next_one_begins() {
        let source = Source::new();
        let mut left = source.read("nodes", "all");
        assert!(poll!(&mut left).is_pending());
        let next = source.read("nodes", "all");
        let never_begun = source.read("nodes", "page");
        drop((left, never_begun));
        source.ends.add_permits(2);
        assert_eq!(next.await, 2);
        assert_eq!(source.read("nodes", "page").await, 3);
    }

    #[tokio::test]
    async fn parts_of_one_subject_take_turns_and_other_subjects_do_not_wait() {
        let source = Source::new();
        let mut page = source.read("nodes", "page 1");
        let mut other_page = source.read("nodes", "page 2");
        let mut queues = source.read("queues", "all");
        assert!(poll!(&mut page).is_pending());
        assert!(poll!(&mut other_page).is_pending());
        assert!(poll!(&mut queues).is_pending());
        assert_eq!(source.begun.load(Ordering::SeqCst), 2);
        source.ends.add_permits(3);
        assert_eq!(futures::join!(page, queues, other_page), (1, 2, 3));
    }
}
