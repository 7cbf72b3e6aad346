//! Settings that change limits: of ids, of repetitions, and whether changes of unknown nodes are
//! refused.

use super::speaker::{Ask, Speaker};
use crate::harness::Service;
use crate::revisions::client::vcore;

#[tokio::test]
async fn settings_move_the_bounds() {
    let settings =
        [("ASKS__MAX_REPEAT", "3"), ("LIMITS__ID_BYTES", "8"), ("NODES__REJECT_UPDATES", "true")];
    let service = Service::start_with(&settings);
    for rm in Speaker::all(&service).await {
        let long = "nine-byte";
        rm.ask(Ask { key: long, ..Ask::default() }).await;
        rm.rejected_ask(long, "R_KEY").await;
        rm.application(long, &rm.queue()).await;
        rm.rejected_application(long, "R_APP_ID").await;
        if rm.revision != "t" {
            rm.ask(Ask { key: "four", n: 4, ..Ask::default() }).await;
            let reason = rm.rejected_ask("four", "R_REPEAT").await;
            assert!(reason.contains("from 1 to 3"), "{reason}");
        }
        let elsewhere = r#"attributes { key: "si/node-partition" value: "gpu" }"#;
        for (n, (action, more, code)) in [
            ("UPDATE", &*vcore("schedulableResource", 1), "R_NODE_UNKNOWN"),
            ("DRAIN_NODE", "", "R_NODE_UNKNOWN"),
            ("DRAIN_TO_SCHEDULABLE", "", "R_NODE_UNKNOWN"),
            ("DECOMISSION", "", "R_NODE_UNKNOWN"),
            ("DRAIN_NODE", elsewhere, "R_PARTITION_UNKNOWN"),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("gone-{n}");
            rm.nodes(&rm.changed_node(&id, action, more)).await;
            let reason = rm.rejected_node(&id, code).await;
            assert!(n == 4 || reason.contains(&id), "{reason}");
        }
        rm.settled("good").await;
    }
}
