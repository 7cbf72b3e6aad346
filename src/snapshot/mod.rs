//! Snapshots: the state of the scheduler in a file, to be read by people, sent with a report of a
//! fault, fed to another scheduler, and gone on from.
//!
//! # The file
//! JSON lines, compressed with gzip; `zcat FILE | jq` shows it. The first line is the [`Header`]; it
//! has the checksum of the lines below. Then, for each resource manager: its configuration, what it
//! would report after a restart as messages of the interface, and the state from which a fork goes
//! on. The report is for people and for any scheduler, the state for this version of this program.
//!
//! # What is left out
//! Settings outside the queue configuration (`extraConfig`), which may hold secrets and change no
//! decision, and tags that no decision reads.
//!
//! # Invariants
//! * A partition is read between two of its steps. Everything else runs beside the scheduler: nothing
//!   here is done on a partition's thread.
//! * A file is read as a whole or not at all: first its checksum, then its lines.
//! * Of an anonymized file, every text is made up, except words that this program knows
//!   (`names`).

mod configuration;
mod header;
mod maker;
mod messages;
mod names;
mod reader;
mod renaming;
mod state;
#[cfg(test)]
mod tests;
mod texts;
mod writer;

use std::fmt::Write as _;

use monoceros_actors::image::Report;

pub use self::header::{FORMAT, Header, PartitionAt, Replaced};
pub use self::maker::{Snapshots, Turn};
pub use self::reader::{Contents, ManagerContents, PartitionContents, READ_BYTES, read};
pub use self::writer::{Written, write};

/// What a snapshot is of, besides the state.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The name of the cluster of schedulers; empty without one.
    pub cluster: String,
    /// The time at which it is taken, ns since the epoch.
    pub now_ns: i64,
    /// The names that are replaced.
    pub replaced: Replaced,
}

/// Figures of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The size of the file.
    pub bytes: u64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of applications.
    pub applications: usize,
    /// The number of allocations.
    pub allocations: usize,
    /// The number of pending asks.
    pub asks: usize,
    /// The latest step of a partition.
    pub step: u64,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        self.nodes += report.nodes.len();
        self.applications += report.applications.len();
        self.allocations += report.allocations.len();
        self.asks += report.asks.len() + report.repeated_asks.len();
    }
}

/// Why there is no snapshot, or none can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It would take too many bytes.
    #[error(
        "the snapshot of `{rm}` takes {bytes} bytes, and at most {limit} are written (snapshot.bytes)"
    )]
    TooLarge {
        /// The resource manager.
        rm: String,
        /// The bytes that it takes before compression.
        bytes: u64,
        /// The most bytes.
        limit: u64,
    },
    /// Another one is being made.
    #[error("another snapshot is being made: come back later")]
    Busy,
    /// The state of a resource manager cannot be read.
    #[error("{0}")]
    NotRead(String),
    /// It cannot be written.
    #[error("the snapshot cannot be written: {0}")]
    Unwritten(String),
    /// It cannot be read, with the reason.
    #[error("the snapshot is refused: {0}")]
    Refused(String),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        // A string takes all that is written.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
