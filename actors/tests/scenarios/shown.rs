//! Snapshots of queues that are created and removed, and of the usage of users and groups.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use monoceros_actors::snapshot::{QueueSnapshot, UsageSnapshot};
use monoceros_actors::{Scheduler, SchedulerHandle};

use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

const QUEUES: &str = "
partitions:
  - name: default
    placementrules:
      - {name: provided, create: true}
    queues:
      - name: root
        submitacl: '*'
        properties: {priority.offset: '3'}
        childtemplate:
          maxapplications: 4
          properties: {application.sort.policy: fair}
          resources: {max: {vcore: 5}}
        queues:
          - name: a
            parent: true
            limits:
              - {limit: each, users: [ada, '*'], maxapplications: 2}
              - {limit: shared, groups: [bob, '*'], maxresources: {vcore: 3, memory: 0}}
";

async fn started(text: &str) -> SchedulerHandle {
    let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
    register(&scheduler, "rm", QUEUES, Arc::new(RecordingCallback::default())).await;
    send_lines(&scheduler, "rm", text).await;
    scheduler
}

/// Series whose name or label contains `part`, by the names of their families, with values.
async fn series(scheduler: &SchedulerHandle, part: &str) -> Vec<String> {
    scheduler.refresh_metrics().await;
    let families = scheduler.metrics().gather();
    let page = prometheus::TextEncoder::new().encode_to_string(&families).unwrap();
    let samples = page.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    samples.map(str::to_owned).collect()
}

async fn queue(scheduler: &SchedulerHandle, path: &str) -> Option<QueueSnapshot> {
    scheduler.queues("default").await.unwrap().descendant(path)
}

