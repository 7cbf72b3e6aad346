//! Quotas of a resource manager: bounds on the objects that it can make the scheduler keep, so that
//! no resource manager can use up the memory or the threads of all.
//!
//! # What is refused
//! Only new items are refused. Running allocations are reports and not requests, and a release or a
//! change of a node adds nothing that could be refused: these are always accepted, and count. So
//! usage may be above a quota; then no new item is accepted until it is below again. A session that
//! replaces another may have as much as the replaced one had: an RM that reports everything again
//! after it lost its session is not refused half of it ([`Quotas::raised_to`]).
//!
//! # Who counts
//! Quotas are those of an RM, but each of its partitions decides by itself. Each partition counts
//! its own usage, and is sent the sum of the others ([`QuotaUsage::elsewhere`]). That sum arrives as
//! an input, so that decisions follow from inputs alone, and differs from the present one by at
//! most a part of the quota ([`Quotas::is_worth_telling`]).
//!
//! ```
//! use monoceros_rules::specs::quotas::{Held, Quota, Quotas, QuotaUsage};
//! let mut usage = QuotaUsage::new(Quotas { nodes: 3, ..Quotas::default() });
//! usage.here = Held { nodes: 1, ..Held::default() };
//! assert!(usage.takes(Quota::Nodes, 2).is_ok());
//! usage.elsewhere.nodes = 1;
//! let over = usage.takes(Quota::Nodes, 2).unwrap_err();
//! assert_eq!(over.to_string(), "the resource manager may have at most 3 nodes");
//! ```

use serde::{Deserialize, Serialize};

/// Approximate memory of an allocation besides its specification, in bytes.
pub const ALLOCATION_BYTES: u64 = 768;
/// Approximate memory of an ask besides its texts, in bytes.
pub const ASK_BYTES: u64 = 768;
/// Approximate memory of an application besides its texts, asks and allocations, in bytes.
pub const APPLICATION_BYTES: u64 = 4_096;
/// Approximate memory of a node besides its attributes, in bytes.
pub const NODE_BYTES: u64 = 4_096;
/// Approximate memory of a queue, in bytes.
pub const QUEUE_BYTES: u64 = 8_192;
/// Approximate memory of an entry of a map of texts besides its texts, in bytes.
const ENTRY_BYTES: u64 = 64;

/// A kind of object that has a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Quota {
    /// Pending requests.
    Asks,
    /// Applications that have not ended.
    Applications,
    /// Nodes.
    Nodes,
    /// Partitions of a configuration.
    Partitions,
    /// Queues, made on demand or configured.
    Queues,
    /// The approximate bytes of all objects that are kept.
    Bytes,
}

impl Quota {
    /// Returns the code of the reason for which an item is refused.
    pub fn code(self) -> &'static str {
        match self {
            Self::Asks => "R_QUOTA_ASKS",
            Self::Applications => "R_QUOTA_APPS",
            Self::Nodes => "R_QUOTA_NODES",
            Self::Partitions => "E_QUOTA_PARTITIONS",
            Self::Queues => "R_QUOTA_QUEUES",
            Self::Bytes => "R_QUOTA_BYTES",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Asks => "pending requests",
            Self::Applications => "applications",
            Self::Nodes => "nodes",
            Self::Partitions => "partitions",
            Self::Queues => "queues",
            Self::Bytes => "bytes",
        }
    }
}

/// The quotas of an RM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Pending requests, each counted once, however many allocations it requests.
    pub asks: u64,
    /// Applications that have not ended.
    pub applications: u64,
    /// Nodes.
    pub nodes: u64,
    /// Partitions; each has a thread of its own.
    pub partitions: u64,
    /// Queues.
    pub queues: u64,
    /// The approximate bytes of all objects that are kept.
    pub bytes: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            asks: 2_000_000,
            applications: 500_000,
            nodes: 200_000,
            partitions: 64,
            queues: 50_000,
            bytes: 4 << 30,
        }
    }
}

impl Quotas {
    /// Returns the quota of one kind.
    pub fn of(&self, quota: Quota) -> u64 {
        match quota {
            Quota::Asks => self.asks,
            Quota::Applications => self.applications,
            Quota::Nodes => self.nodes,
            Quota::Partitions => self.partitions,
            Quota::Queues => self.queues,
            Quota::Bytes => self.bytes,
        }
    }

    /// Returns these quotas, raised to the usage of an earlier session.
    #[must_use]
    pub fn raised_to(self, had: Held) -> Self {
        Self {
            asks: self.asks.max(had.asks),
            applications: self.applications.max(had.applications),
            nodes: self.nodes.max(had.nodes),
            partitions: self.partitions,
            queues: self.queues.max(had.queues),
            bytes: self.bytes.max(had.bytes),
        }
    }

    /// Whether to notify a partition of the present usage in the other partitions: the usage of
    /// some kind differs from the last notification by more than 1/64 of its quota.
    pub fn is_worth_telling(&self, told: Held, now: Held) -> bool {
        let differs = |quota: Quota| {
            let (before, after) = (told.of(quota), now.of(quota));
            before.abs_diff(after) > self.of(quota) / 64
        };
        KEPT.into_iter().any(differs)
    }
}

/// The kinds that partitions count.
const KEPT: [Quota; 5] =
    [Quota::Asks, Quota::Applications, Quota::Nodes, Quota::Queues, Quota::Bytes];

/// The usage of quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Pending requests.
    pub asks: u64,
    /// Applications that have not ended.
    pub applications: u64,
    /// Nodes.
    pub nodes: u64,
    /// Queues.
    pub queues: u64,
    /// The approximate bytes of all objects that are kept.
    pub bytes: u64,
}

