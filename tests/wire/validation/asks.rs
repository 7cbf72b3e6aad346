//! Requests for allocations. Failing applications, which accept none, are tested with the
//! [gangs](crate::gangs), whose applications may fail.

use super::speaker::{Ask, Speaker};
use crate::harness::Service;
use crate::revisions::client::{field, series_reaches};

/// Each invalid item comes in its own message, followed by a valid one.
#[tokio::test]
async fn each_defect_has_its_reason() {
    let service = Service::start();
    let long = "k".repeat(1_025);
    for rm in Speaker::all(&service).await {
        let with_size =
            |key, size: &[(&'static str, i64)]| Ask { key, size: size.to_vec(), ..Ask::default() };
        let mut rows = vec![
            ("R_KEY", "allocationKey missing", Ask { key: "", ..Ask::default() }),
            ("R_KEY", "allocationKey too long", Ask { key: &long, ..Ask::default() }),
            (
                "R_APP_UNKNOWN",
                "failed to find application",
                Ask { key: "of-no-application", application: "", ..Ask::default() },
            ),
            (
                "R_APP_UNKNOWN",
                "failed to find application `nobody`",
                Ask { key: "of-nobody", application: "nobody", ..Ask::default() },
            ),
            (
                "R_PARTITION_UNKNOWN",
                "Failed to find partition `other`",
                Ask { key: "elsewhere", partition: "other", ..Ask::default() },
            ),
            (
                "R_PARTITION_UNKNOWN",
                "allocation `of-another-rm`: Failed to find partition",
                Ask { key: "of-another-rm", partition: "[rm-x]default", ..Ask::default() },
            ),
            ("R_NO_RESOURCE", "allocation contains no resources", with_size("nothing", &[])),
            ("R_NO_RESOURCE", "contains no resources", with_size("zero", &[("vcore", 0)])),
            (
                "R_NEGATIVE_RESOURCE",
                "allocation contains negative resources",
                with_size("negative", &[("vcore", 1), ("memory", -1)]),
            ),
            (
                "R_OVERFLOW",
                "resource overflow: `largest`: 9223372036854775807 of `vcore`",
                with_size("largest", &[("vcore", i64::MAX)]),
            ),
            (
                "R_NEGATIVE_RESOURCE",
                "negative resources",
                with_size("smallest", &[("vcore", i64::MIN)]),
            ),
            (
                "R_PLACEHOLDER_NO_TG",
                "placeholder without task group",
                Ask { key: "placeholder", more: "placeholder: true", ..Ask::default() },
            ),
        ];
        if rm.revision != "t" {
            for (key, n) in [("never", 0), ("less", -1), ("too-often", 10_001), ("least", i32::MIN)]
            {
                rows.push(("R_REPEAT", "invalid ask", Ask { key, n, ..Ask::default() }));
            }
        }
        for (n, (code, fragment, ask)) in rows.iter().enumerate() {
            let good = format!("good-{n}");
            let after = Ask { key: &good, size: vec![("vcore", 1)], ..Ask::default() };
            rm.allocation(&[rm.ask_text(ask), rm.ask_text(&after)].concat()).await;
            let reason = rm.rejected_ask(ask.key, code).await;
            assert!(reason.contains(fragment), "{reason}");
            rm.allocated(&good).await;
        }
        assert_eq!(rm.n_allocated(), rows.len());
        series_reaches(&service, &rm.series("rejected", "R_KEY"), 2).await;
        series_reaches(&service, &rm.series("rejected", "R_PARTITION_UNKNOWN"), 2).await;
    }
}

/// Pending asks whose sum overflows a quantity do not get another ask rejected.
#[tokio::test]
async fn sums_of_other_asks_reject_nothing() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let large = 1_i64 << 53;
        let text: String = (0..1_030)
            .map(|n| {
                let key = format!("k{n}");
                rm.ask_text(&Ask { key: &key, size: vec![("vcore", large)], ..Ask::default() })
            })
            .collect();
        rm.allocation(&text).await;
        rm.settled("small").await;
        rm.release_all().await;
        rm.settled("afterwards").await;
    }
}

#[tokio::test]
async fn empty_constraints_change_nothing() {
    let service = Service::start();
    let rm = Speaker::start(&service, "l").await;
    rm.allocation("releases {}").await;
    let near = r#"placementConstraint { simpleConstraint { allocationAffinityAttribute {
        scope: "hostname" tragetExpressions { targetKey: "a" targetValues: "b" } } } }"#;
    rm.ask(Ask { key: "wish", more: near, ..Ask::default() }).await;
    rm.allocated("wish").await;
    let must = near.replace("scope", "required: true scope");
    rm.ask(Ask { key: "must", more: &must, ..Ask::default() }).await;
    rm.allocated("must").await;
    let keyless = near.replace(r#"targetKey: "a""#, "");
    rm.ask(Ask { key: "keyless", more: &keyless, ..Ask::default() }).await;
    rm.rejected_ask("keyless", "R_CONSTRAINT").await;
    series_reaches(&service, &rm.series("rejected", "R_CONSTRAINT"), 1).await;
}

/// An ask is identified by its key within its application.
#[tokio::test]
async fn equal_keys_of_two_applications_are_two_requests() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.application("other", &rm.queue()).await;
        rm.accepted_application("other").await;
        rm.ask(Ask::default()).await;
        rm.allocated("k").await;
        rm.ask(Ask { application: "other", ..Ask::default() }).await;
        rm.client.wait("two", || (rm.n_allocated() == 2).then_some(())).await;
        let both = rm.allocated("k").await;
        assert_eq!(field(&both, "applicationID"), "other");
    }
}
