//! Gangs of placeholders in the form of every published revision: places, members that replace
//! them, timeouts, and the recovery after a restart of the resource manager.

use std::time::Duration;

use crate::harness::Service;
use crate::revisions::client::{application, field, vcore};
use crate::validation::speaker::{Ask, Speaker};

const REVISIONS: [&str; 4] = ["l", "m", "n", "t"];

/// A placeholder of the task group, in fields of every revision.
const PLACE: &str = r#"placeholder: true taskGroupName: "workers""#;
/// A member of the task group.
const MEMBER: &str = r#"taskGroupName: "workers""#;

fn of_gang<'a>(key: &'a str, more: &'a str) -> Ask<'a> {
    Ask { key, application: "gang", more, ..Ask::default() }
}

/// An application whose placeholders need this many thousandths of a core together.
async fn gang(rm: &Speaker, amount: i64, more: &str) {
    let announced = vcore("placeholderAsk", amount);
    rm.application("gang", &format!("{} {announced} {more}", rm.queue())).await;
    rm.accepted_application("gang").await;
}

/// The number of a termination type in the revision.
fn number(rm: &Speaker, name: &str) -> String {
    let all = ["STOPPED_BY_RM", "TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"];
    let at = all.iter().position(|known| *known == name).unwrap();
    (if rm.is_legacy() { at } else { at + 1 }).to_string()
}

/// Waits until the application is reported in the state. Returns the message.
async fn enters(rm: &Speaker, state: &str) -> String {
    let (method, list) = if rm.is_legacy() {
        ("Update", "updatedApplications")
    } else {
        ("UpdateApplication", "updated")
    };
    let found = || {
        let items = rm.client.items(method, list);
        let is_it =
            |item: &&_| field(item, "applicationID") == "gang" && field(item, "state") == state;
        items.iter().rev().find(is_it).map(|item| field(item, "message"))
    };
    rm.client.wait(&format!("gang is {state}"), found).await
}

/// The keys of the released asks in order, once there are `n`.
async fn given_up(rm: &Speaker, n: usize) -> Vec<String> {
    let (method, list, key) = match rm.revision {
        "l" => ("Update", "releasedAllocationAsks", "allocationkey"),
        "t" => ("UpdateAllocation", "released", "allocationKey"),
        _ => ("UpdateAllocation", "releasedAsks", "allocationKey"),
    };
    let found = || {
        let items = rm.client.items(method, list);
        let items = items.iter().filter(|item| !rm.is_todays() || field(item, key) != "p1");
        let keys: Vec<String> = items.map(|item| field(item, key)).collect();
        (keys.len() >= n).then_some(keys)
    };
    rm.client.wait("asks that are given up", found).await
}

#[tokio::test]
async fn members_replace_placeholders() {
    for revision in REVISIONS {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, 2_000, "").await;
        for key in ["p1", "p2"] {
            rm.ask(of_gang(key, PLACE)).await;
            let place = rm.allocated(key).await;
            assert_eq!(field(&place, "placeholder"), "true");
            assert_eq!(field(&place, "taskGroupName"), "workers");
        }
        enters(&rm, "Running").await;
        rm.ask(of_gang("r1", MEMBER)).await;
        let released = rm.released("p1").await;
        assert_eq!(field(&released, "terminationType"), number(&rm, "PLACEHOLDER_REPLACED"));
        assert!(field(&released, "message").ends_with("`r1`"), "{released:?}");
        assert_eq!(rm.n_allocated(), 2, "{revision}: the place has still to be empty");
        for _ in 0..2 {
            // The second confirmation changes nothing.
            rm.release("gang", "p1", "terminationType: PLACEHOLDER_REPLACED").await;
        }
        let member = rm.allocated("r1").await;
        assert_eq!(field(&member, "placeholder"), "false");
        assert_eq!(field(&member, "taskGroupName"), "workers");
        rm.settled("k").await;
        assert_eq!(rm.n_released(), 1, "{revision}: that it is gone is known");
        let shown = application(&service, &rm.client.rm_id, rm.leaf(), "gang").await;
        let group = &shown["placeholderData"][0];
        assert_eq!((&group["count"], &group["replaced"]), (&2.into(), &1.into()), "{shown}");
    }
}

