//! Sections `grpc` and `rest`: addresses, bounds and encryption of the edges.
//!
//! By default both edges listen on this machine only: without access rules and TLS, everybody who
//! can reach them may do everything.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::seconds;

/// Section `grpc`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `grpc.KEY` or MONOCEROS__GRPC__KEY)"
)]
pub struct GrpcSettings {
    /// Address to listen on. Port 0 selects a free one. Default 127.0.0.1:50051.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Largest request message, in bytes. A larger one ends its stream. Default 64 MiB.
    pub max_recv_message_bytes: NonZeroUsize,
    /// Most bytes of messages that are read and decoded at a time, for streams with a session. All
    /// callers without a session together have a quarter of it
    /// ([`Self::decoding_bytes_unbound`]). Default 256 MiB.
    pub decoding_bytes: NonZeroUsize,
    /// How long a request body, or the reading of an answer, may make no progress. Default 30
    /// seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub body_timeout: Duration,
    /// Most items in one response message. More items make fewer messages, each of which a client
    /// must hold whole. Default 1,000.
    pub send_chunk_items: NonZeroUsize,
    /// Most bytes in one response message, unless a single item is larger. Default 2 MiB: half of
    /// what clients in Go and Python accept.
    pub send_chunk_bytes: NonZeroUsize,
    /// Seconds without traffic before a keepalive ping. Default 20.
    pub keepalive_interval: NonZeroU64,
    /// Seconds to answer the ping before the connection is closed. Default 20.
    pub keepalive_timeout: NonZeroU64,
    /// Most open streams per connection. Default 1,024.
    pub max_streams_per_connection: NonZeroU32,
    /// How long a stream may be open before it names its resource manager. Default 10 seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub bind_timeout: Duration,
    /// Most open calls without a session, over all connections. Default 4,096.
    pub max_streams: NonZeroUsize,
    /// Most open connections. Default 1,024.
    pub max_connections: NonZeroUsize,
    /// Most resource managers registered at a time; with access rules, for each token or
    /// certificate. Default 256.
    pub max_sessions: NonZeroUsize,
    /// Whether replies are compressed (gzip) for clients that accept it. Default true: saves
    /// network, costs CPU on both sides.
    pub send_gzip: bool,
    /// Encryption.
    pub tls: TlsSettings,
}

/// Section `rest`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `rest.KEY` or MONOCEROS__REST__KEY)"
)]
pub struct RestSettings {
    /// Address to listen on. Port 0 selects a free one. Default 127.0.0.1:9080.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Whether metrics can be read without a token or certificate even with access rules. Default
    /// false.
    pub open_metrics: bool,
    /// Largest request body, in bytes. A larger one gets 413. Default 8 MiB.
    pub max_body_bytes: NonZeroUsize,
    /// How long a request body, or the reading of an answer, may make no progress. Default 30
    /// seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub body_timeout: Duration,
    /// Most open connections. Default 1,024.
    pub max_connections: NonZeroUsize,
    /// Encryption.
    pub tls: TlsSettings,
}

/// Section `reads`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `reads.KEY` or MONOCEROS__READS__KEY)"
)]
pub struct ReadSettings {
    /// Most bytes of documents that were made for clients of both edges and not yet received by
    /// them. Default 256 MiB.
    pub bytes: NonZeroUsize,
}

/// Section `snapshot`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `snapshot.KEY` or MONOCEROS__SNAPSHOT__KEY)"
)]
pub struct SnapshotSettings {
    /// Most bytes of a snapshot for each resource manager, before compression. Default 1 GiB.
    pub bytes: NonZeroU64,
}

/// Sections `grpc.tls` and `rest.tls`. The files are read again when they change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section (with keys such as `tls.certificate`)")]
pub struct TlsSettings {
    /// The server certificate (PEM), followed by the intermediate certificates up to one that
    /// clients trust. Default: none, and no TLS.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM, no passphrase).
    pub key: Option<PathBuf>,
    /// Certificates of the authorities for client certificates (PEM, any number).
    pub client_ca: Option<PathBuf>,
    /// Whether clients show a certificate. Default `none`.
    pub client_auth: ClientAuth,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ClientAuth {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// Clients may show a certificate. An invalid one ends the connection.
    Optional,
    /// Clients must show a certificate.
    Required,
}

impl GrpcSettings {
    /// Returns the share of [`Self::decoding_bytes`] for all callers without a session together: a
    /// quarter.
    pub fn decoding_bytes_unbound(&self) -> usize {
        (self.decoding_bytes.get() / 4).max(1)
    }

    /// Returns [`Self::keepalive_interval`] as a duration.
    pub fn keepalive_interval(&self) -> Duration {
        Duration::from_secs(self.keepalive_interval.get())
    }

    /// Returns [`Self::keepalive_timeout`] as a duration.
    pub fn keepalive_timeout(&self) -> Duration {
        Duration::from_secs(self.keepalive_timeout.get())
    }
}

impl TryFrom<String> for ClientAuth {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self::None),
            "optional" => Ok(Self::Optional),
            "required" => Ok(Self::Required),
            _ => Err(format!("`{text}` is not `none`, `optional` or `required`")),
        }
    }
}

pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "`{text}` is not an IP:PORT (such as `127.0.0.1:50051` or `[::1]:0`)"
        ))
    })
}
