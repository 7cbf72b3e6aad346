//! Section `log`: the filter and the format of log lines.
//!
//! The filter is checked when it is read. Otherwise a mistake would silence the log, and be noticed
//! only when the log is needed.

use config::{Environment, Source as _};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::SettingsError;

/// Section `log`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section (with keys `log.KEY` or MONOCEROS__LOG__KEY)")]
pub struct LogSettings {
    /// Levels to log, also per module. Default `info`.
    #[serde(deserialize_with = "filter")]
    pub filter: String,
    /// Format of log lines. Default `text`.
    pub format: LogFormat,
}

/// The filter variable that many Rust programs share.
pub(super) const RUST_LOG: &str = "RUST_LOG";

impl LogSettings {
    /// Takes the filter from [`RUST_LOG`], unless an environment variable of our own sets one.
    /// `RUST_LOG` is checked less strictly than the setting, as in other programs: it may be meant
    /// for several programs.
    pub(super) fn follow(
        &mut self,
        rust_log: Option<&str>,
        environment: &Environment,
    ) -> Result<(), SettingsError> {
        let Some(filter) = rust_log.filter(|filter| !filter.trim().is_empty()) else {
            return Ok(());
        };
        let own = environment.collect().unwrap_or_default();
        if own.contains_key("log.filter") {
            return Ok(());
        }
        if let Err(error) = EnvFilter::try_new(filter) {
            let text = format!("environment: {RUST_LOG}: `{filter}` is not a log filter: {error}");
            return Err(SettingsError::Contradictory(text));
        }
        filter.clone_into(&mut self.filter);
        Ok(())
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LogFormat {
    /// One line of text per event.
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

/// Checks a filter. Stricter than the library, which takes `infoo` for a module name, and an empty
/// text for `error`.
fn check_filter(text: &str) -> Result<(), String> {
    // Commas within the brackets of a span separate fields, which the library checks.
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
    use std::collections::HashMap;

    use super::super::environment::environment;
    use super::*;

    #[test]
    fn rust_log_applies_without_our_own_filter() {
        let own = |filter: &[(&str, &str)]| {
            let own = filter.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            environment().source(Some(own.collect::<HashMap<_, _>>()))
        };
        let followed = |rust_log, environment: &Environment| {
            let filter = "warn".to_owned();
            let mut settings = LogSettings { filter, format: LogFormat::Text };
            settings.follow(rust_log, environment).map(|()| settings.filter)
        };
        assert_eq!(followed(None, &own(&[])).unwrap(), "warn");
        assert_eq!(followed(Some(" "), &own(&[])).unwrap(), "warn");
        // As in other programs, a module without a level means all its levels.
        for filter in ["debug,hyper=off", "monoceros"] {
            assert_eq!(followed(Some(filter), &own(&[])).unwrap(), filter);
        }
        let set = own(&[("MONOCEROS__LOG__FILTER", "error")]);
        assert_eq!(followed(Some("debug"), &set).unwrap(), "warn");
        let other = own(&[("MONOCEROS__LOG__FORMAT", "json")]);
        assert_eq!(followed(Some("debug"), &other).unwrap(), "debug");
        let error = followed(Some("a=b=c"), &own(&[])).unwrap_err().to_string();
        assert!(error.contains("RUST_LOG") && error.contains("`a=b=c`"), "{error}");
    }

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
