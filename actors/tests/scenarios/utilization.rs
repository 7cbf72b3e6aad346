//! Measured usage of nodes and allocations, and node sizes derived from it. Measured usage is shown
//! and changes no decision.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{Scheduler, SchedulerHandle, UpdateError};
use monoceros_proto::si::v1 as si;
use monoceros_rules::values::resources::Resources;

use crate::recording_callback::RecordingCallback;
use crate::world::{ONE_LEAF, in_virtual_time, register, send_lines};

fn report(id: &str, vcore: i64) -> si::UtilizationReport {
    let resources = [("vcore".to_owned(), si::Quantity { value: vcore })].into();
    let actual_used_resource = Some(si::Resource { resources });
    si::UtilizationReport { id: id.to_owned(), actual_used_resource }
}

async fn started(text: &str) -> SchedulerHandle {
    let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
    register(&scheduler, "rm", ONE_LEAF, Arc::new(RecordingCallback::default())).await;
    send_lines(&scheduler, "rm", text).await;
    scheduler
}

/// The gauges of the usage of nodes and of allocations.
async fn gauges(scheduler: &SchedulerHandle) -> (String, String) {
    scheduler.refresh_metrics().await;
    let families = scheduler.metrics().gather();
    let family = families.iter().find(|family| family.name() == "monoceros_observed_usage");
    let value = |subject: &str| {
        let metrics = family.iter().flat_map(|family| family.get_metric());
        let of = |metric: &&prometheus::proto::Metric| {
            metric.get_label().iter().any(|label| label.value() == subject)
        };
        let found = metrics.into_iter().find(of);
        found.map_or("none".to_owned(), |metric| metric.get_gauge().get_value().to_string())
    };
    (value("node"), value("allocation"))
}

async fn recommended(scheduler: &SchedulerHandle, nodes: &[&str]) -> Vec<String> {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    let all = scheduler.node_recommendations("rm", None, &nodes).await.unwrap();
    let text = |one: monoceros_actors::snapshot::NodeRecommendation| {
        format!("{} {} {} at {}", one.node, one.kind.text(), one.recommended, one.at_ns)
    };
    all.into_iter().map(text).collect()
}

#[test]
fn a_report_names_nodes_and_allocations_by_uuid_or_key() {
    in_virtual_time(async {
        let scheduler = started(
            "
            node n1 vcore=9
            app a1 in root.default
            ask a1 k1 x2 vcore=1
            ",
        )
        .await;
        let reports = vec![
            report("n1", 5),
            report("k1#2", 1),
            report("k1", 2),
            report("x", 9),
            report("n1", -1),
        ];
        let before = scheduler.nodes("default").await.unwrap();
        assert_eq!(scheduler.report_utilization("rm", reports, 7).await, Ok((3, 2)));
        assert_eq!(gauges(&scheduler).await, ("5".to_owned(), "3".to_owned()));
        assert_eq!(scheduler.nodes("default").await.unwrap(), before, "nothing is accounted");
        assert_eq!(scheduler.report_utilization("rm", vec![report("n1", 6)], 6).await, Ok((1, 0)));
        assert_eq!(gauges(&scheduler).await.0, "5", "an older measurement changes nothing");
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(gauges(&scheduler).await, ("0".to_owned(), "0".to_owned()));
        let unknown = scheduler.report_utilization("other", vec![], 0).await;
        assert_eq!(unknown, Err(UpdateError::NotRegistered("other".to_owned())));
    });
}

#[test]
fn nodes_to_resize_or_remove_are_listed() {
    in_virtual_time(async {
        let scheduler = started(
            "
            node n1 vcore=4
            node n2 vcore=4 occupied vcore=3
            node n3 vcore=4 drained
            app a1 in root.default
            exists a1 k1 on n1 vcore=1
            exists a1 k2 on n2 vcore=2
            ",
        )
        .await;
        for at in 1..=3 {
            let reports = vec![report("n1", 6), report("n2", 1)];
            scheduler.report_utilization("rm", reports, at).await.unwrap();
        }
        assert_eq!(
            recommended(&scheduler, &[]).await,
            [
                "n1 OBSERVED_OVERLOAD map[vcore:0] at 3",
                "n2 OVERCOMMITTED map[vcore:5] at 0",
                "n3 DRAINED map[] at 0",
            ]
        );
        assert_eq!(recommended(&scheduler, &["n3", "n9", "n3"]).await, ["n3 DRAINED map[] at 0"]);
        let nothing = Resources::new();
        let all = scheduler.node_recommendations("rm", Some("default"), &[]).await.unwrap();
        assert_eq!(all[2].recommended, nothing);
        assert!(scheduler.node_recommendations("rm", Some("other"), &[]).await.is_err());
    });
}
