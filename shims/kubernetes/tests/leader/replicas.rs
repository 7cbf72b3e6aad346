//! Replicas that compete for a lease. At no time may two of them act.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use monoceros_kubernetes::leader::{Lead, Leadership};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::stub::{Leases, QUICK, Trip};

/// Interval between checks of who may act.
const STEP: Duration = Duration::from_millis(10);
/// Duration of the lease.
pub const LEASE: Duration = Duration::from_secs(20);

/// Runs a test in virtual time.
pub fn in_virtual_time(test: impl Future<Output = ()>) {
    crate::log::keep();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(test);
}

/// Virtual time, as the replicas see it.
fn clock() -> Duration {
    thread_local! {
        static BEGUN: Instant = Instant::now();
    }
    Duration::from_secs(1_000) + BEGUN.with(Instant::elapsed)
}

pub struct Replica {
    pub lease: Arc<Leadership>,
    pub stop: CancellationToken,
    /// Does not run, as after SIGSTOP. Its requests in flight continue.
    pub is_paused: bool,
    /// Has ended.
    pub is_over: bool,
    hold: Pin<Box<dyn Future<Output = ()>>>,
}

impl Replica {
    pub fn leads(&self) -> bool {
        *self.lease.lead().borrow() == Lead::Own
    }

    pub fn lead(&self) -> Lead {
        self.lease.lead().borrow().clone()
    }
}

/// Replicas and their server.
#[derive(Default)]
pub struct Replicas {
    pub leases: Leases,
    pub all: Vec<Replica>,
}

impl Replicas {
    /// Adds a replica with this connection. Returns its number.
    pub fn add(&mut self, way: impl Fn(&str) -> Trip + Send + Sync + 'static) -> usize {
        let number = self.all.len();
        let replica = self.replica(&format!("r{number}"), LEASE, way);
        self.all.push(replica);
        number
    }

    /// Adds a replica that reaches the server at once.
    pub fn add_quick(&mut self) -> usize {
        self.add(|_| QUICK)
    }

    pub fn replica(
        &self,
        identity: &str,
        duration: Duration,
        way: impl Fn(&str) -> Trip + Send + Sync + 'static,
    ) -> Replica {
        let client = self.leases.client(Box::new(way));
        let lease = Leadership::with_clock(client, "monoceros", "lease", identity, duration, clock);
        let stop = CancellationToken::new();
        let hold = Box::pin(Arc::clone(&lease).hold(stop.clone()));
        Replica { lease, stop, is_paused: false, is_over: false, hold }
    }

    /// Lets time pass.
    pub async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let mut step = pin!(sleep(STEP));
            poll_fn(|context| {
                for replica in self.all.iter_mut().filter(|one| !one.is_paused && !one.is_over) {
                    replica.is_over = replica.hold.as_mut().poll(context).is_ready();
                }
                match step.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await;
            let acting = self.all.iter().filter(|replica| replica.lease.may_act()).count();
            assert!(acting <= 1, "{acting} may act at once, at {:?}", clock());
        }
    }

    /// Lets time pass until the condition holds, at most this long. Returns how long it took.
    pub async fn until(&mut self, longest: Duration, is_so: impl Fn(&Self) -> bool) -> Duration {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < longest, "it does not come to be");
            self.pass(STEP).await;
        }
        begun.elapsed()
    }
}
