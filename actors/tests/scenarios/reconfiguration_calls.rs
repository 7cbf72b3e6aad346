//! Reloads of a running session through the calls of the embedding API: their answers and
//! rejections, and the state they leave unchanged.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{
    ConfigurationError, ConfigurationUpdate, ObjectState, RegisterError, Removed, Scheduler,
    SchedulerHandle, UpdateError,
};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

const ONE: &str = "
partitions:
  - name: default
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
";

const TWO: &str = "
partitions:
  - name: default
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
  - name: gpu
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
";

fn received(recorder: &RecordingCallback) -> String {
    let words: Vec<_> = recorder.take().iter().map(ToString::to_string).collect();
    words.join("\n") + "\n"
}

fn configure(rm: &str, config: &str) -> si::UpdateConfigurationRequest {
    let (rm_id, config) = (rm.to_owned(), config.to_owned());
    si::UpdateConfigurationRequest { rm_id, config, ..Default::default() }
}

async fn begin(config: &str) -> (SchedulerHandle, Arc<RecordingCallback>) {
    let scheduler = Scheduler::builder().compare_with_full_search().start_local().unwrap();
    let recorder = Arc::new(RecordingCallback::default());
    register(&scheduler, "rm", config, recorder.clone()).await;
    (scheduler, recorder)
}

async fn update(
    scheduler: &SchedulerHandle,
    config: &str,
) -> Result<ConfigurationUpdate, ConfigurationError> {
    scheduler.update_configuration(configure("rm", config)).await
}

async fn paths(scheduler: &SchedulerHandle, partition: &str) -> Vec<String> {
    let root = scheduler.queues(partition).await.unwrap();
    let mut all = vec![root];
    let mut paths = Vec::new();
    while let Some(queue) = all.pop() {
        paths.push(queue.queue_name);
        all.extend(queue.children);
    }
    paths.sort();
    paths
}

#[test]
fn an_update_without_registration_is_an_error() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let nobody = scheduler.update_configuration(configure("", ONE)).await;
        assert_eq!(nobody, Err(ConfigurationError::RmIdMissing));
        let unknown = scheduler.update_configuration(configure("rm", ONE)).await;
        assert_eq!(unknown, Err(ConfigurationError::NotRegistered("rm".to_owned())));
        let (one, two) =
            (Arc::new(RecordingCallback::default()), Arc::new(RecordingCallback::default()));
        register(&scheduler, "one", ONE, one).await;
        let only = scheduler.update_configuration(configure("", TWO)).await.unwrap();
        assert_eq!((only.rm_id.as_str(), only.changed), ("one", true));
        register(&scheduler, "two", ONE, two).await;
        let which = scheduler.update_configuration(configure("", ONE)).await;
        assert_eq!(which, Err(ConfigurationError::RmIdMissing));
        scheduler.shutdown().await;
    });
}

/// The extra configuration is applied each time.
#[test]
fn a_repeated_text_is_applied_once() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let before = scheduler.configuration("").await.unwrap();
        assert_eq!((before.config.as_str(), before.policy_group.as_str()), (ONE, "queues"));
        let with_checksum = format!("{ONE}checksum: {}", before.checksum);
        let request = si::UpdateConfigurationRequest {
            extra_config: [("log.level".to_owned(), "debug".to_owned())].into(),
            ..configure("rm", &with_checksum)
        };
        let same = scheduler.update_configuration(request).await.unwrap();
        assert!(!same.changed);
        assert_eq!(same.old_config, ONE);
        assert_eq!(same.old_checksum, same.new_checksum);
        let after = scheduler.configuration("rm").await.unwrap();
        assert_eq!(after.config, ONE, "the text that was applied");
        assert_eq!(after.extra_config["log.level"], "debug");
        let changed = update(&scheduler, &format!("{ONE}\n# a comment\n")).await.unwrap();
        assert!(changed.changed, "another text is applied, although nothing of it shows");
        assert!(scheduler.configuration("rm").await.unwrap().extra_config.is_empty());
        scheduler.shutdown().await;
    });
}

