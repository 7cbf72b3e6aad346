//! A running scheduler as the commands read it: whole lists, page by page, up to a bound.

use std::io::{self, Write as _};

use monoceros_proto::v1;
use tonic::Status;

use super::connect::{self, AdminChannel, ConnectArgs};
use super::gathered::Gaps;
use super::output::WrongLine;
use crate::grpc::REASON_TRAILER;
use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use crate::logging::clean;

/// Most rows of a list, which is in memory before it is printed.
const MOST_ROWS: usize = 1_000_000;

/// Entries of a page by default.
const USUAL_PAGE: u32 = 1_000;

/// Most resource managers that an error names.
const MANAGERS_SHOWN: usize = 10;

/// A connection, with the selected resource manager and partition.
pub(super) struct Cluster {
    pub(super) admin: AdminServiceClient<AdminChannel>,
    pub(super) metrics: MetricsServiceClient<AdminChannel>,
    /// The selected resource manager. Empty if there is only one.
    pub(super) rm: String,
    /// The selected partition.
    pub(super) partition: String,
    /// Text printed last about lists of a cluster that are not whole.
    pub(super) gaps: Gaps,
    /// Whether it was printed that no resource manager is registered.
    says_default: bool,
}

/// A filter of applications. Empty fields select all.
#[derive(Clone, Debug, Default)]
pub(super) struct ApplicationFilter {
    pub(super) queue: String,
    pub(super) states: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) ids: Vec<String>,
    pub(super) list: v1::ApplicationList,
    /// Whether the answer lists allocations and pending requests.
    pub(super) details: bool,
    /// Whether the answer says why live applications wait.
    pub(super) why: bool,
    /// Most applications of the answer. `None`: all.
    pub(super) most: Option<usize>,
}

/// A page of a list, as it is requested.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// Most entries. 0 is the default of the scheduler.
    size: u32,
    /// The token that came with the page before. Empty for the first page.
    token: String,
}

/// The entries of a page, and the token of the next one. The token is empty after the last page.
pub(super) type Entries<T> = (Vec<T>, String);

/// Reads a list in pages of `size` while `take` returns true.
pub(super) async fn each_page<T>(
    size: u32,
    mut read: impl AsyncFnMut(Page) -> anyhow::Result<Entries<T>>,
    mut take: impl FnMut(Vec<T>) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut token = String::new();
    loop {
        let (entries, next) = read(Page { size, token }).await?;
        if !take(entries)? || next.is_empty() {
            return Ok(());
        }
        token = next;
    }
}

/// Reads the first `most` entries of a list, in pages of `size`.
async fn first<T>(
    most: usize,
    size: u32,
    read: impl AsyncFnMut(Page) -> anyhow::Result<Entries<T>>,
) -> anyhow::Result<Vec<T>> {
    let mut rows = Vec::new();
    let take = |entries| {
        rows.extend(entries);
        Ok(rows.len() < most && !is_too_many(rows.len())?)
    };
    each_page(size, read, take).await?;
    rows.truncate(most.min(MOST_ROWS));
    Ok(rows)
}

/// Returns the size of pages that hold no more than `most` entries. 0 is the default of the
/// scheduler.
fn page_size(most: usize) -> u32 {
    u32::try_from(most).ok().filter(|most| *most < USUAL_PAGE).unwrap_or_default()
}

/// Recent decisions.
#[derive(Clone, Debug, Default)]
pub(super) struct LastDecisions {
    /// In order, the newest last.
    pub(super) decisions: Vec<v1::DecisionInfo>,
    /// The number of the newest decision, even if the filter excludes it.
    pub(super) newest: Option<u64>,
    /// Most decisions that the scheduler keeps. 0: it keeps none.
    pub(super) kept: u64,
}

impl Cluster {
    pub(super) async fn connect(args: &ConnectArgs) -> anyhow::Result<Self> {
        let connection = connect::connect(args).await?;
        Ok(Self {
            admin: connect::admin(&connection),
            metrics: connect::metrics(&connection),
            rm: args.rm(),
            partition: args.partition(),
            gaps: Gaps::default(),
            says_default: false,
        })
    }

