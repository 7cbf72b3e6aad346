//! Pods that have to go for others.

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use super::{Failure, Hand, Patience, pod_path};
use crate::objects::{Meta as _, Pod};
use crate::shim::{Evict, Outcome};

impl Hand {
    /// Has a pod go, with the time that it has for that. A budget that forbids it is asked again for a
    /// while; the pod being gone is told by the watch.
    pub(super) async fn evict(&self, evict: Evict) {
        let Evict { key, pod, message } = evict;
        let until = Instant::now() + self.settings.eviction_timeout;
        let mut by_delete = self.settings.delete_at_once;
        let mut is_told = false;
        let mut patience = Patience::new();
        tracing::info!(pod = pod.name(), namespace = pod.namespace(), message, "a pod is evicted");
        loop {
            if !(self.right)() {
                return;
            }
            let sent = if by_delete { self.delete(&pod).await } else { self.ask_to_go(&pod).await };
            match sent {
                Ok(()) | Err(Failure::Refused(404 | 409, _)) => {
                    return self.done(Outcome::Going(key));
                }
                Err(failure) => {
                    if !is_told {
                        is_told = true;
                        let why = format!("the pod is to make room, and may not go yet: {failure}");
                        self.done(Outcome::Held(key.clone(), why));
                    }
                    if !failure.may_pass() {
                        tracing::warn!(pod = pod.name(), %failure, "a pod cannot be evicted");
                    }
                }
            }
            by_delete |= self.settings.delete_after_timeout && Instant::now() >= until;
            patience.wait().await;
        }
    }

    async fn ask_to_go(&self, pod: &Pod) -> Result<(), Failure> {
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod.name(), "namespace": pod.namespace()},
            "deleteOptions": {"preconditions": {"uid": pod.uid()}},
        });
        let path = format!("{}/eviction", pod_path(pod));
        let sent =
            self.send::<IgnoredAny>("POST", &path, "application/json", body.to_string().into());
        sent.await.map(drop)
    }

    async fn delete(&self, pod: &Pod) -> Result<(), Failure> {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid()}});
        let (path, body) = (pod_path(pod), body.to_string().into());
        let sent = self.send::<IgnoredAny>("DELETE", &path, "application/json", body);
        sent.await.map(drop)
    }
}
