//! `monoceros kubernetes`: the service with a resource manager of its own, which is a Kubernetes cluster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use monoceros_actors::SchedulerHandle;
use monoceros_kubernetes::act::{HandSettings, Victims};
use monoceros_kubernetes::connect::connect;
use monoceros_kubernetes::engine::Embedded;
use monoceros_kubernetes::leader::boot_time;
use monoceros_kubernetes::meters::Meters;
use monoceros_kubernetes::run::{self, Options, Standing};
use monoceros_kubernetes::translate::Mapping;
use nix::unistd::gethostname;
use tokio::sync::watch;

use super::ServeArgs;
use crate::serve::{self, Resident};
use crate::settings::{self, KubernetesSettings};
use crate::watchdog::Readiness;

/// The pod that the process runs in, as its manifest tells it.
const POD_NAME: &str = "POD_NAME";
/// The namespace of that pod.
const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// The name of the cluster among resource managers.
const RM_ID: &str = "kubernetes";

/// Arguments of `monoceros kubernetes`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KubernetesArgs {
    /// How to reach the cluster; default: KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Schedule pods with this `schedulerName`; may be given several times
    #[arg(long = "scheduler-name", value_name = "NAME")]
    scheduler_names: Vec<String>,
    /// The Lease by which one of several replicas schedules
    #[arg(long, value_name = "NAME")]
    lease: Option<String>,
    /// Settings file (TOML); the defaults apply to what it does not mention
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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

/// Runs the service for a cluster.
pub(super) fn run(args: &KubernetesArgs) -> anyhow::Result<ExitCode> {
    let service = args.of_service();
    super::run_service(&service, async |settings| {
        resident(args, settings.kubernetes.clone()).await.map(Some)
    })
}

/// What of the settings the command line says otherwise, and what follows from where the process runs.
fn options(args: &KubernetesArgs, settings: KubernetesSettings, home: String) -> Options {
    let pod = std::env::var(POD_NAME).ok();
    let who = pod.clone().or_else(|| gethostname().ok()?.into_string().ok());
    let who = who.unwrap_or_else(|| "monoceros".to_owned());
    // A process that comes after another in the same pod is another replica.
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
        hands: HandSettings {
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

async fn resident(args: &KubernetesArgs, settings: KubernetesSettings) -> anyhow::Result<Resident> {
    let (client, home) = connect(args.kubeconfig.as_deref()).await.context("the cluster")?;
    let prefers_among_all = settings.score.preferred;
    let options = options(args, settings, home);
    let (ready, readiness) = watch::channel(Readiness::NotYet("the cluster is being read"));
    let run: Box<dyn FnOnce(SchedulerHandle, _) -> serve::Work + Send> =
        Box::new(move |handle: SchedulerHandle, shutdown| {
            Box::pin(async move {
                let meters = Arc::new(Meters::new(&handle.metrics()).context("metrics")?);
                let (stand, mut standing) = watch::channel(Standing::default());
                let tell = async move {
                    while standing.changed().await.is_ok() {
                        ready.send_replace(readiness_of(&standing.borrow_and_update()));
                    }
                    std::future::pending::<()>().await;
                };
                let engine =
                    |scene, words| Embedded::new(handle, RM_ID, scene, words, prefers_among_all);
                let work = run::run(client, options, meters, stand, shutdown, engine);
                tokio::select! {
                    ended = work => Ok(ended?),
                    () = tell => unreachable!("it never ends"),
                }
            })
        });
    Ok(Resident { readiness, run })
}

fn readiness_of(standing: &Standing) -> Readiness {
    match standing {
        Standing::Reading => Readiness::NotYet("the cluster is being read"),
        Standing::StandsBy(leader) => Readiness::StandsBy(leader.clone()),
        Standing::Leads => Readiness::Ready,
    }
}
