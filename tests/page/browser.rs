//! A headless Chromium and its tabs. A tab records its errors and requests. A test waits for
//! visible content, never for a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::devtools::{DevTools, PATIENCE};
use crate::harness::programs::{on_path, skipped};

/// Names of a Chromium on the path.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Number of browsers started: each has a profile of its own.
static N_PROFILES: AtomicUsize = AtomicUsize::new(0);

/// The browser that running tests share, because starting one takes longer than most tests.
static RUNNING: Mutex<Weak<Process>> = Mutex::new(Weak::new());

/// A browser's process with its profile, which is removed with it.
struct Process {
    tools: Option<DevTools>,
    profile: PathBuf,
}

impl Process {
    /// Returns the running browser, or a new one.
    fn shared(program: &Path) -> Arc<Self> {
        let mut running = RUNNING.lock().unwrap();
        if let Some(process) = running.upgrade() {
            return process;
        }
        let number = N_PROFILES.fetch_add(1, Ordering::Relaxed);
        let profile = format!("monoceros-chromium-{}-{number}", std::process::id());
        let profile = std::env::temp_dir().join(profile);
        let tools = Some(DevTools::launch(program, &profile));
        let process = Arc::new(Self { tools, profile });
        *running = Arc::downgrade(&process);
        process
    }

