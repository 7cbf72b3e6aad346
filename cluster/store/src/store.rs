//! The trait of a store: versioned records of bytes, in four kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use monoceros_cluster::{Revision, Version, Versioned};
use tokio::time::timeout;

use crate::causes::one_line;
use crate::hints::Hints;

/// Longest id of a record, in bytes.
pub const MAX_ID: usize = 256;
/// Most records of one kind. A read of more fails.
pub const MAX_RECORDS: usize = 20_000;
/// Times that a kind is listed if the server forgets the revision of a listing before its last
/// page.
const LISTINGS: usize = 3;

/// Kinds of records. Each is read and watched as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Members of the cluster.
    Members,
    /// Claims, one for each RM.
    Claims,
    /// Configurations of policy groups.
    Groups,
    /// The era of the store: one record.
    Era,
}

impl Kind {
    /// Folder of the records in a store with paths, and label in a store with labels.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Claims => "rms",
            Self::Groups => "groups",
            Self::Era => "era",
        }
    }

    /// Largest record, in bytes. A configuration has to fit a config map with its other fields.
    pub fn max_value(self) -> usize {
        match self {
            Self::Groups => 900 * 1024,
            Self::Members | Self::Claims | Self::Era => 16 * 1024,
        }
    }

    /// Most records in one reply: 8 MB of small ones, 14 MB of configurations.
    pub(crate) fn page(self) -> u32 {
        match self {
            Self::Groups => 16,
            Self::Members | Self::Claims | Self::Era => 500,
        }
    }
}

/// Name of a cluster, by which several can share one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName(Arc<str>);

/// A cluster name that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a cluster: 1 to 63 of a-z, 0-9 and `-` are allowed, `-` not at an end")]
pub struct BadClusterName(pub String);

impl ClusterName {
    /// Checks a name. It becomes part of paths, and a label of Kubernetes.
    pub fn new(name: &str) -> Result<Self, BadClusterName> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=63).contains(&name.len()) && name.bytes().all(is_allowed);
        if !fits || name.starts_with('-') || name.ends_with('-') {
            return Err(BadClusterName(name.chars().take(80).collect()));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Place of a record in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    kind: Kind,
    id: Arc<str>,
}

impl RecordKey {
    /// The record `id` of a kind. Fails if the id is empty or longer than [`MAX_ID`].
    pub fn new(kind: Kind, id: &Arc<str>) -> Result<Self, Failure> {
        if (1..=MAX_ID).contains(&id.len()) {
            Ok(Self { kind, id: id.clone() })
        } else {
            Err(Failure::BadId { kind, length: id.len() })
        }
    }

    /// Kind of the record.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Id of the record within its kind.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Fails if the contents are larger than the kind allows.
    pub(crate) fn check(&self, value: &Bytes) -> Result<(), Failure> {
        let most = self.kind.max_value();
        if value.len() <= most {
            return Ok(());
        }
        Err(Failure::TooLarge { key: self.clone(), size: value.len(), most })
    }

    /// Returns a record that was read. Fails if it is larger than the kind allows.
    pub(crate) fn check_read(&self, record: Versioned<Bytes>) -> Result<Versioned<Bytes>, Failure> {
        let (size, most) = (record.value.len(), self.kind.max_value());
        if size <= most {
            return Ok(record);
        }
        Err(Failure::unreadable(self, format!("its {size} bytes are more than {most}")))
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.folder(), self.id.escape_debug())
    }
}

/// Reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No answer in time, or a connection that failed: endpoints and reasons. A write may have been
    /// carried out, or may be later.
    #[error("{0}")]
    NoAnswer(String),
    /// The store refused the request: endpoint and reason. Nothing was written.
    #[error("{0}")]
    Refused(String),
    /// The contents are too large. Nothing was sent.
    #[error("record `{key}` of {size} bytes is too large: the most is {most}")]
    TooLarge {
        /// Place of the record.
        key: RecordKey,
        /// Size of the contents in bytes.
        size: usize,
        /// Largest size in bytes.
        most: usize,
    },
    /// The id is empty or too long. Nothing was sent.
    #[error("an id of {length} bytes in `{}`: 1 to {MAX_ID} are allowed", kind.folder())]
    BadId {
        /// Kind of the record.
        kind: Kind,
        /// Length of the id in bytes.
        length: usize,
    },
    /// The kind is close to [`MAX_RECORDS`], so no record is added. Nothing was sent.
    #[error("`{}` has {records} records: no more are added", kind.folder())]
    Full {
        /// The kind.
        kind: Kind,
        /// Records at the last read.
        records: usize,
    },
    /// The kind has more than [`MAX_RECORDS`] records.
    #[error("more than {MAX_RECORDS} records in `{}`", .0.folder())]
    TooMany(Kind),
    /// A record that is there cannot be understood: its place and the reason.
    #[error("record `{key}` cannot be read: {reason}")]
    Unreadable {
        /// Place of the record in the store.
        key: String,
        /// Reason.
        reason: String,
    },
}

impl Failure {
    /// A refusal of an endpoint.
    pub(crate) fn refused(endpoint: &str, reason: impl fmt::Display) -> Self {
        Self::Refused(format!("{endpoint}: {}", one_line(reason)))
    }

    /// A request without an answer, at an endpoint.
    pub(crate) fn no_answer(endpoint: &str, reason: impl fmt::Display) -> Self {
        Self::NoAnswer(format!("{endpoint}: {}", one_line(reason)))
    }

