//! Three members on a cluster of three etcds, and the lines between them, their clients and the
//! etcds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_cluster::{Reply, Request, RmId, Snapshot};
use monoceros_cluster_store::etcd::{Etcd, EtcdOptions};
use monoceros_cluster_store::{Arbiter, ClusterName};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::connections::is_of;
use crate::harness::{Proxy, Service, http_at};
use crate::servers::{Program, Server, free_port, ready};

pub const MEMBERS: usize = 3;
const ETCDS: usize = 3;
/// Time limit of whatever a member has to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The books of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Allocations with their nodes.
    pub running: BTreeMap<String, String>,
    /// Asks without an allocation.
    pub pending: BTreeSet<String>,
    /// Epoch of the RM's session, and of its claim.
    pub epoch: u64,
}

/// Etcds, and members that may be down.
pub struct Bed {
    pub etcds: Vec<Server>,
    pub members: Vec<Slot>,
    pub lease: Duration,
    arbiter: Arbiter,
}

/// A place for a member, with the addresses that others know.
pub struct Slot {
    /// Id of the present member.
    pub id: String,
    pub service: Option<Service>,
    /// The line of clients.
    pub front: Proxy,
    /// The line of other members.
    pub inner: Proxy,
    /// The lines to the etcds.
    pub stores: Vec<Proxy>,
    /// Address on which it listens for other members.
    listen: SocketAddr,
    log: PathBuf,
    n_ids: usize,
}

impl Bed {
    /// Starts etcds and three members. `None` without a program of etcd.
    pub async fn start(lease: Duration) -> Option<Self> {
        let program = Program::packaged().or_else(Program::built)?;
        let etcds = Server::cluster(&program, ETCDS).unwrap();
        let options = EtcdOptions::new(etcds.iter().map(Server::endpoint).collect());
        let store = Etcd::new(&ClusterName::new("monoceros").unwrap(), options).unwrap();
        ready(&store).await.unwrap();
        let arbiter = Arbiter::new(Arc::new(store));
        let mut members = Vec::new();
        for at in 0..MEMBERS {
            let listen = local(free_port().unwrap());
            let mut stores = Vec::new();
            for etcd in &etcds {
                stores.push(Proxy::start(local(etcd.port)).await);
            }
            members.push(Slot {
                id: format!("m{at}"),
                service: None,
                front: Proxy::start(None).await,
                inner: Proxy::start(listen).await,
                stores,
                listen,
                log: etcds[0].folder.join(format!("member-{at}.log")),
                n_ids: 1,
            });
        }
        let mut bed = Self { etcds, members, lease, arbiter };
        for at in 0..MEMBERS {
            bed.restart(at, true);
        }
        bed.until_ready().await;
        // Until each has read of the others.
        sleep(lease / 2).await;
        Some(bed)
    }

