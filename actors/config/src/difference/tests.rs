use crate::dynamic_queue;
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::{FilterConfig, PreemptionFlags, RuleConfig};
use monoceros_rules::nodes::NodeSortPolicy;
use monoceros_rules::queues::{Acl, LimitConfig, QueueConfig, Template};
use monoceros_rules::values::resources::{Limits, Resources};

/// Returns partitions with these queues below root, in flow style.
fn queues(queues: &str) -> Vec<PartitionConfig> {
    let text =
        format!("partitions: [{{queues: [{{name: root, submitacl: '*', queues: [{queues}]}}]}}]");
    config(&text)
}

fn config(text: &str) -> Vec<PartitionConfig> {
    crate::parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}")).partitions
}

fn used(allocated: &[(&str, i64)], running: u64) -> Used {
    Used { allocated: Resources::of(allocated), running, applications: running }
}

/// Returns usage of queues of the default partition.
fn usage(queues: &[(&str, Used)]) -> Usage {
    let queues = queues.iter().map(|(path, used)| ((*path).to_owned(), used.clone())).collect();
    let partition = PartitionUsage { queues, ..PartitionUsage::default() };
    Usage { partitions: [("default".to_owned(), partition)].into() }
}

#[track_caller]
fn check(old: &[PartitionConfig], new: &[PartitionConfig], expected: &Expect) {
    expected.assert_eq(&between(old, new, None).to_string());
}

fn queue<'a>(partitions: &'a mut [PartitionConfig], path: &str) -> &'a mut QueueConfig {
    let mut at = &mut partitions[0].root;
    for name in path.split('.').skip(1) {
        at = at.children.iter_mut().find(|child| &*child.name == name).unwrap();
    }
    at
}

