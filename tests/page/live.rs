//! Live events, with messages about lost connections; and decisions.

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::browser::Chromium;
use crate::harness::{Rm, Service, address, ask, node};
use crate::numbers::plain;

#[tokio::test]
async fn live_events_resume_and_report_gaps() {
    let Some(chromium) = Chromium::start().await else { return };
    let (grpc, http) = (address(), address());
    let service = Service::start_at(&grpc, &http);
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let tab = chromium.tab().await;
    // The test decides when the connection of a stream is lost.
    tab.before_all(
        "const fetches = window.fetch;
         window.fetch = async (path, options) => {
           const response = await fetches(path, options);
           if (!String(path).includes('/events/stream')) return response;
           const stream = new TransformStream();
           const over = new AbortController();
           window.lose = () => over.abort();
           response.body.pipeTo(stream.writable, {signal: over.signal}).catch(() => {});
           return new Response(stream.readable, {status: response.status, headers: response.headers});
         };",
    )
    .await;
    tab.open(&format!("http://{http}/ui/events")).await;
    tab.until_text("#following", "live").await;
    tab.until_text("#events tbody", "n1").await;
    rm.send_nodes(vec![node("n2", 1, 1)]).await;
    tab.until_text("#events tbody", "n2").await;
    let count = |id: &str| {
        format!(
            "[...document.querySelectorAll('#events tbody tr')].filter(it => it.cells[2]?.innerText === '{id}' && it.cells[3].innerText.startsWith('added')).length"
        )
    };
    // Lost for a moment: nothing is missing or repeated.
    tab.value::<bool>("(window.lose(), true)").await;
    rm.send_nodes(vec![node("n3", 1, 1)]).await;
    tab.until_text("#events tbody .remark", "nothing is missing").await;
    tab.until(&format!("{} === 1", count("n3"))).await;
    for id in ["n1", "n2"] {
        assert_eq!(tab.value::<i64>(&count(id)).await, 1, "{id}");
    }
    // Paused, and resumed.
    tab.value::<bool>("([...document.querySelectorAll('.filters button')].at(-1).click(), true)")
        .await;
    tab.until_text(".filters", "Go on").await;
    rm.send_nodes(vec![node("n4", 1, 1)]).await;
    tab.until_text("#events", "More came meanwhile").await;
    assert_eq!(tab.value::<i64>(&count("n4")).await, 0);
    tab.value::<bool>("([...document.querySelectorAll('.filters button')].at(-1).click(), true)")
        .await;
    tab.until(&format!("{} === 1", count("n4"))).await;
    // A filter for one kind of object, and for a single object.
    tab.choose("[name=type]", "3").await;
    tab.until("[...document.querySelectorAll('#events tbody tr:not(.remark)')].every(it => it.cells[1].innerText === 'node')").await;
    // Another run of the service has other events.
    drop((rm, service));
    tab.until_text("#state", "no answer").await;
    let service = Service::start_at(&grpc, &http);
    tab.until_text("#events tbody", "The service was started anew").await;
    tab.until_text("#following", "live").await;
    tab.until_text("#state", "live").await;
    drop(service);
    chromium.end().await;
}

#[tokio::test]
async fn decisions_are_shown_with_their_grounds() {
    let Some(chromium) = Chromium::start().await else { return };
    let service = Service::start_with(&[("decisions.kept", "60")]);
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    // One node is closed, and the other one becomes full.
    let drains = si::NodeInfo {
        action: si::node_info::ActionFromRm::CreateDrain.into(),
        ..node("closed", 1_000_000, 1_000)
    };
    rm.send_nodes(vec![drains, node("n1", 64_000, 1_000)]).await;
    rm.until("the nodes", |seen| seen.accepted_nodes.len() == 2).await;
    let asks: Vec<_> = (0..64).map(|n| ask("app", &format!("k{n}"))).collect();
    rm.send_allocations(vec![], asks, vec![]).await;
    rm.until("all placed", |seen| seen.new.len() == 64).await;
    let path = "/ws/v1/partition/default/decisions";
    let rest: Value = serde_json::from_str(&service.get(path).await).unwrap();
    let newest = &rest[0];
    let tab = chromium.tab().await;
    let page = format!("http://{}", service.http);
    tab.open(&format!("{page}/ui/decisions")).await;
    tab.until("document.querySelectorAll('.decision').length === 50").await;
    tab.until("document.querySelector('.gap') === null").await;
    let ids = "[...document.querySelectorAll('.decision')].map(it => Number(it.dataset.id))";
    let shown: Vec<u64> = tab.value(ids).await;
    assert_eq!(shown, (15..=64).rev().collect::<Vec<_>>());
    // All of one application, moment and rule are one row, which opens, as does each decision in it.
    let rows: i64 = tab.value("document.querySelectorAll('#decisions > ol > li').length").await;
    assert!(rows < 50, "{rows}");
    for summary in [".together > summary", ".decision summary"] {
        tab.value::<bool>(&format!("(document.querySelector('{summary}').click(), true)")).await;
    }
    let mut texts = vec![plain(&newest["ruled"])];
    for level in newest["levels"].as_array().unwrap() {
        let text = |field: &str| level[field].as_str().unwrap();
        texts.push(format!("in {}, by {}: {}", text("queue"), text("order"), text("chosen")));
    }
    let nodes = &newest["nodes"];
    texts.push(format!("{} node", nodes["tried"]));
    for passed in nodes["passedOver"].as_array().unwrap() {
        texts.push(format!("{} {}", passed["count"], plain(&passed["reason"])));
    }
    assert!(texts.len() >= 4, "{newest}");
    for text in texts {
        tab.until_text(".decision", &text).await;
    }
    // The last page of several.
    tab.click(".further a").await;
    tab.until("location.search.includes('after=15')").await;
    tab.until("document.querySelectorAll('.decision').length === 10").await;
    tab.until_text(".gap", "4 older decisions are not kept any more").await;
    // A filter for one kind of decision, and for one request.
    tab.open(&format!("{page}/ui/decisions?key=k63")).await;
    tab.until("document.querySelectorAll('.decision').length === 1").await;
    tab.choose("[name=kind]", "eviction").await;
    tab.until("location.search.includes('kind=eviction')").await;
    tab.until_text("main", "No decision that is kept is of this kind").await;
    assert_eq!(tab.wrong(), [""; 0]);
    // A service that records no decisions.
    let service = Service::start_with(&[("decisions.kept", "0")]);
    let _rm = Rm::register(&service, "rm").await;
    tab.open(&format!("http://{}/ui/decisions", service.http)).await;
    tab.until_text("main", "the setting decisions.kept is 0").await;
    chromium.end().await;
}

#[tokio::test]
async fn a_node_shows_decisions_that_skipped_it() {
    let Some(chromium) = Chromium::start().await else { return };
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    rm.send_nodes(vec![node("a-small", 1, 1), node("large", 64_000, 1_000)]).await;
    rm.until("the nodes", |seen| seen.accepted_nodes.len() == 2).await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let path = "/ws/v1/partition/default/decisions";
    let rest: Value = serde_json::from_str(&service.get(path).await).unwrap();
    let passed = &rest[0]["nodes"]["passedOver"][0];
    assert_eq!(passed["example"], "a-small", "{rest}");
    let tab = chromium.tab().await;
    tab.open(&format!("http://{}/ui/node?id=a-small", service.http)).await;
    tab.until_text("#refused tbody", &plain(&passed["reason"])).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
