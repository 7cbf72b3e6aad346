//! The description of a queue, with its access lists and limits from the configuration.
//!
//! # Invariant
//! Access lists and limits of queues above apply, too, and each is shown with the queue that it is
//! set on.

use std::collections::BTreeMap;

use monoceros_actors::config::{self, ShownLimit, ShownQueue};
use monoceros_proto::v1;

use super::sheet::{MOST_ROWS, Sheet, sorted};
use super::usage;
use crate::cli::amounts::all;
use crate::cli::cluster::{ApplicationFilter, Cluster};

pub(super) async fn sheet(cluster: &mut Cluster, path: &str) -> anyhow::Result<Option<Sheet>> {
    let Some(found) = cluster.find_queue(path).await? else { return Ok(None) };
    let mut sheet = Sheet::default();
    sheet.line("Queue", &found.path);
    sheet.line("State", &found.state);
    let kind = if found.leaf { "leaf" } else { "parent" };
    let made = if found.managed { "configured" } else { "made for an application" };
    sheet.line("Kind", format!("{kind}, {made}"));
    let most = match found.max_running_applications {
        0 => String::new(),
        most => format!(" of {most}"),
    };
    sheet.line("Applications", format!("{}{most} running", found.running_applications));
    sheet.line("Sorting", &found.sorting_policy);
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    sheet.line("Priorities", yes(found.priority_sorting));
    if found.priority_offset != 0 {
        sheet.line("Offset", found.priority_offset.to_string());
    }
    sheet.line("Preemption", yes(found.preemption_enabled));
    sheet.by_type(
        ["TYPE", "GUARANTEED", "MAX", "ALLOCATED", "PREEMPTING", "PENDING", "HEADROOM"],
        [
            &found.guaranteed,
            &found.max,
            &found.allocated,
            &found.preempting,
            &found.pending,
            &found.headroom,
        ],
    );
    sheet.table("Properties", ["NAME", "VALUE"], sorted(&found.properties));
    let below = found
        .children
        .iter()
        .map(|child| vec![child.path.clone(), child.state.clone(), all(child.allocated.as_ref())]);
    sheet.table("Queues", ["QUEUE", "STATE", "ALLOCATED"], below);
    let configured = Configured::read(cluster, &found.path).await?;
    let access = configured.access.into_iter().map(|[of, submit, admin]| vec![of, submit, admin]);
    sheet.table("Access, here and above", ["QUEUE", "SUBMIT", "ADMIN"], access);
    let head = ["QUEUE", "USERS", "GROUPS", "MAX", "APPS", "LIMIT"];
    sheet.table("Limits, here and above", head, configured.limits);
    if cluster.has_no_managers() {
        return Ok(Some(sheet));
    }
    let users = cluster.users(&found.path, &[], MOST_ROWS + 1).await?;
    let users = users.iter().map(|it| usage::row(&it.name, &it.queues));
    sheet.table("Users", ["USER", "APPS", "CORES", "MEMORY", "OTHERS"], users);
    let groups = cluster.groups(&found.path, &[], MOST_ROWS + 1).await?;
    let groups = groups.iter().map(|it| usage::row(&it.name, &it.queues));
    sheet.table("Groups", ["GROUP", "APPS", "CORES", "MEMORY", "OTHERS"], groups);
    if found.leaf {
        let filter = ApplicationFilter { queue: found.path, ..Default::default() };
        let applications = cluster.applications(&filter).await?;
        let row = |it: &v1::ApplicationInfo| {
            let (allocated, pending) = (all(it.allocated.as_ref()), all(it.pending.as_ref()));
            vec![it.application_id.clone(), it.state.clone(), it.user.clone(), allocated, pending]
        };
        let head = ["APPLICATION", "STATE", "USER", "ALLOCATED", "PENDING"];
        sheet.table("Applications", head, applications.iter().map(row));
    }
    Ok(Some(sheet))
}

/// The configuration of a queue and of those above it.
#[derive(Debug, Default)]
struct Configured {
    /// A queue, who may submit to it, and who may administer it, as configured.
    access: Vec<[String; 3]>,
    /// The cells of each limit.
    limits: Vec<Vec<String>>,
}

impl Configured {
    async fn read(cluster: &mut Cluster, path: &str) -> anyhow::Result<Self> {
        let text = cluster.config().await?.config;
        let configuration = config::parse(&text)?.shown;
        let mut partitions = configuration.partitions.into_iter();
        let partition = partitions.find(|it| it.name == cluster.partition);
        Ok(partition.map(|it| Self::of(&it.queues, path)).unwrap_or_default())
    }

    /// Collects what is configured on the path. The rest of a path that was made for an application
    /// has no configuration.
    fn of(mut level: &[ShownQueue], path: &str) -> Self {
        let mut configured = Self::default();
        let mut above = String::new();
        for name in path.split('.') {
            let is_it = |queue: &&ShownQueue| queue.name.eq_ignore_ascii_case(name);
            let Some(queue) = level.iter().find(is_it) else { break };
            let of = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
            if !queue.submit_acl.is_empty() || !queue.admin_acl.is_empty() {
                let (submit, admin) = (queue.submit_acl.clone(), queue.admin_acl.clone());
                configured.access.push([of.clone(), submit, admin]);
            }
            configured.limits.extend(queue.limits.iter().map(|it| limit(&of, it)));
            above = of;
            level = &queue.queues;
        }
        configured
    }
}

fn limit(of: &str, limit: &ShownLimit) -> Vec<String> {
    let apps = match limit.max_applications {
        0 => String::new(),
        most => most.to_string(),
    };
    vec![
        of.to_owned(),
        limit.users.join(","),
        limit.groups.join(","),
        written(&limit.max_resources),
        apps,
        limit.limit.clone(),
    ]
}

/// Formats amounts as configured: `vcore=4,memory=8Gi`.
fn written(amounts: &BTreeMap<String, String>) -> String {
    let all: Vec<_> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_and_limits_of_queues_above_apply_too() {
        let text = "
partitions:
- name: default
  queues:
  - name: root
    submitacl: '*'
    queues:
    - name: Shared
      limits:
      - {limit: 'two each', users: [dave, '*'], maxresources: {vcore: 2}}
      queues:
      - name: adhoc
        adminacl: 'eve ops'
        limits:
        - {limit: '', groups: [ops], maxapplications: 3}
";
        let shown = config::parse(text).unwrap().shown;
        let found = Configured::of(&shown.partitions[0].queues, "root.shared.adhoc.made");
        assert_eq!(found.access, [["root", "*", ""], ["root.shared.adhoc", "", "eve ops"]]);
        let limits = [
            ["root.shared", "dave,*", "", "vcore=2", "", "two each"],
            ["root.shared.adhoc", "", "ops", "", "3", ""],
        ];
        assert_eq!(found.limits, limits);
    }
}