    /// A request that was given up after `waited`.
    pub(crate) fn timed_out(endpoint: &str, waited: Duration) -> Self {
        Self::no_answer(endpoint, format!("no answer within {} ms", waited.as_millis()))
    }

    /// The failure of a read after a write that the server has answered: a refusal of the read does
    /// not mean that nothing was written.
    pub(crate) fn of_a_write(self) -> Self {
        match self {
            Self::Refused(reason) => Self::NoAnswer(reason),
            other => other,
        }
    }

    pub(crate) fn unreadable(key: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Unreadable { key: one_line(key), reason: one_line(reason) }
    }
}

/// Result of reading one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The record. `None`: there is none.
    pub record: Option<Versioned<Bytes>>,
    /// Revision of the store at the read.
    pub revision: Revision,
}

/// Result of reading all records of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The records by id, all as they were at one revision.
    pub records: BTreeMap<Arc<str>, Versioned<Bytes>>,
    /// Revision at which they were read.
    pub revision: Revision,
}

impl Listing {
    /// Adds a record. Fails beyond [`MAX_RECORDS`], and if the record is too large.
    pub(crate) fn add(&mut self, key: &RecordKey, record: Versioned<Bytes>) -> Result<(), Failure> {
        self.records.insert(key.id.clone(), key.check_read(record)?);
        if self.records.len() > MAX_RECORDS { Err(Failure::TooMany(key.kind)) } else { Ok(()) }
    }
}

/// Reason why a listing ended early.
pub(crate) enum Interrupted {
    /// The server has forgotten the revision of the first page. Another listing may succeed.
    Forgotten(Failure),
    /// Any other failure.
    Failed(Failure),
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Lists a kind, and begins again if the server forgets the listing's revision meanwhile.
pub(crate) async fn list<F>(read_pages: impl Fn() -> F) -> Result<Listing, Failure>
where
    F: Future<Output = Result<Listing, Interrupted>>,
{
    let mut tries = 1;
    loop {
        match read_pages().await {
            Ok(listing) => return Ok(listing),
            Err(Interrupted::Forgotten(_)) if tries < LISTINGS => tries += 1,
            Err(Interrupted::Forgotten(failure) | Interrupted::Failed(failure)) => {
                return Err(failure);
            }
        }
    }
}

/// Ends a request when its time is over.
pub(crate) async fn in_time<T>(
    endpoint: &str,
    patience: Duration,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let ended = timeout(patience, request).await;
    ended.unwrap_or_else(|_| Err(Failure::timed_out(endpoint, patience)))
}

/// Result of a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The write was carried out: the new version of the record, and the revision of the store.
    Won(Version, Revision),
    /// The record had another version. The present record, and the revision of the store.
    Lost(Option<Versioned<Bytes>>, Revision),
}

/// A store of records, shared by all members of a cluster.
///
/// # Duties
/// * Each request ends within [`Self::timeout`], whatever its server does.
/// * Reads are linearizable: a write that ended before the read began is in its result.
/// * A compare-and-set is carried out only if the record has the expected version at that moment.
///   One that is sent again after [`Failure::NoAnswer`] may be lost to itself: the current contents
///   show it.
/// * Revisions never go back, unless a backup is restored. No version is larger than the revision.
/// * A compare-and-set that changes nothing may keep the version.
///
/// # Watches
/// The task of a member does not watch: it reads all records with each renewal. Watches are for the
/// service around it, which applies a configuration of a policy group soon after it is written.
pub trait Store: fmt::Debug + Send + Sync {
    /// Time within which each request ends.
    fn timeout(&self) -> Duration;

    /// Reads one record.
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Reading, Failure>>;

    /// Reads all records of a kind.
    fn read_all(&self, kind: Kind) -> BoxFuture<'_, Result<Listing, Failure>>;

    /// Counts the records of a kind without reading their contents. The count may be a moment old.
    fn count(&self, kind: Kind) -> BoxFuture<'_, Result<usize, Failure>>;

    /// Writes a record if it still has the expected version. `None`: if there is no record.
    fn compare_and_set<'a>(
        &'a self,
        key: &'a RecordKey,
        expected: Option<Version>,
        value: Bytes,
    ) -> BoxFuture<'a, Result<Written, Failure>>;

    /// Watches a kind for changes after `from`, from within a Tokio runtime. A hint is a reason to
    /// read, and no reason to decide.
    fn watch(&self, kind: Kind, from: Revision) -> Hints;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_is_a_label() {
        for good in ["a", "monoceros", "7-a", &"x".repeat(63)] {
            assert_eq!(ClusterName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a/b", "a.b", "ä", &"x".repeat(64)] {
            ClusterName::new(bad).unwrap_err();
        }
        assert!(ClusterName::new(&"y".repeat(999)).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn failures_name_the_record_and_the_bound() {
        let key = RecordKey::new(Kind::Claims, &"a\nb".into()).unwrap();
        let failure = key.check(&vec![0; 16 * 1024 + 1].into()).unwrap_err();
        let text = r"record `rms/a\nb` of 16385 bytes is too large: the most is 16384";
        assert_eq!(failure.to_string(), text);
        let record = Versioned { version: Version(1), value: vec![0; 16 * 1024 + 1].into() };
        let failure = key.check_read(record).unwrap_err();
        let text = r"record `rms/a\nb` cannot be read: its 16385 bytes are more than 16384";
        assert_eq!(failure.to_string(), text);
        let failure = RecordKey::new(Kind::Groups, &"x".repeat(257).into()).unwrap_err();
        assert_eq!(failure.to_string(), "an id of 257 bytes in `groups`: 1 to 256 are allowed");
    }
}
