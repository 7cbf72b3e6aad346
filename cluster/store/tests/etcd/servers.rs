//! Servers of etcd: where their programs come from, and running ones.

use std::env;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use monoceros_cluster_store::etcd::{Etcd, EtcdOptions};
use monoceros_cluster_store::{Kind, RecordKey, Store as _};
use tokio::time::{Instant, sleep};

/// Time within which a server has to answer after its start.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program of a server.
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// The program of Debian's package, unpacked in the folder of builds. `None` if it is not
    /// there, after printing why.
    pub fn packaged() -> Option<Self> {
        static FOUND: OnceLock<Result<Program, String>> = OnceLock::new();
        found("packaged", FOUND.get_or_init(|| find("MONOCEROS_ETCD_PACKAGED", unpack)))
    }

    /// The program built with Go from the sources that the test-bed of Kubernetes names.
    pub fn built() -> Option<Self> {
        static FOUND: OnceLock<Result<Program, String>> = OnceLock::new();
        found("built", FOUND.get_or_init(|| find("MONOCEROS_ETCD_BUILT", build)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All programs that are there.
    pub fn all() -> Vec<Self> {
        [Self::packaged(), Self::built()].into_iter().flatten().collect()
    }
}

fn found(which: &str, found: &Result<Program, String>) -> Option<Program> {
    match found {
        Ok(program) => Some(program.clone()),
        Err(why) => {
            // Not captured, unlike what is printed: this line is the result.
            writeln!(std::io::stderr().lock(), "skipped: no {which} etcd: {why}").unwrap();
            None
        }
    }
}

/// The program that a variable names, or the one that is made if that is asked for.
fn find(
    variable: &str,
    make: impl Fn(&Path) -> Result<PathBuf, String>,
) -> Result<Program, String> {
    if let Some(path) = env::var_os(variable) {
        return Ok(Program(path.into()));
    }
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| source("target"));
    make(&target.join("etcd")).map(Program)
}

/// A path below the root of the repository, from any of its packages.
fn source(path: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(package).join(path)
}

fn may_install() -> Result<(), String> {
    if env::var("MONOCEROS_ETCD").as_deref() == Ok("install") {
        return Ok(());
    }
    Err("set MONOCEROS_ETCD=install to unpack and build one".to_owned())
}

fn unpack(folder: &Path) -> Result<PathBuf, String> {
    let unpacked = folder.join("package");
    let program = unpacked.join("usr/bin/etcd");
    if program.is_file() {
        return Ok(program);
    }
    may_install()?;
    let download = folder.join("download");
    let said = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    fs::create_dir_all(&download).map_err(|why| said("a folder", &why))?;
    let get = || run(Command::new("apt-get").args(["download", "etcd-server"]), &download);
    // A new machine has no list of packages.
    get().or_else(|_| {
        run(Command::new("apt-get").arg("update"), &download)?;
        get()
    })?;
    let mut files = fs::read_dir(&download).map_err(|why| said("a folder", &why))?.flatten();
    let package = files.find(|file| file.path().extension().is_some_and(|name| name == "deb"));
    let package = package.ok_or("apt-get has downloaded no package")?.path();
    run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked), &download)?;
    Ok(program)
}

fn build(folder: &Path) -> Result<PathBuf, String> {
    let module = source("tests/kubernetes/bed");
    let (program, stamp) = (folder.join("etcd"), folder.join("etcd.go.mod"));
    let versions = fs::read(module.join("go.mod")).map_err(|why| format!("go.mod: {why}"))?;
    if program.is_file() && fs::read(&stamp).is_ok_and(|built| built == versions) {
        return Ok(program);
    }
    may_install()?;
    fs::create_dir_all(folder).map_err(|why| format!("a folder: {why}"))?;
    let folder = folder.canonicalize().map_err(|why| format!("a folder: {why}"))?;
    let mut build = Command::new("go");
    build.args(["build", "-ldflags=-s -w", "-o"]).arg(folder.join("etcd"));
    run(build.arg("go.etcd.io/etcd/server/v3"), &module)?;
    fs::write(&stamp, versions).map_err(|why| format!("a file: {why}"))?;
    Ok(program)
}

