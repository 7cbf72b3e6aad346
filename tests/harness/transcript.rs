//! Transcripts: commands and their output.
//!
//! A line that begins with `$ ` is a command for a shell, the lines below are its output, and `? 1`
//! is its exit code if that is not 0. Values that differ between runs (times, ages, numbers of
//! sessions) are replaced by their kind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use monoceros_proto::si::v1 as si;

use super::{Rm, Service, amount, application, ask, registration};

/// The queues of the transcripts' cluster.
pub const CLUSTER_QUEUES: &str = r#"partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            resources:
              max: {vcore: 6, memory: 24Gi}
            queues:
              - name: etl
                resources:
                  guaranteed: {vcore: 2, memory: 8Gi}
          - name: dev
            maxapplications: 10
"#;

const GIB: i64 = 1 << 30;

/// A service with a small cluster, always the same: three nodes, two running applications, and a
/// pending request.
pub struct Cluster {
    pub service: Service,
    pub rm: Rm,
}

impl Cluster {
    pub async fn start() -> Self {
        let service = Service::start();
        let client = service.client().await;
        let registered = registration("rm-1", CLUSTER_QUEUES);
        client.clone().register_resource_manager(registered).await.unwrap();
        let rm = Rm::open(client, "rm-1").await;
        let node = |id: &str, gpus: i64, rack: &str| {
            let mut capacity = vec![("vcore", 4_000), ("memory", 16 * GIB)];
            capacity.extend((gpus > 0).then_some(("gpu", gpus)));
            si::NodeInfo {
                node_id: id.to_owned(),
                action: si::node_info::ActionFromRm::Create.into(),
                attributes: [("si.io/rackname".to_owned(), rack.to_owned())].into(),
                schedulable_resource: Some(amount(&capacity)),
                ..Default::default()
            }
        };
        let nodes = [("node-7", 2, "/rack-1"), ("node-8", 0, "/rack-1"), ("node-9", 0, "/rack-2")];
        for (nth, (id, gpus, rack)) in nodes.into_iter().enumerate() {
            rm.send_nodes(vec![node(id, gpus, rack)]).await;
            rm.until("a node", |seen| seen.accepted_nodes.len() == nth + 1).await;
        }
        let rm = rm.with_application("etl-7", "root.prod.etl").await;
        let rm = rm.with_application("notebook-1", "root.dev").await;
        let of = |application: &str, key: &str, amounts: &[(&str, i64)]| si::Allocation {
            resource_per_alloc: Some(amount(amounts)),
            ..ask(application, key)
        };
        let pieces = [
            of("etl-7", "driver", &[("vcore", 1_000), ("memory", 2 * GIB)]),
            of("etl-7", "exec-1", &[("vcore", 1_500), ("memory", 4 * GIB)]),
            of("notebook-1", "shell", &[("vcore", 500), ("memory", GIB), ("gpu", 1)]),
        ];
        for (nth, piece) in pieces.into_iter().enumerate() {
            rm.send_allocations(vec![], vec![piece], vec![]).await;
            rm.until("an allocation", |seen| seen.new.len() == nth + 1).await;
        }
        let huge = of("etl-7", "exec-2", &[("vcore", 5_000), ("memory", 8 * GIB)]);
        rm.send_allocations(vec![], vec![huge], vec![]).await;
        let cluster = Self { service, rm };
        let waits = || cluster.run("monoceros explain etl-7").contains("exec-2");
        while !waits() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        cluster
    }

    /// Returns the output of a command in a folder of its own.
    pub fn run(&self, line: &str) -> String {
        Folder::new().run(line, &self.environment())
    }

    /// Returns the environment with the address of the service.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("MONOCEROS_GRPC", self.service.grpc.to_string())]
    }
}

/// A folder, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static N_FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), N_FOLDERS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("monoceros-folder-{process}-{number}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Returns the output of a command in this folder, followed by its errors and by its exit code
    /// if it failed.
    pub fn run(&self, line: &str, environment: &[(&str, String)]) -> String {
        let output = self.shell(line, environment).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let mut printed = text(output.stdout) + &text(output.stderr);
        if !printed.is_empty() && !printed.ends_with('\n') {
            printed.push('\n');
        }
        match output.status.code() {
            Some(0) => printed,
            code => printed + &format!("? {}\n", code.unwrap_or(-1)),
        }
    }

    /// Makes a command for a shell, which finds the built binary.
    pub fn shell(&self, line: &str, environment: &[(&str, String)]) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_monoceros")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.0).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", binary.display()));
        for (name, value) in environment {
            command.env(name, value);
        }
        command
    }

    /// Plays a transcript: each of its commands with its present output. Lines that begin with `#`
    /// are titles, with an empty line before them.
    pub fn play(&self, transcript: &str, environment: &[(&str, String)]) -> String {
        let mut played = String::new();
        for line in transcript.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let printed = normal(&self.run(command, environment));
                played.extend([line, "\n", &printed]);
            } else if line.starts_with('#') {
                let gap = if played.is_empty() { "" } else { "\n" };
                played.extend([gap, line, "\n"]);
            }
        }
        played
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Replaces values that differ between runs. Columns keep their positions.
pub fn normal(text: &str) -> String {
    let mut normal = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-:._".contains(c)))
            .unwrap_or(from.len());
        // A name with a digit in it begins earlier.
        let name = before.rfind(|c: char| c.is_whitespace() || "(\"'`=,/[{".contains(c));
        let is_whole = name.map_or(before.is_empty(), |at| at + 1 == before.len());
        let (word, behind) = from.split_at(end);
        normal += before;
        if let Some(kind) = kind(word).filter(|_| is_whole) {
            normal += kind;
            // A shorter age is followed by more spaces.
            let pad = kind.len().saturating_sub(word.len());
            let spaces = behind.len() - behind.trim_start_matches(' ').len();
            rest = &behind[pad.min(spaces.saturating_sub(1))..];
        } else {
            normal += word;
            rest = behind;
        }
    }
    normal + rest
}

fn kind(word: &str) -> Option<&'static str> {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if word.len() > 18 && word.ends_with('Z') && word.contains('T') {
        return Some("TIME");
    }
    if is_number(word) && word.len() > 14 {
        return Some("NUMBER");
    }
    if word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit()) {
        return Some("CHECKSUM");
    }
    let number = word.strip_suffix(['s', 'm'])?;
    is_number(number).then_some("AGE")
}
