//! Connections to the endpoints of etcd, one after the other, and the token of the user.
//!
//! # Which endpoint
//! A request goes to the endpoint that answered last. If that one does not answer, the others are
//! tried in turn, each with its share of the time. A write that is sent to two endpoints is carried
//! out once: it names the version that it replaces.
//!
//! # When something breaks
//! The connection is dropped, and the next request makes a new one: it reads certificates again,
//! and its failure has a reason, which that of a broken connection lacks.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Code, Request, Response, Status};

use super::proto::AuthenticateRequest;
use super::proto::auth_client::AuthClient;
use super::proto::kv_client::KvClient;
use super::proto::watch_client::WatchClient;
use crate::causes::with_causes;
use crate::store::Failure;

/// Most endpoints.
const MAX_ENDPOINTS: usize = 16;
/// Largest file of a certificate, key or password.
const MAX_FILE: u64 = 1024 * 1024;
/// Largest reply: a page of configurations.
const MAX_REPLY: usize = 32 * 1024 * 1024;
/// Silence after which a connection is asked for a sign of life, and how long that may take.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Addresses of etcd, and the means to reach it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Addresses: `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// Certificates. Needed for `https`.
    pub tls: Option<TlsFiles>,
    /// User. `None`: a store without users, or one that takes the name in the certificate.
    pub user: Option<User>,
    /// Time after which a request has failed. Has to be shorter than the lease.
    pub timeout: Duration,
}

/// Files of certificates, in PEM. Each connection reads them again.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign those of the servers.
    pub ca: PathBuf,
    /// Own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Name that the servers' certificates have to prove. `None`: the host of the endpoint.
    pub server_name: Option<String>,
}

/// User of the store.
#[derive(Clone, Debug)]
pub struct User {
    /// Name.
    pub name: String,
    /// File with the password; one newline at its end is left out. Each login reads it again.
    pub password_file: PathBuf,
}

/// Reason why the options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadOptions(String);

impl EtcdOptions {
    /// Options for endpoints without TLS and users, with requests of 1 s at most.
    pub fn new(endpoints: Vec<String>) -> Self {
        Self { endpoints, tls: None, user: None, timeout: Duration::from_secs(1) }
    }
}

/// The endpoints, and what is known of each.
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

/// A call that failed.
#[derive(Clone, Debug)]
pub(super) struct Denied {
    /// Code of the server's answer. [`Code::Unavailable`] without an answer.
    pub(super) code: Code,
    /// Endpoint and reason.
    reason: String,
    /// Whether nothing was carried out, here or at any other endpoint.
    is_final: bool,
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        if denied.is_final { Self::Refused(denied.reason) } else { Self::NoAnswer(denied.reason) }
    }
}

impl Denied {
    fn no_answer(endpoint: &str, reason: impl std::fmt::Display) -> Self {
        let reason = format!("{endpoint}: {reason}");
        Self { code: Code::Unavailable, reason, is_final: false }
    }

    fn new(endpoint: &str, status: &Status) -> Self {
        let message = if status.message().is_empty() {
            with_causes(status)
        } else {
            with_text(status.message(), status)
        };
        let reason = format!("{endpoint}: {message}");
        // All others may come from a server that is not well, or from the way there.
        let is_final = matches!(
            status.code(),
            Code::Unauthenticated
                | Code::PermissionDenied
                | Code::InvalidArgument
                | Code::OutOfRange
                | Code::ResourceExhausted
                | Code::Unimplemented
        );
        Self { code: status.code(), reason, is_final }
    }
}

