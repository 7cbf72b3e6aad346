//! Client of the API server, and the leader label of the own pod.

use std::path::Path;
use std::time::Duration;

pub use kube::Client;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::mirror::{describe, with_causes};
use crate::run::ReplicaState;

/// The label by which a Service selects the leader.
pub const LEADER: &str = "monoceros.io/leader";
/// Timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);
/// Silence after which a watch is restarted. The server sends something every few minutes.
const SILENCE: Duration = Duration::from_secs(295);
/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(10);
/// Pause after a failed attempt to label the own pod.
const AGAIN: Duration = Duration::from_secs(2);
/// Pause between two log lines about the same failure.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// Limits the log lines about a repeated failure to one a minute.
#[derive(Debug, Default)]
pub(crate) struct OnceAMinute(Option<Instant>);

impl OnceAMinute {
    /// Returns whether to log now.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= COMPLAINTS);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoCluster(String);

/// Makes a client from `kubeconfig`; else from the file that `KUBECONFIG` names or the usual one,
/// else from the service account of the pod. Returns it with the namespace that its configuration
/// names.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<(Client, String), NoCluster> {
    let config = match kubeconfig {
        Some(path) => {
            let named = |why: &dyn std::error::Error| {
                NoCluster(format!("{}: {}", path.display(), with_causes(why)))
            };
            let read = Kubeconfig::read_from(path).map_err(|why| named(&why))?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(read, &options).await.map_err(|why| named(&why))?
        }
        None => Config::infer().await.map_err(|why| {
            let why = with_causes(&why);
            NoCluster(format!("neither a kubeconfig nor a service account can be used: {why}"))
        })?,
    };
    client_of(config)
}

/// Makes a client without retries of its own: callers retry, since they know the purpose of a
/// request.
pub fn client_of(mut config: Config) -> Result<(Client, String), NoCluster> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|why| NoCluster(with_causes(&why)))?;
    Ok((client, namespace))
}

/// Labels the pod while this replica leads, and removes the label when it does not.
pub async fn mark_leader(
    client: Client,
    namespace: String,
    pod: String,
    mut state: watch::Receiver<ReplicaState>,
) {
    let mut labelled_as = None;
    let mut complaints = OnceAMinute::default();
    // The sender is dropped when the run ends.
    while state.has_changed().is_ok() {
        let leads = *state.borrow_and_update() == ReplicaState::Leads;
        if labelled_as != Some(leads) {
            let labelled = timeout(REQUEST, label(&client, &namespace, &pod, leads)).await;
            let labelled = labelled.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            if let Err(why) = labelled {
                if complaints.is_due() {
                    warn!(pod, why, "the own pod cannot be labelled");
                }
                sleep(AGAIN).await;
                continue;
            }
            labelled_as = Some(leads);
        }
        if state.changed().await.is_err() {
            return;
        }
    }
}

async fn label(client: &Client, namespace: &str, pod: &str, leads: bool) -> Result<(), String> {
    let value = leads.then_some("true");
    let body = json!({"metadata": {"labels": {LEADER: value}}});
    let request = http::Request::patch(format!("/api/v1/namespaces/{namespace}/pods/{pod}"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(body.to_string().into_bytes());
    let request = request.map_err(|why| why.to_string())?;
    client.request::<IgnoredAny>(request).await.map(drop).map_err(|why| describe(&why))
}
