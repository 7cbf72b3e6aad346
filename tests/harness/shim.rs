//! The callback stream of a shim, which a test uses step by step.

use std::collections::{BTreeMap, BTreeSet};

use monoceros::grpc::stubs::v1::callback_service_client::CallbackServiceClient;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as Said;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::{PATIENCE, Rm, Service, reason_of};

/// All capabilities of a shim.
pub const ALL: &[cb::Capability] = &[
    cb::Capability::Predicates,
    cb::Capability::PreemptionPredicates,
    cb::Capability::Events,
    cb::Capability::ContainerStates,
    cb::Capability::StateDump,
    cb::Capability::CacheSync,
    cb::Capability::ConfigStore,
];

/// Makes a Hello without options.
pub fn hello(rm_id: &str, capabilities: &[cb::Capability]) -> cb::Hello {
    cb::Hello {
        rm_id: rm_id.to_owned(),
        capabilities: capabilities.iter().map(|one| (*one).into()).collect(),
        ..Default::default()
    }
}

/// Makes an answer: every node passes.
pub fn passes(_key: &str, _node: &str) -> bool {
    true
}

/// Makes an answer: no node passes.
pub fn refuses(_key: &str, _node: &str) -> bool {
    false
}

/// A callback stream.
pub struct Shim {
    sender: mpsc::Sender<cb::ShimMessage>,
    messages: Streaming<cb::CoreMessage>,
    nodes: BTreeMap<u32, String>,
    /// Messages received while another message was expected.
    pub seen: Vec<Body>,
    cache_seq: u64,
}

impl Shim {
    /// Opens a stream and sends nothing.
    pub async fn open(service: &Service) -> Self {
        Self::open_on(service.channel().await).await
    }

    /// Opens a stream on an existing connection.
    pub async fn open_on(channel: Channel) -> Self {
        let mut client = CallbackServiceClient::new(channel);
        let (sender, requests) = mpsc::channel(64);
        let messages = client.attach(ReceiverStream::new(requests)).await.unwrap().into_inner();
        Self { sender, messages, nodes: BTreeMap::new(), seen: Vec::new(), cache_seq: 0 }
    }

    /// Opens a stream and sends Hello.
    pub async fn attach(service: &Service, hello: cb::Hello) -> Self {
        let shim = Self::open(service).await;
        shim.say(Said::Hello(hello)).await;
        shim
    }

    pub async fn say(&self, body: Said) {
        self.sender.send(cb::ShimMessage { body: Some(body) }).await.unwrap();
    }

    /// Sends a message, unless the stream has ended.
    pub async fn try_say(&self, body: Said) {
        let _ = self.sender.send(cb::ShimMessage { body: Some(body) }).await;
    }

    /// Receives the next message. Nodes and syncs are recorded.
    async fn next(&mut self) -> Result<Option<Body>, Status> {
        let message =
            timeout(PATIENCE, self.messages.message()).await.expect("a message in time")?;
        let body = message.and_then(|message| message.body);
        match &body {
            Some(Body::NodeDictionary(update)) => {
                if update.reset {
                    self.nodes.clear();
                }
                update.remove.iter().for_each(|index| _ = self.nodes.remove(index));
                let entries = update.add.iter();
                self.nodes.extend(entries.map(|entry| (entry.index, entry.node_id.clone())));
            }
            Some(Body::CacheSync(sync)) => self.cache_seq = sync.cache_seq,
            _ => {}
        }
        Ok(body)
    }

    /// Receives the first message that `wanted` accepts.
    pub async fn until<T>(&mut self, what: &str, wanted: impl Fn(&Body) -> Option<T>) -> T {
        loop {
            let body = self.next().await.unwrap().unwrap_or_else(|| panic!("ended before {what}"));
            if let Some(found) = wanted(&body) {
                return found;
            }
            self.seen.push(body);
        }
    }

    pub async fn welcome(&mut self) -> cb::Welcome {
        self.until("welcome", |body| match body {
            Body::Welcome(welcome) => Some(welcome.clone()),
            _ => None,
        })
        .await
    }

    pub async fn batch(&mut self) -> cb::PredicateBatch {
        self.until("batch", |body| match body {
            Body::PredicateBatch(batch) => Some(batch.clone()),
            _ => None,
        })
        .await
    }

    /// Receives the next batch, or `None` once the RM has an allocation.
    pub async fn batch_or_allocation(&mut self, rm: &Rm) -> Option<cb::PredicateBatch> {
        tokio::select! {
            batch = self.batch() => Some(batch),
            () = rm.until("allocated", |seen| !seen.new.is_empty()) => None,
        }
    }

    pub async fn sync(&mut self) -> cb::CacheSync {
        self.until("cache sync", |body| match body {
            Body::CacheSync(sync) => Some(sync.clone()),
            _ => None,
        })
        .await
    }

    pub async fn events(&mut self) -> cb::EventBatch {
        self.until("events", |body| match body {
            Body::EventBatch(batch) => Some(batch.clone()),
            _ => None,
        })
        .await
    }

