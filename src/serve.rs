//! `monoceros serve`: the scheduler with its edges, from the first listener to the last stream.
//!
//! # Order
//! Every step that a wrong setting can break is tried before anything listens, so that a service
//! that answers is one that runs. Signals are caught before the addresses are printed, because a
//! reader of that line may send a signal at once. At the end the edges stop first and the scheduler
//! last, so that its last messages are sent.
//!
//! # When things go wrong
//! An edge that ends by itself ends the process with an error, and the loss of the scheduler ends
//! it with the exit code 70. A supervisor then starts it again. A service that lacks an edge would
//! look healthy.

use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use monoceros_actors::{Scheduler, SchedulerBuilder, SchedulerHandle, TraceSink};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::cli::{BUILD, ServeArgs};
use crate::cluster::{Listening, Member, MemberEnd, MemberListener};
use crate::connections::descriptors::Descriptors;
use crate::connections::{Connections, Limits};
use crate::files::Refresh;
use crate::identity::Access;
use crate::live_settings::LiveSettings;
use crate::logbook::Logbook;
use crate::logging::LogControl;
use crate::queues_file::{Changes, PolicyFiles, QueuesFile, TextTarget};
use crate::reads::Source;
use crate::rest::WhatIf;
use crate::run_times::RunTimeFile;
use crate::security::Security;
use crate::settings::{Flags, Settings, Values, WrongSettings};
use crate::systemd::Systemd;
use crate::traces::Traces;
use crate::watchdog::{Healthy, Readiness, Watchdog};
use crate::{demo, files, grpc, rest, users};

mod end;
mod report;
#[cfg(feature = "kubernetes")]
pub mod standalone;

use self::end::{Ended, Signals, wrong_arbiter};
use self::report::{announce, log_start, page, report_log};

/// Reads the settings for `args`, and returns them with their values as text.
pub fn settings(args: &ServeArgs) -> anyhow::Result<(Settings, Values)> {
    Ok(Settings::load_with_values(args.config.as_deref(), &flags(args))?)
}

fn flags(args: &ServeArgs) -> Flags {
    Flags { grpc: args.grpc.clone(), http: args.http.clone(), queues: args.queues.clone() }
}

/// A resource manager in this process.
pub struct LocalManager {
    /// Whether the manager has work. Reported by probes.
    pub readiness: watch::Receiver<Readiness>,
    /// Runs the manager until the shutdown begins. Its end is the end of the service.
    pub run: Box<dyn FnOnce(SchedulerHandle, CancellationToken) -> Work + Send>,
}

