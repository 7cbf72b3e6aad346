//! Lists queues.

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, GetArgs, Item};
use crate::cli::amounts::{Use, all};
use crate::cli::cluster::Cluster;
use crate::cli::document::document;

/// Returns the allocated amounts and the maximum.
pub(in crate::cli) fn usage(queue: &v1::QueueInfo) -> Use {
    Use::of(queue.allocated.as_ref(), queue.max.as_ref())
}

pub(super) async fn read(
    cluster: &mut Cluster,
    args: &GetArgs,
) -> anyhow::Result<Vec<v1::QueueInfo>> {
    cluster.queues(args.queue.as_deref().unwrap_or_default()).await
}

impl Item for v1::QueueInfo {
    const TITLE: &'static str = "QUEUE";
    const HAS_AGE: bool = false;
    const STATES: &'static [&'static str] = &["Active", "Draining", "Stopped"];

    fn name(&self) -> &str {
        &self.path
    }

    fn state(&self) -> &str {
        &self.state
    }

    fn since_ns(&self) -> Option<i64> {
        None
    }

    fn has_others(&self) -> bool {
        usage(self).has_others()
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        let mut titles = vec!["APPS", "CORES", "MEMORY"];
        titles.extend(columns.others.then_some("OTHERS"));
        titles.push("PENDING");
        if columns.wide {
            titles.extend(["GUARANTEED", "HEADROOM", "SORTING", "KIND"]);
        }
        titles
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let mut cells = vec![match self.max_running_applications {
            0 => self.running_applications.to_string(),
            most => format!("{}/{most}", self.running_applications),
        }];
        cells.extend(usage(self).cells(columns.others));
        cells.push(all(self.pending.as_ref()));
        if columns.wide {
            cells.push(all(self.guaranteed.as_ref()));
            cells.push(all(self.headroom.as_ref()));
            cells.push(self.sorting_policy.clone());
            let kind = match (self.leaf, self.managed) {
                (true, true) => "leaf",
                (true, false) => "leaf,dynamic",
                (false, true) => "parent",
                (false, false) => "parent,dynamic",
            };
            cells.push(kind.to_owned());
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.QueueInfo", self)
    }
}
