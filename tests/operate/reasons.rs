//! Reasons and limits on the command line: why applications wait or were rejected, who uses what,
//! and what is loaded before the first resource manager.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use expect_test::expect_file;

use crate::harness::transcript::{CLUSTER_QUEUES, Cluster, Folder};
use crate::harness::{Service, TempFile, application};

/// The queues of the cluster with limits and access lists.
fn limited_queues() -> String {
    CLUSTER_QUEUES
        .replace(
            "          - name: prod\n",
            "          - name: prod\n            adminacl: \"eve ops\"\n            limits:\n              - \
             {limit: \"three each\", users: [alice, \"*\"], maxresources: {vcore: 3}, maxapplications: 4}\n",
        )
        .replace(
            "            maxapplications: 10\n",
            "            maxapplications: 10\n            limits:\n              - {limit: \"\", groups: \
             [dev], maxresources: {gpu: 2}}\n",
        )
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_usage_and_limits_are_printed() {
    let cluster = Cluster::start().await;
    for (n_before, (id, queue)) in
        [("stray-1", "root.prod.elt"), ("top-1", "root"), ("parent-1", "root.prod")]
            .into_iter()
            .enumerate()
    {
        cluster.rm.send_applications(vec![application(id, queue)], vec![]).await;
        cluster.rm.until("rejected", |it| it.rejected_applications.len() > n_before).await;
    }
    let folder = Folder::new();
    folder.write("limited.yaml", &limited_queues());
    let file = expect_file!["transcripts/reasons.txt"];
    file.assert_eq(&folder.play(&file.data(), &cluster.environment()));
}

#[tokio::test(flavor = "multi_thread")]
async fn loaded_queues_are_shown_before_the_first_registration() {
    let queues = TempFile::new("loaded.yaml", CLUSTER_QUEUES);
    let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.args(["--queues", queues.path()]);
    let service = Service::start_by(command);
    let environment = [("MONOCEROS_GRPC", service.grpc.to_string())];
    let file = expect_file!["transcripts/loaded.txt"];
    file.assert_eq(&Folder::new().play(&file.data(), &environment));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_prints_the_time_of_each_change() {
    let cluster = Cluster::start().await;
    let folder = Folder::new();
    let line = "exec monoceros get nodes node-8 --watch --interval 1 --timestamps";
    let mut command = folder.shell(line, &cluster.environment());
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next =
        || -> Vec<String> { lines.next().unwrap().split_whitespace().map(str::to_owned).collect() };
    assert_eq!(next()[..3], ["TIME", "NODE", "STATE"]);
    let first = next();
    assert_eq!(first[1..3], ["node-8", "Open"]);
    assert_eq!(cluster.run("monoceros cordon node-8"), "1 node closed\n");
    let changed = next();
    assert_eq!(changed[1..3], ["node-8", "Closed"]);
    assert!(changed[0] > first[0] && changed[0].ends_with('Z'), "{changed:?}");
    watching.kill().unwrap();
    watching.wait().unwrap();
}