impl Held {
    /// Returns the usage of one kind. Partitions are not counted here: their number follows from
    /// the configuration.
    pub fn of(&self, quota: Quota) -> u64 {
        match quota {
            Quota::Asks => self.asks,
            Quota::Applications => self.applications,
            Quota::Nodes => self.nodes,
            Quota::Partitions => 0,
            Quota::Queues => self.queues,
            Quota::Bytes => self.bytes,
        }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.combined(other, u64::saturating_add)
    }

    /// Returns this usage without `part`.
    #[must_use]
    pub fn minus(self, part: Self) -> Self {
        self.combined(part, u64::saturating_sub)
    }

    fn combined(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            asks: combine(self.asks, other.asks),
            applications: combine(self.applications, other.applications),
            nodes: combine(self.nodes, other.nodes),
            queues: combine(self.queues, other.queues),
            bytes: combine(self.bytes, other.bytes),
        }
    }
}

/// The refusal of an item whose RM has reached a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the resource manager may have at most {limit} {}", quota.noun())]
pub struct OverQuota {
    /// The quota.
    pub quota: Quota,
    /// The bound.
    pub limit: u64,
}

/// The quotas of an RM and their usage, as a partition knows them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct QuotaUsage {
    /// The quotas of the RM.
    pub most: Quotas,
    /// The usage in this partition.
    pub here: Held,
    /// The usage in the other partitions of the RM, as of the last notification.
    pub elsewhere: Held,
}

impl QuotaUsage {
    /// Starts with nothing used, of these quotas.
    pub fn new(most: Quotas) -> Self {
        Self { most, ..Self::default() }
    }

    /// Checks whether a new item may be accepted that adds `n_more` of one kind. None may if the
    /// bytes have reached their quota.
    pub fn takes(&self, quota: Quota, n_more: u64) -> Result<(), OverQuota> {
        let held = self.here.plus(self.elsewhere);
        let limit = self.most.of(quota);
        if held.of(quota).saturating_add(n_more) > limit {
            return Err(OverQuota { quota, limit });
        }
        self.has_memory()
    }

    /// Checks whether bytes are below their quota. Asks are placed only if they are, since one
    /// request may be for any number of allocations.
    pub fn has_memory(&self) -> Result<(), OverQuota> {
        if self.here.bytes.saturating_add(self.elsewhere.bytes) < self.most.bytes {
            return Ok(());
        }
        Err(OverQuota { quota: Quota::Bytes, limit: self.most.bytes })
    }

    /// Changes the usage here by the difference between `before` and `after`.
    pub fn change(&mut self, before: Held, after: Held) {
        self.here = self.here.minus(before).plus(after);
    }
}

/// Returns the approximate memory of texts by name, in bytes.
pub fn bytes_of_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = (T, T)>) -> u64 {
    let bytes = |text: T| text.as_ref().len() as u64;
    texts.into_iter().map(|(name, text)| ENTRY_BYTES + bytes(name) + bytes(text)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> Quotas {
        Quotas { asks: 5, applications: 4, nodes: 3, partitions: 2, queues: 6, bytes: 1_000 }
    }

    #[test]
    fn bytes_above_their_quota_keep_everything_new_out() {
        let mut usage = QuotaUsage::new(small());
        usage.here.bytes = 999;
        assert!(usage.takes(Quota::Asks, 1).is_ok());
        usage.elsewhere.bytes = 1;
        let over = usage.takes(Quota::Asks, 1).unwrap_err();
        assert_eq!((over.quota, over.quota.code()), (Quota::Bytes, "R_QUOTA_BYTES"));
    }

    #[test]
    fn a_session_may_have_what_the_one_before_had() {
        let had = Held { asks: 9, applications: 1, ..Held::default() };
        let quotas = small().raised_to(had);
        assert_eq!((quotas.asks, quotas.applications), (9, 4));
    }

    #[test]
    fn a_small_difference_is_not_worth_telling() {
        let quotas = Quotas::default();
        let told = Held { asks: 1_000, ..Held::default() };
        assert!(!quotas.is_worth_telling(told, Held { asks: 1_001, ..told }));
        assert!(quotas.is_worth_telling(told, Held { asks: 100_000, ..told }));
        let none_left = Quotas { nodes: 1, ..quotas };
        assert!(none_left.is_worth_telling(told, Held { nodes: 1, ..told }));
    }

    fn quota() -> impl Strategy<Value = Quota> {
        proptest::sample::select(KEPT.to_vec())
    }

    proptest! {
        /// Items that are accepted one by one never exceed the quota, and removed ones make room
        /// for as many new ones.
        #[test]
        fn what_is_taken_stays_within_the_quota(
            steps in proptest::collection::vec((quota(), any::<bool>()), 0..200),
        ) {
            let mut usage = QuotaUsage::new(Quotas { bytes: u64::MAX, ..small() });
            for (quota, comes) in steps {
                let one = Held {
                    asks: u64::from(quota == Quota::Asks),
                    applications: u64::from(quota == Quota::Applications),
                    nodes: u64::from(quota == Quota::Nodes),
                    queues: u64::from(quota == Quota::Queues),
                    bytes: 0,
                };
                let is_full = usage.here.of(quota) == usage.most.of(quota);
                if comes {
                    prop_assert_eq!(usage.takes(quota, 1).is_err(), is_full);
                    if !is_full {
                        usage.change(Held::default(), one);
                    }
                } else {
                    usage.change(one, Held::default());
                }
                for quota in KEPT {
                    prop_assert!(usage.here.of(quota) <= usage.most.of(quota));
                }
            }
        }
    }
}
