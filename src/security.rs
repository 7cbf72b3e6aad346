//! What stands between the network and the scheduler: TLS of both edges and the rules for who may
//! do what, assembled from the settings before anything listens.
//!
//! It is assembled in one place because its parts only make sense together: a rule for certificates
//! without TLS lets nobody in, and a token without TLS can be read on the way. Such settings are an
//! error or a warning at the start, not a surprise later.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::files::Refresh;
use crate::identity::Access;
use crate::identity::access::AccessError;
use crate::settings::{ClientAuth, Settings};
use crate::tls::{HTTP_1, HTTP_2, Tls, TlsError};

/// Why the settings make no security.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// Encryption of an edge.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Rules and tokens.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A rule could never be met.
    #[error(
        "identity.rules: a rule with `certificate` needs `grpc.tls.client_auth` or \
         `rest.tls.client_auth`, or no client is asked for its certificate"
    )]
    NoCertificates,
}

/// Encryption and rules.
#[derive(Clone, Debug)]
pub struct Security {
    /// Encryption of gRPC, if there is any.
    pub grpc: Option<Arc<Tls>>,
    /// Encryption of REST, if there is any.
    pub rest: Option<Arc<Tls>>,
    /// Who may do what.
    pub access: Arc<Access>,
    /// Whether the settings have a key that is ignored.
    has_require_identity: bool,
}

impl Security {
    /// What `settings` want.
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
        let has_require_identity = settings.rest.require_identity.is_some();
        Ok(Self { grpc, rest, access: Arc::new(access), has_require_identity })
    }

    /// Whether anything is asked of a client.
    pub fn is_open(&self) -> bool {
        self.grpc.is_none() && !self.access.is_restricted()
    }

    /// What is read from files.
    pub fn sources(&self) -> Vec<Arc<dyn Refresh>> {
        let mut sources: Vec<Arc<dyn Refresh>> = vec![Arc::clone(&self.access) as _];
        sources.extend([&self.grpc, &self.rest].into_iter().flatten().map(|tls| tls.clone() as _));
        sources
    }

    /// A sentence for each thing that is open to more than this machine, or has no effect.
    pub fn warnings(&self, grpc: SocketAddr, rest: SocketAddr) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.has_require_identity {
            warnings.push(
                "`rest.require_identity` is ignored: where there are rules (`identity.rules`), \
                 reading needs an identity on both edges"
                    .to_owned(),
            );
        }
        let edges = [
            ("grpc", "gRPC", grpc, &self.grpc, "read and change everything"),
            // Nothing is changed over it.
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
    fn an_open_service_warns_where_others_can_reach_it() {
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
    fn a_key_that_is_ignored_is_named() {
        let (mut settings, _) = open();
        settings.rest.require_identity = Some(false);
        let security = Security::load(&settings).unwrap();
        let warnings =
            security.warnings("127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap());
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("`rest.require_identity` is ignored"), "{warnings:?}");
    }

    #[test]
    fn a_rule_that_nobody_can_meet_is_an_error() {
        let (mut settings, _) = open();
        settings.identity.rules = vec![Rule::certificate("cn=a", &["a"], false).unwrap()];
        assert!(matches!(Security::load(&settings), Err(SecurityError::NoCertificates)));
    }
}
