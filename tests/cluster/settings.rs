//! Wrong settings of `[cluster]`, wrong passwords, and certificates that others do not accept: one
//! clear line, and exit code 2 or a member that is not ready or not reached.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use monoceros_cluster_store::etcd::Etcd;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::*;
use crate::servers::new_folder;

/// Starts a process that is expected to end, with settings of `[cluster]`. Returns its exit code and
/// its errors.
fn end_of(settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command.args(["30", env!("CARGO_BIN_EXE_monoceros"), "serve"]);
    command.args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    for (key, value) in settings {
        command.env(format!("MONOCEROS__CLUSTER__{key}"), value);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn wrong_settings_end_with_code_2_and_one_line() {
    const ETCD: [(&str, &str); 2] = [("ARBITER", "etcd"), ("ENDPOINTS", "http://127.0.0.1:1")];
    const CERTIFICATE: [(&str, &str); 4] = [
        ("TLS__NAMES", "dns=member.example"),
        ("TLS__CA", "/does/not/exist.pem"),
        ("TLS__CERTIFICATE", "/does/not/exist.pem"),
        ("TLS__KEY", "/does/not/exist.pem"),
    ];
    let rows: [(&[(&str, &str)], &str); 11] = [
        (&[("ARBITER", "raft")], "`raft` is not `none`, `etcd` or `kubernetes`"),
        (&[("LEASE", "1s")], "`cluster.lease` (1s) is not between 2s and"),
        (&[("ENDPOINTS", ""), ("ARBITER", "etcd")], "`cluster.endpoints` is not set"),
        (&[("ENDPOINTS", "127.0.0.1:1")], "neither http://HOST:PORT nor https://HOST:PORT"),
        (&[("LISTEN", "192.0.2.1:1")], "`cluster.listen` (`192.0.2.1:1`) is no loopback address"),
        (&[("LISTEN", "foo")], "`foo` is not an IP:PORT"),
        (&[("ADVERTISE__GRPC", "foo:0")], "`cluster.advertise.grpc` (`foo:0`) has port 0"),
        (&[("ID", "two words")], "`cluster.id` (`two words`) is not 1 to 128 letters"),
        (&[("USER", "monoceros")], "`cluster.password_file` is not set"),
        (
            &[("USER", "monoceros"), ("PASSWORD_FILE", "/does/not/exist")],
            "`cluster.password_file`: `/does/not/exist` cannot be read",
        ),
        (&CERTIFICATE, "/does/not/exist.pem"),
    ];
    for (settings, reason) in rows {
        let (code, errors) = end_of(&[&ETCD, settings].concat());
        assert_eq!(code, Some(2), "{settings:?}: {errors}");
        let said: Vec<_> = errors.lines().filter(|line| line.starts_with("monoceros: ")).collect();
        let [line] = said[..] else { panic!("{settings:?}: {errors}") };
        assert!(line.starts_with("monoceros: settings: "), "{settings:?}: {line}");
        assert!(line.contains(reason), "{settings:?}: {line}");
        assert_eq!(errors.lines().next_back(), Some(line), "{settings:?}");
    }
}

/// Waits until a member that is not ready has this reason.
async fn until_not_ready(member: &Service, reason: &str) {
    let begun = Instant::now();
    loop {
        let answer = member.http("GET", "/readyz", &[], "").await;
        assert_eq!(answer.status, 503, "{}", answer.body);
        if answer.body.contains(reason) {
            assert_eq!(answer.body.trim_end().lines().count(), 1, "{}", answer.body);
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", answer.body);
        sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_a_wrong_password_is_not_ready_and_says_why() {
    let Some(bed) = Bed::new().await else { return };
    let name = ClusterName::new("monoceros").unwrap();
    let admin = Etcd::new(&name, options(&bed.etcd)).unwrap();
    admin.require_user("monoceros", "secret").await.unwrap();
    let password = |name: &str, text: &str| {
        let path = bed.etcd.folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (right, wrong) = (password("right", "secret\n"), password("wrong", "guess\n"));
    let with = |file| [("CLUSTER__USER", "monoceros"), ("CLUSTER__PASSWORD_FILE", file)];
    let refused = bed.start_with("refused", &with(&wrong));
    let anonymous = bed.start("anonymous");
    let welcome = bed.start_with("welcome", &with(&right));
    until_ready(&welcome).await;
    let endpoint = bed.etcd.endpoint();
    until_not_ready(&refused, "invalid user ID or password").await;
    until_not_ready(&refused, &endpoint).await;
    until_not_ready(&anonymous, "user name is empty").await;
    assert!(!refused.log().contains("guess"), "{}", refused.log());
}

/// Authority of certificates, with its files.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        fs::write(folder.join("ca.crt"), parameters.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(parameters, key), folder }
    }

    /// Settings of a member whose certificate has this name. It accepts certificates of `trusted`.
    fn member(&self, name: &str, trusted: &Self) -> Vec<(&'static str, String)> {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &self.issuer).unwrap();
        let written = |file: &str, text: String| {
            let path = self.folder.join(format!("{name}.{file}"));
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        vec![
            ("CLUSTER__TLS__NAMES", "dns=member.example".to_owned()),
            ("CLUSTER__TLS__CA", trusted.folder.join("ca.crt").display().to_string()),
            ("CLUSTER__TLS__CERTIFICATE", written("crt", certificate.pem())),
            ("CLUSTER__TLS__KEY", written("key", key.serialize_pem())),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_another_authority_or_name_are_not_reached_and_named() {
    let Some(bed) = Bed::new().await else { return };
    let folder = new_folder().unwrap();
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let start = |id: &str, settings: Vec<(&'static str, String)>| {
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, &**value)).collect();
        bed.start_with(id, &settings)
    };
    let ours_and_named = ours.member("member.example", &ours);
    let m1 = start("m1", ours_and_named.clone());
    let m2 = start("m2", ours_and_named);
    let foreign = start("foreign", theirs.member("member.example", &ours));
    let stranger = start("stranger", ours.member("stranger.example", &ours));
    acquainted(&[&m1, &m2, &foreign, &stranger]).await;

    let begun = Instant::now();
    let sessions = loop {
        let answer = m1.http("GET", "/ws/v1/sessions", &[], "").await;
        // While the connection to the other one is made, that one is missing, too.
        let missing = "x-monoceros-missing-members: foreign,stranger";
        if answer.head.lines().any(|line| line == missing) {
            break answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", answer.head);
        sleep(PAUSE).await;
    };
    assert_eq!(sessions.status, 200);
    for (member, reason) in [("foreign", "UnknownIssuer"), ("stranger", "NotValidForName")] {
        let is_said = |line: &str| {
            let parts = ["no connection to another member", &format!("member={member}"), reason];
            parts.iter().all(|part| line.contains(*part))
        };
        assert!(m1.log().lines().any(is_said), "{member}: {}", m1.log());
    }
    // Nor do the others accept it: what it asks them is missing.
    for outsider in [&foreign, &stranger] {
        let answer = outsider.http("GET", "/ws/v1/sessions", &[], "").await;
        assert!(answer.head.contains("x-monoceros-missing-members: "), "{}", answer.head);
        for member in ["m1", "m2"] {
            assert!(answer.head.contains(member), "{}", answer.head);
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