    /// Returns a queue with its subtree, or `None` if it is unknown. An empty path selects all
    /// queues.
    pub(super) async fn find_queue(&mut self, path: &str) -> anyhow::Result<Option<v1::QueueInfo>> {
        match self.queue(path).await {
            Err(error) if is_unknown_queue(&error) => Ok(None),
            found => found,
        }
    }

    /// Returns a queue with its subtree. An empty path selects all queues. Prints once that the
    /// answer is about no resource manager.
    pub(super) async fn queue(&mut self, path: &str) -> anyhow::Result<Option<v1::QueueInfo>> {
        let answer = self.read_queue(path).await?;
        self.say_default(answer.is_default).await?;
        Ok(answer.root)
    }

    /// Returns a queue with its subtree, and whether it is about no resource manager. Prints
    /// nothing.
    pub(super) async fn read_queue(&mut self, path: &str) -> anyhow::Result<v1::GetQueuesResponse> {
        let request = v1::GetQueuesRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            queue: path.to_owned(),
            depth: 0,
        };
        Ok(self.admin.get_queues(request).await?.into_inner())
    }

    /// Returns the configuration of the selected resource manager, or of those that bring none.
    pub(super) async fn config(&mut self) -> anyhow::Result<v1::GetConfigResponse> {
        let request = v1::GetConfigRequest { rm_id: self.rm.clone(), ..Default::default() };
        let answer = self.admin.get_config(request).await?.into_inner();
        self.say_default(answer.is_default).await?;
        Ok(answer)
    }

    /// Whether an answer was about no resource manager, so that nothing runs.
    pub(super) fn has_no_managers(&self) -> bool {
        self.says_default
    }

    /// Prints once that an answer is about no resource manager.
    async fn say_default(&mut self, is_default: bool) -> anyhow::Result<()> {
        if is_default && !self.says_default {
            self.says_default = true;
            let text =
                "no resource manager is registered: these queues are for those that bring none";
            writeln!(io::stderr(), "{text}")?;
            self.tell_undecided().await?;
        }
        Ok(())
    }

    /// Returns a queue and its subtree as a list in the order of the tree, without nested children.
    pub(super) async fn queues(&mut self, path: &str) -> anyhow::Result<Vec<v1::QueueInfo>> {
        Ok(listed(self.queue(path).await?))
    }

    /// Lists applications by id.
    pub(super) async fn applications(
        &mut self,
        filter: &ApplicationFilter,
    ) -> anyhow::Result<Vec<v1::ApplicationInfo>> {
        let most = filter.most.unwrap_or(usize::MAX);
        let read = async |page| self.applications_page(filter, page).await;
        first(most, page_size(most), read).await
    }

    /// Lists a page of applications. [`ApplicationFilter::most`] has no effect.
    pub(super) async fn applications_page(
        &mut self,
        filter: &ApplicationFilter,
        page: Page,
    ) -> anyhow::Result<Entries<v1::ApplicationInfo>> {
        let request = v1::ListApplicationsRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            queue: filter.queue.clone(),
            states: filter.states.clone(),
            users: filter.users.clone(),
            application_ids: filter.ids.clone(),
            details: filter.details,
            page_size: page.size,
            page_token: page.token,
            list: filter.list.into(),
            why: filter.why,
        };
        let answer = self.admin.list_applications(request).await?.into_inner();
        Ok((answer.applications, answer.next_page_token))
    }

    /// Lists at most `most` nodes by id, the given ones or all.
    pub(super) async fn nodes(
        &mut self,
        ids: &[String],
        details: bool,
        most: usize,
    ) -> anyhow::Result<Vec<v1::NodeState>> {
        let read = async |page| self.nodes_page(ids, details, page).await;
        first(most, page_size(most), read).await
    }

    /// Lists a page of nodes.
    pub(super) async fn nodes_page(
        &mut self,
        ids: &[String],
        details: bool,
        page: Page,
    ) -> anyhow::Result<Entries<v1::NodeState>> {
        let request = v1::ListNodesRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            node_ids: ids.to_vec(),
            details,
            page_size: page.size,
            page_token: page.token,
        };
        let answer = self.admin.list_nodes(request).await?.into_inner();
        Ok((answer.nodes, answer.next_page_token))
    }

    /// Lists at most `most` users by name, the given ones or all, with their usage of the queue, or of
    /// all queues if it is empty.
    pub(super) async fn users(
        &mut self,
        queue: &str,
        names: &[String],
        most: usize,
    ) -> anyhow::Result<Vec<v1::UserInfo>> {
        // With a queue a page has fewer entries than its size, so the size is not `most`.
        first(most, 0, async |page| self.users_page(queue, names, page).await).await
    }

    /// Lists a page of users.
    pub(super) async fn users_page(
        &mut self,
        queue: &str,
        names: &[String],
        page: Page,
    ) -> anyhow::Result<Entries<v1::UserInfo>> {
        let request = v1::ListUsersRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            queue: queue.to_owned(),
            page_size: page.size,
            page_token: page.token,
            names: names.to_vec(),
        };
        let answer = self.admin.list_users(request).await?.into_inner();
        Ok((answer.users, answer.next_page_token))
    }

    /// Lists at most `most` groups, as [`Self::users`] lists users.
    pub(super) async fn groups(
        &mut self,
        queue: &str,
        names: &[String],
        most: usize,
    ) -> anyhow::Result<Vec<v1::GroupInfo>> {
        first(most, 0, async |page| self.groups_page(queue, names, page).await).await
    }

    /// Lists a page of groups.
    pub(super) async fn groups_page(
        &mut self,
        queue: &str,
        names: &[String],
        page: Page,
    ) -> anyhow::Result<Entries<v1::GroupInfo>> {
        let request = v1::ListGroupsRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            queue: queue.to_owned(),
            page_size: page.size,
            page_token: page.token,
            names: names.to_vec(),
        };
        let answer = self.admin.list_groups(request).await?.into_inner();
        Ok((answer.groups, answer.next_page_token))
    }

    /// Returns at most `most` recent decisions that match the request and have a higher number than
    /// `behind`, the newest last.
    pub(super) async fn decisions(
        &mut self,
        filter: &v1::ListDecisionsRequest,
        behind: u64,
        most: usize,
    ) -> anyhow::Result<LastDecisions> {
        let mut last = LastDecisions::default();
        let mut page_token = String::new();
        loop {
            let request = v1::ListDecisionsRequest {
                rm_id: self.rm.clone(),
                partition_name: self.partition.clone(),
                page_size: u32::try_from(most.min(1_000)).unwrap_or(0),
                page_token,
                ..filter.clone()
            };
            let page = self.admin.list_decisions(request).await?.into_inner();
            last.kept = page.kept;
            last.newest = last.newest.max(page.decisions.first().map(|newest| newest.id));
            let is_over = page.decisions.last().is_none_or(|oldest| oldest.id <= behind);
            last.decisions.extend(page.decisions.into_iter().filter(|it| it.id > behind));
            page_token = page.next_page_token;
            if is_over || page_token.is_empty() || last.decisions.len() >= most {
                last.decisions.truncate(most);
                last.decisions.reverse();
                return Ok(last);
            }
        }
    }

    /// Returns the decision with this number. Prints a message if there is none.
    pub(super) async fn decision(
        &mut self,
        name: &str,
    ) -> anyhow::Result<Option<v1::DecisionInfo>> {
        let id = name.parse().ok().filter(|id| *id > 0);
        let Some(id) = id else {
            let text = format!("`{}` is no number of a decision", clean(name));
            return Err(WrongLine(text).into());
        };
        let request = v1::ListDecisionsRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            id,
            ..Default::default()
        };
        let answer = self.admin.list_decisions(request).await?.into_inner();
        let found = answer.decisions.into_iter().next();
        if found.is_none() {
            writeln!(io::stderr(), "there is no decision `{id}`, or not any more")?;
        }
        Ok(found)
    }

    /// Fails if the resource manager is not registered. The scheduler accepts the end of an unknown
    /// session, so a mistyped name would look like success.
    pub(super) async fn check_registered(&mut self, rm_id: &str) -> anyhow::Result<()> {
        let request = v1::GetConfigRequest { rm_id: rm_id.to_owned(), ..Default::default() };
        match self.admin.get_config(request).await {
            Err(status) if is_refused(&status, "RM_NOT_REGISTERED") => Err(status.into()),
            // A manager in any other state can be ended.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns the selected resource manager, or the only one.
    pub(super) async fn only_rm(&mut self) -> anyhow::Result<String> {
        if !self.rm.is_empty() {
            return Ok(self.rm.clone());
        }
        let mut ids: Vec<_> = self.sessions().await?.into_iter().map(|it| it.rm_id).collect();
        match ids.len() {
            0 => anyhow::bail!("no resource manager is registered"),
            1 => Ok(ids.remove(0)),
            _ => Err(several(&ids)),
        }
    }

    /// Names the resource managers in the error of a call that should have named one, and says what
    /// to do if there are none. Returns any other error, and one whose caller may not read the list, as it is.
    pub(super) async fn name_managers(&mut self, error: anyhow::Error) -> anyhow::Error {
        let is_nobody = |status: &Status| is_refused(status, "RM_NOT_REGISTERED");
        let is_nobody = error.downcast_ref().is_some_and(is_nobody);
        if is_nobody && let Err(error) = self.tell_undecided().await {
            return error;
        }
        if self.rm.is_empty() && is_nobody {
            return anyhow::anyhow!(
                "no resource manager is registered: start one (docs/shims.md); until then `monoceros \
                 get queues` and `config get` show what is loaded"
            );
        }
        let is_missing = |status: &Status| is_refused(status, "RM_ID_MISSING");
        if !error.downcast_ref().is_some_and(is_missing) {
            return error;
        }
        match self.sessions().await {
            Ok(sessions) if sessions.len() > 1 => {
                several(&sessions.into_iter().map(|it| it.rm_id).collect::<Vec<_>>())
            }
            Ok(_) | Err(_) => error,
        }
    }
}

/// The error of a command that needs one resource manager where there are several.
fn several(ids: &[String]) -> anyhow::Error {
    let shown: Vec<_> = ids.iter().take(MANAGERS_SHOWN).map(|id| clean(id)).collect();
    let more = if ids.len() > shown.len() { ", …" } else { "" };
    let (n, shown) = (ids.len(), shown.join(", "));
    anyhow::anyhow!("{n} resource managers are registered: {shown}{more}; choose one with --rm")
}

fn is_refused(status: &Status, why: &str) -> bool {
    status.metadata().get(REASON_TRAILER).is_some_and(|reason| reason == why)
}

fn is_unknown_queue(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|status| is_refused(status, "QUEUE_UNKNOWN"))
}