/// Runs a command to its end. Fails with the last line that it printed.
fn run(command: &mut Command, folder: &Path) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("{name}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}", text.lines().last().unwrap_or("it failed")))
}

/// A server. It is killed on drop, and its folder is removed.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    more: Vec<String>,
    pub folder: PathBuf,
    scheme: &'static str,
    pub port: u16,
    peer_port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts a server with `more` arguments. It listens with TLS if they name a certificate.
    pub fn new(program: &Program, more: &[String]) -> Result<Self> {
        Self::in_folder(program, new_folder()?, more)
    }

    /// The same in a folder that is there already.
    pub fn in_folder(program: &Program, folder: PathBuf, more: &[String]) -> Result<Self> {
        let mut server = Self::stopped(program, folder, more)?;
        server.start()?;
        Ok(server)
    }

    /// Starts servers that form one cluster of etcd.
    pub fn cluster(program: &Program, n: usize) -> Result<Vec<Self>> {
        let stopped = |_| Self::stopped(program, new_folder()?, &[]);
        let mut servers: Vec<_> = (0..n).map(stopped).collect::<Result<_>>()?;
        let peer = |(at, server): (usize, &Self)| {
            format!("member-{at}=http://127.0.0.1:{}", server.peer_port)
        };
        let peers: Vec<_> = servers.iter().enumerate().map(peer).collect();
        for (at, server) in servers.iter_mut().enumerate() {
            // The last one of two arguments with one name counts.
            let peers = format!("--initial-cluster={}", peers.join(","));
            server.more = vec![format!("--name=member-{at}"), peers];
            server.start()?;
        }
        Ok(servers)
    }

    fn stopped(program: &Program, folder: PathBuf, more: &[String]) -> Result<Self> {
        let uses_tls = more.iter().any(|argument| argument.starts_with("--cert-file"));
        Ok(Self {
            program: program.0.clone(),
            more: more.to_vec(),
            folder,
            scheme: if uses_tls { "https" } else { "http" },
            port: free_port()?,
            peer_port: free_port()?,
            child: None,
        })
    }

    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    pub fn start(&mut self) -> Result<()> {
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"))?;
        let (client, peer) = (self.endpoint(), format!("http://127.0.0.1:{}", self.peer_port));
        let child = Command::new(&self.program)
            .arg(format!("--data-dir={}", self.folder.join("data").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("etcd")?;
        self.child = Some(child);
        Ok(())
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Sends a signal, named as for `kill`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let process = self.child.as_ref().context("it is down")?.id().to_string();
        ensure!(Command::new("kill").args([name, &process]).status()?.success(), "kill");
        Ok(())
    }

    /// Replaces one folder of data by another, while the server is stopped.
    pub fn copy_data(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.folder.join(from), self.folder.join(to));
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        let status = Command::new("cp").arg("-r").args([from, to]).status()?;
        ensure!(status.success(), "cp");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}

/// A new folder for a server.
pub fn new_folder() -> Result<PathBuf> {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("monoceros-etcd-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A free port that stays free while its server is down: the system gives connections ports above.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const PORTS: u16 = 10_000;
    static TRIED: AtomicU16 = AtomicU16::new(0);
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

pub fn options(server: &Server) -> EtcdOptions {
    EtcdOptions::new(vec![server.endpoint()])
}

/// Waits until the server answers with a result, or a refusal.
pub async fn ready(etcd: &Etcd) -> Result<()> {
    let key = RecordKey::new(Kind::Era, &"era".into())?;
    let begun = Instant::now();
    while let Err(why) = etcd.read(&key).await {
        if matches!(why, monoceros_cluster_store::Failure::Refused(_)) {
            break;
        }
        ensure!(begun.elapsed() < PATIENCE, "{why}");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
