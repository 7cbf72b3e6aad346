//! TLS of an edge: its certificate, and the client certificates it accepts.
//!
//! The files may be replaced while the service runs (see [`crate::files`]). An open connection
//! keeps its certificate, the next one uses the new files.
//!
//! # Invariants
//! * A certificate is only used with its own key. Files that do not match, as while only the first
//!   of both has been replaced, change nothing.
//! * With `client_auth = required`, every connection has a client certificate signed by
//!   `client_ca`.
//! * An error names the key and the file, and shows nothing of the contents.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::files::{FromFiles, LoadError, Refresh};
use crate::settings::{ClientAuth, TlsSettings};

/// Time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The ALPN name of HTTP/2.
pub const HTTP_2: &[u8] = b"h2";
/// The ALPN name of HTTP/1.1.
pub const HTTP_1: &[u8] = b"http/1.1";

/// The TLS settings of an edge cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A key of the settings is missing.
    #[error("`{section}.{missing}` is not set, which `{section}.{by}` needs")]
    Missing {
        /// Section of the settings.
        section: &'static str,
        /// The missing key.
        missing: &'static str,
        /// The key that needs it.
        by: &'static str,
    },
    /// A key of the settings has no effect without another one.
    #[error("`{0}.client_ca` has no effect unless `{0}.client_auth` is `optional` or `required`")]
    UnusedCa(&'static str),
    /// The files cannot be used.
    #[error("{section}: {error}")]
    Files {
        /// Section of the settings.
        section: &'static str,
        /// The error.
        error: LoadError<ContentError>,
    },
}

/// The contents of the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The file has no certificate.
    #[error("`{0}` has no certificate in PEM")]
    NoCertificate(String),
    /// The file has no key, or one with a passphrase.
    #[error("`{0}` has no private key in PEM, or one with a passphrase")]
    NoKey(String),
    /// The key does not belong to the certificate, or one of both is of an unsupported type.
    #[error("certificate and key cannot be used together: {0}")]
    Unusable(rustls::Error),
    /// The authorities for client certificates cannot be used.
    #[error("`{path}` cannot vouch for clients: {reason}")]
    ClientCa {
        /// The file.
        path: String,
        /// The mistake.
        reason: String,
    },
}

/// TLS of one edge.
#[derive(Debug)]
pub struct Tls(FromFiles<ServerConfig, ContentError>);

impl Tls {
    /// Loads TLS for an edge that speaks `protocol`, from the settings of `section`. `None` if they
    /// set no TLS.
    pub fn load(
        section: &'static str,
        settings: &TlsSettings,
        protocol: &'static [u8],
    ) -> Result<Option<Self>, TlsError> {
        let missing = |missing, by| TlsError::Missing { section, missing, by };
        let (certificate, key) = match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return Err(missing("key", "certificate")),
            (None, Some(_)) => return Err(missing("certificate", "key")),
            (None, None) if settings.client_auth != ClientAuth::None => {
                return Err(missing("certificate", "client_auth"));
            }
            (None, None) if settings.client_ca.is_some() => {
                return Err(missing("certificate", "client_ca"));
            }
            (None, None) => return Ok(None),
        };
        let mut paths = vec![certificate.clone(), key.clone()];
        match (settings.client_auth, &settings.client_ca) {
            (ClientAuth::None, None) => {}
            (ClientAuth::None, Some(_)) => return Err(TlsError::UnusedCa(section)),
            (ClientAuth::Optional | ClientAuth::Required, None) => {
                return Err(missing("client_ca", "client_auth"));
            }
            (ClientAuth::Optional | ClientAuth::Required, Some(path)) => paths.push(path.clone()),
        }
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let client_auth = settings.client_auth;
        let parse = move |contents: &[Vec<u8>]| config(&names, contents, client_auth, protocol);
        let files = FromFiles::load(section, paths, parse);
        files.map(Self).map(Some).map_err(|error| TlsError::Files { section, error })
    }

    /// Performs the handshake on `stream`.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.0.current());
        timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await?
    }
}

