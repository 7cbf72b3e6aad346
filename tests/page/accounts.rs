//! Figures that a view shows only after certain events: ended applications, gang placeholders,
//! reservations, the outbox, and the minute histories. Each is compared with REST.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::browser::Tab;
use crate::harness::{PATIENCE, Seen, amount, application, ask, node, release};
use crate::numbers::{amounts, number, start, values};
use crate::scene::{P, Scene};

/// Returns the text of a named fact in a view, and its exact values.
async fn fact(tab: &Tab, name: &str) -> Value {
    let name = Value::from(name);
    let names = "[...document.querySelectorAll('.facts dt')]";
    let shown = "({text: it.innerText.trim(), values: [...it.querySelectorAll('data')].map(it => Number(it.value))})";
    tab.value(&format!(
        "(it => {shown})({names}.find(it => it.textContent === {name}).nextElementSibling)"
    ))
    .await
}

#[tokio::test]
async fn an_ended_application_has_the_lists_numbers() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    scene.end_one().await;
    let known = scene.get(&format!("{P}/applications/completed")).await[0].clone();
    tab.open(&format!("{address}/ui/applications?list=ended")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    let row = &tab.rows("main table").await[0];
    assert_eq!(row["id"]["text"], known["applicationID"]);
    assert_eq!(row["state"]["text"], known["applicationState"]);
    assert_eq!(row["queue"]["text"], known["queueName"]);
    assert_eq!(row["user"]["text"], known["user"]);
    assert_eq!(values(&row["uses"]), amounts(&known["maxUsedResource"]));
    assert!(values(&row["uses"]).as_array().is_some_and(|used| used.len() == 2), "{row}");
    // A browser rounds a number this large.
    let ended: f64 = tab
        .value("Number(document.querySelector('td[data-column=finished] time').dataset.nanos)")
        .await;
    #[expect(clippy::cast_precision_loss, reason = "as the browser does")]
    let finished = number(&known["finishedTime"]) as f64;
    assert!((ended - finished).abs() < 1_000.0, "{ended}: {known}");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

/// A gang of two places: a member takes one, and the resource manager stops the other.
async fn play_gang(scene: &Scene) {
    let rm = &scene.rm;
    let each = amount(&[("vcore", 500)]);
    let gang = si::AddApplicationRequest {
        placeholder_ask: Some(amount(&[("vcore", 1_000)])),
        ..application("gang", "root.b.c")
    };
    let member = |key: &str, placeholder: bool| si::Allocation {
        placeholder,
        task_group_name: "members".to_owned(),
        resource_per_alloc: Some(each.clone()),
        ..ask("gang", key)
    };
    rm.send_applications(vec![gang], vec![]).await;
    let accepted = |seen: &Seen| seen.accepted_applications.iter().any(|id| id == "gang");
    rm.until("accepted", accepted).await;
    rm.send_allocations(vec![], vec![member("g1", true), member("g2", true)], vec![]).await;
    let has = |seen: &Seen| seen.new.iter().filter(|it| it.application_id == "gang").count();
    rm.until("both places", |seen| has(seen) == 2).await;
    rm.send_allocations(vec![], vec![member("m1", false)], vec![]).await;
    rm.until("one is to go", |seen| seen.released.len() == 1).await;
    let taken = rm.read(|seen| seen.released[0].allocation_key.clone());
    let replaced = si::AllocationRelease {
        termination_type: si::TerminationType::PlaceholderReplaced.into(),
        ..release("gang", &taken)
    };
    rm.send_allocations(vec![], vec![], vec![replaced]).await;
    rm.until("the member", |seen| has(seen) == 3).await;
    let left = if taken == "g1" { "g2" } else { "g1" };
    rm.send_allocations(vec![], vec![], vec![release("gang", left)]).await;
    scene.until_some(&format!("{P}/application/gang"), "/placeholderData/0/timedout").await;
}

#[tokio::test]
async fn gang_placeholders_match_their_document() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    play_gang(&scene).await;
    let known = scene.get(&format!("{P}/application/gang")).await["placeholderData"][0].clone();
    assert_eq!((number(&known["replaced"]), number(&known["timedout"])), (1, 1), "{known}");
    tab.open(&format!("{address}/ui/application?id=gang")).await;
    tab.until("document.querySelectorAll('#gang tbody tr').length === 1").await;
    let group = &tab.rows("#gang table").await[0];
    for (column, field) in
        [("placeholders", "count"), ("replaced", "replaced"), ("timedout", "timedout")]
    {
        assert_eq!(values(&group[column]), json!([number(&known[field])]), "{column}");
    }
    assert_eq!((values(&group["held"]), values(&group["run"])), (json!([0]), json!([1])));
    assert_eq!(values(&group["each"]), amounts(&known["minResource"]));
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn headroom_and_reservations_match_their_documents() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    // A request with a higher priority than the pending one, and one that only fits n1.
    let urgent = si::Allocation {
        priority: 9,
        resource_per_alloc: Some(amount(&[("vcore", 1_500)])),
        ..ask("runs", "k3")
    };
    let required = ("yunikorn.apache.org/requiredNode".to_owned(), "n1".to_owned());
    let bound = si::Allocation {
        allocation_tags: [required].into(),
        resource_per_alloc: Some(amount(&[("vcore", 2_400)])),
        ..ask("keeps", "k4")
    };
    scene.rm.send_allocations(vec![], vec![urgent, bound], vec![]).await;
    scene.until_some(&format!("{P}/node/n1"), "/reservations/0").await;
    for (path, priority) in [("root.a", Some(9)), ("root.b.c", Some(0)), ("root.b", Some(0))] {
        let queue = scene.get(&format!("{P}/queue/{path}")).await;
        assert_eq!(queue["currentPriority"].as_i64(), priority, "{path}");
        tab.open(&format!("{address}/ui/queue?path={path}")).await;
        tab.until("document.querySelector('#rules dd') !== null").await;
        let room = fact(&tab, "Has still room for").await;
        assert_eq!(values(&room), amounts(&queue["headroom"]), "{path}");
        assert!(!room["values"].as_array().unwrap().is_empty(), "{queue}");
        let shown = fact(&tab, "Priority now").await;
        assert_eq!(shown["text"], queue["currentPriority"].to_string(), "{path}");
    }
    let known = scene.get(&format!("{P}/node/n1")).await;
    tab.open(&format!("{address}/ui/node?id=n1")).await;
    tab.until("document.querySelector('#summary dd') !== null").await;
    let others = fact(&tab, "Used by others").await;
    assert_eq!(values(&others), amounts(&known["occupied"]));
    assert_eq!(others["values"], json!([200]), "two of them");
    assert_eq!(fact(&tab, "Kept for").await["text"], known["reservations"][0]);
    assert_eq!(values(&fact(&tab, "Free").await), amounts(&known["available"]));
    tab.open(&format!("{address}/ui/node?id=n2")).await;
    tab.until("document.querySelector('#summary dd') !== null").await;
    assert_eq!(fact(&tab, "Kept for").await["text"], "nobody");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn an_idle_queue_shows_no_priority() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    let queue = scene.get(&format!("{P}/queue/root.b.c")).await;
    assert_eq!(queue["currentPriority"], json!(i32::MIN));
    tab.open(&format!("{address}/ui/queue?path=root.b.c")).await;
    tab.until("document.querySelector('#rules dd') !== null").await;
    assert_eq!(fact(&tab, "Priority now").await["text"], "nothing waits");
    chromium.end().await;
}

