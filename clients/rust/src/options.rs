//! What a client is told before it starts.

use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use monoceros_proto::si::v1 as si;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;

use crate::callbacks::Callbacks;
use crate::outgoing::BATCH_ITEMS;

/// Unless set otherwise: as many items may be on their way.
const MOST_ITEMS: usize = 100_000;
/// A dead connection is found after both of these together.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Small requests wait so long for others to go with.
const BATCH_DELAY: Duration = Duration::from_millis(1);

/// Whom to speak to, as whom, and how.
#[derive(Clone)]
pub struct Options {
    pub(crate) endpoint: Endpoint,
    pub(crate) registration: si::RegisterResourceManagerRequest,
    pub(crate) instance: Option<MetadataValue<Ascii>>,
    pub(crate) authorization: Option<MetadataValue<Ascii>>,
    pub(crate) goes_on: bool,
    pub(crate) once: bool,
    pub(crate) callbacks: Option<Arc<dyn Callbacks>>,
    pub(crate) pauses: ExponentialBuilder,
    pub(crate) batch_delay: Duration,
    pub(crate) batch_items: usize,
    pub(crate) most_items: usize,
}

impl Options {
    /// To register as `rm_id` with the scheduler at `endpoint`, which may have TLS. The endpoint is
    /// given a keep-alive of 20 s, so that a connection that has died is noticed.
    pub fn new(endpoint: Endpoint, rm_id: impl Into<String>) -> Self {
        let endpoint = endpoint
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true);
        let registration =
            si::RegisterResourceManagerRequest { rm_id: rm_id.into(), ..Default::default() };
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs(1))
            .with_max_delay(Duration::from_secs(30))
            .with_factor(1.6)
            .with_jitter()
            .without_max_times();
        Self {
            endpoint,
            registration,
            instance: None,
            authorization: None,
            goes_on: false,
            once: false,
            callbacks: None,
            pauses,
            batch_delay: BATCH_DELAY,
            batch_items: BATCH_ITEMS,
            most_items: MOST_ITEMS,
        }
    }

    /// With this queue configuration.
    #[must_use]
    pub fn queues(mut self, config: impl Into<String>) -> Self {
        self.registration.config = config.into();
        self
    }

    /// In this policy group.
    #[must_use]
    pub fn policy_group(mut self, group: impl Into<String>) -> Self {
        self.registration.policy_group = group.into();
        self
    }

    /// With anything else that a registration may say; the id of the resource manager stays.
    #[must_use]
    pub fn registration(mut self, registration: si::RegisterResourceManagerRequest) -> Self {
        let rm_id = std::mem::take(&mut self.registration.rm_id);
        self.registration = si::RegisterResourceManagerRequest { rm_id, ..registration };
        self
    }

    /// As one of several processes that may speak for the resource manager: which one.
    #[must_use]
    pub fn instance(mut self, name: MetadataValue<Ascii>) -> Self {
        self.instance = Some(name);
        self
    }

    /// Goes on with the session of an earlier instance if there is one, without reporting anything
    /// again; otherwise that session ends.
    #[must_use]
    pub fn go_on(mut self) -> Self {
        self.goes_on = true;
        self
    }

    /// Ends when the session [is lost](crate::is_lost), instead of opening another: for a program that begins
    /// anew by itself. The [`State`](crate::State) is then asked for once.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Shows this bearer token. Fails if the token has characters that no header can have.
    pub fn bearer_token(
        self,
        token: &str,
    ) -> Result<Self, tonic::metadata::errors::InvalidMetadataValue> {
        Ok(self.authorization(format!("Bearer {token}").parse()?))
    }

    /// Shows this as `authorization`.
    #[must_use]
    pub fn authorization(mut self, value: MetadataValue<Ascii>) -> Self {
        self.authorization = Some(value);
        self
    }

    /// Opens a stream for what the scheduler asks and tells beside its decisions.
    #[must_use]
    pub fn callbacks(mut self, callbacks: impl Callbacks) -> Self {
        self.callbacks = Some(Arc::new(callbacks));
        self
    }

    /// How long to wait before each attempt to come back: from one second to thirty, unless set.
    /// They begin anew after a minute of health. They should not end: then the client gives up.
    #[must_use]
    pub fn pauses(mut self, pauses: ExponentialBuilder) -> Self {
        self.pauses = pauses;
        self
    }

    /// How long a small request may wait for others to go with in one message: 1 ms unless set.
    #[must_use]
    pub fn batch_delay(mut self, delay: Duration) -> Self {
        self.batch_delay = delay;
        self
    }

    /// How many items of small requests are joined in one message at most: 1,000 unless set, one joins
    /// none.
    #[must_use]
    pub fn batch_items(mut self, items: usize) -> Self {
        self.batch_items = items.max(1);
        self
    }

    /// How many items may be sent or waiting without being known to be taken; 100,000 unless set.
    /// Beyond, requests wait.
    #[must_use]
    pub fn most_items(mut self, items: usize) -> Self {
        self.most_items = items.max(1);
        self
    }
}
