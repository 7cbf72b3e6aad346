//! TLS between members: the certificate of this one, and the names that others have to prove.
//!
//! # Why names are pinned
//! An authority may have signed certificates for other purposes. Whoever reaches the listener of a
//! member may name any caller, so a member has to prove one of the names of the settings. The
//! address by which it was reached does not count: it may be the number of a pod.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::files::{FromFiles, Refresh};
use crate::identity::certificate::{Name, Names};
use crate::settings::{ClientAuth, ClusterTlsSettings, TlsSettings};
use crate::tls::{ContentError, HTTP_2, Tls, TlsError, certificates};

/// Section of the settings, for messages.
const SECTION: &str = "cluster.tls";

/// TLS of connections between members, in both directions.
#[derive(Clone, Debug)]
pub(super) struct MemberTls {
    /// For connections of others.
    pub(super) server: Arc<Tls>,
    /// For connections to others.
    pub(super) client: Arc<ClientTls>,
    /// Names of which a member's certificate has to prove one.
    pub(super) names: Arc<[Name]>,
}

/// The configuration of connections to other members, read again when its files change.
#[derive(Debug)]
pub(super) struct ClientTls(FromFiles<ClientConfig, ContentError>);

impl MemberTls {
    /// Loads the files. `None` if the settings name no member.
    pub(super) fn load(settings: &ClusterTlsSettings) -> Result<Option<Self>, TlsError> {
        if settings.names.is_empty() {
            return Ok(None);
        }
        let names: Arc<[Name]> = settings.names.clone().into();
        let of_server = TlsSettings {
            certificate: settings.certificate.clone(),
            key: settings.key.clone(),
            client_ca: settings.ca.clone(),
            client_auth: ClientAuth::Required,
        };
        let Some(server) = Tls::load(SECTION, &of_server, HTTP_2)? else { return Ok(None) };
        let paths: Vec<_> = [&settings.ca, &settings.certificate, &settings.key]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let pinned = Arc::clone(&names);
        let parse = move |contents: &[Vec<u8>]| config(&shown, contents, &pinned);
        let client = FromFiles::load(SECTION, paths, parse)
            .map_err(|error| TlsError::Files { section: SECTION, error })?;
        Ok(Some(Self { server: Arc::new(server), client: Arc::new(ClientTls(client)), names }))
    }

    /// The values that are read from files.
    pub(super) fn sources(&self) -> Vec<Arc<dyn Refresh>> {
        vec![Arc::clone(&self.server) as _, Arc::clone(&self.client) as _]
    }
}

impl ClientTls {
    pub(super) fn current(&self) -> Arc<ClientConfig> {
        self.0.current()
    }
}

impl Refresh for ClientTls {
    fn refresh(&self) {
        self.0.refresh();
    }
}

/// Makes the configuration of the files: authorities, certificate and key.
fn config(
    paths: &[String],
    contents: &[Vec<u8>],
    names: &Arc<[Name]>,
) -> Result<ClientConfig, ContentError> {
    let [ca, certificate, key] = contents else {
        return Err(ContentError::NoCertificate(SECTION.to_owned()));
    };
    let no_certificate = |at: usize| ContentError::NoCertificate(paths[at].clone());
    let mut roots = RootCertStore::empty();
    for authority in certificates(ca).ok_or_else(|| no_certificate(0))? {
        roots.add(authority).map_err(ContentError::Unusable)?;
    }
    let chain = certificates(certificate).ok_or_else(|| no_certificate(1))?;
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|_| ContentError::NoKey(paths[2].clone()))?;
    let provider = Arc::new(ring::default_provider());
    let verifier = PinnedNames { roots, names: Arc::clone(names), provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(ContentError::Unusable)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = builder.with_client_auth_cert(chain, key).map_err(ContentError::Unusable)?;
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    Ok(config)
}

/// Accepts a certificate that an authority has signed and that proves one of the names.
#[derive(Debug)]
struct PinnedNames {
    roots: RootCertStore,
    names: Arc<[Name]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedNames {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let (roots, chain) = (&self.roots, intermediates);
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, chain, now, algorithms)?;
        if Names::of(certificate).prove_one_of(&self.names) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::NotValidForName.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls_pki_types::ServerName;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;

    use super::*;

    /// Files of an authority and of a member whose certificate has this name.
    fn files(folder: &str, name: &str) -> (PathBuf, ClusterTlsSettings) {
        let folder = format!("monoceros-members-{}-{folder}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = parameters.self_signed(&key).unwrap();
        let issuer = Issuer::new(parameters, key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        let written = |file: &str, text: String| {
            let path = folder.join(file);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let settings = ClusterTlsSettings {
            ca: written("ca.crt", ca.pem()),
            certificate: written("tls.crt", certificate.pem()),
            key: written("tls.key", key.serialize_pem()),
            server_name: None,
            names: vec!["dns=member".parse().unwrap()],
        };
        (folder, settings)
    }

    /// Whether a member connects to another one.
    async fn connects(client: &MemberTls, server: &MemberTls) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let server = Arc::clone(&server.server);
        let accepted = tokio::spawn(async move { server.accept(accepted).await.map(drop) });
        let connector = TlsConnector::from(client.client.current());
        let host = ServerName::try_from("another.example").unwrap();
        let connected = connector.connect(host, stream).await.map(drop);
        connected.map_err(|error| error.to_string())?;
        accepted.await.unwrap().map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_a_pinned_name_of_the_authority_is_connected_to() {
        let (folder, settings) = files("good", "member");
        let (bad_folder, bad) = files("bad", "stranger");
        let good = MemberTls::load(&settings).unwrap().unwrap();
        assert_eq!(connects(&good, &good).await, Ok(()));
        let stranger = MemberTls::load(&bad).unwrap().unwrap();
        connects(&good, &stranger).await.unwrap_err();
        // The name is wrong, too, where the authority is right.
        let error = connects(&stranger, &stranger).await.unwrap_err();
        assert!(error.contains("NotValidForName"), "{error}");
        let plain = ClusterTlsSettings { names: Vec::new(), ..settings };
        assert!(MemberTls::load(&plain).unwrap().is_none());
        fs::remove_dir_all(folder).unwrap();
        fs::remove_dir_all(bad_folder).unwrap();
    }
}
