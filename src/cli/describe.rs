//! `monoceros describe`: all details of one item, for people. Programs use `get -o json`.
//!
//! # Invariant
//! Tables have at most [`sheet::MOST_ROWS`] rows, and state how many more there are.

mod queue;
mod sheet;
mod usage;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use monoceros_proto::v1;

use super::amounts::{age, all, moment};
use super::cluster::{ApplicationFilter, Cluster};
use super::get::Kind;
use super::names;
use super::output::{self, WrongLine};
use crate::clock::now_ns;
use crate::logging::clean;

use self::sheet::{Sheet, sorted};

/// Most recent decisions about an application that are shown.
const DECISIONS: usize = 5;

/// Arguments of `monoceros describe`.
#[derive(Clone, Debug, Args)]
pub(super) struct DescribeArgs {
    /// What it is
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// Which: paths of queues, numbers of decisions, ids of others
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// Prints the details of each item, and a message for each unknown one.
pub(super) async fn run(cluster: &mut Cluster, args: &DescribeArgs) -> anyhow::Result<ExitCode> {
    let mut sheets = Vec::new();
    let mut n_missing = 0;
    for name in &args.names {
        let sheet = match args.kind {
            Kind::Apps => application(cluster, name).await?,
            Kind::Nodes => node(cluster, name).await?,
            Kind::Queues => queue::sheet(cluster, name).await?,
            Kind::Partitions => usage::partition(cluster, name).await?,
            Kind::Users => usage::user(cluster, name).await?,
            Kind::Groups => usage::group(cluster, name).await?,
            Kind::Rms => rm(cluster, name).await?,
            Kind::Members => member(cluster, name).await?,
            Kind::Decisions => decision(cluster, name).await?,
            Kind::Events => {
                let text = "events are not described: `monoceros events` prints them";
                return Err(WrongLine(text.to_owned()).into());
            }
        };
        if let Some(sheet) = sheet {
            sheets.push(sheet.shown());
            continue;
        }
        n_missing += 1;
        let kind = match args.kind {
            // The message was printed already.
            Kind::Decisions => continue,
            Kind::Apps => "application",
            Kind::Nodes => "node",
            Kind::Queues | Kind::Events => "queue",
            Kind::Partitions => "partition",
            Kind::Users => "user with requests, usage or limits",
            Kind::Groups => "group with requests, usage or limits",
            Kind::Rms => "resource manager",
            Kind::Members => "member",
        };
        writeln!(io::stderr(), "there is no {kind} called `{}`", clean(name))?;
    }
    output::write(&sheets.join("\n"))?;
    Ok(if n_missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the live application, or else the last one with this id that is still kept.
pub(super) async fn application_called(
    cluster: &mut Cluster,
    id: &str,
) -> anyhow::Result<Option<v1::ApplicationInfo>> {
    use v1::ApplicationList as List;
    for list in [List::Live, List::Ended, List::Rejected] {
        let ids = vec![id.to_owned()];
        let filter = ApplicationFilter { ids, list, details: true, ..Default::default() };
        if let Some(found) = cluster.applications(&filter).await?.into_iter().next() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn application(cluster: &mut Cluster, id: &str) -> anyhow::Result<Option<Sheet>> {
    let Some(found) = application_called(cluster, id).await? else { return Ok(None) };
    let mut sheet = Sheet::default();
    sheet.line("Application", &found.application_id);
    sheet.line("Queue", &found.queue);
    sheet.line("User", &found.user);
    sheet.line("Groups", found.groups.join(", "));
    sheet.line("State", &found.state);
    sheet.line("Reason", &found.rejected);
    sheet.line("Removal", &found.removed);
    sheet.line("Cure", &found.cure);
    sheet.time("Submitted", found.submitted_at_nano);
    sheet.time("Started", found.started_at_nano);
    sheet.line("Allocated", all(found.allocated.as_ref()));
    sheet.line("Placeholders", all(found.placeholders.as_ref()));
    sheet.line("Pending", all(found.pending.as_ref()));
    if found.priority != i32::MIN {
        sheet.line("Priority", format!("{} (of what waits)", found.priority));
    }
    let states = found.state_log.iter();
    sheet.table(
        "States",
        ["STATE", "SINCE"],
        states.map(|change| vec![change.state.clone(), moment(change.entered_at_nano)]),
    );
    sheet.table("Allocations", HELD, found.held.iter().map(|it| held(it, &it.node_id)));
    let waiting = found.waiting.iter().map(|request| {
        let why: Vec<_> = request.reasons.iter().map(|reason| reason.message.as_str()).collect();
        let name = if request.internal {
            "(the scheduler's own)".to_owned()
        } else {
            names::shown(&request.allocation_key, &request.tags)
        };
        vec![
            name,
            request.count.to_string(),
            all(request.resource.as_ref()),
            request.task_group_name.clone(),
            age(request.requested_at_nano, now_ns()),
            why.join("; "),
        ]
    });
    sheet.table("Waiting", ["REQUEST", "COUNT", "AMOUNT EACH", "GROUP", "AGE", "WHY"], waiting);
    let filter = v1::ListDecisionsRequest { application_id: id.to_owned(), ..Default::default() };
    let last = cluster.decisions(&filter, 0, DECISIONS).await?;
    let decisions = last.decisions.iter().rev().map(|it| {
        vec![
            it.id.to_string(),
            age(it.time, now_ns()),
            it.kind.clone(),
            names::of_decision(it).to_owned(),
            it.node_id.clone(),
            it.ruled.clone(),
        ]
    });
    sheet.table("Decisions", ["DECISION", "AGE", "KIND", "KEY", "NODE", "RULE"], decisions);
    Ok(Some(sheet))
}

async fn decision(cluster: &mut Cluster, number: &str) -> anyhow::Result<Option<Sheet>> {
    let Some(found) = cluster.decision(number).await? else { return Ok(None) };
    let mut sheet = Sheet::default();
    sheet.line("Decision", found.id.to_string());
    sheet.line("Kind", &found.kind);
    sheet.line("Rule", &found.ruled);
    sheet.time("Told", found.time);
    sheet.time("Made", found.decided_time);
    sheet.line("Application", &found.application_id);
    sheet.line("Pod", &found.pod);
    sheet.line("Key", &found.allocation_key);
    sheet.line("Queue", &found.queue_name);
    sheet.line("Node", &found.node_id);
    sheet.line("For", &found.preempted_for);
    if found.tried > 0 {
        sheet.line("Nodes asked", found.tried.to_string());
    }
    let levels = found.levels.iter().map(|it| {
        let (first, second) = names::of_level(&found, it);
        let (first, second) = (first.to_owned(), second.to_owned());
        vec![it.queue.clone(), it.order.clone(), first, second, it.rule.clone()]
    });
    sheet.table("Order", ["QUEUE", "BY", "FIRST", "SECOND", "WHY"], levels);
    let passed = found
        .passed_over
        .iter()
        .map(|it| vec![it.count.to_string(), it.reason.clone(), it.example.clone()]);
    sheet.table("Nodes passed over", ["NODES", "WHY", "SUCH AS"], passed);
    Ok(Some(sheet))
}

/// Titles of a table of allocations. [`held`] is given the cell of the second column.
const HELD: [&str; 6] = ["REQUEST", "NODE", "AMOUNT", "KIND", "AGE", "ALLOCATION"];
const HELD_ON_NODE: [&str; 6] = ["REQUEST", "APPLICATION", "AMOUNT", "KIND", "AGE", "ALLOCATION"];

fn held(allocation: &v1::AllocationInfo, of: &str) -> Vec<String> {
    let kind = match (allocation.placeholder, allocation.preempted) {
        (_, true) => "leaving",
        (true, false) => "placeholder",
        (false, false) => "",
    };
    vec![
        names::shown(&allocation.allocation_key, &allocation.tags),
        of.to_owned(),
        all(allocation.resource.as_ref()),
        kind.to_owned(),
        age(allocation.allocated_at_nano, now_ns()),
        allocation.uuid.clone(),
    ]
}

async fn node(cluster: &mut Cluster, id: &str) -> anyhow::Result<Option<Sheet>> {
    let Some(found) = cluster.nodes(&[id.to_owned()], true, 1).await?.pop() else {
        return Ok(None);
    };
    let mut sheet = Sheet::default();
    sheet.line("Node", &found.node_id);
    let state = if found.schedulable { "Open" } else { "Closed: nothing new is placed here" };
    sheet.line("State", state);
    sheet.line("Host", &found.host_name);
    sheet.line("Rack", &found.rack_name);
    sheet.line("Reserved by", names::of_reservations(&found).join(", "));
    sheet.line("Allocations", found.allocations.to_string());
    if found.foreign_allocations > 0 {
        sheet.line("Of others", found.foreign_allocations.to_string());
    }
    sheet.by_type(
        ["TYPE", "CAPACITY", "ALLOCATED", "OCCUPIED", "AVAILABLE"],
        [&found.capacity, &found.allocated, &found.occupied, &found.available],
    );
    sheet.table(
        "Allocations",
        HELD_ON_NODE,
        found.held.iter().map(|it| held(it, &it.application_id)),
    );
    sheet.table("Attributes", ["NAME", "VALUE"], sorted(&found.attributes));
    Ok(Some(sheet))
}

async fn member(cluster: &mut Cluster, id: &str) -> anyhow::Result<Option<Sheet>> {
    let members = cluster.members().await?;
    let found = members.members.into_iter().find(|it| it.member_id == id);
    let Some(found) = found else { return Ok(None) };
    let claims = cluster.admin.list_claims(v1::ListClaimsRequest {}).await?.into_inner().claims;
    let mut sheet = Sheet::default();
    sheet.line("Member", &found.member_id);
    sheet.line("State", &found.state);
    sheet.line("Version", &found.version);
    sheet.line("Incarnation", &found.incarnation);
    sheet.line("gRPC", &found.grpc_address);
    sheet.line("REST", &found.rest_address);
    sheet.line("Internal", &found.internal_address);
    sheet.line("Load", found.load.to_string());
    if !matches!(&*found.state, "left" | "deposed") {
        sheet.line("Last beat", format!("{} ms ago", found.beat_ago_ms));
    }
    if found.not_in_force > 0 {
        let groups = format!("configurations of {} policy groups", found.not_in_force);
        sheet.line("Not in force", groups);
    }
    // Only the member itself reports its lease and these reasons.
    let is_asked = members.member_id == id;
    if is_asked {
        sheet.line("Lease", format!("{} ms", members.lease_ms));
    }
    let not_in_force = members.not_in_force.iter().filter(|_| is_asked);
    sheet.table(
        "Configurations not in force",
        ["GROUP", "IN FORCE", "IN ARBITER", "REASON"],
        not_in_force.map(|it| {
            let versions = [it.in_force, it.in_arbiter].map(|version| version.to_string());
            let [in_force, in_arbiter] = versions;
            vec![it.policy_group.clone(), in_force, in_arbiter, it.reason.clone()]
        }),
    );
    let served = claims.iter().filter(|claim| claim.member_id == id);
    sheet.table(
        "Resource managers",
        ["RM", "SESSION", "SINCE"],
        served.map(|claim| {
            vec![claim.rm_id.clone(), claim.session_id.to_string(), moment(claim.since_nano)]
        }),
    );
    Ok(Some(sheet))
}

async fn rm(cluster: &mut Cluster, id: &str) -> anyhow::Result<Option<Sheet>> {
    let found = cluster.sessions().await?.into_iter().find(|session| session.rm_id == id);
    let Some(found) = found else { return Ok(None) };
    let request = v1::GetConfigRequest { rm_id: id.to_owned(), ..Default::default() };
    let config = cluster.admin.get_config(request).await?.into_inner();
    let mut sheet = Sheet::default();
    sheet.line("RM", &found.rm_id);
    sheet.line("State", &found.state);
    sheet.line("Lost", &found.lost);
    sheet.line("Remark", &found.remark);
    sheet.time("Registered", found.registered_at_nano);
    sheet.time("Paused", found.paused_at_nano);
    sheet.line("Owner", &found.member_id);
    sheet.line("Session", found.session_id.to_string());
    sheet.line("Instance", &found.instance_id);
    sheet.line("Version", &found.version);
    sheet.line("Policy group", &found.policy_group);
    sheet.line("Dialect", &found.dialect);
    sheet.line("Streams", found.open_streams.join(", "));
    sheet.line("Waiting", format!("{} items to be sent", found.outbox_items));
    sheet.line("Checksum", &config.checksum);
    sheet.table("Settings", ["NAME", "VALUE"], sorted(&config.extra_config));
    sheet.table("Build", ["NAME", "VALUE"], sorted(&found.build_info));
    Ok(Some(sheet))
}
