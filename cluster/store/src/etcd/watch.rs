//! A watch of one kind of records in etcd, which goes on after interruptions and compactions.

use std::sync::Arc;

use futures::StreamExt as _;
use monoceros_cluster::Revision;
use tokio::sync::watch;
use tonic::metadata::AsciiMetadataValue;
use tracing::debug;

use super::connection::Connections;
use super::denied::is_stale;
use super::proto::watch_request::RequestUnion;
use super::proto::{WatchCreateRequest, WatchRequest};
use super::{end_of, signed, unsigned};
use crate::causes::one_line;
use crate::hints::{Hints, Pause};

/// Begins to watch all keys with `prefix` for changes after `from`.
pub(super) fn begin(connections: Arc<Connections>, prefix: &str, from: Revision) -> Hints {
    let (hints, latest) = watch::channel(from);
    let request = WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: end_of(prefix),
        start_revision: signed(from.0.saturating_add(1)),
        progress_notify: true,
        fragment: true,
    };
    let mut watch = Watch { connections, request, hints };
    let task = tokio::spawn(async move { watch.run().await });
    Hints::new(latest, task)
}

struct Watch {
    connections: Arc<Connections>,
    /// Request of the watch. Its start is the revision after the last one that is known.
    request: WatchCreateRequest,
    hints: watch::Sender<Revision>,
}

impl Watch {
    async fn run(&mut self) {
        let mut pause = Pause::default();
        for tried in 0_usize.. {
            if let Err(reason) = self.follow(&mut pause, tried).await {
                debug!(reason, "a watch of the cluster's records was interrupted");
            }
            pause.wait().await;
        }
    }

    /// Follows the changes until the stream ends. `Ok`: the watch goes on from another revision.
    async fn follow(&mut self, pause: &mut Pause, tried: usize) -> Result<(), String> {
        let connections = self.connections.clone();
        let connected = connections.any_server(tried).await;
        let (server, endpoint) =
            connected.map_err(|denied| crate::Failure::from(denied).to_string())?;
        let create = RequestUnion::CreateRequest(self.request.clone());
        let create = WatchRequest { request_union: Some(create) };
        // The server ends the watch when the requests end.
        let requests = futures::stream::iter([create]).chain(futures::stream::pending());
        let mut request = server.request(requests);
        // A server that is cut off from the others ends the watch.
        let yes = AsciiMetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", yes);
        let answer = server.watch().watch(request).await;
        let mut answers = match answer {
            Ok(answers) => answers.into_inner(),
            Err(status) => {
                if is_stale(&status) {
                    self.connections.forget_token();
                }
                return Err(format!("{endpoint}: {}", one_line(status.message())));
            }
        };
        while let Some(answer) = answers.next().await {
            let answer =
                answer.map_err(|status| format!("{endpoint}: {}", one_line(status.message())))?;
            let revision = answer.header.map_or(0, |header| header.revision);
            if answer.compact_revision > 0 {
                // Changes before that revision can no longer be watched.
                self.go_on_after(answer.compact_revision - 1);
                self.hint(answer.compact_revision);
                return Ok(());
            }
            if answer.canceled {
                // Some versions report an old token as a missing permission.
                self.connections.forget_token();
                return Err(format!("{endpoint}: {}", one_line(answer.cancel_reason)));
            }
            pause.reset();
            if answer.created && revision < self.request.start_revision - 1 {
                // A backup was restored.
                self.go_on_after(revision);
                self.hint(revision);
                return Ok(());
            }
            if !answer.events.is_empty() {
                self.hint(revision);
            }
            if !answer.created && !answer.fragment && revision >= self.request.start_revision {
                self.go_on_after(revision);
            }
        }
        Err(format!("{endpoint}: the stream has ended"))
    }

    fn go_on_after(&mut self, revision: i64) {
        self.request.start_revision = revision + 1;
    }

    fn hint(&self, revision: i64) {
        self.hints.send_replace(Revision(unsigned(revision)));
    }
}
