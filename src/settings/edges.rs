//! Sections `grpc` and `rest`: where the edges listen, how much they take, and how they encrypt.
//!
//! Both listen to this machine alone unless told otherwise: without rules and TLS everybody who can
//! reach them may do everything.

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
    /// Where to listen; port 0 takes a free one. Default 127.0.0.1:50051.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Largest request message, in bytes; a larger one ends its stream. Default 64 MiB.
    pub max_recv_message_bytes: NonZeroUsize,
    /// Most bytes of messages that are read and decoded at a time, for streams with a session.
    /// Default 256 MiB.
    pub decoding_bytes: NonZeroUsize,
    /// The same for all callers without a session together. Default 64 MiB.
    pub decoding_bytes_unbound: NonZeroUsize,
    /// How long the body of a request, and the taking of an answer, may stand still. Default 30
    /// seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub body_timeout: Duration,
    /// Most items in one response message. More make fewer messages, which clients must hold whole.
    /// Default 1,000.
    pub send_chunk_items: NonZeroUsize,
    /// Most bytes in one response message, unless one item alone is larger. Default 2 MiB: half of
    /// what clients in Go and Python accept.
    pub send_chunk_bytes: NonZeroUsize,
    /// Seconds without traffic after which the peer is asked for a sign of life. Default 20.
    pub keepalive_interval: NonZeroU64,
    /// Seconds that the sign of life may take before the connection is closed. Default 20.
    pub keepalive_timeout: NonZeroU64,
    /// Most streams that are open on one connection at a time. Default 1,024.
    pub max_streams_per_connection: NonZeroU32,
    /// How long a stream may be open before it says whose it is. Default 10 seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub bind_timeout: Duration,
    /// Most calls that are open at a time without being those of a session, over all connections.
    /// Default 4,096.
    pub max_streams: NonZeroUsize,
    /// Most connections that are open at a time. Default 1,024.
    pub max_connections: NonZeroUsize,
    /// Most resource managers that are registered at a time, with rules by one caller. Default 256.
    pub max_sessions: NonZeroUsize,
    /// Whether replies are compressed (gzip) for clients that say they can read it. Default yes:
    /// saves network, costs processor time on both sides.
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
    /// Where to listen; port 0 takes a free one. Default 127.0.0.1:9080.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Whether metrics need no identity where there are rules. Default false.
    pub open_metrics: bool,
    /// Has no effect any more: with rules, reading needs an identity.
    pub require_identity: Option<bool>,
    /// Most bytes of the body of a request; one with more gets 413. Default 8 MiB.
    pub max_body_bytes: NonZeroUsize,
    /// How long the body of a request, and the taking of an answer, may stand still. Default 30
    /// seconds.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub body_timeout: Duration,
    /// Most connections that are open at a time. Default 1,024.
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
    /// Most bytes of documents that were read for clients of both edges and that they have not
    /// taken yet. Default 256 MiB.
    pub bytes: NonZeroUsize,
}

/// Sections `grpc.tls` and `rest.tls`. The files are read again when they change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section (with keys such as `tls.certificate`)")]
pub struct TlsSettings {
    /// The certificate to show (PEM), with those that lead from it to one that clients trust, in
    /// this order. Default: none, and no TLS.
    pub certificate: Option<PathBuf>,
    /// Its private key (PEM, no passphrase).
    pub key: Option<PathBuf>,
    /// Certificates of the authorities that vouch for clients (PEM, any number).
    pub client_ca: Option<PathBuf>,
    /// Whether clients show a certificate. Default `none`.
    pub client_auth: ClientAuth,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ClientAuth {
    /// Clients are not asked for one.
    #[default]
    None,
    /// Clients may show one; one that cannot be verified ends the connection.
    Optional,
    /// Without one there is no connection.
    Required,
}

impl GrpcSettings {
    /// [`Self::keepalive_interval`] as a duration.
    pub fn keepalive_interval(&self) -> Duration {
        Duration::from_secs(self.keepalive_interval.get())
    }

    /// [`Self::keepalive_timeout`] as a duration.
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

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "`{text}` is not an IP:PORT (such as `127.0.0.1:50051` or `[::1]:0`)"
        ))
    })
}
