//! The Python client: its own tests, its types, its package, and the example on it, with its
//! observations at the start, after a restart of the scheduler, and at its end.
//!
//! The packages that it needs come from an index on the network, which a test must not need. So it
//! runs only if they are installed: in the machine's Python, or by an earlier run with
//! `MONOCEROS_PYTHON=install`. With that variable, a failed installation is an error. Otherwise a
//! line says that the test is skipped.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use monoceros::grpc::stubs::DESCRIPTORS;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::Value;

use crate::harness::programs::skipped;
use crate::harness::{self, Service, TempFile};

/// Longest wait for an observation.
const PATIENCE: Duration = Duration::from_secs(60);

const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/shim.py");
pub(crate) const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python");
/// Modules that the client and the tests import. Its types and its package need more, which
/// `REQUIREMENTS` lists, too.
const MODULES: &str = "grpc, grpc_tools.protoc, google.protobuf";
const REQUIREMENTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/repository/python-requirements.txt");

/// The Python of the tests: a program, and the folder of its packages if they are outside its
/// environment.
pub(crate) struct Python {
    program: PathBuf,
    packages: Option<PathBuf>,
}

impl Python {
    /// Returns a command that finds the packages, and those of this folder before them. It writes
    /// no compiled modules, which would be left in the sources.
    pub(crate) fn command(&self, first: &Path) -> Command {
        let mut path = OsString::from(first);
        if let Some(packages) = &self.packages {
            path.push(":");
            path.push(packages);
        }
        let mut command = Command::new(&self.program);
        command.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(CLIENT);
        command
    }

    /// Returns whether this statement runs, or says that a test is skipped.
    fn knows(&self, statement: &str, what: &str) -> bool {
        let runs = self.command(Path::new(CLIENT)).args(["-c", statement]).output();
        let runs = runs.is_ok_and(|output| output.status.success());
        if !runs {
            skipped(&format!("{what}: {INSTALL}"));
        }
        runs
    }
}

const INSTALL: &str = "MONOCEROS_PYTHON=install installs what is missing beside the build";

/// Returns a Python with the packages of the client, if there is one.
pub(crate) fn python() -> Option<&'static Python> {
    static PYTHON: OnceLock<Option<Python>> = OnceLock::new();
    let python = PYTHON.get_or_init(make_python).as_ref();
    if python.is_none() {
        skipped(&format!("no python3 with the packages of the client in Python; {INSTALL}"));
    }
    python
}

