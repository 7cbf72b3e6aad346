//! Reads shared by several requests.
//!
//! # Why
//! If thirty-two dashboards request one list each second, it would be read and encoded thirty-two
//! times a second. Instead only one read of the list is in progress at a time, and requests that
//! arrive during this read wait for the *next* one, together with all others for the same document.
//!
//! After a long read, a pause of three times its duration follows before the same document is read
//! again. So the longest lists together take a quarter of a core, however many clients request them
//! and however often.
//!
//! # Invariants
//! * No answer is older than its question: a read in progress is never joined.
//! * A read that no request waits for any more is cancelled at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::{Instant, sleep_until};

#[cfg(feature = "simulator")]
use super::document::Draft;
use super::document::{Document, Made};
use super::door::{Busy, Door, Kind};

/// The shortest duration of a read after which a pause follows.
const LONG: Duration = Duration::from_millis(20);
/// The pause in multiples of the duration, and its maximum.
const PAUSE: u32 = 3;
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A read whose result all waiting requests share.
type Reading<E> = Shared<BoxFuture<'static, Result<Arc<Document>, E>>>;
type WeakReading<E> = WeakShared<BoxFuture<'static, Result<Arc<Document>, E>>>;

/// Identifies a document: kind, partition (with its RM), and all other parameters that the answer
/// depends on.
type Wanted = (Kind, String, Vec<u8>);

/// The reads of one edge that have not begun. The door limits the reads in progress.
pub(crate) struct Joined<E> {
    door: Door,
    tables: Arc<Mutex<Tables<E>>>,
}

struct Tables<E> {
    waiting: HashMap<Wanted, WeakReading<E>>,
    /// The end of the pause of each document that took long to read.
    pauses: HashMap<Wanted, Instant>,
    /// Documents still held by some client.
    in_hand: HashMap<Wanted, Weak<Document>>,
}

// Not derived, since `E` need not be `Clone`.
impl<E> Clone for Joined<E> {
    fn clone(&self) -> Self {
        Self { door: self.door.clone(), tables: Arc::clone(&self.tables) }
    }
}

// Not derived, since `E` need not be `Debug`.
impl<E> fmt::Debug for Joined<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("door", &self.door).finish_non_exhaustive()
    }
}