    /// Addresses for clients, beginning with one of the members.
    pub fn addresses(&self, first: usize) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.members.iter().map(|slot| slot.front.address).collect();
        addresses.rotate_left(first % MEMBERS);
        addresses
    }

    /// Starts a member again, with its id or with a new one. One that still runs is killed.
    pub fn restart(&mut self, at: usize, with_its_id: bool) {
        let lease = format!("{}s", self.lease.as_secs());
        let slot = &mut self.members[at];
        let endpoint = |store: &Proxy| format!("http://{}", store.address);
        let endpoints: Vec<_> = slot.stores.iter().map(endpoint).collect();
        slot.front.lead_to(None);
        slot.service = None;
        if !with_its_id {
            slot.n_ids += 1;
            slot.id = format!("m{at}-{}", slot.n_ids);
        }
        let log = File::options().create(true).append(true).open(&slot.log).unwrap();
        let service = Service::start_logging_to(
            Stdio::from(log),
            &[
                ("CLUSTER__ARBITER", "etcd"),
                ("CLUSTER__ENDPOINTS", &endpoints.join(",")),
                ("CLUSTER__LEASE", &lease),
                ("CLUSTER__ID", &slot.id),
                ("CLUSTER__LISTEN", &slot.listen.to_string()),
                ("CLUSTER__ADVERTISE__GRPC", &slot.front.address.to_string()),
                ("CLUSTER__ADVERTISE__INTERNAL", &slot.inner.address.to_string()),
                ("SHUTDOWN__GRACE", "1"),
            ],
        );
        slot.front.lead_to(Some(service.grpc));
        slot.service = Some(service);
    }

    /// Cuts the lines of clients and of other members to a member, or joins them again.
    pub fn isolate(&self, at: usize, is_cut: bool) {
        let slot = &self.members[at];
        let service = slot.service.as_ref().map(|service| service.grpc);
        slot.front.lead_to(service.filter(|_| !is_cut));
        slot.inner.lead_to((!is_cut).then_some(slot.listen));
    }

    /// Cuts the lines of a member to the etcds, or joins them again.
    pub fn cut_from_store(&self, at: usize, is_cut: bool) {
        for (line, etcd) in self.members[at].stores.iter().zip(&self.etcds) {
            line.lead_to((!is_cut).then_some(local(etcd.port)));
        }
    }

    /// Cuts the lines between two members, or joins them again.
    pub fn part(&self, members: [usize; 2], is_cut: bool) {
        let [first, second] = members;
        for (at, other) in [(first, second), (second, first)] {
            let process = self.service(other).process();
            let line = &self.members[at].inner;
            let to = line.address;
            line.refuse(move |from| is_cut && is_of(process, from, to));
        }
    }

    /// The etcd that leads the others, and the number by which the leader knows another one.
    pub async fn leading_etcd(&self) -> (usize, String) {
        let begun = Instant::now();
        loop {
            let mut numbers = Vec::new();
            let mut leader = String::new();
            for etcd in &self.etcds {
                let path = "/v3/maintenance/status";
                let answer = http_at(local(etcd.port), "POST", path, &[], "{}").await.json();
                numbers.push(text(&answer["header"], "member_id"));
                leader = text(&answer, "leader");
            }
            if let Some(at) = numbers.iter().position(|number| *number == leader) {
                return (at, numbers.swap_remove((at + 1) % ETCDS));
            }
            assert!(begun.elapsed() < PATIENCE, "no etcd leads");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Lets another etcd lead.
    pub async fn move_leading_etcd(&self) {
        let (at, to) = self.leading_etcd().await;
        let path = "/v3/maintenance/transfer-leadership";
        let body = format!("{{\"targetID\":\"{to}\"}}");
        let answer = http_at(local(self.etcds[at].port), "POST", path, &[], &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_ne!(self.leading_etcd().await.0, at);
    }

    pub fn service(&self, at: usize) -> &Service {
        self.members[at].service.as_ref().unwrap()
    }

    /// A client for operators of a member.
    pub async fn admin(&self, at: usize) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.service(at).channel().await)
    }

    /// Waits until every member may decide.
    pub async fn until_ready(&self) {
        for at in 0..MEMBERS {
            let begun = Instant::now();
            loop {
                let answer = self.service(at).http("GET", "/readyz", &[], "").await;
                if answer.status == 200 {
                    break;
                }
                assert!(begun.elapsed() < PATIENCE, "member {at}: {}", answer.body);
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// The members' places by the RMs that they own. Those of members that are gone are left out.
    pub async fn owners(&self) -> BTreeMap<String, usize> {
        self.claims().await.into_iter().map(|(rm, (owner, _))| (rm, owner)).collect()
    }

    /// The same with the epochs of the claims.
    pub async fn claims(&self) -> BTreeMap<String, (usize, u64)> {
        let snapshot = self.snapshot().await;
        let place = |(RmId(rm), claim): (RmId, _)| {
            let claim: monoceros_cluster::Versioned<monoceros_cluster::Claim> = claim;
            let owner = claim.value.owner?;
            let at = self.members.iter().position(|slot| slot.id == *owner.member.0)?;
            Some((rm.to_string(), (at, claim.value.epoch.0)))
        };
        snapshot.claims.into_iter().filter_map(place).collect()
    }

    async fn snapshot(&self) -> Snapshot {
        let begun = Instant::now();
        loop {
            match self.arbiter.ask(Request::ReadAll).await {
                Ok(Reply::All(snapshot)) => return snapshot,
                Ok(other) => panic!("{other:?}"),
                Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The books of an RM at its owner, from its lists of nodes and applications, which must agree.
    /// No other member may have a session of the RM.
    pub async fn books(&self, rm: &str) -> Result<Books, String> {
        let claims = self.claims().await;
        let (at, epoch) = *claims.get(rm).ok_or("nobody owns it")?;
        let get = async |path: String| {
            let answer = self.service(at).http("GET", &path, &[], "").await;
            match answer.status {
                200 => Ok(answer.json()),
                status => Err(format!("{path}: {status}")),
            }
        };
        let page =
            async |page: &str| get(format!("/ws/v1/partition/%5B{rm}%5Ddefault/{page}")).await;
        let sessions = get("/ws/v1/sessions".to_owned()).await?;
        let of_rm = list(&sessions["sessions"]).iter().filter(|row| text(row, "rmId") == rm);
        match of_rm.count() {
            1 => {}
            n => return Err(format!("{n} sessions")),
        }
        let (mut books, mut on_nodes) = (Books { epoch, ..Books::default() }, BTreeMap::new());
        for node in list(&page("nodes").await?) {
            for allocation in list(&node["allocations"]) {
                let key = text(allocation, "allocationKey");
                if on_nodes.insert(key.clone(), text(node, "nodeID")).is_some() {
                    return Err(format!("`{key}` is on two nodes"));
                }
            }
        }
        for application in list(&page("applications/active").await?) {
            for allocation in list(&application["allocations"]) {
                books.running.insert(text(allocation, "allocationKey"), text(allocation, "nodeId"));
            }
            for request in list(&application["requests"]) {
                books.pending.insert(text(request, "allocationKey"));
            }
        }
        if on_nodes == books.running {
            Ok(books)
        } else {
            Err(format!("nodes have {on_nodes:?}, applications {:?}", books.running))
        }
    }

    /// The last lines of the logs of all members.
    pub fn logs(&self) -> String {
        const LINES: usize = 30;
        let mut logs = String::new();
        for slot in &self.members {
            let log = std::fs::read_to_string(&slot.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines.len().saturating_sub(LINES);
            logs.extend(["\n", &slot.id, ":\n", &lines[last..].join("\n")]);
        }
        logs
    }
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
