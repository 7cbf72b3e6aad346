//! A small cluster in virtual time, and the image that it has after a script.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::tags::RUN_TIME_LIMIT;
use monoceros_actors::{Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use super::super::recorder::Recorder;
use crate::replay::virtual_time::in_virtual_time;

const RM: &str = "rm";
/// The time at which a cluster begins, ns since the epoch.
const BEGIN_NS: i64 = 1_800_000_000_000_000_000;

/// A step of a script.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A node with this many cores.
    Node(&'static str, i64),
    /// An application in a leaf below root, with its user.
    Application(String, &'static str, &'static str),
    Ask(Ask),
    /// An allocation ends by itself: application and key.
    End(String, String),
    /// Seconds pass.
    Wait(u64),
}

/// A request of a script.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    pub(super) application: String,
    pub(super) key: String,
    pub(super) cores: i64,
    pub(super) count: i32,
    pub(super) priority: i32,
    /// The claimed limit, in seconds.
    pub(super) limit: Option<u64>,
    pub(super) preempts: bool,
    /// The only node that it may use.
    pub(super) node: Option<&'static str>,
}

pub(super) fn application(id: &str, leaf: &'static str) -> Step {
    Step::Application(id.to_owned(), leaf, "ada")
}

/// A request for cores, with a limit in seconds.
pub(super) fn ask(application: &str, key: &str, cores: i64, limit: Option<u64>) -> Step {
    Step::Ask(Ask { limit, ..plain(application, key, cores) })
}

pub(super) fn plain(application: &str, key: &str, cores: i64) -> Ask {
    let (application, key) = (application.to_owned(), key.to_owned());
    Ask { application, key, cores, count: 1, ..Ask::default() }
}

/// A cluster that runs.
pub(super) struct World {
    pub(super) scheduler: SchedulerHandle,
    pub(super) recorder: Arc<Recorder>,
}

impl World {
    /// Starts a cluster with these leaves below root: YAML in one line, after `queues:`.
    pub(super) async fn start(queues: &str) -> Self {
        let scheduler = Scheduler::builder().epoch_ns(BEGIN_NS).start_local().unwrap();
        let recorder = Arc::new(Recorder::new(vec![Arc::from("default")], None));
        let registration = si::RegisterResourceManagerRequest {
            rm_id: RM.to_owned(),
            config: configuration(queues),
            ..si::RegisterResourceManagerRequest::default()
        };
        let callback = Arc::clone(&recorder);
        scheduler.register_resource_manager(registration, callback).await.unwrap();
        Self { scheduler, recorder }
    }

    pub(super) async fn play(&self, steps: &[Step]) {
        for step in steps {
            self.step(step).await;
            self.scheduler.settle().await;
        }
    }

    async fn step(&self, step: &Step) {
        let rm_id = RM.to_owned();
        match step {
            Step::Node(id, cores) => {
                let capacity = si::Resource::default().cores(*cores).gibibytes(*cores);
                let mut node = si::NodeInfo::new(*id, capacity);
                node.attributes.insert("kubernetes.io/hostname".to_owned(), (*id).to_owned());
                self.scheduler.update_node(si::NodeRequest::report(RM, [node])).await.unwrap();
            }
            Step::Application(id, leaf, user) => {
                let mut application = si::AddApplicationRequest::new(id.clone(), *user);
                application.queue_name = format!("root.{leaf}");
                let request = si::ApplicationRequest::submit(RM, [application]);
                self.scheduler.update_application(request).await.unwrap();
            }
            Step::Ask(ask) => {
                let asks = vec![message(ask)];
                let request = si::AllocationRequest { asks, rm_id, ..Default::default() };
                self.scheduler.update_allocation(request).await.unwrap();
            }
            Step::End(application, key) => {
                let release = si::AllocationRelease {
                    application_id: application.clone(),
                    allocation_key: key.clone(),
                    termination_type: si::TerminationType::StoppedByRm.into(),
                    ..si::AllocationRelease::default()
                };
                let releases = Some(si::AllocationReleasesRequest {
                    allocations_to_release: vec![release],
                    ..si::AllocationReleasesRequest::default()
                });
                let request = si::AllocationRequest { releases, rm_id, ..Default::default() };
                self.scheduler.update_allocation(request).await.unwrap();
            }
            Step::Wait(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
        }
    }

    pub(super) async fn image(&self) -> ResourceManagerImage {
        self.scheduler.image("").await.unwrap()
    }
}

fn message(ask: &Ask) -> si::AllocationAsk {
    let mut tags = std::collections::BTreeMap::new();
    tags.extend(ask.limit.map(|limit| (RUN_TIME_LIMIT.to_owned(), format!("{limit}s"))));
    let node =
        ask.node.map(|node| ("yunikorn.apache.org/requiredNode".to_owned(), node.to_owned()));
    tags.extend(node);
    si::AllocationAsk {
        allocation_key: ask.key.clone(),
        application_id: ask.application.clone(),
        resource_ask: Some(si::Resource::default().cores(ask.cores)),
        max_allocations: ask.count,
        priority: ask.priority,
        tags,
        preemption_policy: ask.preempts.then_some(si::PreemptionPolicy {
            allow_preempt_self: true,
            allow_preempt_other: true,
        }),
        ..si::AllocationAsk::default()
    }
}

/// The configuration with these leaves below root.
pub(super) fn configuration(queues: &str) -> String {
    format!(
        "partitions:\n  - name: default\n    preemption: {{quotapreemptionenabled: true}}\n    \
         queues:\n      - name: root\n        submitacl: '*'\n        queues: [{queues}]\n"
    )
}

/// Returns the image that a cluster has after a script.
pub(super) fn image_after(queues: &str, steps: Vec<Step>) -> ResourceManagerImage {
    let queues = queues.to_owned();
    let image = in_virtual_time(async move {
        let world = World::start(&queues).await;
        world.play(&steps).await;
        Ok(world.image().await)
    });
    image.unwrap()
}
