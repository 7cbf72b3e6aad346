//! `monoceros get`: lists of one kind of items, as columns, documents or names, once or repeatedly.
//!
//! Each kind implements [`Item`] with its name, state, cells and document. The rest is common to all
//! kinds.

mod applications;
mod decisions;
mod list;
mod members;
mod nodes;
mod partitions;
mod pick;
mod queues;
mod rms;
mod selector;
mod usage;

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, ValueEnum};

use super::cluster::Cluster;
use super::events::{self, EventsArgs};
use super::output::{Form, FormParser, WrongLine};

use self::list::{Columns, Item};
pub(super) use self::nodes::usage as node_usage;
use self::pick::PickArgs;
pub(super) use self::queues::usage as queue_usage;
pub(super) use self::usage::limited;

/// Arguments of `monoceros get`.
#[derive(Clone, Debug, Args)]
pub(super) struct GetArgs {
    /// What to list
    #[arg(value_name = "KIND")]
    pub(super) kind: Kind,
    /// Only these: paths of queues, numbers of decisions, ids of others
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Only what is in this queue or below it
    #[arg(long, value_name = "PATH")]
    pub(super) queue: Option<String>,
    /// Only what is in one of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(super) state: Vec<String>,
    /// Only what is of one of these users
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub(super) user: Vec<String>,
    /// Applications that have ended and are still kept, the last one first
    #[arg(long, conflicts_with = "watch")]
    pub(super) ended: bool,
    /// Applications that were rejected and are still kept, the last one first
    #[arg(long, conflicts_with_all = ["ended", "watch"])]
    pub(super) rejected: bool,
    /// Only decisions about this application
    #[arg(long, value_name = "ID")]
    pub(super) app: Option<String>,
    /// Only decisions about this node
    #[arg(long, value_name = "ID")]
    pub(super) node: Option<String>,
    /// Only decisions about the request, or the allocation, of this key
    #[arg(long, value_name = "KEY")]
    pub(super) request: Option<String>,
    /// Only decisions of this kind
    #[arg(long = "kind", value_name = "KIND")]
    pub(super) decided: Option<Decided>,
    /// Order, number and selection by tags.
    #[command(flatten)]
    pub(super) pick: PickArgs,
    /// How to print it
    #[arg(short, long, value_name = "FORM", default_value = "table", value_parser = FormParser)]
    pub(super) output: Form,
    /// Go on, and print what changes
    #[arg(short, long)]
    pub(super) watch: bool,
    #[command(flatten)]
    pub(super) stamps: Stamps,
    /// How many seconds pass between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "watch",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) interval: u32,
}

/// The times of a watch.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Stamps {
    /// Print the time of each change first
    #[arg(long, requires = "watch")]
    pub(super) timestamps: bool,
}

/// A kind of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Queues, in the order of the tree
    #[value(aliases = ["queue", "q"])]
    Queues,
    /// Applications: those that are live, unless `--ended` or `--rejected` says otherwise
    #[value(aliases = ["app", "applications", "application"])]
    Apps,
    /// Nodes
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// Partitions, of all resource managers unless `--rm` names one
    #[value(aliases = ["partition", "part"])]
    Partitions,
    /// Users that use something, have requests or have a limit
    #[value(alias = "user")]
    Users,
    /// Groups, in the same way
    #[value(alias = "group")]
    Groups,
    /// The last decisions: what was placed, reserved or told to leave
    #[value(alias = "decision")]
    Decisions,
    /// What happened of late
    #[value(aliases = ["event", "ev"])]
    Events,
    /// Sessions of resource managers
    #[value(aliases = ["rm", "sessions", "session"])]
    Rms,
    /// Members of the cluster that the scheduler is
    #[value(alias = "member")]
    Members,
}

/// A kind of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Decided {
    /// A request has a node
    Allocation,
    /// A request has a node set aside
    Reservation,
    /// An allocation leaves for others
    Eviction,
}