/// Work of a [`LocalManager`].
pub type Work = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// Runs the service until SIGTERM, SIGINT or an administrator's call, then ends it within
/// `shutdown.grace`. `log` is the log of the process, whose state is reported on standard output
/// and in metrics.
pub async fn run(
    (settings, values): (Settings, Values),
    args: &ServeArgs,
    local_manager: Option<LocalManager>,
    log: LogControl,
) -> anyhow::Result<ExitCode> {
    let queues = match settings.scheduler.queues.as_deref().map(QueuesFile::load).transpose()? {
        // The file has errors, which were printed.
        Some(None) => return Ok(ExitCode::FAILURE),
        queues => queues.flatten(),
    };
    let policies = settings.registration.policy_dir.as_deref();
    let policies = policies.map(PolicyFiles::load).transpose();
    let policies = policies.context("registration.policy_dir")?;
    if local_manager.is_some() && settings.cluster.is_on() {
        return Err(wrong_arbiter());
    }
    let descriptors = Descriptors::raised();
    let traces = Traces::start(&settings.traces).context(WrongSettings)?;
    let handle = start_scheduler(&settings, queues.as_deref(), descriptors, traces.as_ref())?;
    let security = load_security(&settings, args.demo)?;
    let rpc = listen("grpc.address", settings.grpc.address).await?;
    let http = listen("rest.address", settings.rest.address).await?;
    let (rpc_address, http_address) = (rpc.local_addr()?, http.local_addr()?);
    let members = MemberListener::open(&settings).await?;

    for warning in security.warnings(rpc_address, http_address) {
        warn!(%warning, "security");
    }

    let shutdown = CancellationToken::new();
    let hangup = signal(SignalKind::hangup())?;
    let mut sources = security.sources();
    sources.extend(members.iter().flat_map(MemberListener::sources));
    let policy_files = policies.as_ref().map(|(files, _)| Arc::clone(files));
    let watches = settings.scheduler.watch_queues;
    let watchdog = Watchdog::start(&handle).context("the watchdog cannot start")?;
    let systemd = Systemd::from_environment(watchdog.health());
    let systemd = systemd.context("the thread that tells systemd cannot start")?;
    // Computed this late, because most of the service's own files are open by now.
    let [of_rpc, of_http] = connection_limits(&settings, descriptors);
    let rpc = Connections::new(rpc, security.grpc.clone(), shutdown.clone()).limited(of_rpc);
    let http = Connections::new(http, security.rest.clone(), shutdown.clone()).limited(of_http);
    // Set before the first answer: a dashboard may ask at once.
    handle.describe_process(BUILD);
    if let Some(traces) = &traces {
        traces.count_in(&handle);
    }
    let logbook = Logbook::begin(&handle, &settings, &shutdown).await;
    let loaded = (args.config.clone(), flags(args), values);
    let live = LiveSettings::new(loaded, handle.clone(), logbook.clone(), log.clone());
    // The first source, so that a new log filter applies to the log lines of the other sources.
    sources.insert(0, Arc::new(live));
    let edges = JoinSet::new();
    let internal = members.as_ref().map(MemberListener::address).transpose()?;
    let listening =
        (Listening { grpc: rpc_address, rest: http_address, internal }, members.as_ref());
    let member = Member::start(&settings, &handle, watchdog.health(), listening).await?;
    if let Some(member) = &member {
        logbook.cluster.is_by(member.operations());
    }
    let target = match &member {
        Some(member) => TextTarget::Cluster(member.shared_texts()),
        None => TextTarget::Scheduler(handle.clone()),
    };
    sources.extend(keep_queues(queues, policies, watches, &target, &shutdown));
    let mut service =
        Running { settings, handle, traces, shutdown, watchdog, systemd, edges, member };
    let healthy = service.spawn_manager(local_manager);
    let listeners = Listeners { rpc, http, members };
    service.spawn_edges(listeners, logbook, healthy, &security.access, policy_files);
    // From the ready message on, a signal must not kill the process unhandled.
    let signals = Signals::new()?;
    service.systemd.ready(&format!("grpc={rpc_address} http={http_address}"));
    // Started after the ready message: systemd would take an earlier reload for the start.
    let (systemd, stop) = (service.systemd.clone(), service.shutdown.clone());
    tokio::spawn(files::keep_fresh(sources, hangup, systemd, stop));
    let page = page(http_address, security.rest.is_some());
    log_start(&service.settings, args, rpc_address, &page);
    announce(rpc_address, http_address, page);
    let account = report_log(log, service.handle.log_metrics());
    tokio::spawn(service.shutdown.clone().run_until_cancelled_owned(account));
    if args.demo {
        // The service does not depend on the demo.
        tokio::spawn(demo::run(rpc_address, service.shutdown.clone()));
    }
    let end = service.until_end(signals).await;
    service.shut_down().await;
    end.code()
}

/// The scheduler and its edges while they run.
struct Running {
    settings: Settings,
    handle: SchedulerHandle,
    traces: Option<Arc<Traces>>,
    shutdown: CancellationToken,
    watchdog: Watchdog,
    systemd: Systemd,
    edges: JoinSet<anyhow::Result<()>>,
    /// Membership in a cluster, if the settings name an arbiter.
    member: Option<Member>,
}

/// Connections of both edges, and the listener for other members of a cluster.
struct Listeners {
    rpc: Connections,
    http: Connections,
    members: Option<MemberListener>,
}

impl Running {
    /// Runs the resource manager of this process, if any. Returns the health for probes. A member of
    /// a cluster has no such manager.
    fn spawn_manager(&mut self, manager: Option<LocalManager>) -> Healthy {
        let healthy = self.watchdog.health();
        if let Some(member) = &self.member {
            return healthy.ready_by(member.readiness());
        }
        let Some(LocalManager { readiness, run }) = manager else { return healthy };
        let work = run(self.handle.clone(), self.shutdown.clone());
        self.edges.spawn(async move { work.await.context("the resource manager in this process") });
        healthy.ready_by(readiness)
    }