/// The message of a status, with the causes that it has besides.
fn with_text(message: &str, status: &Status) -> String {
    match std::error::Error::source(status).map(with_causes) {
        Some(cause) if !message.contains(&cause) => format!("{message}: {cause}"),
        _ => message.to_owned(),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(super) fn new(options: EtcdOptions) -> Result<Self, BadOptions> {
        if options.endpoints.is_empty() || options.endpoints.len() > MAX_ENDPOINTS {
            let count = options.endpoints.len();
            return Err(BadOptions(format!(
                "{count} endpoints of etcd: 1 to {MAX_ENDPOINTS} are allowed"
            )));
        }
        let endpoints = options.endpoints.iter().map(|endpoint| {
            let uri: Option<Uri> = endpoint.parse().ok();
            let uri = uri.filter(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.port_u16().is_some()
                    && uri.path() == "/"
                    && uri.query().is_none()
            });
            let uri = uri.ok_or_else(|| {
                let endpoint = endpoint.escape_debug();
                BadOptions(format!(
                    "endpoint `{endpoint}` of etcd: http://HOST:PORT or https://HOST:PORT is needed"
                ))
            })?;
            if uri.scheme_str() == Some("https") && options.tls.is_none() {
                return Err(BadOptions(format!(
                    "endpoint `{endpoint}` of etcd: https needs the certificate of an authority"
                )));
            }
            let name = endpoint.trim_end_matches('/').to_owned();
            Ok(Target { name, uri, channel: Mutex::default() })
        });
        let endpoints: Vec<_> = endpoints.collect::<Result<_, _>>()?;
        if let Some(tls) = &options.tls {
            if endpoints.iter().all(|endpoint| endpoint.uri.scheme_str() == Some("http")) {
                let reason = "certificates are of no use: no endpoint of etcd begins with https://";
                return Err(BadOptions(reason.to_owned()));
            }
            tls_config(tls).map_err(BadOptions)?;
        }
        if let Some(user) = &options.user {
            read(&user.password_file).map_err(BadOptions)?;
        }
        let (first, token) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self { endpoints, options, first, token })
    }

    /// Ends a request of several calls when the time for one request is over.
    pub(super) async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let patience = self.options.timeout;
        let endpoint = &self.endpoints[self.first.load(Ordering::Relaxed)].name;
        let ended = timeout(patience, request).await;
        ended.unwrap_or_else(|_| Err(Failure::timed_out(endpoint, patience)))
    }

    /// Carries out a call at the endpoint that answered last, or else at the others in turn.
    pub(super) async fn call<T, F>(&self, call: impl Fn(Server) -> F) -> Result<T, Denied>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let count = self.endpoints.len();
        let share = self.options.timeout / u32::try_from(count).unwrap_or(u32::MAX);
        let first = self.first.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for step in 0..count {
            let at = (first + step) % count;
            let endpoint = &self.endpoints[at];
            let tried = timeout(share, self.try_at(endpoint, &call)).await;
            let denied = match tried {
                Ok(Ok(answer)) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(denied)) if denied.is_final => return Err(denied),
                Ok(Err(denied)) => denied,
                Err(_) => {
                    let waited = share.as_millis();
                    Denied::no_answer(&endpoint.name, format!("no answer within {waited} ms"))
                }
            };
            endpoint.disconnect();
            reasons.push(denied.reason);
        }
        let reason = reasons.join("; ");
        Err(Denied { code: Code::Unavailable, reason, is_final: false })
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
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if let (Some("https"), Some(tls)) = (endpoint.uri.scheme_str(), &self.options.tls) {
            let tls = tls_config(tls).map_err(no_answer)?;
            to = to.tls_config(tls).map_err(|why| no_answer(with_causes(&why)))?;
        }
        let channel = to.connect().await.map_err(|why| no_answer(with_causes(&why)))?;
        *locked(&endpoint.channel) = Some(channel.clone());
        Ok(channel)
    }
}

impl Target {
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
    let password =
        read(&user.password_file).map_err(|reason| Denied::no_answer(&endpoint.name, reason))?;
    let password = String::from_utf8(password)
        .map_err(|_| Denied::no_answer(&endpoint.name, "the password is not UTF-8"))?;
    let password = password.strip_suffix('\n').unwrap_or(&password).to_owned();
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

/// Whether the server no longer accepts a token that it gave.
pub(super) fn is_stale(status: &Status) -> bool {
    status.code() == Code::Unauthenticated
        || status.message().ends_with("revision of auth store is old")
}

fn tls_config(tls: &TlsFiles) -> Result<ClientTlsConfig, String> {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(&tls.ca)?));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(pem(certificate)?, pem(key)?));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name.clone());
    }
    Ok(config)
}

/// The contents of a PEM file. Fails if there is no PEM in it, which the TLS library would ignore.
fn pem(path: &Path) -> Result<Vec<u8>, String> {
    let contents = read(path)?;
    let mark = b"-----BEGIN ";
    if contents.windows(mark.len()).any(|window| window == mark) {
        return Ok(contents);
    }
    Err(format!("`{}` has no certificate or key in PEM", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let named = |why: &dyn std::fmt::Display| format!("`{}` cannot be read: {why}", path.display());
    let size = std::fs::metadata(path).map_err(|why| named(&why))?.len();
    if size > MAX_FILE {
        return Err(named(&format!("its {size} bytes are more than {MAX_FILE}")));
    }
    std::fs::read(path).map_err(|why| named(&why))
}
