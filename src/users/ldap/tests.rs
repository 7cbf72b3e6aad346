//! Lookups in a directory within the test process.

use std::sync::Mutex;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use ldap3_proto::LdapCodec;
use ldap3_proto::proto::{
    LdapBindCred, LdapBindResponse, LdapFilter, LdapMsg, LdapOp, LdapPartialAttribute, LdapResult,
    LdapResultCode, LdapSearchResultEntry, LdapSearchScope,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::Framed;

use super::*;

/// Behaviour of the directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Plainly,
    WithinTls,
    /// Sends something that is not LDAP, and closes.
    Garbage,
    /// Ends the entries with a result other than success.
    Incompletely,
}

/// A directory on a port of its own with the password `s3cret`. It records base, filter and
/// attributes of each search, and returns an entry with these values of `MEMBEROF` and `cn`.
struct Directory {
    port: u16,
    searched: Arc<Mutex<Vec<String>>>,
}

impl Directory {
    async fn start(how: How, values: &[&[u8]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let searched = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&searched);
        let values: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
        let tls = acceptor();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, values, tls) = (Arc::clone(&noted), values.clone(), tls.clone());
                tokio::spawn(async move {
                    if how == How::WithinTls {
                        if let Ok(stream) = tls.accept(stream).await {
                            converse(stream, how, values, noted).await;
                        }
                    } else {
                        converse(stream, how, values, noted).await;
                    }
                });
            }
        });
        Self { port, searched }
    }

    fn settings(&self) -> LdapSettings {
        let mut settings = LdapSettings {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            base_dn: "dc=x".to_owned(),
            filter: "(&(objectClass=person)(uid=%s))".to_owned(),
            ..LdapSettings::default()
        };
        settings.bind_password = settings::tests_password("s3cret");
        settings
    }

    fn searched(&self) -> Vec<String> {
        self.searched.lock().unwrap().clone()
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    how: How,
    values: Vec<Vec<u8>>,
    noted: Arc<Mutex<Vec<String>>>,
) {
    if how == How::Garbage {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        return;
    }
    let mut framed = Framed::new(stream, LdapCodec::default());
    while let Some(Ok(LdapMsg { msgid, op, .. })) = framed.next().await {
        let answers = match op {
            LdapOp::BindRequest(bind) => {
                let is_right = bind.cred == LdapBindCred::Simple("s3cret".to_owned());
                let code = if is_right {
                    LdapResultCode::Success
                } else {
                    LdapResultCode::InvalidCredentials
                };
                let res = result(code, "nobody should read this");
                vec![LdapOp::BindResponse(LdapBindResponse { res, saslcreds: None })]
            }
            LdapOp::SearchRequest(search) => {
                assert_eq!(search.scope, LdapSearchScope::Subtree);
                let (base, attributes) = (search.base, search.attrs.join(","));
                let filter = equalities(&search.filter).join(" ");
                noted.lock().unwrap().push(format!("{base} {filter} {attributes}"));
                let attribute = |atype: &str| LdapPartialAttribute {
                    atype: atype.to_owned(),
                    vals: values.clone(),
                };
                let entry = LdapSearchResultEntry {
                    dn: "uid=x,dc=x".to_owned(),
                    attributes: vec![attribute("MEMBEROF"), attribute("cn")],
                };
                let code = if how == How::Incompletely {
                    LdapResultCode::SizeLimitExceeded
                } else {
                    LdapResultCode::Success
                };
                vec![LdapOp::SearchResultEntry(entry), LdapOp::SearchResultDone(result(code, ""))]
            }
            _ => return,
        };
        for op in answers {
            if framed.send(LdapMsg { msgid, op, ctrl: Vec::new() }).await.is_err() {
                return;
            }
        }
    }
}

fn result(code: LdapResultCode, message: &str) -> LdapResult {
    let (matcheddn, message) = (String::new(), message.to_owned());
    LdapResult { code, matcheddn, message, referral: Vec::new() }
}

/// Returns the comparisons of a filter, unescaped.
fn equalities(filter: &LdapFilter) -> Vec<String> {
    match filter {
        LdapFilter::And(parts) => parts.iter().flat_map(equalities).collect(),
        LdapFilter::Equality(name, value) => vec![format!("{name}={value}")],
        other => vec![format!("{other:?}")],
    }
}

