//! Callers that wait for the end of something that the driver does.
//!
//! # Invariant
//! A caller that goes away leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::locked::locked;

/// Callers by the key for whose end they wait. Ends have a value.
#[derive(Debug)]
pub(super) struct Waiters<K, T>(Mutex<Waiting<K, T>>);

#[derive(Debug)]
struct Waiting<K, T> {
    /// Number of the next caller, which tells callers with one key apart.
    next: u64,
    callers: BTreeMap<(K, u64), oneshot::Sender<T>>,
}

/// A caller that waits.
#[derive(Debug)]
pub(super) struct Waiter<'w, K: Ord, T> {
    waiters: &'w Waiters<K, T>,
    key: (K, u64),
    ended: oneshot::Receiver<T>,
}

impl<K, T> Default for Waiters<K, T> {
    fn default() -> Self {
        Self(Mutex::new(Waiting { next: 0, callers: BTreeMap::new() }))
    }
}

impl<K: Ord + Clone, T: Clone> Waiters<K, T> {
    /// Begins to wait. To be called before the driver is asked.
    pub(super) fn wait(&self, key: K) -> Waiter<'_, K, T> {
        let (done, ended) = oneshot::channel();
        let mut waiting = locked(&self.0);
        let key = (key, waiting.next);
        waiting.next += 1;
        waiting.callers.insert(key.clone(), done);
        drop(waiting);
        Waiter { waiters: self, key, ended }
    }

    /// Passes the value to all callers with this key.
    pub(super) fn end(&self, key: &K, value: &T) {
        let mut waiting = locked(&self.0);
        let of_key = (key.clone(), 0)..=(key.clone(), u64::MAX);
        let ended: Vec<_> = waiting.callers.range(of_key).map(|(key, _)| key.clone()).collect();
        let ended: Vec<_> = ended.iter().filter_map(|key| waiting.callers.remove(key)).collect();
        drop(waiting);
        for done in ended {
            // The caller may have gone.
            let _ = done.send(value.clone());
        }
    }

    /// Ends all waits without a value: the driver has ended.
    pub(super) fn close(&self) {
        locked(&self.0).callers.clear();
    }
}

impl<K: Ord, T> Waiter<'_, K, T> {
    /// Waits for the end. `None`: the driver has ended.
    pub(super) async fn ended(mut self) -> Option<T> {
        (&mut self.ended).await.ok()
    }
}

impl<K: Ord, T> Drop for Waiter<'_, K, T> {
    fn drop(&mut self) {
        locked(&self.waiters.0).callers.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn all_callers_with_the_key_get_the_value() {
        let waiters = Waiters::default();
        let [a, also_a, b] = ["a", "a", "b"].map(|key| waiters.wait(key));
        waiters.end(&"a", &1);
        assert_eq!(a.ended().now_or_never(), Some(Some(1)));
        assert_eq!(also_a.ended().now_or_never(), Some(Some(1)));
        waiters.close();
        assert_eq!(b.ended().now_or_never(), Some(None));
    }

    #[test]
    fn a_caller_that_goes_away_leaves_nothing() {
        let waiters = Waiters::<_, ()>::default();
        drop(waiters.wait("a"));
        let waiter = waiters.wait("a");
        assert_eq!(waiter.ended().now_or_never(), None);
        assert!(locked(&waiters.0).callers.is_empty());
    }
}
