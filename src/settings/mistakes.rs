//! All mistakes of a settings file at once, each with its place.
//!
//! # How they are found
//! A deserializer stops at the first mistake. So each key of the file is read by itself, on top of
//! the defaults: its error is its own. Values that contradict each other are looked for last, among
//! the keys without an error.
//!
//! # Invariants
//! * A file without mistakes of values is one that [`Settings`] can be read from.
//! * At most [`MOST`] mistakes are listed, and reading ends with them.

use std::ops::Range;

use config::{Config, ConfigError, Map, Source, Value, ValueKind};
use monoceros_actors::config::closest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DEFAULTS, Settings};
use crate::validate::Fault;

/// Most mistakes that are listed.
const MOST: usize = 100;

/// Returns the mistakes of the text by line: syntax, unknown keys and unusable values.
pub(super) fn of_values(text: &str) -> Vec<Fault> {
    Reading::of(text).found()
}

/// Returns the mistakes of the text by line, and the values that contradict each other.
pub fn all(text: &str) -> Vec<Fault> {
    let mut reading = Reading::of(text);
    reading.find_contradictions();
    reading.found()
}

/// A file while its mistakes are collected.
struct Reading<'t> {
    text: &'t str,
    /// The defaults, which are read once.
    defaults: Config,
    faults: Vec<Fault>,
    /// Each key with its place.
    keys: Vec<(String, Range<usize>)>,
    /// The values without a mistake.
    sound: Vec<Layer>,
}

/// A key on the way to a value.
#[derive(Clone)]
struct Step {
    name: String,
    span: Range<usize>,
}

impl<'t> Reading<'t> {
    fn of(text: &'t str) -> Self {
        let layer = config::File::from_str(DEFAULTS, config::FileFormat::Toml);
        let defaults = Config::builder().add_source(layer).build();
        let defaults = defaults.expect("a test reads the shipped defaults");
        let mut reading =
            Self { text, defaults, faults: Vec::new(), keys: Vec::new(), sound: Vec::new() };
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            reading.enter(table.get_ref(), &mut Vec::new());
        }
        for error in errors.into_iter().take(MOST) {
            reading.report(error.span(), "", error.message().to_owned());
        }
        reading
    }

    fn found(mut self) -> Vec<Fault> {
        self.faults.sort_by_key(|fault| (fault.line, fault.column));
        self.faults
    }

    fn report(&mut self, span: Option<Range<usize>>, path: &str, message: String) {
        let place = span.map(|span| place(self.text, span.start));
        let fault = Fault {
            code: None,
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            path: path.to_owned(),
            message,
        };
        // An unknown section is found with each of its keys.
        if self.faults.len() < MOST && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// Checks the values of a table, which the keys `above` lead to.
    fn enter(&mut self, table: &DeTable<'_>, above: &mut Vec<Step>) {
        for (key, value) in table {
            if self.faults.len() == MOST {
                return;
            }
            above.push(Step { name: key.get_ref().to_string(), span: key.span() });
            self.keys.push((path(above), key.span()));
            match value.get_ref() {
                DeValue::Table(below) if !below.is_empty() => self.enter(below, above),
                DeValue::Array(items) if items.iter().any(|it| it.get_ref().is_table()) => {
                    for item in items {
                        self.check(above, item, |value| Value::new(None, vec![value]));
                    }
                }
                _ => self.check(above, value, |value| value),
            }
            above.pop();
        }
    }

    /// Checks one value at the end of `above`.
    fn check(
        &mut self,
        above: &[Step],
        value: &Spanned<DeValue<'_>>,
        wrapped: impl FnOnce(Value) -> Value,
    ) {
        let read = match read(value.get_ref()) {
            Ok(read) => read,
            Err(message) => return self.report(Some(value.span()), &path(above), message),
        };
        let layer = Layer::new(above, wrapped(read));
        match settings(&self.defaults, [layer.clone()]) {
            Ok(_) => self.sound.push(layer),
            Err(error) => self.explain(&error, above, value),
        }
    }

    /// Reports the error of a value: of an unknown key at that key, else at the value.
    fn explain(&mut self, error: &ConfigError, above: &[Step], value: &Spanned<DeValue<'_>>) {
        let path = path(above);
        let message = error.to_string();
        // The place says the key.
        let message = message.rsplit_once(" for key `").map_or(&*message, |(before, _)| before);
        let Some((name, known)) = unknown_key(message) else {
            return self.report(Some(value.span()), &path, plain(message));
        };
        let message = match closest(name, known.iter().copied()) {
            Some(close) => format!("unknown key `{name}`; did you mean `{close}`?"),
            None => format!("unknown key `{name}`; known here: `{}`", known.join("`, `")),
        };
        if let Some(depth) = above.iter().position(|step| step.name == name) {
            let span = above[depth].span.clone();
            return self.report(Some(span), &self::path(&above[..=depth]), message);
        }
        let below = value.get_ref().as_table().into_iter().flatten();
        let inside = below.map(|(key, _)| key).find(|key| key.get_ref() == name);
        let span = inside.map_or_else(|| value.span(), Spanned::span);
        self.report(Some(span), &format!("{path}.{name}"), message);
    }

    /// Reports values that contradict each other, at the first key that the message names and the
    /// file sets.
    fn find_contradictions(&mut self) {
        let settings = settings(&self.defaults, self.sound.clone());
        for message in settings.map(|it| it.contradictions()).unwrap_or_default() {
            let named = message.split('`').skip(1).step_by(2);
            let mut found = named.filter_map(|name| self.keys.iter().find(|(key, _)| key == name));
            let (path, span) = found.next().cloned().unzip();
            self.report(span, &path.unwrap_or_default(), message);
        }
    }
}

