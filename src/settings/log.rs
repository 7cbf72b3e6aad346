//! Section `log`: what is logged, and how a record looks.
//!
//! A filter is checked when it is read, because a mistake in it would otherwise show as a log that
//! is silent, in the hour in which it is needed.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Section `log`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section (with keys `log.KEY` or MONOCEROS__LOG__KEY)")]
pub struct LogSettings {
    /// What to log: a level, also per module. Default `info`.
    #[serde(deserialize_with = "filter")]
    pub filter: String,
    /// How a record looks. Default `text`.
    pub format: LogFormat,
}

/// How a log record looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("`{text}` is not a log format (`text` or `json`)")),
        }
    }
}

fn filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match check_filter(&text) {
        Ok(()) => Ok(text),
        Err(reason) => Err(D::Error::custom(format!("`{text}` is not a log filter: {reason}"))),
    }
}

/// Stricter than the library, which takes `infoo` for a module of which everything is to be
/// logged, and an empty text for `error`.
fn check_filter(text: &str) -> Result<(), String> {
    // Commas within the brackets of a span separate fields; the library checks those.
    let directives = text.split(',').filter(|_| !text.contains('['));
    for directive in directives {
        let (module, level) = directive.rsplit_once('=').unwrap_or(("", directive));
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "`{level}` is not a level (`off`, `error`, `warn`, `info`, `debug` or `trace`; also \
                 for a module, as in `info,monoceros::grpc=debug`)"
            ));
        }
        if module.contains(char::is_whitespace) {
            return Err(format!("`{module}` is not a module"));
        }
    }
    EnvFilter::try_new(text).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filter_is_levels_also_per_module() {
        for filter in ["info", "off", "WARN", "info,monoceros::grpc=debug", "warn,a[b{c=d}]=info"] {
            assert_eq!(check_filter(filter), Ok(()), "{filter}");
        }
        for filter in ["info,", "monoceros", "info, monoceros=debug", "monoceros="] {
            assert!(check_filter(filter).is_err(), "{filter}");
        }
    }
}