impl Kind {
    /// Returns the name in messages.
    fn plural(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Apps => "applications",
            Self::Nodes => "nodes",
            Self::Partitions => "partitions",
            Self::Users => "users",
            Self::Groups => "groups",
            Self::Decisions => "decisions",
            Self::Events => "events",
            Self::Rms => "resource managers",
            Self::Members => "members",
        }
    }
}

impl GetArgs {
    /// Selects all of a kind, as columns.
    #[cfg(test)]
    pub(super) fn all(kind: Kind) -> Self {
        Self {
            kind,
            names: Vec::new(),
            queue: None,
            ended: false,
            rejected: false,
            state: Vec::new(),
            user: Vec::new(),
            app: None,
            node: None,
            request: None,
            decided: None,
            pick: PickArgs::default(),
            output: Form::Table,
            watch: false,
            stamps: Stamps::default(),
            interval: 2,
        }
    }

    /// Returns the number of entries to read: the limit, or all if they are sorted or filtered after
    /// they were read.
    fn most<T: Item>(&self) -> usize {
        let is_filtered_here = !self.names.is_empty()
            || !self.pick.selector.is_empty()
            || (!self.state.is_empty() && !T::STATES.is_empty());
        match self.pick.limit {
            Some(limit) if self.pick.sort_by.is_none() && !is_filtered_here => limit as usize,
            _ => usize::MAX,
        }
    }

    /// Fails if a filter does not apply to this kind.
    fn check(&self) -> anyhow::Result<()> {
        let (is_queued, has_state) = match self.kind {
            Kind::Apps | Kind::Queues => (true, true),
            Kind::Nodes | Kind::Rms | Kind::Partitions | Kind::Members => (false, true),
            Kind::Decisions | Kind::Users | Kind::Groups => (true, false),
            Kind::Events => (false, false),
        };
        let has_user = self.kind == Kind::Apps;
        let is_decided = self.kind == Kind::Decisions;
        let has_tags = matches!(self.kind, Kind::Apps | Kind::Nodes);
        if self.stamps.timestamps {
            let text = match self.kind {
                Kind::Decisions | Kind::Events => "--timestamps: these have times of their own",
                _ if matches!(self.output, Form::Name) => "--timestamps: `-o name` is names alone",
                _ => "",
            };
            if !text.is_empty() {
                return Err(WrongLine(text.to_owned()).into());
            }
        }
        for (flag, is_given, is_known) in [
            ("--queue", self.queue.is_some(), is_queued),
            ("--state", !self.state.is_empty(), has_state),
            ("--ended", self.ended, has_user),
            ("--rejected", self.rejected, has_user),
            ("--user", !self.user.is_empty(), has_user),
            ("--app", self.app.is_some(), is_decided),
            ("--node", self.node.is_some(), is_decided),
            ("--request", self.request.is_some(), is_decided),
            ("--kind", self.decided.is_some(), is_decided),
            ("--selector", !self.pick.selector.is_empty(), has_tags),
        ] {
            if is_given && !is_known {
                let text = format!("{flag} does not choose among {}", self.kind.plural());
                return Err(WrongLine(text).into());
            }
        }
        let is_in_time = matches!(self.kind, Kind::Decisions | Kind::Events);
        let refusal = if self.pick.sort_by.is_some() && is_in_time {
            format!(
                "--sort-by does not order {}: they are in the order of time",
                self.kind.plural()
            )
        } else if self.pick.limit.is_some() && self.watch && !is_in_time {
            "--limit does not go with --watch, which prints every change".to_owned()
        } else {
            return Ok(());
        };
        Err(WrongLine(refusal).into())
    }
}

