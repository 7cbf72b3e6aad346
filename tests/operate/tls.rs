//! Encryption and identities of a running service.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use monoceros::grpc::stubs::si::scheduler_client::SchedulerClient;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros::grpc::stubs::v1::callback_service_client::CallbackServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use monoceros_proto::v1::shim_message::Body;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType,
};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate as Pem, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};

use crate::harness::{PATIENCE, QUEUES, Rm, Service, TempFile, node, reason_of, registration, run};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(parameters, key), certificate }
    }

    fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Makes a certificate and its key, as PEM, for these subject names.
    fn vouch(&self, common_name: &str, alternative: Vec<SanType>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        parameters.subject_alt_names = alternative;
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn server(&self) -> (String, String) {
        self.vouch("scheduler", vec![SanType::DnsName("localhost".try_into().unwrap())])
    }
}

/// A folder with the files of a service, removed when dropped.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("monoceros-tls-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn write_server(&self, (certificate, key): &(String, String)) {
        self.write("tls.crt", certificate);
        self.write("tls.key", key);
    }

    fn tls(&self, edge: &str, client_auth: &str) -> String {
        let path = |name: &str| self.0.join(name).to_str().unwrap().to_owned();
        let client_ca = match client_auth {
            "none" => String::new(),
            _ => format!("client_ca = '{}'\n", path("ca.crt")),
        };
        format!(
            "[{edge}.tls]\ncertificate = '{}'\nkey = '{}'\n{client_ca}client_auth = \
             '{client_auth}'\n",
            path("tls.crt"),
            path("tls.key"),
        )
    }

    fn start(&self, settings: &str) -> Service {
        Service::start_configured(&self.write("monoceros.toml", settings))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A service with TLS on both edges, and the authority for it and its clients.
fn service(client_auth: &str, more: &str) -> (Service, Authority, Files) {
    let (authority, files) = (Authority::new(), Files::new());
    files.write_server(&authority.server());
    files.write("ca.crt", &authority.pem());
    let tls = [files.tls("grpc", client_auth), files.tls("rest", client_auth)].concat();
    let service = files.start(&(tls + more));
    (service, authority, files)
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    let authority = Pem::from_pem(authority.pem());
    ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost")
}

fn showing(authority: &Authority, (certificate, key): &(String, String)) -> ClientTlsConfig {
    trusting(authority).identity(Identity::from_pem(certificate, key))
}

type Client = SchedulerClient<Channel>;

async fn connect(
    service: &Service,
    tls: ClientTlsConfig,
) -> Result<Client, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("https://{}", service.grpc)).unwrap();
    let endpoint = endpoint.tls_config(tls).unwrap();
    timeout(PATIENCE, endpoint.connect()).await.expect("an answer").map(SchedulerClient::new)
}

async fn register(client: &mut Client, rm_id: &str) -> Result<(), Status> {
    let answer = timeout(PATIENCE, client.register_resource_manager(registration(rm_id, QUEUES)));
    answer.await.expect("an answer").map(drop)
}

/// Returns the answer to a stream for `rm_id`, named in the metadata and not in the first message.
async fn bound_by_metadata(client: &mut Client, rm_id: &str) -> Result<(), Status> {
    let mut request = Request::new(tokio_stream::empty::<si::NodeRequest>());
    request.metadata_mut().insert("x-si-rm-id", rm_id.parse().unwrap());
    client.update_node(request).await?.into_inner().message().await.map(drop)
}

/// Returns the answer to a stream for `rm_id`, named in the first message.
async fn bound_by_message(client: &mut Client, rm_id: &str) -> Result<(), Status> {
    let hello = si::NodeRequest { rm_id: rm_id.to_owned(), ..Default::default() };
    let request = tokio_stream::iter([hello]);
    client.update_node(request).await?.into_inner().message().await.map(drop)
}

/// Returns the answer to a callback stream.
async fn attached(service: &Service, tls: ClientTlsConfig, rm_id: &str) -> Result<(), Status> {
    let endpoint = Endpoint::from_shared(format!("https://{}", service.grpc)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let hello = v1::Hello { rm_id: rm_id.to_owned(), ..Default::default() };
    let hello = v1::ShimMessage { body: Some(Body::Hello(hello)) };
    let mut client = CallbackServiceClient::new(channel);
    client.attach(tokio_stream::iter([hello])).await?.into_inner().message().await.map(drop)
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), reason_of(&status))
}

