//! The server's direction of a stream: replies of the session, and the last number taken.

use std::future::pending;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use futures::stream;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

use super::ReplyStream;
use super::beat::{Beat, DISTANCE_MS};
use super::taken::TakenReports;
use crate::grpc::encoded::Encoded;
use crate::grpc::end::StreamEnd;
use crate::grpc::kind::StreamKind;
use crate::grpc::reply::Reply as _;
use crate::grpc::stream_handle::StreamHandle;
use crate::grpc::{BEAT_HEADER, GrpcEdge, SCHEDULER_HEADER, SESSION_HEADER, TAKEN_SEQ_HEADER};

/// The server's direction of a stream.
pub(super) struct ReplyWriter<K: StreamKind> {
    pub(super) edge: Arc<GrpcEdge>,
    pub(super) stream: Arc<StreamHandle>,
    /// The reports of taken requests. `None` if the client does not number them.
    pub(super) taken: Option<TakenReports>,
    /// The beats of a stream in a cluster. `None` if the client asked for none.
    pub(super) beat: Option<Beat>,
    /// Set once the farewell message was sent, or was not needed.
    pub(super) has_sent_farewell: bool,
    pub(super) kind: PhantomData<K>,
}

impl<K: StreamKind> ReplyWriter<K> {
    pub(super) fn headers(&self) -> MetadataMap {
        let mut headers = MetadataMap::new();
        headers.insert(SCHEDULER_HEADER, self.edge.registry.scheduler_id());
        if let Some(session) = self.stream.session() {
            headers.insert(SESSION_HEADER, MetadataValue::from(session.number()));
        }
        if let Some(numbering) = self.stream.numbering() {
            headers.insert(TAKEN_SEQ_HEADER, MetadataValue::from(numbering.taken));
        }
        if self.beat.is_some() {
            headers.insert(BEAT_HEADER, MetadataValue::from(DISTANCE_MS));
        }
        headers
    }

    /// Begins to beat, if this is a member of a cluster. It beats while no other member lives, too:
    /// one may begin later, and the client counts on beats if the head of the answer promises them.
    pub(super) fn beating(mut self) -> Self {
        let beats = K::CARRIES_ALLOCATIONS && self.edge.registry.is_of_cluster();
        self.beat = beats.then(|| Beat::since(Instant::now()));
        self
    }

    /// Records that the headers were sent.
    pub(super) fn begun(mut self) -> Self {
        self.taken = self.stream.numbering().map(|numbering| TakenReports::since(numbering.taken));
        self
    }

    pub(super) fn into_stream(self) -> ReplyStream<K> {
        let replies = stream::unfold(Some(self), |writer| async {
            let mut writer = writer?;
            match writer.next().await? {
                Ok(reply) => Some((Ok(reply), Some(writer))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Box::pin(replies)
    }

    /// The next reply, or the status that ends the stream. `None` at a normal end.
    pub(super) async fn next(&mut self) -> Option<Result<Encoded<K::Reply>, Status>> {
        loop {
            if self.edge.shutdown.is_cancelled() {
                self.stream.close(StreamEnd::ShuttingDown);
            } else if !self.edge.registry.may_decide() {
                // The lease may have ended while this process did not run.
                self.stream.close(StreamEnd::MemberFenced);
            }
            if let Some(end) = self.stream.end() {
                let first = !mem::replace(&mut self.has_sent_farewell, true);
                let farewell = if first { K::farewell(&end) } else { None };
                let status = || Err(self.stream.status(&end));
                return Some(farewell.map_or_else(status, |reply| Ok(reply.into())));
            }
            // Read before the outbox: if the client has closed its side, every answer that is due
            // is in the outbox already.
            let half_closed = self.stream.is_half_closed();
            if let Some(reply) = self.next_reply(half_closed) {
                if let Some(beat) = &mut self.beat {
                    *beat = Beat::since(Instant::now());
                }
                return Some(Ok(reply));
            }
            if half_closed {
                return None;
            }
            let report = self.taken.as_ref().and_then(TakenReports::due);
            let beat = self.beat.as_ref().map(Beat::due);
            let due = report.into_iter().chain(beat).min();
            let due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = self.edge.shutdown.cancelled() => {}
                () = self.stream.ended() => {}
                () = self.stream.news() => {}
                () = due => {}
            }
        }
    }

    /// The next queued reply, or a report of the last number taken if that is overdue or the stream
    /// is about to end, or a beat.
    fn next_reply(&mut self, is_last: bool) -> Option<Encoded<K::Reply>> {
        let session = self.stream.session()?;
        let traces = self.edge.traces.as_ref();
        let mut new = Vec::new();
        let reply = session.take::<K>(&self.stream, |reply| {
            // Checked at this time because allocations are traced before their reply is queued.
            if traces.is_some_and(|traces| !traces.is_idle()) {
                new.extend(reply.new_allocations());
            }
        });
        if let Some(traces) = traces {
            traces.sent(session.rm_id(), &new);
        }
        let beats = self.beat.as_ref().is_some_and(|beat| beat.due() <= Instant::now());
        let Some(reports) = &mut self.taken else {
            return reply.or_else(|| beats.then(Encoded::default));
        };
        let taken = session.taken(reports.reported());
        let is_due =
            reports.is_due(taken, Instant::now()) || (is_last && taken > reports.reported());
        if reply.is_none() && !is_due && !beats {
            return None;
        }
        reports.report(taken);
        let mut reply = reply.unwrap_or_default();
        reply.set_taken_seq(taken);
        Some(reply)
    }
}

impl<K: StreamKind> Drop for ReplyWriter<K> {
    fn drop(&mut self) {
        // Closed first: a bind that comes later sees the end and releases the stream itself.
        self.stream.close(StreamEnd::ClientGone);
        if let Some(session) = self.stream.session() {
            session.release::<K>(&self.stream);
        }
    }
}
