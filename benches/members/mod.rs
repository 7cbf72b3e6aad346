//! Members of a cluster, each in a process of its own, on an etcd, for benchmarks over loopback.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "every benchmark uses a part of this"
)]

use std::sync::Arc;
use std::time::Duration;

use monoceros_cluster::{Reply, Request, RmId};
use monoceros_cluster_store::etcd::Etcd;
use monoceros_cluster_store::{Arbiter, ClusterName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::servers::{Program, Server, options, ready};
use crate::service::Service;

/// `cluster.lease` of all members: the default.
pub const LEASE: Duration = Duration::from_secs(5);
/// Time limit of whatever a member has to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An etcd with members.
pub struct Members {
    /// Before the etcd, so that they end first when this is dropped.
    pub all: Vec<Member>,
    etcd: Server,
    arbiter: Arbiter,
    /// Number of members that were ever started, for their ids.
    n_started: usize,
}

/// Process of one member.
pub struct Member {
    pub id: String,
    pub service: Service,
}

impl Members {
    /// Starts an etcd. `None` without a program of etcd.
    pub async fn on_etcd() -> Option<Self> {
        let program = Program::packaged().or_else(Program::built)?;
        let etcd = Server::new(&program, &[]).unwrap();
        let store = Etcd::new(&ClusterName::new("monoceros").unwrap(), options(&etcd)).unwrap();
        ready(&store).await.unwrap();
        let arbiter = Arbiter::new(Arc::new(store));
        Some(Self { all: Vec::new(), etcd, arbiter, n_started: 0 })
    }

    /// Starts a member with an id that no other had, and waits until it may decide.
    pub async fn start_one(&mut self) {
        self.n_started += 1;
        let id = format!("m{}", self.n_started);
        let (endpoint, lease) = (self.etcd.endpoint(), format!("{}s", LEASE.as_secs()));
        let service = Service::start_with(&[
            ("CLUSTER__ARBITER", "etcd"),
            ("CLUSTER__ENDPOINTS", &endpoint),
            ("CLUSTER__LEASE", &lease),
            ("CLUSTER__ID", &id),
        ]);
        let begun = Instant::now();
        while get(&service.rest, "/readyz").await.0 != 200 {
            assert!(begun.elapsed() < PATIENCE, "member {id} is not ready");
            sleep(Duration::from_millis(20)).await;
        }
        self.all.push(Member { id, service });
    }

    /// Waits until the members have read each other's records.
    pub async fn until_known(&self) {
        sleep(LEASE / 2).await;
    }

    /// The place of the member that owns a resource manager, from its claim.
    pub async fn owner_of(&self, rm: &str) -> usize {
        let begun = Instant::now();
        loop {
            if let Ok(Reply::All(snapshot)) = self.arbiter.ask(Request::ReadAll).await {
                let claim = snapshot.claims.get(&RmId(rm.into()));
                let owner = claim.and_then(|claim| claim.value.owner.as_ref());
                let is_it = |member: &Member| owner.is_some_and(|own| *own.member.0 == *member.id);
                if let Some(at) = self.all.iter().position(is_it) {
                    return at;
                }
            }
            assert!(begun.elapsed() < PATIENCE, "`{rm}` has no owner");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Returns the status and the body of an answer over HTTP.
pub async fn get(address: &str, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, body.to_owned())
}
