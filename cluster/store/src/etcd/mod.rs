//! Records in etcd, from version 3.4 on.
//!
//! # Keys
//! `/monoceros/{cluster}/{kind}/{id}`. All bytes of the id are percent-encoded, except letters,
//! digits and `-._~`.
//! The version of a record is the revision of its last write (`mod_revision`).
//!
//! # Why a client of our own
//! The crates for etcd need a protobuf compiler that is installed apart. Three services of a few
//! calls are generated from `proto/etcd.proto` instead.

mod connection;
mod denied;
mod options;
#[allow(missing_docs, unreachable_pub, clippy::pedantic)] // Generated code.
pub(crate) mod proto {
    tonic::include_proto!("etcdserverpb");
}
#[cfg(feature = "testing")]
mod testing;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use monoceros_cluster::{Revision, Version, Versioned};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

pub use self::options::{BadOptions, EtcdOptions, TlsFiles, User};

use self::connection::{Connections, Server};
use self::denied::Denied;
use self::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use self::proto::request_op::Request;
use self::proto::response_op::Response;
use self::proto::{
    Compare, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseHeader,
    TxnRequest,
};
use crate::hints::Hints;
use crate::store::{
    ClusterName, Failure, Interrupted, Kind, Listing, Reading, RecordKey, Store, Written, list,
};

/// Bytes of an id that are written as `%` and two digits.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A store of records in etcd.
#[derive(Debug)]
pub struct Etcd {
    connections: Arc<Connections>,
    /// `/monoceros/{cluster}/`.
    root: String,
    /// Most records in one reply, where a test wants fewer than usual.
    page: Option<u32>,
}

impl Etcd {
    /// Checks the options, and reads the files that they name. The first request connects.
    pub fn new(cluster: &ClusterName, options: EtcdOptions) -> Result<Self, BadOptions> {
        let connections = Arc::new(Connections::new(options)?);
        Ok(Self { connections, root: format!("/monoceros/{}/", cluster.as_str()), page: None })
    }

    fn prefix(&self, kind: Kind) -> String {
        format!("{}{}/", self.root, kind.folder())
    }

    fn key(&self, key: &RecordKey) -> Bytes {
        let id = utf8_percent_encode(key.id(), ENCODED);
        format!("{}{id}", self.prefix(key.kind())).into()
    }

    /// Place of a record that was listed under `at`.
    fn record_key(&self, kind: Kind, prefix: &str, at: &[u8]) -> Result<RecordKey, Failure> {
        let unreadable = |why: &dyn std::fmt::Display| Failure::unreadable(at.escape_ascii(), why);
        let key = RecordKey::new(kind, &id_of(prefix, at)?).map_err(|why| unreadable(&why))?;
        if self.key(&key) != at {
            return Err(unreadable(&format!("it is not the key of record `{key}`")));
        }
        Ok(key)
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Denied> {
        let call = |server: Server| {
            let request = server.request(request.clone());
            async move { server.kv().range(request).await }
        };
        self.connections.call(call).await
    }

    async fn read_key(&self, key: &RecordKey) -> Result<Reading, Failure> {
        let request = RangeRequest { key: self.key(key), ..RangeRequest::default() };
        let answer = self.range(request).await?;
        let revision = revision(answer.header)?;
        Ok(Reading { record: first(key, answer.kvs)?, revision })
    }

    async fn read_kind(&self, kind: Kind) -> Result<Listing, Failure> {
        list(|| self.read_pages(kind)).await
    }

    /// Reads all pages at the revision of the first.
    async fn read_pages(&self, kind: Kind) -> Result<Listing, Interrupted> {
        let prefix = self.prefix(kind);
        let limit = self.page.unwrap_or(kind.page());
        let mut request = RangeRequest {
            key: prefix.clone().into(),
            range_end: end_of(&prefix),
            limit: i64::from(limit),
            ..RangeRequest::default()
        };
        let mut listing = Listing::default();
        loop {
            let answer = self.range(request.clone()).await?;
            if request.revision == 0 {
                listing.revision = revision(answer.header)?;
                request.revision = signed(listing.revision.0);
            }
            let Some(last) = answer.kvs.last() else { return Ok(listing) };
            // The key after the last one: that with a zero behind it.
            request.key = [&last.key[..], &[0]].concat().into();
            for found in answer.kvs {
                let key = self.record_key(kind, &prefix, &found.key)?;
                listing.add(&key, record(found))?;
            }
            if !answer.more {
                return Ok(listing);
            }
        }
    }

    async fn count_kind(&self, kind: Kind) -> Result<usize, Failure> {
        let prefix = self.prefix(kind);
        let range_end = end_of(&prefix);
        let (key, count_only) = (prefix.into(), true);
        let request = RangeRequest { key, range_end, count_only, ..RangeRequest::default() };
        Ok(usize::try_from(self.range(request).await?.count).unwrap_or_default())
    }

    async fn write(
        &self,
        key: &RecordKey,
        expected: Option<Version>,
        value: Bytes,
    ) -> Result<Written, Failure> {
        key.check(&value)?;
        let at = self.key(key);
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Mod.into(),
            key: at.clone(),
            target_union: Some(TargetUnion::ModRevision(signed(
                expected.map_or(0, |version| version.0),
            ))),
        };
        let put = Request::RequestPut(PutRequest { key: at.clone(), value });
        let read = Request::RequestRange(RangeRequest { key: at, ..RangeRequest::default() });
        let request = TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp { request: Some(put) }],
            failure: vec![RequestOp { request: Some(read) }],
        };
        let call = |server: Server| {
            let request = server.request(request.clone());
            async move { server.kv().txn(request).await }
        };
        let answer = self.connections.call(call).await?;
        let revision = revision(answer.header)?;
        if answer.succeeded {
            return Ok(Written::Won(Version(revision.0), revision));
        }
        match answer.responses.into_iter().next().and_then(|answer| answer.response) {
            Some(Response::ResponseRange(found)) => {
                Ok(Written::Lost(first(key, found.kvs)?, revision))
            }
            _ => Err(Failure::unreadable(key, "the lost write has no current record")),
        }
    }
}

