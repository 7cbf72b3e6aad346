//! Calls of the service outside of the session: explanations and new queues. They use the connection
//! of the session, which in a cluster leads to a member that lives.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use monoceros_actors::config::DEFAULT_PARTITION;
use monoceros_client::{AdminServiceClient, Client, callback as v1, reason, si};
use tokio::time::sleep;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tracing::warn;

use super::{Service, describe_status};
use crate::shim::Explanation;

/// Timeout of a call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest response, in bytes.
const MESSAGE_BYTES: usize = 64 << 20;

/// Calls of the admin service.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    authorization: Option<MetadataValue<Ascii>>,
    rm_id: String,
}

impl Admin {
    pub(super) fn new(service: &Service) -> Self {
        let Service { authorization, rm_id, .. } = service.clone();
        Self { authorization, rm_id }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(PATIENCE);
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        request
    }

    /// Returns why the asks of an application are pending, or one of them. Empty if that is
    /// unknown.
    pub(super) async fn explain(
        &self,
        channel: Option<Channel>,
        application: &str,
        key: Option<&str>,
    ) -> Vec<Explanation> {
        let Some(channel) = channel else { return Vec::new() };
        let request = v1::ExplainApplicationRequest {
            partition_name: format!("[{}]{DEFAULT_PARTITION}", self.rm_id),
            application_id: application.to_owned(),
            allocation_key: key.unwrap_or_default().to_owned(),
            ..Default::default()
        };
        let explained = on(channel).explain_application(self.request(request)).await;
        let explained = explained.map(|answer| answer.into_inner().explanations);
        let entry = |entry: v1::Explanation| {
            let v1::Explanation { allocation_keys, cause, object, message, gang, .. } = entry;
            Explanation::new(allocation_keys, cause, object, message, &gang)
        };
        explained.unwrap_or_default().into_iter().map(entry).collect()
    }

    /// Puts a configuration in force, retrying until the service is reached and its cluster has
    /// decided. The error says why it was rejected.
    pub(super) async fn configure(
        &self,
        client: &Client,
        config: String,
        extra_config: BTreeMap<String, String>,
    ) -> Result<(), String> {
        let request = si::UpdateConfigurationRequest {
            rm_id: self.rm_id.clone(),
            config,
            extra_config,
            ..Default::default()
        };
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(PATIENCE)
            .with_jitter()
            .without_max_times();
        let mut is_reported = false;
        for pause in pauses.build() {
            // Another member may serve the session by now.
            let Some(channel) = client.channel() else {
                sleep(pause).await;
                continue;
            };
            let updated = on(channel).update_config(self.request(request.clone())).await;
            match updated.map(tonic::Response::into_inner) {
                Ok(answer) if answer.success => return Ok(()),
                Ok(answer) => return Err(answer.reason),
                Err(why) if !may_pass(&why) => return Err(describe_status(&why)),
                Err(why) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        warn!(why = describe_status(&why), "queues not in force yet");
                    }
                    sleep(pause).await;
                }
            }
        }
        unreachable!("it is tried for ever")
    }
}

/// The admin service on a connection.
fn on(channel: Channel) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES)
}

/// Returns whether a retry may succeed. In a cluster that includes another change of the policy
/// group at the same time, and an arbiter or a member that does not answer.
fn may_pass(why: &Status) -> bool {
    matches!(
        why.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Unknown
            | Code::Cancelled
            | Code::Internal
            | Code::Aborted
            | Code::ResourceExhausted
    ) || reason(why) == Some("RM_NOT_REGISTERED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_failures_are_tried_again() {
        for (code, reason, passes) in [
            (Code::Unavailable, "ARBITER_UNAVAILABLE", true),
            (Code::Unavailable, "CONFIG_UNTRIED", true),
            (Code::Aborted, "CONFIG_CHANGED", true),
            (Code::FailedPrecondition, "RM_NOT_REGISTERED", true),
            (Code::FailedPrecondition, "RESYNC_REQUIRED", false),
            (Code::InvalidArgument, "FIELD_INVALID", false),
            (Code::PermissionDenied, "ADMIN_DENIED", false),
        ] {
            let mut status = Status::new(code, "why");
            status.metadata_mut().insert("x-si-reason", reason.parse().unwrap());
            assert_eq!(may_pass(&status), passes, "{reason}");
        }
    }
}
