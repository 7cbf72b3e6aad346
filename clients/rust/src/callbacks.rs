//! The callback stream, on which the scheduler evaluates predicates and reports its decisions.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body as Message;
use monoceros_proto::v1::shim_message::Body as Reply;
use tokio::sync::Notify;

/// Callbacks of a shim. The client calls them one at a time, in order, on a task of its own.
pub trait Callbacks: Send + Sync + 'static {
    /// Capabilities of the stream. Defaults to [`cb::Capability::Predicates`].
    fn capabilities(&self) -> Vec<cb::Capability> {
        vec![cb::Capability::Predicates]
    }

    /// Further fields of Hello. The client fills in the ids and the capabilities afterwards.
    fn hello(&self) -> cb::Hello {
        cb::Hello::default()
    }

    /// Evaluates the predicates of `query`'s request on `node`.
    fn fits(&self, query: &cb::PredicateQuery, node: &str) -> Fit;

    /// Returns the scope of an answer to `query`: what the answer depends on. Defaults to
    /// allocations on any node. A narrower scope lets the scheduler decide more requests at once.
    fn scope(&self, query: &cb::PredicateQuery) -> cb::Scope {
        let _ = query;
        cb::Scope::Topology
    }

    /// Returns the topics, numbers of your own choice, that the answer to `query` depends on
    /// besides its own node, and those that the request affects on other nodes. Used with
    /// [`cb::Scope::Topology`] and the capability [`cb::Capability::CacheSync`]. `None` means all
    /// topics.
    fn elsewhere(&self, query: &cb::PredicateQuery) -> Option<cb::Elsewhere> {
        let _ = query;
        None
    }

    /// Applies placements, before they are reported elsewhere, and removals to the shim's cache
    /// (capability [`cb::Capability::CacheSync`]). Returns the placements that cannot be assumed.
    fn assume(&self, sync: &cb::CacheSync) -> Vec<cb::CacheSyncFailure> {
        let _ = sync;
        Vec::new()
    }

    /// Notes that the request of `query` has passed on `node` and the scheduler takes this node as
    /// its placement. It counts from now on, and no [`Self::assume`] follows. If the placement is
    /// withdrawn, a sync reports that.
    fn assumed(&self, query: &cb::PredicateQuery, node: &str) {
        let _ = (query, node);
    }

    /// Receives the members of a declared gang that are decided together: the places found so far
    /// for the other members, each with the name of its node if that is known.
    fn members(&self, bundle: &cb::BundlePlaces, nodes: &[Option<&str>]) {
        let _ = (bundle, nodes);
    }

    /// Receives events (capability [`cb::Capability::Events`]).
    fn events(&self, batch: cb::EventBatch) {
        let _ = batch;
    }

    /// Handles any other message; returns the answer, if there is one.
    fn other(&self, message: cb::core_message::Body) -> Option<cb::shim_message::Body> {
        let _ = message;
        None
    }
}

/// The result of a predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The request may run on the node.
    Yes,
    /// The request may not run on the node; the text is the reason.
    No(String),
}

/// A pending invalidation: earlier answers may be wrong, and the scheduler has to be notified. It
/// is repeated on each new stream, because an old stream may have lost it.
#[derive(Debug, Default)]
pub(crate) struct Invalid {
    was_requested: AtomicBool,
    wake: Notify,
}

impl Invalid {
    /// Requests an invalidation.
    pub(crate) fn request(&self) {
        self.was_requested.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Repeats an earlier invalidation on a new stream.
    pub(crate) fn begin_stream(&self) {
        if self.was_requested.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Waits for an invalidation and returns its message. Several requests in the meantime give one
    /// message.
    pub(crate) async fn requested(&self) -> cb::ShimMessage {
        self.wake.notified().await;
        let invalidate = cb::Invalidate { all: true, ..Default::default() };
        cb::ShimMessage { body: Some(Reply::Invalidate(invalidate)) }
    }
}

/// State of one callback stream.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    /// Names of the nodes by the scheduler's numbers.
    dictionary: HashMap<u32, String>,
    /// Whether the scheduler waits for an acknowledgement of each sync.
    confirms: bool,
}

/// Number of events that the scheduler may send before it receives more credit.
const EVENT_CREDIT: u32 = 1_000;

impl Listener {
    /// Builds the first message of a stream.
    pub(crate) fn hello(
        &mut self,
        callbacks: &dyn Callbacks,
        rm_id: &str,
        session_id: u64,
    ) -> cb::ShimMessage {
        let capabilities = callbacks.capabilities();
        let mut hello = cb::Hello {
            rm_id: rm_id.to_owned(),
            session_id,
            capabilities: capabilities.into_iter().map(Into::into).collect(),
            ..callbacks.hello()
        };
        if hello.initial_event_credit == 0 {
            hello.initial_event_credit = EVENT_CREDIT;
        }
        self.confirms = hello.confirm_assume;
        cb::ShimMessage { body: Some(Reply::Hello(hello)) }
    }

