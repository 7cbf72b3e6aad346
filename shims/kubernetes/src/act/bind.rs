//! Bindings, and the volumes before them.

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use super::{Failure, Hand, Patience, pod_path};
use crate::objects::{Meta as _, PersistentVolumeClaim, Pod};
use crate::predicates::VolumeChoice;
use crate::shim::{Bind, Outcome, open};

/// Where the volume of a claim is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const MERGE: &str = "application/merge-patch+json";

impl Hand {
    pub(super) async fn bind(&self, bind: Bind) {
        let outcome = match self.try_bind(&bind).await {
            Ok(()) => Outcome::Bound(bind.key),
            Err(why) => Outcome::NotBound(bind.key, why),
        };
        self.done(outcome);
    }

    async fn try_bind(&self, bind: &Bind) -> Result<(), String> {
        self.provide(bind).await?;
        // The API server takes a binding to a node that is not there.
        if !open(&self.scene).has_node(&bind.node) {
            return Err(format!("the node {} is gone", bind.node));
        }
        if !(self.right)() {
            return Err("this replica does not lead any more".to_owned());
        }
        let waited = self.begun.elapsed().saturating_sub(bind.seen);
        self.meters.seen_to_sent.observe(waited.as_secs_f64());
        let (pod, node) = (&bind.pod, &*bind.node);
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = format!("{}/binding", pod_path(pod));
        let sent =
            self.send::<IgnoredAny>("POST", &path, "application/json", body.to_string().into());
        let why = match sent.await {
            Ok(_) => return Ok(()),
            // It was certainly not bound, and trying at once would be the same.
            Err(Failure::Refused(code, why)) if code != 409 && code < 500 => return Err(why),
            Err(failure) => failure,
        };
        let found = self.read_pod(pod).await?;
        match found.node() {
            Some(there) if there == node => Ok(()),
            Some(there) => Err(format!("it was bound to {there} by somebody else")),
            None => Err(why.to_string()),
        }
    }

    /// The pod as it is now; read until it can be.
    async fn read_pod(&self, pod: &Pod) -> Result<Pod, String> {
        let mut patience = Patience::new();
        loop {
            match self.get::<Pod>(&pod_path(pod)).await {
                Ok(found) if found.uid() == pod.uid() => return Ok(found),
                Ok(_) | Err(Failure::Refused(404, _)) => return Err("the pod is gone".to_owned()),
                Err(Failure::Refused(code, why)) if code != 429 && code < 500 => {
                    tracing::warn!(pod = pod.name(), why, "a pod cannot be read");
                    return Err(why);
                }
                Err(_) => patience.wait().await,
            }
        }
    }

    /// Sees to the volumes that the pod has to have before it is bound.
    async fn provide(&self, bind: &Bind) -> Result<(), String> {
        if bind.volumes.is_empty() {
            return Ok(());
        }
        let namespace = bind.pod.namespace();
        for choice in &bind.volumes {
            if !(self.right)() {
                return Err("this replica does not lead any more".to_owned());
            }
            let (path, change) = match choice {
                VolumeChoice::Existing { claim, volume } => {
                    let claim = claim_path(namespace, claim);
                    let claim = self.get::<PersistentVolumeClaim>(&claim).await;
                    let claim = claim.map_err(|why| format!("the claim cannot be read: {why}"))?;
                    let kept = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1",
                        "namespace": namespace, "name": claim.name(), "uid": claim.uid()});
                    let change = json!({"spec": {"claimRef": kept}});
                    (format!("/api/v1/persistentvolumes/{volume}"), change)
                }
                VolumeChoice::Made { claim } => {
                    let selected = json!({SELECTED_NODE: &*bind.node});
                    let change = json!({"metadata": {"annotations": selected}});
                    (claim_path(namespace, claim), change)
                }
            };
            let sent = self.send::<IgnoredAny>("PATCH", &path, MERGE, change.to_string().into());
            sent.await.map_err(|why| format!("{path} cannot be changed: {why}"))?;
        }
        let until = Instant::now() + self.settings.volume_timeout;
        for choice in &bind.volumes {
            let (VolumeChoice::Existing { claim, .. } | VolumeChoice::Made { claim }) = choice;
            self.wait_for_claim(&bind.pod, claim, &bind.node, until).await?;
        }
        Ok(())
    }

    async fn wait_for_claim(
        &self,
        pod: &Pod,
        name: &str,
        node: &str,
        until: Instant,
    ) -> Result<(), String> {
        let path = claim_path(pod.namespace(), name);
        let mut patience = Patience::new();
        loop {
            match self.get::<PersistentVolumeClaim>(&path).await {
                Ok(claim) if claim.is_bound() => return Ok(()),
                Ok(claim) => {
                    // Whoever makes volumes takes the mark off where he cannot make one.
                    let selected = claim.annotation(SELECTED_NODE);
                    if claim.volume().is_none() && selected.is_some_and(|other| other != node) {
                        return Err(format!("the volume of {name} is made for another node"));
                    }
                }
                Err(Failure::Refused(404, _)) => return Err(format!("the claim {name} is gone")),
                Err(_) => {}
            }
            if Instant::now() >= until {
                let waited = self.settings.volume_timeout;
                return Err(format!("the claim {name} was not bound within {waited:?}"));
            }
            patience.wait().await;
        }
    }
}

fn claim_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}
