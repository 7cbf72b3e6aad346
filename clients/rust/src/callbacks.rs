//! The stream on which the scheduler asks for predicates and tells what it has decided.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body as Asked;
use monoceros_proto::v1::shim_message::Body as Said;
use tokio::sync::Notify;

/// What a shim does when it is asked or told something. Called one at a time, in order, on a task of
/// its own.
pub trait Callbacks: Send + Sync + 'static {
    /// What the stream is for; [`cb::Capability::Predicates`] unless said otherwise.
    fn capabilities(&self) -> Vec<cb::Capability> {
        vec![cb::Capability::Predicates]
    }

    /// Anything else that Hello may say. The ids are filled in after this.
    fn hello(&self) -> cb::Hello {
        cb::Hello::default()
    }

    /// Whether the request of `query` may run on `node`.
    fn fits(&self, query: &cb::PredicateQuery, node: &str) -> Fit;

    /// What an answer to `query` depends on: what runs anywhere, unless said otherwise. The narrower,
    /// the more can be decided at once.
    fn scope(&self, query: &cb::PredicateQuery) -> cb::Scope {
        let _ = query;
        cb::Scope::Topology
    }

    /// With [`cb::Scope::Topology`] and the capability [`cb::Capability::CacheSync`]: which topics, in
    /// numbers of your own choice, the answer to `query` depends on beside its own node, and which
    /// the request affects on others. Nothing said is everything.
    fn elsewhere(&self, query: &cb::PredicateQuery) -> Option<cb::Elsewhere> {
        let _ = query;
        None
    }

    /// What was placed, before it is told elsewhere, and what has gone (capability
    /// [`cb::Capability::CacheSync`]). What cannot be assumed is returned.
    fn assume(&self, sync: &cb::CacheSync) -> Vec<cb::CacheSyncFailure> {
        let _ = sync;
        Vec::new()
    }

    /// The request of `query` has passed on `node`, and the scheduler takes that for its placement: it
    /// counts from now on, and no [`Self::assume`] follows. If it comes to nothing, a sync says so.
    fn assumed(&self, query: &cb::PredicateQuery, node: &str) {
        let _ = (query, node);
    }

    /// Members of a declared gang that are asked about together: the places that the others have so
    /// far, each with the name of its node, where that is known.
    fn members(&self, bundle: &cb::BundlePlaces, nodes: &[Option<&str>]) {
        let _ = (bundle, nodes);
    }

    /// Events (capability [`cb::Capability::Events`]).
    fn events(&self, batch: cb::EventBatch) {
        let _ = batch;
    }

    /// Anything else that may be asked or told, with the answer, if there is one.
    fn other(&self, message: cb::core_message::Body) -> Option<cb::shim_message::Body> {
        let _ = message;
        None
    }
}

/// Whether a request may run on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It may.
    Yes,
    /// It may not, and why.
    No(String),
}

/// That earlier answers may be wrong by now, on its way to the scheduler. Said once more on each new
/// stream: an old one may have taken it along.
#[derive(Debug, Default)]
pub(crate) struct Invalid {
    is_said: AtomicBool,
    news: Notify,
}

impl Invalid {
    /// They may be.
    pub(crate) fn say(&self) {
        self.is_said.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// A stream begins.
    pub(crate) fn begin_stream(&self) {
        if self.is_said.load(Ordering::Relaxed) {
            self.news.notify_one();
        }
    }

    /// Waits until it is to be said, however often it was meanwhile.
    pub(crate) async fn news(&self) -> cb::ShimMessage {
        self.news.notified().await;
        let invalidate = cb::Invalidate { all: true, ..Default::default() };
        cb::ShimMessage { body: Some(Said::Invalidate(invalidate)) }
    }
}

/// What a shim knows of one stream of callbacks.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    /// The scheduler's numbers for nodes.
    dictionary: HashMap<u32, String>,
    /// It waits for an acknowledgement of each sync.
    confirms: bool,
}

/// Events that may be on their way.
const EVENT_CREDIT: u32 = 1_000;

impl Listener {
    /// The first message of a stream.
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
        cb::ShimMessage { body: Some(Said::Hello(hello)) }
    }

    /// Does what a message wants. Returns the answer, if it has one.
    pub(crate) fn hear(
        &mut self,
        callbacks: &dyn Callbacks,
        message: cb::CoreMessage,
    ) -> Option<cb::ShimMessage> {
        let said = match message.body? {
            Asked::NodeDictionary(change) => {
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
            Asked::PredicateBatch(batch) => Said::PredicateResults(cb::PredicateResults {
                batch_id: batch.batch_id,
                cache_seq: batch.cache_seq,
                last: true,
                results: batch.queries.iter().map(|query| self.judge(callbacks, query)).collect(),
            }),
            Asked::CacheSync(sync) => {
                let failures = callbacks.assume(&sync);
                if !self.confirms && failures.is_empty() {
                    return None;
                }
                Said::CacheSyncAck(cb::CacheSyncAck { cache_seq: sync.cache_seq, failures })
            }
            Asked::EventBatch(batch) => {
                let (last, n) = (batch.last_seq, batch.events.len());
                callbacks.events(batch);
                let add = u32::try_from(n).unwrap_or(u32::MAX);
                Said::EventCredit(cb::EventCredit { add, ack_seq: last })
            }
            Asked::BundlePlaces(bundle) => {
                let node = |index| self.dictionary.get(&index).map(String::as_str);
                let nodes: Vec<_> =
                    bundle.places.iter().map(|place| node(place.node_index)).collect();
                callbacks.members(&bundle, &nodes);
                return None;
            }
            Asked::Heartbeat(beat) if beat.reply => {
                Said::Heartbeat(cb::Heartbeat { reply: false, ..beat })
            }
            Asked::Heartbeat(_) | Asked::Welcome(_) | Asked::Goodbye(_) | Asked::Cancel(_) => {
                return None;
            }
            other => callbacks.other(other)?,
        };
        Some(cb::ShimMessage { body: Some(said) })
    }

    /// On which of the nodes that a query names may its request run?
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

    /// Nodes with an even number will do.
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
        let body = Some(Asked::NodeDictionary(dictionary));
        assert!(listener.hear(&Even, cb::CoreMessage { body }).is_none());
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
    fn an_answer_says_what_it_has_to_do_with_other_nodes_if_the_shim_does() {
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
        let said = listener().judge(&Apart, &query).elsewhere;
        assert_eq!(said, Some(cb::Elsewhere { depends_on: vec![4], affects: vec![1] }));
        assert_eq!(listener().judge(&Even, &query).elsewhere, None);
    }

    /// Says yes, and remembers what it has assumed.
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
    fn a_shim_sees_what_it_has_assumed_before_the_next_question() {
        let (listener, shim) = (listener(), Assuming::default());
        let query = cb::PredicateQuery { want: 1, assume: true, ..query(cb::EvalMode::FirstFit) };
        for bit in [0b1, 0b10, 0b100] {
            assert_eq!(listener.judge(&shim, &query).pass_bitmap, [bit, 0]);
        }
    }

    #[test]
    fn a_node_that_is_not_known_is_refused() {
        let query = cb::PredicateQuery { node_index: vec![99], ..query(cb::EvalMode::All) };
        let result = listener().judge(&Even, &query);
        assert_eq!((&*result.pass_bitmap, result.failures.len()), (&[0][..], 1));
    }
}
