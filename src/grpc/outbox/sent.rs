//! The sent messages that may have to be sent again.
//!
//! # When a message is confirmed
//! A message is confirmed when the client acknowledges it. For a client that never acknowledges, it
//! is confirmed [`grace`](Sent::new) after it was first written, if a stream that received it is
//! still open: a dead peer would have been detected within that time, and HTTP/2 keeps the order.
//! Time without a stream does not count. Confirmed messages are dropped; the others are sent again
//! on the next stream.
//!
//! # How often
//! A client that reconnects repeatedly without acknowledging receives the same messages again until
//! the grace is over. A client that always resumes from the same number would receive them for
//! ever. Once [sixteen times](REPEATS) the original bytes were repeated, the client has to register
//! again: no message is dropped silently.
//!
//! # Why encoded
//! A kept message is nearly always dropped without being read again: the bytes take one heap
//! allocation where a message takes one for each name, and they are the bytes that the stream
//! sends.
//!
//! # Invariants
//! * Kept messages are in the order of their numbers, without a gap.
//! * Messages before the cursor were written to the present stream; those behind it were not
//!   written yet.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::encoded::Encoded;
use super::super::reply::Reply;
use super::super::session::backlog::Load;

/// Most repeated bytes in relation to the original ones, before the client has to register again.
const REPEATS: usize = 16;

/// Bytes that may be repeated in any case.
const REPEATED_FREE_BYTES: usize = 64 << 10;

/// The sent and unconfirmed messages of one outbox, and the position of the present stream among
/// them.
pub(super) struct Sent {
    grace: Duration,
    kept: VecDeque<SentMessage>,
    /// The number of kept messages that the present stream has received.
    cursor: usize,
    last_seq: u64,
    /// The highest number discarded unconfirmed, and when it was sent.
    discarded: Option<(u64, Instant)>,
    /// Set when a stream was lost and a discarded message may not have been delivered.
    has_gap: bool,
    /// Whether messages carry their numbers.
    numbered: bool,
    /// Whether the client of this stream has acknowledged anything.
    acknowledges: bool,
    /// When the last stream was lost. `None` while a stream is bound.
    lost_at: Option<Instant>,
    /// Bytes written for the first time since nothing was kept.
    first_bytes: usize,
    /// Bytes written again since nothing was kept.
    repeated_bytes: usize,
}

struct SentMessage {
    seq: u64,
    bytes: Bytes,
    load: Load,
    /// When it was first written, moved forward by the time without a stream.
    sent: Instant,
}

/// The client misses messages that are no longer kept.
#[derive(Debug)]
pub(super) struct Missing;

impl Sent {
    /// Creates an empty history. Messages stay unconfirmed for `grace`; if it is zero, they are not
    /// kept for clients without numbers.
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            kept: VecDeque::new(),
            cursor: 0,
            last_seq: 0,
            discarded: None,
            has_gap: false,
            numbered: false,
            acknowledges: false,
            lost_at: None,
            first_bytes: 0,
            repeated_bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Encodes a message for the present stream and keeps it. Returns the message to send, and
    /// whether it was kept.
    pub(super) fn keep<R: Reply>(
        &mut self,
        reply: &R,
        load: Load,
        now: Instant,
    ) -> (Encoded<R>, bool) {
        self.last_seq += 1;
        let bytes = Bytes::from(reply.encode_to_vec());
        let keeps = self.numbered || !self.grace.is_zero();
        if keeps {
            if self.kept.is_empty() {
                (self.first_bytes, self.repeated_bytes) = (0, 0);
            }
            self.first_bytes = self.first_bytes.saturating_add(bytes.len());
            let bytes = bytes.clone();
            self.kept.push_back(SentMessage { seq: self.last_seq, bytes, load, sent: now });
            self.cursor = self.kept.len();
        }
        (self.numbered(bytes, self.last_seq), keeps)
    }

    /// The next message that an earlier stream may not have delivered.
    pub(super) fn next_repeat<R: Reply>(&mut self) -> Option<Encoded<R>> {
        let kept = self.kept.get(self.cursor)?;
        self.cursor += 1;
        self.repeated_bytes = self.repeated_bytes.saturating_add(kept.bytes.len());
        Some(self.numbered(kept.bytes.clone(), kept.seq))
    }

    /// Confirms messages up to `seq`. Returns the load freed.
    pub(super) fn acknowledge(&mut self, seq: u64) -> Load {
        if !self.numbered || seq == 0 {
            return Load::default();
        }
        self.acknowledges = true;
        self.drop_while(|kept| kept.seq <= seq)
    }

