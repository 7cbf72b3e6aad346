//! Reads of a record that callers share: of claims, of members and of configurations.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Reads of one record. Each caller gets the result of a read that began after its call. However
/// many call at a time, they wait for two reads at most.
#[derive(Debug)]
pub(super) struct SharedRead<T> {
    /// Number of reads that have begun.
    begun: AtomicU64,
    /// The last result. Locked while a read is in flight.
    last: Mutex<Option<Numbered<T>>>,
}

/// The result of a read. A read with a higher number began after this one had ended.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) result: T,
}

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: Mutex::default() }
    }
}

impl<T: Clone> SharedRead<T> {
    /// Returns the result of a read that begins after this call: one of another caller, or `read`.
    /// If the caller goes away, the next one reads.
    pub(super) async fn get<F: Future<Output = T>>(&self, read: impl FnOnce() -> F) -> Numbered<T> {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.number > begun_before) {
            return last.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let numbered = Numbered { number, result: read().await };
        *last = Some(numbered.clone());
        numbered
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    const READ: Duration = Duration::from_millis(10);

    /// Reads the value that is there when the read begins.
    async fn read(value: &Cell<u32>, n_reads: &Cell<u32>) -> u32 {
        n_reads.set(n_reads.get() + 1);
        let read = value.get();
        sleep(READ).await;
        read
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_share_two_reads() {
        let (shared, value, n_reads) = (SharedRead::default(), Cell::new(1), Cell::new(0));
        let begun = Instant::now();
        let calls = (0..100).map(|_| shared.get(|| read(&value, &n_reads)));
        let results = join_all(calls).await;
        assert!(results.iter().all(|numbered| numbered.result == 1));
        assert_eq!((n_reads.get(), begun.elapsed()), (2, 2 * READ));
    }

    #[tokio::test(start_paused = true)]
    async fn no_caller_gets_a_value_from_before_its_call() {
        let (shared, value, n_reads) = (SharedRead::default(), Cell::new(1), Cell::new(0));
        let late = async {
            sleep(READ / 2).await;
            value.set(2);
            shared.get(|| read(&value, &n_reads)).await
        };
        let (early, late) = tokio::join!(shared.get(|| read(&value, &n_reads)), late);
        assert_eq!((early.result, late.result), (1, 2));
        assert!(early.number < late.number);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_holds_nobody_up() {
        let (shared, value, n_reads) = (SharedRead::default(), Cell::new(1), Cell::new(0));
        let gone = timeout(READ / 2, shared.get(|| read(&value, &n_reads)));
        let (gone, next) = tokio::join!(gone, shared.get(|| read(&value, &n_reads)));
        assert!(gone.is_err());
        assert_eq!(next.result, 1);
    }
}
