//! Events as they come, with what is told when the connection is lost; and decisions.

use serde_json::json;

use crate::browser::Chromium;
use crate::harness::{Rm, Service, address, node};

#[tokio::test]
async fn events_come_as_they_happen_and_what_a_break_means_is_told() {
    let Some(chromium) = Chromium::start().await else { return };
    let (grpc, http) = (address(), address());
    let service = Service::start_at(&grpc, &http);
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let tab = chromium.tab().await;
    // The connection of a stream is lost when the test says so.
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
    // Lost for a moment: nothing is missing, and nothing is told twice.
    tab.value::<bool>("(window.lose(), true)").await;
    rm.send_nodes(vec![node("n3", 1, 1)]).await;
    tab.until_text("#events tbody .remark", "nothing is missing").await;
    tab.until(&format!("{} === 1", count("n3"))).await;
    for id in ["n1", "n2"] {
        assert_eq!(tab.value::<i64>(&count(id)).await, 1, "{id}");
    }
    // Held, and gone on with.
    tab.value::<bool>("([...document.querySelectorAll('.filters button')].at(-1).click(), true)")
        .await;
    tab.until_text(".filters", "Go on").await;
    rm.send_nodes(vec![node("n4", 1, 1)]).await;
    tab.until_text("#events", "More came meanwhile").await;
    assert_eq!(tab.value::<i64>(&count("n4")).await, 0);
    tab.value::<bool>("([...document.querySelectorAll('.filters button')].at(-1).click(), true)")
        .await;
    tab.until(&format!("{} === 1", count("n4"))).await;
    // One kind of objects, and one of them.
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
async fn decisions_are_told_with_their_grounds_and_it_is_said_where_there_are_none() {
    let Some(chromium) = Chromium::start().await else { return };
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let decision = |id: u64, kind: &str| {
        json!({
            "id": id, "time": 1_795_276_697_471_473_265_u64, "kind": kind, "ruled": "root.a comes before root.b",
            "applicationId": "app-1", "allocationKey": format!("k{id}"), "queueName": "root.a", "nodeId": "n1",
            "levels": [
                {"queue": "root", "order": "fair", "chosen": "root.a", "runnerUp": "root.b", "rule": "a share of 10 % before one of 40 %"},
                {"queue": "root.a", "order": "fifo", "chosen": "app-1", "rule": "only one"},
            ],
            "nodes": {"tried": 2, "passedOver": [{"reason": "no room", "count": 1, "example": "n2"}]},
        })
    };
    let decisions =
        json!([decision(9, "allocation"), decision(6, "reservation"), decision(5, "eviction")]);
    let tab = chromium.tab().await;
    tab.before_all(&format!(
        "const fetches = window.fetch;
         window.fetch = async (path, options) => {{
           const asked = new URL(path, location.href);
           if (!asked.pathname.endsWith('/decisions')) return fetches(path, options);
           const kind = asked.searchParams.get('kind');
           const all = {decisions}.filter(it => !kind || it.kind === kind);
           const behind = asked.searchParams.get('cursor');
           const link = behind || kind ? {{}} : {{Link: `<${{asked.pathname}}?limit=50&cursor=5>; rel=\"next\"`}};
           return new Response(JSON.stringify(behind ? [] : all), {{headers: link}});
         }};"
    ))
    .await;
    let page = format!("http://{}", service.http);
    tab.open(&format!("{page}/ui/decisions")).await;
    tab.until("document.querySelectorAll('.decision').length === 3").await;
    tab.until_text(".gap", "2 decisions between are not kept").await;
    tab.value::<bool>("(document.querySelector('.decision summary').click(), true)").await;
    for told in [
        "in root, by fair: root.a before root.b: a share of 10 % before one of 40 %",
        "2 nodes tried",
        "1 no room (such as n2)",
    ] {
        tab.until_text(".grounds", told).await;
    }
    tab.choose("[name=kind]", "eviction").await;
    tab.until("document.querySelectorAll('.decision').length === 1").await;
    tab.until("location.search.includes('kind=eviction')").await;
    tab.open(&format!("{page}/ui/decisions")).await;
    tab.until("document.querySelector('.further a') !== null").await;
    tab.click(".further a").await;
    tab.until("location.search.includes('after=5')").await;
    tab.until_text("main", "Nothing was decided yet").await;
    // Whom a node was no place for.
    tab.open(&format!("{page}/ui/node?id=n2")).await;
    tab.until("document.querySelectorAll('#refused tbody tr').length === 3").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
