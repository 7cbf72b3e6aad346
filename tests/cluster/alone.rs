//! A service without a cluster: it has nothing of one.

use std::collections::BTreeSet;
use std::fs;

use monoceros::cluster::{Listening, Member, MemberListener};
use monoceros::settings::{Flags, Settings};
use monoceros::watchdog::Watchdog;
use monoceros_actors::Scheduler;
use tokio::runtime::Handle;

use super::*;

/// Number of TCP sockets on which a process listens.
fn n_listeners(service: &Service) -> usize {
    let process = format!("/proc/{}", service.process());
    let targets = fs::read_dir(format!("{process}/fd")).unwrap().flatten();
    let targets = targets.filter_map(|file| fs::read_link(file.path()).ok());
    let sockets: BTreeSet<String> = targets
        .filter_map(|target| {
            let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect();
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("{process}/net/{table}")));
    let tables = tables.map(Result::unwrap_or_default);
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    // The fourth column is the state, where 0A listens, and the tenth the inode.
    let is_listener = |row: &&str| {
        let columns: Vec<_> = row.split_whitespace().collect();
        columns.get(3) == Some(&"0A")
            && columns.get(9).is_some_and(|inode| sockets.contains(*inode))
    };
    rows.filter(is_listener).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_an_arbiter_listens_for_no_members() {
    let alone = Service::start();
    assert_eq!(alone.get("/ws/v1/cluster").await.trim(), "{}");
    assert_eq!(n_listeners(&alone), 2, "gRPC and REST");
    let Some(bed) = Bed::new().await else { return };
    let member = bed.start("m1");
    until_ready(&member).await;
    assert_eq!(n_listeners(&member), 3);
}

#[tokio::test]
async fn without_an_arbiter_no_task_of_a_member_runs() {
    let settings = Settings::load(None, &Flags::default()).unwrap();
    let handle = Scheduler::builder().start().unwrap();
    let watchdog = Watchdog::start(&handle).unwrap();
    let n_tasks = Handle::current().metrics().num_alive_tasks();
    assert!(MemberListener::open(&settings).await.unwrap().is_none());
    let (grpc, rest) = (settings.grpc.address, settings.rest.address);
    let listening = (Listening { grpc, rest, internal: None }, None);
    let member = Member::start(&settings, &handle, watchdog.health(), listening).await.unwrap();
    assert!(member.is_none());
    assert_eq!(Handle::current().metrics().num_alive_tasks(), n_tasks);
    handle.shutdown().await;
}