    /// Handles a message. Returns the answer, if there is one.
    pub(crate) fn answer(
        &mut self,
        callbacks: &dyn Callbacks,
        message: cb::CoreMessage,
    ) -> Option<cb::ShimMessage> {
        let reply = match message.body? {
            Message::NodeDictionary(change) => {
                if change.reset {
                    self.dictionary.clear();
                }
                for index in change.remove {
                    self.dictionary.remove(&index);
                }
                let added = change.add.into_iter().map(|entry| (entry.index, entry.node_id));
                self.dictionary.extend(added);
                return None;
            }
            Message::PredicateBatch(batch) => Reply::PredicateResults(cb::PredicateResults {
                batch_id: batch.batch_id,
                cache_seq: batch.cache_seq,
                last: true,
                results: batch.queries.iter().map(|query| self.judge(callbacks, query)).collect(),
            }),
            Message::CacheSync(sync) => {
                let failures = callbacks.assume(&sync);
                if !self.confirms && failures.is_empty() {
                    return None;
                }
                Reply::CacheSyncAck(cb::CacheSyncAck { cache_seq: sync.cache_seq, failures })
            }
            Message::EventBatch(batch) => {
                let (last, n) = (batch.last_seq, batch.events.len());
                callbacks.events(batch);
                let add = u32::try_from(n).unwrap_or(u32::MAX);
                Reply::EventCredit(cb::EventCredit { add, ack_seq: last })
            }
            Message::BundlePlaces(bundle) => {
                let node = |index| self.dictionary.get(&index).map(String::as_str);
                let nodes: Vec<_> =
                    bundle.places.iter().map(|place| node(place.node_index)).collect();
                callbacks.members(&bundle, &nodes);
                return None;
            }
            Message::Heartbeat(beat) if beat.reply => {
                Reply::Heartbeat(cb::Heartbeat { reply: false, ..beat })
            }
            Message::Heartbeat(_)
            | Message::Welcome(_)
            | Message::Goodbye(_)
            | Message::Cancel(_) => {
                return None;
            }
            other => callbacks.other(other)?,
        };
        Some(cb::ShimMessage { body: Some(reply) })
    }

