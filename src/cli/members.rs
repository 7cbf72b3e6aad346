//! `monoceros cluster`: moves resource managers between the members of a cluster, and drains members.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use monoceros_proto::v1;

use super::cluster::Cluster;
use super::output;
use super::steer::{ConfirmArgs, confirm, reason};
use crate::logging::clean;

/// What can be done with the cluster that the scheduler is.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Have another member serve a resource manager; its session moves, nothing that runs is lost
    Move(MoveArgs),
    /// Hand over all resource managers of a member; until it is undrained or restarts it takes no
    /// others
    Drain(MemberArgs),
    /// Let a drained member take resource managers again
    Undrain(MemberArgs),
    /// Accept that the arbiter went back to an earlier state, after a backup was restored
    AcceptRestore(ConfirmArgs),
}

/// Arguments of `monoceros cluster move`.
#[derive(Clone, Debug, Args)]
pub(super) struct MoveArgs {
    /// Its id
    #[arg(value_name = "RM")]
    pub(super) manager: String,
    /// Where to; else to a member that is less loaded
    #[arg(long, value_name = "MEMBER")]
    pub(super) to: Option<String>,
    /// Why, for the log of the scheduler
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Arguments of commands that name a member.
#[derive(Clone, Debug, Args)]
pub(super) struct MemberArgs {
    /// Its id
    #[arg(value_name = "MEMBER")]
    pub(super) member: String,
    #[command(flatten)]
    pub(super) confirm: ConfirmArgs,
}

pub(super) async fn run(
    cluster: &mut Cluster,
    command: ClusterCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::Move(args) => move_rm(cluster, args).await,
        ClusterCommand::Drain(args) => drain(cluster, args, true).await,
        ClusterCommand::Undrain(args) => drain(cluster, args, false).await,
        ClusterCommand::AcceptRestore(args) => accept_restore(cluster, &args).await,
    }
}

async fn move_rm(cluster: &mut Cluster, args: MoveArgs) -> anyhow::Result<ExitCode> {
    let request = v1::MoveResourceManagerRequest {
        rm_id: args.manager,
        to: args.to.unwrap_or_default(),
        reason: reason(args.reason.as_deref()),
    };
    let answer = cluster.admin.move_resource_manager(request).await?.into_inner();
    output::write(&format!("moved to member {}\n", clean(&answer.member_id)))?;
    Ok(ExitCode::SUCCESS)
}

async fn drain(cluster: &mut Cluster, args: MemberArgs, drain: bool) -> anyhow::Result<ExitCode> {
    // Fails before the question if there is no cluster.
    cluster.members().await?;
    if drain {
        let member = clean(&args.member);
        confirm(
            &args.confirm,
            &format!("hand over all resource managers of member `{member}`, which takes no others"),
        )?;
    }
    let request = v1::DrainMemberRequest {
        member_id: args.member,
        drain,
        reason: reason(args.confirm.reason.as_deref()),
    };
    let answer = cluster.admin.drain_member(request).await?.into_inner();
    if !drain {
        output::write("takes resource managers again\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (handed_over, remaining) = (answer.handed_over, answer.remaining);
    output::write(&format!("{handed_over} handed over, {remaining} left\n"))?;
    Ok(if remaining == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn accept_restore(cluster: &mut Cluster, args: &ConfirmArgs) -> anyhow::Result<ExitCode> {
    let found = cluster.members().await?;
    let (arbiter, name) = (clean(&found.arbiter), clean(&found.cluster));
    confirm(
        args,
        &format!(
            "accept the present state of {arbiter} as that of cluster `{name}`: members that are \
             fenced since a backup was restored decide again"
        ),
    )?;
    let request = v1::AcceptRestoreRequest { reason: reason(args.reason.as_deref()) };
    let answer = cluster.admin.accept_restore(request).await?.into_inner();
    output::write(&format!("accepted: sessions get numbers above {}\n", answer.floor))?;
    Ok(ExitCode::SUCCESS)
}
