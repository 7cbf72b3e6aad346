//! Releases of existing and unknown objects, and of unknown types.

use super::speaker::{Ask, Speaker};
use crate::harness::Service;
use crate::revisions::client::{field, series_reaches};

#[tokio::test]
async fn release_of_unknown_object_is_counted() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.release("app", "nothing", "").await;
        rm.release("nobody", "nothing", "").await;
        rm.release("app", "nothing", r#"partitionName: "nowhere""#).await;
        let mut n = 3;
        if !rm.is_legacy() {
            // Type 5 is SCHEDULING_FAILED_ON_RM, which the legacy dialect lacks.
            rm.release("app", "nothing", "terminationType: 5").await;
            n += 1;
        }
        rm.settled("k").await;
        assert_eq!(rm.n_released(), 0);
        series_reaches(&service, &rm.series("ignored", "G_RELEASE_UNKNOWN"), n).await;
    }
}

/// The RM reports a failed bind of a request that is still pending.
#[tokio::test]
async fn failed_bind_of_a_pending_request_changes_nothing() {
    let service = Service::start();
    let rm = Speaker::start(&service, "t").await;
    rm.ask(Ask { key: "big", size: vec![("vcore", 9_000)], ..Ask::default() }).await;
    rm.release("app", "big", "terminationType: 5").await;
    series_reaches(&service, &rm.series("ignored", "G_RELEASE_UNKNOWN"), 1).await;
    let larger = crate::revisions::client::vcore("schedulableResource", 9_000);
    rm.nodes(&rm.changed_node("n1", "UPDATE", &larger)).await;
    rm.allocated("big").await;
    // An allocation becomes a request again, which the same node can take.
    rm.release("app", "big", "terminationType: 5").await;
    rm.client.wait("again", || (rm.n_allocated() == 2).then_some(())).await;
    assert_eq!(rm.n_released(), 0);
}

#[tokio::test]
async fn release_drops_a_pending_request() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.ask(Ask { key: "big", size: vec![("vcore", 9_000)], ..Ask::default() }).await;
        if rm.revision == "t" {
            rm.release("app", "big", "").await;
        } else {
            let one = r#"{ applicationID: "app" KEY: "big" }"#;
            let key = if rm.is_legacy() { "allocationkey" } else { "allocationKey" };
            let one = one.replace("KEY", key);
            rm.allocation(&format!("releases {{ allocationAsksToRelease {one} }}")).await;
        }
        rm.settled("k").await;
        let larger = crate::revisions::client::vcore("schedulableResource", 20_000);
        rm.nodes(&rm.changed_node("n1", "UPDATE", &larger)).await;
        rm.accepts_nodes("barrier").await;
        rm.settled("next").await;
        assert_eq!((rm.n_allocated(), rm.n_released()), (2, 0), "{}", rm.revision);
    }
}

/// These types confirm a release by the scheduler. Here the scheduler had released nothing.
#[tokio::test]
async fn unrequested_confirmation_removes_the_allocation() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        for termination in ["TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"] {
            // The allocation uses the whole node: the next placement shows that it was removed.
            let whole = Ask { key: termination, size: vec![("vcore", 8_000)], ..Ask::default() };
            rm.ask(whole).await;
            rm.allocated(termination).await;
            rm.release("app", termination, &format!("terminationType: {termination}")).await;
        }
        rm.settled("k").await;
        assert_eq!(rm.n_released(), 0);
    }
}

#[tokio::test]
async fn unknown_type_means_stopped_unless_strict() {
    for (strict, n_released) in [("false", 1), ("true", 0)] {
        let service = Service::start_with(&[("SESSION__STRICT_ENUMS", strict)]);
        for rm in Speaker::all(&service).await {
            rm.settled("k").await;
            rm.release("app", "k", "terminationType: 77").await;
            rm.settled("next").await;
            assert_eq!(rm.n_released(), n_released, "{}", rm.revision);
            if n_released > 0 {
                let released = rm.released("k").await;
                let stopped = if rm.is_legacy() { "0" } else { "1" };
                assert_eq!(field(&released, "terminationType"), stopped);
            }
            series_reaches(&service, &rm.series("ignored", "G_TERMINATION_TYPE"), 1).await;
        }
    }
}

