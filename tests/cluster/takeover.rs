//! The client library, whose owner is killed or frozen: it goes on at another member.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use monoceros_client::callback::PredicateQuery;
use monoceros_client::{Callbacks, Client, Event, Events, Fit, Options, Report, si};

use super::*;
use crate::harness::{application, node};

/// Allocations before the owner is lost.
const RUNNING: usize = 1_000;
const NODES: usize = 50;

/// Lets everything pass.
struct Anywhere;

impl Callbacks for Anywhere {
    fn fits(&self, _: &PredicateQuery, _: &str) -> Fit {
        Fit::Yes
    }
}

/// A program that keeps its asks and allocations.
struct Program {
    client: Client,
    events: Events,
    known: Arc<Mutex<BTreeMap<String, si::Allocation>>>,
    sessions: Vec<u64>,
    losses: Vec<String>,
}

impl Program {
    fn start(members: &[Service; 3]) -> Self {
        let known: Arc<Mutex<BTreeMap<String, si::Allocation>>> = Arc::default();
        let of_state = Arc::clone(&known);
        let state = move || Report {
            nodes: (0..NODES).map(|n| node(&format!("n{n}"), 100_000, 100)).collect(),
            applications: vec![application("app", "root.a")],
            allocations: of_state.lock().unwrap().values().cloned().collect(),
        };
        let address = format!("http://{}", members[0].grpc);
        let options = Options::at(address, "library").unwrap().queues(QUEUES).callbacks(Anywhere);
        let (client, events) = Client::start(options, state);
        Self { client, events, known, sessions: Vec::new(), losses: Vec::new() }
    }

    async fn ask(&self, keys: impl Iterator<Item = String>) {
        let asks: Vec<_> = keys.map(|key| ask("app", &key)).collect();
        let by_key = asks.iter().map(|ask| (ask.allocation_key.clone(), ask.clone()));
        self.known.lock().unwrap().extend(by_key);
        self.client.ask(asks).await.unwrap();
    }

    /// Waits until `n` asks are placed. Each is placed once.
    async fn placed(&mut self, n: usize) {
        let all_placed = async {
            let mut placed = 0;
            while placed < n {
                match self.events.next().await.expect("the client goes on") {
                    Event::Allocations(reply) => {
                        assert!(reply.rejected_allocations.is_empty(), "{reply:?}");
                        for new in reply.new {
                            let mut known = self.known.lock().unwrap();
                            let ask = known.get_mut(&new.allocation_key).unwrap();
                            // A reported allocation is confirmed in the same way.
                            if ask.node_id.is_empty() {
                                *ask = new;
                                placed += 1;
                            } else {
                                assert_eq!(ask.node_id, new.node_id, "placed twice: {new:?}");
                            }
                        }
                    }
                    Event::Registered { session, .. } => self.sessions.push(session),
                    Event::Disconnected(status) => self.losses.push(status.message().to_owned()),
                    Event::Ended(status) => panic!("{status:?}"),
                    Event::Nodes(_) | Event::Applications(_) => {}
                }
            }
        };
        let in_time = timeout(PATIENCE, all_placed).await.is_ok();
        assert!(in_time, "sessions {:?}, losses {:?}", self.sessions, self.losses);
    }

    /// Asks for one more container. Returns how long it took.
    async fn one_more(&mut self, key: &str) -> Duration {
        let begun = Instant::now();
        self.ask([key.to_owned()].into_iter()).await;
        self.placed(1).await;
        begun.elapsed()
    }
}

/// The member that opened the present session.
fn owner<'m>(members: &'m [Service; 3], program: &Program) -> &'m Service {
    let session = format!("session={}", program.sessions.last().unwrap());
    let opened =
        |line: &str| line.contains("resource manager registered") && line.contains(&session);
    let opened = |member: &&Service| member.log().lines().any(&opened);
    members.iter().find(opened).expect("a member has logged the registration")
}

/// Starts members and a program with running allocations.
async fn running(bed: &Bed) -> ([Service; 3], Program) {
    let members = bed.three().await;
    let mut program = Program::start(&members);
    program.ask((0..RUNNING).map(|n| format!("a{n}"))).await;
    program.placed(RUNNING).await;
    (members, program)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_replaces_a_killed_owner_at_once() {
    let Some(bed) = Bed::new().await else { return };
    let (members, mut program) = running(&bed).await;
    owner(&members, &program).send_signal("-KILL");
    let taken = program.one_more("next").await;
    assert!(taken < LEASE / 2, "{taken:?}, losses {:?}", program.losses);
    program.one_more("another").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_replaces_a_frozen_owner_and_gets_nothing_from_it() {
    let Some(bed) = Bed::new().await else { return };
    let (members, mut program) = running(&bed).await;
    let frozen = owner(&members, &program);
    frozen.send_signal("-STOP");
    let taken = program.one_more("next").await;
    assert!(taken < LEASE * 3 / 4, "{taken:?}, losses {:?}", program.losses);
    sleep(LEASE).await;
    frozen.send_signal("-CONT");
    sleep(LEASE / 3).await;
    program.one_more("another").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longer_lease_of_a_lost_owner_is_waited_for() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start_with("m1", &[("CLUSTER__LEASE", "10s")]);
    until_ready(&m1).await;
    assert_eq!(register(&m1, "rm", None).await.unwrap(), 1);
    let m2 = bed.start("m2");
    acquainted(&[&m1, &m2]).await;
    m1.send_signal("-KILL");
    let begun = Instant::now();
    let (session, reasons) = register_until_served(&m2, "rm").await;
    assert_eq!(session, 2, "{reasons:?}");
    // Its last renewal was a fifth of its lease ago at most.
    assert!(begun.elapsed() > Duration::from_secs(7), "{:?}", begun.elapsed());
}