fn acceptor() -> TlsAcceptor {
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn look_up(settings: LdapSettings, user: &str) -> Result<Vec<String>, LookupError> {
    LdapResolver::new(settings, Handle::current()).look_up(user).await
}

#[tokio::test]
async fn the_users_own_group_comes_first() {
    let values: [&[u8]; 3] =
        [b"CN=dev,OU=groups,DC=x", b"cn=ops,OU=groups,DC=x", b"CN=ada,OU=groups,DC=x"];
    let directory = Directory::start(How::Plainly, &values).await;
    assert_eq!(look_up(directory.settings(), "ada").await.unwrap(), ["ada", "dev", "ops"]);
    assert_eq!(directory.searched(), ["dc=x objectClass=person uid=ada memberOf"]);
}

#[tokio::test]
async fn the_group_attribute_is_honoured_and_asked_for() {
    let directory = Directory::start(How::Plainly, &[b"CN=dev,OU=groups"]).await;
    let settings = LdapSettings { group_attribute: "CN".to_owned(), ..directory.settings() };
    assert_eq!(look_up(settings, "ada").await.unwrap(), ["ada", "dev"]);
    assert!(directory.searched()[0].ends_with(" memberOf,CN"), "{:?}", directory.searched());
    let settings = LdapSettings { group_attribute: "other".to_owned(), ..directory.settings() };
    assert_eq!(look_up(settings, "ada").await.unwrap(), ["ada"]);
}

#[tokio::test]
async fn any_user_name_stays_one_filter_value() {
    let directory = Directory::start(How::Plainly, &[]).await;
    for user in ["*", "ada)(uid=*", "ada)(|(uid=*", "a\\2a", "\\", "%s", "é(ü", "a\0b"] {
        assert_eq!(look_up(directory.settings(), user).await.unwrap(), [user]);
        let searched = directory.searched();
        let expected = format!("dc=x objectClass=person uid={user} memberOf");
        assert_eq!(searched.last().unwrap(), &expected);
    }
}

#[tokio::test]
async fn values_that_are_malformed_are_skipped() {
    let values: [&[u8]; 7] = [
        b"OU=nobody,DC=x",
        b"plain",
        b"",
        b"CN=\xff\xfe,DC=x",
        b"CN=",
        b"CN=broken\\",
        b"CN=dev,OU=groups",
    ];
    let directory = Directory::start(How::Plainly, &values).await;
    assert_eq!(look_up(directory.settings(), "ada").await.unwrap(), ["ada", "dev"]);
}

#[test]
fn the_first_name_part_gives_the_group() {
    for (name, group) in [
        ("CN=dev,OU=groups,DC=x", Some("dev")),
        ("cn=dev", Some("dev")),
        (" CN = dev ,OU=groups", Some("dev")),
        ("CN=dev\\, ops,OU=groups", Some("dev, ops")),
        ("CN=dev+UID=7,OU=groups", Some("dev")),
        ("CN=d\\C3\\A9v,OU=groups", Some("dév")),
        ("CN=\\#1", Some("#1")),
        ("CN=a=b,DC=x", Some("a=b")),
        ("CN=#04026869", None),
        ("CN=,OU=groups", None),
        ("CN=dev\\", None),
        ("CN=dev\\C", None),
        ("CN=\\FF", None),
        ("OU=groups,CN=dev", None),
        ("dev", None),
        ("", None),
    ] {
        assert_eq!(common_name(name).as_deref(), group, "`{name}`");
    }
}

#[tokio::test]
async fn a_wrong_password_gives_only_a_result_code() {
    let directory = Directory::start(How::Plainly, &[]).await;
    let bind_password = settings::tests_password("guessed");
    let settings = LdapSettings { bind_password, ..directory.settings() };
    let error = look_up(settings, "ada").await.unwrap_err();
    assert_eq!(error.to_string(), "LDAP bind: result 49");
    assert_eq!(directory.searched(), [""; 0]);
}

#[tokio::test]
async fn groups_found_before_a_failure_are_kept() {
    let directory = Directory::start(How::Incompletely, &[b"CN=dev"]).await;
    let error = look_up(directory.settings(), "ada").await.unwrap_err();
    assert_eq!(error.to_string(), "LDAP search: result 4");
    assert_eq!(error.groups, ["ada", "dev"]);
}

#[tokio::test]
async fn a_missing_or_foreign_directory_is_an_error() {
    let nobody = Directory::start(How::Plainly, &[]).await.settings();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error = look_up(LdapSettings { port: gone, ..nobody }, "ada").await.unwrap_err();
    assert_eq!(error.to_string(), "LDAP connect: connection refused");
    let garbage = Directory::start(How::Garbage, &[]).await;
    assert!(look_up(garbage.settings(), "ada").await.is_err());
    let host = "no host at all".to_owned();
    let odd = LdapSettings { host, ..garbage.settings() };
    assert!(look_up(odd, "ada").await.is_err());
}

#[tokio::test]
async fn a_cancelled_lookup_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = Directory { port, searched: Arc::default() };
    let lookup = LdapResolver::new(silent.settings(), Handle::current()).look_up("ada");
    let ((), given_up) = tokio::join!(
        async {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Ends when the peer closes.
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        },
        timeout(Duration::from_millis(50), lookup),
    );
    assert!(given_up.is_err());
}

#[tokio::test]
async fn unverified_tls_needs_the_insecure_setting() {
    let directory = Directory::start(How::WithinTls, &[b"CN=dev"]).await;
    let secure = LdapSettings { ssl: true, host: "localhost".to_owned(), ..directory.settings() };
    let insecure = LdapSettings { insecure: true, ..secure.clone() };
    let error = look_up(secure, "ada").await.unwrap_err();
    assert!(error.to_string().starts_with("LDAP connect"), "{error}");
    assert_eq!(look_up(insecure, "ada").await.unwrap(), ["ada", "dev"]);
}

#[test]
fn an_address_of_version_6_gets_its_brackets() {
    let at = |host: &str, ssl| {
        url(&LdapSettings { host: host.to_owned(), ssl, ..LdapSettings::default() })
    };
    assert_eq!(at("::1", true), "ldaps://[::1]:389");
    assert_eq!(at("[::1]", false), "ldap://[::1]:389");
    assert_eq!(at("ldap.example.com", false), "ldap://ldap.example.com:389");
}