/// An unknown type has the same effect in releases of pending requests and of foreign allocations.
#[tokio::test]
async fn unknown_type_is_equal_in_every_release() {
    for strict in [false, true] {
        let service = Service::start_with(&[("SESSION__STRICT_ENUMS", &strict.to_string())]);
        let rm = Speaker::start(&service, "m").await;
        rm.ask(Ask { key: "big", size: vec![("vcore", 9_000)], ..Ask::default() }).await;
        let withdrawn = r#"{ applicationID: "app" allocationKey: "big" terminationType: 77 }"#;
        rm.allocation(&format!("releases {{ allocationAsksToRelease {withdrawn} }}")).await;
        rm.settled("k").await;
        let larger = crate::revisions::client::vcore("schedulableResource", 20_000);
        rm.nodes(&rm.changed_node("n1", "UPDATE", &larger)).await;
        if strict {
            rm.allocated("big").await;
        }
        rm.settled("next").await;
        assert_eq!(rm.n_allocated(), if strict { 3 } else { 2 });
        series_reaches(&service, &rm.series("ignored", "G_TERMINATION_TYPE"), 1).await;

        let rm = Speaker::start(&service, "t").await;
        let size = crate::revisions::client::vcore("resourcePerAlloc", 8_000);
        let foreign = format!(
            r#"allocations {{ allocationKey: "f" nodeID: "n1" {size}
                allocationTags {{ key: "foreign" value: "default" }} }}"#
        );
        rm.allocation(&foreign).await;
        rm.release("", "f", "terminationType: 77").await;
        rm.ask(Ask::default()).await;
        if strict {
            series_reaches(&service, &rm.series("ignored", "G_TERMINATION_TYPE"), 1).await;
            assert_eq!(rm.n_allocated(), 0, "what belongs to others is still there");
            rm.release("", "f", "").await;
        }
        rm.allocated("k").await;
        series_reaches(&service, &rm.series("ignored", "G_TERMINATION_TYPE"), 1).await;
    }
}

/// A release that names nothing at all is treated like one without an application.
#[tokio::test]
async fn release_without_application_is_foreign() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.settled("k").await;
        rm.release("", "k", "").await;
        rm.allocation("releases { allocationsToRelease {} }").await;
        rm.settled("next").await;
        assert_eq!(rm.n_released(), 0);
        // The oldest revision has no foreign allocations.
        let n = if rm.is_legacy() { 2 } else { 1 };
        series_reaches(&service, &rm.series("ignored", "G_RELEASE_OF_NOTHING"), n).await;
    }
}

/// A release with neither UUID nor key concerns all allocations of the application.
#[tokio::test]
async fn application_release_covers_all_allocations() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        for key in ["k1", "k2", "k3"] {
            rm.ask(Ask { key, ..Ask::default() }).await;
            rm.allocated(key).await;
        }
        rm.allocation(r#"releases { allocationsToRelease { applicationID: "app" } }"#).await;
        for key in ["k1", "k2", "k3"] {
            rm.released(key).await;
        }
    }
}

/// The allocation was reported before its application, which may arrive on another stream: it runs,
/// and ends.
#[tokio::test]
async fn release_of_an_orphan_allocation_is_answered() {
    let service = Service::start_with(&[("SESSION__REORDER_WINDOW", "60")]);
    for revision in ["m", "n", "t"] {
        let rm = Speaker::start(&service, revision).await;
        let fields = format!(
            r#"allocationKey: "k" applicationID: "late" nodeID: "n2" {} {}"#,
            if rm.is_todays() { "" } else { r#"UUID: "k""# },
            crate::revisions::client::vcore("resourcePerAlloc", 1_000)
        );
        if rm.is_todays() {
            rm.allocation(&format!("allocations {{ {fields} }}")).await;
        } else {
            rm.node("n2", &format!("existingAllocations {{ {fields} }}")).await;
            rm.accepts_nodes("barrier").await;
        }
        rm.release("late", "k", "").await;
        let released = rm.released("k").await;
        assert_eq!(field(&released, "applicationID"), "late", "{revision}");
        assert_eq!(field(&released, "terminationType"), "1", "{revision}");
        if !rm.is_todays() {
            rm.accepted_node("n2").await;
        }
        rm.settled("next").await;
        assert_eq!((rm.n_allocated(), rm.n_released()), (1, 1), "{revision}");
    }
}