#[test]
fn series_of_a_dynamic_queue_end_with_it() {
    in_virtual_time(async {
        let scheduler = started(
            "
            node n1 vcore=9
            app a1 in root.a.dyn user ada
            ask a1 k1 vcore=2
            ",
        )
        .await;
        let at_first = series(&scheduler, "queue=\"root.a.dyn\"").await;
        expect![[r#"
            [
                "yunikorn_queue_app{queue=\"root.a.dyn\",state=\"accepted\"} 0",
                "yunikorn_queue_app{queue=\"root.a.dyn\",state=\"new\"} 0",
                "yunikorn_queue_app{queue=\"root.a.dyn\",state=\"running\"} 1",
                "yunikorn_queue_resource{queue=\"root.a.dyn\",resource=\"apps\",state=\"maxRunningApps\"} 4",
                "yunikorn_queue_resource{queue=\"root.a.dyn\",resource=\"vcore\",state=\"allocated\"} 2",
                "yunikorn_queue_resource{queue=\"root.a.dyn\",resource=\"vcore\",state=\"max\"} 5000",
                "yunikorn_queue_resource{queue=\"root.a.dyn\",resource=\"vcore\",state=\"pending\"} 0",
            ]
        "#]]
        .assert_debug_eq(&at_first);

        send_lines(&scheduler, "rm", "release a1 *").await;
        let idle = series(&scheduler, "queue=\"root.a.dyn\"").await;
        let nothing = "resource=\"vcore\",state=\"allocated\"} 0";
        assert!(idle.iter().any(|line| line.contains(nothing)), "{idle:#?}");

        send_lines(&scheduler, "rm", "remove-app a1").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(queue(&scheduler, "root.a.dyn").await, None);
        for part in ["root.a.dyn", "root_a_dyn"] {
            assert_eq!(series(&scheduler, part).await, Vec::<String>::new());
        }

        // Many are created and removed, and the page is as long as before.
        let before = series(&scheduler, "queue").await.len();
        for number in 0..50 {
            let text = format!("app b{number} in root.a.d{number}\nremove-app b{number}");
            send_lines(&scheduler, "rm", &text).await;
        }
        assert!(series(&scheduler, "queue").await.len() > before + 50);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(series(&scheduler, "queue").await.len(), before);

        // The values of a queue that was made again start again.
        send_lines(&scheduler, "rm", "app a2 in root.a.dyn user ada").await;
        let again = series(&scheduler, "queue=\"root.a.dyn\"").await;
        assert!(!again.iter().any(|line| line.contains("running")), "{again:#?}");
        scheduler.shutdown().await;
    });
}

#[test]
fn a_dynamic_leaf_shows_its_template_only() {
    in_virtual_time(async {
        let scheduler = started(
            "
            node n1 vcore=9
            app a1 in root.a.deep.er user ada
            ",
        )
        .await;
        let [configured, parent, leaf] = ["root.a", "root.a.deep", "root.a.deep.er"].map(|path| {
            let scheduler = &scheduler;
            async move { queue(scheduler, path).await.unwrap() }
        });
        let (configured, parent, leaf) = (configured.await, parent.await, leaf.await);
        assert!(configured.is_managed && !parent.is_managed && !leaf.is_managed);
        for queue in [&configured, &parent] {
            let template = queue.template.as_ref().expect("that of root is the nearest");
            assert_eq!(template.max_applications, 4);
            assert!(!queue.is_leaf);
        }
        assert_eq!((leaf.template, leaf.max_running_apps), (None, 4));
        assert_eq!(leaf.max_resource.to_string(), "map[vcore:5000]");
        assert_eq!(leaf.sorting_policy, "fair");
        assert_eq!(leaf.headroom.to_string(), "map[vcore:9]", "no more than root has");
        let keys: Vec<_> = leaf.properties.keys().collect();
        assert_eq!(keys, ["application.sort.policy"]);
        assert!(parent.properties.is_empty() && !configured.properties.is_empty());
        let rules = scheduler.placement_rules("default").await.unwrap();
        assert_eq!(
            rules.iter().map(|rule| rule.name).collect::<Vec<_>>(),
            ["provided", "recovery"]
        );
        scheduler.shutdown().await;
    });
}

#[test]
fn counters_of_a_returning_queue_continue() {
    in_virtual_time(async {
        let scheduler = started("node n1 vcore=9").await;
        let total = async || series(&scheduler, "yunikorn_queue_app_total").await;
        for round in 1..=2 {
            let text = format!(
                "
                app a{round} in root.a.dyn user ada
                ask a{round} k1 vcore=2
                "
            );
            send_lines(&scheduler, "rm", &text).await;
            send_lines(&scheduler, "rm", &format!("release a{round} *")).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(queue(&scheduler, "root.a.dyn").await, None, "it went with its application");
            let of_queue = format!(
                "yunikorn_queue_app_total{{queue=\"root.a.dyn\",state=\"completed\"}} {round}"
            );
            assert_eq!(total().await, [of_queue]);
        }
        // One application names an existing queue without access, the other a queue that does not
        // exist.
        send_lines(
            &scheduler,
            "rm",
            "app a9 in root.b user ada\napp a9 in root.b user ada\napp x in root.a",
        )
        .await;
        expect![[r#"
            [
                "yunikorn_queue_app_total{queue=\"none\",state=\"rejected\"} 1",
                "yunikorn_queue_app_total{queue=\"root.a.dyn\",state=\"completed\"} 2",
                "yunikorn_queue_app_total{queue=\"root.b\",state=\"rejected\"} 1",
            ]
        "#]]
        .assert_debug_eq(&total().await);
        let rejected = series(&scheduler, "state=\"rejected\"").await;
        let now = "yunikorn_queue_app{queue=\"root.b\",state=\"rejected\"} 1".to_owned();
        assert!(rejected.contains(&now), "{rejected:#?}");
        scheduler.shutdown().await;
    });
}

/// Path, usage, limits and running applications, here and below.
fn lines(usage: &UsageSnapshot, into: &mut Vec<String>) {
    into.push(format!(
        "{}: {} of {}, {:?} of {}",
        usage.queue_path,
        usage.resource_usage,
        usage.max_resources,
        usage.running_applications,
        usage.max_applications
    ));
    for child in &usage.children {
        lines(child, into);
    }
}

#[test]
fn usage_is_shown_per_user_group_and_queue() {
    in_virtual_time(async {
        let scheduler = started("node n1 vcore=9").await;
        let shown = async || {
            let mut text = Vec::new();
            for user in scheduler.users("default").await.unwrap() {
                text.push(format!("user {} {:?}", user.user_name, user.groups));
                lines(&user.queues, &mut text);
            }
            for group in scheduler.groups("default").await.unwrap() {
                text.push(format!("group {} {:?}", group.group_name, group.applications));
                lines(&group.queues, &mut text);
            }
            text.join("\n") + "\n"
        };
        // Users named by a limit are tracked before they use anything.
        expect![[r#"
            user ada {}
            root: map[] of map[], [] of 0
            root.a: map[] of map[], [] of 2
            group * []
            root: map[] of map[], [] of 0
            root.a: map[] of map[memory:0 vcore:3000], [] of 0
            group bob []
            root: map[] of map[], [] of 0
            root.a: map[] of map[memory:0 vcore:3000], [] of 0
        "#]]
        .assert_eq(&shown().await);
        send_lines(
            &scheduler,
            "rm",
            "
            app a1 in root.a.x user ada
            ask a1 k1 vcore=2
            app b1 in root.a.y user bob
            ask b1 k1 vcore=1
            ",
        )
        .await;
        expect![[r#"
            user ada {"a1": "*"}
            root: map[vcore:2] of map[], ["a1"] of 0
            root.a: map[vcore:2] of map[], ["a1"] of 2
            root.a.x: map[vcore:2] of map[], ["a1"] of 0
            user bob {"b1": "bob"}
            root: map[vcore:1] of map[], ["b1"] of 0
            root.a: map[vcore:1] of map[], ["b1"] of 2
            root.a.y: map[vcore:1] of map[], ["b1"] of 0
            group * ["a1"]
            root: map[vcore:2] of map[], ["a1"] of 0
            root.a: map[vcore:2] of map[memory:0 vcore:3000], ["a1"] of 0
            root.a.x: map[vcore:2] of map[], ["a1"] of 0
            group bob ["b1"]
            root: map[vcore:1] of map[], ["b1"] of 0
            root.a: map[vcore:1] of map[memory:0 vcore:3000], ["b1"] of 0
            root.a.y: map[vcore:1] of map[], ["b1"] of 0
        "#]]
        .assert_eq(&shown().await);
        let bob = scheduler.user("default", "bob").await.unwrap().unwrap();
        assert_eq!(bob.queues.running_applications, ["b1"]);
        assert_eq!(scheduler.user("default", "eve").await, Ok(None));
        assert_eq!(scheduler.group("default", "ops").await, Ok(None));
        assert!(scheduler.users("other").await.is_err());
        send_lines(&scheduler, "rm", "remove-app a1\nremove-app b1").await;
        expect![[r#"
            user ada {}
            root: map[] of map[], [] of 0
            root.a: map[] of map[], [] of 2
            group * []
            root: map[] of map[], [] of 0
            root.a: map[] of map[memory:0 vcore:3000], [] of 0
            group bob []
            root: map[] of map[], [] of 0
            root.a: map[] of map[memory:0 vcore:3000], [] of 0
        "#]]
        .assert_eq(&shown().await);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_repeated_node_update_counts_once() {
    in_virtual_time(async {
        let scheduler = started("node n1 vcore=1\nnode n2 vcore=1 attr ready=maybe").await;
        // Active, draining, failed, decommissioned, unhealthy.
        let counted = async |text: &str| {
            send_lines(&scheduler, "rm", text).await;
            let all = series(&scheduler, "yunikorn_scheduler_node{").await;
            let value = |state: &str| {
                let line = all.iter().find(|line| line.contains(state)).unwrap();
                line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap()
            };
            ["active", "draining", "failed", "decommissioned", "unhealthy"].map(value)
        };
        assert_eq!(counted("drain n1\ndrain n1").await, [2, 1, 0, 0, 0]);
        assert_eq!(counted("undrain n1\nundrain n1").await, [2, 0, 0, 0, 0]);
        let not_ready = "resize n1 attr ready=false\nresize n1 attr ready=false";
        assert_eq!(counted(not_ready).await, [2, 0, 0, 0, 1]);
        assert_eq!(counted("resize n1").await, [2, 0, 0, 0, 0], "without a word it is ready");
        assert_eq!(counted("node n1 vcore=1").await, [2, 0, 1, 0, 0]);
        assert_eq!(counted("remove n2\nremove n2").await, [1, 0, 1, 1, 0]);
        scheduler.shutdown().await;
    });
}
