//! A headless Chromium and its tabs. A tab notes what went wrong in it and what it asked for; a test waits for
//! what is to be seen, never for a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chromiumoxide::browser::{Browser, BrowserConfig};
use chromiumoxide::cdp::browser_protocol::emulation::{
    MediaFeature, SetDeviceMetricsOverrideParams,
};
use chromiumoxide::cdp::browser_protocol::input::{
    DispatchKeyEventParams, DispatchKeyEventType, InsertTextParams,
};
use chromiumoxide::cdp::browser_protocol::log::{EventEntryAdded, LogEntryLevel, LogEntrySource};
use chromiumoxide::cdp::browser_protocol::network::EventRequestWillBeSent;
use chromiumoxide::cdp::browser_protocol::page::Viewport;
use chromiumoxide::cdp::js_protocol::runtime::{EventConsoleApiCalled, EventExceptionThrown};
use chromiumoxide::page::{Page, ScreenshotParams};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long anything may take: the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Names under which a Chromium may be on the path.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Browsers that were started: each has a profile of its own.
static N_PROFILES: AtomicUsize = AtomicUsize::new(0);

/// A running browser.
pub(crate) struct Chromium {
    browser: Browser,
    handler: JoinHandle<()>,
    profile: PathBuf,
}

impl Chromium {
    /// Starts one, where there is one. Where there is none, says so.
    pub(crate) async fn start() -> Option<Self> {
        let Some(program) = NAMES.iter().find_map(|name| on_path(name)) else {
            eprintln!("skipped: there is no Chromium on the path");
            return None;
        };
        let number = N_PROFILES.fetch_add(1, Ordering::Relaxed);
        let profile = format!("monoceros-chromium-{}-{number}", std::process::id());
        let profile = std::env::temp_dir().join(profile);
        let config = BrowserConfig::builder()
            .chrome_executable(program)
            .new_headless_mode()
            .no_sandbox()
            .user_data_dir(&profile)
            .launch_timeout(PATIENCE)
            .request_timeout(PATIENCE)
            .viewport(None)
            .window_size(1360, 900)
            .arg("disable-gpu")
            .build()
            .unwrap();
        let (browser, mut events) = Browser::launch(config).await.unwrap();
        // Messages that the library does not know are of no interest here.
        let handler = tokio::spawn(async move { while events.next().await.is_some() {} });
        Some(Self { browser, handler, profile })
    }

    /// A new tab, which shows nothing.
    pub(crate) async fn tab(&self) -> Tab {
        let page = self.browser.new_page("about:blank").await.unwrap();
        page.enable_log().await.unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        note::<EventConsoleApiCalled>(&page, &seen, |seen, said| {
            if said.r#type.as_ref() == "error" {
                seen.wrong.push(format!("{:?}", said.args));
            }
        })
        .await;
        note::<EventExceptionThrown>(&page, &seen, |seen, thrown| {
            seen.wrong.push(format!("{:?}", thrown.exception_details));
        })
        .await;
        note::<EventEntryAdded>(&page, &seen, |seen, added| {
            // What the network answers is up to the test: a partition that has gone is no fault of the page.
            let entry = &added.entry;
            if entry.level == LogEntryLevel::Error && entry.source != LogEntrySource::Network {
                seen.wrong.push(entry.text.clone());
            }
        })
        .await;
        note::<EventRequestWillBeSent>(&page, &seen, |seen, sent| {
            seen.asked.push(sent.request.url.clone());
        })
        .await;
        Tab { page, seen }
    }

    /// Ends it and removes what it wrote.
    pub(crate) async fn end(mut self) {
        self.browser.close().await.unwrap();
        self.browser.wait().await.unwrap();
        self.handler.abort();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Notes every event of a kind.
async fn note<T>(page: &Page, seen: &Arc<Mutex<Seen>>, take: fn(&mut Seen, &T))
where
    T: chromiumoxide::cdp::IntoEventKind + Unpin + Send + Sync + 'static,
{
    let mut events = page.event_listener::<T>().await.unwrap();
    let seen = Arc::clone(seen);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            take(&mut seen.lock().unwrap(), &event);
        }
    });
}

fn on_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[derive(Debug, Default)]
struct Seen {
    /// What the console says that is wrong.
    wrong: Vec<String>,
    /// Addresses that were asked for.
    asked: Vec<String>,
}

/// A tab with the page.
pub(crate) struct Tab {
    page: Page,
    seen: Arc<Mutex<Seen>>,
}

impl Tab {
    /// Goes to an address and waits until the page is there.
    pub(crate) async fn open(&self, address: &str) {
        self.page.goto(address).await.unwrap();
        self.until("document.querySelector('main h1') !== null").await;
    }

