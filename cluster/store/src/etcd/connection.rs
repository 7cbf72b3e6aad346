//! Connections to the endpoints of etcd, one after the other, and the token of the user.
//!
//! # Which endpoint
//! A request goes to the endpoint that answered last. If that one does not answer within half of
//! the time, the others are tried in turn and share the rest. After a request that none of them
//! answered, the next one begins at the next endpoint. A write that is sent to two endpoints is
//! carried out once: it names the version that it replaces.
//!
//! # When something breaks
//! The connection is dropped, and the next request makes a new one: it reads certificates again,
//! and its failure has a reason, which that of a broken connection lacks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};

use super::denied::{Denied, is_stale};
use super::options::{BadOptions, EtcdOptions, User, in_background, password, read, tls_config};
use super::proto::AuthenticateRequest;
use super::proto::auth_client::AuthClient;
use super::proto::kv_client::KvClient;
use super::proto::watch_client::WatchClient;
use crate::causes::with_causes;
use crate::locked::locked;
use crate::store::{Failure, in_time};

/// Most endpoints.
const MAX_ENDPOINTS: usize = 16;
/// Largest reply: a page of configurations.
const MAX_REPLY: usize = 32 * 1024 * 1024;
/// Silence after which the server of a request or watch is pinged. Servers close a connection that
/// is pinged more often than every 5 s, or without a request.
const KEEP_ALIVE: Duration = Duration::from_secs(6);
/// Time for the answer to a ping.
const PING: Duration = Duration::from_secs(2);

/// The endpoints with their connections, and the token.
#[derive(Debug)]
pub(super) struct Connections {
    endpoints: Vec<Target>,
    options: EtcdOptions,
    /// Endpoint that answered last.
    first: AtomicUsize,
    /// Token of the user, which all endpoints accept.
    token: Mutex<Option<AsciiMetadataValue>>,
}

/// An endpoint, with its connection while there is one.
#[derive(Debug)]
struct Target {
    name: String,
    uri: Uri,
    channel: Mutex<Option<Channel>>,
}

/// A connection with the token to show on it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    channel: Channel,
    token: Option<AsciiMetadataValue>,
}

impl Server {
    pub(super) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(MAX_REPLY)
    }

    pub(super) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(MAX_REPLY)
    }

    #[cfg(feature = "testing")]
    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

impl Connections {
    pub(super) fn new(options: EtcdOptions) -> Result<Self, BadOptions> {
        if options.endpoints.is_empty() || options.endpoints.len() > MAX_ENDPOINTS {
            let count = options.endpoints.len();
            let reason = format!("{count} endpoints of etcd: 1 to {MAX_ENDPOINTS} are allowed");
            return Err(BadOptions("endpoints", reason));
        }
        let has_tls = options.tls.is_some();
        let endpoints = options.endpoints.iter().map(|endpoint| Target::new(endpoint, has_tls));
        let endpoints: Vec<_> = endpoints.collect::<Result<_, _>>()?;
        if let Some(tls) = &options.tls {
            tls_config(tls).map_err(|reason| BadOptions("tls", reason))?;
        }
        if let Some(user) = &options.user {
            let found = read(&user.password_file);
            found.map_err(|reason| BadOptions("password_file", reason))?;
        }
        let (first, token) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self { endpoints, options, first, token })
    }

    /// Time within which a request ends.
    pub(super) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Ends a request of several calls when the time for one request is over.
    pub(super) async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let endpoint = &self.endpoints[self.first.load(Ordering::Relaxed)].name;
        in_time(endpoint, self.options.timeout, request).await
    }

    /// Carries out a call at the endpoint that answered last, or else at the others in turn.
    pub(super) async fn call<T, F>(&self, call: impl Fn(Server) -> F) -> Result<T, Denied>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let count = self.endpoints.len();
        let first = self.first.load(Ordering::Relaxed);
        let begun = Instant::now();
        let mut left = self.options.timeout;
        let mut reasons = Vec::new();
        for step in 0..count {
            let at = (first + step) % count;
            let endpoint = &self.endpoints[at];
            let share = share(left, step, count);
            let tried = timeout(share, self.try_at(endpoint, &call)).await;
            let denied = match tried {
                Ok(Ok(answer)) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(denied)) if denied.is_final => {
                    // An endpoint that gave no answer may have carried the request out.
                    let is_final = reasons.is_empty();
                    reasons.push(denied.reason);
                    return Err(Denied { reason: reasons.join("; "), is_final, ..denied });
                }
                Ok(Err(denied)) => denied,
                Err(_) => {
                    let waited = share.as_millis();
                    Denied::no_answer(&endpoint.name, format!("no answer within {waited} ms"))
                }
            };
            endpoint.disconnect();
            reasons.push(denied.reason);
            left = self.options.timeout.saturating_sub(begun.elapsed());
        }
        self.first.store((first + 1) % count, Ordering::Relaxed);
        Err(Denied { reason: reasons.join("; "), is_final: false, is_forgotten: false })
    }

    async fn try_at<T, F>(
        &self,
        endpoint: &Target,
        call: &impl Fn(Server) -> F,
    ) -> Result<T, Denied>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let server = self.server(endpoint).await?;
        let shown = server.token.clone();
        let answer = match call(server).await {
            // Tokens end with time, and with a restart of the server.
            Err(status) if shown.is_some() && is_stale(&status) => {
                locked(&self.token).take_if(|token| Some(&*token) == shown.as_ref());
                call(self.server(endpoint).await?).await
            }
            answer => answer,
        };
        answer.map(Response::into_inner).map_err(|status| Denied::new(&endpoint.name, &status))
    }

    /// Connects to the endpoint of the last answer, or to the next one at each further try.
    pub(super) async fn any_server(&self, tried: usize) -> Result<(Server, &str), Denied> {
        let at = (self.first.load(Ordering::Relaxed) + tried) % self.endpoints.len();
        let endpoint = &self.endpoints[at];
        match timeout(self.options.timeout, self.server(endpoint)).await {
            Ok(server) => Ok((server?, &endpoint.name)),
            Err(_) => Err(Denied::no_answer(&endpoint.name, "no answer to a connection")),
        }
    }

    /// Forgets the token: the server no longer knows it.
    pub(super) fn forget_token(&self) {
        locked(&self.token).take();
    }

    /// Connects to the endpoint if there is no connection, and logs in if there is no token.
    async fn server(&self, endpoint: &Target) -> Result<Server, Denied> {
        let held = locked(&endpoint.channel).clone();
        let channel = match held {
            Some(channel) => channel,
            None => self.connect(endpoint).await?,
        };
        let held = locked(&self.token).clone();
        let token = match (held, &self.options.user) {
            (Some(token), _) => Some(token),
            (None, Some(user)) => log_in(endpoint, &channel, user).await?,
            (None, None) => None,
        };
        locked(&self.token).clone_from(&token);
        Ok(Server { channel, token })
    }

    async fn connect(&self, endpoint: &Target) -> Result<Channel, Denied> {
        let no_answer = |reason: String| Denied::no_answer(&endpoint.name, reason);
        let mut to = Endpoint::from(endpoint.uri.clone())
            .connect_timeout(self.options.timeout)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(false);
        if let (Some("https"), Some(tls)) = (endpoint.uri.scheme_str(), &self.options.tls) {
            let tls = tls.clone();
            let tls = in_background(move || tls_config(&tls)).await.map_err(no_answer)?;
            to = to.tls_config(tls).map_err(|why| no_answer(with_causes(&why)))?;
        }
        let channel = to.connect().await.map_err(|why| no_answer(with_causes(&why)))?;
        *locked(&endpoint.channel) = Some(channel.clone());
        Ok(channel)
    }
}

