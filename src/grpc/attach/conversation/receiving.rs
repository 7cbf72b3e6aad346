//! The messages of the shim.

use monoceros_actors::Invalidation;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as Said;
use tokio::time::Instant;
use tracing::warn;

use super::super::cache::Confirmed;
use super::{Conversation, Effect, ShimReply};
use crate::grpc::end::StreamEnd;

impl Conversation {
    /// Processes a message of the shim. An error ends the stream.
    pub(in crate::grpc::attach) fn receive(
        &mut self,
        now: Instant,
        message: cb::ShimMessage,
    ) -> Result<(), StreamEnd> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.pulse.received(now);
        match message.body {
            Some(Said::Hello(_)) => return Err(StreamEnd::Violation("a second Hello".to_owned())),
            Some(Said::PredicateResults(results)) => self.predicate_results(now, &results)?,
            Some(Said::PreemptionResults(results)) => match stream.preemptions.results(&results) {
                Ok(done) => self.preempted(done),
                Err(()) => self.metrics.unknown_result(),
            },
            Some(Said::StateDump(chunk)) => {
                let dump = stream.dump.take_if(|dump| dump.request == chunk.request_id);
                if let Some(mut dump) = dump {
                    match dump.chunk(chunk) {
                        Some(state) => self.reply(dump.request, ShimReply::State(state)),
                        None => stream.dump = Some(dump),
                    }
                }
            }
            Some(Said::CacheSyncAck(ack)) => self.cache_sync_ack(now, &ack)?,
            Some(Said::Invalidate(cb::Invalidate { node_ids, allocation_keys, all })) => {
                let invalidation = Invalidation { nodes: node_ids, keys: allocation_keys, all };
                self.effects.push(Effect::Invalidate(invalidation));
            }
            Some(Said::EventCredit(credit)) => self.events.add_credit(credit.add),
            Some(Said::Heartbeat(heartbeat)) if heartbeat.reply => {
                let echo = self.heartbeat(heartbeat.nonce, false);
                self.push(now, echo);
            }
            // An echo is only a sign of life; a message without body comes from a later revision.
            Some(Said::Heartbeat(_)) | None => {}
            Some(Said::ConfigSave(result)) => {
                let request = result.request_id;
                if let Some(saved) = stream.saves.result(result) {
                    self.reply(request, ShimReply::Saved(saved));
                }
            }
            Some(Said::Goodbye(_)) => return Err(StreamEnd::ClientGone),
        }
        self.send_what_is_ready(now);
        Ok(())
    }

    fn cache_sync_ack(&mut self, now: Instant, ack: &cb::CacheSyncAck) -> Result<(), StreamEnd> {
        let confirmed = self.cache.acknowledge(ack);
        let Confirmed { deliver, undo, forget, ambiguous } =
            confirmed.map_err(|error| StreamEnd::Violation(error.to_string()))?;
        self.metrics.cache_sync_failures.inc_by(undo.len() as u64);
        let session = self.stream.as_ref().map(|stream| stream.session);
        for key in ambiguous {
            warn!(
                session,
                ask = %key,
                "the shim cannot have an allocation of this key and names no application, \
                 of which several have the key: nothing is undone"
            );
        }
        for sync in forget {
            self.push(now, Body::CacheSync(sync));
        }
        self.effects.extend(deliver.into_iter().map(Effect::Deliver));
        self.effects.extend(undo.into_iter().map(Effect::Undo));
        Ok(())
    }

    fn predicate_results(
        &mut self,
        now: Instant,
        results: &cb::PredicateResults,
    ) -> Result<(), StreamEnd> {
        let batcher = self.stream.as_mut().and_then(|stream| stream.batcher.as_mut());
        let Some(batcher) = batcher else {
            self.metrics.unknown_result();
            return Ok(());
        };
        let (turn, violation) = batcher.results(now, results);
        let flooded = batcher.is_flooded();
        // Answers before the violation count, however the stream ends.
        self.carry_out(now, turn);
        match violation {
            Some(violation) => Err(StreamEnd::Violation(violation.to_string())),
            None if flooded => Err(StreamEnd::ResultFlood),
            None => Ok(()),
        }
    }
}