/// Reads the settings of some layers on top of the defaults.
fn settings(
    defaults: &Config,
    layers: impl IntoIterator<Item = Layer>,
) -> Result<Settings, ConfigError> {
    let mut builder = Config::builder().add_source(defaults.clone());
    for layer in layers {
        builder = builder.add_source(layer);
    }
    builder.build()?.try_deserialize()
}

fn path(steps: &[Step]) -> String {
    steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>().join(".")
}

/// Returns line and column of a byte, counted from 1, the column in characters.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns the name in the error of an unknown key, and the known ones.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

/// Returns the message with plain words in place of the name of a type.
fn plain(message: &str) -> String {
    match message.rsplit_once("expected a nonzero ") {
        Some((before, _)) => format!("{before}expected a whole number above 0"),
        None => message.to_owned(),
    }
}

/// Converts a value, as the reader of whole files does.
fn read(value: &DeValue<'_>) -> Result<Value, String> {
    let kind = match value {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            ValueKind::I64(parsed.map_err(|_| "the number is too large".to_owned())?)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse().map_err(|_| "it is no number".to_owned())?;
            ValueKind::Float(parsed)
        }
        DeValue::Boolean(truth) => ValueKind::Boolean(*truth),
        DeValue::Datetime(time) => ValueKind::String(time.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| read(item.get_ref()));
            ValueKind::Array(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                Ok((ToString::to_string(key.get_ref()), read(value.get_ref())?))
            };
            ValueKind::Table(table.iter().map(entry).collect::<Result<_, String>>()?)
        }
    };
    Ok(Value::new(None, kind))
}

/// One value of the file, as a source of settings.
#[derive(Clone, Debug)]
struct Layer(Map<String, Value>);

impl Layer {
    fn new(above: &[Step], value: Value) -> Self {
        let within = |inner, step: &Step| Map::from_iter([(step.name.clone(), inner)]);
        let (top, below) = above.split_first().expect("a value has a key");
        let inner =
            below.iter().rev().fold(value, |inner, step| Value::new(None, within(inner, step)));
        Self(within(inner, top))
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: &Expect) {
        let found: Vec<_> = all(text).iter().map(Fault::text).collect();
        expected.assert_eq(&found.join("\n"));
    }

    #[test]
    fn the_shipped_file_has_no_mistakes() {
        check(DEFAULTS, &expect![[""]]);
        check("", &expect![[""]]);
    }

