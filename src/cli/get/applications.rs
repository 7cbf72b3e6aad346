//! Lists applications.

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, GetArgs, Item};
use crate::cli::amounts::{Use, age, all};
use crate::cli::cluster::{ApplicationFilter, Cluster};
use crate::cli::document::document;
use crate::cli::output::Form;
use crate::clock::now_ns;

/// Returns the allocated amounts.
fn usage(application: &v1::ApplicationInfo) -> Use {
    Use::of(application.allocated.as_ref(), None)
}

pub(super) async fn read(
    cluster: &mut Cluster,
    args: &GetArgs,
) -> anyhow::Result<Vec<v1::ApplicationInfo>> {
    let filter = ApplicationFilter {
        queue: args.queue.clone().unwrap_or_default(),
        states: args.state.clone(),
        users: args.user.clone(),
        ids: args.names.clone(),
        list: match (args.ended, args.rejected) {
            (true, _) => v1::ApplicationList::Ended,
            (_, true) => v1::ApplicationList::Rejected,
            (false, false) => v1::ApplicationList::Live,
        },
        details: false,
        // It changes with every placement, so a watch would print little else.
        why: !args.watch && !matches!(args.output, Form::Name),
        most: Some(args.most::<v1::ApplicationInfo>()),
    };
    cluster.applications(&filter).await
}

impl Item for v1::ApplicationInfo {
    const TITLE: &'static str = "APPLICATION";
    const HAS_AGE: bool = true;
    const STATES: &'static [&'static str] = &[];

    fn name(&self) -> &str {
        &self.application_id
    }

    fn state(&self) -> &str {
        &self.state
    }

    fn since_ns(&self) -> Option<i64> {
        Some(self.submitted_at_nano)
    }

    fn has_others(&self) -> bool {
        usage(self).has_others()
    }

    fn why(&self) -> Option<&str> {
        let reasons = [&self.rejected, &self.removed, &self.why];
        reasons.into_iter().find(|reason| !reason.is_empty()).map(String::as_str)
    }

    fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).map(String::as_str)
    }

    fn titles(columns: Columns) -> Vec<&'static str> {
        let mut titles = vec!["QUEUE", "USER", "RUN", "WAIT", "CORES", "MEMORY"];
        titles.extend(columns.others.then_some("OTHERS"));
        if columns.wide {
            titles.extend(["PENDING", "PLACEHOLDERS", "PRIORITY", "GROUPS", "STARTED"]);
        }
        titles
    }

    fn cells(&self, columns: Columns) -> Vec<String> {
        let mut cells = vec![
            self.queue.clone(),
            self.user.clone(),
            self.allocations.to_string(),
            self.requests.to_string(),
        ];
        cells.extend(usage(self).cells(columns.others));
        if columns.wide {
            cells.push(all(self.pending.as_ref()));
            cells.push(all(self.placeholders.as_ref()));
            let is_any = self.priority != i32::MIN;
            cells.push(if is_any { self.priority.to_string() } else { String::new() });
            cells.push(self.groups.join(","));
            cells.push(age(self.started_at_nano, now_ns()));
        }
        cells
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.ApplicationInfo", self)
    }
}
