//! Binds pods to nodes.

use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use super::{ApiWorker, CALLED_OFF, Call, Failure, NO_RIGHT, Pauses, pod_path};
use crate::objects::{Meta as _, Pod};
use crate::shim::{Bind, Outcome, open};

/// Most attempts while the server answers 429.
const ATTEMPTS: u32 = 5;
/// How long a forbidden read is repeated: a server that has just started knows no roles yet.
const WITHOUT_RIGHT: Duration = Duration::from_secs(10);

impl ApiWorker {
    pub(super) async fn bind(&self, bind: &Bind) {
        let outcome = match self.try_bind(bind).await {
            Ok(()) => Outcome::Bound(Arc::clone(&bind.key)),
            Err(why) => Outcome::NotBound(Arc::clone(&bind.key), why),
        };
        self.done(outcome);
    }

    async fn try_bind(&self, bind: &Bind) -> Result<(), String> {
        let (pod, node) = (&bind.pod, &*bind.node);
        let mut pauses = Pauses::new();
        let mut attempt = 1;
        let why = loop {
            self.may_bind(bind)?;
            if attempt == 1 {
                let waited = self.begun.elapsed().saturating_sub(bind.seen);
                self.meters.seen_to_sent.observe(waited.as_secs_f64());
            }
            match self.post(pod, node).await {
                Ok(()) => return Ok(()),
                Err(Failure::Refused(429, _)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    pauses.wait().await;
                }
                Err(failure) => break failure,
            }
        };
        self.log_failure(Call::Bind, &pod_path(pod), &why);
        if why.is_certain() {
            return Err(why.to_string());
        }
        let found = self.read_pod(pod).await?;
        match found.node() {
            Some(there) if there == node => Ok(()),
            Some(there) => Err(format!("it was bound to {there} by somebody else")),
            None => Err(why.to_string()),
        }
    }

    /// Checks right before the request that the pod may still be bound. The error says why not.
    fn may_bind(&self, bind: &Bind) -> Result<(), String> {
        if bind.called_off.is_cancelled() {
            return Err(CALLED_OFF.to_owned());
        }
        {
            let scene = open(&self.scene);
            // The API server would accept a binding to a node that does not exist.
            if !scene.has_node(&bind.node) {
                return Err(format!("the node {} is gone", bind.node));
            }
            // It would also accept one to a later node of the same name.
            if !scene.counts(&bind.key, &bind.node) {
                return Err(format!("the pod is not to run on {} any more", bind.node));
            }
            // It would also accept one of a pod whose claims have no volumes.
            if bind.pod.claims().next().is_some()
                && let Some(claim) = scene.missing_volumes(&bind.key, &bind.node)?.first()
            {
                return Err(format!("the claim `{claim}` has no volume"));
            }
        }
        if self.may_act() { Ok(()) } else { Err(NO_RIGHT.to_owned()) }
    }

    async fn post(&self, pod: &Pod, node: &str) -> Result<(), Failure> {
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = format!("{}/binding", pod_path(pod));
        let sent =
            self.send::<IgnoredAny>("POST", &path, "application/json", body.to_string().into());
        sent.await.map(drop)
    }

    /// Reads the pod, repeatedly until the server answers. Gives up after [`WITHOUT_RIGHT`] if
    /// reading is forbidden.
    pub(super) async fn read_pod(&self, pod: &Pod) -> Result<Pod, String> {
        let mut pauses = Pauses::new();
        let path = pod_path(pod);
        let until = Instant::now() + WITHOUT_RIGHT;
        loop {
            match self.get::<Pod>(&path).await {
                Ok(found) if found.uid() == pod.uid() => return Ok(found),
                Ok(_) | Err(Failure::Refused(404, _)) => return Err("the pod is gone".to_owned()),
                Err(failure) => {
                    self.log_failure(Call::ReadPod, &path, &failure);
                    let has_no_right = matches!(failure, Failure::Refused(401 | 403, _));
                    let may_have_soon = has_no_right && Instant::now() < until;
                    if !failure.may_pass() && !may_have_soon {
                        return Err(failure.to_string());
                    }
                    pauses.wait().await;
                }
            }
        }
    }
}
