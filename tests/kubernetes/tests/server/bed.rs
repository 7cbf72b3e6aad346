//! Control plane for the cases: an API server and its store, without kubelets. A case starts the
//! scheduler and controllers of Kubernetes if it needs them.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Version of the module that is built.
const VERSION: &str = "v1.37.2";
/// Token with all rights.
pub const ADMIN: &str = "admin-token";
/// Token with the rights of the manifests.
pub const SHIM: &str = "shim-token";
/// Token of a member of a cluster, whose claims are in config maps.
pub const MEMBER: &str = "member-token";
/// Token without rights.
pub const NOBODY: &str = "nobody-token";
/// Service account of the manifests.
pub const ACCOUNT: &str = "system:serviceaccount:monoceros:monoceros";

const FEATURES: &str = "GenericWorkload=true,CompositePodGroup=true,TopologyAwareWorkloadScheduling=true,PodGroupPreemptionPolicy=true,TaintTolerationComparisonOperators=true";

/// Number of control planes started. Each has a folder of its own.
static BEDS: AtomicUsize = AtomicUsize::new(0);

/// Collects garbage less often than by default: a fifth less CPU, for 100 MB of memory.
const COLLECTOR: (&str, &str) = ("GOGC", "400");

/// A program and its first arguments.
type Program = (PathBuf, Vec<String>);

/// The programs: one file for all of them, or one file each.
#[derive(Clone, Debug)]
pub struct Programs {
    server: Program,
    store: Program,
    /// The scheduler of Kubernetes, which some installations lack.
    scheduler: Option<Program>,
    controllers: Option<Program>,
}

/// A program of Kubernetes besides the server. It is killed on drop.
pub struct Component(Child);

