//! A queue configuration of a large site, in any number of variants.
//!
//! Four companies with three divisions of three teams with four leaves each, a parent for the
//! queues of namespaces, and unused queues: guarantees, quotas, priorities and access lists at
//! every level, limits for many users, and placement rules. [`variant`] changes a few details of
//! [`base`], as an administrator would.

use std::fmt::Write as _;

use crate::harness::Dice;

pub(crate) const COMPANIES: usize = 4;
pub(crate) const DIVISIONS: usize = 3;
pub(crate) const TEAMS: usize = 3;
pub(crate) const LEAVES: usize = 4;
/// All leaves, their ancestors, the parent of namespaces, and the spare queues.
pub(crate) const QUEUES: usize = 5 + COMPANIES * (1 + DIVISIONS * (1 + TEAMS * (1 + LEAVES)));
/// Users `u0`, `u1`, … each have a limit.
pub(crate) const USERS: usize = 60;
/// User `u7` is in the group `g7`, and so is `u17`.
pub(crate) const GROUPS: usize = 10;

pub(crate) fn leaf(at: [usize; 4]) -> String {
    let [company, division, team, leaf] = at;
    format!("root.company-{company}.division-{division}.team-{team}.leaf-{leaf}")
}

/// Returns any leaf.
pub(crate) fn any_leaf(dice: &mut Dice) -> [usize; 4] {
    [COMPANIES, DIVISIONS, TEAMS, LEAVES].map(|n| dice.below(n))
}

#[derive(Default)]
struct Change {
    /// A leaf or a whole team that is left out.
    gone_leaf: Option<[usize; 4]>,
    gone_team: Option<[usize; 3]>,
    /// A leaf and a division with other quotas, in cores.
    leaf_max: Option<([usize; 4], usize)>,
    division_max: Option<([usize; 2], usize)>,
    /// Maximum of running applications in a leaf.
    leaf_applications: Option<([usize; 4], usize)>,
    /// Limit of each user in a company, in cores and running applications.
    user_limit: Option<(usize, usize, usize)>,
    /// Limit of all users of the group together.
    group_limit: Option<(usize, usize, usize)>,
    /// Whether the rule for namespaces comes before the named queue.
    namespaces_first: bool,
    /// Maximum of a new namespace queue, in cores.
    template_max: Option<usize>,
    /// Whether a new namespace queue sorts by order of arrival, and has a guarantee.
    template_otherwise: bool,
    /// Guarantee of a leaf in thousandths of a core, and of a company in cores.
    leaf_guaranteed: Option<([usize; 4], usize)>,
    company_guaranteed: Option<(usize, usize)>,
    /// Number of groups that may submit to a company.
    access: Option<(usize, usize)>,
    /// Priority offset of a division, which is then hidden from outside.
    fenced: Option<([usize; 2], usize)>,
    /// Whether an unused queue has children.
    spare_is_parent: bool,
    /// The order of applications in all leaves of a company.
    sorted_otherwise: Option<usize>,
}

/// The first and last configuration: every quota exceeds the capacity.
pub(crate) fn base() -> String {
    written(&Change::default())
}

