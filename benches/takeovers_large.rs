//! Takeovers of resource managers with 10,000 and 140,000 allocations: how long one is not served
//! after its owner is killed, or while it is moved in order; and how many of its asks and
//! allocations are lost or placed twice.
//!
//! `cargo bench --bench takeovers_large` measures 100 of each kind; `-- 20` another number, `--
//! 140,000 killed` the rows with these words. The resource manager uses the Rust client library
//! with its defaults. It asks for a container every 15 ms and releases the oldest one, also while
//! nobody serves it. Making the report of its state is a part of a takeover. Needs etcd:
//! `MONOCEROS_ETCD_PACKAGED=PROGRAM` names it, and `MONOCEROS_ETCD=install` unpacks Debian's. See
//! docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;
mod allocator;
mod books;
mod members;
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../cluster/store/tests/etcd/servers.rs"]
mod servers;
mod service;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_client::{Client, Event, Events, Options};
use monoceros_proto::v1;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tonic::transport::Endpoint;

use crate::aims::at_most;
use crate::books::{Books, NodeRow, Shape};
use crate::members::{Members, PATIENCE, get};

const RM: &str = "bench";
/// Members of the cluster, as long as none is lost.
const MEMBERS: usize = 3;
/// Time between two asks.
const TICK: Duration = Duration::from_millis(15);
/// Time between two moves. After several sessions of less than a second, clients pause.
const BETWEEN_MOVES: Duration = Duration::from_millis(1_200);
/// Takeovers between two comparisons of the books.
const BETWEEN_BOOKS: usize = 25;
const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

const SHAPES: [Shape; 2] = [
    Shape {
        name: "500 nodes, 10,000 allocations",
        nodes: 500,
        applications: 100,
        allocations: 10_000,
        killed: 0.3,
        moved: 0.1,
    },
    Shape {
        name: "5,000 nodes, 140,000 allocations",
        nodes: 5_000,
        applications: 1_400,
        allocations: 140_000,
        killed: 1.2,
        moved: 1.0,
    },
];

#[derive(Clone, Copy, Debug)]
enum Cause {
    /// The owner is killed. A new member takes its place afterwards.
    Killed,
    /// The resource manager is moved to another member.
    Moved,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "owner killed",
            Self::Moved => "moved",
        }
    }
}

/// The resource manager. Clones are the same one.
#[derive(Clone)]
struct Rm {
    books: Arc<Mutex<Books>>,
    news: Arc<Notify>,
}

impl Rm {
    /// Starts a resource manager that knows all members.
    fn start(shape: &'static Shape, members: &Members) -> Self {
        let rm = Self { books: Arc::new(Mutex::new(Books::new(shape))), news: Arc::default() };
        let endpoint =
            |at: usize| Endpoint::from_shared(members.all[at].service.address.clone()).unwrap();
        let options = Options::new(endpoint(0), RM).queues(QUEUES);
        let options = (1..MEMBERS).fold(options, |options, at| options.endpoint(endpoint(at)));
        let reporting = rm.clone();
        let (client, events) = Client::start(options, move || reporting.books().report());
        tokio::spawn(rm.clone().receive(events));
        tokio::spawn(rm.clone().ask(client));
        rm
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    async fn receive(self, mut events: Events) {
        while let Some(event) = events.next().await {
            match event {
                Event::Registered { session, .. } => self.books().session = session,
                Event::Allocations(reply) => self.books().take(reply),
                Event::Nodes(reply) => assert!(reply.rejected.is_empty(), "{reply:?}"),
                Event::Applications(reply) => assert!(reply.rejected.is_empty(), "{reply:?}"),
                Event::Disconnected(_) => {}
                Event::Ended(status) => panic!("{status:?}"),
            }
            self.news.notify_waiters();
        }
    }

    async fn ask(self, client: Client) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (asks, releases) = self.books().orders();
            if !asks.is_empty() {
                client.ask(asks).await.unwrap();
            }
            if !releases.is_empty() {
                client.release(releases).await.unwrap();
            }
        }
    }

    /// Waits until the books are as wanted.
    async fn until(&self, what: &str, reached: impl Fn(&Books) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                if reached(&self.books()) {
                    return;
                }
                news.await;
            }
        };
        assert!(timeout(PATIENCE, wait).await.is_ok(), "not {what} within {PATIENCE:?}");
    }
}

/// Times of the takeovers of a row.
#[derive(Default)]
struct Times {
    /// Seconds from the cause to the first new allocation.
    took: Vec<f64>,
    /// Seconds of that for making the report.
    reporting: Vec<f64>,
}

struct Game {
    members: Members,
    rm: Rm,
}