    fn tools(&self) -> &DevTools {
        self.tools.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The browser writes to its profile until it has ended.
        drop(self.tools.take());
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// A browser for one test, with its own windows and storage, in a shared process.
pub(crate) struct Chromium {
    process: Arc<Process>,
    /// The id of the test's browser context.
    context: Value,
}

impl Chromium {
    /// Starts a browser. Prints a message if there is none.
    pub(crate) async fn start() -> Option<Self> {
        let Some(program) = NAMES.iter().find_map(|name| on_path(name)) else {
            skipped("there is no Chromium on the path for the tests of the page");
            return None;
        };
        let process = Process::shared(&program);
        let made = process.tools().call(None, "Target.createBrowserContext", json!({})).await;
        let context = made.unwrap()["browserContextId"].take();
        Some(Self { process, context })
    }

    /// Opens a new, empty tab.
    pub(crate) async fn tab(&self) -> Tab {
        let tools = self.process.tools();
        let blank = json!({"url": "about:blank", "browserContextId": self.context});
        let target = tools.call(None, "Target.createTarget", blank).await.unwrap();
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = tools.call(None, "Target.attachToTarget", attach).await.unwrap();
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let seen = Arc::<Mutex<Seen>>::default();
        let noted = Arc::clone(&seen);
        tools.listen(&session, move |method, event| {
            noted.lock().unwrap().note(method, event);
        });
        let tab = Tab { process: Arc::clone(&self.process), session, seen };
        for domain in ["Log.enable", "Network.enable", "Page.enable", "Runtime.enable"] {
            tab.call(domain, json!({})).await;
        }
        tab
    }

    /// Closes its tabs and deletes their storage.
    pub(crate) async fn end(self) {
        let context = json!({"browserContextId": self.context});
        let ended = self.process.tools().call(None, "Target.disposeBrowserContext", context).await;
        ended.unwrap();
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// Errors and warnings of the console.
    wrong: Vec<String>,
    /// Requested addresses.
    asked: Vec<String>,
}

impl Seen {
    /// Records an event of the tab.
    fn note(&mut self, method: &str, event: &Value) {
        match method {
            "Runtime.consoleAPICalled" if event["type"] == "error" => {
                self.wrong.push(event["args"].to_string());
            }
            "Runtime.exceptionThrown" => self.wrong.push(event["exceptionDetails"].to_string()),
            // Failed requests are up to the test: a removed partition is no fault of the page.
            "Log.entryAdded" => {
                let entry = &event["entry"];
                if entry["level"] == "error" && entry["source"] != "network" {
                    self.wrong.push(entry["text"].to_string());
                }
            }
            "Network.requestWillBeSent" => {
                let address = event["request"]["url"].as_str().unwrap();
                self.asked.push(address.to_owned());
            }
            _ => {}
        }
    }
}

/// A tab with the page.
pub(crate) struct Tab {
    process: Arc<Process>,
    session: String,
    seen: Arc<Mutex<Seen>>,
}

impl Tab {
    /// Opens an address and waits until the page is loaded.
    pub(crate) async fn open(&self, address: &str) {
        let gone = self.call("Page.navigate", json!({"url": address})).await;
        assert_eq!(gone.get("errorText"), None, "{address}");
        self.until("document.readyState === 'complete'").await;
        self.until("document.querySelector('main h1') !== null").await;
    }

    /// Runs a script in every later document, before its own scripts.
    pub(crate) async fn before_all(&self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": script})).await;
    }

    pub(crate) async fn value<T: DeserializeOwned>(&self, expression: &str) -> T {
        let found = self.evaluate(expression).await;
        let found = found.unwrap_or_else(|error| panic!("{expression}: {error}"));
        serde_json::from_value(found).unwrap()
    }

    /// Returns the value of an expression, or the error.
    async fn evaluate(&self, expression: &str) -> Result<Value, String> {
        let wanted = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let session = Some(self.session.as_str());
        let mut found = self.process.tools().call(session, "Runtime.evaluate", wanted).await?;
        match found.get("exceptionDetails") {
            Some(thrown) => Err(thrown.to_string()),
            None => Ok(found["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let reached = async {
            // A document that is being replaced does not answer.
            while self.evaluate(expression).await != Ok(Value::Bool(true)) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(PATIENCE, reached).await.is_err() {
            let shown: String = self.value("document.body.innerText").await;
            panic!("never true: {expression}\n{shown}");
        }
    }

    /// Waits until a text is shown.
    pub(crate) async fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (Value::from(selector), Value::from(text));
        let shown = "(it => it !== null && it.innerText.includes";
        self.until(&format!("{shown}({text}))(document.querySelector({selector}))")).await;
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        let selector = Value::from(selector);
        self.value(&format!("document.querySelector({selector}).innerText.trim()")).await
    }

    /// Clicks the middle of an element with the mouse.
    pub(crate) async fn click(&self, selector: &str) {
        let (x, y): (f64, f64) =
            self.value(&format!("({MIDDLE})({})", Value::from(selector))).await;
        let event = |kind: &str| json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y})).await;
        self.call("Input.dispatchMouseEvent", event("mousePressed")).await;
        self.call("Input.dispatchMouseEvent", event("mouseReleased")).await;
    }

    /// Types a text into the focused element.
    pub(crate) async fn write(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// Presses a key: a character, or a named key.
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
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if let Some(text) = text {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event).await;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", up).await;
    }

    /// Selects a value of a field, as a person would.
    pub(crate) async fn choose(&self, selector: &str, value: &str) {
        let (selector, value) = (Value::from(selector), Value::from(value));
        let choose = "it.dispatchEvent(new Event('change', {bubbles: true})); return true";
        let script = format!(
            "(() => {{ const it = document.querySelector({selector}); it.value = {value}; {choose} }})()"
        );
        assert!(self.value::<bool>(&script).await);
    }

    /// Brings the tab to the front.
    pub(crate) async fn show(&self) {
        self.call("Page.bringToFront", json!({})).await;
    }

    /// Sets the system's preference for dark or light.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]})).await;
    }

    /// Sets the size of the screen.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Writes a picture of a screen of this size, scaled.
    pub(crate) async fn picture(&self, path: &Path, width: f64, height: f64, scale: f64) {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": scale});
        let picture = self.call("Page.captureScreenshot", json!({"clip": clip})).await;
        let picture = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, picture).unwrap();
    }

    /// Returns the rows of a table: each with its key, and for each column the text, its exact
    /// values, and the label of its bar.
    pub(crate) async fn rows(&self, table: &str) -> Vec<Value> {
        let table = Value::from(table);
        self.value(&format!("({ROWS})({table})")).await
    }

    /// Returns the errors of the console.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.seen.lock().unwrap().wrong.clone()
    }

    /// Returns every requested address.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen.lock().unwrap().asked.clone()
    }

    /// Calls a method of the protocol that always succeeds.
    async fn call(&self, method: &str, parameters: Value) -> Value {
        let answer = self.process.tools().call(Some(&self.session), method, parameters).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }
}

/// Returns the middle of an element, which is scrolled into view.
const MIDDLE: &str = "selector => {
  const it = document.querySelector(selector);
  it.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  const {x, y, width, height} = it.getBoundingClientRect();
  return [x + width / 2, y + height / 2];
}";

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
