//! Calls of the service outside of the session: explanations and new queues.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use monoceros_actors::config::DEFAULT_PARTITION;
use monoceros_client::{AdminServiceClient, callback as v1, reason, si};
use tokio::time::sleep;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::{Service, describe_status};
use crate::shim::Explanation;

/// Timeout of a call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest response, in bytes.
const MESSAGE_BYTES: usize = 64 << 20;
/// Pause before a silent connection is probed, and timeout of the probe.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Client of the admin service. It connects when it is first used.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    client: AdminServiceClient<Channel>,
    authorization: Option<MetadataValue<Ascii>>,
    rm_id: String,
}

impl Admin {
    pub(super) fn new(service: &Service) -> Self {
        let Service { endpoint, authorization, rm_id, .. } = service.clone();
        let endpoint = endpoint.http2_keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE);
        let client = AdminServiceClient::new(endpoint.connect_lazy());
        let client = client.max_decoding_message_size(MESSAGE_BYTES);
        Self { client, authorization, rm_id }
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
    pub(super) async fn explain(&self, application: &str, key: Option<&str>) -> Vec<Explanation> {
        let request = v1::ExplainApplicationRequest {
            partition_name: format!("[{}]{DEFAULT_PARTITION}", self.rm_id),
            application_id: application.to_owned(),
            allocation_key: key.unwrap_or_default().to_owned(),
            ..Default::default()
        };
        let explained = self.client.clone().explain_application(self.request(request)).await;
        let explained = explained.map(|answer| answer.into_inner().explanations);
        let entry = |entry: v1::Explanation| {
            let v1::Explanation { allocation_keys, cause, object, message, gang, .. } = entry;
            Explanation::new(allocation_keys, cause, object, message, &gang)
        };
        explained.unwrap_or_default().into_iter().map(entry).collect()
    }

    /// Puts a configuration in force, retrying until the service is reached. The error says why it
    /// was rejected.
    pub(super) async fn configure(
        &self,
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
        for pause in pauses.build() {
            let updated = self.client.clone().update_config(self.request(request.clone())).await;
            match updated.map(tonic::Response::into_inner) {
                Ok(answer) if answer.success => return Ok(()),
                Ok(answer) => return Err(answer.reason),
                Err(why) if !may_pass(&why) => return Err(describe_status(&why)),
                Err(_) => sleep(pause).await,
            }
        }
        unreachable!("it is tried for ever")
    }
}

/// Returns whether a retry may succeed.
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
