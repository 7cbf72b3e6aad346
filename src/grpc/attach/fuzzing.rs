//! The conversation of a session with a simulated time, without streams or tasks, for fuzz targets:
//! `docs/fuzzing.md`.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use monoceros_actors::metrics::{CallbackMetrics, Metrics};
use monoceros_actors::{BundlePlace, QuestionBundle, QuestionId};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

use super::batching::{Question, Ticket};
use super::conversation::{Conversation, Effect, ShimReply, StreamIdentity};
use super::options::CallbackOptions;
use crate::settings::callback::Asking;
use crate::settings::{Flags, Settings};

static DEFAULTS: LazyLock<(CallbackOptions, CallbackMetrics)> = LazyLock::new(|| {
    let settings = Settings::load(None, &Flags::default()).expect("the defaults");
    (CallbackOptions::new(&settings), Metrics::new().callback.clone())
});

/// An effect of the conversation.
#[derive(Debug)]
pub enum Received {
    /// The question with this number is answered.
    Answered(u64),
    /// A response for the allocation stream.
    Delivered(si::AllocationResponse),
    /// A placement is released in the scheduler.
    Undone(si::AllocationRelease),
    /// The request with this number is answered.
    Replied(u64),
}

/// A conversation and its simulated time.
pub struct TestedConversation {
    conversation: Conversation,
    now: Instant,
    n_streams: u64,
}

impl TestedConversation {
    /// Starts a session. If `is_required`, nothing is placed without a shim.
    pub fn new(is_required: bool) -> Self {
        let (mut options, metrics) = DEFAULTS.clone();
        if is_required {
            options.callback.predicates = Asking::Required;
        }
        let mut conversation = Conversation::new(options, metrics);
        let now = Instant::now();
        conversation.begin(now);
        Self { conversation, now, n_streams: 0 }
    }

    /// Starts a stream.
    pub fn attach(&mut self, hello: &cb::Hello) {
        self.n_streams += 1;
        let scheduler_id = "scheduler".to_owned();
        let identity = StreamIdentity { scheduler_id, session: 1, attach: self.n_streams };
        self.conversation.attach(self.now, hello, &identity);
    }

    /// Loses the stream.
    pub fn detach(&mut self) {
        self.conversation.detach(self.now);
    }

    /// Receives a message of the shim. False if that ended the stream.
    pub fn receive(&mut self, message: cb::ShimMessage) -> bool {
        let received = self.conversation.receive(self.now, message);
        if received.is_err() {
            self.detach();
        }
        received.is_ok()
    }

    /// Advances the time and applies at most `looks` timeouts. False if one ended the stream.
    pub fn wait(&mut self, time: Duration, looks: usize) -> bool {
        let until = self.now + time;
        for _ in 0..looks {
            let Some(due) = self.conversation.due(self.now).filter(|due| *due <= until) else {
                break;
            };
            self.now = due.max(self.now);
            if self.conversation.tick(self.now).is_err() {
                self.detach();
                return false;
            }
        }
        self.now = until;
        true
    }

    /// Asks whether a request may run on one of these nodes. With `bundle`, the request is a member
    /// of that bundle, and the other members are placed on the same nodes.
    pub fn ask(&mut self, id: u64, key: &str, nodes: &[&str], bundle: Option<u64>) {
        let nodes: Vec<Arc<str>> = nodes.iter().map(|node| Arc::from(*node)).collect();
        let places = nodes.iter().map(|node| {
            let (key, node) = (Arc::from(key), Arc::clone(node));
            BundlePlace { key, group: None, node }
        });
        let bundle = bundle.map(|id| Arc::new(QuestionBundle { id, places: places.collect() }));
        let question = Question {
            ticket: Ticket { id: QuestionId(id), partition: 0 },
            application: "application".into(),
            key: key.into(),
            group: None,
            candidates: (0..nodes.len()).collect(),
            nodes,
            allocate: true,
            bundle,
        };
        self.conversation.ask(self.now, vec![question]);
    }

    /// Cancels a question.
    pub fn cancel(&mut self, id: u64) {
        self.conversation.cancel(self.now, &[QuestionId(id)]);
    }

    /// Asks a group of preemption questions. Returns their number if the shim is asked.
    pub fn ask_preemption(&mut self, group: Vec<si::PreemptionPredicatesArgs>) -> Option<u64> {
        self.conversation.ask_preemption(self.now, group).ok()
    }

    /// Requests the shim's state. Returns the number if the shim is asked.
    pub fn ask_state(&mut self) -> Option<u64> {
        self.conversation.ask_state(self.now).ok()
    }

    /// Requests that the shim saves a configuration. Returns the number if the shim is asked.
    pub fn ask_save(&mut self, config: String) -> Option<u64> {
        self.conversation.ask_save(self.now, config, std::collections::BTreeMap::new()).ok()
    }

    /// Processes an allocation response for the resource manager.
    pub fn allocations(&mut self, response: si::AllocationResponse) {
        self.conversation.allocations(self.now, response);
    }

    /// Records that cache syncs up to this number were written.
    pub fn written(&mut self, seq: u64) {
        self.conversation.written(seq);
    }

    /// Records a response about nodes.
    pub fn nodes(&mut self, response: &si::NodeResponse) {
        self.conversation.nodes(self.now, response);
    }

    /// Records that the resource manager removes a node.
    pub fn node_removed(&mut self, node: &str) {
        self.conversation.node_removed(self.now, node);
    }

    /// Records a request that the resource manager reports as running on a new node.
    pub fn reported_with(&mut self, node: &str, application: &str, key: &str) {
        self.conversation.reported_with(node, application, key);
    }

    /// Queues events.
    pub fn push_events(&mut self, events: Vec<si::EventRecord>) {
        self.conversation.push_events(self.now, events);
    }

    /// Queues scheduling states of requests.
    pub fn push_states(&mut self, states: Vec<si::UpdateContainerSchedulingStateRequest>) {
        self.conversation.push_states(self.now, states);
    }

    /// Takes the next message for the shim.
    pub fn take(&mut self) -> Option<cb::CoreMessage> {
        self.conversation.take(self.now)
    }

    /// Takes the effects since the last call.
    pub fn received(&mut self) -> Vec<Received> {
        let received = |effect| match effect {
            Effect::Answer(answer) => Some(Received::Answered(answer.ticket.id.0)),
            Effect::Deliver(response) => Some(Received::Delivered(response)),
            Effect::Undo(release) => Some(Received::Undone(release)),
            Effect::Reply(
                number,
                ShimReply::State(_) | ShimReply::Saved(_) | ShimReply::Preempted(_),
            ) => Some(Received::Replied(number)),
            Effect::Mode(_) | Effect::Invalidate(_) => None,
        };
        self.conversation.effects().into_iter().filter_map(received).collect()
    }
}

impl fmt::Debug for TestedConversation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Talk").field("n_streams", &self.n_streams).finish_non_exhaustive()
    }
}