#[tokio::test]
async fn the_outbox_matches_the_session() {
    let Some((mut scene, chromium, tab, address)) = start().await else { return };
    let session = async |scene: &Scene| scene.get("/ws/v1/sessions").await["sessions"][0].clone();
    tab.open(&format!("{address}/ui/sessions")).await;
    tab.until("document.querySelectorAll('#sessions tbody tr').length === 1").await;
    assert_eq!(values(&tab.rows("#sessions table").await[0]["outbox"]), json!([0]));
    // Without its allocation stream the resource manager cannot be notified of the allocations of a
    // removed node.
    scene.rm.allocations = mpsc::channel(1).0;
    let closed =
        async { while session(&scene).await["openStreams"] != json!(["application", "node"]) {} };
    timeout(PATIENCE, closed).await.expect("the stream is closed");
    let gone = si::NodeInfo {
        action: si::node_info::ActionFromRm::Decomission.into(),
        ..node("n1", 4_000, 16)
    };
    scene.rm.send_nodes(vec![gone]).await;
    let alike = async {
        loop {
            let known = number(&session(&scene).await["outboxItems"]);
            let shown = values(&tab.rows("#sessions table").await[0]["outbox"]);
            if known > 0 && shown == json!([known]) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, alike).await.expect("the view has what waits");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

/// A minute is recorded when it has passed. To avoid the wait, the test gives the documents to the
/// page, in the service's format.
#[tokio::test]
async fn charts_have_the_minutes_of_the_histories() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    let at = |minute: i64| 1_795_276_757_235_843_735 + minute * 60_000_000_000;
    let histories = json!({
        "/ws/v1/history/apps": [
            {"timestamp": at(0), "totalApplications": "10"},
            {"timestamp": at(1), "totalApplications": "-1"},
            {"timestamp": at(2), "totalApplications": "12"},
        ],
        // The last minute could not be read.
        "/ws/v1/history/containers": [
            {"timestamp": at(0), "totalContainers": "311"},
            {"timestamp": at(1)},
        ],
    });
    tab.before_all(&format!(
        "const fetches = window.fetch;
         const histories = {histories};
         window.fetch = (path, options) => path in histories
           ? Promise.resolve(new Response(JSON.stringify(histories[path])))
           : fetches(path, options);"
    ))
    .await;
    tab.open(&address).await;
    tab.until("document.querySelectorAll('#history .chart').length === 2").await;
    tab.until("document.querySelector('#history b').innerText !== '–'").await;
    let shown: Value = tab
        .value("[...document.querySelectorAll('#history figure')].map(it => [it.dataset.minutes, it.dataset.last, it.querySelector('b').innerText])")
        .await;
    // The figure is the present one, and the minutes end with the last full one.
    let partition = scene.get("/ws/v1/partitions").await[0].clone();
    let running = number(&partition["applications"]["Running"]).to_string();
    let containers = number(&partition["totalContainers"]).to_string();
    assert_eq!(shown, json!([["3", "12", running], ["2", "-1", containers]]));
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
