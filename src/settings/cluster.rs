//! Sections `cluster` and `service`: where several members agree who serves which resource manager,
//! and what a process keeps between two starts.
//!
//! Without an arbiter, which is the default, nothing of a cluster runs.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::edges::address;
use super::seconds;
use crate::identity::certificate::Name;

/// Longest id of a member and longest address, in bytes.
const TEXT_BYTES: usize = 128;
/// Characters that are shown of a text that is too long.
const BEGINNING: usize = 32;
/// Most endpoints of an arbiter.
const ENDPOINTS: usize = 16;
/// Shortest lease. Below it, one slow request would fence a member.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);
/// Longest lease: the time for which nobody serves the resource managers of a lost member.
const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);

/// Section `service`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `service.KEY` or MONOCEROS__SERVICE__KEY)"
)]
pub struct ServiceSettings {
    /// Folder for what this process keeps between two starts: its id in the cluster, and how long
    /// allocations ran. Default: none.
    pub state_dir: Option<PathBuf>,
}

/// Section `cluster`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `cluster.KEY` or MONOCEROS__CLUSTER__KEY)"
)]
pub struct ClusterSettings {
    /// Store of the claims. Default `none`, and this process is the whole scheduler.
    pub arbiter: ArbiterKind,
    /// Name of the cluster, by which several share one arbiter. Default `monoceros`.
    pub name: String,
    /// Id of this member. Default: the pod's name, else the id in `service.state_dir`, else a
    /// random one.
    pub id: Option<String>,
    /// How long a member must be silent before others take its resource managers. Default 5
    /// seconds, at least 2.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub lease: Duration,
    /// Endpoints of etcd: a list, or a text with commas.
    #[serde(default, deserialize_with = "texts")]
    pub endpoints: Vec<String>,
    /// User of etcd. Default: none.
    pub user: Option<String>,
    /// File with the password of the user.
    pub password_file: Option<PathBuf>,
    /// Address of the listener for other members. Default `127.0.0.1:0`: a free port, for members
    /// on one machine.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Addresses that clients and other members are told.
    #[serde(default)]
    pub advertise: AdvertiseSettings,
    /// Encryption of connections to etcd and between members.
    #[serde(default)]
    pub tls: ClusterTlsSettings,
}

/// Store of the claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ArbiterKind {
    /// No cluster.
    #[default]
    None,
    /// Records in etcd.
    Etcd,
    /// Config maps of Kubernetes.
    Kubernetes,
}

/// Section `cluster.advertise`: `HOST:PORT` each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section (with keys such as `advertise.grpc`)")]
pub struct AdvertiseSettings {
    /// Address of the gRPC edge. Default: `grpc.address` with the port in use.
    pub grpc: Option<String>,
    /// Address of the REST edge. Default: `rest.address` with the port in use.
    pub rest: Option<String>,
    /// Address of the listener for other members. Default: `cluster.listen` with the port in use.
    pub internal: Option<String>,
}

/// Section `cluster.tls`. Each connection reads the files again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section (with keys such as `tls.ca`)")]
pub struct ClusterTlsSettings {
    /// Certificates (PEM) of the authorities of etcd's servers and of members. Needed for
    /// `https://` and for `names`.
    pub ca: Option<PathBuf>,
    /// Own certificate (PEM), for clients and servers. Default: none is shown.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    pub key: Option<PathBuf>,
    /// Name that the servers' certificates must prove. Default: the host of the endpoint.
    pub server_name: Option<String>,
    /// Names of which the certificate of each member must prove one. Default: none, and members
    /// speak without TLS, on loopback addresses only.
    #[serde(default, deserialize_with = "names")]
    pub names: Vec<Name>,
}

impl ArbiterKind {
    /// Returns the value of `cluster.arbiter`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Etcd => "etcd",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// Whether this program was built with the store.
    fn is_built_in(self) -> bool {
        match self {
            Self::None => true,
            Self::Etcd => cfg!(feature = "cluster"),
            Self::Kubernetes => cfg!(all(feature = "cluster", feature = "kubernetes")),
        }
    }
}

impl TryFrom<String> for ArbiterKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self::None),
            "etcd" => Ok(Self::Etcd),
            "kubernetes" => Ok(Self::Kubernetes),
            _ => Err(format!("`{text}` is not `none`, `etcd` or `kubernetes`")),
        }
    }
}

impl ClusterSettings {
    /// Whether this process is a member of a cluster.
    pub fn is_on(&self) -> bool {
        self.arbiter != ArbiterKind::None
    }

    /// Returns the values out of their bounds, and those that contradict each other or the
    /// addresses that are listened on.
    pub(super) fn contradictions(&self, grpc: SocketAddr, rest: SocketAddr) -> Vec<String> {
        let mut found = Vec::new();
        if self.lease < SHORTEST_LEASE || self.lease > LONGEST_LEASE {
            let lease = self.lease;
            found.push(format!(
                "`cluster.lease` ({lease:?}) is not between {SHORTEST_LEASE:?} and {LONGEST_LEASE:?}"
            ));
        }
        if let Some(id) = &self.id {
            found.extend(member_id(id).err().map(|why| format!("`cluster.id` {why}")));
        }
        #[cfg(feature = "cluster")]
        if let Err(why) = monoceros_cluster_store::ClusterName::new(&self.name) {
            found.push(format!("`cluster.name`: {why}"));
        }
        let kind = self.arbiter.name();
        if !self.arbiter.is_built_in() {
            found.push(format!("`cluster.arbiter` is `{kind}`: this program was built without it"));
        }
        found.extend(self.endpoint_contradictions());
        found.extend(self.member_contradictions());
        for (key, address, listens) in
            [("grpc", &self.advertise.grpc, grpc), ("rest", &self.advertise.rest, rest)]
        {
            match address {
                Some(address) => found.extend(advertised_fault(key, address)),
                None if self.is_on() && listens.ip().is_unspecified() => found.push(format!(
                    "`cluster.advertise.{key}` is not set: `{key}.address` ({listens}) is no address \
                     that others can reach"
                )),
                None => {}
            }
        }
        found
    }

