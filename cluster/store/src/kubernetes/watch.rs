//! A watch of one kind of records in Kubernetes, which goes on after interruptions.

use std::pin::pin;

use futures::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use monoceros_cluster::Revision;
use tokio::sync::watch;
use tracing::debug;

use super::{Kubernetes, number};
use crate::hints::{Hints, Pause};
use crate::store::{Failure, Kind};

/// Begins to watch a kind for changes after `from`.
pub(super) fn begin(store: Kubernetes, kind: Kind, from: Revision) -> Hints {
    let (hints, latest) = watch::channel(from);
    let selector = store.selector(kind);
    let mut watch = Watch { store, selector, known: from, is_forgotten: false, hints };
    let task = tokio::spawn(async move { watch.run().await });
    Hints::new(latest, task)
}

struct Watch {
    store: Kubernetes,
    selector: String,
    /// Revision whose changes are known.
    known: Revision,
    /// Whether the server no longer has the changes after the known revision.
    is_forgotten: bool,
    hints: watch::Sender<Revision>,
}

impl Watch {
    async fn run(&mut self) {
        let mut pause = Pause::default();
        loop {
            if let Err(failure) = self.follow(&mut pause).await {
                debug!(%failure, "a watch of the cluster's records was interrupted");
            }
            // Also after an end in order: a server may end each watch at once.
            pause.wait().await;
        }
    }

    /// Follows the changes until the stream ends. `Ok`: the server ended it in order.
    async fn follow(&mut self, pause: &mut Pause) -> Result<(), Failure> {
        let newest = self.newest().await?;
        if self.is_forgotten || newest < self.known {
            // Forgotten, or a backup was restored: there may be changes without an event.
            self.is_forgotten = false;
            self.hint(newest);
        }
        let params = WatchParams::default().labels(&self.selector);
        let begun = self.store.api.watch_metadata(&params, &self.known.0.to_string()).await;
        let mut events = pin!(begun.map_err(|why| self.failed(&why))?);
        while let Some(event) = events.next().await {
            let (changed, version) = match event.map_err(|why| self.failed(&why))? {
                WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) => {
                    (true, version(&map)?)
                }
                WatchEvent::Bookmark(mark) => {
                    (false, number("bookmark", &mark.metadata.resource_version)?)
                }
                WatchEvent::Error(status) => {
                    self.is_forgotten = status.code == 410;
                    return Err(Failure::no_answer(&self.store.endpoint, &status.message));
                }
            };
            pause.reset();
            if changed {
                self.hint(Revision(version));
            }
            self.known = Revision(version);
        }
        Ok(())
    }

    /// Revision of the store now.
    async fn newest(&self) -> Result<Revision, Failure> {
        let none = ListParams::default().labels(&self.selector).limit(1);
        let list = self.store.in_time(self.store.list(&none)).await?;
        self.store.revision(&list)
    }

    /// The failure of a watch. Notes whether the server has forgotten the changes.
    fn failed(&mut self, why: &kube::Error) -> Failure {
        self.is_forgotten = matches!(why, kube::Error::Api(status) if status.code == 410);
        self.store.failure(why)
    }

    fn hint(&mut self, revision: Revision) {
        self.known = revision;
        self.hints.send_replace(revision);
    }
}

fn version<K>(map: &PartialObjectMeta<K>) -> Result<u64, Failure> {
    let name = map.metadata.name.as_deref().unwrap_or_default();
    number(name, map.metadata.resource_version.as_deref().unwrap_or_default())
}
