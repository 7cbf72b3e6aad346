//! A queue configuration as a large site has it, in as many variants as are wanted.
//!
//! Four companies with three divisions of three teams with four leaves each, a parent for the queues
//! of namespaces, limits for many users, and placement rules. [`variant`] changes a little of it, as
//! an administrator would, and otherwise leaves it as [`base`] has it.

use std::fmt::Write as _;

pub(crate) const COMPANIES: usize = 4;
pub(crate) const DIVISIONS: usize = 3;
pub(crate) const TEAMS: usize = 3;
pub(crate) const LEAVES: usize = 4;
/// Users `u0`, `u1`, … are each named by some limit.
pub(crate) const USERS: usize = 120;
/// User `u7` is in the group `g7`, `u17` as well.
pub(crate) const GROUPS: usize = 10;

/// Numbers from a seed, the same on every machine (splitmix64).
#[derive(Clone, Copy)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The path of a leaf.
pub(crate) fn leaf(at: [usize; 4]) -> String {
    let [company, division, team, leaf] = at;
    format!("root.company-{company}.division-{division}.team-{team}.leaf-{leaf}")
}

/// Any leaf.
pub(crate) fn any_leaf(dice: &mut Dice) -> [usize; 4] {
    [COMPANIES, DIVISIONS, TEAMS, LEAVES].map(|n| dice.below(n))
}

/// What is changed in a variant.
#[derive(Default)]
struct Change {
    /// A leaf, or the whole team, that is not in the text.
    gone_leaf: Option<[usize; 4]>,
    gone_team: Option<[usize; 3]>,
    /// A leaf and a division with other quotas, in cores.
    leaf_max: Option<([usize; 4], usize)>,
    division_max: Option<([usize; 2], usize)>,
    /// Applications that may run in a leaf.
    leaf_applications: Option<([usize; 4], usize)>,
    /// What each user may use of a company, in cores, and how many applications may run.
    user_limit: Option<(usize, usize, usize)>,
    /// What all users of the group together may.
    group_limit: Option<(usize, usize, usize)>,
    /// Namespaces come before the queue that is named.
    namespaces_first: bool,
    /// What a namespace begins with, in cores.
    template_max: Option<usize>,
    /// The order of applications in all leaves of a company.
    sorted_otherwise: Option<usize>,
}

/// The configuration at the beginning and at the end: every quota is more than there is.
pub(crate) fn base() -> String {
    written(&Change::default())
}

/// Another configuration for each seed, nearly always.
pub(crate) fn variant(dice: &mut Dice) -> String {
    let leaf = any_leaf(dice);
    let [company, division, team, _] = any_leaf(dice);
    let few = [1, 2, 5, 400][dice.below(4)];
    let mut change = Change::default();
    for _ in 0..=dice.below(3) {
        match dice.below(10) {
            0 => change.gone_leaf = Some(leaf),
            1 => change.gone_team = Some([company, division, team]),
            2 => change.leaf_max = Some((leaf, few)),
            3 => change.division_max = Some(([company, division], few)),
            4 => change.leaf_applications = Some((leaf, 1 + dice.below(3))),
            5 => change.user_limit = Some((company, few, dice.below(4))),
            6 => change.group_limit = Some((company, few, dice.below(9))),
            7 => change.namespaces_first = true,
            // What a queue of a namespace begins with it keeps while it is not empty: always enough.
            8 => change.template_max = Some(400 + few),
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
    text.push_str("  queues:\n  - name: root\n    submitacl: '*'\n    limits:\n");
    text.push_str("    - {limit: everybody, users: ['*'], maxresources: {vcore: 4000}}\n");
    text.push_str("    queues:\n");
    let cores = change.template_max.unwrap_or(500);
    let _ = writeln!(
        text,
        "    - name: namespaces\n      parent: true\n      childtemplate:\n        maxapplications: \
         100\n        properties: {{application.sort.policy: fair}}\n        resources: {{max: \
         {{vcore: {cores}}}}}"
    );
    for company in 0..COMPANIES {
        write_company(&mut text, change, company);
    }
    text
}

fn write_company(text: &mut String, change: &Change, company: usize) {
    let _ = writeln!(text, "    - name: company-{company}");
    if change.sorted_otherwise == Some(company) {
        text.push_str("      properties: {application.sort.policy: fair}\n");
    }
    write_limits(text, change, company);
    text.push_str("      queues:\n");
    for division in 0..DIVISIONS {
        let max = change.division_max.filter(|(at, _)| *at == [company, division]);
        let division_max = max.map_or(900, |(_, cores)| cores);
        let _ = writeln!(
            text,
            "      - name: division-{division}\n        resources: {{max: {{vcore: {division_max}, memory: \
             9T}}}}\n        queues:"
        );
        for team in 0..TEAMS {
            if change.gone_team == Some([company, division, team]) {
                continue;
            }
            let _ = writeln!(text, "        - name: team-{team}\n          queues:");
            for leaf in 0..LEAVES {
                let at = [company, division, team, leaf];
                if change.gone_leaf == Some(at) {
                    continue;
                }
                let max = change.leaf_max.filter(|(changed, _)| *changed == at);
                let most = change.leaf_applications.filter(|(changed, _)| *changed == at);
                let _ = write!(text, "          - {{name: leaf-{leaf}");
                // The others have none of their own, which keeps the text readable, and short.
                if leaf == 0 || max.is_some() {
                    let max = max.map_or(400, |(_, cores)| cores).min(division_max);
                    let _ = write!(text, ", resources: {{max: {{vcore: {max}}}}}");
                }
                if let Some((_, most)) = most {
                    let _ = write!(text, ", maxapplications: {most}");
                }
                text.push_str("}\n");
            }
        }
    }
}

fn write_limits(text: &mut String, change: &Change, company: usize) {
    let wide = (company, 900, 0);
    let of_users = change.user_limit.filter(|(at, _, _)| *at == company).unwrap_or(wide);
    let of_groups = change.group_limit.filter(|(at, _, _)| *at == company).unwrap_or(wide);
    text.push_str("      limits:\n");
    let mut write = |limit: &str, whom: &str, (_, cores, applications): (usize, usize, usize)| {
        let _ = writeln!(
            text,
            "      - {{limit: {limit}, {whom}, maxresources: {{vcore: {cores}}}, \
             maxapplications: {applications}}}"
        );
    };
    // Every fourth user is named in each company, the others are meant by `*`.
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
