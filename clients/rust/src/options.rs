//! Options of a client.

use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use monoceros_proto::si::v1 as si;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{ClientTlsConfig, Endpoint};

use crate::callbacks::Callbacks;
use crate::connect::{self, Dial, Tls};
use crate::identity::Identity;
use crate::outgoing::BATCH_ITEMS;
use crate::route::{self, Shuffle};

/// Default maximum of unacknowledged items.
const MOST_ITEMS: usize = 100_000;
/// Interval of keep-alive pings, and time limit of their answers. A dead connection is detected
/// within the sum of both.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long a small request waits for others to be joined with.
const BATCH_DELAY: Duration = Duration::from_millis(1);

/// Adds the keep-alive to an endpoint.
fn kept_alive(endpoint: Endpoint) -> Endpoint {
    endpoint
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
}

/// Addresses, identity and behaviour of a client.
#[derive(Clone)]
pub struct Options {
    /// Never empty.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) tls: Option<Tls>,
    pub(crate) dial: Dial,
    pub(crate) shuffle: Shuffle,
    pub(crate) registration: si::RegisterResourceManagerRequest,
    pub(crate) identity: Identity,
    pub(crate) instance: Option<MetadataValue<Ascii>>,
    pub(crate) authorization: Option<MetadataValue<Ascii>>,
    pub(crate) takes_over: bool,
    pub(crate) once: bool,
    pub(crate) callbacks: Option<Arc<dyn Callbacks>>,
    pub(crate) pauses: ExponentialBuilder,
    pub(crate) batch_delay: Duration,
    pub(crate) batch_items: usize,
    pub(crate) most_items: usize,
}