fn denied(reason: &str) -> (Code, String) {
    (Code::PermissionDenied, reason.to_owned())
}

/// Sends a plain HTTP/1.1 request through TLS, and returns the head of the answer.
async fn https(address: SocketAddr, authority: &Authority, request: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_trusting_client_works_over_tls() {
    let (service, authority, _files) = service("none", "");
    let mut client = connect(&service, trusting(&authority)).await.unwrap();
    register(&mut client, "rm").await.unwrap();
    let rm = Rm::open(client, "rm").await.with_nodes(&["n1", "n2"]).await;
    rm.read(|seen| assert_eq!(seen.accepted_nodes, ["n1", "n2"]));

    let stranger = connect(&service, trusting(&Authority::new())).await;
    assert!(stranger.is_err(), "another authority vouches for nothing here");
}

#[tokio::test]
async fn a_connection_needs_a_signed_certificate() {
    let (service, authority, _files) = service("required", "");
    let works = async |tls| match connect(&service, tls).await {
        // With TLS 1.3 the client learns of the refusal at its first call.
        Ok(mut client) => register(&mut client, "rm").await.is_ok(),
        Err(_) => false,
    };
    assert!(works(showing(&authority, &authority.vouch("shim", vec![]))).await);
    assert!(!works(trusting(&authority)).await);
    let stranger = Authority::new().vouch("shim", vec![]);
    assert!(!works(showing(&authority, &stranger)).await);
}

#[tokio::test]
async fn a_certificate_acts_only_for_its_rms() {
    let rules = "
        [[identity.rules]]
        certificate = 'cn=shim-a'
        rm_ids = ['a*']
        [[identity.rules]]
        certificate = 'uri=spiffe://cluster/b'
        rm_ids = ['b']
    ";
    let (service, authority, _files) = service("optional", rules);
    let shown = authority.vouch("shim-a", vec![]);
    let mut a = connect(&service, showing(&authority, &shown)).await.unwrap();
    let name = SanType::URI("spiffe://cluster/b".try_into().unwrap());
    let shown = authority.vouch("", vec![name]);
    let mut b = connect(&service, showing(&authority, &shown)).await.unwrap();
    register(&mut a, "a1").await.unwrap();
    register(&mut a, "a2").await.unwrap();
    register(&mut b, "b").await.unwrap();
    assert_eq!(refusal(register(&mut a, "b").await), denied("RM_DENIED"));
    assert_eq!(refusal(register(&mut b, "b1").await), denied("RM_DENIED"));

    bound_by_metadata(&mut a, "a1").await.unwrap();
    bound_by_message(&mut a, "a2").await.unwrap();
    assert_eq!(refusal(bound_by_metadata(&mut a, "b").await), denied("RM_DENIED"));
    assert_eq!(refusal(bound_by_message(&mut a, "b").await), denied("RM_DENIED"));
    assert_eq!(refusal(bound_by_message(&mut a, "unheard-of").await).0, Code::PermissionDenied);

    let shown = authority.vouch("shim-a", vec![]);
    attached(&service, showing(&authority, &shown), "a1").await.unwrap();
    let refused = attached(&service, showing(&authority, &shown), "b").await;
    assert_eq!(refusal(refused), denied("RM_DENIED"));

    let unknown = (Code::Unauthenticated, "UNAUTHENTICATED".to_owned());
    let mut anonymous = connect(&service, trusting(&authority)).await.unwrap();
    assert_eq!(refusal(register(&mut anonymous, "a1").await), unknown);
    assert_eq!(refusal(bound_by_metadata(&mut anonymous, "a1").await), unknown);
    assert_eq!(refusal(bound_by_message(&mut anonymous, "a1").await), unknown);
}

#[tokio::test]
async fn a_token_acts_only_for_its_rms_and_is_not_logged() {
    let files = Files::new();
    let tokens = files.write("tokens", "# shims\nshim-a:t0p-s3cr3t-1\n");
    let settings = format!(
        "[log]\nfilter = 'trace'\n[identity]\ntokens = '{tokens}'\n[[identity.rules]]\ntoken = \
         'shim-a'\nrm_ids = ['a']\n"
    );
    let service = files.start(&settings);
    let mut client = service.client().await;
    let mut register = async |rm_id: &str, token: &str| {
        let mut request = Request::new(registration(rm_id, QUEUES));
        let token = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
        request.metadata_mut().insert("authorization", token);
        client.register_resource_manager(request).await
    };
    register("a", "t0p-s3cr3t-1").await.unwrap();
    assert_eq!(refusal(register("b", "t0p-s3cr3t-1").await), denied("RM_DENIED"));
    let wrong = register("a", "t0p-s3cr3t-2").await.unwrap_err();
    assert_eq!(wrong.code(), Code::Unauthenticated);
    assert!(!wrong.message().contains("s3cr3t"));

    files.write("tokens", "shim-a:t0p-s3cr3t-1\nshim-a:t0p-s3cr3t-2\n");
    service.hang_up();
    service.until_logged("read again, in use from now on", 1).await;
    register("a", "t0p-s3cr3t-2").await.unwrap();
    files.write("tokens", "t0p-s3cr3t-3\n");
    service.hang_up();
    service.until_logged("line 1 of the file of tokens", 1).await;
    register("a", "t0p-s3cr3t-1").await.unwrap();
    assert!(!service.log().contains("s3cr3t"), "{}", service.log());
}

#[tokio::test]
async fn only_an_administrator_may_end_the_service() {
    let files = Files::new();
    let tokens = files.write("tokens", "shim:sh1m\nops:0ps\n");
    let rules = "[[identity.rules]]\ntoken = 'shim'\nrm_ids = ['*']\n\
                 [[identity.rules]]\ntoken = 'ops'\nadmin = true\n";
    let mut service = files.start(&format!("[identity]\ntokens = '{tokens}'\n{rules}"));
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
    let mut shutdown = async |token: &'static str| {
        let mut request = Request::new(v1::ShutdownRequest::default());
        request.metadata_mut().insert("authorization", MetadataValue::from_static(token));
        admin.shutdown(request).await
    };
    assert_eq!(refusal(shutdown("Bearer sh1m").await), denied("ADMIN_DENIED"));
    assert_eq!(shutdown("Bearer 0p").await.unwrap_err().code(), Code::Unauthenticated);
    shutdown("Bearer 0ps").await.unwrap();
    assert!(service.wait(PATIENCE).await.success());
}

