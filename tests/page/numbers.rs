//! Every number in a view equals that of REST.

use serde_json::{Value, json};

use crate::browser::{Chromium, Tab};
use crate::scene::{P, Scene};

/// The scene, at rest, and a tab.
pub(crate) async fn start() -> Option<(Scene, Chromium, Tab, String)> {
    let chromium = Chromium::start().await?;
    let scene = Scene::start().await;
    let tab = chromium.tab().await;
    let address = format!("http://{}", scene.service.http);
    Some((scene, chromium, tab, address))
}

/// Returns a number that is omitted if zero.
pub(crate) fn number(of: &Value) -> i64 {
    of.as_i64().unwrap_or(0)
}

/// Formats amounts like a cell: cores, then memory, without zeros.
pub(crate) fn amounts(of: &Value) -> Value {
    let amounts = ["vcore", "memory"].map(|name| number(&of[name]));
    amounts.into_iter().filter(|amount| *amount != 0).collect::<Vec<_>>().into()
}

/// Returns a sentence of the service as the page shows it: names in backticks are code there.
pub(crate) fn plain(sentence: &Value) -> String {
    sentence.as_str().unwrap().replace('`', "")
}

/// Returns a cell's values, with whole numbers as floating point.
pub(crate) fn values(cell: &Value) -> Value {
    let values = cell["values"].as_array().unwrap().iter().map(number);
    values.collect::<Vec<_>>().into()
}

fn keys(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["key"].as_str().unwrap()).collect()
}

/// Returns a queue and its subtree.
fn all(queue: &Value) -> Vec<&Value> {
    let below = queue["children"].as_array().into_iter().flatten();
    [queue].into_iter().chain(below.flat_map(all)).collect()
}