#[test]
fn an_invalid_text_changes_nothing() {
    in_virtual_time(async {
        let (scheduler, recorder) = begin(ONE).await;
        send_lines(&scheduler, "rm", "node n1 vcore=4\napp a1 in root.a").await;
        let faults = ONE.replace("{ name: a }", "{ name: a, maxapplications: -1, colour: red }");
        for bad in ["partitions: [", "# nothing but a comment\n", faults.as_str()] {
            let request = si::UpdateConfigurationRequest {
                extra_config: [("key".to_owned(), "value".to_owned())].into(),
                ..configure("rm", bad)
            };
            let checked = scheduler.validate_configuration(request.clone()).await;
            let updated = scheduler.update_configuration(request).await;
            assert!(matches!(updated, Err(ConfigurationError::Invalid(_))), "{updated:?}");
            assert_eq!(checked, updated);
        }
        let now = scheduler.configuration("rm").await.unwrap();
        assert_eq!((now.config.as_str(), now.extra_config.len()), (ONE, 0));
        send_lines(&scheduler, "rm", "ask a1 k1 vcore=1").await;
        assert!(received(&recorder).contains("a1/k1 placed on n1"));
        scheduler.shutdown().await;
    });
}

#[test]
fn all_faults_of_a_text_are_answered() {
    let rule = ONE.replace("    queues:\n", "    placementrules: [{name: oracle}]\n    queues:\n");
    let template = ONE.replace(
        "{ name: a }",
        "{ name: a, parent: true, childtemplate: {resources: {max: {memory: 4GB}}} }",
    );
    let acl = ONE.replace("submitacl: '*'", "submitacl: 'a  b'");
    let three = ONE.replace(
        "{ name: a }",
        "{ name: a, colour: red }, { name: b, resources: {max: {vcore: -1}} }, { name: 'c d' }",
    );
    let table: [(&str, &[&str]); 5] = [
        (&rule, &["oracle"]),
        (&template, &["4GB"]),
        (&acl, &["E_ACL_SPACES"]),
        (&three, &["colour", "-1", "c d"]),
        ("# nothing but a comment\n", &["E_NO_PARTITIONS"]),
    ];
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        for (text, fragments) in table {
            let tried = scheduler.validate_configuration(configure("rm", text)).await;
            let error = update(&scheduler, text).await.unwrap_err();
            assert_eq!(tried.unwrap_err(), error);
            let error = error.to_string();
            for fragment in fragments {
                assert!(error.contains(fragment), "{fragment} in {error}");
            }
            assert_eq!(scheduler.configuration("rm").await.unwrap().config, ONE);
            assert_eq!(paths(&scheduler, "default").await, ["root", "root.a"]);
        }
        scheduler.shutdown().await;
    });
}

#[test]
fn a_text_with_other_white_space_is_applied() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let spaced = update(&scheduler, &format!("\n{ONE}\n\n")).await.unwrap();
        assert!(spaced.changed && spaced.difference.is_empty(), "{}", spaced.difference);
        let present = scheduler.configuration("rm").await.unwrap();
        let bare = update(&scheduler, &format!("{}checksum: ", present.config)).await.unwrap();
        assert!(!bare.changed, "a checksum is no part of the text");
        scheduler.shutdown().await;
    });
}