impl Game {
    async fn start(shape: &'static Shape) -> Option<Self> {
        let mut members = Members::on_etcd().await?;
        for _ in 0..MEMBERS {
            members.start_one().await;
        }
        members.until_known().await;
        let rm = Rm::start(shape, &members);
        rm.until("known", |books| books.session > 0 && books.is_at_rest()).await;
        rm.books().is_paused = false;
        Some(Self { members, rm })
    }

    async fn measure(&mut self, cause: Cause, n: usize) -> Times {
        let mut times = Times::default();
        for number in 1..=n {
            self.rm.until("served", |books| books.served.0 == books.session).await;
            let owner = self.members.owner_of(RM).await;
            let before = self.rm.books().session;
            let begun = match cause {
                Cause::Killed => {
                    let begun = Instant::now();
                    self.members.all[owner].service.kill();
                    begun
                }
                Cause::Moved => self.move_from(owner).await,
            };
            self.rm.until("served again", |books| books.served.0 > before).await;
            let (served, reporting) = {
                let books = self.rm.books();
                (books.served.1, books.reporting)
            };
            times.took.push(served.saturating_duration_since(begun).as_secs_f64());
            times.reporting.push(reporting.as_secs_f64());
            self.rm.until("answered", |books| books.n_unanswered == 0).await;
            if matches!(cause, Cause::Killed) {
                self.members.all.remove(owner);
                self.members.start_one().await;
                self.members.until_known().await;
            } else {
                sleep(BETWEEN_MOVES).await;
            }
            if number % BETWEEN_BOOKS == 0 || number == n {
                self.compare().await;
            }
        }
        times
    }

    /// Moves the resource manager to the next member. Returns the time of the call.
    async fn move_from(&self, owner: usize) -> Instant {
        let to = self.members.all[(owner + 1) % MEMBERS].id.clone();
        let address = self.members.all[owner].service.address.clone();
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let mut admin = AdminServiceClient::new(channel);
        let (rm_id, reason) = (RM.to_owned(), String::new());
        let request = v1::MoveResourceManagerRequest { rm_id, to, reason };
        let since = Instant::now();
        loop {
            let begun = Instant::now();
            match admin.move_resource_manager(request.clone()).await {
                Ok(_) => return begun,
                Err(status) => assert!(since.elapsed() < PATIENCE, "{status}"),
            }
            // Refused while a registration is under way.
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Lets the resource manager rest, and compares its books with those of its owner.
    async fn compare(&self) {
        self.rm.books().is_paused = true;
        self.rm.until("at rest", Books::is_at_rest).await;
        let owner = &self.members.all[self.members.owner_of(RM).await];
        let path = format!("/ws/v1/partition/%5B{RM}%5Ddefault/nodes");
        let (status, body) = get(&owner.service.rest, &path).await;
        assert_eq!(status, 200, "{body}");
        let nodes: Vec<NodeRow> = serde_json::from_str(&body).unwrap();
        let mut books = self.rm.books();
        books.compare(&nodes);
        books.is_paused = false;
    }
}

/// The value below which this share of the values is.
fn at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let rank = (values.len() as f64 * share).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let number = words.iter().find_map(|word| word.parse::<usize>().ok());
    let words: Vec<_> = words.iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let is_wanted = |row: &str| words.iter().all(|word| row.contains(word.as_str()));
    println!(
        "| resource manager | cause | takeovers | p50, s | p99, s | worst, s | of that its report, p50, s | aim: p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let (mut lost, mut doubled) = (Vec::new(), Vec::new());
    for shape in &SHAPES {
        let row = |cause: Cause| format!("{} {}", shape.name, cause.name());
        let mut causes = vec![(Cause::Killed, shape.killed), (Cause::Moved, shape.moved)];
        causes.retain(|(cause, _)| is_wanted(&row(*cause)));
        if causes.is_empty() {
            continue;
        }
        // The tasks of a resource manager end with it.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let Some(mut game) = runtime.block_on(Game::start(shape)) else {
            return ExitCode::FAILURE;
        };
        for (cause, aim) in causes {
            let mut times = runtime.block_on(game.measure(cause, number.unwrap_or(100)));
            let [median, late, worst] = [0.5, 0.99, 1.0].map(|share| at(&mut times.took, share));
            let (late, reporting) = (at_most(late, aim, 2), at(&mut times.reporting, 0.5));
            println!(
                "| {} | {} | {} | {median:.2} | {late} | {worst:.2} | {reporting:.2} | {aim} |",
                shape.name,
                cause.name(),
                times.took.len(),
            );
        }
        let mut books = game.rm.books();
        lost.append(&mut books.lost);
        doubled.append(&mut books.doubled);
    }
    println!("| lost: {}, doubled: {} | | | | | | | |", lost.len(), doubled.len());
    if lost.is_empty() && doubled.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("lost: {lost:#?}\ndoubled: {doubled:#?}");
    ExitCode::FAILURE
}
