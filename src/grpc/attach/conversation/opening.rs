//! The beginning of a stream: its limits, and the messages that it starts with.

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use tokio::time::Instant;

use super::super::batching::{Batcher, Limits};
use super::super::bundles::Bundles;
use super::super::cache::Gate;
use super::super::outgoing::Outgoing;
use super::super::preemption::Preemptions;
use super::super::pulse::Pulse;
use super::super::requests::Saves;
use super::super::results::clamped;
use super::{Capabilities, Conversation, Stream, StreamIdentity, millis};

/// The protocol revision spoken here: the first one.
const PROTOCOL_MINOR: u32 = 0;

/// The largest message, unless the shim accepts less: half of the default limit of clients in Go
/// and Python.
const MESSAGE_BYTES: usize = 2 << 20;

/// The smallest message limit that a shim may set: an item has to fit.
const LEAST_MESSAGE_BYTES: usize = 64 << 10;

impl Conversation {
    /// Starts a stream, and ends an earlier one.
    pub(in crate::grpc::attach) fn attach(
        &mut self,
        now: Instant,
        hello: &cb::Hello,
        identity: &StreamIdentity,
    ) {
        let open = self.drop_stream(now);
        let able = Capabilities::of(hello);
        let max_bytes = match hello.max_message_bytes as usize {
            0 => MESSAGE_BYTES,
            bytes => bytes.clamp(LEAST_MESSAGE_BYTES, MESSAGE_BYTES),
        };
        let limits = self.limits(hello, able, max_bytes);
        let mut out = Outgoing::new(max_bytes);
        let predicates = able.to(cb::Capability::Predicates);
        if predicates {
            let holds = able.to(cb::Capability::HoldPredicates);
            self.presence.attach(hello.predicates_absent(), holds);
        }
        let syncs = if able.to(cb::Capability::CacheSync) {
            let gate = if hello.confirm_assume { Gate::Confirmed } else { Gate::Written };
            self.cache.attach(gate, self.options.callback.cache_sync_timeout, max_bytes)
        } else {
            Vec::new()
        };
        if able.to(cb::Capability::Events) {
            self.events.attach(hello, max_bytes);
        }
        let states = able.to(cb::Capability::ContainerStates);
        self.states.set_attached(states.then_some(max_bytes));
        self.dictionary.sweep(now);
        out.push(now, Body::Welcome(self.welcome(identity, &limits)));
        if predicates || able.to(cb::Capability::PreemptionPredicates) {
            for part in self.dictionary.reset(max_bytes) {
                out.push(now, Body::NodeDictionary(part));
            }
        }
        for sync in syncs {
            out.push(now, Body::CacheSync(sync));
        }
        self.stream = Some(Stream {
            session: identity.session,
            able,
            limits,
            max_bytes,
            batcher: predicates.then(|| Batcher::new(limits, self.metrics.clone())),
            bundles: Bundles::default(),
            preemptions: Preemptions::default(),
            dump: None,
            saves: Saves::default(),
            pulse: Pulse::new(self.options.callback.heartbeat, now),
            out,
            remark: None,
        });
        self.set_mode(now);
        self.leave_open(open);
        self.send_what_is_ready(now);
    }

    /// The first message of a stream: limits and sequence numbers.
    fn welcome(&self, identity: &StreamIdentity, limits: &Limits) -> cb::Welcome {
        cb::Welcome {
            scheduler_id: identity.scheduler_id.clone(),
            session_id: identity.session,
            attach_id: identity.attach,
            protocol_minor: PROTOCOL_MINOR,
            max_inflight_batches: clamped(limits.batches),
            max_nodes_per_batch: clamped(limits.nodes),
            max_queries_per_batch: clamped(limits.queries),
            predicate_timeout_ms: millis(limits.timeout),
            predicates_absent: self.presence.absent(&self.options).into(),
            heartbeat_ms: millis(self.options.callback.heartbeat),
            event_seq: self.events.last(),
            cache_seq: self.cache.seq(),
            max_message_bytes: clamped(limits.bytes),
        }
    }

    fn limits(&self, hello: &cb::Hello, able: Capabilities, max_bytes: usize) -> Limits {
        let callback = &self.options.callback;
        let least = |ours: u32, theirs: u32| match theirs {
            0 => ours as usize,
            theirs => ours.min(theirs) as usize,
        };
        let queries = least(callback.max_queries_per_batch.get(), hello.max_queries_per_batch);
        let wish = std::time::Duration::from_millis(hello.predicate_timeout_ms.max(10).into());
        let timeout = match hello.predicate_timeout_ms {
            0 => callback.predicate_timeout,
            _ => callback.predicate_timeout.min(wish),
        };
        Limits {
            batches: least(callback.max_inflight_batches.get(), hello.max_inflight_batches),
            queries,
            nodes: least(callback.max_nodes_per_batch.get(), hello.max_nodes_per_batch),
            waiting: callback.queue_batches.get().saturating_mul(queries),
            bytes: max_bytes,
            timeout,
            on_timeout: callback.on_timeout,
            follows: able.to(cb::Capability::CacheSync),
            // A request assumed with an answer has no sync that the shim could confirm.
            assume: able.to(cb::Capability::CacheSync) && !hello.confirm_assume,
        }
    }
}