impl Drop for Component {
    fn drop(&mut self) {
        // The program may have ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A running control plane.
pub struct Bed {
    programs: Programs,
    folder: PathBuf,
    port: u16,
    store_port: u16,
    server: Option<Child>,
    store: Option<Child>,
    /// Number of starts of the server.
    pub starts: usize,
}

impl Programs {
    /// Finds the programs, or builds them if that is requested. `None` if there are none, after
    /// printing why.
    pub fn find() -> anyhow::Result<Option<Self>> {
        let found = programs()?;
        if let Err(why) = &found {
            say(&format!("skipped, there is no API server of Kubernetes: {why}"));
        }
        Ok(found.ok())
    }
}

/// Finds or builds the programs. The inner error says in one line why there are none.
fn programs() -> anyhow::Result<Result<Programs, String>> {
    let all = |path: PathBuf| {
        let as_which = |which: &str| (path.clone(), vec![which.to_owned()]);
        Programs {
            server: as_which("kube-apiserver"),
            store: as_which("etcd"),
            scheduler: Some(as_which("kube-scheduler")),
            controllers: Some(as_which("kube-controller-manager")),
        }
    };
    if let Some(path) = env::var_os("MONOCEROS_K8S_BED") {
        return Ok(Ok(all(path.into())));
    }
    if let Some(folder) = env::var_os("KUBEBUILDER_ASSETS") {
        let folder = PathBuf::from(folder);
        return Ok(Ok(Programs {
            server: (folder.join("kube-apiserver"), Vec::new()),
            store: (folder.join("etcd"), Vec::new()),
            scheduler: None,
            controllers: None,
        }));
    }
    if env::var("MONOCEROS_KUBERNETES").as_deref() != Ok("build") {
        return Ok(Err(
            "set MONOCEROS_KUBERNETES=build to build an API server with Go 1.26".to_owned()
        ));
    }
    match go_version() {
        Some((major, minor)) if (major, minor) >= (1, 26) => Ok(Ok(all(build()?))),
        Some((major, minor)) => Ok(Err(format!("Go {major}.{minor} is here, and 1.26 is needed"))),
        None => Ok(Err("Go is not here".to_owned())),
    }
}

fn go_version() -> Option<(u32, u32)> {
    let output = Command::new("go").args(["env", "GOVERSION"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut parts = text.trim().strip_prefix("go")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Builds the programs, unless the same sources were built before.
fn build() -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bed");
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum", "main.go"] {
        hash.update(fs::read(source.join(file)).context(file)?);
    }
    hash.update(format!("{:?}", go_version()));
    let stamp = format!("{:?}", hash.finalize());
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let folder = target.join("kubernetes");
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let (program, stamped) = (folder.join("bed"), folder.join("bed.stamp"));
    if program.exists() && fs::read_to_string(&stamped).is_ok_and(|text| text == stamp) {
        return Ok(program);
    }
    say("building an API server with its scheduler, which takes some minutes the first time");
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion={VERSION} -X {version}.gitMajor=1 -X {version}.gitMinor=37"
    );
    let status = Command::new("go")
        .args(["build", "-ldflags", &flags, "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .status()?;
    ensure!(status.success(), "the API server could not be built");
    fs::write(stamped, stamp)?;
    Ok(program)
}

#[allow(clippy::print_stdout)] // It is the output of a test.
pub fn say(line: &str) {
    println!("{line}");
}

/// Returns a free port that stays free while its server is down. The system gives connections and
/// listeners ports above these.
pub fn free_port() -> anyhow::Result<u16> {
    const FIRST: u16 = 10_000;
    const PORTS: u16 = 10_000;
    /// Number of ports tried.
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Process ids of concurrent runs are often close to each other.
    let begin = u16::try_from(u64::from(std::process::id()) * 101 % u64::from(PORTS))?;
    for _ in 0..PORTS {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed) % PORTS;
        let port = FIRST + (begin + tried) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

impl Bed {
    /// Starts a control plane.
    pub async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let number = BEDS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("monoceros-bed-{}-{number}", std::process::id());
        let folder = env::temp_dir().join(folder);
        fs::create_dir_all(&folder)?;
        certificates(&folder)?;
        let tokens = format!(
            "{ADMIN},admin,1,\"system:masters\"\n\
             {SHIM},{ACCOUNT},2,\"system:serviceaccounts,system:serviceaccounts:monoceros\"\n\
             {NOBODY},nobody,3,\"\"\n\
             {MEMBER},member,4,\"\"\n"
        );
        fs::write(folder.join("tokens.csv"), tokens)?;
        let (port, store_port) = (free_port()?, free_port()?);
        let programs = programs.clone();
        let mut bed =
            Self { programs, folder, port, store_port, server: None, store: None, starts: 0 };
        bed.start_store()?;
        bed.start_server().await?;
        Ok(bed)
    }

    fn start_store(&mut self) -> anyhow::Result<()> {
        let (program, first) = &self.programs.store;
        let client = format!("http://127.0.0.1:{}", self.store_port);
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let log = fs::File::create(self.folder.join("etcd.log"))?;
        let store = Command::new(program)
            .args(first)
            .arg(format!("--data-dir={}", self.folder.join("etcd").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .arg("--unsafe-no-fsync")
            .env(COLLECTOR.0, COLLECTOR.1)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("etcd")?;
        self.store = Some(store);
        Ok(())
    }

    /// Starts the API server, and waits until it answers.
    pub async fn start_server(&mut self) -> anyhow::Result<()> {
        let (program, first) = &self.programs.server;
        let file = |name: &str| self.folder.join(name).display().to_string();
        let log = fs::File::create(self.folder.join("apiserver.log"))?;
        let server = Command::new(program)
            .args(first)
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.store_port))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--secure-port={}", self.port))
            .arg(format!("--tls-cert-file={}", file("server.crt")))
            .arg(format!("--tls-private-key-file={}", file("server.key")))
            .arg(format!("--client-ca-file={}", file("ca.crt")))
            .arg(format!("--service-account-key-file={}", file("account.pub")))
            .arg(format!("--service-account-signing-key-file={}", file("account.key")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg("--authorization-mode=RBAC")
            .arg(format!("--token-auth-file={}", file("tokens.csv")))
            .arg("--endpoint-reconciler-type=none")
            .arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
            .arg(format!("--feature-gates={FEATURES}"))
            .arg("--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true")
            .env(COLLECTOR.0, COLLECTOR.1)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("kube-apiserver")?;
        self.server = Some(server);
        self.starts += 1;
        let client = self.client(ADMIN).await?;
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            if client.request_text(request).await.is_ok() {
                return Ok(());
            }
            if let Some(server) = &mut self.server
                && let Some(status) = server.try_wait()?
            {
                let log = fs::read_to_string(self.folder.join("apiserver.log")).unwrap_or_default();
                bail!("the API server has ended: {status}\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the API server does not answer")
    }

    /// Kills the API server.
    pub fn kill_server(&mut self) -> anyhow::Result<()> {
        if let Some(mut server) = self.server.take() {
            server.kill()?;
            server.wait()?;
        }
        Ok(())
    }

    /// Returns the programs, to start another control plane.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Returns whether the scheduler and controllers of Kubernetes can be started.
    pub fn has_components(&self) -> bool {
        self.programs.scheduler.is_some() && self.programs.controllers.is_some()
    }

    /// Starts the scheduler of Kubernetes for pods with this `schedulerName`. It retries pending
    /// pods within a second.
    pub fn start_kube_scheduler(&self, name: &str) -> anyhow::Result<Component> {
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {"kubeconfig": self.kubeconfig(ADMIN)?, "qps": 1000, "burst": 1000},
            "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1,
            "profiles": [{"schedulerName": name}],
        });
        let path = self.folder.join("kube-scheduler.json");
        fs::write(&path, config.to_string())?;
        let flags = [
            format!("--config={}", path.display()),
            format!("--feature-gates={FEATURES}"),
            "--secure-port=0".to_owned(),
        ];
        self.start_component("kube-scheduler", self.programs.scheduler.as_ref(), &flags)
    }

    /// Starts these controllers of Kubernetes.
    pub fn start_controllers(&self, names: &[&str]) -> anyhow::Result<Component> {
        let flags = [
            format!("--kubeconfig={}", self.kubeconfig(ADMIN)?.display()),
            format!("--controllers={}", names.join(",")),
            format!("--feature-gates={FEATURES}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=1000".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--pvclaimbinder-sync-period=1s".to_owned(),
        ];
        let program = self.programs.controllers.as_ref();
        self.start_component("kube-controller-manager", program, &flags)
    }

    fn start_component(
        &self,
        name: &str,
        program: Option<&Program>,
        flags: &[String],
    ) -> anyhow::Result<Component> {
        let (program, first) = program.with_context(|| format!("there is no {name}"))?;
        let log = fs::File::create(self.folder.join(format!("{name}.log")))?;
        let child = Command::new(program)
            .args(first)
            .args(flags)
            .env(COLLECTOR.0, COLLECTOR.1)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| name.to_owned())?;
        Ok(Component(child))
    }

    fn kubeconfig_text(&self, token: &str) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bed",
            "clusters": [{"name": "bed", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority": self.folder.join("ca.crt")}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "bed", "context": {
                "cluster": "bed", "user": "user", "namespace": "monoceros"}}],
        })
        .to_string()
    }

    /// Writes a kubeconfig for the holder of the token.
    pub fn kubeconfig(&self, token: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(format!("{token}.kubeconfig"));
        fs::write(&path, self.kubeconfig_text(token))?;
        Ok(path)
    }

    /// Makes a client for the holder of the token.
    pub async fn client(&self, token: &str) -> anyhow::Result<Client> {
        let config = Kubeconfig::from_yaml(&self.kubeconfig_text(token))?;
        let mut config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        // Cases check refusals themselves.
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Returns the folder for files of this run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for child in [self.server.take(), self.store.take()].into_iter().flatten() {
            let mut child = child;
            // The folder may be removed already.
            child.kill().ok();
            child.wait().ok();
        }
        if env::var_os("MONOCEROS_KEEP").is_none() {
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}

/// Makes a certificate authority, a server certificate, and a key for service accounts.
fn certificates(folder: &Path) -> anyhow::Result<()> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "bed");
    let certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let server_key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
    let server = server.signed_by(&server_key, &issuer)?;
    let account = KeyPair::generate()?;
    fs::write(folder.join("ca.crt"), certificate.pem())?;
    fs::write(folder.join("server.crt"), server.pem())?;
    fs::write(folder.join("server.key"), server_key.serialize_pem())?;
    fs::write(folder.join("account.key"), account.serialize_pem())?;
    fs::write(folder.join("account.pub"), account.public_key_pem())?;
    Ok(())
}
