//! Ways to what a user looks for: the filter of all views, the dialog that goes to anything,
//! groups, the panel beside a list, maps of nodes, and texts to copy.

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::harness::{release, run};
use crate::long_scene::{GIANT, LongScene, TEAM, USER, WAITS, node_name};

#[tokio::test]
async fn why_and_its_cure_are_two_clicks_from_the_first_screen() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.resize(1_400, 900).await;
    tab.open(&address).await;
    let row = format!("#waiting tr[data-key='{WAITS}']");
    tab.until_text(&row, "is at its maximum").await;
    tab.click(&format!("{row} a")).await;
    tab.until("location.pathname === '/' && location.search.includes('open=application')").await;
    tab.until_text("#panel .cure", "raise the maximum of").await;
    tab.click("#panel .cure .link").await;
    tab.until_text("#panel pre", "max: {vcore: 8, memory: 32Gi, nvidia.com/gpu: 6}").await;
    // The list stays, links in the panel stay in it, and the way back closes it.
    assert!(tab.value::<bool>("document.querySelector('#waiting tbody') !== null").await);
    tab.value::<bool>("(document.querySelector('#panel #summary .facts a').click(), true)").await;
    tab.until("location.search.includes('open=queue')").await;
    tab.until_text("#panel #applications", "spark").await;
    tab.value::<bool>("(history.back(), true)").await;
    tab.until_text("#panel #summary", USER).await;
    tab.press("Escape").await;
    tab.until("document.querySelector('#panel') === null").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_rejection_names_the_nearest_queue() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.open(&format!("{address}/ui/applications?list=rejected")).await;
    tab.until_text("main tbody", "did you mean").await;
    let title = "document.querySelector('td.text .cut a').title";
    tab.until(&format!("{title} === {}", Value::from(format!("{TEAM}.production-2027")))).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn the_filter_holds_in_all_views_and_is_kept() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.resize(1_400, 900).await;
    tab.open(&address).await;
    tab.until("document.querySelectorAll('#waiting tbody tr').length === 2").await;
    tab.click("#mine").await;
    tab.until("document.activeElement.name === 'mine-user'").await;
    tab.write(USER).await;
    tab.press("Enter").await;
    tab.until("location.search.includes('mine=user')").await;
    tab.until("document.querySelectorAll('#waiting tbody tr').length === 1").await;
    let queues = "[...document.querySelectorAll('#queues tbody tr')].map(it => it.dataset.key)";
    tab.until(&format!("{queues}.length === 5")).await;
    // Links keep the filter.
    tab.click("header nav a[href^='/ui/applications']").await;
    tab.until("location.pathname === '/ui/applications' && location.search.includes('mine=user')")
        .await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    tab.open(&format!("{address}/ui/events?from=0&mine=user:{USER}")).await;
    tab.until("document.querySelectorAll('#events tbody tr').length > 0").await;
    assert!(!tab.text("#events tbody").await.contains(&GIANT[..12]));
    // The browser keeps the filter, and a user can remove it.
    tab.open(&format!("{address}/ui/decisions")).await;
    tab.until("location.search.includes('mine=user')").await;
    tab.until("document.querySelectorAll('.decision').length >= 2").await;
    tab.click("#mine").await;
    tab.click("dialog[open] .buttons button:last-child").await;
    tab.until("!location.search.includes('mine')").await;
    tab.open(&format!("{address}/ui/applications")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn the_dialog_goes_to_anything() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    let pod = format!("theoretical-physics/{WAITS}-executor-1");
    let node = node_name(2);
    let wanted = [
        ("9a4d-4c1e", "application", "/ui/application?id=spark"),
        (&pod, "pod", "/ui/application?id=spark"),
        ("lattice-sim", "queue", "/ui/queue?path=root.department"),
        ("ann-marie", "user", "/ui/user?name=ann-marie"),
        (&node, "node", "/ui/node?id=ip-10-128-44-2"),
        ("#2", "decision", "/ui/decisions?after=3"),
    ];
    for (text, kind, target) in wanted {
        tab.open(&address).await;
        // The overview has no search of its own.
        tab.press("/").await;
        tab.until("document.activeElement.name === 'jump'").await;
        tab.write(text).await;
        tab.until_text("#found li", kind).await;
        tab.press("Enter").await;
        let target = Value::from(target);
        tab.until(&format!("(location.pathname + location.search).startsWith({target})")).await;
        tab.until("!document.querySelector('#jump').open").await;
    }
    tab.press("/").await;
    tab.value::<bool>("(document.querySelector('.find').click(), true)").await;
    tab.until("document.activeElement.name === 'jump'").await;
    tab.write("nothing-of-this-name").await;
    tab.until_text("#jump", "Nothing has this in its name").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn applications_are_grouped_and_nodes_are_mapped() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.open(&format!("{address}/ui/applications")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    tab.choose("[name=by]", "user").await;
    tab.until("location.search.includes('by=user')").await;
    tab.until("document.querySelectorAll('[data-column=group]').length === 2").await;
    let group = format!("tr[data-key='{USER}']");
    assert_eq!(tab.text(&format!("{group} [data-column=allocations]")).await, "2");
    assert_eq!(tab.text(&format!("{group} [data-column=waiting]")).await, "3");
    tab.click(&format!("{group} button.open")).await;
    tab.until("location.search.includes('user=ann-marie')").await;
    tab.until("document.querySelectorAll('[data-column=id]').length === 1").await;
    // One map of nodes for each rack, coloured by GPUs.
    tab.open(&format!("{address}/ui/nodes?by=rack&type=nvidia.com/gpu")).await;
    tab.until("document.querySelectorAll('.maps canvas').length === 2").await;
    let labels = "[...document.querySelectorAll('.maps canvas')].map(it => it.ariaLabel)";
    let labels: Vec<String> = tab.value(labels).await;
    assert!(labels[0].starts_with("1 node:") && labels[1].starts_with("2 nodes:"), "{labels:?}");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_removed_application_shows_its_remover_and_last_obstacle() {
    let Some(LongScene { service: _service, rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    let removal = si::RemoveApplicationRequest {
        application_id: GIANT.to_owned(),
        partition_name: "default".to_owned(),
    };
    rm.send_applications(vec![], vec![removal]).await;
    tab.open(&format!("{address}/ui/application?id={GIANT}")).await;
    tab.until_text("#summary", "removed by its resource manager long").await;
    let summary = tab.text("#summary").await;
    assert!(summary.contains("Removed") && summary.contains("for 96 cores"), "{summary}");
    tab.open(&format!("{address}/ui/applications?list=ended")).await;
    tab.until_text("main tbody", "removed by its resource manager long").await;
    tab.open(&format!("{address}/ui/application?id=never-submitted")).await;
    tab.until_text("main", "No application is called").await;
    chromium.end().await;
}

/// The path of an operator: the node that refuses most is found by sorting, and closed with the
/// command that the page gives.
#[tokio::test]
async fn the_node_that_refuses_most_is_found_and_cordoned() {
    let Some(LongScene { service, rm, chromium, tab, address }) = LongScene::start().await else {
        return;
    };
    tab.before_all(
        "navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }",
    )
    .await;
    // A pod cannot be started on its node.
    let failed = rm.read(|seen| seen.new[0].clone());
    let release = si::AllocationRelease {
        termination_type: si::TerminationType::SchedulingFailedOnRm.into(),
        ..release(&failed.application_id, &failed.allocation_key)
    };
    rm.send_allocations(vec![], vec![], vec![release]).await;
    tab.resize(1_400, 900).await;
    tab.open(&address).await;
    tab.click("header nav a[href^='/ui/nodes']").await;
    let column =
        "[...document.querySelectorAll('th button')].find(it => it.innerText === 'Refused')";
    tab.until(&format!("{column} !== undefined")).await;
    tab.value::<bool>(&format!("({column}.click(), true)")).await;
    tab.until("location.search.includes('sort=-refusals')").await;
    let first = "main tbody tr:first-child";
    tab.until(&format!("document.querySelector('{first}').dataset.key === '{}'", failed.node_id))
        .await;
    assert_eq!(tab.text(&format!("{first} [data-column=refusals]")).await, "1");
    tab.click(&format!("{first} a")).await;
    tab.until_text("#panel #summary", "1 request").await;
    tab.click("#panel #summary .head .copy").await;
    tab.until("window.copied !== undefined").await;
    let command: String = tab.value("window.copied").await;
    let grpc = service.grpc.to_string();
    let words: Vec<_> = command.strip_prefix("monoceros ").unwrap().split(' ').collect();
    let (code, _, stderr) = run(&[&["--grpc", &*grpc], &*words].concat());
    assert_eq!(code, Some(0), "{command}: {stderr}");
    tab.until_text("#panel #summary", "Closed").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_cure_is_tried_without_putting_it_in_force() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.open(&format!("{address}/ui/application?id={WAITS}")).await;
    tab.until("document.querySelector('.cure .link') !== null").await;
    tab.click(".cure .link").await;
    tab.until("document.querySelector('.try button') !== null").await;
    tab.click(".try button").await;
    tab.until_text(".try .answer", "The service would accept it").await;
    let change = tab.text(".try .answer pre").await;
    assert!(
        change.contains("- ") && change.contains("+ ") && change.contains("nvidia.com/gpu: \"6\""),
        "{change}"
    );
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn the_colours_are_chosen_and_kept() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.prefer("light").await;
    tab.open(&address).await;
    let theme = "document.documentElement.dataset.theme";
    tab.until(&format!("{theme} === 'light'")).await;
    tab.choose("#theme", "dark").await;
    tab.until(&format!("{theme} === 'dark'")).await;
    tab.open(&format!("{address}/ui/nodes")).await;
    tab.until("document.querySelector('#theme')?.value === 'dark'").await;
    assert_eq!(tab.value::<String>(theme).await, "dark");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
