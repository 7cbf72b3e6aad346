//! The queue of messages to the shim.
//!
//! Consecutive queued cache syncs are joined, so that a shim that is behind receives few large
//! messages. If the queue exceeds its limit, it is dropped as a whole and the stream ends: a stream
//! with a gap would be taken for complete.

use std::collections::{HashSet, VecDeque};

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use prost::Message;
use tokio::time::Instant;

/// Most allocations of a joined cache sync.
const JOINED: usize = 1_000;

/// Most queued messages; a shim that lets more queue up receives none at all.
const MOST: usize = 16_384;

/// Maximum overhead of an item in a message: its tag and length, and those of the list.
pub(super) const ITEM_OVERHEAD_BYTES: usize = 8;

/// The queue.
#[derive(Debug)]
pub(super) struct Outgoing {
    queue: VecDeque<Body>,
    /// The time since which messages are queued and none was taken.
    since: Option<Instant>,
    /// Maximum size of a message.
    max_bytes: usize,
    /// The size of the last message if it is a cache sync, otherwise 0.
    sync_bytes: usize,
    overflowed: bool,
}

/// Splits items into portions that fit one message; an item that fits none gets its own.
pub(super) fn portions<T: Message>(
    items: Vec<T>,
    most: usize,
    max_bytes: usize,
) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = items.next()?;
        let mut bytes = first.encoded_len() + ITEM_OVERHEAD_BYTES;
        let mut portion = vec![first];
        while portion.len() < most
            && let Some(item) =
                items.next_if(|item| bytes + item.encoded_len() + ITEM_OVERHEAD_BYTES <= max_bytes)
        {
            bytes += item.encoded_len() + ITEM_OVERHEAD_BYTES;
            portion.push(item);
        }
        Some(portion)
    })
}

impl Outgoing {
    /// Creates an empty queue.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { queue: VecDeque::new(), since: None, max_bytes, sync_bytes: 0, overflowed: false }
    }

    /// Queues a message. A cache sync is joined to the previous one if that is equivalent. If the
    /// limit is exceeded the queue is dropped, and nothing is queued from then on.
    pub(super) fn push(&mut self, now: Instant, body: Body) {
        if self.overflowed {
            return;
        }
        self.since.get_or_insert(now);
        let body = match body {
            Body::CacheSync(sync) => match self.join(sync) {
                Some(sync) => Body::CacheSync(sync),
                None => return,
            },
            other => other,
        };
        if self.queue.len() == MOST {
            self.overflowed = true;
            self.queue = VecDeque::new();
            return;
        }
        self.sync_bytes = match &body {
            Body::CacheSync(sync) => sync.encoded_len(),
            _ => 0,
        };
        self.queue.push_back(body);
    }

    /// Joins a cache sync to the last message, or returns it.
    fn join(&mut self, next: cb::CacheSync) -> Option<cb::CacheSync> {
        let bytes = self.sync_bytes + next.encoded_len();
        let Some(Body::CacheSync(last)) = self.queue.back_mut() else { return Some(next) };
        if bytes > self.max_bytes || !joins(last, &next) {
            return Some(next);
        }
        self.sync_bytes = bytes;
        last.cache_seq = next.cache_seq;
        if let (Some(args), Some(more)) = (&mut last.args, next.args) {
            args.assumed_allocations.extend(more.assumed_allocations);
            args.forget_allocations.extend(more.forget_allocations);
        }
        None
    }

    /// Takes the oldest message.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Body> {
        let body = self.queue.pop_front();
        self.since = if self.queue.is_empty() { None } else { Some(now) };
        body
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the time since which messages are queued and none was taken.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether the queue has exceeded its limit.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed
    }
}

/// Whether one sync of both lists is equivalent to the two in order.
fn joins(last: &cb::CacheSync, next: &cb::CacheSync) -> bool {
    let (Some(old), Some(new)) = (&last.args, &next.args) else { return false };
    let size =
        |args: &cb::CacheSyncArgs| args.assumed_allocations.len() + args.forget_allocations.len();
    if last.snapshot || next.snapshot || size(old) + size(new) > JOINED {
        return false;
    }
    if old.forget_allocations.is_empty() && new.forget_allocations.is_empty() {
        return true;
    }
    // If both syncs name a request, the order of its changes would be lost.
    let before: HashSet<_> = requests(old).collect();
    !requests(new).any(|request| before.contains(&request))
}

