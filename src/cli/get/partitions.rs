//! Lists partitions.

use monoceros_actors::partition_name::qualified_name;
use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, Item};
use crate::cli::amounts::Use;
use crate::cli::cluster::Cluster;
use crate::cli::document::document;

/// A partition with the name that identifies it in the list.
pub(super) struct Partition {
    info: v1::PartitionInfo,
    /// With its resource manager, `[rm]name`, if others have a partition of this name.
    name: String,
}

pub(super) async fn read(cluster: &mut Cluster) -> anyhow::Result<Vec<Partition>> {
    let all = cluster.partitions().await?;
    let is_unique = |name: &str| all.iter().filter(|it| it.name == name).count() == 1;
    let named = all.iter().map(|info| {
        let name =
            if is_unique(&info.name) { None } else { qualified_name(&info.name, &info.rm_id).ok() };
        Partition { name: name.unwrap_or_else(|| info.name.clone()), info: info.clone() }
    });
    Ok(named.collect())
}

fn usage(partition: &Partition) -> Use {
    Use::of(partition.info.allocated.as_ref(), partition.info.capacity.as_ref())
}

impl Item for Partition {
    const TITLE: &'static str = "PARTITION";
    const HAS_AGE: bool = false;
    const STATES: &'static [&'static str] = &["Active", "Draining", "Stopped"];

    fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &str {
        &self.info.state
    }

    fn since_ns(&self) -> Option<i64> {
        None
    }

    fn has_others(&self) -> bool {
        usage(self).has_others()
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        let mut titles = vec!["RM", "NODES", "RUN", "CORES", "MEMORY"];
        titles.extend(columns.others.then_some("OTHERS"));
        if columns.wide {
            titles.extend(["NODE-ORDER", "PREEMPTION"]);
        }
        titles
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let info = &self.info;
        let mut cells =
            vec![info.rm_id.clone(), info.nodes.to_string(), info.allocations.to_string()];
        cells.extend(usage(self).cells(columns.others));
        if columns.wide {
            cells.push(info.node_sorting_policy.clone());
            cells.push(if info.preemption_enabled { "yes" } else { "no" }.to_owned());
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.PartitionInfo", &self.info)
    }
}
