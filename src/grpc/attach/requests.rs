//! Rare requests to a shim: state dumps and saving a configuration.
//!
//! A caller waits for each request, so each has a deadline. A state arrives in parts and has a
//! bound, because only the shim decides how long it is.

use std::collections::BTreeMap;

use monoceros_proto::v1 as cb;
use tokio::time::Instant;

/// Size of a part of a state.
pub(super) const CHUNK_BYTES: u32 = 1 << 20;

/// A state dump in progress.
#[derive(Debug)]
pub(super) struct ShimDump {
    pub(super) request: u64,
    pub(super) deadline: Instant,
    max_bytes: usize,
    next: u32,
    data: Vec<u8>,
}

impl ShimDump {
    /// A dump without any part yet.
    pub(super) fn new(request: u64, deadline: Instant, max_bytes: usize) -> Self {
        Self { request, deadline, max_bytes, next: 0, data: Vec::new() }
    }

    /// Adds a part. Returns the whole state, or an error, once that is certain.
    pub(super) fn chunk(&mut self, chunk: cb::StateDumpChunk) -> Option<Result<String, String>> {
        if !chunk.error.is_empty() {
            return Some(Err(chunk.error));
        }
        if chunk.index != self.next {
            let next = self.next;
            return Some(Err(format!("part {} came in place of part {next}", chunk.index)));
        }
        if self.data.len() + chunk.data.len() > self.max_bytes {
            return Some(Err(format!("it is larger than {} bytes", self.max_bytes)));
        }
        self.next += 1;
        self.data.extend(chunk.data);
        if !chunk.last {
            return None;
        }
        let text = String::from_utf8(std::mem::take(&mut self.data));
        Some(text.map_err(|_| "it is not text in UTF-8".to_owned()))
    }
}

/// Deadlines of requests to save a configuration, by number.
#[derive(Debug, Default)]
pub(super) struct Saves(BTreeMap<u64, Instant>);

impl Saves {
    /// Adds a request.
    pub(super) fn ask(&mut self, request: u64, deadline: Instant) {
        self.0.insert(request, deadline);
    }

    /// Processes an answer. `None` if no such request is open.
    pub(super) fn result(&mut self, result: cb::ConfigSaveResult) -> Option<Result<(), String>> {
        self.0.remove(&result.request_id)?;
        Some(match result {
            cb::ConfigSaveResult { success: true, .. } => Ok(()),
            cb::ConfigSaveResult { reason, .. } if reason.is_empty() => {
                Err("the resource manager gave no reason".to_owned())
            }
            cb::ConfigSaveResult { reason, .. } => Err(reason),
        })
    }

    /// Removes and returns the requests whose time is over.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<u64> {
        let over: Vec<u64> =
            self.0.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
        self.0.retain(|_, until| *until > now);
        over
    }

    /// The time of the next [`expire`](Self::expire).
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// The open requests, when the stream is lost.
    pub(super) fn close(self) -> Vec<u64> {
        self.0.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(index: u32, data: &str, last: bool) -> cb::StateDumpChunk {
        cb::StateDumpChunk { index, data: data.into(), last, ..Default::default() }
    }

    fn received(chunks: Vec<cb::StateDumpChunk>) -> Result<String, String> {
        let mut dump = ShimDump::new(1, Instant::now(), 8);
        chunks.into_iter().find_map(|chunk| dump.chunk(chunk)).unwrap()
    }

    #[test]
    fn state_parts_are_joined_in_order() {
        let whole = received(vec![chunk(0, "{\"a\":", false), chunk(1, "1}", true)]);
        assert_eq!(whole, Ok("{\"a\":1}".to_owned()));
    }

    #[test]
    fn invalid_state_parts_are_errors() {
        let error = |chunks| received(chunks).unwrap_err();
        assert!(error(vec![chunk(1, "", true)]).contains("part 1"));
        assert!(error(vec![chunk(0, "12345", false), chunk(1, "6789", true)]).contains("8 bytes"));
        let binary = cb::StateDumpChunk { data: vec![0xff], last: true, ..Default::default() };
        assert!(error(vec![binary]).contains("UTF-8"));
        let failed = cb::StateDumpChunk { error: "no memory".to_owned(), ..Default::default() };
        assert_eq!(error(vec![failed]), "no memory");
    }
}