fn make_python() -> Option<Python> {
    let knows = |modules: &str| {
        let output = Command::new("python3").args(["-c", &format!("import {modules}")]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_asked = match std::env::var("MONOCEROS_PYTHON").as_deref() {
        Ok("install") => true,
        Ok(other) => panic!("MONOCEROS_PYTHON is `{other}`, and can be `install`"),
        Err(_) => false,
    };
    if !is_asked && knows(MODULES) {
        return Some(Python { program: PathBuf::from("python3"), packages: None });
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let wanted = std::fs::read_to_string(REQUIREMENTS).unwrap();
    let is_done =
        |stamp: &Path| std::fs::read_to_string(stamp).is_ok_and(|installed| installed == wanted);
    let install = ["-m", "pip", "install", "--requirement", REQUIREMENTS];
    if knows("venv, ensurepip") {
        let environment = folder.join("python");
        let program = environment.join("bin").join("python");
        let stamp = environment.join("installed.txt");
        if !is_done(&stamp) {
            if !is_asked {
                return None;
            }
            done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
            done(Command::new(&program).args(install));
            // Written last: an incomplete environment is made again.
            std::fs::write(stamp, wanted).unwrap();
        }
        return Some(Python { program, packages: None });
    }
    if !knows("pip") {
        return None;
    }
    let packages = folder.join("python-packages");
    let stamp = packages.join("installed.txt");
    if !is_done(&stamp) {
        if !is_asked {
            return None;
        }
        // An incomplete installation would be kept otherwise.
        let _ = std::fs::remove_dir_all(&packages);
        done(Command::new("python3").args(install).arg("--target").arg(&packages));
        std::fs::write(stamp, wanted).unwrap();
    }
    Some(Python { program: PathBuf::from("python3"), packages: Some(packages) })
}

/// Runs a command, which has to succeed, and returns its output of both kinds.
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let both = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{both}");
    both
}

#[test]
fn the_python_client_passes_its_tests() {
    let Some(python) = python() else { return };
    let descriptors = TempFile::new("python-descriptors.bin", "");
    std::fs::write(descriptors.path(), DESCRIPTORS).unwrap();
    let seen = done(
        python
            .command(Path::new(CLIENT))
            .args(["-X", "dev", "-m", "unittest", "-v"])
            .env("MONOCEROS", env!("CARGO_BIN_EXE_monoceros"))
            .env("MONOCEROS_DESCRIPTORS", descriptors.path()),
    );
    assert!(!seen.contains("skipped"), "{seen}");
}

#[test]
fn the_python_client_has_strict_types() {
    let Some(python) = python() else { return };
    let statement = "import mypy; from importlib.metadata import version; version('types-grpcio'); \
                     version('types-protobuf')";
    if !python.knows(statement, "the types of the client in Python") {
        return;
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-types");
    // Without files it checks those that pyproject.toml names.
    for files in [&[][..], &[SHIM]] {
        done(
            python
                .command(Path::new(CLIENT))
                .args(["-m", "mypy", "--strict", "--cache-dir"])
                .arg(&cache)
                .args(files),
        );
    }
}

#[test]
fn the_python_client_is_a_package() {
    let project = std::fs::read_to_string(Path::new(CLIENT).join("pyproject.toml")).unwrap();
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(project.lines().any(|line| line == version), "pyproject.toml has another version");

    let Some(python) = python() else { return };
    if !python.knows("import hatchling, pip", "the package of the client in Python") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-package");
    let _ = std::fs::remove_dir_all(&folder);
    done(python.command(Path::new(CLIENT)).args(["-m", "hatchling", "build", "-d"]).arg(&folder));
    let built = |end: &str| {
        let mut files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        files.find(|path| path.to_string_lossy().ends_with(end)).expect(end)
    };
    built(".tar.gz");
    let installed = folder.join("installed");
    let install = ["-m", "pip", "install", "--no-index", "--no-deps", "--target"];
    let mut command = python.command(Path::new(CLIENT));
    done(command.args(install).arg(&installed).arg(built(".whl")));
    let program = "import monoceros, pathlib; print(monoceros.__file__); \
                   assert pathlib.Path(monoceros.__file__).with_name('py.typed').exists()";
    // Elsewhere, because Python would find the sources in the present folder.
    let mut command = python.command(&installed);
    let seen = done(command.args(["-c", program]).current_dir(&folder));
    assert!(seen.starts_with(installed.to_str().unwrap()), "{seen}");
}

/// A running shim, with its observations.
struct Shim {
    child: Child,
    lines: Receiver<String>,
}

impl Shim {
    fn start(python: &Python, address: &str, more: &[&str]) -> Self {
        let mut command = python.command(Path::new(CLIENT));
        command.args([SHIM, "--address", address, "--pause", "0.05"]).args(more);
        // With it, a program that is aborted prints the stacks of its threads.
        command.env("PYTHONFAULTHANDLER", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines }
    }

    /// Returns everything up to the `n`th observation of each kind.
    fn until(&self, awaited: &[(&str, usize)]) -> Vec<Value> {
        let mut seen: Vec<Value> = Vec::new();
        while awaited.iter().any(|(kind, n)| of(&seen, kind).count() < *n) {
            let line = self.lines.recv_timeout(PATIENCE);
            let Ok(line) = line else { panic!("not {awaited:?} in {seen:#?}") };
            eprintln!("{line}");
            seen.push(serde_json::from_str(&line).unwrap());
        }
        seen
    }

    fn order(&mut self, order: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{order}").unwrap();
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit code.
    fn ended(&mut self) -> Option<i32> {
        let end = loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => eprintln!("{line}"),
                Err(end) => break end,
            }
        };
        if end == RecvTimeoutError::Timeout {
            self.signal("-ABRT");
            panic!("the shim has not ended: {:?}", self.child.wait());
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn of<'s>(seen: &'s [Value], kind: &str) -> impl Iterator<Item = &'s Value> {
    seen.iter().filter(move |what| what["saw"] == kind)
}

/// Returns the tasks of these observations with their nodes, by name.
fn places<'s>(seen: &'s [Value], kind: &str) -> Vec<(&'s str, &'s str)> {
    let place = |what: &'s Value| (what["task"].as_str().unwrap(), what["node"].as_str().unwrap());
    let mut places: Vec<_> = of(seen, kind).map(place).collect();
    places.sort_unstable();
    places
}

#[test]
fn the_python_shim_survives_a_scheduler_restart() {
    let Some(python) = python() else { return };
    let address = harness::address();
    let service = Service::start_at(&address, "127.0.0.1:0");
    let mut shim = Shim::start(python, &address, &[]);
    // Room for five, and for the sixth only on the node that is refused.
    let start = shim.until(&[("allocation", 5), ("predicate", 1), ("node", 3)]);
    assert_eq!(of(&start, "node").filter(|node| node["accepted"] == true).count(), 3);
    assert_eq!(places(&start, "recovered"), [("found", "n1")]);
    let refused: Vec<_> = places(&start, "predicate").into_iter().map(|(_, node)| node).collect();
    assert!(refused.iter().all(|node| *node == "n3"), "{refused:?}");
    let placed = places(&start, "allocation");
    assert!(placed.iter().all(|(_, node)| *node != "n3"), "n3 is refused: {placed:?}");

    drop(service);
    let lost = shim.until(&[("lost", 1)]);
    assert_eq!(of(&lost, "lost").next().unwrap()["code"], "UNAVAILABLE");
    let _service = Service::start_at(&address, "127.0.0.1:0");
    let again = shim.until(&[("recovered", 6)]);
    assert_eq!(of(&again, "registered").count(), 1);
    let mut expected = placed.clone();
    expected.insert(0, ("found", "n1"));
    assert_eq!(places(&again, "recovered"), expected);
    assert_eq!(of(&again, "allocation").count(), 0, "nothing runs twice");

    let (task, node) = placed[0];
    shim.order(&format!("end {task}"));
    let next = shim.until(&[("end", 1), ("allocation", 1)]);
    assert_eq!(of(&next, "end").next().unwrap()["task"], task);
    assert_eq!(places(&next, "allocation")[0].1, node, "where there is room now");
    shim.order(&format!("end {}", places(&next, "allocation")[0].0));
    shim.order("run late");
    // One message may have both, and the shim reads its allocations first.
    let late = shim.until(&[("end", 1), ("allocation", 1)]);
    assert_eq!(places(&late, "allocation"), [("late", node)]);

    // A pending task is dropped at once, and may be requested again.
    shim.order("run waits");
    shim.order("end waits");
    let ended = shim.until(&[("end", 1)]);
    assert_eq!(of(&ended, "end").next().unwrap()["task"], "waits");
    assert_eq!(of(&ended, "allocation").count(), 0);
    shim.order("run waits");
    shim.order("end late");
    let again = shim.until(&[("allocation", 1)]);
    assert_eq!(places(&again, "allocation"), [("waits", node)]);

    shim.signal("-TERM");
    shim.until(&[("left", 1)]);
    assert_eq!(shim.ended(), Some(0));
}

#[test]
fn the_python_shim_uses_tls_and_a_token() {
    let Some(python) = python() else { return };
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let certificate = TempFile::new("python.crt", &cert.pem());
    let key = TempFile::new("python.key", &signing_key.serialize_pem());
    let tokens = TempFile::new("python.tokens", "shim:t0k3n");
    let token = TempFile::new("python.token", "t0k3n\n");
    let settings = format!(
        "[grpc.tls]\ncertificate = '{}'\nkey = '{}'\n[identity]\ntokens = '{}'\n[[identity.rules]]\n\
         token = 'shim'\nrm_ids = ['python-*']\n",
        certificate.path(),
        key.path(),
        tokens.path(),
    );
    let settings = TempFile::new("python.toml", &settings);
    let service = Service::start_configured(settings.path());
    let address = format!("localhost:{}", service.grpc.port());

    let known = ["--ca", certificate.path(), "--token", token.path()];
    let shim = Shim::start(python, &address, &known);
    shim.until(&[("allocation", 5)]);
    let shim = Shim::start(python, &address, &known[..2]);
    let refused = shim.until(&[("lost", 1)]);
    assert_eq!(of(&refused, "lost").next().unwrap()["reason"], "UNAUTHENTICATED");
    let shim = Shim::start(python, &address, &[&known[..], &["--rm-id", "other"]].concat());
    let refused = shim.until(&[("lost", 1)]);
    assert_eq!(of(&refused, "lost").next().unwrap()["reason"], "RM_DENIED");
}

/// An administrator has ended the session: a shim that came back would undo that.
#[test]
fn a_deregistered_python_shim_ends() {
    let Some(python) = python() else { return };
    let service = Service::start();
    let address = service.grpc.to_string();
    let mut shim = Shim::start(python, &address, &["--rm-id=gone"]);
    shim.until(&[("allocation", 5)]);
    let (code, _, errors) =
        harness::run(&["deregister", "--yes", "--grpc", &address, "--rm", "gone"]);
    assert_eq!(code, Some(0), "{errors}");
    let lost = shim.until(&[("lost", 1)]);
    let lost = of(&lost, "lost").next().unwrap();
    assert_eq!((&lost["code"], &lost["reason"]), (&"ABORTED".into(), &"DEREGISTERED".into()));
    assert_eq!(shim.ended(), Some(1), "it does not register again");
}
