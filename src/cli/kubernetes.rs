//! `monoceros kubernetes`: the service with a Kubernetes cluster as its resource manager, or that
//! resource manager alone for a scheduler in another process.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use monoceros_actors::SchedulerHandle;
use monoceros_kubernetes::act::{ApiSettings, Victims};
use monoceros_kubernetes::connect as cluster;
use monoceros_kubernetes::engine::{Embedded, Engine, Remote, Service};
use monoceros_kubernetes::leader::boot_time;
use monoceros_kubernetes::meters::Meters;
use monoceros_kubernetes::run::{self, Options, ReplicaState};
use monoceros_kubernetes::shim::{Notification, SharedScene};
use monoceros_kubernetes::translate::Mapping;
use nix::unistd::gethostname;
use prometheus::Registry;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::connect::{self, ConnectArgs};
use super::output::WrongLine;
use super::{ServeArgs, in_runtime};
use crate::serve::standalone::{self, StandaloneManager};
use crate::serve::{self, LocalManager};
use crate::settings::{self, KubernetesSettings, object_name};
use crate::watchdog::Readiness;

/// The variable with the name of the process's pod.
const POD_NAME: &str = "POD_NAME";
/// The variable with the namespace of that pod.
const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// Default id of the cluster as a resource manager.
const RM_ID: &str = "kubernetes";

/// Arguments of `monoceros kubernetes`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KubernetesArgs {
    /// How to reach the cluster; default: KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Schedule pods with this `schedulerName`; may be given several times
    #[arg(long = "scheduler-name", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    scheduler_names: Vec<String>,
    /// The Lease by which one of several replicas schedules
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    lease: Option<String>,
    /// Settings file (TOML); the defaults apply to what it does not mention
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Speak to the scheduler at this address, and run none: `--ca` and the others say how
    #[arg(long, value_name = "http://HOST:PORT")]
    scheduler: Option<String>,
    /// Queue configuration (YAML) where no ConfigMap has one
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Where to listen for gRPC; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    grpc: Option<String>,
    /// Where to listen for HTTP; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    http: Option<String>,
}

impl KubernetesArgs {
    fn of_service(&self) -> ServeArgs {
        let Self { config, queues, grpc, http, .. } = self.clone();
        ServeArgs { config, queues, grpc, http, demo: false }
    }
}

/// Runs the service for a cluster, or only the resource manager for a scheduler in another process.
pub(super) fn run(args: &KubernetesArgs, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let service = args.of_service();
    if let Some(scheduler) = &args.scheduler {
        let remote = remote(args, connect, scheduler)?;
        let (settings, _) = serve::settings(&service)?;
        let log = settings.log.clone();
        return in_runtime(&log, async |_| {
            let standalone_manager =
                standalone_manager(args, settings.kubernetes.clone(), remote).await?;
            standalone::run(settings, standalone_manager).await
        });
    }
    if let Some(flag) = connect.given().into_iter().find(|id| *id != "grpc") {
        let text =
            format!("--{flag} says how a scheduler elsewhere is spoken to: it needs --scheduler");
        return Err(WrongLine(text).into());
    }
    super::run_service(&service, async |settings| {
        local_manager(args, settings.kubernetes.clone()).await.map(Some)
    })
}

/// Returns the scheduler in another process. Fails if flags ask for one in this process, too.
fn remote(
    args: &KubernetesArgs,
    connect: &ConnectArgs,
    scheduler: &str,
) -> anyhow::Result<Service> {
    let wrong = |text: &str| anyhow::Error::from(WrongLine(text.to_owned()));
    if args.grpc.is_some() {
        return Err(wrong(
            "--grpc is where a scheduler listens, and with --scheduler none runs here",
        ));
    }
    if args.queues.is_some() {
        return Err(wrong(
            "--queues is read by a scheduler, and with --scheduler none runs here: give it to that one, or \
             have a ConfigMap",
        ));
    }
    let address = match (scheduler.split_once("://"), &connect.ca) {
        (Some(("http", address)), None) | (Some(("https", address)), Some(_)) => address,
        (None, _) => scheduler,
        (Some(("http", _)), Some(_)) => {
            return Err(wrong("--ca is for TLS, and --scheduler says http"));
        }
        (Some(("https", _)), None) => {
            return Err(wrong("--scheduler says https, and needs --ca: the certificates to trust"));
        }
        (Some(_), _) => return Err(wrong("--scheduler is http://HOST:PORT or https://HOST:PORT")),
    };
    Ok(Service {
        endpoint: connect::endpoint(connect, address.trim_end_matches('/'), "--scheduler")?,
        tls: connect::tls(connect)?,
        authorization: connect::authorization(connect)?,
        rm_id: connect.rm.clone().unwrap_or_else(|| RM_ID.to_owned()),
        instance: String::new(),
    })
}

/// Combines the settings, the flags that override them, and the environment of the process.
fn options(args: &KubernetesArgs, settings: KubernetesSettings, home: String) -> Options {
    let pod = std::env::var(POD_NAME).ok();
    let who = pod.clone().or_else(|| gethostname().ok()?.into_string().ok());
    let who = who.unwrap_or_else(|| "monoceros".to_owned());
    // A restarted process in the same pod is another replica.
    let identity = format!("{who}_{:x}", boot_time().as_nanos());
    let named = args.scheduler_names.clone();
    Options {
        namespace: settings.namespace.or_else(|| std::env::var(POD_NAMESPACE).ok()).unwrap_or(home),
        lease: args.lease.clone().or(settings.lease),
        identity,
        pod,
        lease_duration: settings.lease_duration,
        mapping: Mapping {
            scheduler_names: if named.is_empty() { settings.scheduler_names } else { named },
            application_by_controller: settings.application_by_controller,
            trust_user: settings.trust_user,
        },
        api: ApiSettings {
            bindings: settings.bindings.get(),
            eviction_timeout: settings.eviction_timeout,
            victims: match settings.victims {
                settings::Victims::EvictThenDelete => Victims::EvictThenDelete,
                settings::Victims::EvictThenGiveBack => Victims::EvictThenGiveBack,
                settings::Victims::Evict => Victims::Evict,
                settings::Victims::Delete => Victims::Delete,
            },
            volume_timeout: settings.volume_timeout,
            events_per_second: settings.events_per_second.get(),
        },
        conditions_per_second: settings.conditions_per_second.get(),
    }
}

