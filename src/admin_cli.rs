//! `monoceros admin`: what an operator asks of a running scheduler, from a shell.
//!
//! It is a client of the admin service and nothing more: whatever it can do, a program of an
//! operator can do too. Answers go to standard output as lines of columns or as documents; a
//! refusal is printed with the reason that the scheduler gave, and the exit code is 1.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;

use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use crate::input;
use crate::logging::{clean, clean_json, clean_lines};
use crate::operator::{self, AdminChannel, ConnectArgs};

/// Arguments of `monoceros admin`.
#[derive(Clone, Debug, Args)]
pub struct AdminArgs {
    /// Where the scheduler is, and what is meant there
    #[command(flatten)]
    pub to: ConnectArgs,
    /// What to do
    #[command(subcommand)]
    pub command: AdminCommand,
}

/// What can be asked for.
#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// List the sessions of all resource managers
    Sessions,
    /// Read or change the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List the queues
    Queues,
    /// List the nodes
    Nodes,
    /// List the applications
    Applications,
    /// Close nodes for new allocations
    Drain {
        /// Their ids
        #[arg(value_name = "NODE", required = true)]
        nodes: Vec<String>,
        /// Open them again instead
        #[arg(long)]
        open: bool,
    },
    /// Write the full state as JSON
    Dump,
    /// Make the resource manager register again and report everything
    Resync,
    /// End the session of the resource manager, with all that is known of it; until it registers
    /// again, it is not served
    Deregister,
    /// End the scheduler in order
    Shutdown,
}

/// What can be done with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the queue configuration that is in force
    Get,
    /// Put one in force, if all of it is valid; settings outside the queues stay as they are
    Set {
        /// The queue configuration (YAML)
        #[arg(value_name = "QUEUES.yaml")]
        file: PathBuf,
        /// Only say whether it is valid, and what it would change
        #[arg(long)]
        check: bool,
        /// Have the resource manager keep it first
        #[arg(long)]
        persist: bool,
    },
}

/// Does what the arguments say.
pub fn run(args: AdminArgs) -> anyhow::Result<ExitCode> {
    operator::run(async { Operator::connect(args).await?.obey().await })
}

/// A connected operator.
struct Operator {
    args: AdminArgs,
    admin: AdminServiceClient<AdminChannel>,
    metrics: MetricsServiceClient<AdminChannel>,
}

impl Operator {
    async fn connect(args: AdminArgs) -> anyhow::Result<Self> {
        let connection = operator::connect(&args.to).await?;
        Ok(Self {
            args,
            admin: operator::admin(&connection),
            metrics: operator::metrics(&connection),
        })
    }

