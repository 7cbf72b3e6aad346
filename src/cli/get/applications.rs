//! Lists applications.

use std::collections::BTreeMap;

use monoceros_proto::v1;
use serde_json::Value;

use super::{Columns, GetArgs, Item};
use crate::cli::amounts::{Use, age, all};
use crate::cli::cluster::{ApplicationFilter, Cluster};
use crate::cli::document::document;
use crate::cli::output::Form;
use crate::clock::now_ns;

/// Most applications that the scheduler explains in one answer.
const MOST_EXPLAINED: usize = 50;

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
        why: shows_why(args) && !is_explained_later(args),
        most: Some(args.most::<v1::ApplicationInfo>()),
    };
    cluster.applications(&filter).await
}

/// Whether the reasons for which applications wait are printed. They change with every placement, so
/// a watch would print little else.
fn shows_why(args: &GetArgs) -> bool {
    !args.watch && !matches!(args.output, Form::Name)
}

/// Whether all applications that are shown are explained once they are selected, so that the first
/// read needs no reasons.
fn is_explained_later(args: &GetArgs) -> bool {
    let is_few = args.pick.limit.is_some_and(|limit| limit as usize <= MOST_EXPLAINED);
    let is_live = !args.ended && !args.rejected;
    is_few && is_live && args.pick.changes_order() && !args.pick.may_order_by_why()
}

/// Returns the ids of the first applications that wait, as many as are explained in one answer.
fn waiting(shown: &[v1::ApplicationInfo]) -> Vec<String> {
    let waiting = shown.iter().filter(|application| application.requests > 0);
    waiting.take(MOST_EXPLAINED).map(|application| application.application_id.clone()).collect()
}

/// Copies the reasons and cures of those that were explained.
fn copy_reasons(shown: &mut [v1::ApplicationInfo], explained: Vec<v1::ApplicationInfo>) {
    let reasons = explained.into_iter().map(|it| (it.application_id, (it.why, it.cure)));
    let mut reasons: BTreeMap<_, _> = reasons.collect();
    for application in shown {
        if let Some(reason) = reasons.remove(&application.application_id) {
            (application.why, application.cure) = reason;
        }
    }
}

impl Item for v1::ApplicationInfo {
    const TITLE: &'static str = "APPLICATION";
    const HAS_AGE: bool = true;
    const HAS_WHY: bool = true;
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

    /// Has the first that wait explained. In the order of their ids, the first read does that.
    async fn complete(
        cluster: &mut Cluster,
        args: &GetArgs,
        shown: &mut [Self],
    ) -> anyhow::Result<()> {
        let is_live = !args.ended && !args.rejected;
        if !shows_why(args) || !is_live || !args.pick.changes_order() {
            return Ok(());
        }
        let ids = waiting(shown);
        if !ids.is_empty() {
            let filter = ApplicationFilter { ids, why: true, ..Default::default() };
            copy_reasons(shown, cluster.applications(&filter).await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::pick::PickArgs;
    use super::*;

    fn application(id: &str, requests: u32, why: &str) -> v1::ApplicationInfo {
        v1::ApplicationInfo {
            application_id: id.to_owned(),
            requests,
            why: why.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn the_first_that_wait_are_explained_in_the_order_shown() {
        let mut shown: Vec<_> = (0..60).rev().map(|n| application(&n.to_string(), 1, "")).collect();
        shown[0].requests = 0;
        let ids = waiting(&shown);
        assert_eq!((ids.len(), &*ids[0], &*ids[49]), (50, "58", "9"));
        copy_reasons(&mut shown, vec![application("58", 1, "no room"), application("x", 1, "y")]);
        assert_eq!((&*shown[1].why, &*shown[2].why), ("no room", ""));
    }

    #[test]
    fn the_first_read_has_reasons_unless_all_shown_are_explained_later() {
        let args = |sort_by: Option<&str>, limit| GetArgs {
            pick: PickArgs {
                sort_by: sort_by.map(|by| by.parse().unwrap()),
                limit,
                ..PickArgs::default()
            },
            ..GetArgs::all(Kind::Apps)
        };
        for (sort_by, limit, expected) in [
            (Some("-age"), Some(2), true),
            (Some("-age"), Some(50), true),
            (Some("-age"), Some(51), false),
            (Some("-age"), None, false),
            (Some("why"), Some(2), false),
            (Some(".why"), Some(2), false),
            (None, Some(2), false),
        ] {
            assert_eq!(
                is_explained_later(&args(sort_by, limit)),
                expected,
                "{sort_by:?} {limit:?}"
            );
        }
        let ended = GetArgs { ended: true, ..args(Some("-age"), Some(2)) };
        assert!(!is_explained_later(&ended));
    }
}
