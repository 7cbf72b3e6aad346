//! Who follows the events, over both edges together.
//!
//! # Invariants
//! * At most so many follow, in all and from one host, as the settings allow; one that ends, for
//!   whatever reason, makes room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_actors::{StreamLimits, rfc3339};
use serde::Serialize;

use crate::clock::now_ns;

/// The open streams. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Followers(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// The number of the next one.
    next: u64,
    open: Vec<Following>,
}

#[derive(Debug)]
struct Following {
    number: u64,
    host: Arc<str>,
    since_ns: i64,
}

/// A place among those who follow; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Seat {
    followers: Followers,
    number: u64,
}

/// A stream, as state dumps show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct OpenStream {
    /// The host that it counts for: what HTTP requests name as `Host`, or the address of a caller
    /// of gRPC.
    pub name: String,
    /// When it began, as RFC 3339 has it.
    pub created_at: String,
}

impl Followers {
    /// A place for one from this host, if there is one.
    pub(crate) fn take(&self, host: &str, most: StreamLimits) -> Option<Seat> {
        let mut table = self.table();
        let of_host = table.open.iter().filter(|open| *open.host == *host).count();
        if table.open.len() >= most.in_all || of_host >= most.per_host {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.open.push(Following { number, host: Arc::from(host), since_ns: now_ns() });
        drop(table);
        Some(Seat { followers: self.clone(), number })
    }

    /// Those who follow, the first to come first.
    pub fn open(&self) -> Vec<OpenStream> {
        let shown = |open: &Following| OpenStream {
            name: open.host.to_string(),
            created_at: rfc3339(open.since_ns),
        };
        self.table().open.iter().map(shown).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Entries are whole, whoever panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.followers.table().open.retain(|open| open.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_counted_in_all_and_by_host_until_they_end() {
        let followers = Followers::default();
        let most = StreamLimits { in_all: 3, per_host: 2 };
        let mut seats: Vec<_> = (0..2).map(|_| followers.take("a:1", most).unwrap()).collect();
        assert!(followers.take("a:1", most).is_none(), "two from one host");
        seats.push(followers.take("a:2", most).unwrap());
        assert!(followers.take("b", most).is_none(), "three in all");
        let names = || followers.open().into_iter().map(|open| open.name).collect::<Vec<_>>();
        assert_eq!(names(), ["a:1", "a:1", "a:2"]);
        seats.remove(0);
        assert_eq!(names(), ["a:1", "a:2"]);
        assert!(followers.take("a:1", most).is_some());
        assert!(followers.take("b", StreamLimits { in_all: 0, per_host: 9 }).is_none());
        drop(seats);
        assert_eq!(names(), [""; 0]);
    }
}