    pub async fn goodbye(&mut self) -> cb::Goodbye {
        self.until("goodbye", |body| match body {
            Body::Goodbye(goodbye) => Some(goodbye.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for the end of the stream.
    pub async fn end(&mut self) -> (Code, String) {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return (Code::Ok, String::new()),
                Err(status) => return (status.code(), reason_of(&status)),
            }
        }
    }

    pub fn nodes(&self, query: &cb::PredicateQuery) -> Vec<String> {
        query.node_index.iter().map(|index| self.nodes[index].clone()).collect()
    }

    /// Returns the node with this index.
    pub fn node(&self, index: u32) -> String {
        self.nodes[&index].clone()
    }

    /// Answers a batch: in the given order, up to the first node that passes.
    pub async fn answer(
        &self,
        batch: &cb::PredicateBatch,
        mut judge: impl FnMut(&str, &str) -> bool,
    ) {
        let results = batch.queries.iter().map(|query| {
            let nodes = self.nodes(query);
            let position = nodes.iter().position(|node| judge(&query.allocation_key, node));
            let evaluated = position.map_or(nodes.len(), |position| position + 1);
            let mut pass_bitmap = vec![0; nodes.len().div_ceil(8)];
            if let Some(position) = position {
                pass_bitmap[position / 8] |= 1 << (position % 8);
            }
            cb::PredicateResult {
                query_id: query.query_id,
                outcome: cb::Outcome::Evaluated.into(),
                evaluated: u32::try_from(evaluated).unwrap(),
                pass_bitmap,
                scope: cb::Scope::Topology.into(),
                ..Default::default()
            }
        });
        self.send_results(batch, results.collect()).await;
    }

    /// Answers a batch: the first node of each question passes, with this `scope`.
    pub async fn pass(&self, batch: &cb::PredicateBatch, scope: impl Fn(&str) -> cb::Scope) {
        let results = batch.queries.iter().map(|query| cb::PredicateResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            evaluated: 1,
            pass_bitmap: vec![1],
            scope: scope(&query.allocation_key).into(),
            ..Default::default()
        });
        self.send_results(batch, results.collect()).await;
    }

    /// Answers that the first node of one question passes, with the scopes of the answer and of the
    /// request. More results may follow.
    pub async fn pass_one(
        &self,
        batch: &cb::PredicateBatch,
        key: &str,
        depends_on: &[u64],
        affects: &[u64],
    ) {
        let query = batch.queries.iter().find(|query| query.allocation_key == key).unwrap();
        let (depends_on, affects) = (depends_on.into(), affects.into());
        let result = cb::PredicateResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            evaluated: 1,
            pass_bitmap: vec![1],
            scope: cb::Scope::Topology.into(),
            elsewhere: Some(cb::Elsewhere { depends_on, affects }),
            ..Default::default()
        };
        let results = cb::PredicateResults {
            batch_id: batch.batch_id,
            cache_seq: self.cache_seq,
            last: false,
            results: vec![result],
        };
        self.say(Said::PredicateResults(results)).await;
    }

    /// Answers a batch with `Shed` for each question: the shim has not evaluated it.
    pub async fn shed(&self, batch: &cb::PredicateBatch) {
        let results = batch.queries.iter().map(|query| cb::PredicateResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Shed.into(),
            ..Default::default()
        });
        self.send_results(batch, results.collect()).await;
    }

    pub async fn acknowledge(&self, cache_seq: u64, failures: Vec<cb::CacheSyncFailure>) {
        self.say(Said::CacheSyncAck(cb::CacheSyncAck { cache_seq, failures })).await;
    }

    /// Answers all later messages.
    pub fn keep_answering(mut self, judge: fn(&str, &str) -> bool) {
        tokio::spawn(async move {
            while let Ok(Some(body)) = self.next().await {
                if let Body::PredicateBatch(batch) = body {
                    self.answer(&batch, judge).await;
                }
            }
        });
    }

    /// Answers all later messages, so that no two requests share a node. It counts requests on a
    /// node from its own answers, and from the scheduler's messages.
    pub fn keep_excluding(mut self) {
        tokio::spawn(async move {
            let mut taken: BTreeMap<String, String> = BTreeMap::new();
            while let Ok(Some(body)) = self.next().await {
                match body {
                    Body::CacheSync(sync) => {
                        let args = sync.args.unwrap_or_default();
                        for one in args.assumed_allocations {
                            taken.insert(one.allocation_key, one.node_id);
                        }
                        for one in args.forget_allocations {
                            taken.remove(&one.allocation_key);
                        }
                    }
                    Body::PredicateBatch(batch) => {
                        self.answer(&batch, |key, node| {
                            let nodes: BTreeSet<&String> = taken.values().collect();
                            let free = !nodes.contains(&node.to_owned());
                            if free {
                                taken.insert(key.to_owned(), node.to_owned());
                            }
                            free
                        })
                        .await;
                    }
                    _ => {}
                }
            }
        });
    }

    async fn send_results(&self, batch: &cb::PredicateBatch, results: Vec<cb::PredicateResult>) {
        let results = cb::PredicateResults {
            batch_id: batch.batch_id,
            cache_seq: self.cache_seq,
            last: true,
            results,
        };
        self.say(Said::PredicateResults(results)).await;
    }
}
