//! The arbiter: requests of a member's state machine, carried out on a store.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join3;
use monoceros_cluster::{
    Key, MemberId, Record, Reply, Request, Revision, RmId, Snapshot, Versioned,
};

use crate::codec::{decode, encode};
use crate::store::{Failure, Kind, RecordKey, Store, Written};

/// Id of the record of the era, which is the only one of its kind.
const ERA: &str = "era";

/// Carries out typed requests on a store of bytes.
#[derive(Clone, Debug)]
pub struct Arbiter {
    store: Arc<dyn Store>,
}

impl Arbiter {
    /// An arbiter whose records are in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
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
                match self.store.compare_and_set(&key, expected, encode(&record)).await? {
                    Written::Won(version, revision) => Ok(Reply::Won(version, revision)),
                    Written::Lost(current, revision) => {
                        Ok(Reply::Lost(typed(&key, current)?, revision))
                    }
                }
            }
        }
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
            for (id, Versioned { version, value }) in listing.records {
                match decode(kind, &id, &value)? {
                    Record::Member(value) => {
                        snapshot.members.insert(MemberId(id), Versioned { version, value });
                    }
                    Record::Claim(value) => {
                        snapshot.claims.insert(RmId(id), Versioned { version, value });
                    }
                    Record::Era(value) => snapshot.era = Some(Versioned { version, value }),
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
        Key::Era => RecordKey::new(Kind::Era, &ERA.into()),
    }
}

fn typed(
    key: &RecordKey,
    found: Option<Versioned<Bytes>>,
) -> Result<Option<Versioned<Record>>, Failure> {
    let Some(Versioned { version, value }) = found else { return Ok(None) };
    Ok(Some(Versioned { version, value: decode(key.kind(), key.id(), &value)? }))
}