/// The requests named by a sync, by application and key.
fn requests(args: &cb::CacheSyncArgs) -> impl Iterator<Item = (&str, &str)> {
    let assumed = args.assumed_allocations.iter();
    let assumed = assumed.map(|one| (&*one.application_id, &*one.allocation_key));
    let forgotten = args.forget_allocations.iter();
    assumed.chain(forgotten.map(|one| (&*one.application_id, &*one.allocation_key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(cache_seq: u64, assumed: &[&str], forgotten: &[&str]) -> Body {
        let assumed = assumed.iter().map(|key| cb::AssumedAllocation {
            allocation_key: (*key).to_owned(),
            ..Default::default()
        });
        let forgotten = forgotten.iter().map(|key| cb::ForgotAllocation {
            allocation_key: (*key).to_owned(),
            ..Default::default()
        });
        Body::CacheSync(cb::CacheSync {
            cache_seq,
            args: Some(cb::CacheSyncArgs {
                assumed_allocations: assumed.collect(),
                forget_allocations: forgotten.collect(),
            }),
            ..Default::default()
        })
    }

    fn taken(bodies: Vec<Body>) -> Vec<Body> {
        let mut out = Outgoing::new(1_000);
        let now = Instant::now();
        for body in bodies {
            out.push(now, body);
        }
        std::iter::from_fn(|| out.pop(now)).collect()
    }

    #[test]
    fn consecutive_syncs_are_joined() {
        let joined = taken(vec![sync(1, &["a"], &[]), sync(2, &["b"], &[]), sync(3, &[], &["c"])]);
        assert_eq!(joined, [sync(3, &["a", "b"], &["c"])]);
    }

    #[test]
    fn joined_syncs_respect_the_message_limit() {
        let key = "k".repeat(300);
        let syncs = (1..=7).map(|seq| sync(seq, &[&key], &[])).collect();
        let joined = taken(syncs);
        let size = |body: &Body| cb::CoreMessage { body: Some(body.clone()) }.encoded_len();
        assert!(joined.iter().all(|body| size(body) <= 1_000 + ITEM_OVERHEAD_BYTES));
        assert_eq!(joined.len(), 3);
    }

    #[test]
    fn long_lists_are_split() {
        let node = |bytes: usize| cb::ForgotAllocation {
            allocation_key: "k".repeat(bytes),
            ..Default::default()
        };
        let items = vec![node(30), node(40), node(200), node(1), node(2), node(3), node(4)];
        let sizes = |most| -> Vec<usize> {
            portions(items.clone(), most, 100).map(|portion| portion.len()).collect()
        };
        assert_eq!(sizes(9), [2, 1, 4]);
        assert_eq!(sizes(2), [2, 1, 2, 2]);
        assert_eq!(portions(Vec::<cb::ForgotAllocation>::new(), 9, 100).count(), 0);
    }

    #[test]
    fn overflow_drops_the_queue() {
        let mut out = Outgoing::new(1_000);
        let now = Instant::now();
        for _ in 0..MOST {
            out.push(now, Body::PredicateBatch(cb::PredicateBatch::default()));
        }
        assert!(!out.has_overflowed());
        for _ in 0..2 {
            out.push(now, Body::PredicateBatch(cb::PredicateBatch::default()));
            assert!(out.has_overflowed() && out.is_empty());
        }
    }

    #[test]
    fn joining_keeps_order() {
        let apart = vec![sync(1, &["a"], &[]), sync(2, &[], &["a"]), sync(3, &["a"], &[])];
        assert_eq!(taken(apart.clone()), apart);
        let batch = Body::PredicateBatch(cb::PredicateBatch::default());
        let between = vec![sync(1, &["a"], &[]), batch, sync(2, &["b"], &[])];
        assert_eq!(taken(between.clone()), between);
    }
}
