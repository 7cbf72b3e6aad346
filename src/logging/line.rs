//! One event as a line: for people, or as a JSON object.
//!
//! # Why not the formatter of `tracing-subscriber`
//! It writes text from outside unchanged, apart from escape sequences in some places, and lines of
//! any length. The shape of its lines is kept.
//!
//! # Invariants
//! * Values are [cleaned](clean) in both forms, also where JSON would escape them: programs that
//!   read the log print the values as they read them.
//! * A value has at most [`VALUE_BYTES`] bytes before it is cleaned. The bytes cut off are counted.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value as Json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::clean::clean;
use super::kinds::KIND_FIELDS;
use crate::settings::LogFormat;

/// Longest value in bytes.
const VALUE_BYTES: usize = 16 << 10;

/// The field that holds the sentence of a line.
const MESSAGE: &str = "message";

/// The field that holds the target of records of the `log` crate.
const LOG_TARGET: &str = "log.target";

/// The fields of an event or span, in order.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

#[derive(Debug)]
enum Value {
    Text(String),
    /// A number or a Boolean.
    Plain(Json),
}

impl Value {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Plain(_) => None,
        }
    }
}

impl Fields {
    pub(super) fn push(&mut self, name: &'static str, count: u64) {
        self.0.push((name, Value::Plain(count.into())));
    }

    /// Returns the resource manager that the line is about.
    pub(super) fn rm(&self) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(name, _)| is_rm(name))?;
        value.text()
    }

    /// Returns the target of a record of the `log` crate, which is passed as a field.
    fn target(&self) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(name, _)| *name == LOG_TARGET)?;
        value.text()
    }

    fn shown(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter().filter(|(name, _)| !name.starts_with("log."))
    }

    fn text(&self, out: &mut String) {
        for (nth, (name, value)) in self.shown().enumerate() {
            if nth > 0 {
                out.push(' ');
            }
            if *name != MESSAGE {
                let _ = write!(out, "{}=", name.strip_prefix("r#").unwrap_or(name));
            }
            let _ = match value {
                Value::Text(text) if *name != MESSAGE && needs_quotes(text) => {
                    write!(out, "{}", clean(&format!("{text:?}")))
                }
                Value::Text(text) => write!(out, "{}", clean(text)),
                Value::Plain(value) => write!(out, "{value}"),
            };
        }
    }

    fn json(&self) -> Map<String, Json> {
        let pairs = self.shown().map(|(name, value)| {
            let value = match value {
                Value::Text(text) => clean(text).into(),
                Value::Plain(value) => value.clone(),
            };
            ((*name).to_owned(), value)
        });
        pairs.collect()
    }
}

/// Whether a value needs quotes to show where it ends. The form depends on the value alone, so that
/// a value looks the same in all lines.
fn needs_quotes(text: &str) -> bool {
    let is_special = |c: char| c.is_whitespace() || c.is_control() || "\"={}".contains(c);
    text.is_empty() || text.contains(is_special)
}

/// The kind of an event, read before the event is formatted.
#[derive(Debug, Default)]
pub(super) struct KindOf {
    /// The resource manager, or else the number of its session.
    pub(super) rm: Option<String>,
    /// Values that distinguish its kind from other kinds of its location in the code. May be empty.
    pub(super) kind: String,
}

impl KindOf {
    pub(super) fn event(event: &Event<'_>) -> Self {
        let mut kind = Self::default();
        event.record(&mut kind);
        kind
    }
}

impl Visit for KindOf {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if is_rm(field.name()) || field.name() == "session" && self.rm.is_none() {
            self.rm = Some(Cut::of(format_args!("{value:?}")));
        } else if KIND_FIELDS.contains(&field.name()) {
            let value = Cut::of(format_args!("{value:?}"));
            let _ = write!(self.kind, "{}={value};", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

fn is_rm(field: &str) -> bool {
    matches!(field, "rm" | "rm_id")
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), Value::Text(Cut::of(format_args!("{value:?}")))));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), Value::Text(Cut::of(format_args!("{value}")))));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.0.push((field.name(), Value::Text(Cut::of(format_args!("{value}")))));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Value::Plain(value.into())));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), Value::Plain(value.into())));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), Value::Plain(value.into())));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let text = || Value::Text(value.to_string());
        let number = serde_json::Number::from_f64(value);
        let value = number.map_or_else(text, |number| Value::Plain(number.into()));
        self.0.push((field.name(), value));
    }
}

/// A text cut to the longest value.
#[derive(Default)]
struct Cut {
    text: String,
    bytes_more: usize,
}