#[test]
fn white_space_and_limit_changes_have_no_queue_events() {
    let limited = |vcore: u8| {
        let limit = format!("{{limit: all, users: ['*'], maxresources: {{vcore: {vcore}m}}}}");
        ONE.replace("{ name: a }", &format!("{{ name: a, limits: [ {limit} ] }}"))
    };
    in_virtual_time(async {
        let (scheduler, recorder) = begin(&limited(4)).await;
        send_lines(&scheduler, "rm", "node n1 vcore=8\napp a1 in root.a\nask a1 k1 x2 vcore=1")
            .await;
        recorder.take();
        let past = scheduler.events().range(0, 0).highest + 1;
        for text in [format!("\n{}\n\n", limited(4)), limited(2)] {
            assert!(update(&scheduler, &text).await.unwrap().changed);
        }
        send_lines(&scheduler, "rm", "ask a1 k2 vcore=1").await;
        assert_eq!(received(&recorder), "\n", "the limit is reached");
        assert!(update(&scheduler, &limited(3)).await.unwrap().changed);
        scheduler.settle().await;
        assert_eq!(received(&recorder), "a1/k2 placed on n1\n");
        let notified = scheduler.events().range(past, u64::MAX).records;
        let of_queues: Vec<_> = notified
            .iter()
            .filter(|record| {
                let is_change = record.event_change_type().as_str_name() == "SET";
                record.r#type().as_str_name() == "QUEUE" && is_change
            })
            .collect();
        assert!(of_queues.is_empty(), "{of_queues:?}");
        scheduler.shutdown().await;
    });
}

#[test]
fn preemption_flags_apply_to_the_next_step() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let flags = async || {
            let partition = scheduler.partitions().await.remove(0);
            (partition.preemption_enabled, partition.quota_preemption_enabled)
        };
        assert_eq!(flags().await, (true, false));
        let other = "    preemption: {enabled: false, quotapreemptionenabled: true}\n    queues:\n";
        update(&scheduler, &ONE.replace("    queues:\n", other)).await.unwrap();
        assert_eq!(flags().await, (false, true));
        update(&scheduler, ONE).await.unwrap();
        assert_eq!(flags().await, (true, false));
        scheduler.shutdown().await;
    });
}

#[test]
fn a_bad_text_creates_no_partition() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let registration = |config: &str| si::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            config: config.to_owned(),
            ..Default::default()
        };
        for bad in ["partitions: [", "# nothing but a comment\n", "partitions: []"] {
            let recorder = Arc::new(RecordingCallback::default());
            let refused = scheduler.register_resource_manager(registration(bad), recorder).await;
            let refused = refused.unwrap_err();
            assert!(matches!(refused, RegisterError::Config(_)), "{bad}: {refused}");
            assert!(scheduler.partitions().await.is_empty());
        }
        register(&scheduler, "rm", ONE, Arc::new(RecordingCallback::default())).await;
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.a"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_reload_reports_changes_with_usage() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        send_lines(&scheduler, "rm", "node n1 vcore=8\napp a1 in root.a\nask a1 k1 vcore=3").await;
        let lower = ONE.replace("{ name: a }", "{ name: a, resources: {max: {vcore: 2m}} }");
        let request = configure("rm", &lower);
        let tried = scheduler.validate_configuration(request).await.unwrap().difference;
        let applied = update(&scheduler, &lower).await.unwrap().difference;
        assert_eq!(tried, applied);
        expect![[r"
            root.a: max introduced: vcore 2m; now below what is used: 3m of 2m vcore, nothing new starts until it is less
        "]]
        .assert_eq(&applied.to_string());
        let gone = ONE.replace("{ name: a }", "{ name: b }");
        expect![[r"
            root.a: no longer configured: it takes no new application, and goes once the one in it has ended
            root.b: new
        "]]
        .assert_eq(&update(&scheduler, &gone).await.unwrap().difference.to_string());
        scheduler.shutdown().await;
    });
}

#[test]
fn validation_alone_has_no_effect() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let wanted = TWO.replace("{ name: a }", "{ name: b }");
        let would = scheduler.validate_configuration(configure("rm", &wanted)).await.unwrap();
        assert!(would.changed);
        assert_eq!(scheduler.configuration("rm").await.unwrap().checksum, would.old_checksum);
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.a"]);
        assert_eq!(scheduler.partitions().await.len(), 1);
        let does = update(&scheduler, &wanted).await.unwrap();
        assert_eq!(does, would);
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.b"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_changed_policy_group_is_rejected() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let of = |group: &str| si::UpdateConfigurationRequest {
            policy_group: group.to_owned(),
            ..configure("rm", TWO)
        };
        let other = scheduler.update_configuration(of("others")).await.unwrap_err();
        let expected =
            ConfigurationError::PolicyGroup { given: "others".into(), registered: "queues".into() };
        assert_eq!(other, expected);
        assert!(scheduler.update_configuration(of("queues")).await.unwrap().changed);
        scheduler.shutdown().await;
    });
}