    /// Evaluates a query on its nodes, in order.
    fn judge(&self, callbacks: &dyn Callbacks, query: &cb::PredicateQuery) -> cb::PredicateResult {
        let by_index = query.node_index.iter().map(|index| self.dictionary.get(index));
        let nodes: Vec<Option<&String>> = by_index.chain(query.node_ids.iter().map(Some)).collect();
        let bytes = nodes.len().div_ceil(8);
        let is_first_fit = query.mode() == cb::EvalMode::FirstFit;
        let wanted = if is_first_fit { query.want.max(1) as usize } else { nodes.len() };
        let (mut passed, mut evaluated) = (0, 0);
        let mut pass_bitmap = vec![0_u8; bytes];
        let mut refused: BTreeMap<String, (Vec<u8>, u32)> = BTreeMap::new();
        for (position, node) in nodes.into_iter().enumerate() {
            if passed == wanted {
                break;
            }
            evaluated += 1;
            let bit = 1 << (position % 8);
            let fit = match node {
                Some(node) => callbacks.fits(query, node),
                None => Fit::No("the node is not known here".to_owned()),
            };
            match fit {
                Fit::Yes => {
                    if query.assume
                        && let Some(node) = node
                    {
                        callbacks.assumed(query, node);
                    }
                    pass_bitmap[position / 8] |= bit;
                    passed += 1;
                }
                Fit::No(reason) => {
                    let (bitmap, count) =
                        refused.entry(reason).or_insert_with(|| (vec![0; bytes], 0));
                    bitmap[position / 8] |= bit;
                    *count += 1;
                }
            }
        }
        let failures = refused.into_iter().map(|(reason, (fail_bitmap, count))| cb::FailureGroup {
            reason,
            fail_bitmap,
            count,
            ..Default::default()
        });
        cb::PredicateResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            evaluated,
            pass_bitmap,
            failures: failures.collect(),
            scope: callbacks.scope(query).into(),
            elsewhere: callbacks.elsewhere(query),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shim that accepts nodes with an even number.
    struct Even;

    impl Callbacks for Even {
        fn fits(&self, _: &cb::PredicateQuery, node: &str) -> Fit {
            let number: u32 = node.trim_start_matches('n').parse().unwrap();
            if number.is_multiple_of(2) { Fit::Yes } else { Fit::No("odd".to_owned()) }
        }
    }

    fn listener() -> Listener {
        let mut listener = Listener::default();
        let add = (1..=10)
            .map(|index| cb::NodeDictEntry { index, node_id: format!("n{index}") })
            .collect();
        let dictionary = cb::NodeDictionary { add, ..Default::default() };
        let body = Some(Message::NodeDictionary(dictionary));
        assert!(listener.answer(&Even, cb::CoreMessage { body }).is_none());
        listener
    }

    fn query(mode: cb::EvalMode) -> cb::PredicateQuery {
        cb::PredicateQuery {
            mode: mode.into(),
            want: 2,
            node_index: (1..=10).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn every_node_has_its_bit_and_every_refusal_its_reason() {
        let result = listener().judge(&Even, &query(cb::EvalMode::All));
        assert_eq!(result.pass_bitmap, [0b1010_1010, 0b10]);
        assert_eq!(result.evaluated, 10);
        let [failure] = &result.failures[..] else { panic!("{result:?}") };
        assert_eq!((&*failure.reason, failure.count), ("odd", 5));
        assert_eq!(failure.fail_bitmap, [0b0101_0101, 0b01]);
    }

    #[test]
    fn a_first_fit_ends_when_enough_has_passed() {
        let result = listener().judge(&Even, &query(cb::EvalMode::FirstFit));
        assert_eq!((result.evaluated, &*result.pass_bitmap), (4, &[0b1010, 0][..]));
    }

    #[test]
    fn an_answer_carries_the_topics_of_other_nodes() {
        struct Apart;
        impl Callbacks for Apart {
            fn fits(&self, _: &cb::PredicateQuery, _: &str) -> Fit {
                Fit::Yes
            }

            fn elsewhere(&self, query: &cb::PredicateQuery) -> Option<cb::Elsewhere> {
                let depends_on = vec![query.allocation_key.len() as u64];
                Some(cb::Elsewhere { depends_on, affects: vec![1] })
            }
        }
        let query = cb::PredicateQuery {
            allocation_key: "long".to_owned(),
            ..query(cb::EvalMode::FirstFit)
        };
        let topics = listener().judge(&Apart, &query).elsewhere;
        assert_eq!(topics, Some(cb::Elsewhere { depends_on: vec![4], affects: vec![1] }));
        assert_eq!(listener().judge(&Even, &query).elsewhere, None);
    }

    /// Accepts every query and records what it has assumed.
    #[derive(Default)]
    struct Assuming(std::sync::Mutex<Vec<String>>);

    impl Callbacks for Assuming {
        fn fits(&self, _: &cb::PredicateQuery, node: &str) -> Fit {
            let taken = self.0.lock().unwrap().contains(&node.to_owned());
            if taken { Fit::No("taken".to_owned()) } else { Fit::Yes }
        }

        fn assumed(&self, _: &cb::PredicateQuery, node: &str) {
            self.0.lock().unwrap().push(node.to_owned());
        }
    }

    #[test]
    fn assumed_pods_are_visible_to_the_next_query() {
        let (listener, shim) = (listener(), Assuming::default());
        let query = cb::PredicateQuery { want: 1, assume: true, ..query(cb::EvalMode::FirstFit) };
        for bit in [0b1, 0b10, 0b100] {
            assert_eq!(listener.judge(&shim, &query).pass_bitmap, [bit, 0]);
        }
    }

    #[test]
    fn an_unknown_node_is_refused() {
        let query = cb::PredicateQuery { node_index: vec![99], ..query(cb::EvalMode::All) };
        let result = listener().judge(&Even, &query);
        assert_eq!((&*result.pass_bitmap, result.failures.len()), (&[0][..], 1));
    }
}