    /// Drops messages that count as confirmed because enough time has passed. Returns the load
    /// freed.
    pub(super) fn expire(&mut self, now: Instant) -> Load {
        if self.acknowledges {
            return Load::default();
        }
        let grace = self.grace;
        self.drop_while(|kept| now.saturating_duration_since(kept.sent) >= grace)
    }

    /// Discards the oldest messages, unconfirmed, until `wanted` is free. Returns the load freed:
    /// less than wanted if the rest has to be sent again.
    pub(super) fn discard(&mut self, wanted: Load) -> Load {
        let mut freed = Load::default();
        while !wanted.fits(freed) && self.cursor > 0 {
            let Some(kept) = self.kept.pop_front() else { break };
            self.cursor -= 1;
            self.discarded = Some((kept.seq, kept.sent));
            freed = freed.plus(kept.load);
        }
        freed
    }

    /// Records the loss of the stream: unconfirmed messages have to be sent again. Returns the load
    /// freed.
    pub(super) fn stream_lost(&mut self, now: Instant) -> Load {
        let freed = self.expire(now);
        if let Some((_, sent)) = self.discarded {
            let confirmed = !self.acknowledges && now.saturating_duration_since(sent) >= self.grace;
            if confirmed && !self.has_gap {
                self.discarded = None;
            } else {
                self.has_gap = true;
            }
        }
        self.has_gap |= !self.kept.is_empty() && self.has_repeated_enough();
        self.lost_at.get_or_insert(now);
        self.cursor = 0;
        freed
    }

    fn has_repeated_enough(&self) -> bool {
        let most = self.first_bytes.saturating_mul(REPEATS).saturating_add(REPEATED_FREE_BYTES);
        self.repeated_bytes > most
    }

    /// Whether a client can resume after the last number that it received.
    pub(super) fn knows(&self, resume: Option<u64>) -> Result<(), Missing> {
        match resume {
            // The client gives no number to compare with.
            None | Some(0) if self.has_gap => Err(Missing),
            None | Some(0) => Ok(()),
            Some(seq) => {
                let first = self.kept.front().map_or(self.last_seq + 1, |kept| kept.seq);
                let is_known = first <= seq.saturating_add(1) && seq <= self.last_seq;
                let has_all = seq == self.last_seq;
                if is_known && (has_all || !self.has_repeated_enough()) {
                    Ok(())
                } else {
                    Err(Missing)
                }
            }
        }
    }

    /// Starts a new stream, which [can resume](Self::knows). Returns the load freed.
    pub(super) fn resume(&mut self, resume: Option<u64>, now: Instant) -> Load {
        if let Some(lost_at) = self.lost_at.take() {
            let away = now.saturating_duration_since(lost_at);
            for kept in &mut self.kept {
                kept.sent += away;
            }
        }
        self.numbered = resume.is_some();
        self.acknowledges = false;
        (self.discarded, self.has_gap) = (None, false);
        let received = resume.unwrap_or(0);
        let behind = self.kept.iter().take_while(|kept| kept.seq <= received).count();
        self.cursor = behind;
        let freed = self.drop_while(|kept| kept.seq <= received);
        self.cursor = 0;
        freed
    }

    pub(super) fn clear(&mut self) {
        self.kept = VecDeque::new();
        self.cursor = 0;
    }

    /// A message as sent to the present stream.
    fn numbered<R: Reply>(&self, bytes: Bytes, seq: u64) -> Encoded<R> {
        let mut reply = Encoded::of(bytes);
        if self.numbered {
            reply.set_seq(seq);
        }
        reply
    }