/// Returns a variant, which nearly always differs between seeds.
pub(crate) fn variant(dice: &mut Dice) -> String {
    let leaf = any_leaf(dice);
    let [company, division, team, _] = any_leaf(dice);
    let few = [1, 2, 5, 400][dice.below(4)];
    let mut change = Change::default();
    for _ in 0..=dice.below(3) {
        match dice.below(17) {
            0 => change.gone_leaf = Some(leaf),
            1 => change.gone_team = Some([company, division, team]),
            2 => change.leaf_max = Some((leaf, few)),
            3 => change.division_max = Some(([company, division], few)),
            4 => change.leaf_applications = Some((leaf, 1 + dice.below(3))),
            5 => change.user_limit = Some((company, few, dice.below(4))),
            6 => change.group_limit = Some((company, few, dice.below(9))),
            7 => change.namespaces_first = true,
            // A namespace queue keeps its first values while it is not empty, so they are always
            // sufficient.
            8 => change.template_max = Some(400 + few),
            9 => change.template_otherwise = true,
            // The leaves of a division together stay below its guarantee.
            10 => change.leaf_guaranteed = Some((leaf, 10 + dice.below(200))),
            11 => change.company_guaranteed = Some((company, 2 + dice.below(40))),
            12 => change.access = Some((company, dice.below(GROUPS))),
            13 => change.fenced = Some(([company, division], dice.below(20))),
            // Chosen with equal probability, so that it changes back and forth.
            14 | 15 => change.spare_is_parent = true,
            _ => change.sorted_otherwise = Some(company),
        }
    }
    written(&change)
}

fn written(change: &Change) -> String {
    let mut text = "partitions:\n- name: default\n  nodesortpolicy: {type: fair}\n".to_owned();
    let by_name = "  - {name: provided}\n";
    let by_namespace = "  - {name: tag, value: namespace, create: true, \
                        parent: {name: fixed, value: namespaces, create: true}}\n";
    text.push_str("  placementrules:\n");
    let rules =
        if change.namespaces_first { [by_namespace, by_name] } else { [by_name, by_namespace] };
    text.extend(rules);
    text.push_str("  queues:\n  - name: root\n    submitacl: alice\n    limits:\n");
    text.push_str("    - {limit: everybody, users: ['*'], maxresources: {vcore: 4000}}\n");
    text.push_str("    queues:\n");
    let below = if change.spare_is_parent { ", queues: [{name: x}, {name: y}]" } else { "" };
    let _ = writeln!(text, "    - {{name: spare, queues: [{{name: a{below}}}, {{name: b}}]}}");
    let cores = change.template_max.unwrap_or(500);
    let (order, guaranteed) =
        if change.template_otherwise { ("fifo", "guaranteed: {vcore: 1}, ") } else { ("fair", "") };
    let _ = writeln!(
        text,
        "    - name: namespaces\n      parent: true\n      submitacl: '{}'\n      childtemplate:\n        \
         maxapplications: 100\n        properties: {{application.sort.policy: {order}}}\n        \
         resources: {{{guaranteed}max: {{vcore: {cores}}}}}",
        groups(GROUPS)
    );
    for company in 0..COMPANIES {
        write_company(&mut text, change, company);
    }
    text
}

/// Returns the access list of the first `n` groups. Every user is in one of all.
fn groups(n: usize) -> String {
    let names: Vec<String> = (0..n).map(|group| format!("g{group}")).collect();
    format!(" {}", names.join(","))
}

fn write_company(text: &mut String, change: &Change, company: usize) {
    let guaranteed = change.company_guaranteed.filter(|(at, _)| *at == company);
    let access = change.access.filter(|(at, _)| *at == company).map_or(GROUPS, |(_, n)| n);
    let _ = writeln!(
        text,
        "    - name: company-{company}\n      submitacl: '{}'\n      adminacl: \
         'boss-{company} heads'\n      resources: {{guaranteed: {{vcore: {}}}}}",
        groups(access),
        guaranteed.map_or(2, |(_, cores)| cores)
    );
    if change.sorted_otherwise == Some(company) {
        text.push_str("      properties: {application.sort.policy: fair}\n");
    }
    write_most(text, "      ", company, 5_000);
    write_limits(text, change, company);
    text.push_str("      queues:\n");
    for division in 0..DIVISIONS {
        let max = change.division_max.filter(|(at, _)| *at == [company, division]);
        let division_max = max.map_or(900, |(_, cores)| cores);
        let _ = writeln!(
            text,
            "      - name: division-{division}\n        resources: {{guaranteed: {{vcore: 500m}}, max: \
             {{vcore: {division_max}, memory: 9T}}}}\n        adminacl: u{division},u5 g{division}"
        );
        let fenced = change.fenced.filter(|(at, _)| *at == [company, division]);
        let (fence, offset) =
            fenced.map_or(("", division), |(_, n)| (", priority.policy: fence", n));
        let _ = writeln!(text, "        properties: {{priority.offset: {offset}{fence}}}");
        write_most(text, "        ", company, 4_000);
        text.push_str("        queues:\n");
        for team in 0..TEAMS {
            if change.gone_team == Some([company, division, team]) {
                continue;
            }
            let _ = writeln!(text, "        - name: team-{team}");
            write_most(text, "          ", company, 3_000);
            text.push_str("          queues:\n");
            for leaf in 0..LEAVES {
                write_leaf(text, change, [company, division, team, leaf], division_max);
            }
        }
    }
}