/// Lists a queue and its subtree in the order of the tree, without nested children.
pub(super) fn listed(root: Option<v1::QueueInfo>) -> Vec<v1::QueueInfo> {
    let mut rest: Vec<_> = root.into_iter().collect();
    let mut queues = Vec::new();
    while let Some(mut queue) = rest.pop() {
        rest.extend(std::mem::take(&mut queue.children).into_iter().rev());
        queues.push(queue);
    }
    queues
}

/// Whether there are more rows than are kept in memory. Prints a message then.
fn is_too_many(rows: usize) -> anyhow::Result<bool> {
    if rows <= MOST_ROWS {
        return Ok(false);
    }
    writeln!(io::stderr(), "there are more than {MOST_ROWS}: only these are shown, use filters")?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the page of the numbers from 0 to 9, with the number of the next page as token.
    fn numbers(page: &Page) -> Entries<u32> {
        let from = page.token.parse().unwrap_or(0);
        let next = from + page.size;
        ((from..next).collect(), if next < 10 { next.to_string() } else { String::new() })
    }

    #[tokio::test]
    async fn pages_are_read_until_there_is_enough() {
        for (most, size, expected, n_pages) in [(3, 2, 3, 2), (4, 2, 4, 2), (1, 5, 1, 1)] {
            let mut n_read = 0;
            let read = async |page| {
                n_read += 1;
                Ok(numbers(&page))
            };
            let rows = first(most, size, read).await.unwrap();
            assert_eq!(rows, (0..expected).collect::<Vec<_>>(), "{most}");
            assert_eq!(n_read, n_pages, "{most}");
        }
        let all = first(usize::MAX, 5, async |page| Ok(numbers(&page))).await.unwrap();
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn a_page_is_no_larger_than_needed() {
        assert_eq!([5, 999, 1_000, usize::MAX].map(page_size), [5, 999, 0, 0]);
    }
}
