//! Links, keys, sorting, searching, dark mode, small screens, and no external resources.

use serde_json::Value;

use crate::browser::{Chromium, Tab};
use crate::scene::Scene;

/// Every view, with an address that shows an item of the scene.
const VIEWS: [&str; 13] = [
    "/",
    "/ui/applications",
    "/ui/application?id=runs",
    "/ui/queues",
    "/ui/queue?path=root.a",
    "/ui/user?name=alice",
    "/ui/nodes",
    "/ui/node?id=n1",
    "/ui/decisions",
    "/ui/events",
    "/ui/events?from=0",
    "/ui/whatif",
    "/ui/sessions",
];

async fn start() -> Option<(Scene, Chromium, Tab, String)> {
    let chromium = Chromium::start().await?;
    let scene = Scene::start().await;
    let tab = chromium.tab().await;
    let address = format!("http://{}", scene.service.http);
    Some((scene, chromium, tab, address))
}

#[tokio::test]
async fn every_view_opens_dark_and_small() {
    let Some((_scene, chromium, tab, address)) = start().await else { return };
    for view in VIEWS {
        tab.resize(1360, 900).await;
        tab.prefer("light").await;
        tab.open(&format!("{address}{view}")).await;
        tab.until("document.querySelectorAll('main section').length > 0").await;
        tab.until("document.querySelector('#state').className === 'live'").await;
        // Data is loaded, and missing items are reported in words.
        tab.until("document.querySelector('.reading') === null").await;
        let title: String = tab.value("document.title").await;
        assert!(title.contains("Monoceros"), "{view}: {title}");
        tab.until("document.documentElement.dataset.theme === 'light'").await;
        let light = colours(&tab).await;
        tab.prefer("dark").await;
        tab.until("document.documentElement.dataset.theme === 'dark'").await;
        let dark = colours(&tab).await;
        assert!(light[0] > light[1] && dark[0] < dark[1], "{view}: {light:?} {dark:?}");
        tab.resize(390, 800).await;
        tab.until("innerWidth === 390").await;
        let width: i64 = tab.value("document.documentElement.scrollWidth").await;
        assert!(width <= 390, "{view} is {width} wide");
        let names: Vec<String> = tab.value(NAMELESS).await;
        assert_eq!(names, [""; 0], "{view}: everything that can be pressed has a name");
    }
    assert_eq!(tab.wrong(), [""; 0]);
    for asked in tab.asked() {
        let is_own =
            asked.starts_with(&address) || asked.starts_with("data:") || asked == "about:blank";
        assert!(is_own, "{asked}");
        let lists = ["/applications/", "/nodes", "/usage/users", "/usage/groups"];
        let is_list = asked.contains("/ws/") && lists.iter().any(|list| asked.contains(list));
        assert!(!is_list || asked.contains("limit="), "a page of rows, never all: {asked}");
    }
    chromium.end().await;
}

/// Returns the brightness of background and text.
async fn colours(tab: &Tab) -> [u64; 2] {
    let colours: [String; 2] =
        tab.value("(it => [it.backgroundColor, it.color])(getComputedStyle(document.body))").await;
    colours.map(|colour| {
        let parts =
            colour.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u64>().ok());
        parts.take(3).sum()
    })
}

/// Selects controls without a label.
const NAMELESS: &str = "[...document.querySelectorAll('a[href], button, input, select')]
  .filter(it => it.checkVisibility())
  .filter(it => !(it.innerText.trim() || it.getAttribute('aria-label') || it.labels?.length))
  .map(it => it.outerHTML)";

