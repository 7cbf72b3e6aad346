//! Group limits added by a reload: the preview of the change, and that they count running
//! allocations and allow the same placements as after a restart
//! (`docs/limits.md#other-limits-while-applications-run`).

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::Scheduler;
use monoceros_proto::si::v1 as si;
use proptest::prelude::*;
use proptest::sample::select;

use crate::histories::runner;
use crate::recording_callback::RecordingCallback;
use crate::world::{How, World, in_virtual_time, register, send_lines};

const LEAVES: [&str; 3] = ["root.a.x", "root.a.y", "root.b"];
/// Queues with the highest limit that each may have: none exceeds one above it.
const QUEUES: [(&str, i64); 5] =
    [("root", 40), ("root.a", 20), ("root.a.x", 10), ("root.a.y", 10), ("root.b", 10)];
const GROUPS: [&str; 3] = ["dev", "ops", "qa"];

/// Limits of one queue.
#[derive(Clone, Debug)]
struct Limited {
    /// Names of the groups, and the difference between the highest limit and theirs.
    groups: Option<(Vec<&'static str>, i64)>,
    all_others: bool,
    user: Option<i64>,
}

#[derive(Clone, Debug)]
struct Asked {
    application: usize,
    vcore: i64,
}

fn limited() -> impl Strategy<Value = Limited> {
    let groups = (proptest::sample::subsequence(GROUPS.to_vec(), 1..=2), 0_i64..9);
    (prop::option::of(groups), any::<bool>(), prop::option::of(0_i64..9))
        .prop_map(|(groups, all_others, user)| Limited { groups, all_others, user })
}

fn asks(count: usize) -> impl Strategy<Value = Vec<Asked>> {
    let asked =
        (0..6_usize, 1_i64..4).prop_map(|(application, vcore)| Asked { application, vcore });
    prop::collection::vec(asked, 1..count)
}

/// Returns the queues with these limits; limits of groups only if `with_groups`.
fn queues(limits: &[Limited], with_groups: bool) -> String {
    let mut text = String::new();
    for ((path, most), Limited { groups, all_others, user }) in QUEUES.iter().zip(limits) {
        let _ = write!(text, "queue {path}");
        if let Some(less) = user {
            let _ = write!(text, " limit users=u1 vcore={}", most - less);
        }
        if let Some((groups, less)) = groups.as_ref().filter(|_| with_groups) {
            let _ = write!(text, " limit groups={} vcore={}", groups.join(","), most - less);
            if *all_others {
                let _ = write!(text, " limit groups=* vcore={}", most - 9);
            }
        }
        text.push('\n');
    }
    text
}

fn asked(asks: &[Asked], name: &str) -> String {
    let ask = |(at, Asked { application, vcore }): (usize, &Asked)| {
        format!("ask a{application} {name}{at} vcore={vcore}\n")
    };
    asks.iter().enumerate().map(ask).collect()
}

/// Plays `before`, which ends with a reload; then, if `restarts`, the RM registers again and
/// reports everything. Returns what `after` prints: placements, and the usage of users.
fn played(before: &str, after: &str, restarts: bool) -> String {
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play(before).await;
        if restarts {
            world.play("recover 0").await;
        }
        world.take_played();
        world.play(after).await;
        assert_eq!(world.scheduler.check_books("default").await.unwrap(), [""; 0]);
        let played = world.take_played();
        world.scheduler.shutdown().await;
        assert_eq!(played.wrong, [""; 0], "{}", played.text);
        played.text
    })
}

#[test]
fn a_reload_counts_groups_as_a_restart_does() {
    let limits = || prop::collection::vec(limited(), QUEUES.len());
    let groups = proptest::sample::subsequence(GROUPS.to_vec(), 0..=3);
    let owners = prop::collection::vec((select(&["u1", "u2", "u3"][..]), groups), 6);
    let strategy = (limits(), limits(), owners, asks(16), asks(8));
    let outcome = runner(48).run(&strategy, |(first, then, owners, ran, asked_next)| {
        let mut before = queues(&first, false);
        before += "node n1 vcore=60\n";
        for (at, (user, groups)) in owners.iter().enumerate() {
            let leaf = LEAVES[at % LEAVES.len()];
            let groups = match &*groups.join(",") {
                "" => String::new(),
                groups => format!(" groups {groups}"),
            };
            let _ = writeln!(before, "app a{at} in {leaf} user {user}{groups}");
        }
        before += &asked(&ran, "ran");
        let _ = write!(before, "forget\n{}reload\n", queues(&then, true));
        let after = format!("show users\n{}show users\n", asked(&asked_next, "next"));
        prop_assert_eq!(
            played(&before, &after, false),
            played(&before, &after, true),
            "{}{}",
            before,
            after
        );
        Ok(())
    });
    outcome.unwrap();
}

/// The preview covers a group without applications, a group that gains some applications and loses
/// others, and applications that belong to no named group.
#[test]
fn a_preview_lists_excess_over_first_group_limits() {
    let config = |of_parent: &str, of_other: &str| {
        format!(
            "partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [
                {{name: parent, limits: [{of_parent}], queues: [{{name: leaf}}]}},
                {{name: other, limits: [{of_other}]}}]}}]}}]"
        )
    };
    let limit = |group: &str, memory: i64| {
        format!("{{limit: l, groups: [{group}], maxresources: {{memory: {memory}}}}}")
    };
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let before = config("", &limit("old", 90));
        register(&scheduler, "rm", &before, Arc::new(RecordingCallback::default())).await;
        send_lines(
            &scheduler,
            "rm",
            "node n1 memory=300
             app a1 in root.parent.leaf user ann groups g0
             app a2 in root.parent.leaf user bob groups g0,g1
             app a3 in root.parent.leaf user cid groups g2
             app a4 in root.parent.leaf user dan
             app b1 in root.other user ann groups old,new
             ask a1 k memory=60
             ask a2 k memory=7
             ask a3 k memory=5
             ask a4 k memory=100
             ask b1 k memory=30",
        )
        .await;
        let of_parent = format!("{}, {}", limit("g0, 'g1'", 50), limit("'*'", 4));
        let after = config(&of_parent, &limit("new", 20));
        let (rm_id, config) = ("rm".to_owned(), after);
        let request = si::UpdateConfigurationRequest { rm_id, config, ..Default::default() };
        let tried = scheduler.validate_configuration(request.clone()).await.unwrap();
        let groups = scheduler.groups("default").await.unwrap();
        assert_eq!(groups.len(), 1, "nothing has changed");
        let done = scheduler.update_configuration(request).await.unwrap();
        assert_eq!(tried.difference, done.difference);
        expect![[r#"
            root.other: limits that bind now, with nothing new until less is used: group new (30 of 20 memory)
            root.parent: limits that bind now, with nothing new until less is used: all other users together (105 of 4 memory) and group g0 (67 of 50 memory)
            root.other: the limit of group new on resources introduced: memory 20
            root.parent: the limit of all other users together on resources introduced: memory 4; the limit of group g0 on resources introduced: memory 50; the limit of group g1 on resources introduced: memory 50
            root.other: the limit of group old on resources removed: memory (was 90)
        "#]].assert_eq(&done.difference.to_string());
        let groups = scheduler.groups("default").await.unwrap();
        let used =
            groups.iter().map(|it| format!("{} {}", it.group_name, it.queues.resource_usage));
        let expected = ["* map[memory:105]", "g0 map[memory:67]", "g1 map[]", "new map[memory:30]"];
        assert_eq!(used.collect::<Vec<_>>(), expected);
    });
}
