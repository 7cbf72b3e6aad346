//! Lists nodes.

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, GetArgs, Item};
use crate::cli::amounts::{Use, all};
use crate::cli::cluster::Cluster;
use crate::cli::document::document;
use crate::cli::names;

/// Returns the allocated amounts and the capacity.
pub(in crate::cli) fn usage(node: &v1::NodeState) -> Use {
    Use::of(node.allocated.as_ref(), node.capacity.as_ref())
}

pub(super) async fn read(
    cluster: &mut Cluster,
    args: &GetArgs,
) -> anyhow::Result<Vec<v1::NodeState>> {
    cluster.nodes(&args.names, false, args.most::<v1::NodeState>()).await
}

impl Item for v1::NodeState {
    const TITLE: &'static str = "NODE";
    const HAS_AGE: bool = false;
    const STATES: &'static [&'static str] = &["Open", "Closed"];

    fn name(&self) -> &str {
        &self.node_id
    }

    fn state(&self) -> &str {
        if self.schedulable { "Open" } else { "Closed" }
    }

    fn since_ns(&self) -> Option<i64> {
        None
    }

    fn has_others(&self) -> bool {
        usage(self).has_others()
    }

    fn tag(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).map(String::as_str)
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        let mut titles = vec!["ALLOCATIONS", "CORES", "MEMORY"];
        titles.extend(columns.others.then_some("OTHERS"));
        if columns.wide {
            titles.extend(["OCCUPIED", "FOREIGN", "RESERVED", "HOST", "RACK"]);
        }
        titles
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let mut cells = vec![self.allocations.to_string()];
        cells.extend(usage(self).cells(columns.others));
        if columns.wide {
            cells.push(all(self.occupied.as_ref()));
            cells.push(self.foreign_allocations.to_string());
            cells.push(names::of_reservations(self).join(","));
            cells.push(self.host_name.clone());
            cells.push(self.rack_name.clone());
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.NodeState", self)
    }
}
