//! TLS of both edges and the access rules, assembled from the settings before anything listens.
//!
//! Both are checked together because they depend on each other: a rule for certificates without TLS
//! admits nobody, and a token without TLS can be read on the network. Such settings are an error or
//! a warning at the start.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::files::Refresh;
use crate::identity::Access;
use crate::identity::access::AccessError;
use crate::settings::{ClientAuth, Settings};
use crate::tls::{HTTP_1, HTTP_2, Tls, TlsError};

/// The security settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// The TLS settings of an edge.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The rules or tokens.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A rule that no client could meet.
    #[error(
        "identity.rules: a rule with `certificate` needs `grpc.tls.client_auth` or \
         `rest.tls.client_auth`, or no client is asked for its certificate"
    )]
    NoCertificates,
}

/// TLS and access rules.
#[derive(Clone, Debug)]
pub struct Security {
    /// TLS of gRPC, if set.
    pub grpc: Option<Arc<Tls>>,
    /// TLS of REST, if set.
    pub rest: Option<Arc<Tls>>,
    /// Access rules.
    pub access: Arc<Access>,
}

impl Security {
    /// Loads the security settings.
    pub fn load(settings: &Settings) -> Result<Self, SecurityError> {
        let grpc = Tls::load("grpc.tls", &settings.grpc.tls, HTTP_2)?;
        let rest = Tls::load("rest.tls", &settings.rest.tls, HTTP_1)?;
        let access = Access::load(&settings.identity)?;
        let edges = [&settings.grpc.tls, &settings.rest.tls];
        let nobody_asks = edges.iter().all(|tls| tls.client_auth == ClientAuth::None);
        if access.needs_certificates() && nobody_asks {
            return Err(SecurityError::NoCertificates);
        }
        let (grpc, rest) = (grpc.map(Arc::new), rest.map(Arc::new));
        Ok(Self { grpc, rest, access: Arc::new(access) })
    }

    /// Whether gRPC has neither TLS nor rules.
    pub fn is_open(&self) -> bool {
        self.grpc.is_none() && !self.access.is_restricted()
    }

    /// Returns the values that are read from files.
    pub fn sources(&self) -> Vec<Arc<dyn Refresh>> {
        let mut sources: Vec<Arc<dyn Refresh>> = vec![Arc::clone(&self.access) as _];
        sources.extend([&self.grpc, &self.rest].into_iter().flatten().map(|tls| tls.clone() as _));
        sources
    }

    /// Returns a warning for each edge that is unprotected and reachable from other machines, and
    /// for each ignored key.
    pub fn warnings(&self, grpc: SocketAddr, rest: SocketAddr) -> Vec<String> {
        let mut warnings = Vec::new();
        let edges = [
            ("grpc", "gRPC", grpc, &self.grpc, "read and change everything"),
            // REST changes nothing.
            ("rest", "REST", rest, &self.rest, "read everything"),
        ];
        for (section, name, address, tls, may) in edges {
            if is_local(address) || tls.is_some() {
                continue;
            }
            let tokens = if self.access.has_tokens() { ", tokens too" } else { "" };
            warnings.push(format!(
                "{name} on {address} can be reached by other machines and is not encrypted: whoever \
                 is on the way can {may}{tokens} (`{section}.tls`)"
            ));
        }
        if !self.access.is_restricted() && !is_local(grpc) {
            warnings.push(format!(
                "gRPC on {grpc} can be reached by other machines and there are no rules: everybody \
                 there may speak for every resource manager (`identity.rules`)"
            ));
        }
        warnings
    }
}

fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Rule;
    use crate::settings::Flags;

    fn open() -> (Settings, Security) {
        let settings = Settings::load(None, &Flags::default()).unwrap();
        let security = Security::load(&settings).unwrap();
        (settings, security)
    }

    #[test]
    fn an_open_reachable_service_warns() {
        let (_, security) = open();
        let warnings = |grpc: &str, rest: &str| {
            security.warnings(grpc.parse().unwrap(), rest.parse().unwrap())
        };
        assert!(security.is_open());
        assert!(warnings("127.0.0.1:1", "[::1]:2").is_empty());
        assert!(warnings("[::ffff:127.0.0.1]:1", "127.8.0.1:2").is_empty());
        let public = warnings("0.0.0.0:1", "10.0.0.1:2");
        assert_eq!(public.len(), 3);
        for (warning, key) in public.iter().zip(["grpc.tls", "rest.tls", "identity.rules"]) {
            assert!(warning.contains(&format!("(`{key}`)")), "{warning}");
        }
        assert_eq!(warnings("127.0.0.1:1", "0.0.0.0:2").len(), 1);
    }

    #[test]
    fn an_unsatisfiable_rule_is_an_error() {
        let (mut settings, _) = open();
        settings.identity.rules = vec![Rule::certificate("cn=a", &["a"], false).unwrap()];
        assert!(matches!(Security::load(&settings), Err(SecurityError::NoCertificates)));
    }
}
