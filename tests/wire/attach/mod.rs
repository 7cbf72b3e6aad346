//! Callback streams over gRPC from the shim's side, as documented in `docs/callback.md`.

mod bundles;
mod elsewhere;
mod exclusion;
mod news;
mod predicates;
mod preemption;
mod same_keys;
mod stream;
mod view;

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::harness::{QUEUES, Rm, Service, ask, registration};

/// Setting with which nothing is decided unless a shim answers.
const REQUIRED: &[(&str, &str)] = &[("callback.predicates", "required")];

/// An RM `rm` with an application `app` and these nodes of four cores each.
async fn rm_with_nodes(service: &Service, extra: &[(&str, &str)], nodes: &[&str]) -> Rm {
    rm_called("rm", service, extra, nodes).await
}

/// The same under another id.
async fn rm_called(id: &str, service: &Service, extra: &[(&str, &str)], nodes: &[&str]) -> Rm {
    let extra_config =
        extra.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut client = service.client().await;
    let request = si::RegisterResourceManagerRequest { extra_config, ..registration(id, QUEUES) };
    client.register_resource_manager(request).await.unwrap();
    let rm = Rm::open(client, id).await;
    rm.hello().await;
    rm.with_nodes(nodes).await.with_application("app", "root.a").await
}

/// Sends asks of one core each.
async fn ask_for(rm: &Rm, keys: &[&str]) {
    rm.send_allocations(vec![], keys.iter().map(|key| ask("app", key)).collect(), vec![]).await;
}

fn placed(rm: &Rm) -> Vec<(String, String)> {
    rm.read(|seen| {
        seen.new.iter().map(|new| (new.allocation_key.clone(), new.node_id.clone())).collect()
    })
}

/// Allocated and pending thousandths of a core in all queues of the only RM.
async fn used_and_pending(service: &Service) -> (i64, i64) {
    let queues = service.http("GET", "/ws/v1/partition/default/queues", &[], "").await.json();
    let vcore = |amount: &Value| amount["vcore"].as_i64().unwrap_or(0);
    (vcore(&queues["allocatedResource"]), vcore(&queues["pendingResource"]))
}