#[tokio::test]
async fn extra_configuration_is_never_logged() {
    let files = Files::new();
    let service = files.start("[log]\nfilter = 'trace'\n");
    let secret = |key: &str| (key.to_owned(), "h1dd3n".to_owned());
    let mut request = registration("rm", QUEUES);
    // The same if a value is expected and this text is none.
    let keys = [
        "si_secret",
        "callback.predicates",
        "callback.onTimeout",
        "callback.predicateTimeout",
        "callback.maxInflightBatches",
        "legacy.memoryUnit",
        "priorityClasses.high",
        "scheduling.placementsInFlight",
        "session.attachTimeout",
        "session.onStreamLoss",
        "session.outboxItems",
        "session.strictEnums",
    ];
    request.extra_config = keys.map(secret).into();
    request.build_info = [secret("siSHA")].into();
    let mut client = service.client().await;
    client.register_resource_manager(request.clone()).await.unwrap();
    request.config = "partitions: h1dd3n".to_owned();
    client.register_resource_manager(request).await.unwrap_err();
    // The log shows that the registration had settings, and not their values.
    service.until_logged("registered", 1).await;
    assert!(!service.log().contains("h1dd3n"), "{}", service.log());
}

#[tokio::test]
async fn a_new_certificate_needs_no_restart() {
    let (service, authority, files) = service("none", "");
    let mut client = connect(&service, trusting(&authority)).await.unwrap();
    register(&mut client, "rm").await.unwrap();
    let rm = Rm::open(client, "rm").await.with_nodes(&["n1"]).await;

    let other = Authority::new();
    files.write_server(&other.server());
    service.hang_up();
    service.until_logged("read again, in use from now on", 2).await;
    assert!(connect(&service, trusting(&authority)).await.is_err());
    let mut second = connect(&service, trusting(&other)).await.unwrap();
    register(&mut second, "rm-2").await.unwrap();
    rm.send_nodes(vec![node("n2", 1_000, 1)]).await;
    rm.until("the old stream answers", |seen| seen.accepted_nodes.len() == 2).await;
}

