//! Lists members of the cluster.

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, Item};
use crate::cli::cluster::Cluster;
use crate::cli::document::document;
use crate::clock::now_ns;

/// Nanoseconds in a millisecond.
const MS: i64 = 1_000_000;

pub(super) async fn read(cluster: &mut Cluster) -> anyhow::Result<Vec<v1::MemberInfo>> {
    Ok(cluster.members().await?.members)
}

impl Item for v1::MemberInfo {
    const TITLE: &'static str = "MEMBER";
    const HAS_AGE: bool = true;
    const AGE: &'static str = "BEAT";
    const STATES: &'static [&'static str] =
        &["alive", "draining", "silent", "fenced", "left", "deposed"];

    fn name(&self) -> &str {
        &self.member_id
    }

    fn state(&self) -> &str {
        &self.state
    }

    /// Returns when its record was last seen to change. `None` if it has left.
    fn since_ns(&self) -> Option<i64> {
        let is_over = matches!(&*self.state, "left" | "deposed");
        let ago = i64::try_from(self.beat_ago_ms).unwrap_or(i64::MAX).saturating_mul(MS);
        (!is_over).then(|| now_ns().saturating_sub(ago))
    }

    fn has_others(&self) -> bool {
        false
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        let mut titles = vec!["RMS", "LOAD", "VERSION", "CONFIGURATIONS"];
        if columns.wide {
            titles.extend(["GRPC", "REST", "INTERNAL", "INCARNATION"]);
        }
        titles
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let configurations = match self.not_in_force {
            0 => "in force".to_owned(),
            n => format!("{n} not in force"),
        };
        let numbers = [self.rms.to_string(), self.load.to_string()];
        let mut cells = [&numbers[..], &[self.version.clone(), configurations]].concat();
        if columns.wide {
            cells.push(self.grpc_address.clone());
            cells.push(self.rest_address.clone());
            cells.push(self.internal_address.clone());
            cells.push(self.incarnation.clone());
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.MemberInfo", self)
    }
}
