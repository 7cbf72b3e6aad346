//! Quotas of a resource manager: a bound for each kind of thing that it can make the scheduler
//! keep, so that none can take the memory or the threads of all.
//!
//! # What is refused
//! Only what is new. What runs is reported and not asked for, and a release or a change of a node
//! makes nothing larger that could be refused: those are taken whatever the quotas say, and count.
//! So what is kept may be above a quota, and nothing new is taken until it is below again. A session
//! that takes the place of another may have what that one had: whoever brings everything back after
//! a loss is not refused half of it ([`Quotas::raised_to`]).
//!
//! # Whose count
//! Quotas are those of an RM and its partitions decide one by one. Each counts what it has, and is
//! told what the others have together ([`Standing::elsewhere`]). That comes as an input, so that
//! what is decided follows from inputs alone, and lags by at most a part of the quota
//! ([`Quotas::is_worth_telling`]).
//!
//! ```
//! use monoceros_rules::specs::quotas::{Held, Quota, Quotas, Standing};
//! let mut standing = Standing::new(Quotas { nodes: 3, ..Quotas::default() });
//! standing.here = Held { nodes: 1, ..Held::default() };
//! assert!(standing.takes(Quota::Nodes, 2).is_ok());
//! standing.elsewhere.nodes = 1;
//! let over = standing.takes(Quota::Nodes, 2).unwrap_err();
//! assert_eq!(over.to_string(), "the resource manager may have at most 3 nodes");
//! ```

use serde::{Deserialize, Serialize};

/// What an allocation takes beside its specification, bytes, about.
pub const ALLOCATION_BYTES: u64 = 768;
/// What an ask takes beside its texts, bytes, about.
pub const ASK_BYTES: u64 = 768;
/// What an application takes beside its texts, asks and allocations, bytes, about.
pub const APPLICATION_BYTES: u64 = 4_096;
/// What a node takes beside its attributes, bytes, about.
pub const NODE_BYTES: u64 = 4_096;
/// What a queue takes, bytes, about.
pub const QUEUE_BYTES: u64 = 8_192;
/// What an entry of a map of texts takes beside its texts, bytes, about.
const ENTRY_BYTES: u64 = 64;

/// A kind of thing that there is a quota of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Quota {
    /// Requests that wait.
    Asks,
    /// Applications that are not over.
    Applications,
    /// Nodes.
    Nodes,
    /// Partitions of a configuration.
    Partitions,
    /// Queues, made on demand or configured.
    Queues,
    /// Bytes of all that is kept, about.
    Bytes,
}

impl Quota {
    /// The code of the reason for which something is refused.
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

/// How much of each kind an RM may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Requests that wait, each counted once however many allocations it wants.
    pub asks: u64,
    /// Applications that are not over.
    pub applications: u64,
    /// Nodes.
    pub nodes: u64,
    /// Partitions; each has a thread of its own.
    pub partitions: u64,
    /// Queues.
    pub queues: u64,
    /// Bytes of all that is kept, about.
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
    /// How much of one kind.
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

    /// These, and at least as much as there was.
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

    /// Whether a partition should hear that the others have so much by now, and not what it was told
    /// last: where it is another part of a quota, of 64.
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

/// How much of each kind there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Requests that wait.
    pub asks: u64,
    /// Applications that are not over.
    pub applications: u64,
    /// Nodes.
    pub nodes: u64,
    /// Queues.
    pub queues: u64,
    /// Bytes, about.
    pub bytes: u64,
}

impl Held {
    /// How much of one kind. Partitions are not counted here: a configuration has them or not.
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

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.combined(other, u64::saturating_add)
    }

    /// Without a part of it.
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

/// Something was refused because its RM has as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the resource manager may have at most {limit} {}", quota.noun())]
pub struct OverQuota {
    /// Of what.
    pub quota: Quota,
    /// How many.
    pub limit: u64,
}

/// What a partition knows of the quotas of its RM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// How much the RM may have.
    pub most: Quotas,
    /// What there is in this partition.
    pub here: Held,
    /// What the other partitions of the RM had together when they were last told of.
    pub elsewhere: Held,
}

impl Standing {
    /// Nothing yet.
    pub fn new(most: Quotas) -> Self {
        Self { most, ..Self::default() }
    }

    /// Whether something new may be taken that adds so many of one kind. Nothing is while bytes are
    /// above their quota.
    pub fn takes(&self, quota: Quota, n_more: u64) -> Result<(), OverQuota> {
        let held = self.here.plus(self.elsewhere);
        let limit = self.most.of(quota);
        if held.of(quota).saturating_add(n_more) > limit {
            return Err(OverQuota { quota, limit });
        }
        self.has_memory()
    }

    /// Whether there may be more of anything: whether bytes are below their quota. What is asked for
    /// is placed only then, since one request may be for any number of allocations.
    pub fn has_memory(&self) -> Result<(), OverQuota> {
        if self.here.bytes.saturating_add(self.elsewhere.bytes) < self.most.bytes {
            return Ok(());
        }
        Err(OverQuota { quota: Quota::Bytes, limit: self.most.bytes })
    }

    /// A part of what is here has become another.
    pub fn change(&mut self, before: Held, after: Held) {
        self.here = self.here.minus(before).plus(after);
    }
}

/// What texts by name take, about.
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
        let mut standing = Standing::new(small());
        standing.here.bytes = 999;
        assert!(standing.takes(Quota::Asks, 1).is_ok());
        standing.elsewhere.bytes = 1;
        let over = standing.takes(Quota::Asks, 1).unwrap_err();
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
        /// What is taken one by one is never above the quota, and what goes makes room for as many.
        #[test]
        fn what_is_taken_stays_within_the_quota(
            steps in proptest::collection::vec((quota(), any::<bool>()), 0..200),
        ) {
            let mut standing = Standing::new(Quotas { bytes: u64::MAX, ..small() });
            for (quota, comes) in steps {
                let one = Held {
                    asks: u64::from(quota == Quota::Asks),
                    applications: u64::from(quota == Quota::Applications),
                    nodes: u64::from(quota == Quota::Nodes),
                    queues: u64::from(quota == Quota::Queues),
                    bytes: 0,
                };
                let is_full = standing.here.of(quota) == standing.most.of(quota);
                if comes {
                    prop_assert_eq!(standing.takes(quota, 1).is_err(), is_full);
                    if !is_full {
                        standing.change(Held::default(), one);
                    }
                } else {
                    standing.change(one, Held::default());
                }
                for quota in KEPT {
                    prop_assert!(standing.here.of(quota) <= standing.most.of(quota));
                }
            }
        }
    }
}