impl<E> Joined<E>
where
    E: From<Busy> + Clone + Send + Sync + 'static,
{
    /// Creates a table of reads through this door.
    pub(crate) fn new(door: Door) -> Self {
        let tables =
            Tables { waiting: HashMap::new(), pauses: HashMap::new(), in_hand: HashMap::new() };
        Self { door, tables: Arc::new(Mutex::new(tables)) }
    }

    /// Returns the document of a read that begins after this call. Joins a read of the same
    /// document that has not begun, or starts `read`. `read` gets the previous document if a client
    /// still holds it, and may find that it is unchanged.
    pub(crate) async fn read<F>(
        &self,
        kind: Kind,
        of: &str,
        wanted: impl Into<Vec<u8>>,
        read: impl FnOnce(Option<Arc<Document>>) -> F + Send + 'static,
    ) -> Result<Arc<Document>, E>
    where
        F: Future<Output = Result<Made, E>> + Send + 'static,
    {
        self.reading((kind, of.to_owned(), wanted.into()), read).await
    }

    /// Makes a document that no other request shares.
    #[cfg(feature = "simulator")]
    pub(crate) async fn unshared(&self, draft: Draft) -> Result<Arc<Document>, E> {
        let room = self.door.room(draft.bytes.len()).await?;
        Ok(Arc::new(Document::new(draft, room, self.door.clone())))
    }

    fn reading<F>(
        &self,
        wanted: Wanted,
        read: impl FnOnce(Option<Arc<Document>>) -> F + Send + 'static,
    ) -> Reading<E>
    where
        F: Future<Output = Result<Made, E>> + Send + 'static,
    {
        let mut tables = self.tables();
        if let Some(waiting) = tables.waiting.get(&wanted).and_then(WeakShared::upgrade) {
            return waiting;
        }
        let (this, key) = (self.clone(), wanted.clone());
        let reading = async move {
            let pause = this.tables().pauses.get(&key).copied();
            if let Some(until) = pause {
                sleep_until(until).await;
            }
            let turn = this.door.turn(key.0, &key.1).await;
            // Requests that arrive after this have to wait for the next read.
            let in_hand = {
                let mut tables = this.tables();
                tables.waiting.remove(&key);
                tables.in_hand.get(&key).and_then(Weak::upgrade)
            };
            let turn = turn?;
            let began = Instant::now();
            let draft = match read(in_hand).await? {
                Made::InHand(document) => return Ok(document),
                Made::New(draft) => draft,
            };
            drop(turn);
            this.tables().rest_after(&key, began.elapsed());
            let room = this.door.room(draft.bytes.len()).await?;
            let document = Arc::new(Document::new(draft, room, this.door.clone()));
            let mut tables = this.tables();
            tables.in_hand.retain(|_, document| document.strong_count() > 0);
            tables.in_hand.insert(key, Arc::downgrade(&document));
            drop(tables);
            Ok(document)
        };
        let reading = reading.boxed().shared();
        // Drops reads that all requests have abandoned.
        tables.waiting.retain(|_, waiting| waiting.upgrade().is_some());
        let weak = reading.downgrade().expect("a reading that was never asked is not over");
        tables.waiting.insert(wanted, weak);
        reading
    }

    fn tables(&self) -> MutexGuard<'_, Tables<E>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> Tables<E> {
    /// Starts a pause after a long read.
    fn rest_after(&mut self, wanted: &Wanted, took: Duration) {
        if took < LONG {
            return;
        }
        let now = Instant::now();
        self.pauses.retain(|_, until| *until > now);
        self.pauses.insert(wanted.clone(), now + took.saturating_mul(PAUSE).min(PAUSE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::poll;
    use tokio::sync::Semaphore;

    #[cfg(not(feature = "simulator"))]
    use super::super::document::Draft;
    use super::*;

    /// Counts reads when they begin. A read ends when the test lets it.
    struct Source {
        joined: Joined<Busy>,
        begun: Arc<AtomicU32>,
        ends: Arc<Semaphore>,
    }

    impl Source {
        fn new() -> Self {
            let ends = Arc::new(Semaphore::new(0));
            Self { ends, joined: Joined::new(Door::new(1 << 20)), begun: Arc::default() }
        }

        fn read(&self, kind: Kind, wanted: &str) -> Reading<Busy> {
            let (begun, ends) = (Arc::clone(&self.begun), Arc::clone(&self.ends));
            let wanted = (kind, "p".to_owned(), wanted.into());
            self.joined.reading(wanted, move |_| async move {
                let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                ends.acquire().await.unwrap().forget();
                Ok(Draft::of(number.to_string().into_bytes()).into())
            })
        }
    }

    async fn number(reading: Reading<Busy>) -> String {
        String::from_utf8(reading.await.unwrap().bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn requests_during_a_read_share_the_next() {
        let source = Source::new();
        let mut first = source.read(Kind::Nodes, "all");
        assert!(poll!(&mut first).is_pending());
        let mut late = [source.read(Kind::Nodes, "all"), source.read(Kind::Nodes, "all")];
        for late in &mut late {
            assert!(poll!(late).is_pending());
        }
        assert_eq!(source.begun.load(Ordering::SeqCst), 1, "one is under way at a time");
        source.ends.add_permits(2);
        assert_eq!(number(first).await, "1");
        for late in late {
            assert_eq!(number(late).await, "2", "it began after they had asked, once for both");
        }
    }

    /// Reads the first document, then the second, where each read takes `takes`. Returns the
    /// duration of the second, with its wait.
    async fn after_one_of(takes: Duration, wanted: [&'static str; 2]) -> Duration {
        let joined: Joined<Busy> = Joined::new(Door::new(1 << 20));
        let read = |wanted: &'static str| {
            joined.read(Kind::Nodes, "p", wanted, move |_| async move {
                tokio::time::sleep(takes).await;
                Ok(Draft::of(wanted.into()).into())
            })
        };
        read(wanted[0]).await.unwrap();
        let began = Instant::now();
        if takes < LONG || wanted[0] != wanted[1] {
            read(wanted[1]).await.unwrap();
        } else {
            let both = futures::join!(read(wanted[1]), read(wanted[1]));
            assert!(Arc::ptr_eq(&both.0.unwrap(), &both.1.unwrap()), "both have waited");
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn pause_follows_a_long_read() {
        let all = ["all", "all"];
        for (takes, wanted, expected) in
            [(10, all, 10), (40, all, 160), (900, all, 1_900), (900, ["all", "page"], 900)]
        {
            let took = after_one_of(Duration::from_millis(takes), wanted).await;
            // A timer may be some milliseconds late.
            let late = took.checked_sub(Duration::from_millis(expected));
            let is_it = late.is_some_and(|late| late < Duration::from_millis(10));
            assert!(is_it, "{took:?} after one of {takes} ms");
        }
    }

    #[tokio::test]
    async fn requests_before_the_start_share_a_read() {
        let source = Source::new();
        let [one, other] = [source.read(Kind::Nodes, "all"), source.read(Kind::Nodes, "all")];
        source.ends.add_permits(1);
        let [one, other] = [one.await.unwrap(), other.await.unwrap()];
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[tokio::test]
    async fn abandoned_read_is_cancelled() {
        let source = Source::new();
        let mut left = source.read(Kind::Nodes, "all");
        assert!(poll!(&mut left).is_pending());
        let next = source.read(Kind::Nodes, "all");
        let never_begun = source.read(Kind::Nodes, "page");
        drop((left, never_begun));
        source.ends.add_permits(2);
        assert_eq!(number(next).await, "2");
        assert_eq!(number(source.read(Kind::Nodes, "page")).await, "3");
    }

    #[tokio::test]
    async fn kinds_take_turns_independently() {
        let source = Source::new();
        let other_edge = Source {
            joined: Joined::new(source.joined.door.clone()),
            begun: Arc::clone(&source.begun),
            ends: Arc::clone(&source.ends),
        };
        let mut page = source.read(Kind::Nodes, "page 1");
        let mut other_page = other_edge.read(Kind::Nodes, "page 2");
        let mut queues = source.read(Kind::Queues, "all");
        assert!(poll!(&mut page).is_pending());
        assert!(poll!(&mut other_page).is_pending());
        assert!(poll!(&mut queues).is_pending());
        assert_eq!(source.begun.load(Ordering::SeqCst), 2);
        source.ends.add_permits(3);
        let numbers = futures::join!(number(page), number(queues), number(other_page));
        assert_eq!(numbers, ("1".to_owned(), "2".to_owned(), "3".to_owned()));
    }

    #[tokio::test]
    async fn held_document_is_offered_to_the_next_read() {
        let joined: Joined<Busy> = Joined::new(Door::new(1 << 20));
        let read = || {
            joined.read(Kind::Nodes, "p", "all", |in_hand| async move {
                let new = || Draft::of(b"n".to_vec()).into();
                Ok(in_hand.map_or_else(new, Made::InHand))
            })
        };
        let first = read().await.unwrap();
        let bytes = first.bytes();
        let address = Arc::as_ptr(&first);
        drop(first);
        assert_eq!(Arc::as_ptr(&read().await.unwrap()), address, "somebody has its bytes");
        drop(bytes);
        assert!(joined.tables().in_hand.values().all(|weak| weak.strong_count() == 0));
    }
}
