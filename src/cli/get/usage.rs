//! Lists users and groups, with their usage and their limits.
//!
//! The amounts are those of the root queue, or of the queue that `--queue` names. A limit may be set
//! on any queue, so all of them are in a column of their own.

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, GetArgs, Item};
use crate::cli::amounts::Use;
use crate::cli::cluster::Cluster;
use crate::cli::document::document;

pub(super) async fn users(
    cluster: &mut Cluster,
    args: &GetArgs,
) -> anyhow::Result<Vec<v1::UserInfo>> {
    let most = args.most::<v1::UserInfo>();
    cluster.users(args.queue.as_deref().unwrap_or_default(), &args.names, most).await
}

pub(super) async fn groups(
    cluster: &mut Cluster,
    args: &GetArgs,
) -> anyhow::Result<Vec<v1::GroupInfo>> {
    let most = args.most::<v1::GroupInfo>();
    cluster.groups(args.queue.as_deref().unwrap_or_default(), &args.names, most).await
}

/// Returns the amounts and their limit.
fn usage(queue: &v1::QueueUsage) -> Use {
    Use::of(queue.allocated.as_ref(), queue.max.as_ref())
}

/// Formats running applications and their limit: `3/4`, or `3` without a limit.
fn running(queue: &v1::QueueUsage) -> String {
    match queue.max_running_applications {
        0 => queue.running_applications.len().to_string(),
        most => format!("{}/{most}", queue.running_applications.len()),
    }
}

/// Returns the cells of a queue: running applications, amounts, and the types that are limited.
pub(in crate::cli) fn limited(queue: &v1::QueueUsage) -> Vec<String> {
    let usage = usage(queue);
    let mut cells = vec![running(queue)];
    cells.extend(usage.cells(true));
    cells
}

/// Formats the limits of all queues in one cell: `root.shared apps=1/2,cores=3/4`.
fn limits(queues: &[v1::QueueUsage]) -> String {
    let limits = queues.iter().filter_map(|queue| {
        let apps = (queue.max_running_applications > 0).then(|| format!("apps={}", running(queue)));
        let all: Vec<_> = apps.into_iter().chain(usage(queue).limited()).collect();
        (!all.is_empty()).then(|| format!("{} {}", queue.queue, all.join(",")))
    });
    limits.collect::<Vec<_>>().join("; ")
}

/// Returns the first queue of a list: the topmost one.
fn topmost(queues: &[v1::QueueUsage]) -> v1::QueueUsage {
    queues.first().cloned().unwrap_or_default()
}

fn titles(columns: Columns, wide: &'static str) -> Vec<&'static str> {
    let mut titles = vec!["APPS", "CORES", "MEMORY"];
    titles.extend(columns.others.then_some("OTHERS"));
    titles.push("LIMITS");
    titles.extend(columns.wide.then_some(wide));
    titles
}

fn cells(queues: &[v1::QueueUsage], columns: Columns) -> Vec<String> {
    let top = topmost(queues);
    let mut cells = vec![running(&top)];
    cells.extend(usage(&top).cells(columns.others));
    cells.push(limits(queues));
    cells
}

impl Item for v1::UserInfo {
    const TITLE: &'static str = "USER";
    const HAS_STATE: bool = false;
    const HAS_AGE: bool = false;
    const STATES: &'static [&'static str] = &[];

    fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }

    fn since_ns(&self) -> Option<i64> {
        None
    }

    fn has_others(&self) -> bool {
        usage(&topmost(&self.queues)).has_others()
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        titles(columns, "GROUPS")
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let mut cells = cells(&self.queues, columns);
        if columns.wide {
            let mut groups: Vec<_> = self.groups.values().map(String::as_str).collect();
            groups.sort_unstable();
            groups.dedup();
            cells.push(groups.join(","));
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.UserInfo", self)
    }
}

impl Item for v1::GroupInfo {
    const TITLE: &'static str = "GROUP";
    const HAS_STATE: bool = false;
    const HAS_AGE: bool = false;
    const STATES: &'static [&'static str] = &[];

    fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }

    fn since_ns(&self) -> Option<i64> {
        None
    }

    fn has_others(&self) -> bool {
        usage(&topmost(&self.queues)).has_others()
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        titles(columns, "COUNTED")
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let mut cells = cells(&self.queues, columns);
        cells.extend(columns.wide.then(|| self.applications.len().to_string()));
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.GroupInfo", self)
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;

    use super::*;

    fn amount(vcore: i64) -> si::Resource {
        let quantity = si::Quantity { value: vcore };
        si::Resource { resources: [("vcore".to_owned(), quantity)].into() }
    }

    #[test]
    fn limits_of_every_queue_are_in_one_cell() {
        let root = v1::QueueUsage {
            queue: "root".to_owned(),
            allocated: Some(amount(2_000)),
            ..Default::default()
        };
        let shared = v1::QueueUsage {
            queue: "root.shared".to_owned(),
            max: Some(amount(3_000)),
            running_applications: vec!["a".to_owned()],
            max_running_applications: 4,
            ..root.clone()
        };
        let columns = Columns { wide: false, others: false, why: false };
        let cells = cells(&[root, shared], columns);
        assert_eq!(cells, ["0", "2", "0B", "root.shared apps=1/4,cores=2/3"]);
    }
}
