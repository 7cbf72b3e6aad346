//! The door: limits the reads in progress and the bytes of documents in memory.
//!
//! # Invariants
//! * One read of a [`Kind`] and partition has the turn at a time, whatever its parameters and
//!   whether it came over gRPC or REST; at most [`READINGS_MAX`] reads have a turn at all.
//! * Memory is reserved before a client gets a document, and released with the document's last
//!   byte.
//! * A read gives back its turn before it waits for memory, and at most [`WAITING_MAX`] documents
//!   wait for memory: clients that receive nothing cannot keep others from reading small documents.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Documents up to this size need no reservation: the number of connections bounds them.
const FREE_BYTES: usize = 64 << 10;

/// The unit of reservations.
const UNIT_BYTES: usize = 1 << 10;

/// Most reads in progress.
const READINGS_MAX: usize = 8;

/// Most documents that wait for a reservation.
const WAITING_MAX: usize = 4;

/// The longest wait for a turn.
const TURN_PATIENCE: Duration = Duration::from_secs(30);

/// The longest wait for a reservation.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// The kind of a document. One read of a kind and partition is in progress at a time; a read of all
/// partitions counts as one more partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Queues,
    Applications,
    Application,
    Explanation,
    Nodes,
    Node,
    Decisions,
    RunTimes,
    Users,
    User,
    Groups,
    Group,
    PlacementRules,
    Partitions,
    NodeUtilizations,
    Events,
    History,
    Sessions,
    Configuration,
    Outstanding,
    Recommendations,
    Metrics,
    StateDump,
    Snapshot,
}

/// Why a read is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
    /// Too many reads are waiting.
    #[error("others have been reading for {} s: come back later", TURN_PATIENCE.as_secs())]
    Turn,
    /// Too many bytes have not been received by clients.
    #[error(
        "clients have not yet taken {0} bytes of what was read for them (`reads.bytes`): come back \
         later"
    )]
    Room(usize),
}

/// The shared limits. Clones are the same door.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

struct Shared {
    turns: Mutex<Turns>,
    readings: Arc<Semaphore>,
    bytes: usize,
    room: Arc<Semaphore>,
    waiting: Semaphore,
}

type Turns = HashMap<(Kind, String), Weak<tokio::sync::Mutex<()>>>;

/// The permission to read; returned on drop.
pub(super) struct Turn {
    _of_kind: OwnedMutexGuard<()>,
    _of_all: OwnedSemaphorePermit,
}

/// Memory reserved for a document; released on drop.
pub(super) struct Room {
    _permits: Option<OwnedSemaphorePermit>,
}

impl Door {
    /// Creates a door with this limit of document bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Shared {
            turns: Mutex::default(),
            readings: Arc::new(Semaphore::new(READINGS_MAX)),
            bytes,
            room: Arc::new(Semaphore::new(units(bytes).max(1) as usize)),
            waiting: Semaphore::new(WAITING_MAX),
        }))
    }

    /// Waits until no other read of this kind and partition is in progress.
    pub(super) async fn turn(&self, kind: Kind, of: &str) -> Result<Turn, Busy> {
        let of_kind = self.of_kind(kind, of);
        let turn = async {
            let of_kind = of_kind.lock_owned().await;
            let of_all = Arc::clone(&self.0.readings).acquire_owned().await;
            of_all.map(|of_all| Turn { _of_kind: of_kind, _of_all: of_all })
        };
        let turn = timeout(TURN_PATIENCE, turn).await.map_err(|_| Busy::Turn)?;
        turn.map_err(|_| Busy::Turn)
    }

    fn of_kind(&self, kind: Kind, of: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, of.to_owned());
        if let Some(turn) = turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// Waits for a reservation of `bytes`, counted at most up to the limit.
    pub(super) async fn room(&self, bytes: usize) -> Result<Room, Busy> {
        if let Some(room) = self.room_now(bytes) {
            return Ok(room);
        }
        let full = || Busy::Room(self.0.bytes);
        let _waiting = self.0.waiting.try_acquire().map_err(|_| full())?;
        let room = Arc::clone(&self.0.room).acquire_many_owned(self.wanted(bytes));
        let permits = timeout(ROOM_PATIENCE, room).await.map_err(|_| full())?;
        Ok(Room { _permits: Some(permits.map_err(|_| full())?) })
    }

    /// Reserves `bytes` if they are available.
    pub(super) fn room_now(&self, bytes: usize) -> Option<Room> {
        if bytes <= FREE_BYTES {
            return Some(Room { _permits: None });
        }
        let permits = Arc::clone(&self.0.room).try_acquire_many_owned(self.wanted(bytes));
        Some(Room { _permits: Some(permits.ok()?) })
    }

    fn wanted(&self, bytes: usize) -> u32 {
        units(bytes.min(self.0.bytes)).max(1)
    }
}

fn units(bytes: usize) -> u32 {
    let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
    u32::try_from(bytes / UNIT_BYTES).unwrap_or(most).min(most)
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("bytes", &self.0.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reservations_are_released_on_drop() {
        let door = Door::new(1 << 20);
        let held = door.room(900 << 10).await.unwrap();
        assert!(door.room_now(200 << 10).is_none());
        assert!(door.room_now(FREE_BYTES).is_some());
        assert_eq!(door.room(200 << 10).await.err(), Some(Busy::Room(1 << 20)));
        drop(held);
        assert!(door.room_now(200 << 10).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn oversized_document_reserves_everything() {
        let door = Door::new(1 << 20);
        let _alone = door.room(5 << 20).await.unwrap();
        assert!(door.room_now(FREE_BYTES + 1).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn few_documents_wait_for_room() {
        let door = Door::new(1 << 20);
        let _held = door.room(1 << 20).await.unwrap();
        let mut waiting: Vec<_> =
            (0..WAITING_MAX).map(|_| Box::pin(door.room(200 << 10))).collect();
        for waiting in &mut waiting {
            assert!(waiting.now_or_never().is_none());
        }
        assert!(door.room(200 << 10).now_or_never().unwrap().is_err());
        assert!(join_all(waiting).await.into_iter().all(|room| room.is_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_limited_per_kind_and_in_total() {
        let door = Door::new(1);
        let _nodes = door.turn(Kind::Nodes, "p").await.unwrap();
        assert!(door.turn(Kind::Nodes, "p").now_or_never().is_none());
        let mut held = Vec::new();
        for n in 1..READINGS_MAX {
            held.push(door.turn(Kind::Nodes, &n.to_string()).now_or_never().unwrap().unwrap());
        }
        assert_eq!(door.turn(Kind::Queues, "p").await.err(), Some(Busy::Turn));
        drop(held);
        door.turn(Kind::Queues, "p").await.unwrap();
    }
}