#[tokio::test]
async fn the_overview_matches_its_documents() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    let partition = scene.get("/ws/v1/partitions").await[0].clone();
    tab.open(&address).await;
    tab.until("document.querySelectorAll('#queues tbody tr').length > 0").await;
    let total = async |id: &str| -> i64 {
        tab.until(&format!("document.querySelector('#n-{id} data') !== null")).await;
        tab.value(&format!("Number(document.querySelector('#n-{id} data').value)")).await
    };
    tab.until("document.querySelector('#n-nodes data').value !== '0'").await;
    let states = &partition["applications"];
    assert_eq!(total("nodes").await, number(&partition["totalNodes"]));
    assert_eq!(total("running").await, number(&states["Running"]));
    assert_eq!(total("accepted").await, number(&states["New"]) + number(&states["Accepted"]));
    assert_eq!(total("containers").await, number(&partition["totalContainers"]));
    let loads: Value = tab
        .value("[...document.querySelectorAll('#loads .level')].map(it => [it.dataset.resource, Number(it.dataset.used), Number(it.dataset.limit)])")
        .await;
    let capacity = &partition["capacity"];
    let load = |name: &str| {
        json!([
            name,
            capacity["usedCapacity"][name].as_i64().unwrap_or(0),
            capacity["capacity"][name]
        ])
    };
    assert_eq!(loads, json!([load("vcore"), load("memory")]));
    // Queues.
    let tree = scene.get(&format!("{P}/queues")).await;
    let rows = tab.rows("#queues table").await;
    let queues = all(&tree);
    assert_eq!(
        keys(&rows),
        queues.iter().map(|it| it["queuename"].as_str().unwrap()).collect::<Vec<_>>()
    );
    for (row, queue) in rows.iter().zip(queues) {
        assert_eq!(number(&row["running"]["values"][0]), number(&queue["runningApps"]), "{row}");
        for name in ["vcore", "memory"] {
            let bar = &row[name]["bar"];
            assert_eq!(number(&bar["used"]), number(&queue["allocatedResource"][name]), "{row}");
            assert_eq!(number(&bar["wait"]), number(&queue["pendingResource"][name]), "{row}");
            assert_eq!(
                number(&bar["promise"]),
                number(&queue["guaranteedResource"][name]),
                "{row}"
            );
        }
    }
    let limit = |row: usize| number(&rows[row]["vcore"]["bar"]["limit"]);
    assert_eq!([limit(0), limit(1), limit(2)], [4_000, 2_000, 4_000], "those above count");
    // Nodes, pending requests, health.
    tab.until("document.querySelector('canvas.heat')?.getAttribute('aria-label').startsWith('2 nodes: 0 at 90 % or more, 1 idle, 1 closed')").await;
    let why = scene.get(&format!("{P}/application/runs/explain")).await[0]["message"].clone();
    tab.until_text("#waiting tbody", &plain(&why)).await;
    assert_eq!(keys(&tab.rows("#waiting table").await), ["runs"]);
    tab.until_text("#health", "All 9 checks").await;
    tab.until_text("#history", "The first minute is noted a minute after the start").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn applications_match_their_documents() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    tab.open(&format!("{address}/ui/applications")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    let rows = tab.rows("main table").await;
    let live = scene.get(&format!("{P}/applications/active")).await;
    for (row, application) in rows.iter().zip(live.as_array().unwrap()) {
        let id = application["applicationID"].as_str().unwrap();
        assert_eq!(row["key"].as_str().unwrap().trim(), id);
        assert_eq!(row["state"]["text"], application["applicationState"]);
        assert_eq!(row["queue"]["text"], application["queueName"]);
        assert_eq!(row["user"]["text"], application["user"]);
        let count = |list: &str| application[list].as_array().map_or(0, Vec::len);
        assert_eq!(values(&row["allocations"]), json!([count("allocations")]), "{id}");
        assert_eq!(values(&row["waiting"]), json!([count("requests")]), "{id}");
        assert_eq!(values(&row["uses"]), amounts(&application["usedResource"]), "{id}");
    }
    assert!(rows[0]["id"]["text"].as_str().unwrap().contains("gang"), "{}", rows[0]);
    tab.open(&format!("{address}/ui/applications?list=rejected")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    let rejected = &tab.rows("main table").await[0];
    let known = scene.get(&format!("{P}/applications/rejected")).await[0].clone();
    // Without the name of the application and the codes.
    let [why, cure] = ["rejectedMessage", "rejectedCure"].map(|field| plain(&known[field]));
    let why = why.strip_prefix("application bad: ").unwrap_or(&why);
    let (why, _) = why.split_once(" [R_").unwrap();
    assert_eq!(rejected["why"]["text"], format!("{why} What would help: {cure}"));
    // A single application, with its pending requests and their reasons.
    tab.open(&format!("{address}/ui/application?id=runs")).await;
    tab.until("document.querySelectorAll('#allocations tbody tr').length === 1").await;
    tab.until("document.querySelector('article.why') !== null").await;
    let it = scene.get(&format!("{P}/application/runs")).await;
    let allocation = &tab.rows("#allocations table").await[0];
    assert_eq!(allocation["node"]["text"], "n1");
    assert!(allocation["key"]["text"].as_str().unwrap().starts_with("lab/pod-1"), "{allocation}");
    assert_eq!(allocation["priority"]["text"], "3");
    assert_eq!(values(&allocation["resource"]), amounts(&it["allocations"][0]["resource"]));
    let request = &tab.rows("#requests table").await[0];
    assert_eq!(values(&request["resource"]), amounts(&it["requests"][0]["resource"]));
    let log = plain(&it["requests"][0]["allocationLog"][0]["message"]);
    assert!(request["log"]["text"].as_str().unwrap().contains(&log), "{request}");
    let why = scene.get(&format!("{P}/application/runs/explain")).await[0].clone();
    let shown = tab.text("article.why").await;
    for field in ["message", "cure"] {
        assert!(shown.contains(&plain(&why[field])), "{field}: {shown}");
    }
    let cause: String = tab.value("document.querySelector('article.why .tag').title").await;
    assert_eq!(cause, why["cause"]);
    let states = tab.text("ol.states").await;
    for entry in it["stateLog"].as_array().unwrap() {
        assert!(states.contains(entry["applicationState"].as_str().unwrap()), "{states}");
    }
    // A gang.
    tab.open(&format!("{address}/ui/application?id=keeps")).await;
    tab.until("document.querySelectorAll('#gang tbody tr').length === 1").await;
    let group = &tab.rows("#gang table").await[0];
    let known = scene.get(&format!("{P}/application/keeps")).await["placeholderData"][0].clone();
    assert_eq!(group["group"]["text"], known["taskGroupName"]);
    assert_eq!(values(&group["placeholders"]), json!([number(&known["count"])]));
    assert_eq!((values(&group["held"]), values(&group["run"])), (json!([1]), json!([0])));
    // A rejected application, and an unknown one.
    tab.open(&format!("{address}/ui/application?id=bad")).await;
    tab.until_text("#summary", known_message(&rejected["why"])).await;
    tab.open(&format!("{address}/ui/application?id=nobody")).await;
    tab.until_text("main", "No application is called nobody").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

fn known_message(cell: &Value) -> &str {
    cell["text"].as_str().unwrap()
}

#[tokio::test]
async fn nodes_queues_and_users_match_their_documents() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    tab.open(&format!("{address}/ui/nodes")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    let nodes = scene.get(&format!("{P}/nodes")).await;
    for (row, node) in tab.rows("main table").await.iter().zip(nodes.as_array().unwrap()) {
        assert_eq!(row["key"], node["nodeID"]);
        let allocations = node["allocations"].as_array().map_or(0, Vec::len);
        assert_eq!(values(&row["allocations"]), json!([allocations]), "{row}");
        assert_eq!(values(&row["free"]), amounts(&node["available"]), "{row}");
        for name in ["vcore", "memory"] {
            assert_eq!(values(&row[name]), json!([number(&node["utilized"][name])]), "{row}");
        }
        assert_eq!(row["status"]["text"] == "Open", node["schedulable"] == true);
    }
    tab.open(&format!("{address}/ui/node?id=n1&sort=application")).await;
    tab.until("document.querySelectorAll('#foreign tbody tr').length === 2").await;
    let node = &nodes[0];
    let shown = tab.rows("#allocations table").await;
    let mut known: Vec<_> = node["allocations"].as_array().unwrap().iter().collect();
    known.sort_by_key(|it| format!("{} {}", it["applicationId"], it["allocationKey"]));
    assert_eq!(shown.len(), known.len());
    for (row, allocation) in shown.iter().zip(known) {
        assert_eq!(row["application"]["text"], allocation["applicationId"]);
        assert_eq!(values(&row["resource"]), amounts(&allocation["resource"]));
    }
    let summary = tab.text("#summary").await;
    for part in ["host-1", "/rack-1", "zone"] {
        assert!(summary.contains(part), "{summary}");
    }
    let used: i64 = tab
        .value(
            "Number(document.querySelector('#summary .level[data-resource=vcore]').dataset.used)",
        )
        .await;
    let taken = number(&node["allocated"]["vcore"]) + number(&node["occupied"]["vcore"]);
    assert_eq!(used, taken, "what is of others is taken, too");
    tab.open(&format!("{address}/ui/node?id=gone")).await;
    tab.until_text("main", "No node is called gone").await;
    // Queues, and their users.
    tab.open(&format!("{address}/ui/queues")).await;
    tab.until("document.querySelectorAll('#usage tbody tr').length > 0").await;
    let users = scene.get(&format!("{P}/usage/users")).await;
    let rows = tab.rows("#usage table").await;
    let alice = rows.iter().find(|row| row["key"] == "user alice root").unwrap();
    let usage = &users[0]["queues"];
    assert_eq!(number(&alice["vcore"]["bar"]["used"]), number(&usage["resourceUsage"]["vcore"]));
    assert_eq!(number(&alice["vcore"]["bar"]["limit"]), number(&usage["maxResources"]["vcore"]));
    let running = usage["runningApplications"].as_array().unwrap().len();
    assert_eq!(values(&alice["running"]), json!([running]));
    tab.open(&format!("{address}/ui/queue?path=root.a")).await;
    tab.until("document.querySelectorAll('#applications tbody tr').length === 1").await;
    let queue = scene.get(&format!("{P}/queue/root.a")).await;
    let bar: Value = tab
        .value("({...document.querySelector('#summary .level[data-resource=vcore]').dataset})")
        .await;
    let shown = ["used", "wait", "promise", "limit"]
        .map(|key| bar[key].as_str().unwrap().parse::<i64>().unwrap());
    let known = ["allocatedResource", "pendingResource", "guaranteedResource", "maxResource"];
    assert_eq!(shown, known.map(|key| number(&queue[key]["vcore"])));
    let rules = tab.text("#rules").await;
    assert!(rules.contains("owner") && rules.contains("ops"), "{rules}");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn sessions_and_events_match_their_documents() {
    let Some((scene, chromium, tab, address)) = start().await else { return };
    tab.open(&format!("{address}/ui/sessions")).await;
    tab.until("document.querySelectorAll('#sessions tbody tr').length === 1").await;
    let row = &tab.rows("#sessions table").await[0];
    let session = scene.get("/ws/v1/sessions").await["sessions"][0].clone();
    assert_eq!(row["key"], session["rmId"]);
    assert_eq!(row["session"]["text"], session["sessionId"]);
    assert_eq!(row["state"]["text"], session["state"]);
    assert!(row["build"]["text"].as_str().unwrap().contains("buildVersion r7"), "{row}");
    for stream in session["openStreams"].as_array().unwrap() {
        assert!(
            row["streams"]["text"].as_str().unwrap().contains(stream.as_str().unwrap()),
            "{row}"
        );
    }
    tab.open(&format!("{address}/ui/events?from=0")).await;
    tab.until("document.querySelectorAll('#events tbody tr').length > 0").await;
    let batch = scene.get("/ws/v1/events/batch?start=0&count=200").await;
    let shown: Vec<Vec<String>> = tab
        .value("[...document.querySelectorAll('#events tbody tr')].map(it => [it.cells[0].innerText, it.cells[3].innerText])")
        .await;
    let known = batch["EventRecords"].as_array().unwrap().iter().enumerate();
    let known: Vec<Vec<String>> = known
        .map(|(at, it)| {
            // A request of a pod has the pod's name.
            let pod = Some(&it["pod"]).filter(|pod| pod.is_string() && it["type"] == 1);
            let name = pod.unwrap_or(&it["objectID"]).as_str().unwrap_or_default();
            vec![at.to_string(), name.to_owned()]
        })
        .collect();
    assert_eq!(shown, known);
    let kept: Vec<i64> =
        tab.value("[...document.querySelectorAll('#kept data')].map(it => Number(it.value))").await;
    assert_eq!(kept, [number(&batch["LowestID"]), number(&batch["HighestID"])]);
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