#[tokio::test]
async fn search_and_sorting_are_in_the_address() {
    let Some((_scene, chromium, tab, address)) = start().await else { return };
    tab.open(&format!("{address}/ui/applications")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    let first = "document.querySelector('main tbody a').innerText";
    assert_eq!(tab.value::<String>(first).await, "keeps");
    // The latest first: the arrow keys and a click give the same.
    tab.value::<bool>("(document.querySelectorAll('th button')[0].click(), true)").await;
    tab.until("location.search.includes('sort=-id')").await;
    tab.until(&format!("{first} === 'runs'")).await;
    assert_eq!(tab.value::<String>("document.querySelector('th').ariaSort").await, "descending");
    tab.press("/").await;
    tab.until("document.activeElement.name === 'search'").await;
    tab.write("KEEP").await;
    tab.until("location.search.includes('search=KEEP')").await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    tab.until_text("#count", "1 application").await;
    // A shared link, and then the way back.
    let shared: String = tab.value("location.href").await;
    let other = chromium.tab().await;
    other.open(&shared).await;
    other.until("document.querySelectorAll('main tbody tr').length === 1").await;
    assert_eq!(
        other.value::<String>("document.querySelector('[name=search]').value").await,
        "KEEP"
    );
    // The row opens beside the list, and from there the whole view.
    other.click("main tbody a").await;
    other.until("location.search.includes('open=application%3Akeeps')").await;
    other.click("#panel a.whole").await;
    other
        .until("location.pathname === '/ui/application' && document.title.startsWith('keeps')")
        .await;
    other.value::<bool>("(history.back(), true)").await;
    other.until("document.querySelector('#panel') !== null").await;
    other.value::<bool>("(history.back(), true)").await;
    other
        .until("location.pathname === '/ui/applications' && location.search.includes('KEEP')")
        .await;
    other.until("document.querySelector('#panel') === null").await;
    // A list filtered by state and queue, on the server. A hidden tab reads nothing.
    tab.show().await;
    tab.open(&format!("{address}/ui/applications")).await;
    tab.until("document.querySelectorAll('[name=queue] option').length >= 4").await;
    tab.choose("[name=queue]", "root.b").await;
    tab.until("location.search.includes('queue=root.b')").await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    tab.choose("[name=status]", "accepted").await;
    tab.until_text("#count", "None.").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn the_page_is_used_with_keys_alone() {
    let Some((_scene, chromium, tab, address)) = start().await else { return };
    tab.open(&address).await;
    tab.until("document.querySelectorAll('#queues tbody tr').length > 2").await;
    // The first stop skips the navigation that is on every view.
    tab.press("Tab").await;
    assert_eq!(tab.value::<String>("document.activeElement.className").await, "skip");
    tab.press("Enter").await;
    tab.until("document.activeElement.id === 'main'").await;
    tab.press("?").await;
    tab.until("document.querySelector('#keys').open").await;
    let keys: Vec<String> =
        tab.value("[...document.querySelectorAll('#keys kbd')].map(it => it.innerText)").await;
    assert!(keys.contains(&"/".to_owned()) && keys.contains(&"g n".to_owned()), "{keys:?}");
    tab.press("Escape").await;
    tab.until("!document.querySelector('#keys').open").await;
    // Keys lead to a view, to its search, out of the search, and through its rows.
    for key in ["g", "n"] {
        tab.press(key).await;
    }
    tab.until("location.pathname === '/ui/nodes'").await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    assert_eq!(tab.value::<String>("document.activeElement.id").await, "main");
    tab.press("/").await;
    tab.until("document.activeElement.type === 'search'").await;
    // Keys are text here.
    tab.press("g").await;
    tab.until("document.activeElement.value === 'g'").await;
    tab.press("Escape").await;
    tab.until("document.activeElement.type !== 'search'").await;
    tab.open(&format!("{address}/ui/nodes")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 2").await;
    // The first key goes to the first row.
    let focused = "document.activeElement.innerText";
    let walked = [
        ("ArrowDown", "n1"),
        ("j", "n2"),
        ("ArrowDown", "n2"),
        ("k", "n1"),
        ("End", "n2"),
        ("Home", "n1"),
    ];
    for (key, node) in walked {
        tab.press(key).await;
        assert_eq!(tab.value::<String>(focused).await, node, "{key}");
    }
    tab.press("Enter").await;
    tab.until("location.search.includes('open=node%3An1')").await;
    tab.until_text("#panel #summary", "host-1").await;
    tab.press("Escape").await;
    tab.until("document.querySelector('#panel') === null").await;
    tab.press("ArrowDown").await;
    assert_eq!(tab.value::<String>(focused).await, "n2", "the focus is in the list still");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_tab_that_nobody_sees_asks_for_nothing() {
    let Some((_scene, chromium, tab, address)) = start().await else { return };
    // The test sets the visibility, and timers are fast so that many are due.
    tab.before_all(
        "Object.defineProperty(document, 'hidden', {get: () => window.isHidden === true});
         const later = window.setTimeout;
         window.setTimeout = (act, ms, ...more) => later(act, (ms ?? 0) / 20, ...more);
         const fetches = window.fetch;
         window.fetched = 0;
         window.fetch = (...asked) => { window.fetched += 1; return fetches(...asked); };",
    )
    .await;
    tab.open(&address).await;
    tab.until("window.fetched > 30").await;
    let see = async |is_seen: bool| {
        let is_hidden = !is_seen;
        let script = format!(
            "(window.isHidden = {is_hidden}, document.dispatchEvent(new Event('visibilitychange')), true)"
        );
        assert!(tab.value::<bool>(&script).await);
    };
    see(false).await;
    // Open requests finish, and then ten rounds of all timers pass without a request.
    let quiet = "(async () => {
      for (let before = -1; before !== window.fetched;) {
        before = window.fetched;
        await new Promise(then => later(then, 2000));
      }
      return window.fetched;
    })()"
        .replace("later(then, 2000)", "setTimeout(then, 40000)");
    let asked: Value = tab.value(&quiet).await;
    assert!(asked.as_i64().unwrap() > 30);
    see(true).await;
    tab.until(&format!("window.fetched > {asked}")).await;
    chromium.end().await;
}
