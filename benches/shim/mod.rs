//! A resource manager in this process that counts its answers, for benchmarks without the network.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "every benchmark uses a part of this"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{
    AllocationNotices, PredicateAnswer, PredicateQuestion, ResourceManagerCallback, ScaleUpNotice,
    Scheduler, SchedulerBuilder, SchedulerHandle, Scope, Threads, Verdict,
};
use monoceros_proto::si::v1 as si;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Counts allocations and wakes a task that waits for a number of them.
#[derive(Default)]
pub struct Counter {
    allocated: AtomicU64,
    wanted: AtomicU64,
    reached: Notify,
    running: AtomicU64,
    /// Requests in the last scale-up signal.
    waiting: AtomicU64,
    last: Mutex<Option<(Arc<str>, Arc<str>)>>,
    /// Whether it is notified by messages, as an RM that does not implement `allocations`.
    wants_messages: bool,
}

impl Counter {
    fn count_new(&self, new: usize, others: &si::AllocationResponse) {
        assert!(others.rejected.is_empty(), "{:?}", others.rejected.first());
        let new = new as u64;
        let before = self.allocated.fetch_add(new, Ordering::AcqRel);
        let wanted = self.wanted.load(Ordering::Acquire);
        if before < wanted && before + new >= wanted {
            self.reached.notify_one();
        }
    }
}

impl ResourceManagerCallback for Counter {
    fn update_allocation(&self, response: si::AllocationResponse) {
        if let Some(last) = response.new.last() {
            let names = (&*last.application_id, &*last.allocation_key);
            *self.last.lock().unwrap() = Some((Arc::from(names.0), Arc::from(names.1)));
        }
        self.count_new(response.new.len(), &response);
    }
    fn allocations(&self, notices: AllocationNotices<'_>) {
        if self.wants_messages {
            return self.update_allocation(notices.into_message());
        }
        if let Some(last) = notices.new_allocations().last() {
            let names = (last.application_id(), last.allocation_key());
            *self.last.lock().unwrap() = Some((Arc::clone(names.0), Arc::clone(names.1)));
        }
        self.count_new(notices.new_allocations().len(), notices.others());
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        let running = response.updated.iter().filter(|application| application.state == "Running");
        self.running.fetch_add(running.count() as u64, Ordering::AcqRel);
    }
    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
    fn scale_up_notice(&self, wanted: ScaleUpNotice) {
        let reported = if self.wants_messages {
            wanted.into_message().len()
        } else {
            wanted.requests().count()
        };
        self.waiting.fetch_add(reported as u64, Ordering::AcqRel);
    }

    /// The first candidate passes at once and is assumed, as with a shim that has a cache.
    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let Some(sink) = questions.first().map(|question| question.answers.clone()) else { return };
        let verdict = Verdict::Passed { position: 0, scope: Scope::Node, assumed: true };
        let answer =
            |PredicateQuestion { id, .. }| PredicateAnswer { id, verdict: verdict.clone() };
        sink.answer(questions.into_iter().map(answer).collect());
    }
}

/// The scheduler with the resource manager `bench`.
pub struct Shim {
    pub scheduler: SchedulerHandle,
    counter: Arc<Counter>,
}

impl Shim {
    pub async fn start(config: &str, threads: Threads) -> Self {
        Self::start_with(Scheduler::builder().threads(threads), config).await
    }

    /// Starts it with a scheduler that the caller has configured.
    pub async fn start_with(builder: SchedulerBuilder, config: &str) -> Self {
        Self::start_told(builder, config, false).await
    }

    /// Starts it with notification of allocations by messages, or before messages are made.
    pub async fn start_told(builder: SchedulerBuilder, config: &str, wants_messages: bool) -> Self {
        Self::register(builder.start().unwrap(), config, wants_messages).await
    }

    /// Starts it with every actor on this thread, in a `LocalSet`.
    pub async fn start_local(builder: SchedulerBuilder, config: &str) -> Self {
        Self::register(builder.start_local().unwrap(), config, false).await
    }

    async fn register(scheduler: SchedulerHandle, config: &str, wants_messages: bool) -> Self {
        let counter = Arc::new(Counter { wants_messages, ..Counter::default() });
        let request = si::RegisterResourceManagerRequest {
            rm_id: "bench".into(),
            config: config.into(),
            ..Default::default()
        };
        let callback = Arc::clone(&counter);
        scheduler.register_resource_manager(request, callback).await.unwrap();
        Self { scheduler, counter }
    }

    /// Adds equal nodes.
    pub async fn nodes(&self, count: usize, capacity: &[(&str, i64)]) {
        self.nodes_named("node", count, capacity).await;
    }

    /// Adds equal nodes, named after `prefix`.
    pub async fn nodes_named(&self, prefix: &str, count: usize, capacity: &[(&str, i64)]) {
        for from in (0..count).step_by(1_000) {
            let nodes = (from..count.min(from + 1_000)).map(|number| si::NodeInfo {
                node_id: format!("{prefix}-{number:06}"),
                action: si::node_info::ActionFromRm::Create as i32,
                schedulable_resource: Some(resource(capacity)),
                ..Default::default()
            });
            let nodes = nodes.collect();
            let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
            self.scheduler.update_node(request).await.unwrap();
        }
    }

    /// Removes the nodes of [`Self::nodes`].
    pub async fn remove_nodes(&self, count: usize) {
        for from in (0..count).step_by(1_000) {
            let nodes = (from..count.min(from + 1_000)).map(|number| si::NodeInfo {
                node_id: format!("node-{number:06}"),
                action: si::node_info::ActionFromRm::Decomission as i32,
                ..Default::default()
            });
            let nodes = nodes.collect();
            let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
            self.scheduler.update_node(request).await.unwrap();
        }
    }