    fn drop_while(&mut self, confirmed: impl Fn(&SentMessage) -> bool) -> Load {
        let mut freed = Load::default();
        while self.cursor > 0
            && let Some(kept) = self.kept.front()
            && confirmed(kept)
        {
            freed = freed.plus(kept.load);
            self.kept.pop_front();
            self.cursor -= 1;
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;

    use super::*;

    const GRACE: Duration = Duration::from_secs(60);

    /// Messages 1 to `last`, written to a stream.
    fn sent(resume: Option<u64>, last: u64, now: Instant) -> Sent {
        let mut sent = Sent::new(GRACE);
        sent.resume(resume, now);
        for _ in 0..last {
            sent.keep(&si::NodeResponse::default(), Load { items: 1, bytes: 1 }, now);
        }
        sent
    }

    fn replayed(sent: &mut Sent) -> Vec<u64> {
        std::iter::from_fn(|| sent.next_repeat::<si::NodeResponse>())
            .map(|reply| reply.decoded().seq)
            .collect()
    }

    #[test]
    fn resuming_client_gets_exactly_what_it_missed() {
        let now = Instant::now();
        let mut sent = sent(Some(0), 7, now);
        sent.stream_lost(now);
        sent.knows(Some(4)).unwrap();
        assert_eq!(sent.resume(Some(4), now).items, 4);
        assert_eq!(replayed(&mut sent), [5, 6, 7]);
    }

    #[test]
    fn acknowledged_messages_are_dropped() {
        let now = Instant::now();
        let mut sent = sent(Some(0), 7, now);
        assert_eq!(sent.acknowledge(5).items, 5);
        let later = now + GRACE * 9;
        assert_eq!(sent.expire(later).items, 0);
        sent.stream_lost(later);
        sent.knows(Some(4)).unwrap_err();
        sent.knows(Some(8)).unwrap_err();
        sent.knows(Some(6)).unwrap();
        sent.resume(Some(6), later);
        assert_eq!(replayed(&mut sent), [7]);
    }

    #[test]
    fn lasting_stream_confirms_by_time() {
        let now = Instant::now();
        let mut sent = sent(None, 3, now);
        let later = now + GRACE / 2;
        sent.keep(&si::NodeResponse::default(), Load { items: 1, bytes: 1 }, later);
        sent.stream_lost(now + GRACE);
        sent.knows(None).unwrap();
        sent.resume(Some(0), now + GRACE);
        assert_eq!(replayed(&mut sent), [4]);
    }

    #[test]
    fn time_does_not_confirm_unsent_repeats() {
        let now = Instant::now();
        let mut sent = sent(None, 3, now);
        sent.stream_lost(now);
        let later = now + GRACE * 2;
        sent.resume(Some(0), later);
        assert_eq!(sent.expire(later).items, 0);
        assert!(sent.next_repeat::<si::NodeResponse>().is_some());
        assert_eq!(sent.expire(later + GRACE).items, 1, "only what the new stream has got");
    }

    #[test]
    fn grace_counts_only_time_with_a_stream() {
        let second = Duration::from_secs(1);
        let mut now = Instant::now();
        let mut sent = sent(None, 3, now);
        let mut n_sent = 0;
        // Streams of ten seconds each, with five seconds between them.
        for _ in 0..20 {
            now += 10 * second;
            sent.stream_lost(now);
            sent.knows(None).unwrap();
            now += 5 * second;
            sent.resume(None, now);
            n_sent += replayed(&mut sent).len();
        }
        assert_eq!(n_sent, 3 * 5, "in fifty seconds with a stream, not after sixty");
        assert!(sent.is_empty());
    }

    #[test]
    fn too_many_repeats_demand_registration() {
        let now = Instant::now();
        let load = Load { items: 1, bytes: 1 };
        for (resume, n_behind) in [(None, 2), (Some(0), 2), (Some(1), 1)] {
            let mut sent = Sent::new(GRACE);
            sent.resume(resume.map(|_| 0), now);
            let accepted =
                vec![si::AcceptedNode { node_id: "n".repeat(100), ..Default::default() }; 240];
            let reply = si::NodeResponse { accepted, ..Default::default() };
            let bytes = prost::Message::encoded_len(&reply);
            for _ in 0..2 {
                sent.keep(&reply, load, now);
            }
            let mut n_told = 0;
            while sent.knows(resume).is_ok() {
                sent.resume(resume, now);
                n_told += replayed(&mut sent).len();
                sent.stream_lost(now);
            }
            let most = 2 * REPEATS + n_behind + REPEATED_FREE_BYTES / bytes;
            assert!(n_told > 2 * REPEATS && n_told <= most, "{resume:?}: {n_told}");
            sent.knows(Some(2)).expect("who has everything goes on");
        }
    }

    #[test]
    fn loss_after_discarding_leaves_a_gap() {
        let now = Instant::now();
        for (lost_after, gap) in [(GRACE / 2, true), (GRACE, false)] {
            let mut sent = sent(None, 3, now);
            assert_eq!(sent.discard(Load { items: 1, bytes: 1 }).items, 1);
            sent.stream_lost(now + lost_after);
            assert_eq!(sent.knows(None).is_err(), gap);
        }
        // A client that names the last number received leaves no doubt.
        let mut sent = sent(Some(0), 3, now);
        sent.discard(Load { items: 1, bytes: 1 });
        sent.stream_lost(now);
        sent.knows(Some(2)).unwrap();
        sent.knows(Some(1)).unwrap();
        sent.knows(Some(0)).unwrap_err();
    }

    #[test]
    fn messages_to_repeat_are_not_discarded() {
        let now = Instant::now();
        let mut sent = sent(None, 3, now);
        sent.stream_lost(now);
        assert_eq!(sent.discard(Load { items: 1, bytes: 1 }), Load::default());
    }
}
