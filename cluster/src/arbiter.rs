//! Operations of the arbiter as data: requests that a member wants sent, and their replies.
//!
//! # Duties of an adapter
//! * Each request gets exactly one reply. After a time-out that is [`Reply::Unknown`], even though
//!   the arbiter may still carry the request out later.
//! * Reads are linearizable: the reply has every write that ended before the read was sent.
//! * A compare-and-set is won only if the record has the expected version at that moment.
//! * The parts of [`Snapshot`] may be read one after another. Its revision is the lowest of them.

use std::collections::BTreeMap;

use crate::names::{MemberId, Revision, RmId, Version};
use crate::records::{Claim, Era, Key, MemberRecord, Record, Versioned};

/// Request to the arbiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Reads one record.
    Read(Key),
    /// Reads all records but configurations: [`Reply::All`].
    ReadAll,
    /// Writes a record if it still has the expected version.
    CompareAndSet {
        /// Place of the record.
        key: Key,
        /// Version that the record must have. `None`: there must be no record.
        expected: Option<Version>,
        /// New contents.
        record: Record,
    },
}

/// Reply of the arbiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To [`Request::Read`]. `None`: no such record.
    Read(Option<Versioned<Record>>, Revision),
    /// To [`Request::ReadAll`].
    All(Snapshot),
    /// The compare-and-set was carried out: the new version of the record.
    Won(Version, Revision),
    /// The record has another version: its contents, or `None` where there is no record.
    Lost(Option<Versioned<Record>>, Revision),
    /// No answer came. A compare-and-set may have been carried out, or may be later.
    Unknown,
}

/// All records of the cluster but configurations, which no rule of a member needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The store's revision.
    pub revision: Revision,
    /// All members.
    pub members: BTreeMap<MemberId, Versioned<MemberRecord>>,
    /// All claims.
    pub claims: BTreeMap<RmId, Versioned<Claim>>,
    /// The era. `None` as long as no restore was accepted.
    pub era: Option<Versioned<Era>>,
}

/// Result of a compare-and-set, once its own contents are recognized in the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Won(Version),
    Lost(Option<Versioned<Record>>),
    Unknown,
}

impl Reply {
    /// Revision of the store, if the reply names one.
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Read(_, revision) | Self::Won(_, revision) | Self::Lost(_, revision) => {
                Some(*revision)
            }
            Self::All(snapshot) => Some(snapshot.revision),
            Self::Unknown => None,
        }
    }

    /// Result of the compare-and-set that wrote `written`. A lost one that finds its own contents
    /// was won when it was sent before.
    pub(crate) fn outcome(self, written: &Record) -> Outcome {
        match self {
            Self::Won(version, _) => Outcome::Won(version),
            Self::Lost(Some(current), _) if current.value == *written => {
                Outcome::Won(current.version)
            }
            Self::Lost(current, _) => Outcome::Lost(current),
            Self::Unknown | Self::Read(..) | Self::All(_) => Outcome::Unknown,
        }
    }
}

impl Versioned<Record> {
    /// The claim, if this is one.
    pub(crate) fn into_claim(self) -> Option<Versioned<Claim>> {
        match self.value {
            Record::Claim(value) => Some(Versioned { version: self.version, value }),
            Record::Member(_) | Record::Group(_) | Record::Era(_) => None,
        }
    }

    /// The record of a member, if this is one.
    pub(crate) fn into_member(self) -> Option<Versioned<MemberRecord>> {
        match self.value {
            Record::Member(value) => Some(Versioned { version: self.version, value }),
            Record::Claim(_) | Record::Group(_) | Record::Era(_) => None,
        }
    }
}