#[test]
fn an_empty_text_means_the_default_configuration() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let old_form =
            si::UpdateConfigurationRequest { configs: TWO.to_owned(), ..configure("rm", "") };
        scheduler.update_configuration(old_form).await.unwrap();
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, TWO);
        send_lines(&scheduler, "rm", "node n1 vcore=2\napp a1 in root.a\nask a1 k1 vcore=1").await;
        update(&scheduler, "").await.unwrap();
        let default = scheduler.configuration("rm").await.unwrap().config;
        assert_eq!(default, monoceros_config::DEFAULT);
        let root = scheduler.queues("default").await.unwrap();
        let states: Vec<_> =
            root.children.iter().map(|queue| (&*queue.queue_name, &*queue.status)).collect();
        assert_eq!(states, [("root.a", "Draining")], "what is not configured there drains");
        scheduler.shutdown().await;
    });
}

#[test]
fn changed_default_queues_reach_rms_without_queues() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin("").await;
        register(&scheduler, "own", ONE, Arc::new(RecordingCallback::default())).await;
        scheduler.set_default_queues("partitions: [").await.unwrap_err();
        let outcomes = scheduler.set_default_queues(TWO).await.unwrap();
        let changed = |rm: &str| {
            let (_, outcome) = outcomes.iter().find(|(id, _)| id == rm).unwrap();
            outcome.as_ref().unwrap().changed
        };
        assert!(changed("rm") && !changed("own"));
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, TWO);
        update(&scheduler, ONE).await.unwrap();
        update(&scheduler, "").await.unwrap();
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, TWO);
        scheduler.shutdown().await;
    });
}

#[test]
fn new_rms_get_changed_default_queues_before_the_others_have_answered() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin("").await;
        let pending = scheduler.begin_default_queues(None, TWO).await.unwrap();
        register(&scheduler, "new", "", Arc::new(RecordingCallback::default())).await;
        assert_eq!(scheduler.configuration("new").await.unwrap().config, TWO);
        assert_eq!(pending.len(), 1);
        for (rm, outcome) in pending {
            assert!(rm == "rm" && outcome.await.unwrap().changed);
        }
        scheduler.shutdown().await;
    });
}

#[test]
fn changed_default_queues_keep_the_extra_configuration() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin("").await;
        let request = si::UpdateConfigurationRequest {
            extra_config: [("event.requestCapacity".to_owned(), "7".to_owned())].into(),
            ..configure("rm", "")
        };
        scheduler.update_configuration(request).await.unwrap();
        for defaults in [TWO, ONE, ONE] {
            scheduler.set_default_queues(defaults).await.unwrap();
            let extra = scheduler.configuration("rm").await.unwrap().extra_config;
            assert_eq!(extra["event.requestCapacity"], "7");
        }
        scheduler.shutdown().await;
    });
}

#[test]
fn long_texts_are_read_on_another_thread() {
    let leaves: Vec<_> = (0..4_000).map(|number| format!("{{ name: leaf-{number} }}")).collect();
    let long = ONE.replace("{ name: a }", &leaves.join(", "));
    assert!(long.len() > 64 << 10);
    in_virtual_time(async {
        let (scheduler, _ear) = begin(&long).await;
        assert_eq!(paths(&scheduler, "default").await.len(), 4_001);
        update(&scheduler, "").await.unwrap();
        scheduler.set_default_queues(&long).await.unwrap();
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, long);
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", "", recorder.clone()).await;
        assert_eq!(paths(&scheduler, "default").await.len(), 4_001);
        let faulty = si::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            config: format!("{long}colour: red\n"),
            ..Default::default()
        };
        scheduler.register_resource_manager(faulty, recorder).await.unwrap_err();
        assert_eq!(paths(&scheduler, "default").await.len(), 4_001, "nothing has changed");
        scheduler.shutdown().await;
    });
}

