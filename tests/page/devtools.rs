//! The few calls of the Chrome DevTools Protocol that the tests need, over the browser's pipe.
//!
//! # Why not a crate
//!
//! The crates for this protocol are generated from all of it: hundreds of thousands of lines, a
//! minute of building and gigabytes of memory, for a dozen calls. Here a call is a name with JSON
//! parameters, and a browser started with `--remote-debugging-pipe` needs no WebSocket: each
//! message is JSON that ends in a zero byte, read from the browser's file descriptor 3 and written
//! to its 4.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Longest wait for a call, sufficient for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The shell connects the browser's descriptors, which the standard library cannot do: this process
/// writes to the child's input, its descriptor 3, and reads from its output, its descriptor 4.
const CONNECT: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#;

/// Receives the events of one tab: the method, and its parameters.
type Listener = Box<dyn FnMut(&str, &Value) + Send>;

/// State that calls share with the reader of answers.
#[derive(Default)]
struct Shared {
    /// Unanswered calls, by number.
    calls: Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>,
    /// Listeners by session.
    listeners: Mutex<HashMap<String, Listener>>,
}

impl Shared {
    /// Passes an answer to its call, or an event to its session's listener.
    fn take(&self, mut message: Value) {
        if let Some(number) = message["id"].as_u64() {
            let Some(call) = self.calls.lock().unwrap().remove(&number) else { return };
            let answer = match message.get("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(message["result"].take()),
            };
            // The caller may have given up.
            let _ = call.send(answer);
        } else if let (Some(method), Some(session)) =
            (message["method"].as_str(), message["sessionId"].as_str())
            && let Some(listener) = self.listeners.lock().unwrap().get_mut(session)
        {
            listener(method, &message["params"]);
        }
    }

    /// Reads messages until the browser ends. Then unanswered calls fail.
    fn read(&self, output: ChildStdout) {
        let mut output = BufReader::new(output);
        let mut message = Vec::new();
        while matches!(output.read_until(0, &mut message), Ok(1..)) {
            if message.pop_if(|last| *last == 0).is_none() {
                break;
            }
            self.take(serde_json::from_slice(&message).unwrap());
            message.clear();
        }
        self.calls.lock().unwrap().clear();
    }
}

/// A browser's process with its connection. Tests may call at the same time, each from its own
/// runtime. A thread reads the answers. Dropping it ends the browser.
pub(crate) struct DevTools {
    child: Child,
    input: Mutex<ChildStdin>,
    shared: Arc<Shared>,
    n_calls: AtomicU64,
}

impl DevTools {
    /// Starts a browser with its own profile, and connects to it.
    pub(crate) fn launch(program: &Path, profile: &Path) -> Self {
        let mut profile_argument = std::ffi::OsString::from("--user-data-dir=");
        profile_argument.push(profile);
        let mut child = Command::new("sh")
            .args(["-c", CONNECT])
            .arg(program)
            .arg(profile_argument)
            .args([
                "--remote-debugging-pipe",
                "--headless=new",
                "--no-sandbox",
                "--no-first-run",
                "--no-default-browser-check",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-default-apps",
                "--disable-dev-shm-usage",
                "--disable-extensions",
                "--disable-sync",
                "--window-size=1360,900",
                "about:blank",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shared = Arc::<Shared>::default();
        let reader = Arc::clone(&shared);
        std::thread::spawn(move || reader.read(output));
        Self { child, input: Mutex::new(input), shared, n_calls: AtomicU64::new(0) }
    }

    /// Calls a method of the browser, or of the tab of a session.
    ///
    /// # Errors
    /// The browser's message: the method is unknown, or failed.
    pub(crate) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> Result<Value, String> {
        let number = self.n_calls.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let (call, answer) = oneshot::channel();
        self.shared.calls.lock().unwrap().insert(number, call);
        self.input.lock().unwrap().write_all(&bytes).map_err(|error| error.to_string())?;
        let answer = timeout(PATIENCE, answer).await;
        let answer = answer.map_err(|_| format!("no answer to {method}"))?;
        answer.map_err(|_| format!("the browser ended before it answered {method}"))?
    }

    /// Calls the listener with every later event of a session.
    pub(crate) fn listen(
        &self,
        session: &str,
        listener: impl FnMut(&str, &Value) + Send + 'static,
    ) {
        self.shared.listeners.lock().unwrap().insert(session.to_owned(), Box::new(listener));
    }
}

impl Drop for DevTools {
    fn drop(&mut self) {
        // The profile is deleted, so an abrupt end is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
