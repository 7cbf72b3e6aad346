//! A client that does not number its requests can still wait for its foreign allocations, which are
//! not answered: it sends one more behind them, for an unknown node, which is rejected in order.

use monoceros_proto::si::v1 as si;
use si::node_info::ActionFromRm;

use crate::harness::{Rm, Service, amount, ask, node};

/// Usage of a node by another scheduler.
fn foreign(key: &str, node_id: &str) -> si::Allocation {
    si::Allocation {
        node_id: node_id.to_owned(),
        resource_per_alloc: Some(amount(&[("vcore", 1)])),
        allocation_tags: [("foreign".to_owned(), "default".to_owned())].into(),
        ..ask("", key)
    }
}

#[tokio::test]
async fn rejection_confirms_earlier_foreign_allocations() {
    const OTHERS: usize = 1_000;
    const ROUNDS: usize = 3;
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    for round in 0..ROUNDS {
        let id = format!("n{round}");
        let closed = si::NodeInfo {
            action: ActionFromRm::CreateDrain.into(),
            // Foreign usage leaves only half of what an ask needs.
            ..node(&id, 1_500, 100)
        };
        rm.send_nodes(vec![closed]).await;
        rm.until("the node accepted", |seen| seen.accepted_nodes.contains(&id)).await;
        for number in 0..OTHERS {
            let other = foreign(&format!("{id}-{number}"), &id);
            rm.send_allocations(vec![], vec![other], vec![]).await;
        }
        let marker = format!("marker-{round}");
        rm.send_allocations(vec![], vec![foreign(&marker, "nowhere")], vec![]).await;
        rm.expect_rejection(&marker, "R_NODE_UNKNOWN").await;
        let opened = si::NodeInfo {
            node_id: id,
            action: ActionFromRm::DrainToSchedulable.into(),
            ..Default::default()
        };
        rm.send_nodes(vec![opened]).await;
        // Sent on another stream than the node: if foreign usage were counted too late, the ask
        // would be placed there.
        rm.send_allocations(vec![], vec![ask("app", &format!("k{round}"))], vec![]).await;
    }
    let rm = rm.with_nodes(&["open-1", "open-2"]).await;
    rm.until("all placed", |seen| seen.new.len() == ROUNDS).await;
    let misplaced = |new: &si::Allocation| !new.node_id.starts_with("open-");
    let misplaced: Vec<_> =
        rm.read(|seen| seen.new.iter().filter(|new| misplaced(new)).cloned().collect());
    assert_eq!(misplaced, [], "that room is taken");
    assert_eq!(rm.read(|seen| seen.rejected_allocations.len()), ROUNDS, "the markers alone");
}
