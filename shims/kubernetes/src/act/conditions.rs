//! Writes conditions and events. Each write has a few attempts. A failed condition is reported to
//! the shim, a failed event is queued again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{ApiWorker, Call, Failure, pod_path};
use crate::objects::{Meta as _, Pod};
use crate::shim::{Condition, Event, GroupCondition, Outcome};

/// A patch that merges lists by the keys that the API knows.
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// Most attempts of a write.
const ATTEMPTS: u32 = 4;
/// Longest text of an event, in bytes.
const NOTE_BYTES: usize = 1_000;
/// Longest text of a condition, in bytes.
const MESSAGE_BYTES: usize = 4_000;
/// Longest part of an event's name that comes from its object, in bytes.
const NAME_BYTES: usize = 200;

/// Cuts a text to `bytes`, between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// Written, or the object is gone, or this process may not act.
    Over,
    /// The object has changed since it was read.
    Conflict,
    /// A later attempt may succeed.
    Failed,
    /// The server refuses the write, and would refuse it again.
    Refused,
}

impl ApiWorker {
    /// Writes why a pod waits, or reports that it could not be written.
    pub(super) async fn write_condition(&self, condition: &Condition) {
        if self.try_write_condition(condition).await != Written::Over {
            self.done(Outcome::ConditionFailed(Arc::clone(&condition.key)));
        }
    }

    /// Writes why a pod waits. The request names the version of the pod, so that the server refuses
    /// it once the pod is bound, in whatever order the two requests arrive.
    async fn try_write_condition(&self, condition: &Condition) -> Written {
        let pod = &condition.pod;
        let path = pod_path(pod);
        let status = format!("{path}/status");
        let mut version = pod.metadata.resource_version.clone();
        for _ in 0..ATTEMPTS {
            let body = json!({
                "metadata": {"uid": pod.uid(), "resourceVersion": version},
                "status": {"conditions": [{
                    "type": "PodScheduled", "status": "False",
                    "reason": condition.reason,
                    "message": cut(&condition.message, MESSAGE_BYTES),
                    "lastTransitionTime": seconds_now(),
                }]},
            });
            let written = self.write(Call::PatchPodStatus, "PATCH", &status, STRATEGIC, body).await;
            if written != Written::Conflict {
                return written;
            }
            // The object is another pod, or has changed.
            match self.get::<Pod>(&path).await {
                Ok(found) if found.uid() == pod.uid() && found.node().is_none() => {
                    version.clone_from(&found.metadata.resource_version);
                }
                Ok(_) | Err(Failure::Refused(404, _)) => return Written::Over,
                Err(_) => return Written::Failed,
            }
        }
        Written::Failed
    }

    pub(super) async fn write_group_condition(&self, condition: &GroupCondition) {
        let GroupCondition { namespace, name, .. } = condition;
        let body = json!({"status": {"conditions": [{
            "type": condition.type_,
            "status": if condition.status { "True" } else { "False" },
            "reason": condition.reason,
            "message": cut(&condition.message, MESSAGE_BYTES),
            "lastTransitionTime": seconds_now(),
        }]}});
        let path = format!(
            "/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/{name}/status"
        );
        let written = self.write(Call::PatchGroupStatus, "PATCH", &path, STRATEGIC, body).await;
        self.done(match written {
            Written::Over => Outcome::GroupConditionWritten(condition.clone()),
            _ => Outcome::GroupConditionFailed(condition.clone()),
        });
    }

    /// Writes an event with the time it happened. Returns false if it should be tried again.
    pub(super) async fn write_event(&self, event: &Event, at: Timestamp) -> bool {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = Timestamp::now();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let about = &event.about;
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        let first = cut(&about.name, NAME_BYTES).trim_end_matches(['.', '-']);
        let name = format!("{first}.{:x}{:x}", now.as_nanosecond(), number % 0x1000);
        let body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": format!("{at:.6}"),
            "reportingController": "monoceros.io/scheduler",
            "reportingInstance": "monoceros",
            "action": event.action,
            "reason": event.reason,
            "type": if event.is_warning { "Warning" } else { "Normal" },
            "note": cut(&event.message, NOTE_BYTES),
            "regarding": {
                "apiVersion": "v1", "kind": about.kind, "namespace": about.namespace,
                "name": about.name, "uid": about.uid,
            },
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let call = Call::CreateEvent;
        // A conflict means that an unanswered attempt has written it.
        self.write(call, "POST", &path, "application/json", body).await != Written::Failed
    }

    /// Sends a write in a few attempts.
    async fn write(
        &self,
        call: Call,
        method: &str,
        path: &str,
        content_type: &str,
        body: serde_json::Value,
    ) -> Written {
        let body = body.to_string().into_bytes();
        for attempt in 0..ATTEMPTS {
            if !self.may_act() {
                return Written::Over;
            }
            let sent = self.send::<IgnoredAny>(method, path, content_type, body.clone()).await;
            match sent {
                Err(Failure::Refused(409, _)) => return Written::Conflict,
                Ok(_) | Err(Failure::Refused(404, _) | Failure::NamespaceGoing(_)) => {
                    return Written::Over;
                }
                Err(failure) => {
                    self.log_failure(call, path, &failure);
                    if !failure.may_pass() {
                        return Written::Refused;
                    }
                    tokio::time::sleep(Duration::from_millis(200 << attempt)).await;
                }
            }
        }
        Written::Failed
    }
}

/// Returns the current time in seconds, in the format of the API.
fn seconds_now() -> String {
    format!("{:.0}", Timestamp::now())
}
