//! New and removed applications, and the reasons of rejections.

use super::speaker::{Ask, Speaker};
use crate::harness::Service;
use crate::revisions::client::{amount_of, field, series_reaches};

#[tokio::test]
async fn missing_or_long_id_is_rejected() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        for id in [String::new(), "x".repeat(1_025)] {
            rm.application(&id, &rm.queue()).await;
            rm.rejected_application(&id, "R_APP_ID").await;
        }
        let longest = "x".repeat(1_024);
        rm.application(&longest, &rm.queue()).await;
        rm.accepted_application(&longest).await;
        series_reaches(&service, &rm.series("rejected", "R_APP_ID"), 2).await;
    }
}

#[tokio::test]
async fn live_id_is_rejected() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.application("app", &rm.queue()).await;
        let reason = rm.rejected_application("app", "R_APP_EXISTS").await;
        assert!(reason.contains("already existed"), "{reason}");
    }
}

#[tokio::test]
async fn rejected_id_is_free() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.application("later", r#"queueName: "root.nowhere.at.all""#).await;
        if rm.is_legacy() {
            // The built-in queues have a fallback.
            rm.accepted_application("later").await;
        } else {
            rm.rejected_application("later", "R_PLACEMENT").await;
            rm.application("later", &rm.queue()).await;
            rm.accepted_application("later").await;
        }
        rm.remove_application(r#"applicationID: "later""#).await;
        rm.application("later", &rm.queue()).await;
        rm.application("twice", &rm.queue()).await;
        rm.application("twice", &rm.queue()).await;
        rm.accepted_application("twice").await;
        rm.rejected_application("twice", "R_APP_EXISTS").await;
    }
}