impl Store for Etcd {
    fn timeout(&self) -> Duration {
        self.connections.timeout()
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Reading, Failure>> {
        Box::pin(self.read_key(key))
    }

    fn read_all(&self, kind: Kind) -> BoxFuture<'_, Result<Listing, Failure>> {
        Box::pin(self.connections.in_time(self.read_kind(kind)))
    }

    fn count(&self, kind: Kind) -> BoxFuture<'_, Result<usize, Failure>> {
        Box::pin(self.count_kind(kind))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a RecordKey,
        expected: Option<Version>,
        value: Bytes,
    ) -> BoxFuture<'a, Result<Written, Failure>> {
        Box::pin(self.write(key, expected, value))
    }

    fn watch(&self, kind: Kind, from: Revision) -> Hints {
        watch::begin(self.connections.clone(), &self.prefix(kind), from)
    }
}

/// The first key after all that begin with `prefix`, which ends with `/`.
fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

fn id_of(prefix: &str, key: &[u8]) -> Result<Arc<str>, Failure> {
    let id = key.strip_prefix(prefix.as_bytes());
    match id.map(|id| percent_decode(id).decode_utf8()) {
        Some(Ok(id)) => Ok(id.into()),
        _ => Err(Failure::unreadable(key.escape_ascii(), "its key is not percent-encoded text")),
    }
}

/// The record in the reply to a request for one key.
fn first(key: &RecordKey, found: Vec<KeyValue>) -> Result<Option<Versioned<Bytes>>, Failure> {
    found.into_iter().next().map(|found| key.check_read(record(found))).transpose()
}

fn record(found: KeyValue) -> Versioned<Bytes> {
    Versioned { version: Version(unsigned(found.mod_revision)), value: found.value }
}

fn revision(header: Option<ResponseHeader>) -> Result<Revision, Failure> {
    let header = header.ok_or_else(|| Failure::NoAnswer("a reply without a revision".into()))?;
    Ok(Revision(unsigned(header.revision)))
}

/// Revisions count writes from 1: they fit both types.
fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_percent_encoded_below_their_kind() {
        let options = EtcdOptions::new(vec!["http://127.0.0.1:1".to_owned()]);
        let etcd = Etcd::new(&ClusterName::new("c").unwrap(), options).unwrap();
        let key = RecordKey::new(Kind::Claims, &"a/%ü~1".into()).unwrap();
        let encoded = etcd.key(&key);
        assert_eq!(encoded, "/monoceros/c/rms/a%2F%25%C3%BC~1");
        assert_eq!(&*id_of("/monoceros/c/rms/", &encoded).unwrap(), "a/%ü~1");
        assert_eq!(end_of("/monoceros/c/rms/"), "/monoceros/c/rms0");
        assert_eq!(etcd.record_key(Kind::Claims, "/monoceros/c/rms/", &encoded).unwrap(), key);
        let twice = etcd.record_key(Kind::Claims, "/monoceros/c/rms/", b"/monoceros/c/rms/%61");
        let expected = "record `/monoceros/c/rms/%61` cannot be read: it is not the key of record \
                        `rms/a`";
        assert_eq!(twice.unwrap_err().to_string(), expected);
        let bad = id_of("/a/", b"/a/%FF").unwrap_err().to_string();
        assert_eq!(bad, "record `/a/%FF` cannot be read: its key is not percent-encoded text");
    }
}
