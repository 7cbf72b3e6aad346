//! Rosters: the partitions of each session, for reads.
//!
//! # Why not by the session
//! A read must not wait behind a long request, nor behind the notices that the front still has to
//! deliver. So reads find the mailboxes of partitions here, on any thread, and ask them directly.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mailbox::Mailbox;
use crate::partition::Partition;

/// A partition, for reads.
#[derive(Clone)]
pub(crate) struct PartitionEntry {
    pub(crate) rm_id: Arc<str>,
    /// With the RM's prefix.
    pub(crate) name: Arc<str>,
    pub(crate) build_info: Arc<BTreeMap<String, String>>,
    pub(crate) mailbox: Mailbox<Partition>,
}

/// The partitions of a session. Written by the session.
#[derive(Clone, Default)]
pub(crate) struct Roster(Arc<Mutex<Vec<PartitionEntry>>>);

impl Roster {
    pub(crate) fn entries(&self) -> Vec<PartitionEntry> {
        self.held().clone()
    }

    pub(super) fn add(&self, entry: PartitionEntry) {
        self.held().push(entry);
    }

    pub(super) fn forget(&self, names: &BTreeSet<Arc<str>>) {
        self.held().retain(|entry| !names.contains(&entry.name));
    }

    fn held(&self) -> MutexGuard<'_, Vec<PartitionEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rosters of all sessions, by RM. Written by the front.
#[derive(Clone, Default)]
pub(crate) struct Rosters(Arc<Mutex<BTreeMap<String, Roster>>>);

impl Rosters {
    /// Every partition of every RM.
    pub(crate) fn entries(&self) -> Vec<PartitionEntry> {
        self.held().values().flat_map(Roster::entries).collect()
    }

    /// Enters the roster of a session that was started.
    pub(crate) fn enter(&self, rm_id: &str, roster: Roster) {
        self.held().insert(rm_id.to_owned(), roster);
    }

    /// Removes the roster of a session that is over.
    pub(crate) fn leave(&self, rm_id: &str) {
        self.held().remove(rm_id);
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Roster>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the ids of the RMs.
impl fmt::Debug for Rosters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.held().keys()).finish()
    }
}