    /// Runs a script before anything of the page, in every document from now on.
    pub(crate) async fn before_all(&self, script: &str) {
        self.page.evaluate_on_new_document(script).await.unwrap();
    }

    /// The value of an expression.
    pub(crate) async fn value<T: DeserializeOwned>(&self, expression: &str) -> T {
        let found = self.page.evaluate_expression(expression).await;
        found.unwrap_or_else(|error| panic!("{expression}: {error}")).into_value().unwrap()
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let reached = async {
            // A document that is just being replaced answers nothing.
            let is_true = async || {
                let found = self.page.evaluate_expression(expression).await.ok()?;
                found.into_value::<bool>().ok()
            };
            while is_true().await != Some(true) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(PATIENCE, reached).await.is_err() {
            let shown: String = self.value("document.body.innerText").await;
            panic!("never true: {expression}\n{shown}");
        }
    }

    /// Waits until something is shown that has this text in it.
    pub(crate) async fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (Value::from(selector), Value::from(text));
        let shown = "(it => it !== null && it.innerText.includes";
        self.until(&format!("{shown}({text}))(document.querySelector({selector}))")).await;
    }

    /// The text of an element.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let selector = Value::from(selector);
        self.value(&format!("document.querySelector({selector}).innerText.trim()")).await
    }

    /// Clicks an element as a person would.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.page.find_element(selector).await;
        let element = element.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap();
    }

    /// Types a text into what has the focus.
    pub(crate) async fn write(&self, text: &str) {
        self.page.execute(InsertTextParams::new(text)).await.unwrap();
    }

    /// Presses a key: a character, or a key by its name.
    pub(crate) async fn press(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = match key {
            "Enter" => Some("\r"),
            _ if key.chars().count() == 1 => Some(key),
            _ => None,
        };
        let event = |kind, text: Option<&str>| {
            let mut event = DispatchKeyEventParams::new(kind);
            event.key = Some(key.to_owned());
            event.text = text.map(str::to_owned);
            event.windows_virtual_key_code = Some(code);
            event
        };
        let down = event(DispatchKeyEventType::KeyDown, text);
        self.page.execute(down).await.unwrap();
        self.page.execute(event(DispatchKeyEventType::KeyUp, None)).await.unwrap();
    }

    /// Chooses a value of a field as a person would.
    pub(crate) async fn choose(&self, selector: &str, value: &str) {
        let (selector, value) = (Value::from(selector), Value::from(value));
        let choose = "it.dispatchEvent(new Event('change', {bubbles: true})); return true";
        let script = format!(
            "(() => {{ const it = document.querySelector({selector}); it.value = {value}; {choose} }})()"
        );
        assert!(self.value::<bool>(&script).await);
    }

    /// Brings it before all other tabs.
    pub(crate) async fn show(&self) {
        self.page.bring_to_front().await.unwrap();
    }

    /// Has the system want it dark, or light.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let feature = MediaFeature::new("prefers-color-scheme", scheme);
        self.page.emulate_media_features(vec![feature]).await.unwrap();
    }

    /// The screen has this size from now on.
    pub(crate) async fn resize(&self, width: i64, height: i64) {
        let scale = 1.0;
        let size = SetDeviceMetricsOverrideParams::new(width, height, scale, false);
        self.page.execute(size).await.unwrap();
    }

    /// Writes a picture of what is seen on a screen of this size, which is scaled.
    pub(crate) async fn picture(&self, path: &Path, width: f64, height: f64, scale: f64) {
        let clip = Viewport { x: 0.0, y: 0.0, width, height, scale };
        let wanted = ScreenshotParams::builder().clip(clip).build();
        let picture = self.page.screenshot(wanted).await.unwrap();
        std::fs::write(path, picture).unwrap();
    }

    /// The rows of a table: each with its key, and for each column the text, the exact values in it, and
    /// what a bar says.
    pub(crate) async fn rows(&self, table: &str) -> Vec<Value> {
        let table = Value::from(table);
        self.value(&format!("({ROWS})({table})")).await
    }

    /// What the console has said that is wrong.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.seen.lock().unwrap().wrong.clone()
    }

    /// Every address that was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen.lock().unwrap().asked.clone()
    }
}

const ROWS: &str = "table => [...document.querySelectorAll(table + ' tbody > tr')].map(row => ({
  key: row.dataset.key,
  ...Object.fromEntries([...row.cells].map(cell => {
    const bar = cell.querySelector('.level')?.dataset;
    const number = text => text === undefined ? null : Number(text);
    return [cell.dataset.column, {
      text: cell.innerText.trim(),
      values: [...cell.querySelectorAll('data')].map(it => Number(it.value)),
      bar: bar ? Object.fromEntries(['used', 'wait', 'promise', 'limit'].map(it => [it, number(bar[it])])) : null,
    }];
  })),
}))";