/// Names the kinds in the error of a line that lacks one.
pub(super) fn name_kinds(mut error: clap::Error) -> clap::Error {
    let is_kind = |missing: &String| missing.as_str() == "<KIND>";
    if let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
        && missing.iter().any(is_kind)
    {
        let kinds = Kind::value_variants().iter().filter_map(Kind::to_possible_value);
        let kinds: Vec<_> = kinds.map(|kind| kind.get_name().to_owned()).collect();
        let tip = StyledStr::from(format!("KIND is one of {}", kinds.join(", ")));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Prints a list once, or until interrupted.
pub(super) async fn run(cluster: &mut Cluster, args: GetArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    match args.kind {
        Kind::Queues => {
            list::run(cluster, &args, async |cluster, args| queues::read(cluster, args).await).await
        }
        Kind::Apps => {
            list::run(cluster, &args, async |cluster, args| applications::read(cluster, args).await)
                .await
        }
        Kind::Nodes => {
            list::run(cluster, &args, async |cluster, args| nodes::read(cluster, args).await).await
        }
        Kind::Rms => {
            list::run(cluster, &args, async |cluster, args| rms::read(cluster, args).await).await
        }
        Kind::Members => {
            list::run(cluster, &args, async |cluster, _| members::read(cluster).await).await
        }
        Kind::Partitions => {
            list::run(cluster, &args, async |cluster, _| partitions::read(cluster).await).await
        }
        Kind::Users => {
            list::run(cluster, &args, async |cluster, args| usage::users(cluster, args).await).await
        }
        Kind::Groups => {
            list::run(cluster, &args, async |cluster, args| usage::groups(cluster, args).await)
                .await
        }
        Kind::Decisions => decisions::run(cluster, &args).await,
        Kind::Events => {
            let limit = args.pick.limit;
            let args = EventsArgs::listed(args.names, args.watch, args.output).limited(limit);
            events::run(cluster, &args).await
        }
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::v1;

    use super::*;

    #[test]
    fn a_limit_bounds_the_reads_unless_all_are_needed() {
        let pick = PickArgs { limit: Some(5), ..PickArgs::default() };
        let args = GetArgs { pick: pick.clone(), ..GetArgs::all(Kind::Apps) };
        assert_eq!(args.most::<v1::ApplicationInfo>(), 5);
        assert_eq!(GetArgs::all(Kind::Apps).most::<v1::ApplicationInfo>(), usize::MAX);
        // The scheduler filters applications by state, and the command filters nodes.
        let args = GetArgs { state: vec!["Open".to_owned()], ..args };
        assert_eq!(args.most::<v1::ApplicationInfo>(), 5);
        assert_eq!(args.most::<v1::NodeState>(), usize::MAX);
        for pick in [
            PickArgs { sort_by: Some("-cores".parse().unwrap()), ..pick.clone() },
            PickArgs { selector: "team=data".parse().unwrap(), ..pick.clone() },
        ] {
            let args = GetArgs { pick, ..GetArgs::all(Kind::Apps) };
            assert_eq!(args.most::<v1::ApplicationInfo>(), usize::MAX);
        }
        let names = vec!["a".to_owned(), "b".to_owned()];
        let args = GetArgs { names, pick, ..GetArgs::all(Kind::Apps) };
        assert_eq!(args.most::<v1::ApplicationInfo>(), usize::MAX);
    }

    #[test]
    fn an_inapplicable_filter_is_refused() {
        let users = GetArgs { user: vec!["u".to_owned()], ..GetArgs::all(Kind::Nodes) };
        let error = users.check().unwrap_err().to_string();
        assert_eq!(error, "--user does not choose among nodes");
        let nodes = GetArgs { app: Some("a".to_owned()), ..GetArgs::all(Kind::Nodes) };
        let error = nodes.check().unwrap_err().to_string();
        assert_eq!(error, "--app does not choose among nodes");
        let times =
            GetArgs { stamps: Stamps { timestamps: true }, ..GetArgs::all(Kind::Decisions) };
        let error = times.check().unwrap_err().to_string();
        assert_eq!(error, "--timestamps: these have times of their own");
        let queue = GetArgs { queue: Some("root".to_owned()), ..GetArgs::all(Kind::Events) };
        assert!(queue.check().is_err());
    }
}
