//! The log of the service, which never fails or blocks its writers.
//!
//! ```text
//! event ─▶ filter ─▶ kinds: one a second? ─▶ line: cleaned, cut ─▶ queue ─▶ thread ─▶ stderr
//!                        └ left out, counted                      └ full: lost, counted
//! ```
//!
//! # Why
//! Standard error may be a pipe without a reader, or a file on a full disk. The threads that decide
//! write to the log, so a write that blocks or panics would stop the cluster. And outside callers
//! who can cause lines could fill the disk.
//!
//! # Invariants
//! * Logging never waits for a reader and never panics: lines go to a bounded queue (`writer`).
//!   Panics of other threads are logged, too.
//! * Of `info` and above, at most one line is written per kind, resource manager and second
//!   (`kinds`). Records, such as acts of administrators ([`AUDIT`]), are exempt. `debug` and
//!   `trace` are bounded by the queue alone.
//! * Text from outside cannot end a line or control a terminal ([`clean`]).
//! * Every line is counted: written, dropped by the rate limit, or lost. Dropped and lost lines are
//!   reported in the log.

mod clean;
mod kinds;
mod line;
mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, error, info, warn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, SpanRef};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

pub use self::clean::{clean, clean_json, clean_lines};
use self::kinds::{Kinds, Verdict, is_record};
use self::line::{Fields, KindOf, Style};
pub use self::writer::LineCounts;
use self::writer::{Class, Lines, PeriodicWork, WriteFailure};
use crate::settings::{LogFormat, LogSettings, WrongSettings};

/// The target of lines that state who did what. They are never dropped.
pub const AUDIT: &str = "monoceros::audit";

/// The target of the few lines about the log itself.
const SELF: &str = "monoceros::logging";

/// Most kinds whose dropped lines are reported in a second.
const OVERDUE_REPORTS: usize = 16;

/// Time limit for writing the last lines when the process ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The log of this process. Dropping it gives the last lines a second to be written.
#[derive(Debug)]
pub struct Log(LogControl);

/// Reads the state of the log, and changes its filter.
#[derive(Clone, Debug)]
pub struct LogControl {
    lines: Lines,
    failure: WriteFailure,
    /// `None` if the filter belongs to another subscriber.
    filter: Option<reload::Handle<EnvFilter, Registry>>,
}

impl Log {
    /// Starts the log on standard error. All events and panics go there from then on. Call it
    /// within a tokio runtime, once in a process.
    pub fn start(settings: &LogSettings) -> anyhow::Result<Self> {
        let filter = EnvFilter::try_new(&settings.filter)
            .map_err(|error| anyhow::anyhow!("`log.filter`: {error}").context(WrongSettings))?;
        // The system sends a signal when a file may not grow. Uncaught, the signal would end the
        // process; caught, only the write fails. It stays caught when this value is dropped.
        let _ = signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?;
        let is_coloured = is_coloured(
            io::stderr().is_terminal(),
            settings.format,
            std::env::var_os("NO_COLOR").as_deref(),
        );
        let style = Style { format: settings.format, is_coloured };
        let (layer, mut account) = start(io::stderr(), style)?;
        let (filter, control) = reload::Layer::new(filter);
        account.filter = Some(control);
        Registry::default().with(filter).with(layer).try_init()?;
        panic::set_hook(Box::new(log_panic));
        Ok(Self(account))
    }

    /// Returns the state of the log.
    pub fn account(&self) -> LogControl {
        self.0.clone()
    }
}

/// Whether levels are in colour. A `NO_COLOR` that is not empty switches colours off
/// (<https://no-color.org>).
fn is_coloured(is_terminal: bool, format: LogFormat, no_color: Option<&OsStr>) -> bool {
    is_terminal && format == LogFormat::Text && no_color.is_none_or(OsStr::is_empty)
}

impl LogControl {
    /// Applies another filter from the next event on. Does nothing if the log was not
    /// [started](Log::start) for the process.
    pub fn set_filter(&self, filter: &str) -> anyhow::Result<()> {
        let filter = EnvFilter::try_new(filter)?;
        if let Some(control) = &self.filter {
            control.reload(filter)?;
        }
        Ok(())
    }

    /// Returns the counts of lines.
    pub fn counts(&self) -> LineCounts {
        self.lines.counts()
    }

