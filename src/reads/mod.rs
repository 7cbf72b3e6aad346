//! Reads of the scheduler by both edges, through one door.
//!
//! # Why one door
//! A read costs the scheduler some work and this process a document, which a client may receive
//! slowly or never. Both are bounded for all clients together: hundreds of requests for one list
//! cost as much as one, and documents that are not received cannot fill the memory.
//!
//! ```text
//! REST ─┐          ┌─ requests for the same document share one read (`joined`)
//!       ├─▶ Door ──┤─ one read of each kind and partition at a time, a few in total (`door`)
//! gRPC ─┘          └─ a document reserves memory until its last byte is passed on (`document`)
//! ```
//!
//! # Invariants
//! * No answer is older than its question.
//! * The key of a document contains the parameters that the answer depends on, and nothing else of
//!   the request: an unknown parameter does not cause a document of its own.
//! * Documents in memory never exceed the bytes of the door, except small ones, the few that wait
//!   for room, and a single one that is larger than the limit.
//! * A request that gets no room in time is refused with a reason, at no cost to others.

mod document;
mod door;
mod joined;

use std::sync::Arc;

use monoceros_actors::SchedulerHandle;
use monoceros_actors::partition_name::plain_name;

pub(crate) use self::document::{Document, Draft, Made, Sliced, gzip};
pub use self::door::Door;
pub(crate) use self::door::{Busy, Kind};
pub(crate) use self::joined::Joined;

use crate::logbook::Logbook;
use crate::settings::Settings;
use crate::traces::Traces;

/// The scheduler, and all state that the edges share for their reads.
#[derive(Clone, Debug)]
pub struct Source {
    /// The scheduler.
    pub handle: SchedulerHandle,
    /// The door, shared by all edges.
    pub door: Door,
    /// The records of the service.
    pub logbook: Logbook,
    /// Notified of replies that streams have sent. `None` unless placements are traced.
    pub traces: Option<Arc<Traces>>,
}

impl Source {
    /// Creates a door for the scheduler, with empty records.
    pub fn new(handle: SchedulerHandle, settings: &Settings) -> Self {
        let door = Door::new(settings.reads.bytes.get());
        Self { handle, door, logbook: Logbook::default(), traces: None }
    }
}

/// The full name of a partition. A plain name means the first partition of that name; an unknown
/// name is returned unchanged.
pub(crate) fn qualified<'n>(wanted: &'n str, names: &'n [String]) -> &'n str {
    if wanted.starts_with('[') {
        return wanted;
    }
    names.iter().find(|name| plain_name(name) == wanted).map_or(wanted, String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_name_means_the_first_partition() {
        let names = ["[a]p", "[a]q", "[b]q"].map(str::to_owned);
        for (named, meant) in [("q", "[a]q"), ("[b]q", "[b]q"), ("r", "r"), ("[c]p", "[c]p")] {
            assert_eq!(qualified(named, &names), meant);
        }
    }
}
