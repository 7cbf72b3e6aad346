//! What one stream has to say, until its client takes it.

use std::collections::{HashSet, VecDeque};

use monoceros_proto::callback::v1 as cb;
use monoceros_proto::callback::v1::core_message::Body;
use tokio::time::Instant;

/// Allocations that one cache sync may grow to by joining later ones.
const JOINED: usize = 1_000;

/// Messages that may wait; a shim that lets it come to more takes none at all.
const MOST: usize = 16_384;

/// Messages in order.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    queue: VecDeque<Body>,
    /// Since when some wait and none was taken.
    since: Option<Instant>,
}

impl Outgoing {
    /// Adds a message. A cache sync is joined to the one before it where that comes to the same.
    pub(super) fn push(&mut self, now: Instant, body: Body) {
        self.since.get_or_insert(now);
        if let (Some(Body::CacheSync(last)), Body::CacheSync(next)) = (self.queue.back_mut(), &body)
            && joins(last, next)
        {
            let Body::CacheSync(next) = body else { unreachable!("just matched") };
            last.cache_seq = next.cache_seq;
            if let (Some(args), Some(more)) = (&mut last.args, next.args) {
                args.assumed_allocations.extend(more.assumed_allocations);
                args.forget_allocations.extend(more.forget_allocations);
            }
            return;
        }
        self.queue.push_back(body);
    }

    /// The oldest message.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Body> {
        let body = self.queue.pop_front();
        self.since = if self.queue.is_empty() { None } else { Some(now) };
        body
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Since when some wait and none was taken.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether more wait than is sane.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() > MOST
    }
}

/// Whether one sync of both lists says the same as one after the other.
fn joins(last: &cb::CacheSync, next: &cb::CacheSync) -> bool {
    let (Some(old), Some(new)) = (&last.args, &next.args) else { return false };
    let size = |args: &monoceros_proto::si::v1::ReSyncSchedulerCacheArgs| {
        args.assumed_allocations.len() + args.forget_allocations.len()
    };
    if last.snapshot || next.snapshot || size(old) + size(new) > JOINED {
        return false;
    }
    if old.forget_allocations.is_empty() && new.forget_allocations.is_empty() {
        return true;
    }
    // A key on both sides would lose its order.
    let assumed = old.assumed_allocations.iter().map(|one| &one.allocation_key);
    let forgotten = old.forget_allocations.iter().map(|one| &one.allocation_key);
    let keys: HashSet<&String> = assumed.chain(forgotten).collect();
    let assumed = new.assumed_allocations.iter().map(|one| &one.allocation_key);
    let forgotten = new.forget_allocations.iter().map(|one| &one.allocation_key);
    !assumed.chain(forgotten).any(|key| keys.contains(key))
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;

    use super::*;

    fn sync(cache_seq: u64, assumed: &[&str], forgotten: &[&str]) -> Body {
        let assumed = assumed.iter().map(|key| si::AssumedAllocation {
            allocation_key: (*key).to_owned(),
            ..Default::default()
        });
        let forgotten =
            forgotten.iter().map(|key| si::ForgotAllocation { allocation_key: (*key).to_owned() });
        Body::CacheSync(cb::CacheSync {
            cache_seq,
            args: Some(si::ReSyncSchedulerCacheArgs {
                assumed_allocations: assumed.collect(),
                forget_allocations: forgotten.collect(),
            }),
            ..Default::default()
        })
    }

    fn taken(bodies: Vec<Body>) -> Vec<Body> {
        let mut out = Outgoing::default();
        let now = Instant::now();
        for body in bodies {
            out.push(now, body);
        }
        std::iter::from_fn(|| out.pop(now)).collect()
    }

    #[test]
    fn neighbouring_syncs_become_one_with_the_later_number() {
        let joined = taken(vec![sync(1, &["a"], &[]), sync(2, &["b"], &[]), sync(3, &[], &["c"])]);
        assert_eq!(joined, [sync(3, &["a", "b"], &["c"])]);
    }

    #[test]
    fn a_key_keeps_its_order_and_a_batch_its_place() {
        let apart = vec![sync(1, &["a"], &[]), sync(2, &[], &["a"]), sync(3, &["a"], &[])];
        assert_eq!(taken(apart.clone()), apart);
        let batch = Body::PredicateBatch(cb::PredicateBatch::default());
        let between = vec![sync(1, &["a"], &[]), batch, sync(2, &["b"], &[])];
        assert_eq!(taken(between.clone()), between);
    }
}