    /// Returns contradictions of the listener for other members.
    fn member_contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let internal = self.advertise.internal.as_deref();
        if let Some(address) = internal {
            found.extend(advertised_fault("internal", address));
        } else if self.listen.ip().is_unspecified() {
            let listen = self.listen;
            found.push(format!(
                "`cluster.advertise.internal` is not set: `cluster.listen` ({listen}) is no address \
                 that others can reach"
            ));
        }
        if !self.tls.names.is_empty() {
            let Self { tls: ClusterTlsSettings { ca, certificate, key, .. }, .. } = self;
            for (key, file) in [("ca", ca), ("certificate", certificate), ("key", key)] {
                if file.is_none() {
                    found.push(format!(
                        "`cluster.tls.{key}` is not set, which `cluster.tls.names` needs"
                    ));
                }
            }
            return found;
        }
        let listen = self.listen.to_string();
        for (key, address) in [("listen", Some(&*listen)), ("advertise.internal", internal)] {
            if let Some(address) = address.filter(|address| !is_loopback(address)) {
                found.push(format!(
                    "`cluster.{key}` (`{}`) is no loopback address, and `cluster.tls.names` is not \
                     set: members speak to each other over other addresses with TLS only",
                    address.escape_debug()
                ));
            }
        }
        found
    }

    fn endpoint_contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.arbiter == ArbiterKind::Etcd && self.endpoints.is_empty() {
            found.push("`cluster.endpoints` is not set, which the arbiter `etcd` needs".to_owned());
        }
        if self.endpoints.len() > ENDPOINTS {
            let count = self.endpoints.len();
            found.push(format!("`cluster.endpoints` has {count} addresses, more than {ENDPOINTS}"));
        }
        for endpoint in &self.endpoints {
            let (scheme, address) = endpoint.split_once("://").unwrap_or(("", endpoint));
            let address = address.strip_suffix('/').unwrap_or(address);
            if !matches!(scheme, "http" | "https") || !is_host_and_port(address) {
                let endpoint = endpoint.escape_debug();
                found.push(format!(
                    "`cluster.endpoints`: `{endpoint}` is neither http://HOST:PORT nor \
                     https://HOST:PORT"
                ));
            } else if scheme == "https" && self.tls.ca.is_none() {
                found.push(format!("`cluster.tls.ca` is not set, which `{endpoint}` needs"));
            }
        }
        let is_secure = |endpoint: &String| endpoint.starts_with("https://");
        if self.endpoints.iter().any(is_secure) && !self.endpoints.iter().all(is_secure) {
            let text =
                "`cluster.endpoints` has addresses with http and with https: all need the same";
            found.push(text.to_owned());
        }
        for (one, is_one, other, is_other) in [
            ("tls.certificate", self.tls.certificate.is_some(), "tls.key", self.tls.key.is_some()),
            ("user", self.user.is_some(), "password_file", self.password_file.is_some()),
        ] {
            let (set, missing) = if is_one { (one, other) } else { (other, one) };
            if is_one != is_other {
                found.push(format!("`cluster.{missing}` is not set, which `cluster.{set}` needs"));
            }
        }
        found
    }
}

/// Checks the id of a member. `Err` states the mistake.
pub(crate) fn member_id(id: &str) -> Result<(), String> {
    let length = id.len();
    if length > TEXT_BYTES {
        let shown: String = id.escape_debug().take(BEGINNING).collect();
        return Err(format!("(`{shown}…`) has {length} bytes: at most {TEXT_BYTES} are allowed"));
    }
    if length > 0 && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let shown = id.escape_debug();
    Err(format!("(`{shown}`) is not 1 to {TEXT_BYTES} letters, digits and signs of ASCII"))
}

/// The mistake of an address in `cluster.advertise`, if there is one.
fn advertised_fault(key: &str, address: &str) -> Option<String> {
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    let why = match port {
        _ if !is_host_and_port(address) => "is no HOST:PORT",
        Some(Ok(0)) => "has port 0, to which nobody can connect",
        _ => return None,
    };
    Some(format!("`cluster.advertise.{key}` (`{}`) {why}", address.escape_debug()))
}

fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_host && !host.contains('/') && address.len() <= TEXT_BYTES && port.parse::<u16>().is_ok()
}

/// Whether the host of an address is this machine, by its name or its number.
pub(crate) fn is_loopback(address: &str) -> bool {
    let Some((host, _)) = address.rsplit_once(':') else { return false };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let number = host.parse::<IpAddr>();
    number.map_or(host == "localhost", |number| number.to_canonical().is_loopback())
}

/// Reads a list of names of certificates.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    let parsed = texts(deserializer)?.into_iter().map(|text| text.parse::<Name>());
    parsed.collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// Reads a list of texts. The environment has no lists, so one text with commas is a list, too.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Texts;

    impl<'de> Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a list of texts, or one text with commas")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(ToOwned::to_owned).collect())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(Texts)
}
