//! Every command in the documentation is run, in the order of its page, on a small cluster. Its
//! output is compared if the page shows it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::run;
use crate::harness::transcript::{CLUSTER_QUEUES, Cluster, Folder, normal};

/// Parts of commands that run until interrupted.
const GOES_ON: [&str; 3] = ["--follow", "--watch", " -w"];

/// Commands that end the service.
const ENDS: [&str; 2] = ["monoceros deregister", "monoceros shutdown"];

/// The scheduler of a Kubernetes cluster, which only some builds have. It is run in tests with a
/// cluster. Here only its command line is parsed.
const OF_A_CLUSTER: &str = "monoceros kubernetes";

/// Commands about the members of a cluster. They are run in tests with a cluster. Here only their
/// command lines are parsed.
const OF_MEMBERS: [&str; 3] =
    ["monoceros cluster ", "monoceros describe member ", "monoceros get members"];

/// Beginnings of commands that act on a machine or a cluster. Their arguments are checked in the
/// tests of packages.
const OF_A_MACHINE: [&str; 6] =
    ["docker ", "helm ", "journalctl ", "kubectl ", "sudo ", "systemctl "];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        docs.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// A command, and its output on the page if that is to be compared.
struct Shown {
    line: String,
    prints: Option<String>,
}

/// Returns the commands in the fenced blocks of a page.
fn shown(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        let (of_block, is_compared) = (found.len(), language == "console");
        for line in text.lines() {
            // Blocks in lists are indented.
            let command = line.trim_start();
            let command = command.strip_prefix("$ ").unwrap_or(command);
            // The name of a folder stands alone.
            let names_it = command.starts_with("monoceros ") || command.contains(" monoceros ");
            let is_ours = names_it && !OF_A_MACHINE.iter().any(|other| command.starts_with(other));
            let is_command = is_ours && (line.starts_with("$ ") || language == "sh");
            if is_command {
                let prints = is_compared.then(String::new);
                found.push(Shown { line: command.to_owned(), prints });
            } else if let Some(Shown { prints: Some(prints), .. }) = found[of_block..].last_mut() {
                prints.extend([line, "\n"]);
            }
        }
    }
    found
}

/// A folder with the files that pages mention.
fn folder() -> Folder {
    let folder = Folder::new();
    let lines = CLUSTER_QUEUES.trim_end().replace('\n', "\n    ");
    let map = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n  queues.yaml: |\n    {lines}\n");
    let bad = CLUSTER_QUEUES.replace("vcore: 2, memory: 8Gi", "vcore: 20, memory: 80Gi");
    let new = CLUSTER_QUEUES.replace("vcore: 6", "vcore: 5");
    for (name, text) in [
        ("queues.yaml", CLUSTER_QUEUES),
        ("old.yaml", CLUSTER_QUEUES),
        ("new.yaml", &new),
        ("bad.yaml", &bad),
        ("configmap.yaml", &map),
        ("monoceros.toml", "[grpc]\nadress = \"127.0.0.1:1\"\n\n[log]\nformat = \"xml\"\n"),
    ] {
        folder.write(name, text);
    }
    folder
}

/// Whether a text matches the page: `…` stands for the rest of a line, or for any lines.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    let mut printed = printed.lines();
    let mut shown = shown.lines().peekable();
    while let Some(wanted) = shown.next() {
        if wanted == "…" {
            let Some(behind) = shown.peek() else { return true };
            if !printed.by_ref().any(|line| line == *behind) {
                return false;
            }
            shown.next();
            continue;
        }
        let Some(line) = printed.next() else { return false };
        let is_same = match wanted.split_once('…') {
            Some((before, behind)) => line.starts_with(before) && line.ends_with(behind),
            None => line == wanted,
        };
        if !is_same {
            return false;
        }
    }
    printed.next().is_none()
}

/// Starts a service as a page does, but on free ports, and ends it once it listens.
fn serve(folder: &Folder, line: &str) {
    let line = format!("exec env {line} --grpc 127.0.0.1:0 --http 127.0.0.1:0");
    let mut command = folder.shell(&line, &[]);
    let mut service = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut first).unwrap();
    service.kill().unwrap();
    service.wait().unwrap();
    assert!(first.starts_with("monoceros listens: grpc="), "{line}: {first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_commands_give_the_documented_output() {
    let (mut n_run, mut n_compared) = (0, 0);
    for page in pages() {
        let commands = shown(&fs::read_to_string(&page).unwrap());
        if commands.is_empty() {
            continue;
        }
        let folder = folder();
        let mut cluster = Cluster::start().await;
        for Shown { line, prints } in commands {
            let page = page.display();
            n_run += 1;
            if line.contains("monoceros serve") {
                serve(&folder, &line);
                continue;
            }
            if line.contains(OF_A_CLUSTER) {
                if cfg!(feature = "kubernetes") {
                    let printed = folder.run(&format!("{line} --help"), &[]);
                    assert!(printed.contains("Usage: "), "{page}: {line}: {printed}");
                }
                continue;
            }
            if OF_MEMBERS.iter().any(|command| line.starts_with(command)) {
                let printed = folder.run(&format!("{line} --help"), &[]);
                assert!(printed.contains("Usage: "), "{page}: {line}: {printed}");
                continue;
            }
            if GOES_ON.iter().any(|flag| line.contains(flag)) {
                let printed = folder.run(&format!("timeout 2 {line}"), &cluster.environment());
                assert!(printed.ends_with("? 124\n"), "{page}: {line}: {printed}");
                continue;
            }
            let printed = folder.run(&line, &cluster.environment());
            match prints {
                Some(shown) => {
                    n_compared += 1;
                    let (printed, shown) = (normal(&printed), normal(&shown));
                    assert!(is_as_shown(&printed, &shown), "{page}: {line}:\n{printed}\n{shown}");
                }
                None => assert!(!printed.contains("\n? "), "{page}: {line}: {printed}"),
            }
            if ENDS.iter().any(|end| line.starts_with(end)) {
                cluster = Cluster::start().await;
            }
        }
    }
    assert!(n_run > 30 && n_compared > 10, "{n_run} commands run, {n_compared} compared");
}

#[test]
fn each_command_within_a_sentence_is_one() {
    let mut n_known = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let outside = text.split("```").step_by(2);
        let spans = outside.flat_map(|text| text.split('`').skip(1).step_by(2));
        for span in spans.filter(|span| span.starts_with("monoceros ") && !span.contains('\n')) {
            if span.starts_with(OF_A_CLUSTER) && cfg!(not(feature = "kubernetes")) {
                continue;
            }
            // Up to a placeholder, or a character for the shell.
            let is_plain = |word: &&str| !word.starts_with(['[', '…', '>', '|']);
            let words: Vec<_> = span.split_whitespace().skip(1).take_while(is_plain).collect();
            let (code, _, stderr) = run(&[&words[..], &["--help"]].concat());
            assert_eq!(code, Some(0), "{}: `{span}`: {stderr}", page.display());
            n_known += 1;
        }
    }
    assert!(n_known > 20, "{n_known}");
}
