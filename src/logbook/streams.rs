//! The open event streams of both edges together.
//!
//! # Invariants
//! * The number of open streams, in all and per host, is at most what the settings allow. A stream
//!   that ends, for whatever reason, no longer counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_actors::{StreamLimits, rfc3339};
use serde::Serialize;

use crate::clock::now_ns;

/// The table of open streams. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct OpenStreams(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Number of the next stream.
    next: u64,
    open: Vec<StreamEntry>,
}

#[derive(Debug)]
struct StreamEntry {
    number: u64,
    host: Arc<str>,
    since_ns: i64,
}

/// Permission for one open stream, given back when dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: OpenStreams,
    number: u64,
}

/// An open stream, as state dumps show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct StreamSnapshot {
    /// The host that the stream counts for: the `Host` of an HTTP request, or the address of a gRPC
    /// caller.
    pub name: String,
    /// When the stream began, in RFC 3339.
    pub created_at: String,
}

impl OpenStreams {
    /// Admits a stream from `host`. `None` if a limit is reached.
    pub(crate) fn take(&self, host: &str, most: StreamLimits) -> Option<StreamPermit> {
        let mut table = self.table();
        let of_host = table.open.iter().filter(|open| *open.host == *host).count();
        if table.open.len() >= most.in_all || of_host >= most.per_host {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.open.push(StreamEntry { number, host: Arc::from(host), since_ns: now_ns() });
        drop(table);
        Some(StreamPermit { streams: self.clone(), number })
    }

    /// Lists the open streams, the oldest first.
    pub fn open(&self) -> Vec<StreamSnapshot> {
        let shown = |open: &StreamEntry| StreamSnapshot {
            name: open.host.to_string(),
            created_at: rfc3339(open.since_ns),
        };
        self.table().open.iter().map(shown).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code panics between two writes, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.table().open.retain(|open| open.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_limited_in_total_and_by_host() {
        let streams = OpenStreams::default();
        let most = StreamLimits { in_all: 3, per_host: 2 };
        let mut seats: Vec<_> = (0..2).map(|_| streams.take("a:1", most).unwrap()).collect();
        assert!(streams.take("a:1", most).is_none(), "two from one host");
        seats.push(streams.take("a:2", most).unwrap());
        assert!(streams.take("b", most).is_none(), "three in all");
        let names = || streams.open().into_iter().map(|open| open.name).collect::<Vec<_>>();
        assert_eq!(names(), ["a:1", "a:1", "a:2"]);
        seats.remove(0);
        assert_eq!(names(), ["a:1", "a:2"]);
        assert!(streams.take("a:1", most).is_some());
        assert!(streams.take("b", StreamLimits { in_all: 0, per_host: 9 }).is_none());
        drop(seats);
        assert_eq!(names(), [""; 0]);
    }
}
