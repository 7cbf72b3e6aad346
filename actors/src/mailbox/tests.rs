#![allow(clippy::float_cmp, reason = "whole numbers")]

use std::collections::BTreeMap;
use std::time::Duration;

use monoceros_proto::si::v1 as si;

use super::*;
use crate::{ObjectState, ResourceManagerCallback, Scheduler, SchedulerHandle, Sign};

struct Deaf;

impl ResourceManagerCallback for Deaf {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

/// A scheduler on this thread, with one resource manager.
async fn with_an_rm() -> SchedulerHandle {
    let scheduler = Scheduler::builder().start_local().unwrap();
    let request =
        si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
    scheduler.register_resource_manager(request, Arc::new(Deaf)).await.unwrap();
    scheduler
}

/// Returns the value of a family for each kind (for a histogram, the number of observations).
fn by_kind(scheduler: &SchedulerHandle, family: &str) -> BTreeMap<String, f64> {
    let families = scheduler.metrics().gather();
    let found = families.iter().find(|found| found.name() == family).unwrap();
    let value = |metric: &prometheus::proto::Metric| match found.get_field_type() {
        prometheus::proto::MetricType::COUNTER => metric.get_counter().get_value(),
        prometheus::proto::MetricType::GAUGE => metric.get_gauge().get_value(),
        _ => f64::from(u32::try_from(metric.get_histogram().get_sample_count()).unwrap()),
    };
    let kind = |metric: &prometheus::proto::Metric| metric.get_label()[0].value().to_owned();
    found.get_metric().iter().map(|metric| (kind(metric), value(metric))).collect()
}

#[tokio::test(start_paused = true)]
async fn every_message_is_counted_and_leaves_its_mailbox() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let scheduler = with_an_rm().await;
            let rm_id = || "rm".to_owned();
            let proxy =
                |scheduler| by_kind(scheduler, "monoceros_actor_messages_total")["rm_proxy"];
            let mut so_far = proxy(&scheduler);
            assert_eq!(so_far, 1.0, "the registration");
            let node = si::NodeInfo { node_id: "n".to_owned(), action: 1, ..Default::default() };
            let nodes = si::NodeRequest { rm_id: rm_id(), nodes: vec![node], ..Default::default() };
            let mut more = |messages: f64, what: &str| {
                so_far += messages;
                assert_eq!(proxy(&scheduler), so_far, "{what}");
            };
            scheduler.update_node(nodes).await.unwrap();
            more(1.0, "a request");
            scheduler.report_utilization("rm", Vec::new(), 0).await.unwrap();
            more(1.0, "a report");
            let control = scheduler.control("rm").await.unwrap();
            more(1.0, "the look for a session");
            control.hold(false);
            assert!(control.state().await.is_none());
            more(2.0, "a control and the question for the RM's state");
            scheduler.configuration("").await.unwrap();
            more(1.0, "the question for a configuration");
            let update = si::UpdateConfigurationRequest { rm_id: rm_id(), ..Default::default() };
            scheduler.update_configuration(update).await.unwrap();
            more(1.0, "a configuration");
            scheduler.set_default_queues("").await.unwrap();
            more(1.0, "other default queues");
            let yaml = "partitions: [{name: default, queues: [{name: root}]}]";
            scheduler.offer_policy_queues("group", yaml).await.unwrap();
            more(1.0, "queues of a group");
            let to = ObjectState::Draining;
            scheduler.set_partition_state("rm", "default", to).await.unwrap();
            more(1.0, "a state");
            scheduler.settle().await;
            more(1.0, "a barrier for all");
            assert_eq!(scheduler.partition_names().len(), 1);
            scheduler.nodes("default").await.unwrap();
            more(0.0, "reads, which find their partition by themselves");
            for _ in 0..100 {
                scheduler.nodes("default").await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            let depth = by_kind(&scheduler, "monoceros_actor_mailbox_depth");
            assert!(depth.values().all(|depth| *depth == 0.0), "{depth:?}");
            for family in ["mailbox_wait_seconds", "handler_seconds"] {
                let timed = by_kind(&scheduler, &format!("monoceros_actor_{family}"));
                for kind in ["rm_proxy", "rm", "partition"] {
                    assert!(timed[kind] >= 1.0, "{family} of {kind}");
                }
            }
            scheduler.deregister("rm").await.unwrap();
            scheduler.shutdown().await;
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn depth_is_the_number_of_waiting_messages() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let scheduler = with_an_rm().await;
            scheduler.settle().await;
            let depth = || by_kind(&scheduler, "monoceros_actor_mailbox_depth")["partition"];
            let mut reads: Vec<_> = (0..40).map(|_| Box::pin(scheduler.facts("default"))).collect();
            assert_eq!(depth(), 0.0);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            for (sent, read) in reads.iter_mut().enumerate() {
                assert!(read.as_mut().poll(&mut context).is_pending());
                assert_eq!(depth(), f64::from(u32::try_from(sent).unwrap() + 1));
            }
            for read in reads {
                read.await.unwrap();
            }
            assert_eq!(depth(), 0.0);
            scheduler.shutdown().await;
        })
        .await;
}

#[test]
fn unhandled_message_leaves_the_depth_untimed() {
    let metrics = Metrics::new();
    let gathered = |metrics: &Metrics, family: &str| {
        let families = metrics.registry().gather();
        let found = families.into_iter().find(|found| found.name() == family).unwrap();
        found.get_metric()[0].clone()
    };
    let depth = |metrics: &Metrics| {
        let families = metrics.registry().gather();
        let depth = families.iter().find(|it| it.name() == "monoceros_actor_mailbox_depth");
        depth.unwrap().get_metric().iter().map(|kind| kind.get_gauge().get_value()).sum::<f64>()
    };
    let posted = metrics.posted(ActorKind::RmProxy);
    assert_eq!(depth(&metrics), 1.0);
    drop(posted);
    assert_eq!(depth(&metrics), 0.0);
    let waits = gathered(&metrics, "monoceros_actor_mailbox_wait_seconds");
    assert_eq!(waits.get_histogram().get_sample_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn ping_is_answered_and_does_not_start_spinning() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let scheduler = with_an_rm().await;
            scheduler.settle().await;
            let mut pulses = scheduler.pulses();
            let before = crate::spin::n_received();
            for _ in 0..3 {
                let (front, partitions) = pulses.feel();
                assert_eq!((front, partitions.len()), (Sign::Alive { step: None }, 1));
                assert_eq!(partitions[0].sign, Sign::Alive { step: None });
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            assert_eq!(crate::spin::n_received(), before);
            scheduler.nodes("default").await.unwrap();
            assert!(crate::spin::n_received() > before, "a read may be followed");
            scheduler.shutdown().await;
        })
        .await;
}