/// A connected cluster.
struct Cluster {
    client: cluster::Client,
    options: Options,
    ready: watch::Sender<Readiness>,
}

impl Cluster {
    async fn connect(args: &KubernetesArgs, settings: KubernetesSettings) -> anyhow::Result<Self> {
        let reached = cluster::connect(args.kubeconfig.as_deref()).await;
        let (client, home) = reached.context("the cluster")?;
        let options = options(args, settings, home);
        let ready = watch::Sender::new(Readiness::NotYet("the cluster is being read".into()));
        Ok(Self { client, options, ready })
    }

    /// Schedules the pods until the shutdown begins.
    async fn schedule<E: Engine>(
        self,
        numbers: &Registry,
        shutdown: CancellationToken,
        engine: impl FnOnce(SharedScene, UnboundedSender<Notification>) -> E,
    ) -> anyhow::Result<()> {
        let Self { client, options, ready } = self;
        let meters = Arc::new(Meters::new(numbers).context("metrics")?);
        let (state, mut states) = watch::channel(ReplicaState::default());
        let report_readiness = async move {
            while states.changed().await.is_ok() {
                ready.send_replace(readiness_of(&states.borrow_and_update()));
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = run::run(client, options, meters, state, shutdown, engine) => Ok(ended?),
            () = report_readiness => unreachable!("it never ends"),
        }
    }
}

/// Connects the cluster for a scheduler in this process.
async fn local_manager(
    args: &KubernetesArgs,
    settings: KubernetesSettings,
) -> anyhow::Result<LocalManager> {
    let prefers_among_all = settings.score.preferred;
    let cluster = Cluster::connect(args, settings).await?;
    let readiness = cluster.ready.subscribe();
    let run = Box::new(move |handle: SchedulerHandle, shutdown| -> serve::Work {
        Box::pin(async move {
            let numbers = handle.metrics();
            let engine =
                |scene, notify| Embedded::new(handle, RM_ID, scene, notify, prefers_among_all);
            cluster.schedule(&numbers, shutdown, engine).await
        })
    });
    Ok(LocalManager { readiness, run })
}

/// Connects the cluster for a scheduler in another process.
async fn standalone_manager(
    args: &KubernetesArgs,
    settings: KubernetesSettings,
    remote: Service,
) -> anyhow::Result<StandaloneManager> {
    if settings.score.preferred {
        warn!(
            "`kubernetes.score.preferred` has no effect with --scheduler: nobody asks what pods prefer"
        );
    }
    let cluster = Cluster::connect(args, settings).await?;
    let readiness = cluster.ready.subscribe();
    let scheduler = remote.endpoint.uri().to_string();
    let remote = Service { instance: cluster.options.identity.clone(), ..remote };
    let run = Box::new(move |numbers: Registry, shutdown| -> serve::Work {
        Box::pin(async move {
            let engine = |scene, notify| Remote::new(remote, scene, notify);
            cluster.schedule(&numbers, shutdown, engine).await
        })
    });
    Ok(StandaloneManager { scheduler, readiness, run })
}

fn readiness_of(state: &ReplicaState) -> Readiness {
    match state {
        ReplicaState::Reading => Readiness::NotYet("the cluster is being read".into()),
        ReplicaState::Standby(leader) => Readiness::StandsBy(leader.clone()),
        ReplicaState::Leads => Readiness::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(scheduler: &str, args: KubernetesArgs, connect: &ConnectArgs) -> String {
        let args = KubernetesArgs { scheduler: Some(scheduler.to_owned()), ..args };
        let error = run(&args, connect).unwrap_err();
        assert!(error.is::<WrongLine>(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_remote_scheduler_refuses_local_flags() {
        let open = ConnectArgs::default();
        let grpc = KubernetesArgs { grpc: Some("127.0.0.1:0".to_owned()), ..Default::default() };
        assert!(refused("http://h:1", grpc, &open).contains("--grpc"));
        let queues = KubernetesArgs { queues: Some("q.yaml".into()), ..Default::default() };
        assert!(refused("http://h:1", queues, &open).contains("--queues"));
        let none = KubernetesArgs::default();
        assert!(refused("https://h:1", none.clone(), &open).contains("needs --ca"));
        assert!(refused("ftp://h:1", none.clone(), &open).contains("http://HOST:PORT"));
        let ca = ConnectArgs { ca: Some("ca.pem".into()), ..ConnectArgs::default() };
        assert!(refused("http://h:1", none.clone(), &ca).contains("says http"));
        let error = run(&none, &ca).unwrap_err();
        assert!(error.is::<WrongLine>() && error.to_string().contains("needs --scheduler"));
    }

    #[test]
    fn a_remote_address_may_omit_its_scheme() {
        for scheduler in ["http://host:50051", "http://host:50051/", "host:50051"] {
            let remote =
                remote(&KubernetesArgs::default(), &ConnectArgs::default(), scheduler).unwrap();
            assert_eq!(
                (remote.endpoint.uri().to_string(), &*remote.rm_id),
                ("http://host:50051/".to_owned(), RM_ID)
            );
        }
    }
}
