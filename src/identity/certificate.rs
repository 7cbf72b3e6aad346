//! The names that a client certificate proves.
//!
//! Only certificates that the TLS handshake has verified are passed to this module, and of a chain
//! only the first one: the client has proved that it owns this certificate's key.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// A text is not a certificate name.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a name of a certificate: write `cn=…`, `dns=…`, `uri=…` or `email=…`")]
pub struct NameError(String);

/// A name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    kind: NameKind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    /// The common name of the subject.
    Cn,
    /// This and the following are alternative names of the subject.
    Dns,
    Uri,
    Email,
}

/// All names in one certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<Name>);

impl Names {
    /// Reads the names; a malformed certificate proves none.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_, certificate)) = parse_x509_certificate(certificate) else {
            return Self::default();
        };
        let common = certificate.subject().iter_common_name();
        let common = common.filter_map(|name| Some(Name::new(NameKind::Cn, name.as_str().ok()?)));
        let mut names: Vec<Name> = common.collect();
        if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
            names.extend(alternative.value.general_names.iter().filter_map(|name| match name {
                GeneralName::DNSName(text) => Some(Name::new(NameKind::Dns, text)),
                GeneralName::URI(text) => Some(Name::new(NameKind::Uri, text)),
                GeneralName::RFC822Name(text) => Some(Name::new(NameKind::Email, text)),
                _ => None,
            }));
        }
        Self(names)
    }

    /// Whether the certificate proves `name`.
    pub fn prove(&self, name: &Name) -> bool {
        self.0.contains(name)
    }

    /// Whether the certificate proves at least one of `names`.
    pub fn prove_one_of(&self, names: &[Name]) -> bool {
        names.iter().any(|name| self.prove(name))
    }
}

impl Name {
    fn new(kind: NameKind, text: &str) -> Self {
        // Only host names are case-insensitive.
        let text = if kind == NameKind::Dns { text.to_ascii_lowercase() } else { text.to_owned() };
        Self { kind, text }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (kind, name) = match text.split_once('=') {
            Some(("cn", name)) => (NameKind::Cn, name),
            Some(("dns", name)) => (NameKind::Dns, name),
            Some(("uri", name)) => (NameKind::Uri, name),
            Some(("email", name)) => (NameKind::Email, name),
            Some(_) | None => return Err(NameError(text.to_owned())),
        };
        if name.is_empty() {
            return Err(NameError(text.to_owned()));
        }
        Ok(Self::new(kind, name))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            NameKind::Cn => "cn",
            NameKind::Dns => "dns",
            NameKind::Uri => "uri",
            NameKind::Email => "email",
        };
        write!(f, "{kind}={}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn certificate_proves_common_and_alternative_names() {
        let mut parameters = CertificateParams::new(vec!["Shim.Example.ORG".to_owned()]).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "shim-a");
        let spiffe = "spiffe://cluster/ns/shims/sa/a";
        parameters.subject_alt_names.push(SanType::URI(spiffe.try_into().unwrap()));
        let email = "shim@example.org".try_into().unwrap();
        parameters.subject_alt_names.push(SanType::Rfc822Name(email));
        let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();

        let names = Names::of(certificate.der());
        for name in ["cn=shim-a", "dns=shim.example.org", "dns=SHIM.example.org"] {
            assert!(names.prove(&name.parse().unwrap()), "{name}");
        }
        assert!(names.prove(&format!("uri={spiffe}").parse().unwrap()));
        assert!(names.prove(&"email=shim@example.org".parse().unwrap()));
        for name in ["cn=shim-b", "cn=Shim-A", "dns=shim-a", "cn=shim.example.org", "dns=org"] {
            assert!(!names.prove(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn invalid_certificate_proves_nothing() {
        assert_eq!(Names::of(&CertificateDer::from(&b"garbage"[..])), Names::default());
    }

    #[test]
    fn name_states_its_kind() {
        for text in ["shim-a", "cn=", "CN=shim-a", "ip=10.0.0.1", ""] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
        assert_eq!("dns=A.b".parse::<Name>().unwrap().to_string(), "dns=a.b");
    }
}
