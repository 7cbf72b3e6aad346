//! The Python shim with the stock gRPC package: its observations at the start, after a restart of
//! the scheduler, and at its end.
//!
//! The packages come from an index on the network, which a test must not need. So it runs only if
//! they are installed: in the machine's Python, or by an earlier run with
//! `MONOCEROS_PYTHON=install`. With that variable, a failed installation is an error. Otherwise a
//! line says that the test is skipped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::Value;

use crate::harness::programs::skipped;
use crate::harness::{self, Service, TempFile};

/// Longest wait for the first line, before which the shim makes its stubs.
const PATIENCE: Duration = Duration::from_secs(60);

const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/shim.py");
/// Modules that the example and the tests import.
const MODULES: &str = "grpc, grpc_tools.protoc, google.protobuf";
const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/requirements.txt");

/// The shim's Python: a program, and the folder of its packages if they are outside its
/// environment.
pub(crate) struct Python {
    pub(crate) program: PathBuf,
    pub(crate) packages: Option<PathBuf>,
}

/// Returns a Python with the packages of the example, if there is one.
pub(crate) fn python() -> Option<&'static Python> {
    static PYTHON: OnceLock<Option<Python>> = OnceLock::new();
    let python = PYTHON.get_or_init(make_python).as_ref();
    if python.is_none() {
        let how = "MONOCEROS_PYTHON=install installs them beside the build";
        skipped(&format!("no python3 with the packages of the example; {how}"));
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

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?} failed:\n{stdout}\n{stderr}");
}

/// A running shim, with its observations.
struct Shim {
    child: Child,
    lines: Receiver<String>,
}

impl Shim {
    fn start(python: &Python, address: &str, more: &[&str]) -> Self {
        // A folder for each, since they make their stubs at the same time.
        let stubs = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let stubs = stubs.join(format!("python-stubs-{}", more.len()));
        let mut command = Command::new(&python.program);
        if let Some(packages) = &python.packages {
            command.env("PYTHONPATH", packages);
        }
        command
            .args([SHIM, "--address", address, "--pause", "0.05", "--build"])
            .arg(stubs)
            .args(more);
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
    let start = shim.until(&[("allocation", 5), ("predicate", 1)]);
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
    let late = shim.until(&[("allocation", 1)]);
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

    let pid = shim.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    shim.until(&[("left", 1)]);
    assert!(shim.child.wait().unwrap().success());
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