    /// Waits until lines cannot be written, and returns the reason.
    pub async fn unwritable(&mut self) -> String {
        loop {
            if let Some(why) = self.failure.borrow_and_update().clone() {
                return why;
            }
            if self.failure.changed().await.is_err() {
                // The thread has ended, with the process.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until lines can be written again.
    pub async fn writable(&mut self) {
        // The channel closes only when the process ends.
        let _ = self.failure.wait_for(Option::is_none).await;
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.lines.flush(LAST_LINES);
    }
}

/// Makes the layer that formats events and writes them to `out`, for a subscriber with other
/// layers. The caller applies `log.filter`. Keep the [`Log`] until the process ends: dropping it
/// writes the last lines.
pub fn layer(
    out: impl Write + Send + 'static,
    settings: &LogSettings,
) -> io::Result<(LogLayer, Log)> {
    let style = Style { format: settings.format, is_coloured: false };
    start(out, style).map(|(layer, account)| (layer, Log(account)))
}

fn start(out: impl Write + Send + 'static, style: Style) -> io::Result<(LogLayer, LogControl)> {
    let kinds = Arc::new(Mutex::new(Kinds::default()));
    let began = Instant::now();
    let work = Housekeeping { kinds: Arc::clone(&kinds), began, style };
    let (lines, failure) = Lines::start(out, work)?;
    let layer = LogLayer { lines: lines.clone(), kinds, began, style };
    Ok((layer, LogControl { lines, failure, filter: None }))
}

/// Formats events as lines.
#[derive(Debug)]
pub struct LogLayer {
    lines: Lines,
    kinds: Arc<Mutex<Kinds>>,
    began: Instant,
    style: Style,
}

impl LogLayer {
    /// Returns how many lines of its kind were dropped before this one. `None` if this one is
    /// dropped, too.
    fn admit(&self, event: &Event<'_>, rm_of_span: Option<&str>) -> Option<u64> {
        let place = event.metadata();
        let of = KindOf::event(event);
        let rm = of.rm.as_deref().or(rm_of_span).unwrap_or_default();
        let now = self.began.elapsed();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        match kinds.admit(place, rm, &of.kind, now) {
            Verdict::Write { left_out } => Some(left_out),
            Verdict::LeftOut => None,
        }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let place = event.metadata();
        let class = class_of(place);
        let spans: Vec<_> = ctx.event_scope(event).into_iter().flatten().collect();
        let extensions: Vec<_> = spans.iter().rev().map(|span| span.extensions()).collect();
        let fields_of = extensions.iter().map(|extensions| extensions.get::<Fields>());
        let names = spans.iter().rev().map(SpanRef::name);
        let spans: Vec<_> =
            names.zip(fields_of).filter_map(|(name, fields)| Some((name, fields?))).collect();
        let mut left_out = 0;
        if class == Class::News && place.target() != SELF && !is_record(place) {
            let rm = spans.iter().rev().find_map(|(_, fields)| fields.rm());
            match self.admit(event, rm) {
                Some(before) => left_out = before,
                None => return self.lines.leave_out(),
            }
        }
        if !self.lines.have_room(class) {
            return self.lines.lose();
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        if left_out > 0 {
            fields.push("left_out", left_out);
        }
        self.lines.put(class, self.style.line(place, &spans, &fields));
    }
}

fn class_of(place: &Metadata<'_>) -> Class {
    match *place.level() {
        _ if place.target() == AUDIT => Class::Audit,
        Level::DEBUG | Level::TRACE => Class::Detail,
        _ => Class::News,
    }
}

/// Work that is due every second.
struct Housekeeping {
    kinds: Arc<Mutex<Kinds>>,
    began: Instant,
    style: Style,
}

impl PeriodicWork for Housekeeping {
    fn lost(&self, lines: u64) -> String {
        self.style.own_line(Level::WARN, SELF, "lines of the log were lost", lines)
    }

    fn tick(&mut self) {
        let now = self.began.elapsed();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let overdue = kinds.overdue(now, OVERDUE_REPORTS);
        drop(kinds);
        for kinds::Overdue { place, rm, left_out } in overdue {
            let (target, line) = (place.target(), place.line().unwrap_or_default());
            if *place.level() == Level::INFO {
                info!(target: SELF, rm = &*rm, of = target, line, left_out, "lines of a kind were left out");
            } else {
                warn!(target: SELF, rm = &*rm, of = target, line, left_out, "lines of a kind were left out");
            }
        }
    }
}

/// Logs a panic, which the thread itself would write to standard error.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = match panic.payload().downcast_ref::<String>() {
        Some(text) => text.as_str(),
        None => panic.payload().downcast_ref::<&str>().copied().unwrap_or("(no text)"),
    };
    let thread = thread::current();
    let thread = thread.name().unwrap_or("(no name)");
    let backtrace = Backtrace::capture();
    // The location of the panic distinguishes kinds.
    if backtrace.status() == BacktraceStatus::Captured {
        error!(target: "monoceros::panic", thread, kind = place, message, %backtrace);
    } else {
        error!(target: "monoceros::panic", thread, kind = place, message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tracing::{debug, error_span};

    use super::*;

    /// The bytes written.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat, log: impl FnOnce()) -> Vec<String> {
        let paper = Paper::default();
        let settings = LogSettings { filter: "debug".to_owned(), format };
        let (layer, written) = layer(paper.clone(), &settings).unwrap();
        tracing::subscriber::with_default(Registry::default().with(layer), log);
        written.0.lines.flush(Duration::from_secs(15));
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn some_lines() {
        let span = error_span!("partition", rm = "rm-1", id = "default");
        let _entered = span.enter();
        let path = std::path::Path::new("/a\nb");
        info!(rm = "rm-2", n = 3, ok = true, path = %path.display(), text = "a \"b\"\n", "done");
        debug!("nothing else");
    }

    #[test]
    fn a_text_line_has_time_level_place_and_fields() {
        let lines = written(LogFormat::Text, some_lines);
        let (time, rest) = lines[0].split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        assert_eq!(
            rest,
            r#" INFO partition{rm=rm-1 id=default}: monoceros::logging::tests: done rm=rm-2 n=3 ok=true path="/a\nb" text="a \"b\"\n""#
        );
        assert!(lines[1].ends_with("monoceros::logging::tests: nothing else"), "{}", lines[1]);
    }

    #[test]
    fn a_json_line_has_the_same_content() {
        let lines = written(LogFormat::Json, some_lines);
        let mut line: Value = serde_json::from_str(&lines[0]).unwrap();
        assert!(line["timestamp"].take().is_string());
        assert_eq!(
            line,
            json!({
                "timestamp": null,
                "level": "INFO",
                "target": "monoceros::logging::tests",
                "fields": {
                    "message": "done",
                    "rm": "rm-2",
                    "n": 3,
                    "ok": true,
                    "path": "/a\\nb",
                    "text": "a \"b\"\\n",
                },
                "span": { "name": "partition", "rm": "rm-1", "id": "default" },
                "spans": [{ "name": "partition", "rm": "rm-1", "id": "default" }],
            })
        );
    }

    #[test]
    fn the_rate_limit_exempts_records_and_details() {
        let lines = written(LogFormat::Text, || {
            for n in 0..100 {
                warn!(rm = "a", n, "a warning");
                info!(target: AUDIT, rm = "a", n, "a record");
                info!(file = "f", "another");
                debug!(n, "a detail");
            }
        });
        let n_with = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        let found = ["a warning", "a record", "another", "a detail"].map(n_with);
        assert_eq!(found, [1, 100, 100, 100]);
    }

    #[test]
    fn colours_need_a_terminal_and_no_opt_out() {
        for (is_terminal, format, no_color, expected) in [
            (true, LogFormat::Text, None, true),
            (true, LogFormat::Text, Some(""), true),
            (true, LogFormat::Text, Some("1"), false),
            (true, LogFormat::Json, None, false),
            (false, LogFormat::Text, None, false),
        ] {
            assert_eq!(is_coloured(is_terminal, format, no_color.map(OsStr::new)), expected);
        }
    }

    #[test]
    fn the_manager_of_a_span_tells_lines_apart() {
        let lines = written(LogFormat::Text, || {
            for rm in ["a", "b", "a", "b"] {
                let span = error_span!("partition", rm);
                let _entered = span.enter();
                warn!("a warning");
            }
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
