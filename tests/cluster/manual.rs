//! The commands of docs/clusters.md: every line of its shell blocks is run by a shell, in order, with
//! addresses and a folder of this test in place of those in the text.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use monoceros_cluster_store::etcd::EtcdOptions;

use super::*;
use crate::servers::{free_port, new_folder};

/// A shell as in the manual, whose programs are those of this test.
struct Shell {
    folder: PathBuf,
    /// Assignments of the manual so far.
    exports: Vec<String>,
    etcd: Option<Child>,
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(etcd) = &mut self.etcd {
            // It may have ended already.
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Shell {
    fn new(etcd: &Program) -> Self {
        let folder = new_folder().unwrap();
        symlink(etcd.path(), folder.join("etcd")).unwrap();
        symlink(env!("CARGO_BIN_EXE_monoceros"), folder.join("monoceros")).unwrap();
        Self { folder, exports: Vec::new(), etcd: None }
    }

    /// The command of a line. `before`: a word of the shell in front of the line.
    fn command(&self, before: &str, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{}\n{before}{line}", self.exports.join("\n"))]);
        command.env("PATH", format!("{}:{path}", self.folder.display()));
        command
    }

    /// Starts the etcd of the manual on these ports.
    fn start_etcd(&mut self, line: &str, client: &str, peer: &str) {
        let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = self.command("exec ", line);
        for (key, value) in [
            ("LISTEN_CLIENT_URLS", &client),
            ("ADVERTISE_CLIENT_URLS", &client),
            ("LISTEN_PEER_URLS", &peer),
            ("INITIAL_ADVERTISE_PEER_URLS", &peer),
            ("INITIAL_CLUSTER", &format!("default={peer}")),
        ] {
            command.env(format!("ETCD_{key}"), value);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.etcd = Some(command.spawn().unwrap());
    }

    /// Runs a line until it succeeds and its output is as wanted, as an operator would try again.
    async fn until(&self, line: &str, is_wanted: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let output = self.command("", line).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            if output.status.success() && is_wanted(&text) {
                return;
            }
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(begun.elapsed() < PATIENCE, "{line}: {text}{errors}");
            sleep(PAUSE).await;
        }
    }
}

/// The text of the manual with addresses and a folder of this test. Returns the addresses, too.
fn manual(folder: &std::path::Path) -> (String, BTreeMap<&'static str, String>) {
    let mut text = include_str!("../../docs/clusters.md").to_owned();
    let mut addresses = BTreeMap::new();
    for address in [
        "127.0.0.1:2379",
        "127.0.0.1:50051",
        "127.0.0.1:50052",
        "127.0.0.1:50053",
        "127.0.0.1:9081",
        "127.0.0.1:9082",
        "127.0.0.1:9083",
    ] {
        let free = format!("127.0.0.1:{}", free_port().unwrap());
        text = text.replace(address, &free);
        addresses.insert(address, free);
    }
    let data = folder.join("data").display().to_string();
    (text.replace("/tmp/monoceros-etcd", &data), addresses)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_manual_run() {
    let Some(program) = Program::packaged().or_else(Program::built) else { return };
    let _all = PLACES.acquire_many(N_PLACES).await.unwrap();
    let mut shell = Shell::new(&program);
    let (text, addresses) = manual(&shell.folder);
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut members: Vec<Service> = Vec::new();
    let mut n_asked = 0;
    for line in blocks.flat_map(str::lines) {
        if line.starts_with("etcd ") {
            let etcd = &addresses["127.0.0.1:2379"];
            shell.start_etcd(line, etcd, &format!("127.0.0.1:{}", free_port().unwrap()));
            let name = ClusterName::new("monoceros").unwrap();
            let options = EtcdOptions::new(vec![format!("http://{etcd}")]);
            ready(&Etcd::new(&name, options).unwrap()).await.unwrap();
        } else if line.starts_with("export ") {
            shell.exports.push(line.to_owned());
        } else if line.contains(" monoceros serve") {
            let member = Service::start_by(shell.command("exec env ", line));
            until_ready(&member).await;
            if members.is_empty() {
                // Alone at first, so that it serves the simulated resource manager.
                let begun = Instant::now();
                while !member.get("/ws/v1/sessions").await.contains(r#""rmId":"demo""#) {
                    assert!(begun.elapsed() < PATIENCE, "the demo registers");
                    sleep(PAUSE).await;
                }
            }
            members.push(member);
        } else {
            if n_asked == 0 {
                acquainted(&members.iter().collect::<Vec<_>>()).await;
            }
            let is_probe = line.contains("/readyz");
            shell.until(line, |output| !is_probe || output.trim() == "serving").await;
            n_asked += 1;
        }
    }
    assert_eq!((members.len(), n_asked), (3, 10));
}