    #[test]
    fn every_mistake_is_found_with_its_place() {
        let text = "[grpc]\n\
            adress = \"127.0.0.1:1\"\n\
            send_chunk_items = 0\n\
            max_connections = 5\n\
            \n\
            [grcp]\n\
            address = \"127.0.0.1:1\"\n\
            queues = 1\n\
            [log]\n\
            format = \"xml\"\n\
            filter = 'infoo'\n\
            [session]\n\
            attach_timeout = \"soon\"\n\
            outbox = 3\n\
            [[identity.rules]]\n\
            token = \"ops\"\n\
            rmids = [\"a\"]\n\
            [[identity.rules]]\n\
            token = \"shim\"\n\
            [rest.tls]\n\
            client_auth = 2026-01-01\n";
        check(
            text,
            &expect![[r#"
                line 2, column 1, grpc.adress: unknown key `adress`; did you mean `address`?
                line 3, column 20, grpc.send_chunk_items: invalid value: integer `0`, expected a whole number above 0
                line 6, column 2, grcp: unknown key `grcp`; did you mean `grpc`?
                line 10, column 10, log.format: `xml` is not a log format (`text` or `json`)
                line 11, column 10, log.filter: `infoo` is not a log filter: `infoo` is not a level (`off`, `error`, `warn`, `info`, `debug` or `trace`; also for a module, as in `info,monoceros::grpc=debug`)
                line 13, column 18, session.attach_timeout: `soon` is not a span of time (a number of seconds, `200ms`, `90s`, `2m` or `1h`)
                line 14, column 1, session.outbox: unknown key `outbox`; known here: `attach_timeout`, `pause_timeout`, `on_stream_loss`, `delivery_grace`, `outbox_bytes`, `ingress_bytes`, `gap_timeout`, `reorder_window`, `reorder_items`, `strict_enums`, `legacy_memory_unit`, `legacy_node_recommendations`, `priority_classes`, `tombstone_ttl`
                line 17, column 1, identity.rules.rmids: unknown key `rmids`; did you mean `rm_ids`?
                line 18, column 1, identity.rules: an identity rule grants something: `rm_ids`, `read` or `admin`
                line 21, column 15, rest.tls.client_auth: `2026-01-01` is not `none`, `optional` or `required`"#]],
        );
    }

    #[test]
    fn contradictions_name_the_key_in_the_file() {
        let text = "[scheduler]\nstart_retry = 90\nreservation_share = 200\n[session]\n\
                    delivery_grace = 1\n[quotas]\nbytes = \"x\"\n";
        check(
            text,
            &expect![[r#"
            line 2, column 1, scheduler.start_retry: `scheduler.start_retry_max` (60s) is less than `scheduler.start_retry` (90s)
            line 3, column 1, scheduler.reservation_share: `scheduler.reservation_share` (200) is more than 100 percent
            line 5, column 1, session.delivery_grace: `session.delivery_grace` (1s) is not more than `grpc.keepalive_interval` and `grpc.keepalive_timeout` together (40s): what a lost connection took along would be forgotten before it is known to be lost (0 keeps nothing at all)
            line 7, column 9, quotas.bytes: invalid type: string "x", expected an integer"#]],
        );
        assert_eq!(of_values(text).len(), 1);
    }

    #[test]
    fn syntax_errors_are_listed_together() {
        check(
            "[grpc\naddress = \n[log]\nformat = \"text\n",
            &expect![[r#"
            line 1, column 6: unclosed table, expected `]`
            line 4, column 15: invalid basic string, expected `"`"#]],
        );
    }

    #[test]
    fn hostile_files_are_read_in_bounded_time() {
        let many: Vec<_> = (0..5_000).map(|n| format!("key{n} = 1")).collect();
        assert_eq!(all(&many.join("\n")).len(), MOST);
        let deep = format!("a = {}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(!all(&deep).is_empty());
        check(
            "\"a.b\" = 1\n\"\u{1b}\" = 2\n",
            &expect![[
                r#"line 2, column 2: invalid basic string, expected non-double-quote visible characters, `\`"#
            ]],
        );
    }
}