impl Refresh for Tls {
    fn refresh(&self) {
        self.0.refresh();
    }
}

/// Makes the configuration of the files at `paths`: certificate, key, and client authorities.
fn config(
    paths: &[String],
    contents: &[Vec<u8>],
    client_auth: ClientAuth,
    protocol: &[u8],
) -> Result<ServerConfig, ContentError> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&contents[0]);
    let chain = chain.ok_or_else(|| ContentError::NoCertificate(paths[0].clone()))?;
    let key = PrivateKeyDer::from_pem_slice(&contents[1]);
    let key = key.map_err(|_| ContentError::NoKey(paths[1].clone()))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(ContentError::Unusable)?;
    let builder = match client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Optional | ClientAuth::Required => {
            let verifier = verifier(&contents[2], client_auth, provider);
            let verifier = verifier
                .map_err(|reason| ContentError::ClientCa { path: paths[2].clone(), reason })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(ContentError::Unusable)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

fn verifier(
    content: &[u8],
    client_auth: ClientAuth,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(content).ok_or("it has no certificate in PEM")? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match client_auth {
        ClientAuth::Required => builder,
        ClientAuth::None | ClientAuth::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| error.to_string())
}

/// Returns all certificates of a PEM file. `None` if there are none, or one is unreadable.
pub(crate) fn certificates(content: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    certificates.ok().filter(|certificates| !certificates.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn pair() -> (Vec<u8>, Vec<u8>) {
        let names = vec!["localhost".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        (cert.pem().into_bytes(), signing_key.serialize_pem().into_bytes())
    }

    fn error(contents: &[Vec<u8>], client_auth: ClientAuth) -> String {
        let paths = ["tls.crt", "tls.key", "ca.crt"].map(str::to_owned);
        config(&paths, contents, client_auth, HTTP_2).unwrap_err().to_string()
    }

    #[test]
    fn unusable_files_are_named_and_not_shown() {
        let ((certificate, key), (_, other_key)) = (pair(), pair());
        let auth = ClientAuth::Required;
        for (contents, fragment) in [
            ([&b"garbage"[..], &key, &certificate], "`tls.crt` has no certificate"),
            ([&certificate, &certificate, &certificate], "`tls.key` has no private key"),
            ([&certificate, &other_key, &certificate], "cannot be used together"),
            ([&certificate, &key, b""], "`ca.crt` cannot vouch for clients"),
        ] {
            let error = error(&contents.map(<[u8]>::to_vec), auth);
            assert!(error.contains(fragment), "{fragment}: {error}");
            assert!(!error.contains("garbage") && !error.contains("BEGIN"), "{error}");
        }
    }

    #[test]
    fn incomplete_tls_settings_are_an_error() {
        let path = |name: &str| Some(PathBuf::from(name));
        let none = TlsSettings::default();
        assert!(Tls::load("grpc.tls", &none, HTTP_2).unwrap().is_none());
        let whole = TlsSettings { certificate: path("c"), key: path("k"), ..none.clone() };
        let auth = ClientAuth::Required;
        for (settings, fragment) in [
            (TlsSettings { key: None, ..whole.clone() }, "`grpc.tls.key` is not set"),
            (TlsSettings { certificate: None, ..whole.clone() }, "`grpc.tls.certificate`"),
            (TlsSettings { client_auth: auth, ..none.clone() }, "`grpc.tls.certificate`"),
            (TlsSettings { client_ca: path("a"), ..none }, "`grpc.tls.certificate`"),
            (TlsSettings { client_auth: auth, ..whole.clone() }, "`grpc.tls.client_ca`"),
            (TlsSettings { client_ca: path("a"), ..whole }, "has no effect unless"),
        ] {
            let error = Tls::load("grpc.tls", &settings, HTTP_2).unwrap_err().to_string();
            assert!(error.contains(fragment), "{fragment}: {error}");
        }
    }
}
