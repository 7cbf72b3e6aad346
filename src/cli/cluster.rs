//! A running scheduler as the commands ask it: whole lists, read page by page, within bounds.

use std::io::{self, Write as _};

use monoceros_proto::v1;
use tonic::Status;

use super::connect::{self, AdminChannel, ConnectArgs};
use super::output::WrongLine;
use crate::grpc::REASON_TRAILER;
use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use crate::logging::clean;

/// Most rows of a list: they are in memory before they are printed.
const MOST_ROWS: usize = 1_000_000;

/// A connection, and what is meant there.
pub(super) struct Cluster {
    pub(super) admin: AdminServiceClient<AdminChannel>,
    pub(super) metrics: MetricsServiceClient<AdminChannel>,
    /// The resource manager that is meant; empty: the only one.
    pub(super) rm: String,
    /// The partition that is meant.
    pub(super) partition: String,
}

/// Which applications are wanted; what is empty leaves all in.
#[derive(Clone, Debug, Default)]
pub(super) struct ApplicationsWanted {
    pub(super) queue: String,
    pub(super) states: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) ids: Vec<String>,
    pub(super) list: v1::ApplicationList,
    /// Also what each has and waits for.
    pub(super) details: bool,
}

/// What was decided last.
#[derive(Clone, Debug, Default)]
pub(super) struct LastDecisions {
    /// The newest last.
    pub(super) decisions: Vec<v1::DecisionInfo>,
    /// The number of the newest, whether it is among them or not.
    pub(super) newest: Option<u64>,
    /// How many the scheduler keeps; 0: none.
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
        })
    }

    /// A queue with all that is below it, if it is there; of an empty path, all queues.
    pub(super) async fn find_queue(&mut self, path: &str) -> anyhow::Result<Option<v1::QueueInfo>> {
        match self.queue(path).await {
            Err(error) if is_unknown_queue(&error) => Ok(None),
            found => found,
        }
    }

    /// A queue with all that is below it; of an empty path, all queues.
    pub(super) async fn queue(&mut self, path: &str) -> anyhow::Result<Option<v1::QueueInfo>> {
        let request = v1::GetQueuesRequest {
            rm_id: self.rm.clone(),
            partition_name: self.partition.clone(),
            queue: path.to_owned(),
            depth: 0,
        };
        Ok(self.admin.get_queues(request).await?.into_inner().root)
    }

    /// A queue and all below it, each without those below it, in the order of the tree.
    pub(super) async fn queues(&mut self, path: &str) -> anyhow::Result<Vec<v1::QueueInfo>> {
        let mut rest: Vec<_> = self.queue(path).await?.into_iter().collect();
        let mut queues = Vec::new();
        while let Some(mut queue) = rest.pop() {
            rest.extend(std::mem::take(&mut queue.children).into_iter().rev());
            queues.push(queue);
        }
        Ok(queues)
    }

    /// Applications that are live, by id.
    pub(super) async fn applications(
        &mut self,
        wanted: &ApplicationsWanted,
    ) -> anyhow::Result<Vec<v1::ApplicationInfo>> {
        let mut applications = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListApplicationsRequest {
                rm_id: self.rm.clone(),
                partition_name: self.partition.clone(),
                queue: wanted.queue.clone(),
                states: wanted.states.clone(),
                users: wanted.users.clone(),
                application_ids: wanted.ids.clone(),
                details: wanted.details,
                page_size: 0,
                page_token,
                list: wanted.list.into(),
            };
            let page = self.admin.list_applications(request).await?.into_inner();
            applications.extend(page.applications);
            page_token = page.next_page_token;
            if page_token.is_empty() || is_enough(applications.len())? {
                return Ok(applications);
            }
        }
    }

    /// Nodes by id: those that are named, or all.
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

    /// The last decisions that a request lets through and that have a higher number than this one, the
    /// newest last; no more than so many.
    pub(super) async fn decisions(
        &mut self,
        wanted: &v1::ListDecisionsRequest,
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
                ..wanted.clone()
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

    /// The decision with this number; says where it is not there.
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

    /// The sessions of resource managers: of the one that is meant, or of all.
    pub(super) async fn sessions(&mut self) -> anyhow::Result<Vec<v1::SessionInfo>> {
        let answer = self.admin.list_sessions(v1::ListSessionsRequest {}).await?.into_inner();
        let is_meant = |session: &v1::SessionInfo| self.rm.is_empty() || session.rm_id == self.rm;
        Ok(answer.sessions.into_iter().filter(is_meant).collect())
    }

    /// Refuses a resource manager that is not there: to end the session of such is no error for the
    /// scheduler, and a name that was mistyped would look as if it had been done.
    pub(super) async fn check_registered(&mut self, rm_id: &str) -> anyhow::Result<()> {
        let request = v1::GetConfigRequest { rm_id: rm_id.to_owned(), ..Default::default() };
        match self.admin.get_config(request).await {
            Err(status) if is_refused(&status, "RM_NOT_REGISTERED") => Err(status.into()),
            // Whatever else is wrong with it, it can be ended.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The resource manager that is meant; where none is named, the only one.
    pub(super) async fn only_rm(&mut self) -> anyhow::Result<String> {
        if !self.rm.is_empty() {
            return Ok(self.rm.clone());
        }
        let mut ids: Vec<_> = self.sessions().await?.into_iter().map(|it| it.rm_id).collect();
        match ids.len() {
            0 => anyhow::bail!("no resource manager is registered"),
            1 => Ok(ids.remove(0)),
            n => {
                ids.truncate(10);
                let ids = ids.join("`, `");
                anyhow::bail!("{n} resource managers are registered: say which with --rm (`{ids}`)")
            }
        }
    }
}

fn is_refused(status: &Status, why: &str) -> bool {
    status.metadata().get(REASON_TRAILER).is_some_and(|reason| reason == why)
}

fn is_unknown_queue(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|status| is_refused(status, "QUEUE_UNKNOWN"))
}

/// Whether no further row is read; says so to people.
fn is_enough(rows: usize) -> anyhow::Result<bool> {
    if rows < MOST_ROWS {
        return Ok(false);
    }
    writeln!(io::stderr(), "there are more than {MOST_ROWS}: only these are shown, use filters")?;
    Ok(true)
}