    /// Removes the applications of [`Self::applications`] with their allocations.
    pub async fn remove_applications(&self, count: usize) {
        let remove = (0..count).map(|number| si::RemoveApplicationRequest {
            application_id: format!("app-{number:06}"),
            ..Default::default()
        });
        let remove = remove.collect();
        let request =
            si::ApplicationRequest { rm_id: "bench".into(), remove, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    /// Submits application `n` to the queue `queue(n)`.
    pub async fn applications(&self, count: usize, queue: impl Fn(usize) -> String) {
        self.applications_of(count, queue, |_| ("bench".to_owned(), vec![])).await;
    }

    /// Submits application `n` to the queue `queue(n)` for the user and groups `owner(n)`.
    pub async fn applications_of(
        &self,
        count: usize,
        queue: impl Fn(usize) -> String,
        owner: impl Fn(usize) -> (String, Vec<String>),
    ) {
        let new = (0..count).map(|number| {
            let (user, groups) = owner(number);
            si::AddApplicationRequest {
                application_id: format!("app-{number:06}"),
                queue_name: queue(number),
                ugi: Some(si::UserGroupInformation { user, groups }),
                ..Default::default()
            }
        });
        let new = new.collect();
        let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    /// Sends the requests of [`ask_requests`].
    pub async fn asks(
        &self,
        prefix: &str,
        total: usize,
        applications: usize,
        size: &[(&str, i64)],
    ) {
        self.send(ask_requests(prefix, total, applications, size)).await;
    }

    /// Sends these requests one after another.
    pub async fn send(&self, requests: impl IntoIterator<Item = si::AllocationRequest>) {
        for request in requests {
            self.scheduler.update_allocation(request).await.unwrap();
        }
    }

    /// Returns the number of requests in the last scale-up signal.
    pub fn told_waiting(&self) -> u64 {
        self.counter.waiting.load(Ordering::Acquire)
    }

    /// Sets the number of allocations that [`Self::all_allocated`] waits for.
    pub fn expect(&self, more: usize) {
        let so_far = self.counter.allocated.load(Ordering::Acquire);
        self.counter.wanted.store(so_far + more as u64, Ordering::Release);
    }

    pub async fn all_allocated(&self) {
        let reached = self.counter.reached.notified();
        tokio::time::timeout(Duration::from_secs(120), reached).await.expect("everything fits");
    }

    /// Returns the number of applications that have started.
    pub fn running(&self) -> u64 {
        self.counter.running.load(Ordering::Acquire)
    }

    /// Returns application and key of the last allocation.
    fn take_last(&self) -> (Arc<str>, Arc<str>) {
        self.counter.last.lock().unwrap().take().expect("something was allocated")
    }

    /// Removes the application of the last allocation.
    pub async fn remove_last(&self) {
        let (application, _) = self.take_last();
        let application_id = application.to_string();
        let remove = vec![si::RemoveApplicationRequest { application_id, ..Default::default() }];
        let request =
            si::ApplicationRequest { rm_id: "bench".into(), remove, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    /// Releases the last allocation.
    pub async fn release_last(&self) {
        let (application_id, allocation_key) = self.take_last();
        let release = si::AllocationRelease {
            application_id: application_id.to_string(),
            allocation_key: allocation_key.to_string(),
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        };
        self.release(release).await;
    }

    /// Releases an allocation.
    pub async fn release(&self, release: si::AllocationRelease) {
        let allocations_to_release = vec![release];
        let releases =
            Some(si::AllocationReleasesRequest { allocations_to_release, ..Default::default() });
        let request =
            si::AllocationRequest { rm_id: "bench".into(), releases, ..Default::default() };
        self.scheduler.update_allocation(request).await.unwrap();
    }
}

/// Makes `total` asks named after `prefix`, in blocks of equal size over the applications, a
/// thousand per message.
pub fn ask_requests(
    prefix: &str,
    total: usize,
    applications: usize,
    size: &[(&str, i64)],
) -> impl Iterator<Item = si::AllocationRequest> {
    let wanted = resource(size);
    let ask = move |number| si::AllocationAsk {
        allocation_key: format!("{prefix}-{number:07}"),
        application_id: format!("app-{:06}", number * applications / total),
        resource_ask: Some(wanted.clone()),
        max_allocations: 1,
        ..Default::default()
    };
    (0..total).step_by(1_000).map(move |from| si::AllocationRequest {
        rm_id: "bench".into(),
        asks: (from..total.min(from + 1_000)).map(&ask).collect(),
        ..Default::default()
    })
}

/// Makes an amount from names.
pub fn resource(amounts: &[(&str, i64)]) -> si::Resource {
    let quantity = |&(name, value): &(&str, i64)| (name.to_owned(), si::Quantity { value });
    si::Resource { resources: amounts.iter().map(quantity).collect() }
}

/// Wall and CPU time of one run.
pub struct Measured {
    pub wall: Duration,
    pub cpu: Duration,
}

/// The start of a run, in wall and CPU time.
pub struct Clock(Instant, Duration);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now(), cpu_time())
    }

    pub fn took(self) -> Measured {
        Measured { wall: self.0.elapsed(), cpu: cpu_time().saturating_sub(self.1) }
    }
}

/// Returns the CPU time of all threads of this process so far.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

/// Returns the CPU time of this thread so far.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Returns the number of voluntary context switches of this process so far.
pub fn context_switches() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).unwrap().voluntary_context_switches()
}

/// Returns the memory in use in KiB.
pub fn resident_kib() -> u64 {
    status_kib("VmRSS:")
}

/// Returns the peak of the memory in use in KiB.
pub fn peak_kib() -> u64 {
    status_kib("VmHWM:")
}

fn status_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the median.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
