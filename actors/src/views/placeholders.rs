//! Placeholders of a gang, by task group: how many were replaced or have timed out.

use std::sync::Arc;

use monoceros_rules::applications::application::Application;
use monoceros_rules::applications::gang::Group;

use crate::snapshot::PlaceholderData;

/// The placeholders of an application, by task group.
pub(super) fn of(application: &Application) -> Vec<PlaceholderData> {
    application.gang.iter().flat_map(|gang| gang.groups()).map(of_group).collect()
}

/// The placeholders of a task group.
pub(super) fn of_group((name, group): (&Arc<String>, &Group)) -> PlaceholderData {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    PlaceholderData {
        task_group_name: name.to_string(),
        count: count(group.count),
        min_resource: group.min_resource.clone(),
        replaced: count(group.replaced),
        timed_out: count(group.timed_out),
    }
}