impl Cut {
    fn of(value: fmt::Arguments<'_>) -> String {
        let mut cut = Self::default();
        // An implementation that fails half-way has written a part, which is kept.
        let _ = cut.write_fmt(value);
        if cut.bytes_more > 0 {
            let _ = write!(cut.text, "… ({} bytes more)", cut.bytes_more);
        }
        cut.text
    }
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = if self.bytes_more > 0 { 0 } else { VALUE_BYTES - self.text.len() };
        let fits = |&bytes: &usize| text.is_char_boundary(bytes);
        let taken = (0..=room.min(text.len())).rev().find(fits).unwrap_or(0);
        self.text.push_str(&text[..taken]);
        self.bytes_more += text.len() - taken;
        Ok(())
    }
}

/// Form of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) format: LogFormat,
    pub(super) is_coloured: bool,
}

impl Style {
    /// Formats an event within `spans`, outermost first, with a newline.
    pub(super) fn line(
        self,
        place: &Metadata<'_>,
        spans: &[(&'static str, &Fields)],
        fields: &Fields,
    ) -> String {
        let target = fields.target().unwrap_or(place.target());
        self.written(*place.level(), target, spans, fields)
    }

    /// Formats a line of this module's own: a sentence and a count of lines.
    pub(super) fn own_line(self, level: Level, target: &str, sentence: &str, lines: u64) -> String {
        let sentence = (MESSAGE, Value::Text(sentence.to_owned()));
        let lines = ("lines", Value::Plain(lines.into()));
        self.written(level, target, &[], &Fields(vec![sentence, lines]))
    }

    fn written(
        self,
        level: Level,
        target: &str,
        spans: &[(&'static str, &Fields)],
        fields: &Fields,
    ) -> String {
        let mut line = match self.format {
            LogFormat::Text => self.text(level, target, spans, fields),
            LogFormat::Json => json(level, target, spans, fields).to_string(),
        };
        line.push('\n');
        line
    }

    fn text(
        self,
        level: Level,
        target: &str,
        spans: &[(&'static str, &Fields)],
        fields: &Fields,
    ) -> String {
        let mut line = now();
        let _ = if self.is_coloured {
            write!(line, " \u{1b}[{}m{level:>5}\u{1b}[0m ", colour(level))
        } else {
            write!(line, " {level:>5} ")
        };
        for (name, fields) in spans {
            line.push_str(name);
            if !fields.0.is_empty() {
                line.push('{');
                fields.text(&mut line);
                line.push('}');
            }
            line.push_str(": ");
        }
        let _ = write!(line, "{}: ", clean(target));
        fields.text(&mut line);
        line
    }
}

fn json(level: Level, target: &str, spans: &[(&'static str, &Fields)], fields: &Fields) -> Json {
    let span = |(name, fields): &(&'static str, &Fields)| {
        let mut span = fields.json();
        span.insert("name".to_owned(), (*name).into());
        Json::Object(span)
    };
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), now().into());
    line.insert("level".to_owned(), level.as_str().into());
    line.insert("fields".to_owned(), fields.json().into());
    line.insert("target".to_owned(), clean(target).into());
    if let Some(innermost) = spans.last() {
        line.insert("span".to_owned(), span(innermost));
        line.insert("spans".to_owned(), spans.iter().map(span).collect());
    }
    line.into()
}

/// Returns the time as lines show it.
fn now() -> String {
    let mut now = String::new();
    // A clock that cannot be shown gives an empty text.
    let _ = SystemTime.format_time(&mut Writer::new(&mut now));
    now
}

fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_values_are_quoted() {
        for (value, shown) in [
            ("rm-1", "rm-1"),
            ("root.a/b:c", "root.a/b:c"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a=b", r#""a=b""#),
            ("a\n", r#""a\n""#),
            ("x\"y", r#""x\"y""#),
            ("größe", "größe"),
        ] {
            let mut line = String::new();
            Fields(vec![("f", Value::Text(value.to_owned()))]).text(&mut line);
            assert_eq!(line, format!("f={shown}"));
        }
    }

    #[test]
    fn a_long_value_is_cut_and_states_the_rest() {
        let long = "ü".repeat(VALUE_BYTES);
        let cut = Cut::of(format_args!("{long}{long}"));
        let missing = 3 * VALUE_BYTES;
        assert!(cut.ends_with(&format!("ü… ({missing} bytes more)")), "{}", cut.len());
        assert!(cut.len() < VALUE_BYTES + 64);
    }
}
