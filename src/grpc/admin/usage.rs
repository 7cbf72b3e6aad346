//! The calls `ListUsers` and `ListGroups`: usage and limits of users and groups, in pages.

use std::collections::BTreeSet;
use std::mem::take;

use monoceros_actors::SchedulerHandle;
use monoceros_actors::snapshot::{GroupSnapshot, UsageSnapshot, UserSnapshot};
use monoceros_proto::v1;

use super::refusal::CallRefusal;
use super::target::Target;
use super::views::{amount, limits};
use super::{RpcResult, page};
use crate::grpc::shared::{self, Reads};
use crate::identity::{Identity, Right};
use crate::reads::Kind;

/// Most names of one call: each is a read of its own.
const NAMES_MAX: usize = 1_000;

/// Answers `ListUsers`.
pub(super) async fn users(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    mut request: v1::ListUsersRequest,
) -> RpcResult<v1::ListUsersResponse> {
    let (rm_id, partition) = (take(&mut request.rm_id), take(&mut request.partition_name));
    let wanted = request.clone();
    let page = page::asked(request.page_size, request.page_token)?;
    let (names, queue) = (named(request.names)?, request.queue.to_lowercase());
    let target = Target::find(handle, caller, Right::Read, &rm_id, &partition).await?;
    let (handle, of) = (handle.clone(), target.partition.clone());
    let read = move || async move {
        let unread = |error| CallRefusal::unread(error, &target.rm_id);
        let (rows, next) = if names.is_empty() {
            let read = handle.list_users(&target.partition, page).await.map_err(unread)?;
            (read.rows, read.next)
        } else {
            let mut rows = Vec::new();
            for name in names {
                rows.extend(handle.user(&target.partition, &name).await.map_err(unread)?);
            }
            (rows, None)
        };
        let users = rows.into_iter().filter_map(|row| user(row, &queue)).collect();
        Ok(v1::ListUsersResponse { users, next_page_token: next.unwrap_or_default() })
    };
    shared::read(reads, Kind::Users, &of, &wanted, read).await
}

/// Answers `ListGroups`.
pub(super) async fn groups(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    mut request: v1::ListGroupsRequest,
) -> RpcResult<v1::ListGroupsResponse> {
    let (rm_id, partition) = (take(&mut request.rm_id), take(&mut request.partition_name));
    let wanted = request.clone();
    let page = page::asked(request.page_size, request.page_token)?;
    let (names, queue) = (named(request.names)?, request.queue.to_lowercase());
    let target = Target::find(handle, caller, Right::Read, &rm_id, &partition).await?;
    let (handle, of) = (handle.clone(), target.partition.clone());
    let read = move || async move {
        let unread = |error| CallRefusal::unread(error, &target.rm_id);
        let (rows, next) = if names.is_empty() {
            let read = handle.list_groups(&target.partition, page).await.map_err(unread)?;
            (read.rows, read.next)
        } else {
            let mut rows = Vec::new();
            for name in names {
                rows.extend(handle.group(&target.partition, &name).await.map_err(unread)?);
            }
            (rows, None)
        };
        let groups = rows.into_iter().filter_map(|row| group(row, &queue)).collect();
        Ok(v1::ListGroupsResponse { groups, next_page_token: next.unwrap_or_default() })
    };
    shared::read(reads, Kind::Groups, &of, &wanted, read).await
}

/// Returns the names of a request, sorted and each once. Fails if there are too many.
fn named(names: Vec<String>) -> Result<BTreeSet<String>, CallRefusal> {
    if names.len() > NAMES_MAX {
        let reason = format!("{} are more than {NAMES_MAX}", names.len());
        return Err(CallRefusal::field("names", reason));
    }
    Ok(names.into_iter().collect())
}

/// Converts a user. `None` if it has nothing in the queue.
fn user(snapshot: UserSnapshot, queue: &str) -> Option<v1::UserInfo> {
    let UserSnapshot { user_name: name, groups, queues } = snapshot;
    Some(v1::UserInfo { name, groups, queues: usage(queues, queue)? })
}

/// Converts a group. `None` if it has nothing in the queue.
fn group(snapshot: GroupSnapshot, queue: &str) -> Option<v1::GroupInfo> {
    let GroupSnapshot { group_name: name, applications, queues } = snapshot;
    Some(v1::GroupInfo { name, applications, queues: usage(queues, queue)? })
}

/// Lists a tree of usage, parents first: all of it if no queue is named, else that queue alone.
/// `None` if the tree lacks the queue.
fn usage(root: UsageSnapshot, queue: &str) -> Option<Vec<v1::QueueUsage>> {
    let mut rest = vec![root];
    let mut list = Vec::new();
    while let Some(mut next) = rest.pop() {
        rest.extend(take(&mut next.children).into_iter().rev());
        if queue.is_empty() || next.queue_path == queue {
            list.push(v1::QueueUsage {
                queue: next.queue_path,
                allocated: amount(&next.resource_usage),
                max: limits(&next.max_resources),
                running_applications: next.running_applications,
                max_running_applications: next.max_applications,
            });
        }
    }
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_listed_parents_first_or_for_one_queue() {
        let of = |path: &str, children| UsageSnapshot {
            queue_path: path.to_owned(),
            children,
            ..UsageSnapshot::default()
        };
        let tree = || {
            let a = of("root.a", vec![of("root.a.x", vec![])]);
            of("root", vec![a, of("root.b", vec![])])
        };
        let paths = |queue| -> Option<Vec<String>> {
            Some(usage(tree(), queue)?.into_iter().map(|it| it.queue).collect())
        };
        assert_eq!(paths("").unwrap(), ["root", "root.a", "root.a.x", "root.b"]);
        assert_eq!(paths("root.a").unwrap(), ["root.a"]);
        assert_eq!(paths("root.c"), None);
    }
}