/// The partition of another RM does not exist for it.
#[tokio::test]
async fn unknown_partition_is_rejected() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        for (id, partition) in [("other", "other"), ("foreign", "[rm-x]default")] {
            rm.application(id, &format!(r#"{} partitionName: "{partition}""#, rm.queue())).await;
            let reason = rm.rejected_application(id, "R_PARTITION_UNKNOWN").await;
            assert!(reason.contains("partition doesn't exist"), "{reason}");
            assert!(reason.contains(&format!("application `{id}`")), "{reason}");
        }
        let own = format!(r#"{} partitionName: "[{}]default""#, rm.queue(), rm.client.rm_id);
        rm.application("own", &own).await;
        rm.accepted_application("own").await;
    }
}

#[tokio::test]
async fn missing_user_is_rejected_unless_forced() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let queue = rm.queue();
        rm.bare_application(&format!(r#"applicationID: "no-ugi" {queue}"#)).await;
        let reason = rm.rejected_application("no-ugi", "R_USER").await;
        assert!(reason.contains("empty user cannot resolve"), "{reason}");
        let groups = r#"ugi { user: "al ice" groups: "dev" }"#;
        rm.bare_application(&format!(r#"applicationID: "bad-name" {queue} {groups}"#)).await;
        let reason = rm.rejected_application("bad-name", "R_USER").await;
        assert!(reason.contains("invalid username"), "{reason}");
        // The key of the tag may be spelled in any case.
        let forced = r#"tags { key: "Application.Create.Force" value: "true" }"#;
        rm.bare_application(&format!(r#"applicationID: "forced" {queue} {forced}"#)).await;
        rm.accepted_application("forced").await;
        let leaf = rm.leaf();
        let shown =
            crate::revisions::client::application(&service, &rm.client.rm_id, leaf, "forced").await;
        assert_eq!((&shown["user"], &shown["groups"][0]), (&"nobody".into(), &"nogroup".into()));
    }
}

#[tokio::test]
async fn unplaceable_application_is_rejected() {
    let service = Service::start();
    // The oldest revision cannot bring queues, and the built-in ones accept everybody.
    for revision in ["m", "t"] {
        let rm = Speaker::start(&service, revision).await;
        rm.application("nowhere", r#"queueName: "root.x""#).await;
        rm.rejected_application("nowhere", "R_PLACEMENT").await;
        // A name without `root.` is the name of a queue below root.
        rm.application("root", r#"queueName: "root""#).await;
        rm.rejected_application("root", "R_PLACEMENT").await;
        let config = "
partitions:
  - name: default
    queues:
      - {name: root, submitacl: '*', queues: [{name: a}, {name: p, queues: [{name: x}]}]}
";
        super::partitions::update_config(&service, &rm, config).await;
        rm.application("parent", r#"queueName: "root.p""#).await;
        rm.rejected_application("parent", "R_NOT_LEAF").await;
        let forced = r#"tags { key: "application.create.force" value: "true" }"#;
        rm.application("forced", &format!(r#"queueName: "root.x" {forced}"#)).await;
        rm.accepted_application("forced").await;
        rm.ask(Ask { key: "runs", application: "forced", ..Ask::default() }).await;
        rm.allocated("runs").await;
    }
}

/// The queue is for other users, or drains. Running applications are admitted by force.
#[tokio::test]
async fn forbidden_queue_is_rejected() {
    let service = Service::start();
    let forced = r#"tags { key: "application.create.force" value: "true" }"#;
    for revision in ["m", "t"] {
        let rm = Speaker::start(&service, revision).await;
        // One leaf for alice, the user here, one for bob only; the one she used was removed.
        let config = "
partitions:
  - name: default
    queues:
      - {name: root, queues: [{name: b, submitacl: alice}, {name: c, submitacl: bob}]}
";
        super::partitions::update_config(&service, &rm, config).await;
        rm.application("allowed", r#"queueName: "root.b""#).await;
        rm.accepted_application("allowed").await;
        for (id, queue, why) in
            [("denied", "root.c", "may not submit"), ("draining", "root.a", "drain")]
        {
            rm.application(id, &format!(r#"queueName: "{queue}""#)).await;
            let reason = rm.rejected_application(id, "R_PLACEMENT").await;
            assert!([id, queue, why].iter().all(|part| reason.contains(part)), "{reason}");
            let forced = format!(r#"queueName: "{queue}" {forced}"#);
            rm.application(&format!("{id}-forced"), &forced).await;
            rm.accepted_application(&format!("{id}-forced")).await;
        }
    }
}

#[tokio::test]
async fn negative_placeholder_ask_is_rejected() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let gang = |amount| amount_of("placeholderAsk", "vcore", amount);
        rm.application("negative", &format!("{} {}", rm.queue(), gang(-1))).await;
        let reason = rm.rejected_application("negative", "R_NEGATIVE_RESOURCE").await;
        assert!(reason.contains("negative placeholderAsk"), "{reason}");
        assert!(reason.contains("`negative`"), "{reason}");
        for (id, amount) in [("none", 0), ("gang", 1)] {
            rm.application(id, &format!("{} {}", rm.queue(), gang(amount))).await;
            rm.accepted_application(id).await;
        }
    }
}

#[tokio::test]
async fn unknown_removal_is_counted() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.remove_application(r#"applicationID: "nobody""#).await;
        rm.remove_application(r#"applicationID: "app" partitionName: "nowhere""#).await;
        rm.application("next", &rm.queue()).await;
        rm.accepted_application("next").await;
        series_reaches(&service, &rm.series("ignored", "G_REMOVAL_UNKNOWN"), 2).await;
        // The existing one is unchanged.
        rm.settled("k").await;
    }
}

#[tokio::test]
async fn removed_application_releases_its_allocations() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        for key in ["k1", "k2"] {
            rm.ask(Ask { key, ..Ask::default() }).await;
            rm.allocated(key).await;
        }
        rm.remove_application(r#"applicationID: "app""#).await;
        for key in ["k1", "k2"] {
            let released = rm.released(key).await;
            let stopped = if rm.is_legacy() { "0" } else { "1" };
            assert_eq!(field(&released, "terminationType"), stopped);
        }
        rm.application("app", &rm.queue()).await;
        rm.settled("k1").await;
        let (method, list) = if rm.is_legacy() {
            ("Update", "updatedApplications")
        } else {
            ("UpdateApplication", "updated")
        };
        let updated = rm.client.items(method, list);
        let states: Vec<String> = updated.iter().map(|item| field(item, "state")).collect();
        assert!(states.iter().all(|state| state == "Accepted" || state == "Running"), "{states:?}");
    }
}
