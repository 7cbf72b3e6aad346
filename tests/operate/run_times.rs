//! Run times: measured, read over HTTP, and kept in the folder of the service.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::transcript::Folder;
use crate::harness::{PATIENCE, Rm, Service, ask, release};

/// The folder for the state of a service, which does not exist yet.
fn state_in(folder: &Folder) -> PathBuf {
    folder.path().join("state")
}

/// The settings of a service that keeps its state there.
fn settings(state: &Path) -> [(&str, &str); 1] {
    [("SERVICE__STATE_DIR", state.to_str().unwrap())]
}

/// Runs one allocation of the application `nightly-7` to its end.
async fn run(service: &Service) -> Rm {
    let rm = Rm::register(service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("nightly-7", "root.a").await;
    rm.send_allocations(vec![], vec![ask("nightly-7", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    rm.send_allocations(vec![], vec![], vec![release("nightly-7", "x")]).await;
    rm.until("released", |seen| seen.released.len() == 1).await;
    rm
}

async fn rows(service: &Service, query: &str) -> Vec<Value> {
    let path = format!("/ws/v1/partition/default/runtimes{query}");
    let answer = service.http("GET", &path, &[], "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

#[tokio::test]
async fn a_restart_with_a_state_dir_knows_how_long_things_ran() {
    let folder = Folder::new();
    let state = state_in(&folder);
    let mut service = Service::start_with(&settings(&state));
    let rm = run(&service).await;
    let measured = rows(&service, "").await;
    assert_eq!(measured.len(), 4, "all, the queue, the user, the class: {measured:?}");
    let class = &measured[3];
    assert_eq!((&class["queue"], &class["user"]), (&"root.a".into(), &"alice".into()));
    assert_eq!(class["stem"], "nightly");
    assert_eq!(class["shape"], "memory=2^30 vcore=2^10");
    assert_eq!((&class["ended"], &class["basis"]), (&1.0.into(), &"class".into()));
    assert_eq!(class["medianSeconds"], 0.5, "it lasted less than a second");
    assert_eq!(rows(&service, "?user=nobody").await.len(), 0);
    assert_eq!(rows(&service, "?queue=root.a&age=1h").await[0].get("medianSeconds"), None);
    service.until_counted("monoceros_run_time_classes", 1).await;
    service.terminate();
    assert!(service.wait(PATIENCE).await.success());
    drop(rm);
    assert!(!service.log().contains("run times not kept"), "{}", service.log());

    let service = Service::start_with(&settings(&state));
    service.until_logged("run times read", 1).await;
    let _rm = Rm::register(&service, "rm").await;
    assert_eq!(rows(&service, "").await, measured);
    let _other = Rm::register(&service, "other").await;
    let path = "/ws/v1/partition/%5Bother%5Ddefault/runtimes";
    assert_eq!(
        service.get(path).await.trim(),
        "[]",
        "of another resource manager nothing is known"
    );
}

#[tokio::test]
async fn a_broken_file_is_set_aside_and_named() {
    let folder = Folder::new();
    let (state, file) = (folder.path(), folder.path().join("run-times.json.gz"));
    fs::write(&file, "no gzip").unwrap();
    let mut service = Service::start_with(&settings(state));
    service.until_logged("run times not read, measured anew", 1).await;
    let broken = state.join("run-times.json.gz.broken");
    assert_eq!(fs::read_to_string(&broken).unwrap(), "no gzip");
    assert!(service.log().contains(broken.to_str().unwrap()), "{}", service.log());
    assert!(!file.exists());
    let rm = run(&service).await;
    assert_eq!(rows(&service, "").await.len(), 4);
    service.terminate();
    assert!(service.wait(PATIENCE).await.success());
    drop(rm);
    assert!(file.exists(), "what was measured since is kept");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new();
    let state = state_in(&folder);
    fs::write(&state, "a file").unwrap();
    let (key, value) = settings(&state)[0];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_monoceros"))
        .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .env(format!("MONOCEROS__{key}"), value)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("`service.state_dir`: cannot make the folder of"), "{error}");
}

#[tokio::test]
async fn without_measuring_there_are_no_rows() {
    let service = Service::start_with(&[("RUN_TIMES__ENABLED", "false")]);
    let _rm = run(&service).await;
    assert_eq!(rows(&service, "").await.len(), 0);
    let missing = service.http("GET", "/ws/v1/partition/none/runtimes", &[], "").await;
    assert_eq!(missing.status, 404);
    let answer = service.http("GET", "/ws/v1/partition/default/runtimes?age=x", &[], "").await;
    assert_eq!(answer.status, 400, "{}", answer.body);
}
