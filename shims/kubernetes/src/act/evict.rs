//! Evicts the pods that the engine has chosen as victims.

use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use super::{ApiWorker, Call, Failure, Pauses, Victims, pod_path};
use crate::objects::{Meta as _, Pod};
use crate::shim::{Evict, Outcome};

impl ApiWorker {
    /// Evicts a pod with its grace period. Retries for a while if a disruption budget forbids it.
    /// The watch reports when the pod is gone.
    pub(super) async fn evict(&self, evict: Evict) {
        let Evict { key, pod, message, .. } = evict;
        let victims = self.settings.victims;
        let until = Instant::now() + self.settings.eviction_timeout;
        let mut by_delete = victims == Victims::Delete;
        let mut is_reported = false;
        let mut pauses = Pauses::new();
        tracing::info!(pod = pod.name(), namespace = pod.namespace(), message, "a pod is evicted");
        while self.may_act() {
            let failure = match self.try_evict(&pod, by_delete).await {
                Ok(()) => return self.done(Outcome::Evicting(key)),
                Err(failure) => failure,
            };
            let is_over = Instant::now() >= until;
            if is_over && victims == Victims::EvictThenGiveBack && failure.is_certain() {
                let why = format!("the pod was to make room, and stays: {failure}");
                return self.done(Outcome::EvictionFailed(key, why));
            }
            if !std::mem::replace(&mut is_reported, true) {
                let why = format!("the pod is to make room, and may not go yet: {failure}");
                self.done(Outcome::EvictionDelayed(Arc::clone(&key), why));
            }
            if is_over && victims == Victims::EvictThenDelete && !by_delete {
                by_delete = true;
            } else {
                pauses.wait_until(until).await;
            }
        }
    }

    /// Sends one eviction or deletion. If the outcome is unknown, reads the pod to find out.
    async fn try_evict(&self, pod: &Pod, by_delete: bool) -> Result<(), Failure> {
        let _permit = self.lanes.evictions.acquire().await;
        let (call, sent) = if by_delete {
            (Call::DeletePod, self.delete(pod).await)
        } else {
            (Call::Evict, self.create_eviction(pod).await)
        };
        let failure = match sent {
            Ok(()) | Err(Failure::Refused(404, _)) => return Ok(()),
            Err(failure) => failure,
        };
        // 429 means that a budget forbids it, which is no fault.
        if !matches!(failure, Failure::Refused(429, _)) {
            self.log_failure(call, &pod_path(pod), &failure);
        }
        if failure.is_certain() {
            return Err(failure);
        }
        match self.get::<Pod>(&pod_path(pod)).await {
            Ok(found) if found.uid() == pod.uid() && !found.is_going() => {
                Err(Failure::Refused(0, failure.to_string()))
            }
            Ok(_) | Err(Failure::Refused(404, _)) => Ok(()),
            Err(_) => Err(failure),
        }
    }

    async fn create_eviction(&self, pod: &Pod) -> Result<(), Failure> {
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