/// More than the number of queues whose usage is read.
const MANY: usize = 600;

#[test]
fn a_lowered_maximum_is_checked_beside_many_drained_queues() {
    let leaves: Vec<_> = (0..MANY).map(|number| format!("{{ name: q{number} }}")).collect();
    let many = ONE.replace("{ name: a }", &format!("{{ name: a }}, {}", leaves.join(", ")));
    in_virtual_time(async {
        let (scheduler, _ear) = begin(&many).await;
        send_lines(&scheduler, "rm", "node n1 vcore=8\napp a1 in root.a\nask a1 k1 vcore=3").await;
        let lower = ONE.replace("{ name: a }", "{ name: a, resources: {max: {vcore: 2m}} }");
        let difference = update(&scheduler, &lower).await.unwrap().difference;
        let lines: Vec<_> = difference.lines().iter().map(|line| line.text.as_str()).collect();
        expect![[r"
            root.a: max introduced: vcore 2m; now below what is used: 3m of 2m vcore, nothing new starts until it is less
            partition default: usage of 101 queues was not looked at"]]
        .assert_eq(&lines[..2].join("\n"));
        scheduler.shutdown().await;
    });
}

#[test]
fn a_dynamic_queue_configured_below_its_usage_is_reported() {
    let rule = "    placementrules:\n      - { name: provided, create: true }\n";
    let dynamic = format!("{}{rule}", ONE.replace("{ name: a }", "{ name: a, parent: true }"));
    in_virtual_time(async {
        let (scheduler, _ear) = begin(&dynamic).await;
        send_lines(&scheduler, "rm", "node n1 vcore=8\napp a1 in root.a.b\nask a1 k1 vcore=3")
            .await;
        let configured = dynamic.replace(
            "parent: true",
            "queues: [{ name: b, resources: {max: {vcore: 2m}} }, { name: c }]",
        );
        let difference = update(&scheduler, &configured).await.unwrap().difference;
        expect![[r"
            root.a.b: now below what is used: 3m of 2m vcore, nothing new starts until it is less
            root.a.b: becomes a configured queue, max vcore 2m
            root.a.c: new
        "]]
        .assert_eq(&difference.to_string());
        scheduler.shutdown().await;
    });
}

#[test]
fn changed_queues_of_a_policy_group_reach_its_rms() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().default_queues(ONE).start_local().unwrap();
        let join = async |rm: &str, group: &str, config: &str| {
            let request = si::RegisterResourceManagerRequest {
                rm_id: rm.to_owned(),
                policy_group: group.to_owned(),
                config: config.to_owned(),
                ..Default::default()
            };
            let recorder = Arc::new(RecordingCallback::default());
            scheduler.register_resource_manager(request, recorder).await.unwrap();
        };
        let of = async |rm: &str| scheduler.configuration(rm).await.unwrap().config;
        let three = TWO.replace("gpu", "fpga");
        join("early", "etl", "").await;
        scheduler.offer_policy_queues("etl", "partitions: [").await.unwrap_err();
        scheduler.offer_policy_queues("etl", TWO).await.unwrap();
        scheduler.offer_policy_queues("etl", &three).await.unwrap();
        join("late", "etl", "").await;
        join("own", "etl", ONE).await;
        join("other", "", "").await;
        assert_eq!((of("early").await.as_str(), of("late").await.as_str()), (ONE, TWO));

        scheduler.set_policy_queues("etl", "partitions: [").await.unwrap_err();
        let outcomes = scheduler.set_policy_queues("etl", &three).await.unwrap();
        let changed: Vec<_> =
            outcomes.iter().map(|(rm, it)| (rm.as_str(), it.as_ref().unwrap().changed)).collect();
        assert_eq!(changed, [("early", true), ("late", true), ("own", false)]);
        assert_eq!((of("late").await, of("other").await), (three.clone(), ONE.to_owned()));
        scheduler.update_configuration(configure("own", "")).await.unwrap();
        assert_eq!(of("own").await, three, "what stands for no text, in its group");

        let outcomes = scheduler.set_default_queues(TWO).await.unwrap();
        assert_eq!(outcomes.len(), 1, "the others have a configuration of their group");
        assert_eq!((of("late").await, of("other").await), (three, TWO.to_owned()));
        scheduler.set_policy_queues("etl", "").await.unwrap();
        assert_eq!(of("late").await, TWO);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_removed_partition_sends_its_last_messages() {
    in_virtual_time(async {
        let (scheduler, recorder) = begin(TWO).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=4
            node g1 vcore=4 attr si/node-partition=gpu
            app a1 in root.a
            app g1 in root.a partition gpu
            app g2 in root.a partition gpu
            app g3 in root.a partition gpu
            ask g1 k1 vcore=1 partition=gpu
            ask g2 k1 vcore=9 partition=gpu
            ",
        )
        .await;
        recorder.take();
        update(&scheduler, ONE).await.unwrap();
        scheduler.settle().await;
        let words = received(&recorder);
        expect![[r#"
            g1 is Failing
            ask g2/k1 released: STOPPED_BY_RM
            g2 is Failing
            g3 is Failing
        "#]]
        .assert_eq(&words);
        assert_eq!(scheduler.partitions().await.len(), 1);
        send_lines(
            &scheduler,
            "rm",
            "
            app g1 in root.a partition gpu
            ask g1 k2 vcore=1 partition=gpu
            node g1 vcore=4 attr si/node-partition=gpu
            ask a1 k1 vcore=1
            ",
        )
        .await;
        expect![[r#"
            g1 rejected: R_PARTITION_UNKNOWN
            ask g1/k2 rejected: R_PARTITION_UNKNOWN
            g1 rejected: R_PARTITION_UNKNOWN
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
        "#]]
        .assert_eq(&received(&recorder));
        update(&scheduler, TWO).await.unwrap();
        send_lines(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        expect![[r#"
            g1 accepted
        "#]]
        .assert_eq(&received(&recorder));
        assert!(scheduler.nodes("gpu").await.unwrap().is_empty(), "it begins empty");
        scheduler.shutdown().await;
    });
}

/// The message of the applications is part of the interface.
#[test]
fn applications_of_a_removed_partition_get_a_reason() {
    in_virtual_time(async {
        let (scheduler, recorder) = begin(TWO).await;
        send_lines(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        recorder.take();
        update(&scheduler, ONE).await.unwrap();
        let words = recorder.take();
        let [crate::recording_callback::Notification::AppUpdated(updated)] = &*words else {
            panic!("{words:?}")
        };
        assert_eq!(
            (updated.state.as_str(), updated.message.as_str()),
            ("Failing", "PartitionRemoved")
        );
        scheduler.shutdown().await;
    });
}

#[test]
fn a_rejected_partition_blocks_the_whole_update() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(TWO).await;
        send_lines(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        let mut both = TWO.replacen("{ name: a }", "{ name: b }", 1);
        both = both.replace("{ name: a }", "{ name: a, queues: [ { name: x } ] }");
        let refused = update(&scheduler, &both).await.unwrap_err();
        assert!(matches!(refused, ConfigurationError::TypeInUse(_)), "{refused}");
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.a"]);
        assert_eq!(paths(&scheduler, "gpu").await, ["root", "root.a"]);
        let remove = si::RemoveApplicationRequest {
            application_id: "g1".to_owned(),
            partition_name: "gpu".to_owned(),
        };
        let request = si::ApplicationRequest {
            rm_id: "rm".to_owned(),
            remove: vec![remove],
            ..Default::default()
        };
        scheduler.update_application(request).await.unwrap();
        update(&scheduler, &both).await.unwrap();
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.b"]);
        assert_eq!(paths(&scheduler, "gpu").await, ["root", "root.a", "root.a.x"]);
        scheduler.shutdown().await;
    });
}

/// Each partition has a thread of its own, which ends with it.
#[tokio::test]
async fn partitions_with_own_threads_are_added_and_removed() {
    let scheduler = Scheduler::builder().start().unwrap();
    let recorder = Arc::new(RecordingCallback::default());
    register(&scheduler, "rm", TWO, recorder.clone()).await;
    for round in 0..20 {
        send_lines(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        update(&scheduler, ONE).await.unwrap();
        assert_eq!(received(&recorder), "g1 accepted\ng1 is Failing\n", "round {round}");
        update(&scheduler, TWO).await.unwrap();
    }
    assert_eq!(scheduler.partitions().await.len(), 2);
    let removed = scheduler.deregister("rm").await.unwrap();
    assert_eq!(removed, Removed::default(), "both are empty by then");
    scheduler.shutdown().await;
}

/// Messages sent before an update are processed before it, later ones after it.
#[test]
fn updates_keep_their_place_among_the_requests() {
    in_virtual_time(async {
        let (scheduler, recorder) = begin(ONE).await;
        let app = |id: &str, queue: &str| si::ApplicationRequest {
            rm_id: "rm".to_owned(),
            new: vec![si::AddApplicationRequest {
                application_id: id.to_owned(),
                queue_name: queue.to_owned(),
                ugi: Some(si::UserGroupInformation { user: "ada".into(), groups: Vec::new() }),
                ..Default::default()
            }],
            ..Default::default()
        };
        let other = ONE.replace("{ name: a }", "{ name: b }");
        let (before, update, after, last) = tokio::join!(
            // In order: a request is sent when the call is made, not when it is awaited.
            async { scheduler.update_application(app("a1", "root.a")).await },
            update(&scheduler, &other),
            async { scheduler.update_application(app("b1", "root.b")).await },
            async { scheduler.update_application(app("a2", "root.a")).await },
        );
        before.unwrap();
        update.unwrap();
        after.unwrap();
        last.unwrap();
        scheduler.settle().await;
        expect![[r#"
            a1 accepted
            b1 accepted
            a2 rejected: R_PLACEMENT E_PLACEMENT_NONE
        "#]]
        .assert_eq(&received(&recorder));
        scheduler.shutdown().await;
    });
}

#[test]
fn a_deregistration_returns_the_removed_counts() {
    in_virtual_time(async {
        let (scheduler, recorder) = begin(TWO).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=4
            node n2 vcore=4 attr si/node-partition=gpu
            app a1 in root.a
            app a2 in root.a partition gpu
            ask a1 k1 x3 vcore=1
            ask a2 k1 x2 vcore=1 partition=gpu
            ",
        )
        .await;
        recorder.take();
        let removed = scheduler.deregister("rm").await.unwrap();
        assert_eq!(removed, Removed { allocations: 5, nodes: 2, applications: 2 });
        assert!(recorder.take().is_empty(), "not another word");
        let again = scheduler.deregister("rm").await;
        assert_eq!(again, Err(UpdateError::NotRegistered("rm".to_owned())));
        assert!(scheduler.partitions().await.is_empty());
        scheduler.shutdown().await;
    });
}

#[test]
fn a_partitions_state_has_its_entry_time() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let shown = async || {
            let partition = scheduler.partitions().await.remove(0);
            (partition.state, partition.last_state_transition_time)
        };
        let (state, since) = shown().await;
        assert_eq!(state, "Active");
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let old = scheduler.set_partition_state("rm", "default", ObjectState::Stopped).await;
        assert_eq!(old, Ok(ObjectState::Active));
        let again = scheduler.set_partition_state("rm", "[rm]default", ObjectState::Stopped).await;
        assert_eq!(again, Ok(ObjectState::Stopped), "named in full, and it is already");
        let (state, later) = shown().await;
        assert_eq!((state.as_str(), later - since), ("Stopped", 5_000_000_000));
        scheduler.set_partition_state("rm", "gpu", ObjectState::Active).await.unwrap_err();
        scheduler.set_partition_state("mr", "default", ObjectState::Active).await.unwrap_err();
        scheduler.shutdown().await;
    });
}