    fn spawn_edges(
        &mut self,
        Listeners { rpc, http, members }: Listeners,
        logbook: Logbook,
        of_probes: Healthy,
        access: &Arc<Access>,
        policy_files: Option<Arc<PolicyFiles>>,
    ) {
        let (handle, shutdown, settings) = self.shared();
        let traces = self.traces.clone();
        let source = Source { logbook, traces, ..Source::new(handle, &settings) };
        if let Some(file) = RunTimeFile::of(&settings) {
            let (handle, shutdown, _) = self.shared();
            self.edges.spawn(async move {
                file.keep(handle, shutdown).await;
                Ok(())
            });
        }
        let whatif = WhatIf::new(settings.whatif, replayed_as(&settings));
        let beside = (source.door.clone(), source.logbook.clone(), whatif);
        let (grpc_access, healthy) = (Arc::clone(access), self.watchdog.health());
        let claims = self.member.as_ref().map(Member::claims);
        let members = members.map(|listener| {
            let (handle, shutdown, settings) = self.shared();
            let (beside, healthy) = (beside.clone(), of_probes.clone());
            let rest = &settings.rest;
            let stop = shutdown.clone();
            let rest = rest::router_of_service(handle, beside, rest, healthy, stop, None);
            listener.into_edge(rest, shutdown)
        });
        let routing = self.member.as_ref().map(Member::routing);
        let of_calls = routing.clone();
        let of_registrations = grpc::RegistrationSources {
            policies: policy_files,
            claims,
            members,
            routing: of_calls,
        };
        self.edges.spawn(async move {
            let served = grpc::serve(
                rpc,
                source,
                grpc_access,
                &settings,
                of_registrations,
                healthy,
                shutdown,
            );
            served.await.context("gRPC edge")
        });
        let (handle, shutdown, settings) = self.shared();
        let access = Arc::clone(access);
        self.edges.spawn(async move {
            let rest = &settings.rest;
            let router =
                rest::router_of_service(handle, beside, rest, of_probes, shutdown, routing);
            let served = rest::serve_clients(http, router, access, rest);
            served.await.context("REST edge")
        });
    }

    fn shared(&self) -> (SchedulerHandle, CancellationToken, Settings) {
        (self.handle.clone(), self.shutdown.clone(), self.settings.clone())
    }

    /// Waits for a reason to end.
    async fn until_end(&mut self, signals: Signals) -> Ended {
        let mut healthy = self.watchdog.health();
        tokio::select! {
            // After the shutdown began, an edge that ends did not end by itself.
            biased;
            signal = signals.wait() => {
                info!(signal, "shutting down");
                Ended::Asked
            }
            () = self.shutdown.cancelled() => {
                info!("shutting down, as an administrator asked");
                Ended::Asked
            }
            Some(ended) = self.edges.join_next() => Ended::Edge(ended),
            () = self.handle.ended() => Ended::SchedulerLost,
            () = healthy.gone() => Ended::SchedulerLost,
            end = member_ended(self.member.as_ref()) => end.into(),
        }
    }

    /// Ends the edges and then the scheduler. Work that takes longer than the grace period is cut
    /// off.
    async fn shut_down(mut self) {
        let grace = self.settings.shutdown.grace();
        let begun = Instant::now();
        if let Some(member) = &self.member {
            // First, so that clients are sent to the members that serve them next.
            member.leave(grace / 2).await;
        }
        self.shutdown.cancel();
        drop(self.watchdog);
        let left = grace.saturating_sub(begun.elapsed());
        let end = async {
            end_edges(&mut self.edges).await;
            self.handle.shutdown().await;
            if let Some(traces) = self.traces.take() {
                traces.end(grace.saturating_sub(begun.elapsed())).await;
            }
        };
        let end = async { tokio::join!(self.systemd.stopping(), end) };
        if timeout(left, end).await.is_err() {
            warn!(grace = ?grace, "streams or connections did not end in time and are cut");
        }
    }
}

/// Waits until the member of this process, if there is one, has ended by itself.
async fn member_ended(member: Option<&Member>) -> MemberEnd {
    match member {
        Some(member) => member.ended().await,
        None => std::future::pending().await,
    }
}

/// Waits for the end of all edges, and logs their errors.
async fn end_edges(edges: &mut JoinSet<anyhow::Result<()>>) {
    while let Some(ended) = edges.join_next().await {
        if let Ok(Err(error)) = ended {
            error!(error = format!("{error:#}"), "an edge ended with an error");
        }
    }
}

fn load_security(settings: &Settings, with_demo: bool) -> anyhow::Result<Security> {
    let security = Security::load(settings).context(WrongSettings)?;
    anyhow::ensure!(
        !with_demo || security.is_open(),
        "--demo speaks without TLS and without a token: it needs a service without `grpc.tls` and \
         `identity.rules`"
    );
    Ok(security)
}

/// Returns the connection limits of gRPC and REST.
fn connection_limits(settings: &Settings, descriptors: Descriptors) -> [Limits; 2] {
    let limits = |served: usize, patience| Limits { patience, ..Limits::serving(served) };
    let (grpc, rest) = (&settings.grpc, &settings.rest);
    descriptors.fitting([
        limits(grpc.max_connections.get(), grpc.body_timeout),
        limits(rest.max_connections.get(), rest.body_timeout),
    ])
}

