//! `monoceros explain`: why requests of an application are pending, and what would let them run, as
//! text or as the document of REST; or the same of all applications in a queue, in short
//! (`waiting`).

mod waiting;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use monoceros_actors::snapshot::{
    ChangeSnapshot, ExplanationSnapshot, NodeCounts, ObstacleSnapshot, RankSnapshot,
};
use monoceros_actors::{Name, Resources, readable};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;

use super::amounts::{age, moment};
use super::cluster::Cluster;
use super::describe::application_called;
use super::document::{json, yaml};
use super::names::Names;
use super::output;
use crate::clock::now_ns;
use crate::logging::clean;

/// Most keys of one kind of requests in the text.
const KEYS_SHOWN: usize = 3;

/// Most kinds of requests that are read.
const MOST_KINDS: usize = 100_000;

/// Arguments of `monoceros explain`.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "monoceros explain [OPTIONS] <APP | --queue PATH | --all>")]
pub(super) struct ExplainArgs {
    /// The id of the application
    #[arg(value_name = "APP", required_unless_present_any = ["queue", "all"])]
    application: Option<String>,
    /// All applications that wait in this queue or below it
    #[arg(long, value_name = "PATH", conflicts_with_all = ["application", "ask"])]
    queue: Option<String>,
    /// All applications that wait
    #[arg(long, conflicts_with_all = ["application", "ask", "queue"])]
    all: bool,
    /// How many applications to explain, with --queue or --all
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "application")]
    limit: u32,
    /// Only the requests that are treated as the one with this key, or with this NAMESPACE/POD
    #[arg(long, value_name = "KEY", default_value = "")]
    ask: String,
    /// How to print it
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Shape,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Lines for people
    Text,
    /// The document that REST gives
    Json,
    /// The same
    Yaml,
}