#[test]
fn quotas_are_raised_lowered_introduced_and_removed_name_by_name() {
    let old = queues(
        "{name: a, maxapplications: 5, resources: {max: {vcore: 10, memory: 4Gi, pods: 10}, \
         guaranteed: {vcore: 2, memory: 1Gi}}}, {name: b}, {name: c, maxapplications: 3}",
    );
    let new = queues(
        "{name: a, maxapplications: 2, resources: {max: {vcore: 2500m, memory: 8Gi, gpu: 1}, \
         guaranteed: {vcore: 1, pods: 1}}}, {name: b, maxapplications: 1}, {name: c}",
    );
    check(
        &old,
        &new,
        &expect![[r"
            root.a: max lowered: vcore from 10 to 2500m; max introduced: gpu 1; maxapplications lowered from 5 to 2; guaranteed lowered: vcore from 2 to 1; guaranteed removed: memory (was 1Gi)
            root.b: maxapplications introduced: 1
            root.a: max raised: memory from 4Gi to 8Gi; max removed: pods (was 10); guaranteed introduced: pods 1
            root.c: maxapplications removed (was 3)
        "]],
    );
}

#[test]
fn added_and_removed_branches_are_one_line_each() {
    let old = queues("{name: a, queues: [{name: x}, {name: y}]}, {name: b}, {name: c}");
    let new = queues(
        "{name: b, queues: [{name: x}]}, {name: c}, {name: d, queues: [{name: z, \
                      resources: {max: {vcore: 1}}}]}, {name: e, resources: {max: {memory: 10M}}}",
    );
    check(
        &old,
        &new,
        &expect![[r"
            root.a: no longer configured, with the 2 queues below it: it drains, and goes once empty
            root.b: becomes a parent, which is refused while it has an application
            root.b.x: new
            root.d: new, with the queue below it
            root.e: new, max memory 10M
        "]],
    );
}

#[test]
fn access_changes_are_described_by_name() {
    let of = |root: &str, a: &str, admin: &str| {
        let mut partitions = queues("{name: a}");
        partitions[0].root.submit_acl = Acl::parse(root).unwrap();
        queue(&mut partitions, "root.a").submit_acl = Acl::parse(a).unwrap();
        queue(&mut partitions, "root.a").admin_acl = Acl::parse(admin).unwrap();
        partitions
    };
    check(
        &of("", "alice,bob ops", "carol"),
        &of("", "bob,dora dev", ""),
        &expect![[r#"
            root.a: alice and group ops may no longer submit, unless a queue above allows it; carol may no longer administer, unless a queue above allows it
            root.a: dora and group dev may submit now
        "#]],
    );
    check(
        &of("*", "alice", ""),
        &of("*", "", ""),
        &expect![[r#"
            root.a: alice may no longer submit, but `root` lets everybody
        "#]],
    );
    check(
        &of("*", "", ""),
        &of("alice", "", ""),
        &expect![[r"
            root: not everybody may submit any more: only alice, unless a queue above allows it
        "]],
    );
    check(
        &of("alice", "", ""),
        &of("*", "", ""),
        &expect![[r"
            root: everybody may submit now
        "]],
    );
}

#[test]
fn a_changed_property_is_described_only_where_written() {
    let old = queues("{name: a, properties: {mine: 1}, queues: [{name: x}, {name: y}]}");
    let new = queues(
        "{name: a, properties: {mine: 2, other: ''}, queues: [{name: x}, \
         {name: y, properties: {application.sort.policy: fair}}]}",
    );
    check(
        &old,
        &new,
        &expect![[r"
            root.a: properties: mine from `1` to `2` and other is ``
            root.a.y: properties: application.sort.policy is `fair`
        "]],
    );
}

#[test]
fn partition_changes_precede_queue_changes() {
    let old = queues("{name: a}");
    let mut new = old.clone();
    let partition = &mut new[0];
    partition.placement = vec![
        RuleConfig { name: "provided".into(), ..RuleConfig::default() },
        RuleConfig {
            name: "tag".into(),
            create: true,
            value: "namespace".into(),
            filter: FilterConfig { denies: true, users: vec!["a".into()], groups: vec![] },
            parent: Some(Box::new(RuleConfig {
                name: "fixed".into(),
                value: "root.teams".into(),
                ..RuleConfig::default()
            })),
        },
    ];
    partition.preemption = PreemptionFlags { enabled: false, quota: true };
    partition.node_order.policy = NodeSortPolicy::BinPacking;
    partition.resolver = "os".into();
    queue(&mut new, "root.a").max_applications = 1;
    check(
        &old,
        &new,
        &expect![[r#"
            root.a: maxapplications introduced: 1
            partition default: applications that come are placed by provided, then tag namespace (create, not for users a) below fixed root.teams, before by the queue they name; nodes are ordered by binpacking (memory 1, vcore 1), before by fair (memory 1, vcore 1); preemption is switched off; preemption by quota is switched on; the user and group resolver `os` instead of `` has no effect before a restart
        "#]],
    );
}

#[test]
fn a_deny_filter_without_lists_denies_everybody() {
    let old = queues("{name: a}");
    let mut new = old.clone();
    let filter = FilterConfig { denies: true, ..FilterConfig::default() };
    new[0].placement = vec![RuleConfig { name: "user".into(), filter, ..RuleConfig::default() }];
    check(
        &old,
        &new,
        &expect![[r"
            partition default: applications that come are placed by user (a filter that denies everybody), before by the queue they name
        "]],
    );
}

#[test]
fn several_partitions_are_named_in_sentences() {
    let partition = |name: &str, max: u32| {
        let max = format!("resources: {{max: {{vcore: {max}}}}}");
        format!("{{name: {name}, queues: [{{name: root, queues: [{{name: a, {max}}}]}}]}}")
    };
    let of = |partitions: &[String]| config(&format!("partitions: [{}]", partitions.join(", ")));
    let old = of(&[partition("default", 2), partition("gpu", 1)]);
    let new = of(&[partition("default", 1), partition("spot", 1)]);
    let mut in_gpu = usage(&[("root", used(&[], 3))]);
    in_gpu.partitions = [("gpu".to_owned(), in_gpu.partitions["default"].clone())].into();
    let expected = expect![[r"
        partition gpu: no longer configured: its applications fail and its nodes go, 3 applications are there
        partition default, root.a: max lowered: vcore from 2 to 1
        partition spot: new, with 2 queues
    "]];
    expected.assert_eq(&between(&old, &new, Some(&in_gpu)).to_string());
}

#[test]
fn usage_newly_above_a_quota_is_listed_first() {
    let old = queues(
        "{name: a, resources: {max: {vcore: 200}}}, {name: b, maxapplications: 9}, \
                      {name: c, resources: {max: {vcore: 1}}}",
    );
    let new = queues(
        "{name: a, resources: {max: {vcore: 100, memory: 1Gi}}}, \
                      {name: b, maxapplications: 2}, \
                      {name: c, resources: {max: {vcore: 500m}}}",
    );
    let usage = usage(&[
        ("root.a", used(&[("vcore", 120_000), ("memory", 1 << 20)], 1)),
        ("root.b", used(&[], 3)),
        ("root.c", used(&[("vcore", 2_000)], 1)),
    ]);
    let expected = expect![[r"
        root.a: max lowered: vcore from 200 to 100; max introduced: memory 1Gi; now below what is used: 120 of 100 vcore, nothing new starts until it is less
        root.b: maxapplications lowered from 9 to 2; now below what is used: 3 of 2 applications, nothing new starts until it is less
        root.c: max lowered: vcore from 1 to 500m
    "]];
    expected.assert_eq(&between(&old, &new, Some(&usage)).to_string());
}

#[test]
fn a_draining_queue_lists_running_and_waiting_applications() {
    let old = queues("{name: a}, {name: b}, {name: c}");
    let a = Used { applications: 2, ..Used::default() };
    let usage = usage(&[("root.a", a), ("root.b", used(&[], 1)), ("root.c", used(&[], 0))]);
    let expected = expect![[r"
        root.a: no longer configured: it takes no new application, and goes once the 2 in it have ended
        root.b: no longer configured: it takes no new application, and goes once the one in it has ended
        root.c: no longer configured: no application is in it
    "]];
    expected.assert_eq(&between(&old, &queues(""), Some(&usage)).to_string());
}

#[test]
fn an_existing_dynamic_queue_is_not_new() {
    let old = queues("{name: a, parent: true, childtemplate: {maxapplications: 9}}");
    let new = queues(
        "{name: a, queues: [{name: b, resources: {max: {vcore: 1}}, queues: [{name: x, \
         maxapplications: 3, limits: [{limit: '', users: ['*'], maxapplications: 1}]}, \
         {name: y, maxapplications: 2}, {name: z}]}, {name: c}]}",
    );
    let mut usage = usage(&[
        ("root.a.b", used(&[("vcore", 2_000)], 12)),
        ("root.a.b.x", used(&[("vcore", 2_000)], 2)),
        ("root.a.b.y", used(&[], 10)),
    ]);
    let partition = usage.partitions.get_mut("default").unwrap();
    let alice = [("alice".to_owned(), used(&[], 2))].into();
    partition.users = [("root.a.b.x".to_owned(), alice)].into();
    let expected = expect![[r"
        root.a.b: now below what is used: 2 of 1 vcore, nothing new starts until it is less
        root.a.b.x: limits that bind now, with nothing new until less is used: user alice (2 of 1 applications)
        root.a: template for dynamic queues to come: gone, that of a queue above counts, maxapplications removed (was 9)
        root.a.b: becomes a configured queue, with the 3 queues below it, max vcore 1
        root.a.c: new
    "]];
    expected.assert_eq(&between(&old, &new, Some(&usage)).to_string());
}

#[test]
fn lowered_queues_are_concerned_before_drained_branches() {
    use crate::reload::{self, StandingQueue};

    let gone: Vec<_> = (0..9).map(|number| format!("{{name: g{number}}}")).collect();
    let old = queues(&format!(
        "{{name: a, maxapplications: 2}}, {{name: b, resources: {{max: {{vcore: 2}}}}}}, \
         {{name: c, maxapplications: 2, resources: {{max: {{vcore: 2}}}}}}, {{name: d}}, \
         {{name: e}}, {{name: gone, queues: [{}]}}",
        gone.join(", ")
    ));
    let mut new = queues(
        "{name: a, maxapplications: 1}, {name: b, resources: {max: {vcore: 1}}}, \
         {name: c, maxapplications: 3, resources: {max: {vcore: 3}}}, \
         {name: d, resources: {max: {memory: 1}}}, {name: e}, {name: made}",
    );
    queue(&mut new, "root.e").limits = vec![limit(&["*"], &[], 1, 0)];
    let state = monoceros_rules::queues::object_state::ObjectState::Active;
    let standing = |(path, config)| (path, StandingQueue { config, state });
    let mut tree: reload::Tree = reload::flat(&old[0].root).into_iter().map(standing).collect();
    let made = Arc::new(dynamic_queue("root.made", true, None));
    let made = StandingQueue { config: made, state };
    tree.insert(Arc::from("root.made"), made);
    let changes = reload::changes(&tree, &reload::flat(&new[0].root));
    let concerned = |most| {
        let Concerned { paths, left_out } = Concerned::of(&tree, &changes, most);
        let paths: Vec<_> = paths.iter().map(|path| path.trim_start_matches("root.")).collect();
        (paths.join(" "), left_out)
    };
    assert_eq!(concerned(9), ("a b d e made gone".to_owned(), 0));
    assert_eq!(concerned(2), ("a b".to_owned(), 4));
}

#[test]
fn queues_with_unknown_usage_are_counted() {
    let (old, new) = (queues("{name: a}"), queues("{name: a, maxapplications: 1}"));
    let mut usage = usage(&[]);
    usage.partitions.get_mut("default").unwrap().left_out = 7;
    let expected = expect![[r"
        partition default: usage of 7 queues was not looked at
        root.a: maxapplications introduced: 1
    "]];
    expected.assert_eq(&between(&old, &new, Some(&usage)).to_string());
}

fn limit(users: &[&str], groups: &[&str], vcore: i64, max_applications: u64) -> LimitConfig {
    let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    LimitConfig {
        description: String::new(),
        users: texts(users),
        groups: texts(groups),
        max_resources: (vcore > 0).then(|| Limits::of(&[("vcore", vcore * 1_000)])),
        max_applications,
    }
}

fn with_limits(limits: &[LimitConfig]) -> Vec<PartitionConfig> {
    let mut partitions = queues("{name: a}");
    queue(&mut partitions, "root.a").limits = limits.to_vec();
    partitions
}

#[test]
fn limits_are_compared_by_name() {
    let old = with_limits(&[
        limit(&["alice"], &["ops"], 10, 4),
        limit(&["*"], &[], 20, 0),
        limit(&[], &["dev"], 5, 0),
    ]);
    let new = with_limits(&[
        limit(&["alice"], &["ops"], 5, 8),
        limit(&["bob"], &["*"], 30, 0),
        limit(&["*"], &[], 15, 2),
    ]);
    let at_a = |users: &[(&str, Used)]| {
        let users = users.iter().map(|(user, used)| ((*user).to_owned(), used.clone())).collect();
        [("root.a".to_owned(), users)].into()
    };
    let mut usage = usage(&[]);
    let partition = usage.partitions.get_mut("default").unwrap();
    partition.users = at_a(&[
        ("alice", used(&[("vcore", 7_000)], 1)),
        ("bob", used(&[("vcore", 25_000)], 9)),
        ("carol", used(&[("vcore", 12_000)], 3)),
        ("dora", used(&[("vcore", 22_000)], 0)),
    ]);
    partition.groups = at_a(&[("ops", used(&[("vcore", 6_000)], 1))]);
    let expected = expect![[r"
        root.a: limits that bind now, with nothing new until less is used: user alice (7 of 5 vcore) and user carol (3 of 2 applications); limits that bind now, with nothing new until less is used: group ops (6 of 5 vcore)
        root.a: the limit of any other user on resources lowered: vcore from 20 to 15; the limit of any other user on applications introduced: 2; the limit of user alice on resources lowered: vcore from 10 to 5; the limit of all other users together on resources introduced: vcore 30; the limit of group ops on resources lowered: vcore from 10 to 5
        root.a: the limit of user alice on applications raised from 4 to 8; the limit of user bob on resources raised: vcore from 20 to 30; the limit of group dev on resources removed: vcore (was 5); the limit of group ops on applications raised from 4 to 8
    "]];
    expected.assert_eq(&between(&old, &new, Some(&usage)).to_string());

    let mut renamed = old.clone();
    queue(&mut renamed, "root.a").limits[0].description = "another".to_owned();
    check(
        &old,
        &renamed,
        &expect![[r"
            root.a: limits are written in another order, or with other descriptions
        "]],
    );
}

#[test]
fn the_wildcard_does_not_limit_a_group_named_elsewhere() {
    let old = with_limits(&[]);
    let new = with_limits(&[limit(&[], &["*"], 5, 0)]);
    let mut usage = usage(&[]);
    let of_groups = ["*", "dev"].map(|group| (group.to_owned(), used(&[("vcore", 6_000)], 1)));
    let partition = usage.partitions.get_mut("default").unwrap();
    partition.groups = [("root.a".to_owned(), of_groups.into())].into();
    let expected = expect![[r"
        root.a: limits that bind now, with nothing new until less is used: all other users together (6 of 5 vcore)
        root.a: the limit of all other users together on resources introduced: vcore 5
    "]];
    expected.assert_eq(&between(&old, &new, Some(&usage)).to_string());
}

#[test]
fn a_template_counts_for_queues_to_come() {
    let old = queues("{name: a, parent: true}");
    let mut new = old.clone();
    queue(&mut new, "root.a").template = Some(Arc::new(Template {
        max_applications: 3,
        max: Some(Limits::of(&[("vcore", 2_000)])),
        ..Template::default()
    }));
    check(
        &old,
        &new,
        &expect![[r"
            root.a: template for dynamic queues to come: new, max introduced: vcore 2, maxapplications introduced: 3
        "]],
    );
    check(
        &new,
        &old,
        &expect![[r"
            root.a: template for dynamic queues to come: gone, that of a queue above counts, max removed: vcore (was 2), maxapplications removed (was 3)
        "]],
    );
}

#[test]
fn long_summaries_keep_the_most_important_lines() {
    let many = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("{{name: q{number:03}}}")).collect();
        names.join(", ")
    };
    let old = queues("{name: a, maxapplications: 5}, {name: gone}");
    let new = queues(&format!("{{name: a, maxapplications: 2}}, {}", many(200)));
    let difference = between(&old, &new, None);
    assert_eq!(difference.lines().len(), 202);
    expect![[r"
        root.gone: no longer configured: it drains, and goes once empty
        root.a: maxapplications lowered from 5 to 2
        root.q000: new
        root.q001: new
        root.q002: new
        ... and 197 more lines of what is new"]]
    .assert_eq(&difference.summary(5).join("\n"));
    assert_eq!(difference.summary(202).len(), 202, "nothing is left out without need");
    assert_eq!(between(&old, &old, None).summary(5), Vec::<String>::new());
}

#[test]
fn lines_and_summary_are_bounded() {
    let is_bounded = |difference: &Difference| {
        // The remark about the length is not counted.
        let is_short = |line: &Line| line.text.chars().count() <= LONGEST_LINE + 40;
        assert!(difference.lines().iter().all(is_short), "{difference}");
        assert!(!difference.is_empty());
    };
    let users = |vcore| {
        let limits: Vec<_> =
            (0..5_000).map(|user| limit(&[&format!("u{user:04}")], &[], vcore, 0)).collect();
        with_limits(&limits)
    };
    let difference = between(&users(2), &users(1), None);
    is_bounded(&difference);
    expect![[r"
        root.a: the limit of user u0000 on resources lowered: vcore from 2 to 1; the limit of user u0001 on resources lowered: vcore from 2 to 1; the limit of user u0002 on resources lowered: vcore from 2 to 1; the limit of user u0003 on resources lowered: vcore from 2 to 1; the limit of user u0004 on resources lowered: vcore from 2 to 1; the limit of user u0005 on resources lowered: vcore from 2 to 1; and 4994 more changes of this kind
    "]]
    .assert_eq(&difference.to_string());

    let (old, mut new) = (queues("{name: a}"), queues("{name: a}"));
    let a = queue(&mut new, "root.a");
    a.properties.insert("long".to_owned(), "\u{e9}".repeat(1_000_000));
    a.properties.insert("of lines".to_owned(), "one\ntwo".to_owned());
    let difference = between(&old, &new, None);
    is_bounded(&difference);
    let text = difference.to_string();
    let told = format!("long is `{}... (1000000 characters)`", "\u{e9}".repeat(80));
    assert!(text.contains(&told) && text.contains(r"of lines is `one\ntwo`"), "{text}");

    let names: Vec<_> = (0..200).map(|number| format!("r{number:03}")).collect();
    let quantities: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    queue(&mut new, "root.a").max = Some(Limits::of(&quantities));
    let a_list = names.join(" ");
    queue(&mut new, "root.a").submit_acl = Acl::parse(&names.join(",")).unwrap();
    new[0].resolver = a_list.clone();
    let filter = FilterConfig { users: names.clone(), ..FilterConfig::default() };
    let rule = RuleConfig { name: "user".into(), filter, ..RuleConfig::default() };
    new[0].placement = vec![rule; 50];
    let weights = names.iter().map(|name| (name.as_str().into(), 0.5));
    new[0].node_order.weights.extend(weights);
    let difference = between(&old, &new, None);
    is_bounded(&difference);
    let text = difference.to_string();
    let told = "max introduced: r000 1, r001 1, r002 1, r003 1, r004 1 and 195 more";
    assert!(text.contains(told), "{text}");
    is_bounded(&between(&queues(""), &new, None));
}

#[test]
fn lines_beyond_the_bound_are_counted() {
    let many: Vec<_> = (0..100).map(|number| format!("{{name: q{number:03}}}")).collect();
    let difference = between(&queues(""), &queues(&many.join(", ")), None);
    assert_eq!(
        difference.text(2, 1_000),
        "root.q000: new\nroot.q001: new\n... and 98 more lines of what is new"
    );
    let text = difference.text(100, 200);
    assert!(text.len() <= 200 && text.ends_with("more lines of what is new"), "{text}");
    assert_eq!(difference.text(100, 0), "... and 100 more lines of what is new");
    assert_eq!(difference.text(100, 10_000).lines().count(), 100);
    assert_eq!(Difference::default().text(100, 32), "");
}

/// A change of one field of the tree, each of which must yield a sentence.
type Mutation = fn(&mut Vec<PartitionConfig>, &str);

const MUTATIONS: [(&str, Mutation); 22] = [
    ("max", |new, path| queue(new, path).max = Some(Limits::of(&[("x", 7)]))),
    ("guaranteed", |new, path| queue(new, path).guaranteed = Some(Resources::of(&[("x", 7)]))),
    ("max_applications", |new, path| queue(new, path).max_applications += 1),
    ("submit_acl", |new, path| queue(new, path).submit_acl = Acl::parse("zoe").unwrap()),
    ("admin_acl", |new, path| queue(new, path).admin_acl = Acl::parse(" zoe").unwrap()),
    ("everybody", |new, path| queue(new, path).admin_acl = Acl::parse("*").unwrap()),
    ("property", |new, path| {
        queue(new, path).properties.insert("mine".into(), "7".into());
    }),
    ("template", |new, path| queue(new, path).template = Some(Arc::default())),
    ("limits", |new, path| queue(new, path).limits.push(limit(&["zoe"], &[], 1, 0))),
    ("limit of nothing", |new, path| queue(new, path).limits.push(LimitConfig::default())),
    ("leaf", |new, path| queue(new, path).is_leaf ^= true),
    ("gone", |new, path| {
        let (above, name) = path.rsplit_once('.').unwrap_or(("root", "b"));
        queue(new, above).children.retain(|child| &*child.name != name);
    }),
    ("new", |new, path| {
        let child = dynamic_queue(&format!("{path}.zoe"), true, None);
        let children = &mut queue(new, path).children;
        if children.iter().all(|other| other.name != child.name) {
            children.push(child);
        }
    }),
    ("placement", |new, _| new[0].placement.push(RuleConfig::default())),
    ("placement denies", |new, _| {
        let mut rule = RuleConfig { name: "user".into(), ..RuleConfig::default() };
        rule.filter.denies = true;
        new[0].placement.push(rule);
    }),
    ("order", |new, _| new[0].node_order.policy = NodeSortPolicy::BinPacking),
    ("weights", |new, _| new[0].node_order.weights.push(("x".into(), 0.5))),
    ("preemption", |new, _| new[0].preemption.enabled ^= true),
    ("preemption by quota", |new, _| new[0].preemption.quota ^= true),
    ("resolver", |new, _| new[0].resolver.push('x')),
    ("partition", |new, _| {
        let mut another = new[0].clone();
        another.name = Arc::from("zoe");
        new.truncate(1);
        new.push(another);
    }),
    ("no partition", |new, _| new.clear()),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_changed_field_gives_a_sentence(
        first in 0..MUTATIONS.len(),
        second in 0..MUTATIONS.len(),
        at in 0..4_usize,
    ) {
        let path = ["root", "root.a", "root.a.x", "root.b"][at];
        let mut old = queues("{name: a, queues: [{name: x}]}, {name: b, maxapplications: 1}");
        if !matches!(MUTATIONS[first].0, "gone" | "no partition") {
            MUTATIONS[first].1(&mut old, path);
        }
        prop_assert!(between(&old, &old.clone(), None).is_empty());
        let mut new = old.clone();
        MUTATIONS[second].1(&mut new, path);
        let difference = between(&old, &new, None);
        prop_assert_eq!(old == new, difference.is_empty(), "{}: {}", MUTATIONS[second].0, difference);
        for line in difference.lines() {
            prop_assert!(!line.text.contains('\n') && !line.text.is_empty());
        }
        let all = difference.summary(usize::MAX);
        prop_assert_eq!(all.len(), difference.lines().len());
    }
}