/// The answers come on two streams or one: first the releases of running pods, then of pending
/// asks.
#[tokio::test]
async fn timed_out_gang_reports_its_releases() {
    for revision in REVISIONS {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, 9_000, "executionTimeoutMilliSeconds: 200").await;
        // No node is large enough for any place, nor for a member of another group.
        let large = |key, more| Ask { size: vec![("vcore", 9_000)], ..of_gang(key, more) };
        rm.allocation(
            &[
                rm.ask_text(&of_gang("p1", PLACE)),
                rm.ask_text(&large("p2", PLACE)),
                rm.ask_text(&large("r1", r#"taskGroupName: "others""#)),
            ]
            .concat(),
        )
        .await;
        rm.allocated("p1").await;
        assert_eq!(enters(&rm, "Resuming").await, "ResourceReservationTimeout");
        let released = rm.released("p1").await;
        assert_eq!(field(&released, "terminationType"), number(&rm, "TIMEOUT"));
        assert_eq!(given_up(&rm, 2).await, ["p2", "r1"], "{revision}");
        if rm.is_todays() {
            let order: Vec<_> = rm.client.items("UpdateAllocation", "released");
            assert_eq!(field(&order[0], "allocationKey"), "p1", "what runs comes first");
        }
        for key in ["p1", "p2", "r1"] {
            // Released asks need no confirmation, but it is accepted.
            rm.release("gang", key, "terminationType: TIMEOUT").await;
        }
        let confirmed = || {
            let (method, list) = if rm.is_legacy() {
                ("Update", "updatedApplications")
            } else {
                ("UpdateApplication", "updated")
            };
            let items = rm.client.items(method, list);
            let of_gang = items.iter().filter(|item| field(item, "applicationID") == "gang");
            let states: Vec<String> = of_gang.map(|item| field(item, "state")).collect();
            (states.len() >= 3).then_some(states)
        };
        let states = rm.client.wait("all is confirmed", confirmed).await;
        assert_eq!(states, ["Accepted", "Resuming", "Accepted"], "{revision}");
        // From now on the application is like any other.
        rm.ask(of_gang("r2", MEMBER)).await;
        assert_eq!(field(&rm.allocated("r2").await, "placeholder"), "false");
    }
}

/// The oldest revision has no field for the style: there a gang continues without its placeholders.
#[tokio::test]
async fn timed_out_hard_gang_fails() {
    for revision in ["m", "n", "t"] {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        let hard = r#"gangSchedulingStyle: "Hard" executionTimeoutMilliSeconds: 200"#;
        gang(&rm, 9_000, hard).await;
        rm.ask(of_gang("p1", PLACE)).await;
        rm.released("p1").await;
        assert_eq!(enters(&rm, "Failing").await, "ResourceReservationTimeout");
        rm.ask(of_gang("late", "")).await;
        let list = if rm.is_todays() { "rejectedAllocations" } else { "rejected" };
        let rejected = rm.client.last("UpdateAllocation", list, 1).await;
        assert!(field(&rejected, "reason").ends_with("[R_APP_STATE]"), "{rejected:?}");
        rm.release("gang", "p1", "terminationType: TIMEOUT").await;
        enters(&rm, "Failed").await;
        rm.settled("k").await;
    }
}

/// A new node brings a placeholder and a member. They are never announced.
#[tokio::test]
async fn node_recovers_a_gang() {
    for revision in ["l", "m", "n"] {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, 2_000, "").await;
        let runs = |key: &str, more: &str| {
            format!(
                r#"existingAllocations {{ allocationKey: "{key}" UUID: "{key}" nodeID: "n2"
                    applicationID: "gang" {} {more} }}"#,
                vcore("resourcePerAlloc", 1_000)
            )
        };
        let capacity = vcore("schedulableResource", 2_000);
        let node = [capacity, runs("p2", PLACE), runs("r1", MEMBER)].concat();
        rm.node("n2", &node).await;
        rm.accepted_node("n2").await;
        enters(&rm, "Running").await;
        assert_eq!(rm.n_allocated(), 0, "{revision}");
        takes_the_place_that_came_back(&service, &rm).await;
    }
}

/// Present clients report allocations after the node, in any order, and receive each once.
#[tokio::test]
async fn allocations_recover_a_gang() {
    for revision in ["n", "t"] {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, 2_000, "").await;
        let uuid =
            |key: &str| if revision == "n" { format!(r#"UUID: "{key}""#) } else { String::new() };
        let runs = |key: &str, more: &str| {
            format!(
                r#"allocations {{ allocationKey: "{key}" {} nodeID: "n1" applicationID: "gang"
                    {} {more} }}"#,
                uuid(key),
                vcore("resourcePerAlloc", 1_000)
            )
        };
        rm.allocation(&[runs("r1", MEMBER), runs("p2", PLACE)].concat()).await;
        enters(&rm, "Running").await;
        if rm.is_todays() {
            assert_eq!(field(&rm.allocated("p2").await, "placeholder"), "true");
            assert_eq!(field(&rm.allocated("r1").await, "placeholder"), "false");
        }
        takes_the_place_that_came_back(&service, &rm).await;
    }
}

/// One of two members and one placeholder run: the other member replaces it.
async fn takes_the_place_that_came_back(service: &Service, rm: &Speaker) {
    rm.ask(of_gang("r2", MEMBER)).await;
    let released = rm.released("p2").await;
    assert_eq!(field(&released, "terminationType"), number(rm, "PLACEHOLDER_REPLACED"));
    rm.release("gang", "p2", "terminationType: PLACEHOLDER_REPLACED").await;
    assert_eq!(field(&rm.allocated("r2").await, "placeholder"), "false");
    let shown = application(service, &rm.client.rm_id, rm.leaf(), "gang").await;
    let keys: Vec<_> = shown["allocations"].as_array().unwrap().iter().collect();
    assert_eq!(keys.len(), 2, "{shown}");
    assert_eq!(shown["applicationState"], "Running");
}

/// A stream opened in time continues with all messages: the release sent before, and its
/// confirmation.
#[tokio::test]
async fn replacement_continues_after_stream_loss() {
    let service = Service::start();
    let mut rm = Speaker::start(&service, "t").await;
    gang(&rm, 1_000, "").await;
    rm.ask(of_gang("p1", PLACE)).await;
    rm.allocated("p1").await;
    rm.ask(of_gang("r1", MEMBER)).await;
    rm.released("p1").await;
    rm.client.close("UpdateAllocation");
    tokio::time::sleep(Duration::from_millis(50)).await;
    rm.client.open("UpdateAllocation").await;
    rm.release("gang", "p1", "terminationType: PLACEHOLDER_REPLACED").await;
    assert_eq!(field(&rm.allocated("r1").await, "nodeID"), "n1");
}
