//! The partitions that the requests of an RM may name, with their users.
//!
//! A lost partition stays among them: items for it are not refused, because its RM will report
//! everything again and must not take them for rejected. They are translated and dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config as config;

use crate::api::users::PartitionUsers;

/// The partitions of one RM, by their full names.
#[derive(Default)]
pub(in crate::front) struct Addressees {
    partitions: BTreeMap<Arc<str>, Addressee>,
}

/// A partition.
enum Addressee {
    Open(PartitionUsers),
    /// The partition's books were lost; it stays lost until the RM registers again.
    Lost,
}

impl Addressees {
    /// Enters a partition that was started.
    pub(in crate::front) fn open(&mut self, partition: Arc<str>, users: PartitionUsers) {
        self.partitions.insert(partition, Addressee::Open(users));
    }

    /// Marks a partition whose books were lost.
    pub(in crate::front) fn lose(&mut self, partition: Arc<str>) {
        self.partitions.insert(partition, Addressee::Lost);
    }

    /// Removes a partition that has ended.
    pub(in crate::front) fn close(&mut self, partition: &str) {
        self.partitions.remove(partition);
    }

    /// Whether any partition is lost.
    pub(in crate::front) fn has_lost(&self) -> bool {
        self.partitions.values().any(|addressee| matches!(addressee, Addressee::Lost))
    }

    /// Whether this partition is lost.
    pub(in crate::front) fn is_lost(&self, partition: &str) -> bool {
        matches!(self.partitions.get(partition), Some(Addressee::Lost))
    }

    /// The full name of the partition that a request names; `None`: this RM has none of that name.
    pub(super) fn find(&self, named: &str) -> Option<&Arc<str>> {
        // An RM has few partitions, and comparing each costs less than building the full name.
        let plain = if named.is_empty() { config::DEFAULT_PARTITION } else { named };
        let is_full = named.starts_with('[');
        let is_it = |full: &str| {
            if is_full { full == named } else { config::plain_name(full) == plain }
        };
        self.partitions.keys().find(|full| is_it(full))
    }

    /// The users of a partition, unless it is lost.
    pub(in crate::front) fn users(&self, partition: &str) -> Option<&PartitionUsers> {
        match self.partitions.get(partition)? {
            Addressee::Open(users) => Some(users),
            Addressee::Lost => None,
        }
    }

    /// As [`Self::users`].
    pub(super) fn users_mut(&mut self, partition: &str) -> Option<&mut PartitionUsers> {
        match self.partitions.get_mut(partition)? {
            Addressee::Open(users) => Some(users),
            Addressee::Lost => None,
        }
    }

    /// Whether any partition has a resolver other than the default.
    pub(super) fn may_ask(&self) -> bool {
        let may_ask = |addressee: &Addressee| match addressee {
            Addressee::Open(users) => users.may_ask(),
            Addressee::Lost => false,
        };
        self.partitions.values().any(may_ask)
    }
}