/// Prints the explanation.
pub(super) async fn run(cluster: &mut Cluster, args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let Some(application) = &args.application else {
        let queue = args.queue.as_deref().unwrap_or_default();
        waiting::run(cluster, queue, args.limit as usize, args.output).await?;
        return Ok(ExitCode::SUCCESS);
    };
    let called = application_called(cluster, application).await?;
    let names = called.as_ref().map(Names::of).unwrap_or_default();
    let explanations = ask(cluster, application, names.key(&args.ask)).await?;
    let text = match args.output {
        Shape::Text => text(application, &args.ask, &explanations, &names),
        Shape::Json => json(&explanations)?,
        Shape::Yaml => yaml(&explanations)?,
    };
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads all explanations of an application, or of one of its requests, answer by answer.
async fn ask(
    cluster: &mut Cluster,
    application: &str,
    request: &str,
) -> anyhow::Result<Vec<ExplanationSnapshot>> {
    let mut all = Vec::new();
    loop {
        let part = explanations(cluster, application, request, u32::try_from(all.len())?).await?;
        let is_last = part.is_empty() || !request.is_empty() || all.len() >= MOST_KINDS;
        all.extend(part);
        if is_last {
            return Ok(all);
        }
    }
}

/// Reads the first explanations of an application.
async fn first_explanations(
    cluster: &mut Cluster,
    application: &str,
) -> anyhow::Result<Vec<ExplanationSnapshot>> {
    explanations(cluster, application, "", 0).await
}

/// Reads one answer with explanations. An empty `request` is all requests.
async fn explanations(
    cluster: &mut Cluster,
    application: &str,
    request: &str,
    offset: u32,
) -> anyhow::Result<Vec<ExplanationSnapshot>> {
    let (rm, partition) = (&cluster.rm, &cluster.partition);
    let request = v1::ExplainApplicationRequest {
        partition_name: if rm.is_empty() {
            partition.clone()
        } else {
            format!("[{rm}]{partition}")
        },
        application_id: application.to_owned(),
        allocation_key: request.to_owned(),
        offset,
    };
    let answer = cluster.admin.explain_application(request).await?.into_inner();
    Ok(answer.explanations.into_iter().map(snapshot).collect())
}

fn text(
    application: &str,
    ask: &str,
    explanations: &[ExplanationSnapshot],
    names: &Names,
) -> String {
    if explanations.is_empty() {
        let application = clean(application);
        return match &*clean(ask) {
            "" => format!("nothing of application {application} waits\n"),
            ask => format!("nothing of request {ask} of application {application} waits\n"),
        };
    }
    let all: Vec<_> = explanations.iter().map(|class| of_class(class, names)).collect();
    all.join("\n")
}

/// Formats one kind of requests as lines.
fn of_class(class: &ExplanationSnapshot, names: &Names) -> String {
    // Names of applications, requests and nodes come from outside.
    let mut lines = vec![clean(&heading(class, names)).into_owned()];
    let mut say = |title: &str, text: String| lines.push(format!("  {title:<7} {}", clean(&text)));
    say("Cause:", [&class.cause, &class.object].map(String::as_str).join(" ").trim().to_owned());
    if class.since > 0 {
        say("Since:", format!("{} ({} ago)", moment(class.since), age(class.since, now_ns())));
    }
    say("Why:", class.message.clone());
    for also in class.obstacles.iter().skip(1) {
        say("And:", also.message.clone());
    }
    say("Cure:", class.cure.clone());
    if !class.gang.is_empty() {
        say("Gang:", class.gang.clone());
    }
    if !class.preemption.is_empty() {
        say("Preempt:", class.preemption.clone());
    }
    for rank in &class.order {
        let RankSnapshot { level, within, rank, of, first } = rank;
        let first =
            if *rank == 1 { String::new() } else { format!(", behind {}", names.name(first)) };
        say("Order:", format!("{level} {rank} of {of} in {within}{first}"));
    }
    say("Nodes:", nodes(&class.nodes));
    lines.join("\n") + "\n"
}

fn heading(class: &ExplanationSnapshot, names: &Names) -> String {
    let amounts = readable::amounts(&class.resource);
    let is_gang = class.allocation_keys.is_empty() && class.task_group.is_empty();
    let each = if is_gang { "in all" } else { "each" };
    format!("{}: {amounts} {each}", request_names(class, names))
}

/// Returns the names of the requests of one kind, the first few.
fn request_names(class: &ExplanationSnapshot, names: &Names) -> String {
    let count = class.count;
    if class.allocation_keys.is_empty() {
        // A declared gang, or one of its task groups that lacks members.
        return match class.task_group.as_str() {
            "" => format!("the gang, {count} members"),
            group => format!("{count} members of task group {group}"),
        };
    }
    let keys = class.allocation_keys.iter().take(KEYS_SHOWN);
    let mut heading = keys.map(|key| names.name(key)).collect::<Vec<_>>().join(", ");
    let shown = class.allocation_keys.len().min(KEYS_SHOWN);
    let more = usize::try_from(count).unwrap_or_default().saturating_sub(shown);
    if more > 0 {
        let _ = write!(heading, " and {more} more");
    }
    if !class.task_group.is_empty() {
        let _ = write!(heading, ", task group {}", class.task_group);
    }
    heading
}

fn nodes(counts: &NodeCounts) -> String {
    let fixed = [
        (counts.closed, "closed"),
        (counts.too_small, "too small"),
        (counts.reserved, "reserved for others"),
        (counts.constraints, "kept out by constraints"),
        (counts.topology, "kept out by topology"),
    ];
    let fixed = fixed.into_iter().filter(|(count, _)| *count > 0);
    let fixed = fixed.map(|(count, what)| format!("{count} {what}"));
    let no_room = counts.no_room.iter();
    let no_room =
        no_room.map(|(name, count)| format!("{count} without enough {}", readable::title(name)));
    let predicates =
        counts.predicates.iter().map(|(text, count)| format!("{count} refused: {text}"));
    let all: Vec<_> = fixed.chain(no_room).chain(predicates).collect();
    match all.len() {
        0 => format!("{} in all", counts.total),
        _ => format!("{} in all: {}", counts.total, all.join(", ")),
    }
}

/// Converts the message to the document of REST.
fn snapshot(message: v1::Explanation) -> ExplanationSnapshot {
    let nodes = message.nodes.unwrap_or_default();
    ExplanationSnapshot {
        allocation_keys: message.allocation_keys,
        count: i64::try_from(message.count).unwrap_or(i64::MAX),
        resource: resources(message.resource),
        cause: message.cause,
        since: message.since,
        object: message.object,
        short: resources(message.short),
        message: message.message,
        cure: message.cure,
        preemption: message.preemption,
        gang: message.gang,
        task_group: message.task_group,
        obstacles: message
            .obstacles
            .into_iter()
            .map(|it| ObstacleSnapshot {
                cause: it.cause,
                object: it.object,
                short: resources(it.short),
                have: resources(it.have),
                want: resources(it.want),
                since: it.since,
                message: it.message,
            })
            .collect(),
        order: message
            .order
            .into_iter()
            .map(|it| RankSnapshot {
                level: it.level,
                within: it.r#in,
                rank: it.rank,
                of: it.of,
                first: it.first,
            })
            .collect(),
        nodes: NodeCounts {
            total: nodes.total,
            closed: nodes.closed,
            too_small: nodes.too_small,
            no_room: nodes.no_room,
            reserved: nodes.reserved,
            constraints: nodes.constraints,
            topology: nodes.topology,
            predicates: nodes.predicates,
        },
        changes: message
            .changes
            .into_iter()
            .map(|it| ChangeSnapshot {
                kind: it.kind,
                object: it.object,
                resource: resources(it.resource),
                count: it.count,
                at: it.at,
            })
            .collect(),
    }
}

fn resources(message: Option<si::Resource>) -> Resources {
    let quantities: BTreeMap<_, _> = message.map(|message| message.resources).unwrap_or_default();
    let mut resources = Resources::new();
    for (name, quantity) in quantities {
        resources.set(Name::keep(&name), quantity.value);
    }
    resources
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn class() -> ExplanationSnapshot {
        let obstacle = |cause: &str, message: &str| ObstacleSnapshot {
            cause: cause.into(),
            message: message.into(),
            ..ObstacleSnapshot::default()
        };
        ExplanationSnapshot {
            allocation_keys: (1..=5).map(|number| format!("k{number}")).collect(),
            count: 12,
            resource: Resources::of(&[("vcore", 1_000), ("memory", 2 << 30)]),
            cause: "queueQuota".into(),
            object: "root.etl".into(),
            message: "root.etl is at its maximum".into(),
            cure: "raise it".into(),
            task_group: "workers".into(),
            obstacles: vec![obstacle("queueQuota", "x"), obstacle("noNode", "no node has room")],
            order: vec![RankSnapshot {
                level: "queue".into(),
                within: "root".into(),
                rank: 2,
                of: 3,
                first: "root.dev".into(),
            }],
            nodes: NodeCounts {
                total: 4,
                closed: 1,
                no_room: [("vcore".into(), 2)].into(),
                predicates: [("taint".into(), 1)].into(),
                ..NodeCounts::default()
            },
            ..ExplanationSnapshot::default()
        }
    }

    #[test]
    fn a_kind_of_requests_is_a_few_lines() {
        expect![[r#"
            k1, k2, k3 and 9 more, task group workers: 1 core and 2 GiB of memory each
              Cause:  queueQuota root.etl
              Why:    root.etl is at its maximum
              And:    no node has room
              Cure:   raise it
              Order:  queue 2 of 3 in root, behind root.dev
              Nodes:  4 in all: 1 closed, 2 without enough cores, 1 refused: taint
        "#]]
        .assert_eq(&of_class(&class(), &Names::default()));
    }
}
