//! Lists sessions of resource managers.

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, GetArgs, Item};
use crate::cli::cluster::Cluster;
use crate::cli::document::document;

pub(super) async fn read(
    cluster: &mut Cluster,
    _: &GetArgs,
) -> anyhow::Result<Vec<v1::SessionInfo>> {
    cluster.sessions().await
}

impl Item for v1::SessionInfo {
    const TITLE: &'static str = "RM";
    const HAS_AGE: bool = true;
    const STATES: &'static [&'static str] =
        &["Running", "Running(unattached)", "Paused", "Stopped"];

    fn name(&self) -> &str {
        &self.rm_id
    }

    fn state(&self) -> &str {
        &self.state
    }

    fn since_ns(&self) -> Option<i64> {
        Some(self.registered_at_nano)
    }

    /// Whether it is in a cluster, where the wide form shows its owner.
    fn has_others(&self) -> bool {
        !self.member_id.is_empty()
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        let mut titles = vec!["DIALECT", "STREAMS", "OUTBOX", "VERSION"];
        if columns.wide {
            titles.extend(columns.others.then_some("OWNER"));
            titles.extend(["SESSION", "GROUP", "INSTANCE", "LOST"]);
        }
        titles
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let mut cells = vec![
            self.dialect.clone(),
            self.open_streams.join(","),
            self.outbox_items.to_string(),
            self.version.clone(),
        ];
        if columns.wide {
            cells.extend(columns.others.then(|| self.member_id.clone()));
            cells.push(self.session_id.to_string());
            cells.push(self.policy_group.clone());
            cells.push(self.instance_id.clone());
            cells.push(self.lost.clone());
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.SessionInfo", self)
    }
}
