//! `monoceros top`: the largest users, by share.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::sleep;

use super::amounts::{Amounts, CORES, MEMORY, Use, amounts};
use super::cluster::{ApplicationFilter, Cluster};
use super::get::{node_usage, queue_usage};
use super::output::{self, WrongLine};
use super::table::Table;
use crate::logging::clean;

/// Clears the terminal and moves to its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Arguments of `monoceros top`.
#[derive(Clone, Debug, Args)]
pub(super) struct TopArgs {
    /// Whom to compare
    #[arg(value_name = "KIND", default_value = "nodes")]
    kind: Compared,
    /// By the share of this type (`cores`, `memory`, or any other) and not by the largest share
    #[arg(long, value_name = "TYPE")]
    by: Option<String>,
    /// How many to show
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
    /// Show it again and again
    #[arg(short, long)]
    watch: bool,
    /// How many seconds pass between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "watch",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    interval: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compared {
    /// Nodes, by what is allocated of what they have
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// Queues, by what they use of what they may use
    #[value(aliases = ["queue", "q"])]
    Queues,
    /// Users, by what they use of the whole partition
    #[value(alias = "user")]
    Users,
    /// Applications, by what they have of the whole partition
    #[value(aliases = ["app", "applications", "application"])]
    Apps,
}

/// Prints the list once, or until interrupted.
pub(super) async fn run(cluster: &mut Cluster, args: &TopArgs) -> anyhow::Result<ExitCode> {
    loop {
        let users = read(cluster, args.kind).await?;
        args.check(&users)?;
        let text = shown(users, args);
        if !args.watch {
            output::write(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        let before = if io::stdout().is_terminal() { CLEAR } else { "" };
        output::write(&format!("{before}{text}\n"))?;
        sleep(Duration::from_secs(args.interval.into())).await;
    }
}

impl TopArgs {
    /// Fails if no entry has the type, unless there are no entries.
    fn check(&self, users: &[User]) -> anyhow::Result<()> {
        let Some(by) = self.by() else { return Ok(()) };
        if users.is_empty() || users.iter().any(|user| user.usage.types().any(|it| it == by)) {
            return Ok(());
        }
        let known: BTreeSet<_> = users.iter().flat_map(|user| user.usage.types()).collect();
        let known: Vec<_> = known.into_iter().map(clean).collect();
        let text = format!("`{}` is no type that is used here: {}", clean(by), known.join(", "));
        Err(WrongLine(text).into())
    }

    /// Returns the type to compare by, as the interface calls it.
    fn by(&self) -> Option<&str> {
        self.by.as_deref().map(|by| if by == "cores" { CORES } else { by })
    }
}

/// An entry of the comparison.
struct User {
    name: String,
    usage: Use,
}

async fn read(cluster: &mut Cluster, kind: Compared) -> anyhow::Result<Vec<User>> {
    Ok(match kind {
        Compared::Nodes => {
            let nodes = cluster.nodes(&[], false, usize::MAX).await?.into_iter();
            nodes.map(|it| User { usage: node_usage(&it), name: it.node_id }).collect()
        }
        Compared::Queues => {
            let queues = cluster.queues("").await?.into_iter();
            queues.map(|it| User { usage: queue_usage(&it), name: it.path }).collect()
        }
        Compared::Users => {
            let most = capacity(cluster).await?;
            let users = cluster.users("", &[], usize::MAX).await?.into_iter();
            let user = |it: monoceros_proto::v1::UserInfo| {
                // The first queue is root.
                let used = amounts(it.queues.first().and_then(|root| root.allocated.as_ref()));
                User { usage: Use { used, most: most.clone() }, name: it.name }
            };
            users.map(user).collect()
        }
        Compared::Apps => {
            let most = capacity(cluster).await?;
            let filter = ApplicationFilter::default();
            let applications = cluster.applications(&filter).await?.into_iter();
            let user = |it: monoceros_proto::v1::ApplicationInfo| User {
                usage: Use { used: amounts(it.allocated.as_ref()), most: most.clone() },
                name: it.application_id,
            };
            applications.map(user).collect()
        }
    })
}

/// Returns the amounts that the partition has.
async fn capacity(cluster: &mut Cluster) -> anyhow::Result<Amounts> {
    let root = cluster.queue("").await?.unwrap_or_default();
    Ok(amounts(root.max.as_ref()))
}

fn shown(mut users: Vec<User>, args: &TopArgs) -> String {
    let by = args.by();
    let share = |user: &User| match by {
        Some(by) => user.usage.share(by).unwrap_or_default(),
        None => user.usage.largest_share(),
    };
    users.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| a.name.cmp(&b.name)));
    users.truncate(args.limit);
    let title = match args.kind {
        Compared::Nodes => "NODE",
        Compared::Queues => "QUEUE",
        Compared::Users => "USER",
        Compared::Apps => "APPLICATION",
    };
    let other = by.filter(|by| ![CORES, MEMORY].contains(by));
    let mut titles: Vec<String> =
        [title, "CORES", "CORES%", "MEMORY", "MEMORY%"].map(str::to_owned).into();
    if let Some(other) = other {
        titles.extend([other.to_uppercase(), format!("{}%", other.to_uppercase())]);
    }
    let rows: Vec<_> = users
        .iter()
        .map(|user| {
            let mut row = vec![user.name.clone()];
            for name in [Some(CORES), Some(MEMORY), other].into_iter().flatten() {
                row.extend([user.usage.cell(name), percent(user.usage.share(name))]);
            }
            row
        })
        .collect();
    Table::new(titles).part(rows)
}

fn percent(share: Option<f64>) -> String {
    share.map(|share| format!("{:.0}%", share * 100.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn user(name: &str, cores: i64, gpus: i64) -> User {
        let used = [(CORES.to_owned(), cores), ("gpu".to_owned(), gpus)].into();
        let most = [(CORES.to_owned(), 4_000), ("gpu".to_owned(), 8)].into();
        User { name: name.to_owned(), usage: Use { used, most } }
    }

    fn args(by: Option<&str>, limit: usize) -> TopArgs {
        let by = by.map(str::to_owned);
        TopArgs { kind: Compared::Nodes, by, limit, watch: false, interval: 2 }
    }

    #[test]
    fn sorted_by_largest_share_or_by_one_type() {
        let users = || vec![user("b", 2_000, 0), user("a", 2_000, 0), user("c", 0, 8)];
        expect![[r#"
            NODE   CORES   CORES%   MEMORY   MEMORY%
            c      0/4     0%       0B       -
            a      2/4     50%      0B       -
        "#]]
        .assert_eq(&shown(users(), &args(None, 2)));
        expect![[r#"
            NODE   CORES   CORES%   MEMORY   MEMORY%   GPU   GPU%
            c      0/4     0%       0B       -         8/8   100%
        "#]]
        .assert_eq(&shown(users(), &args(Some("gpu"), 1)));
        let by_cores = shown(users(), &args(Some("cores"), 1));
        assert!(by_cores.contains("\na "), "{by_cores}");
    }
}