/// Returns the settings of the scheduler that a replay has, too: those that decide.
fn replayed_as(settings: &Settings) -> SchedulerBuilder {
    let builder = Scheduler::builder().reject_node_updates(settings.nodes.reject_updates);
    let builder = settings.quotas.apply(settings.limits.apply(builder));
    let builder = settings.applications.apply(settings.asks.apply(builder));
    settings.scheduler.apply(builder)
}

fn start_scheduler(
    settings: &Settings,
    queues: Option<&QueuesFile>,
    descriptors: Descriptors,
    traces: Option<&Arc<Traces>>,
) -> anyhow::Result<SchedulerHandle> {
    let queues = queues.map(QueuesFile::text).unwrap_or_default();
    let mut builder = replayed_as(settings);
    if let Some(threads) = descriptors.partition_threads() {
        builder = builder.partition_threads(threads);
    }
    let builder =
        builder.ingress_items(settings.session.ingress().items.get()).default_queues(&*queues);
    let builder = settings.metrics.apply(settings.decisions.apply(builder));
    let mut builder = settings.run_times.apply(builder);
    if let Some(file) = RunTimeFile::of(settings) {
        builder = builder.known_run_times(file.read()?);
    }
    let builder = builder.events(settings.event.of_scheduler());
    let mut builder = users::apply(&settings.users, &queues, builder).context("users")?;
    if let Some(traces) = traces {
        builder = builder.traces(settings.traces.ratio, Arc::clone(traces) as Arc<dyn TraceSink>);
    }
    builder.start().context("the scheduler cannot start")
}

/// Starts the tasks that apply the queue files, and returns the sources to read at SIGHUP.
fn keep_queues(
    queues: Option<Arc<QueuesFile>>,
    policies: Option<(Arc<PolicyFiles>, Changes)>,
    watches: bool,
    target: &TextTarget,
    shutdown: &CancellationToken,
) -> Vec<Arc<dyn Refresh>> {
    let mut sources: Vec<Arc<dyn Refresh>> = Vec::new();
    if let Some(queues) = queues {
        sources.push(Arc::clone(&queues) as Arc<dyn Refresh>);
        tokio::spawn(Arc::clone(&queues).keep_in_force(target.clone(), shutdown.clone()));
        if watches {
            tokio::spawn(queues.watch(shutdown.clone()));
        }
    }
    if let Some((policies, changes)) = policies {
        sources.push(Arc::clone(&policies) as Arc<dyn Refresh>);
        let kept = Arc::clone(&policies);
        tokio::spawn(changes.keep_in_force(kept, target.clone(), shutdown.clone()));
        if watches {
            tokio::spawn(policies.watch(shutdown.clone()));
        }
    }
    sources
}

async fn listen(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} ({key})"))
}

#[cfg(test)]
mod tests {
    use monoceros_actors::ResourceManagerCallback;
    use monoceros_proto::si::v1 as si;

    use super::*;

    /// A callback that ends the actor system that calls it, and the front with it.
    struct Deadly;

    impl ResourceManagerCallback for Deadly {
        fn update_allocation(&self, _: si::AllocationResponse) {}

        fn update_application(&self, _: si::ApplicationResponse) {}

        fn update_node(&self, _: si::NodeResponse) {
            actix::System::current().stop();
        }
    }

    #[tokio::test]
    async fn a_lost_front_ends_with_its_own_code() {
        let settings = Settings::load(None, &Flags::default()).unwrap();
        let handle = start_scheduler(&settings, None, Descriptors::raised(), None).unwrap();
        let watchdog = Watchdog::start(&handle).unwrap();
        let mut healthy = watchdog.health();
        let (shutdown, edges) = (CancellationToken::new(), JoinSet::new());
        let systemd = Systemd::nobody();
        let engine = handle.clone();
        let (traces, member) = (None, None);
        let mut service = Running {
            settings,
            handle: engine,
            traces,
            shutdown,
            watchdog,
            systemd,
            edges,
            member,
        };
        let rm_id = "rm".to_owned();
        let registration = si::RegisterResourceManagerRequest {
            rm_id: rm_id.clone(),
            version: "test".to_owned(),
            policy_group: "queues".to_owned(),
            ..Default::default()
        };
        handle.register_resource_manager(registration, Arc::new(Deadly)).await.unwrap();
        let node = si::NodeInfo {
            node_id: "n1".to_owned(),
            action: si::node_info::ActionFromRm::Create.into(),
            ..Default::default()
        };
        let nodes = si::NodeRequest { rm_id, nodes: vec![node], ..Default::default() };
        handle.update_node(nodes).await.unwrap();
        let end = service.until_end(Signals::new().unwrap()).await;
        healthy.gone().await;
        service.shut_down().await;
        let code = end.code().unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(70)));
    }
}