impl Options {
    /// Registers as `rm_id` with the scheduler at `endpoint`. The endpoint gets a keep-alive of 20 s,
    /// so that a dead connection is detected. If it has TLS of its own, the members of a cluster are
    /// connected to with that, and their certificates have to be valid for its name; see
    /// [`Self::tls`].
    pub fn new(endpoint: Endpoint, rm_id: impl Into<String>) -> Self {
        let registration =
            si::RegisterResourceManagerRequest { rm_id: rm_id.into(), ..Default::default() };
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs(1))
            .with_max_delay(Duration::from_secs(30))
            .with_factor(1.6)
            .with_jitter()
            .without_max_times();
        Self {
            endpoints: vec![kept_alive(endpoint)],
            tls: None,
            dial: connect::tcp(),
            shuffle: route::shuffle,
            registration,
            identity: Identity::new(),
            instance: None,
            authorization: None,
            takes_over: false,
            once: false,
            callbacks: None,
            pauses,
            batch_delay: BATCH_DELAY,
            batch_items: BATCH_ITEMS,
            most_items: MOST_ITEMS,
        }
    }

    /// Registers as `rm_id` with the scheduler at an address such as `http://127.0.0.1:50051`. Fails
    /// if the address is no URI.
    pub fn at(
        address: impl Into<String>,
        rm_id: impl Into<String>,
    ) -> Result<Self, tonic::transport::Error> {
        Ok(Self::new(Endpoint::from_shared(address.into())?, rm_id))
    }

    /// Adds an address of the same scheduler, which is tried if those before do not answer. In a
    /// cluster one address that answers is enough: its members name each other. They are connected
    /// to with the settings of the first endpoint.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(kept_alive(endpoint));
        self
    }

    /// Adds addresses such as `http://127.0.0.1:50051`, see [`Self::endpoint`]. Fails if one is no
    /// URI.
    pub fn other_addresses<A: Into<String>>(
        mut self,
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Self, tonic::transport::Error> {
        for address in addresses {
            self = self.endpoint(Endpoint::from_shared(address.into())?);
        }
        Ok(self)
    }

    /// Connects with TLS to all addresses, which begin with `https`, and to the members of a cluster.
    /// The certificate of each has to be valid for the host of its own address, whatever name
    /// `config` has. Fails if the configuration cannot be used.
    pub fn tls(mut self, config: ClientTlsConfig) -> Result<Self, tonic::transport::Error> {
        let tls = Tls { config, name: None };
        let first = &self.endpoints[0];
        tls.applied(first.clone(), first.uri())?;
        self.tls = Some(tls);
        Ok(self)
    }

    /// Sets one name for which the certificates of all addresses have to be valid, in place of the
    /// host of each. It has no effect without [`Self::tls`], which has to be called before.
    #[must_use]
    pub fn tls_name(mut self, name: impl Into<String>) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.name = Some(name.into());
        }
        self
    }

    /// Sets the queue configuration.
    #[must_use]
    pub fn queues(mut self, config: impl Into<String>) -> Self {
        self.registration.config = config.into();
        self
    }

    /// Sets the policy group.
    #[must_use]
    pub fn policy_group(mut self, group: impl Into<String>) -> Self {
        self.registration.policy_group = group.into();
        self
    }

    /// Sets all other fields of the registration; the id of the resource manager stays.
    #[must_use]
    pub fn registration(mut self, registration: si::RegisterResourceManagerRequest) -> Self {
        let rm_id = std::mem::take(&mut self.registration.rm_id);
        self.registration = si::RegisterResourceManagerRequest { rm_id, ..registration };
        self
    }

    /// Names this process among several that may register as the resource manager.
    #[must_use]
    pub fn instance(mut self, name: MetadataValue<Ascii>) -> Self {
        self.instance = Some(name);
        self
    }

    /// Sets the identity, so that the members of a cluster take this client for the same process as
    /// an earlier one that has ended. The client continues with the addresses that the earlier one
    /// knew, if the configured ones are the same.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Takes over the session of an earlier instance if there is one, without reporting the state.
    /// Without this option that session ends. In a cluster it ends in any case, and the state is
    /// reported.
    #[must_use]
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Ends the client when the session [is lost](crate::is_lost), instead of opening another. For
    /// programs that restart themselves. The [`State`](crate::State) is then asked for its report
    /// only once.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Sends this bearer token. Fails if the token has characters that no header can carry.
    pub fn bearer_token(
        self,
        token: &str,
    ) -> Result<Self, tonic::metadata::errors::InvalidMetadataValue> {
        Ok(self.authorization(format!("Bearer {token}").parse()?))
    }

    /// Sends this value as `authorization`.
    #[must_use]
    pub fn authorization(mut self, value: MetadataValue<Ascii>) -> Self {
        self.authorization = Some(value);
        self
    }

    /// Opens a callback stream.
    #[must_use]
    pub fn callbacks(mut self, callbacks: impl Callbacks) -> Self {
        self.callbacks = Some(Arc::new(callbacks));
        self
    }

    /// Sets the pauses before attempts to reconnect. Defaults to one second, growing to thirty. The
    /// sequence restarts after a connection of a minute. With several addresses, there is a pause
    /// only after each of them was tried. It should be infinite: the client gives up
    /// at its end.
    #[must_use]
    pub fn pauses(mut self, pauses: ExponentialBuilder) -> Self {
        self.pauses = pauses;
        self
    }

    /// Sets how long a small request may wait for others to be joined with. Defaults to 1 ms.
    #[must_use]
    pub fn batch_delay(mut self, delay: Duration) -> Self {
        self.batch_delay = delay;
        self
    }

    /// Sets the most items of small requests in one message. Defaults to 1,000; one joins none.
    #[must_use]
    pub fn batch_items(mut self, items: usize) -> Self {
        self.batch_items = items.max(1);
        self
    }

    /// Sets the most unacknowledged items, sent or waiting. Defaults to 100,000. Further requests
    /// wait.
    #[must_use]
    pub fn most_items(mut self, items: usize) -> Self {
        self.most_items = items.max(1);
        self
    }
}