    async fn obey(mut self) -> anyhow::Result<ExitCode> {
        match self.args.command.clone() {
            AdminCommand::Sessions => self.sessions().await?,
            AdminCommand::Config(ConfigCommand::Get) => {
                let request = v1::GetConfigRequest { rm_id: self.rm(), ..Default::default() };
                let answer = self.admin.get_config(request).await?.into_inner();
                io::stdout().write_all(clean_lines(&answer.config).as_bytes())?;
            }
            AdminCommand::Config(ConfigCommand::Set { file, check, persist }) => {
                return self.configure(&file, check, persist).await;
            }
            AdminCommand::Queues => self.queues().await?,
            AdminCommand::Nodes => self.nodes().await?,
            AdminCommand::Applications => self.applications().await?,
            AdminCommand::Drain { nodes, open } => return self.drain(nodes, !open).await,
            AdminCommand::Dump => self.dump().await?,
            AdminCommand::Resync => {
                let request = v1::TriggerResyncRequest { rm_id: self.rm(), reason: reason() };
                let answer = self.admin.trigger_resync(request).await?.into_inner();
                line(&[&format!("{} streams closed", answer.closed_streams)])?;
            }
            AdminCommand::Deregister => {
                let request = v1::DeregisterResourceManagerRequest {
                    rm_id: self.rm(),
                    session_id: 0,
                    reason: reason(),
                };
                let answer = self.admin.deregister_resource_manager(request).await?.into_inner();
                line(&[&format!(
                    "{} applications, {} allocations, {} nodes forgotten",
                    answer.removed_applications, answer.released_allocations, answer.removed_nodes
                )])?;
            }
            AdminCommand::Shutdown => {
                let request = v1::ShutdownRequest { reason: reason() };
                let answer = self.admin.shutdown(request).await?.into_inner();
                line(&[&format!("ends within {} ms", answer.grace_ms)])?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn sessions(&mut self) -> anyhow::Result<()> {
        let answer = self.admin.list_sessions(v1::ListSessionsRequest {}).await?.into_inner();
        line(&["RM", "SESSION", "STATE", "DIALECT", "STREAMS", "OUTBOX", "VERSION"])?;
        for session in answer.sessions {
            line(&[
                &session.rm_id,
                &session.session_id.to_string(),
                &session.state,
                &session.dialect,
                &session.open_streams.join(","),
                &session.outbox_items.to_string(),
                &session.version,
            ])?;
        }
        Ok(())
    }

    async fn configure(
        &mut self,
        file: &Path,
        check: bool,
        persist: bool,
    ) -> anyhow::Result<ExitCode> {
        let config = input::read_text(file)?;
        // The settings outside the queues are replaced as a whole: say those that are there again.
        let request = v1::GetConfigRequest { rm_id: self.rm(), ..Default::default() };
        let current = self.admin.get_config(request).await?.into_inner();
        let request = si::UpdateConfigurationRequest {
            rm_id: self.rm(),
            config,
            extra_config: current.extra_config,
            ..Default::default()
        };
        let mut request = Request::new(request);
        if persist {
            request.metadata_mut().insert("x-si-persist", AsciiMetadataValue::from_static("true"));
        }
        let answer = if check {
            self.admin.validate_config(request).await?
        } else {
            self.admin.update_config(request).await?
        };
        let answer = answer.into_inner();
        if answer.success {
            // What is different, if anything.
            for change in answer.reason.lines() {
                line(&[change])?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(io::stderr(), "{}: {}", file.display(), clean_lines(&answer.reason))?;
        Ok(ExitCode::FAILURE)
    }

    async fn queues(&mut self) -> anyhow::Result<()> {
        let request = v1::GetQueuesRequest {
            rm_id: self.rm(),
            partition_name: self.partition(),
            ..Default::default()
        };
        let root = self.admin.get_queues(request).await?.into_inner().root;
        line(&["QUEUE", "STATE", "RUNNING", "ALLOCATED", "PENDING", "MAX"])?;
        let mut rest: Vec<_> = root.into_iter().collect();
        while let Some(queue) = rest.pop() {
            line(&[
                &queue.path,
                &queue.state,
                &queue.running_applications.to_string(),
                &amount(queue.allocated),
                &amount(queue.pending),
                &amount(queue.max),
            ])?;
            rest.extend(queue.children.into_iter().rev());
        }
        Ok(())
    }

    async fn nodes(&mut self) -> anyhow::Result<()> {
        line(&["NODE", "OPEN", "ALLOCATIONS", "ALLOCATED", "CAPACITY"])?;
        let mut page_token = String::new();
        loop {
            let request = v1::ListNodesRequest {
                rm_id: self.rm(),
                partition_name: self.partition(),
                page_token,
                ..Default::default()
            };
            let page = self.admin.list_nodes(request).await?.into_inner();
            for node in page.nodes {
                line(&[
                    &node.node_id,
                    if node.schedulable { "yes" } else { "no" },
                    &node.allocations.to_string(),
                    &amount(node.allocated),
                    &amount(node.capacity),
                ])?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    }

    async fn applications(&mut self) -> anyhow::Result<()> {
        line(&["APPLICATION", "QUEUE", "USER", "STATE", "ALLOCATIONS", "ALLOCATED", "PENDING"])?;
        let mut page_token = String::new();
        loop {
            let request = v1::ListApplicationsRequest {
                rm_id: self.rm(),
                partition_name: self.partition(),
                page_token,
                ..Default::default()
            };
            let page = self.admin.list_applications(request).await?.into_inner();
            for application in page.applications {
                line(&[
                    &application.application_id,
                    &application.queue,
                    &application.user,
                    &application.state,
                    &application.allocations.to_string(),
                    &amount(application.allocated),
                    &amount(application.pending),
                ])?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    }

    async fn drain(&mut self, nodes: Vec<String>, drain: bool) -> anyhow::Result<ExitCode> {
        let request = v1::DrainNodesRequest {
            rm_id: self.rm(),
            partition_name: self.partition(),
            node_ids: nodes,
            drain,
            reason: reason(),
        };
        let answer = self.admin.drain_nodes(request).await?.into_inner();
        line(&[&format!(
            "{} nodes changed, {} allocations on the nodes named",
            answer.changed, answer.remaining_allocations
        )])?;
        for node in &answer.unknown_node_ids {
            writeln!(io::stderr(), "there is no node `{}`", clean(node))?;
        }
        let all_known = answer.unknown_node_ids.is_empty();
        Ok(if all_known { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn dump(&mut self) -> anyhow::Result<()> {
        let request =
            v1::StateDumpParameters { rm_id: self.rm(), include_rm: true, ..Default::default() };
        let mut parts = self.metrics.get_state_dump(request).await?.into_inner();
        let mut stdout = io::stdout().lock();
        let mut rest = Vec::new();
        while let Some(part) = parts.message().await? {
            // A part may end within a character.
            rest.extend_from_slice(&part.data);
            let whole = match str::from_utf8(&rest) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            let text = String::from_utf8_lossy(&rest[..whole]);
            stdout.write_all(clean_json(&text).as_bytes())?;
            rest.drain(..whole);
        }
        stdout.write_all(clean_json(&String::from_utf8_lossy(&rest)).as_bytes())?;
        Ok(())
    }

    fn rm(&self) -> String {
        self.args.to.rm.clone()
    }

    fn partition(&self) -> String {
        self.args.to.partition.clone()
    }
}

/// What the scheduler logs.
fn reason() -> String {
    "monoceros admin".to_owned()
}

/// One line; columns are told apart by a tab.
fn line(columns: &[&str]) -> io::Result<()> {
    // Names come from outside.
    let columns: Vec<_> =
        columns.iter().map(|it| if it.is_empty() { "-".into() } else { clean(it) }).collect();
    writeln!(io::stdout(), "{}", columns.join("\t"))
}

/// `memory=1000,vcore=4`, by name.
fn amount(amount: Option<si::Resource>) -> String {
    let resources: BTreeMap<_, _> = amount.map(|amount| amount.resources).unwrap_or_default();
    let quantities: Vec<_> =
        resources.iter().map(|(name, quantity)| format!("{name}={}", quantity.value)).collect();
    quantities.join(",")
}
