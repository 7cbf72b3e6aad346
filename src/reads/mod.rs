//! What both edges read of the scheduler, through one door.
//!
//! # Why one door
//! A read costs the scheduler some work and this process a document, and whoever reads may take the
//! document slowly, or never. Both have to be bounded wherever a reader comes from: hundreds who ask
//! for one list must cost what one costs, and what they do not take must not fill the memory.
//!
//! ```text
//! REST ─┐          ┌─ who wants the same waits for one reading (`joined`)
//!       ├─▶ Door ──┤─ one reading of a kind of a partition is under way, a few in all (`door`)
//! gRPC ─┘          └─ a document has room until its last byte is handed over (`document`)
//! ```
//!
//! # Invariants
//! * Nobody gets an answer that is older than the question.
//! * What says which document is wanted is what the answer depends on, and nothing else of the
//!   request: an unknown parameter makes no document of its own.
//! * Documents that are made and not handed over to a socket have at most the bytes of the door, but
//!   for small ones, those few that wait for room, and one that is larger than all of it.
//! * Who finds no room in time is refused with a reason, and has cost nobody else anything.

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

/// The scheduler, the door through which it is read, and what is written down beside it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The scheduler.
    pub handle: SchedulerHandle,
    /// The door, which all edges share.
    pub door: Door,
    /// What the service writes down.
    pub logbook: Logbook,
    /// Who is told of what streams have written, where placements are traced.
    pub traces: Option<Arc<Traces>>,
}

impl Source {
    /// The scheduler behind a door of its own, with a book in which nobody writes.
    pub fn new(handle: SchedulerHandle, settings: &Settings) -> Self {
        let door = Door::new(settings.reads.bytes.get());
        Self { handle, door, logbook: Logbook::default(), traces: None }
    }
}

/// The partition that is meant, with its resource manager: by a plain name, the first that is called
/// so. One that is not there keeps its name.
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
    fn a_plain_name_means_the_first_partition_that_is_called_so() {
        let names = ["[a]p", "[a]q", "[b]q"].map(str::to_owned);
        for (named, meant) in [("q", "[a]q"), ("[b]q", "[b]q"), ("r", "r"), ("[c]p", "[c]p")] {
            assert_eq!(qualified(named, &names), meant);
        }
    }
}
