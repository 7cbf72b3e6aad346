//! The way to the API server, and what the own pod says of itself.

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

use crate::mirror::{in_words, with_causes};
use crate::run::Standing;

/// The label that a Service selects the leader by.
pub const LEADER: &str = "monoceros.io/leader";
/// A connection is made within this time, or not at all.
const CONNECT: Duration = Duration::from_secs(5);
/// A watch that is silent for longer is begun anew: the server says something every few minutes.
const SILENCE: Duration = Duration::from_secs(295);
/// A request that takes longer counts as lost.
const REQUEST: Duration = Duration::from_secs(10);
/// An attempt to label the own pod that has failed is repeated after this.
const AGAIN: Duration = Duration::from_secs(2);
/// Between two complaints about one thing.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// Sees to it that what goes wrong again and again is told in the log at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct OnceAMinute(Option<Instant>);

impl OnceAMinute {
    /// Whether to complain now.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= COMPLAINTS);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoCluster(String);

/// A client by this kubeconfig; else by the one that `KUBECONFIG` names or that is at its usual place, or by
/// the service account of the pod. The second is the namespace that it names.
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

/// A client with our own patience: what is refused is tried again by whoever knows what it was for.
pub fn client_of(mut config: Config) -> Result<(Client, String), NoCluster> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|why| NoCluster(with_causes(&why)))?;
    Ok((client, namespace))
}

/// Labels the pod while this replica leads, and takes the label off when it does not.
pub async fn mark_leader(
    client: Client,
    namespace: String,
    pod: String,
    mut standing: watch::Receiver<Standing>,
) {
    let mut said = None;
    let mut complaints = OnceAMinute::default();
    // Whoever tells how it stands ends before the process does.
    while standing.has_changed().is_ok() {
        let leads = *standing.borrow_and_update() == Standing::Leads;
        if said != Some(leads) {
            let labelled = timeout(REQUEST, label(&client, &namespace, &pod, leads)).await;
            let labelled = labelled.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            if let Err(why) = labelled {
                if complaints.is_due() {
                    warn!(pod, why, "the own pod cannot be labelled");
                }
                sleep(AGAIN).await;
                continue;
            }
            said = Some(leads);
        }
        if standing.changed().await.is_err() {
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
    client.request::<IgnoredAny>(request).await.map(drop).map_err(|why| in_words(&why))
}
