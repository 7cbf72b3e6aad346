//! Users, certificates and several endpoints: what works, and one clear line for what does not.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::Result;
use monoceros_cluster_store::etcd::{Etcd, EtcdOptions, TlsFiles, User};
use monoceros_cluster_store::{ClusterName, Failure, Kind, RecordKey, Store as _, Written};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

use crate::servers::{Program, Server, free_port, new_folder, options, ready};

fn cluster() -> ClusterName {
    ClusterName::new("ours").unwrap()
}

fn key() -> RecordKey {
    RecordKey::new(Kind::Claims, &"rm".into()).unwrap()
}

/// Why a read fails, in one line that begins with the endpoint.
async fn failure(options: EtcdOptions) -> Failure {
    let endpoint = options.endpoints[0].clone();
    let etcd = Etcd::new(&cluster(), options).unwrap();
    let failure = etcd.read(&key()).await.unwrap_err();
    let why = failure.to_string();
    assert!(why.starts_with(&format!("{endpoint}: ")), "{why}");
    assert!(!why.contains('\n') && why.len() < 300, "{why}");
    failure
}

/// The same for a refusal of the server.
async fn refusal(options: EtcdOptions) -> String {
    let failure = failure(options).await;
    assert!(matches!(failure, Failure::Refused(_)), "{failure:?}");
    failure.to_string()
}

/// The same for a server that cannot be reached.
async fn no_answer(options: EtcdOptions) -> String {
    let failure = failure(options).await;
    assert!(matches!(failure, Failure::NoAnswer(_)), "{failure:?}");
    failure.to_string()
}

#[track_caller]
fn assert_says(line: &str, part: &str) {
    assert!(line.contains(part), "`{part}` is missing: {line}");
}

#[tokio::test]
async fn users_and_passwords() {
    for program in Program::all() {
        let mut server = Server::new(&program, &["--bcrypt-cost=4".to_owned()]).unwrap();
        let admin = Etcd::new(&cluster(), options(&server)).unwrap();
        ready(&admin).await.unwrap();
        let password_file = server.folder.join("password");
        fs::write(&password_file, "secret\n").unwrap();
        let user = User { name: "monoceros".to_owned(), password_file };
        let with = |user: Option<User>| EtcdOptions { user, ..options(&server) };

        // A user of a store without users is let in.
        let etcd = Etcd::new(&cluster(), with(Some(user.clone()))).unwrap();
        etcd.read(&key()).await.unwrap();
        admin.require_user("monoceros", "secret").await.unwrap();
        let written = etcd.compare_and_set(&key(), None, "claim".into()).await.unwrap();
        assert!(matches!(written, Written::Won(..)), "{written:?}");
        let mut hints = etcd.watch(Kind::Claims, monoceros_cluster::Revision(0));
        hints.next().await;

        assert_says(&refusal(with(None)).await, "user name is empty");
        // The first endpoint might have carried the request out.
        let nowhere = format!("http://127.0.0.1:{}", free_port().unwrap());
        let endpoints = vec![nowhere, server.endpoint()];
        let two = EtcdOptions { endpoints, ..with(None) };
        assert_says(&no_answer(two).await, "user name is empty");
        let wrong = server.folder.join("wrong");
        fs::write(&wrong, "guess").unwrap();
        let guessed = User { password_file: wrong, ..user.clone() };
        assert_says(&refusal(with(Some(guessed))).await, "invalid user ID or password");
        let theirs = ClusterName::new("theirs").unwrap();
        let theirs = Etcd::new(&theirs, with(Some(user))).unwrap();
        let why = theirs.read(&key()).await.unwrap_err().to_string();
        assert_says(&why, "permission denied");

        // A restarted server has forgotten the token.
        let found = etcd.read(&key()).await.unwrap().record.unwrap();
        server.stop();
        server.start().unwrap();
        ready(&etcd).await.unwrap();
        let written = etcd.compare_and_set(&key(), Some(found.version), "again".into()).await;
        let Ok(Written::Won(version, _)) = written else { panic!("{written:?}") };
        while hints.next().await.0 < version.0 {}
    }
}

/// A certificate authority in a folder of its own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Result<Self> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With one name for both authorities, the error would be about a signature.
        params.distinguished_name.push(DnType::CommonName, name);
        fs::write(folder.join("ca.crt"), params.self_signed(&key)?.pem())?;
        Ok(Self { issuer: Issuer::new(params, key), folder })
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// Signs a certificate for this machine, and returns the files of it and its key.
    fn sign(&self, name: &str) -> Result<(PathBuf, PathBuf)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let certificate = params.signed_by(&key, &self.issuer)?;
        let files = ["crt", "key"].map(|kind| self.folder.join(format!("{name}.{kind}")));
        fs::write(&files[0], certificate.pem())?;
        fs::write(&files[1], key.serialize_pem())?;
        let [certificate, key] = files;
        Ok((certificate, key))
    }
}

