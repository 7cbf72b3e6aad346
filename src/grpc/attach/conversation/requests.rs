//! Requests to the shim whose caller waits for the answer.
//!
//! Each request has a number, under which the answer comes as an [effect](super::Effect::Reply):
//! the conversation itself never waits.

use std::collections::BTreeMap;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use prost::Message as _;
use tokio::time::Instant;

use super::super::outgoing::ITEM_OVERHEAD_BYTES;
use super::super::preemption::{self, Preempted};
use super::super::presence::PredicateMode;
use super::super::requests::{CHUNK_BYTES, ShimDump};
use super::{Conversation, SAVE_TIMEOUT, Stream, millis};

impl Conversation {
    /// Whether the shim provides state dumps.
    pub(in crate::grpc::attach) fn provides_state(&self) -> bool {
        self.has_capability(cb::Capability::StateDump)
    }

    /// Requests the shim's state. Returns the number of the [reply](super::Effect::Reply).
    pub(in crate::grpc::attach) fn ask_state(&mut self, now: Instant) -> Result<u64, String> {
        let timeout = self.options.callback.state_dump_timeout;
        let max_bytes = self.options.callback.state_dump_max_bytes.get();
        let Some(stream) = capable(&mut self.stream, cb::Capability::StateDump) else {
            return Err("no shim that tells its state is attached".to_owned());
        };
        self.number += 1;
        let request = self.number;
        if stream.dump.is_some() {
            return Err("the shim is telling its state already".to_owned());
        }
        stream.dump = Some(ShimDump::new(request, now + timeout, max_bytes));
        let deadline_ms = millis(timeout);
        let ask =
            cb::StateDumpRequest { request_id: request, deadline_ms, max_chunk_bytes: CHUNK_BYTES };
        self.push(now, Body::StateDump(ask));
        Ok(request)
    }

    /// Requests that the shim saves a configuration. Returns the number of the reply.
    pub(in crate::grpc::attach) fn ask_save(
        &mut self,
        now: Instant,
        config: String,
        extra_config: BTreeMap<String, String>,
    ) -> Result<u64, String> {
        let Some(stream) = capable(&mut self.stream, cb::Capability::ConfigStore) else {
            return Err("no shim that keeps configurations is attached".to_owned());
        };
        self.number += 1;
        let request_id = self.number;
        let deadline_ms = millis(SAVE_TIMEOUT);
        let ask = cb::ConfigSaveRequest { request_id, config, extra_config, deadline_ms };
        let (bytes, most) = (ask.encoded_len() + ITEM_OVERHEAD_BYTES, stream.max_bytes);
        if bytes > most {
            return Err(format!("it takes {bytes} bytes, and the shim no message above {most}"));
        }
        stream.saves.ask(request_id, now + SAVE_TIMEOUT);
        self.push(now, Body::ConfigSave(ask));
        Ok(request_id)
    }

    /// Asks a group of preemption questions. Returns the number of the reply, or the answers if no
    /// shim answers such questions.
    pub(in crate::grpc::attach) fn ask_preemption(
        &mut self,
        now: Instant,
        group: Vec<si::PreemptionPredicatesArgs>,
    ) -> Result<u64, Vec<Preempted>> {
        let Some(stream) = capable(&mut self.stream, cb::Capability::PreemptionPredicates) else {
            let answer = |args| match self.mode {
                PredicateMode::Local | PredicateMode::Remote { .. } => preemption::presumed(args),
                PredicateMode::Fail => Preempted::Failed,
                PredicateMode::Hold => Preempted::Unanswered,
            };
            return Err(group.iter().map(answer).collect());
        };
        self.number += 1;
        let batch_id = self.number;
        let queries = group.iter().zip(0..).map(|(args, query_id)| {
            let node_index = self.dictionary.index(&args.node_id);
            cb::PreemptionQuery { query_id, node_index, args: Some(args.clone()) }
        });
        let queries = queries.collect();
        let timeout = stream.limits.timeout;
        stream.preemptions.ask(batch_id, group, now + timeout);
        self.send_dictionary(now);
        self.metrics.preemption_batch();
        let batch = cb::PreemptionBatch {
            batch_id,
            cache_seq: self.cache.seq(),
            dict_version: self.dictionary.version(),
            deadline_ms: millis(timeout),
            queries,
        };
        self.push(now, Body::PreemptionBatch(batch));
        Ok(batch_id)
    }
}

/// The stream, if its shim has the capability.
fn capable(stream: &mut Option<Stream>, capability: cb::Capability) -> Option<&mut Stream> {
    stream.as_mut().filter(|stream| stream.able.to(capability))
}
