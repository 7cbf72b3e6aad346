//! The arbiter: requests of a member's state machine, carried out on a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join3;
use monoceros_cluster::{
    GroupId, Key, MemberId, Record, Reply, Request, Revision, RmId, Snapshot, Versioned,
};

use crate::codec::{decode, encode};
use crate::hints::Hints;
use crate::store::{Failure, Kind, MAX_RECORDS, RecordKey, Store, Written};

/// Id of the record of the era, which is the only one of its kind.
const ERA: &str = "era";
/// Id of the configuration of all groups without a record of their own.
const OTHERS: &str = "*";
/// Most records of a kind to which another one is added. Several members may add records between
/// two reads, and one record too many would fence all of them: reads would fail.
const MAX_BEFORE_CREATE: usize = MAX_RECORDS - 1_000;

/// Carries out typed requests on a store of bytes. Clones share their counts.
#[derive(Clone, Debug)]
pub struct Arbiter {
    store: Arc<dyn Store>,
    counts: Arc<Counts>,
}

/// Numbers of records at the last read of all, and those created here since.
#[derive(Debug, Default)]
struct Counts {
    members: AtomicUsize,
    claims: AtomicUsize,
}

impl Counts {
    /// Count of a kind. `None`: the kind has one record at most, or is counted when one is added.
    fn of(&self, kind: Kind) -> Option<&AtomicUsize> {
        match kind {
            Kind::Members => Some(&self.members),
            Kind::Claims => Some(&self.claims),
            Kind::Groups | Kind::Era => None,
        }
    }
}

impl Arbiter {
    /// An arbiter whose records are in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, counts: Arc::default() }
    }

    /// Time within which each request ends.
    pub fn timeout(&self) -> Duration {
        self.store.timeout()
    }

    /// Carries out one request. After a failure its result is unknown: [`Reply::Unknown`].
    pub async fn ask(&self, request: Request) -> Result<Reply, Failure> {
        match request {
            Request::Read(key) => {
                let key = record_key(&key)?;
                let reading = self.store.read(&key).await?;
                Ok(Reply::Read(typed(&key, reading.record)?, reading.revision))
            }
            Request::ReadAll => self.read_all().await.map(Reply::All),
            Request::CompareAndSet { key, expected, record } => {
                let key = record_key(&key)?;
                let count = self.counts.of(key.kind()).filter(|_| expected.is_none());
                let records = match count {
                    Some(count) => count.load(Ordering::Relaxed),
                    // Groups are rarely added, and never all read.
                    None if key.kind() == Kind::Groups && expected.is_none() => {
                        self.store.count(Kind::Groups).await?
                    }
                    None => 0,
                };
                if records >= MAX_BEFORE_CREATE {
                    return Err(Failure::Full { kind: key.kind(), records });
                }
                match self.store.compare_and_set(&key, expected, encode(&record)).await? {
                    Written::Won(version, revision) => {
                        if let Some(count) = count {
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(Reply::Won(version, revision))
                    }
                    Written::Lost(current, revision) => {
                        Ok(Reply::Lost(typed(&key, current)?, revision))
                    }
                }
            }
        }
    }

    /// Watches the configurations for changes after `from`, from within a Tokio runtime.
    pub fn watch_groups(&self, from: Revision) -> Hints {
        self.store.watch(Kind::Groups, from)
    }

    /// Reads members, claims and era side by side. The revision is the lowest of the three reads.
    async fn read_all(&self) -> Result<Snapshot, Failure> {
        let read = |kind| self.store.read_all(kind);
        let (members, claims, eras) =
            try_join3(read(Kind::Members), read(Kind::Claims), read(Kind::Era)).await?;
        let revision: Revision = members.revision.min(claims.revision).min(eras.revision);
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        for (kind, listing) in [(Kind::Members, members), (Kind::Claims, claims), (Kind::Era, eras)]
        {
            if let Some(count) = self.counts.of(kind) {
                count.store(listing.records.len(), Ordering::Relaxed);
            }
            for (id, Versioned { version, value }) in listing.records {
                match decode(kind, &id, &value)? {
                    Record::Member(value) => {
                        snapshot.members.insert(MemberId(id), Versioned { version, value });
                    }
                    Record::Claim(value) => {
                        snapshot.claims.insert(RmId(id), Versioned { version, value });
                    }
                    Record::Era(value) => snapshot.era = Some(Versioned { version, value }),
                    Record::Group(_) => debug_assert!(false, "no read of all lists groups"),
                }
            }
        }
        Ok(snapshot)
    }
}

/// Place of a typed key in the store.
fn record_key(key: &Key) -> Result<RecordKey, Failure> {
    match key {
        Key::Member(MemberId(id)) => RecordKey::new(Kind::Members, id),
        Key::Claim(RmId(id)) => RecordKey::new(Kind::Claims, id),
        Key::Group(group) => RecordKey::new(Kind::Groups, &group_id(group)),
        Key::Era => RecordKey::new(Kind::Era, &ERA.into()),
    }
}

/// Id of a group's record: the group's name. A name that begins like the id of all others gets one
/// more [`OTHERS`] in front.
fn group_id(group: &GroupId) -> Arc<str> {
    match group {
        GroupId::Others => OTHERS.into(),
        GroupId::Named(name) if name.starts_with(OTHERS) => format!("{OTHERS}{name}").into(),
        GroupId::Named(name) => name.clone(),
    }
}

fn typed(
    key: &RecordKey,
    found: Option<Versioned<Bytes>>,
) -> Result<Option<Versioned<Record>>, Failure> {
    let Some(Versioned { version, value }) = found else { return Ok(None) };
    Ok(Some(Versioned { version, value: decode(key.kind(), key.id(), &value)? }))
}