/// One company has a maximum of running applications, so all its descendants need one. It is always
/// sufficient.
fn write_most(text: &mut String, indent: &str, company: usize, most: usize) {
    if company == 0 {
        let _ = writeln!(text, "{indent}maxapplications: {most}");
    }
}

/// Omits defaults, which keeps the text short.
fn write_leaf(text: &mut String, change: &Change, at: [usize; 4], division_max: usize) {
    let [company, _, team, leaf] = at;
    if change.gone_leaf == Some(at) {
        return;
    }
    let _ = write!(text, "          - {{name: leaf-{leaf}");
    let max = change.leaf_max.filter(|(changed, _)| *changed == at).map(|(_, cores)| cores);
    let max = max.or((leaf == 0).then_some(400)).map(|cores| cores.min(division_max));
    let guaranteed = change.leaf_guaranteed.filter(|(changed, _)| *changed == at);
    let guaranteed = guaranteed.map(|(_, n)| n).or((leaf == 1 && team != 1).then_some(20));
    if max.is_some() || guaranteed.is_some() {
        let max = max.map(|cores| format!("max: {{vcore: {cores}}}"));
        let guaranteed = guaranteed.map(|n| format!("guaranteed: {{vcore: {n}m}}"));
        let both: Vec<String> = max.into_iter().chain(guaranteed).collect();
        let _ = write!(text, ", resources: {{{}}}", both.join(", "));
    }
    let most = change.leaf_applications.filter(|(changed, _)| *changed == at).map(|(_, n)| n);
    if let Some(most) = most.or((company == 0).then_some(2_000)) {
        let _ = write!(text, ", maxapplications: {most}");
    }
    if leaf == 2 && team == 0 {
        text.push_str(", submitacl: 'u1,u2 g1', properties: {priority.offset: \"3\"}");
    }
    text.push_str("}\n");
}

fn write_limits(text: &mut String, change: &Change, company: usize) {
    let wide = (company, 900, 0);
    let of_users = change.user_limit.filter(|(at, _, _)| *at == company).unwrap_or(wide);
    let of_groups = change.group_limit.filter(|(at, _, _)| *at == company).unwrap_or(wide);
    text.push_str("      limits:\n");
    let mut write =
        |limit: &str, subject: &str, (_, cores, applications): (usize, usize, usize)| {
            let _ = writeln!(
                text,
                "      - {{limit: {limit}, {subject}, maxresources: {{vcore: {cores}}}, \
             maxapplications: {applications}}}"
            );
        };
    // Every fourth user is named in each company. The others are covered by `*`.
    let named: Vec<String> =
        (company..USERS).step_by(COMPANIES).map(|user| format!("u{user}")).collect();
    for some in named.chunks(10) {
        write("named", &format!("users: [{}]", some.join(", ")), of_users);
    }
    write("others", "users: ['*']", of_users);
    for group in (0..GROUPS).step_by(2) {
        write("group", &format!("groups: [g{group}]"), of_groups);
    }
    write("other groups", "groups: ['*']", of_groups);
}
