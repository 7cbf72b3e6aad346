//! The layout with long names: everything is on the screen, and names that are cut have a title.

use serde_json::Value;

use crate::browser::Tab;
use crate::long_scene::{LongScene, TEAM, USER, WAITS, node_name};

/// The rules of layout, as a script that returns all violations.
const LAYOUT: &str = include_str!("layout.js");

/// Asserts the rules of layout, once the page has adapted itself to the size of the screen.
pub(crate) async fn assert_layout(tab: &Tab, what: &str) {
    let rules = LAYOUT.trim().trim_end_matches(';');
    let rules = rules.split_once('\n').unwrap().1;
    let wrong: Vec<String> = tab
        .value(&format!(
            "(async () => {{
              for (let n = 0; ; n++) {{
                const wrong = {rules};
                if (!wrong.length || n === 40) return wrong;
                await new Promise(then => setTimeout(then, 50));
              }}
            }})()"
        ))
        .await;
    assert_eq!(wrong, [""; 0], "{what}");
}

#[tokio::test]
async fn everything_is_on_the_screen_with_long_names() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    let views = [
        "/".to_owned(),
        format!("/?mine=user:{USER}"),
        "/ui/applications".to_owned(),
        "/ui/applications?list=rejected".to_owned(),
        "/ui/applications?by=queue".to_owned(),
        format!("/ui/applications?open=application:{WAITS}"),
        format!("/ui/application?id={WAITS}"),
        "/ui/queues?types=all".to_owned(),
        format!("/ui/queue?path={TEAM}.production-2027"),
        format!("/ui/user?name={USER}"),
        "/ui/nodes".to_owned(),
        "/ui/nodes?by=rack&type=nvidia.com/gpu".to_owned(),
        format!("/ui/node?id={}", node_name(1)),
        "/ui/decisions".to_owned(),
        "/ui/events".to_owned(),
        "/ui/events?from=0".to_owned(),
        "/ui/whatif".to_owned(),
        "/ui/sessions".to_owned(),
    ];
    for view in views {
        tab.open(&format!("{address}{view}")).await;
        tab.until("document.querySelector('#state').className === 'live'").await;
        tab.until("document.querySelectorAll('main section').length > 0").await;
        tab.until("document.querySelector('.reading') === null").await;
        for width in [1_400, 1_024, 390] {
            tab.resize(width, 900).await;
            tab.until(&format!("innerWidth === {width}")).await;
            for scheme in ["light", "dark"] {
                tab.prefer(scheme).await;
                assert_layout(&tab, &format!("{view} at {width}, {scheme}")).await;
            }
        }
    }
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_cut_name_has_its_whole_as_title_and_is_copied() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    // The browser asks before it gives a test the clipboard.
    tab.before_all(
        "navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }",
    )
    .await;
    tab.resize(1_400, 900).await;
    tab.open(&format!("{address}/ui/applications?search=spark")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    let cut = tab.text("[data-column=id] a").await;
    assert!(cut.starts_with("spark-3f2c") && cut.ends_with("retry-3") && cut.len() < WAITS.len());
    let title: String = tab.value("document.querySelector('[data-column=id] a').title").await;
    assert_eq!(title, WAITS);
    tab.click("[data-column=id] .copy").await;
    tab.until(&format!("window.copied === {}", Value::from(WAITS))).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn gpus_are_shown_and_unused_types_only_on_demand() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.open(&address).await;
    let heads = "[...document.querySelectorAll('#queues th.bars')].map(it => it.innerText)";
    tab.until(&format!("{heads}.includes('nvidia.com/gpu')")).await;
    let shown: Vec<String> = tab.value(heads).await;
    // Pending requests need more of cores and GPUs than is free.
    assert_eq!(shown, ["cores", "nvidia.com/gpu", "memory"]);
    tab.click("#queues .types").await;
    tab.until(&format!("{heads}.length === 5 && location.search.includes('types=all')")).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