/// Time for one endpoint, out of the time that is left: half of it for the first endpoint, and an
/// equal part for each of the others.
fn share(left: Duration, step: usize, count: usize) -> Duration {
    let parts = if step == 0 { count.min(2) } else { count - step };
    left / u32::try_from(parts).unwrap_or(u32::MAX)
}

impl Target {
    /// Parses an endpoint.
    fn new(endpoint: &str, has_tls: bool) -> Result<Self, BadOptions> {
        // The text may contain a password, so it is not shown.
        if endpoint.contains('@') {
            let reason = "an endpoint of etcd has `@` in it: user and password are set apart";
            return Err(BadOptions("endpoints", reason.to_owned()));
        }
        let bad = |reason: &str| {
            let endpoint = endpoint.escape_debug();
            BadOptions("endpoints", format!("endpoint `{endpoint}` of etcd: {reason}"))
        };
        let uri: Option<Uri> = endpoint.parse().ok();
        let uri = uri.filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.port_u16().is_some()
                && uri.path() == "/"
                && uri.query().is_none()
        });
        let uri = uri.ok_or_else(|| bad("http://HOST:PORT or https://HOST:PORT is needed"))?;
        let is_secure = uri.scheme_str() == Some("https");
        if is_secure && !has_tls {
            return Err(bad("https needs the certificate of an authority"));
        }
        if has_tls && !is_secure {
            return Err(bad("https is needed, since certificates are set"));
        }
        let name = endpoint.trim_end_matches('/').to_owned();
        Ok(Self { name, uri, channel: Mutex::default() })
    }

    fn disconnect(&self) {
        locked(&self.channel).take();
    }
}

/// Returns a token. `None` while the store has no users: then it needs none, and the next request
/// asks again.
async fn log_in(
    endpoint: &Target,
    channel: &Channel,
    user: &User,
) -> Result<Option<AsciiMetadataValue>, Denied> {
    let file = user.password_file.clone();
    let password = in_background(move || password(&file)).await;
    let password = password.map_err(|reason| Denied::no_answer(&endpoint.name, reason))?;
    let request = AuthenticateRequest { name: user.name.clone(), password };
    match AuthClient::new(channel.clone()).authenticate(request).await {
        Ok(answer) => {
            let token = answer.into_inner().token.parse::<AsciiMetadataValue>();
            let mut token =
                token.map_err(|_| Denied::no_answer(&endpoint.name, "the token is not ASCII"))?;
            token.set_sensitive(true);
            Ok(Some(token))
        }
        Err(status) if status.message().ends_with("authentication is not enabled") => Ok(None),
        Err(status) => Err(Denied::new(&endpoint.name, &status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_endpoint_has_half_of_the_time() {
        let second = Duration::from_secs(1);
        assert_eq!(share(second, 0, 1), second);
        for count in 2..=MAX_ENDPOINTS {
            let mut left = second;
            for step in 0..count {
                let share = share(left, step, count);
                assert!(step > 0 || share == second / 2, "{share:?} of {count}");
                left -= share;
            }
            assert_eq!(left, Duration::ZERO, "{count} endpoints");
        }
    }
}