#[tokio::test]
async fn an_unusable_certificate_keeps_the_old_one() {
    let (service, authority, files) = service("none", "");
    let key = fs::read_to_string(files.0.join("tls.key")).unwrap();
    // A key of another certificate, as during the first half of a renewal.
    files.write("tls.key", &authority.server().1);
    service.hang_up();
    service.until_logged("certificate and key cannot be used together", 2).await;
    register(&mut connect(&service, trusting(&authority)).await.unwrap(), "rm").await.unwrap();
    files.write("tls.key", "garbage");
    service.hang_up();
    service.until_logged("has no private key in PEM", 2).await;
    register(&mut connect(&service, trusting(&authority)).await.unwrap(), "rm").await.unwrap();
    assert!(!service.log().contains("garbage"));
    assert!(!key.lines().any(|line| service.log().contains(line)), "{}", service.log());
}

#[tokio::test]
async fn rest_speaks_https() {
    let rules = "
        [identity]
        tokens = 'TOKENS'
        [[identity.rules]]
        token = 'reader'
        rm_ids = ['a']
    ";
    let tokens = TempFile::new("rest-tokens", "reader:r34d3r");
    let (service, authority, _files) = service("none", &rules.replace("TOKENS", tokens.path()));
    let get = async |path: &str, header: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{header}\r\n");
        https(service.http, &authority, &request).await
    };
    let health = get("/healthz", "").await;
    assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("serving\n"), "{health}");
    let refused = get("/ws/v1/clusters", "").await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let answer = get("/ws/v1/clusters", "authorization: Bearer r34d3r\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_client_without_tls_is_refused_at_once() {
    let (service, _authority, _files) = service("none", "");
    for (address, greeting) in [
        (service.grpc, &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]),
        (service.http, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(greeting).await.unwrap();
        let mut answer = Vec::new();
        // The connection ends, whether by a reset or not.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an end");
        // The received bytes are a TLS alert.
        assert!(answer.first().is_none_or(|&kind| kind == 21), "{answer:?}");
    }
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut client = SchedulerClient::new(endpoint.connect_lazy());
    assert!(register(&mut client, "rm").await.is_err());
}

#[tokio::test]
async fn slow_handshakes_delay_nobody() {
    let (service, authority, _files) = service("none", "");
    let mut slow = Vec::new();
    for address in [service.grpc, service.http] {
        for _ in 0..20 {
            slow.push(TcpStream::connect(address).await.unwrap());
        }
    }
    let mut client = connect(&service, trusting(&authority)).await.unwrap();
    register(&mut client, "rm").await.unwrap();
    let request = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    assert!(https(service.http, &authority, request).await.ends_with("serving\n"));
}

#[tokio::test]
async fn a_reachable_service_warns_of_open_edges() {
    let service = Service::start_at("0.0.0.0:0", "0.0.0.0:0");
    for key in ["grpc.tls", "rest.tls", "identity.rules"] {
        service.until_logged(&format!("(`{key}`)"), 1).await;
    }
    let local = Service::start();
    local.until_logged("serving REST", 1).await;
    assert!(!local.log().contains("can be reached"), "{}", local.log());
}

#[test]
fn ineffective_security_settings_are_refused() {
    for (name, settings, fragment) in [
        ("half", "[grpc.tls]\ncertificate = '/nowhere'", "`grpc.tls.key` is not set"),
        ("missing", "[rest.tls]\ncertificate = '/nowhere'\nkey = '/nowhere'", "rest.tls: cannot"),
        ("unasked", "[[identity.rules]]\ncertificate = 'cn=a'\nadmin = true", "client_auth"),
        ("tokenless", "[[identity.rules]]\ntoken = 'a'\nadmin = true", "identity.tokens"),
    ] {
        let file = TempFile::new(&format!("{name}.toml"), settings);
        let (code, _, stderr) = run(&["serve", "--config", file.path()]);
        assert_eq!(code, Some(2), "{name}");
        assert!(stderr.contains(fragment), "{name}: {stderr}");
    }
}

#[test]
fn the_demo_refuses_a_secured_service() {
    let rule = "[identity]\ntokens = '/dev/null'\n[[identity.rules]]\ntoken = 'a'\nadmin = true";
    let file = TempFile::new("demo.toml", rule);
    let (code, _, stderr) = run(&["serve", "--demo", "--config", file.path()]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--demo"), "{stderr}");
}
