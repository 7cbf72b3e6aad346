//! A running scheduler as the commands read it: whole lists, page by page, up to a bound.

use std::io::{self, Write as _};

use monoceros_proto::v1;
use tonic::Status;

use super::connect::{self, AdminChannel, ConnectArgs};
use super::output::WrongLine;
use crate::grpc::REASON_TRAILER;
use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use crate::logging::clean;

/// Most rows of a list, which is in memory before it is printed.
const MOST_ROWS: usize = 1_000_000;

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
    /// Whether the answer says why each live application waits.
    pub(super) why: bool,
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

    /// Returns a queue with its subtree. An empty path selects all queues.
    pub(super) async fn queue(&mut self, path: &str) -> anyhow::Result<Option<v1::QueueInfo>> {
        let request = v1::GetQueuesRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            queue: path.to_owned(),
            depth: 0,
        };
        let answer = self.admin.get_queues(request).await?.into_inner();
        self.say_default(answer.is_default)?;
        Ok(answer.root)
    }

    /// Returns the configuration of the selected resource manager, or of those that bring none.
    pub(super) async fn config(&mut self) -> anyhow::Result<v1::GetConfigResponse> {
        let request = v1::GetConfigRequest { rm_id: self.rm.clone(), ..Default::default() };
        let answer = self.admin.get_config(request).await?.into_inner();
        self.say_default(answer.is_default)?;
        Ok(answer)
    }

    /// Whether an answer was about no resource manager, so that nothing runs.
    pub(super) fn has_no_managers(&self) -> bool {
        self.says_default
    }

    /// Prints once that an answer is about no resource manager.
    fn say_default(&mut self, is_default: bool) -> anyhow::Result<()> {
        if is_default && !self.says_default {
            self.says_default = true;
            let text =
                "no resource manager is registered: these queues are for those that bring none";
            writeln!(io::stderr(), "{text}")?;
        }
        Ok(())
    }

    /// Returns a queue and its subtree as a list in the order of the tree, without nested children.
    pub(super) async fn queues(&mut self, path: &str) -> anyhow::Result<Vec<v1::QueueInfo>> {
        let mut rest: Vec<_> = self.queue(path).await?.into_iter().collect();
        let mut queues = Vec::new();
        while let Some(mut queue) = rest.pop() {
            rest.extend(std::mem::take(&mut queue.children).into_iter().rev());
            queues.push(queue);
        }
        Ok(queues)
    }

    /// Lists applications by id.
    pub(super) async fn applications(
        &mut self,
        filter: &ApplicationFilter,
    ) -> anyhow::Result<Vec<v1::ApplicationInfo>> {
        let mut applications = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListApplicationsRequest {
                rm_id: self.rm.clone(),
                partition_name: self.partition.clone(),
                queue: filter.queue.clone(),
                states: filter.states.clone(),
                users: filter.users.clone(),
                application_ids: filter.ids.clone(),
                details: filter.details,
                page_size: 0,
                page_token,
                list: filter.list.into(),
                why: filter.why,
            };
            let page = self.admin.list_applications(request).await?.into_inner();
            applications.extend(page.applications);
            page_token = page.next_page_token;
            if page_token.is_empty() || is_enough(applications.len())? {
                return Ok(applications);
            }
        }
    }

    /// Lists nodes by id: the given ones, or all.
    pub(super) async fn nodes(
        &mut self,
        ids: &[String],
        details: bool,
    ) -> anyhow::Result<Vec<v1::NodeState>> {
        let mut nodes = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListNodesRequest {
                rm_id: self.rm.clone(),
                partition_name: self.partition.clone(),
                node_ids: ids.to_vec(),
                details,
                page_size: 0,
                page_token,
            };
            let page = self.admin.list_nodes(request).await?.into_inner();
            nodes.extend(page.nodes);
            page_token = page.next_page_token;
            if page_token.is_empty() || is_enough(nodes.len())? {
                return Ok(nodes);
            }
        }
    }

    /// Lists partitions: those of the selected resource manager, or all that the caller may read.
    pub(super) async fn partitions(&mut self) -> anyhow::Result<Vec<v1::PartitionInfo>> {
        let request = v1::ListPartitionsRequest { rm_id: self.rm.clone() };
        Ok(self.admin.list_partitions(request).await?.into_inner().partitions)
    }

    /// Lists at most `most` users by name, the given ones or all, with their usage of the queue, or of
    /// all queues if it is empty.
    pub(super) async fn users(
        &mut self,
        queue: &str,
        names: &[String],
        most: usize,
    ) -> anyhow::Result<Vec<v1::UserInfo>> {
        let mut users = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListUsersRequest {
                rm_id: self.rm.clone(),
                partition_name: self.partition.clone(),
                queue: queue.to_owned(),
                page_size: 0,
                page_token,
                names: names.to_vec(),
            };
            let page = self.admin.list_users(request).await?.into_inner();
            users.extend(page.users);
            page_token = page.next_page_token;
            if page_token.is_empty() || users.len() >= most || is_enough(users.len())? {
                users.truncate(most);
                return Ok(users);
            }
        }
    }

    /// Lists at most `most` groups, as [`Self::users`] lists users.
    pub(super) async fn groups(
        &mut self,
        queue: &str,
        names: &[String],
        most: usize,
    ) -> anyhow::Result<Vec<v1::GroupInfo>> {
        let mut groups = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListGroupsRequest {
                rm_id: self.rm.clone(),
                partition_name: self.partition.clone(),
                queue: queue.to_owned(),
                page_size: 0,
                page_token,
                names: names.to_vec(),
            };
            let page = self.admin.list_groups(request).await?.into_inner();
            groups.extend(page.groups);
            page_token = page.next_page_token;
            if page_token.is_empty() || groups.len() >= most || is_enough(groups.len())? {
                groups.truncate(most);
                return Ok(groups);
            }
        }
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

    /// Lists the sessions of the selected resource manager, or of all.
    pub(super) async fn sessions(&mut self) -> anyhow::Result<Vec<v1::SessionInfo>> {
        let answer = self.admin.list_sessions(v1::ListSessionsRequest {}).await?.into_inner();
        let is_meant = |session: &v1::SessionInfo| self.rm.is_empty() || session.rm_id == self.rm;
        Ok(answer.sessions.into_iter().filter(is_meant).collect())
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
        if self.rm.is_empty() && error.downcast_ref().is_some_and(is_nobody) {
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

/// Whether the bound on rows is reached. Prints a message then.
fn is_enough(rows: usize) -> anyhow::Result<bool> {
    if rows < MOST_ROWS {
        return Ok(false);
    }
    writeln!(io::stderr(), "there are more than {MOST_ROWS}: only these are shown, use filters")?;
    Ok(true)
}