#[tokio::test]
async fn certificates() {
    for program in Program::all() {
        let folder = new_folder().unwrap();
        let ours = Authority::new(&folder, "ours").unwrap();
        let theirs = Authority::new(&folder, "theirs").unwrap();
        let (certificate, key_file) = ours.sign("server").unwrap();
        let arguments = [
            format!("--cert-file={}", certificate.display()),
            format!("--key-file={}", key_file.display()),
            format!("--trusted-ca-file={}", ours.ca().display()),
            "--client-cert-auth".to_owned(),
        ];
        let server = Server::in_folder(&program, folder, &arguments).unwrap();
        let identity = Some(ours.sign("client").unwrap());
        let good = TlsFiles { ca: ours.ca(), identity, server_name: None };
        let with = |tls: TlsFiles| EtcdOptions { tls: Some(tls), ..options(&server) };
        let etcd = Etcd::new(&cluster(), with(good.clone())).unwrap();
        ready(&etcd).await.unwrap();
        etcd.read(&key()).await.unwrap();

        let other_ca = TlsFiles { ca: theirs.ca(), ..good.clone() };
        assert_says(&no_answer(with(other_ca)).await, "invalid peer certificate: UnknownIssuer");
        let server_name = Some("example.org".to_owned());
        let other_name = TlsFiles { server_name, ..good.clone() };
        assert_says(&no_answer(with(other_name)).await, "certificate not valid for name");
        let stranger = Some(theirs.sign("client").unwrap());
        assert_says(
            &no_answer(with(TlsFiles { identity: stranger, ..good.clone() })).await,
            "transport error",
        );
        assert_says(
            &no_answer(with(TlsFiles { identity: None, ..good.clone() })).await,
            "transport error",
        );
        let plain = server.endpoint().replace("https", "http");
        assert_says(&no_answer(EtcdOptions::new(vec![plain])).await, "transport error");

        // Files are read again with each connection.
        let lost = good.identity.as_ref().unwrap().0.clone();
        let etcd = Etcd::new(&cluster(), with(good)).unwrap();
        fs::remove_file(&lost).unwrap();
        let why = etcd.read(&key()).await.unwrap_err().to_string();
        let expected = format!("`{}` cannot be read: No such file", lost.display());
        assert_says(&why, &expected);
    }
}

#[tokio::test]
async fn endpoints_are_tried_in_turn() {
    let nowhere = format!("http://127.0.0.1:{}", free_port().unwrap());
    let why = no_answer(EtcdOptions::new(vec![nowhere.clone()])).await;
    assert_says(&why, "Connection refused");
    // A listener that accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let why = no_answer(EtcdOptions::new(vec![silent.clone(), nowhere.clone()])).await;
    assert_says(&why, "no answer within 500 ms");
    assert_says(&why, &format!("; {nowhere}: "));
    for program in Program::all() {
        let server = Server::new(&program, &[]).unwrap();
        ready(&Etcd::new(&cluster(), options(&server)).unwrap()).await.unwrap();
        let endpoints = vec![nowhere.clone(), silent.clone(), server.endpoint()];
        let etcd = Etcd::new(&cluster(), EtcdOptions::new(endpoints)).unwrap();
        etcd.read(&key()).await.unwrap();
        // The endpoint that answered is the first one now.
        let begun = tokio::time::Instant::now();
        etcd.read(&key()).await.unwrap();
        assert!(begun.elapsed().as_millis() < 300, "{:?}", begun.elapsed());
    }
}

#[test]
fn bad_options_are_named() {
    let said = |options: EtcdOptions| Etcd::new(&cluster(), options).unwrap_err().to_string();
    assert_eq!(said(EtcdOptions::new(Vec::new())), "0 endpoints of etcd: 1 to 16 are allowed");
    for bad in ["127.0.0.1:2379", "http://127.0.0.1", "ftp://a:1", "http://a:1/x", "a b"] {
        let expected =
            format!("endpoint `{bad}` of etcd: http://HOST:PORT or https://HOST:PORT is needed");
        assert_eq!(said(EtcdOptions::new(vec![bad.to_owned()])), expected);
    }
    let expected = "an endpoint of etcd has `@` in it: user and password are set apart";
    assert_eq!(said(EtcdOptions::new(vec!["http://user:secret@a:1".to_owned()])), expected);
    let secure = EtcdOptions::new(vec!["https://a:1".to_owned()]);
    let expected = "endpoint `https://a:1` of etcd: https needs the certificate of an authority";
    assert_eq!(said(secure.clone()), expected);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let tls = Some(TlsFiles { ca: file.clone(), identity: None, server_name: None });
    let mixed = vec!["https://a:1".to_owned(), "http://b:1".to_owned()];
    let expected = "endpoint `http://b:1` of etcd: https is needed, since certificates are set";
    assert_eq!(said(EtcdOptions { tls: tls.clone(), ..EtcdOptions::new(mixed) }), expected);
    let expected = format!("`{}` has no certificate or key in PEM", file.display());
    assert_eq!(said(EtcdOptions { tls, ..secure }), expected);
    let plain = EtcdOptions::new(vec!["http://a:1".to_owned()]);
    let user = User { name: "u".to_owned(), password_file: "/none".into() };
    let expected = "`/none` cannot be read: No such file or directory (os error 2)";
    assert_eq!(said(EtcdOptions { user: Some(user), ..plain }), expected);
}
