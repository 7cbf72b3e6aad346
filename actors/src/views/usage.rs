//! Conversion of the usage of users and groups to snapshots.

use monoceros_rules::limits::{GroupUsage, PlaceUsage, UserUsage};

use crate::snapshot::{GroupSnapshot, UsageSnapshot, UserSnapshot};

/// The snapshot of a user.
pub(crate) fn user(usage: UserUsage) -> UserSnapshot {
    let groups = usage.groups.iter();
    UserSnapshot {
        user_name: usage.name.to_string(),
        groups: groups
            .map(|(application, group)| (application.to_string(), group.to_string()))
            .collect(),
        queues: place(usage.queues),
    }
}

/// The snapshot of a group.
pub(crate) fn group(usage: GroupUsage) -> GroupSnapshot {
    GroupSnapshot {
        group_name: usage.name.to_string(),
        applications: usage.applications.iter().map(ToString::to_string).collect(),
        queues: place(usage.queues),
    }
}

fn place(usage: PlaceUsage) -> UsageSnapshot {
    UsageSnapshot {
        queue_path: usage.path.to_string(),
        resource_usage: usage.usage,
        running_applications: usage.running.iter().map(ToString::to_string).collect(),
        max_resources: usage.max_resources.unwrap_or_default(),
        max_applications: usage.max_applications,
        children: usage.children.into_iter().map(place).collect(),
    }
}
