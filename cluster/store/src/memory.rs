//! A store in memory for tests, with the faults of a real one.
//!
//! Time is Tokio's, so that a test with a paused clock waits for nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use monoceros_cluster::{Revision, Version, Versioned};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::hints::Hints;
use crate::locked::locked;
use crate::store::{ClusterName, Failure, Kind, Listing, Reading, RecordKey, Store, Written};

/// Name of the store in failures.
const ENDPOINT: &str = "memory";

/// The records of all clusters, and their revision.
#[derive(Clone, Debug, Default)]
struct Contents {
    revision: u64,
    records: BTreeMap<(Arc<str>, RecordKey), Versioned<Bytes>>,
    /// Revision of the last change of each kind.
    changed: BTreeMap<(Arc<str>, Kind), u64>,
}

/// A copy of the contents, to be restored later.
#[derive(Clone, Debug)]
pub struct Backup(Contents);

/// The part of the store that all members share.
#[derive(Clone, Debug)]
pub struct MemoryServer {
    contents: Arc<Mutex<Contents>>,
    /// Number of restored backups, sent with each change.
    restored: watch::Sender<u64>,
}

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request does not arrive.
    RequestLost,
    /// The request is carried out, and its answer does not arrive.
    AnswerLost,
    /// The request is carried out after this time, and its answer does not arrive.
    Late(Duration),
}

#[derive(Debug, Default)]
struct Faults {
    next: VecDeque<Fault>,
    delay: Duration,
    is_away: bool,
}

/// The store as one member reaches it. Clones have the same faults.
#[derive(Clone, Debug)]
pub struct Memory {
    server: MemoryServer,
    cluster: Arc<str>,
    timeout: Duration,
    faults: Arc<Mutex<Faults>>,
}

impl Default for MemoryServer {
    fn default() -> Self {
        Self { contents: Arc::default(), restored: watch::Sender::new(0) }
    }
}

impl MemoryServer {
    /// The store as a member reaches it whose requests end after `timeout`.
    pub fn store(&self, cluster: &ClusterName, timeout: Duration) -> Memory {
        let server = self.clone();
        Memory { server, cluster: cluster.as_str().into(), timeout, faults: Arc::default() }
    }

    /// Copies the contents.
    pub fn back_up(&self) -> Backup {
        Backup(locked(&self.contents).clone())
    }

    /// Replaces the contents by those of a backup, whose revision is lower.
    pub fn restore(&self, backup: &Backup) {
        locked(&self.contents).clone_from(&backup.0);
        self.restored.send_modify(|restored| *restored += 1);
    }
}

impl Memory {
    /// Gives the next request that has none yet a fault.
    pub fn fail_next(&self, fault: Fault) {
        locked(&self.faults).next.push_back(fault);
    }

    /// Lets each request take this long.
    pub fn set_delay(&self, delay: Duration) {
        locked(&self.faults).delay = delay;
    }

    /// Cuts the member off, or connects it again.
    pub fn set_away(&self, is_away: bool) {
        locked(&self.faults).is_away = is_away;
    }

    /// Carries out a request with the fault that is due.
    async fn request<T>(
        &self,
        carry_out: impl FnOnce(&mut Contents) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (fault, delay) = {
            let mut faults = locked(&self.faults);
            let fault = if faults.is_away { Some(Fault::RequestLost) } else { None };
            (fault.or_else(|| faults.next.pop_front()), faults.delay)
        };
        let server = self.server.clone();
        let carry_out = move || {
            let result = carry_out(&mut locked(&server.contents));
            server.restored.send_modify(|_| ());
            result
        };
        match fault {
            None if delay < self.timeout => {
                sleep(delay / 2).await;
                let result = carry_out();
                sleep(delay / 2).await;
                return Ok(result);
            }
            Some(Fault::RequestLost) => {}
            Some(Fault::AnswerLost) => drop(carry_out()),
            None | Some(Fault::Late(_)) => {
                let after = if let Some(Fault::Late(after)) = fault { after } else { delay };
                tokio::spawn(async move {
                    sleep(after).await;
                    carry_out();
                });
            }
        }
        sleep(self.timeout).await;
        Err(Failure::timed_out(ENDPOINT, self.timeout))
    }
}

impl Store for Memory {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Reading, Failure>> {
        let place = (self.cluster.clone(), key.clone());
        Box::pin(self.request(move |contents| Reading {
            record: contents.records.get(&place).cloned(),
            revision: Revision(contents.revision),
        }))
    }

    fn read_all(&self, kind: Kind) -> BoxFuture<'_, Result<Listing, Failure>> {
        let cluster = self.cluster.clone();
        let read = self.request(move |contents| {
            let revision = Revision(contents.revision);
            let mut listing = Listing { revision, ..Listing::default() };
            for ((of, key), record) in &contents.records {
                if *of == cluster && key.kind() == kind {
                    listing.add(key, record.clone())?;
                }
            }
            Ok(listing)
        });
        Box::pin(async { read.await? })
    }

    fn count(&self, kind: Kind) -> BoxFuture<'_, Result<usize, Failure>> {
        let cluster = self.cluster.clone();
        Box::pin(self.request(move |contents| {
            let keys = contents.records.keys();
            keys.filter(|(of, key)| *of == cluster && key.kind() == kind).count()
        }))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a RecordKey,
        expected: Option<Version>,
        value: Bytes,
    ) -> BoxFuture<'a, Result<Written, Failure>> {
        if let Err(failure) = key.check(&value) {
            return Box::pin(async { Err(failure) });
        }
        let place = (self.cluster.clone(), key.clone());
        Box::pin(self.request(move |contents| {
            let current = contents.records.get(&place);
            if current.map(|current| current.version) != expected {
                return Written::Lost(current.cloned(), Revision(contents.revision));
            }
            contents.revision += 1;
            let version = Version(contents.revision);
            contents.changed.insert((place.0.clone(), place.1.kind()), version.0);
            contents.records.insert(place, Versioned { version, value });
            Written::Won(version, Revision(version.0))
        }))
    }

    fn watch(&self, kind: Kind, from: Revision) -> Hints {
        let (hints, latest) = watch::channel(from);
        let of = (self.cluster.clone(), kind);
        let (contents, mut news) = (self.server.contents.clone(), self.server.restored.subscribe());
        let task = tokio::spawn(async move {
            let (mut seen, mut restored) = (from.0, *news.borrow());
            loop {
                let now = *news.borrow_and_update();
                let (changed, revision) = {
                    let contents = locked(&contents);
                    (contents.changed.get(&of).copied().unwrap_or(0), contents.revision)
                };
                if now != restored {
                    (seen, restored) = (revision, now);
                    hints.send_replace(Revision(seen));
                } else if changed > seen {
                    seen = changed;
                    hints.send_replace(Revision(seen));
                }
                // The sender is dropped with the store.
                if news.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        });
        Hints::new(latest, task)
    }
}
