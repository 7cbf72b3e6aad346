//! Settings from environment variables: `MONOCEROS__SECTION__KEY`.
//!
//! Two underscores separate, because keys have single ones in them. A variable with one too few
//! would be ignored in silence, so such are looked for and told.

use config::Environment;

use crate::cli::GRPC_VARIABLE;

/// Environment variables that start with this and two underscores are settings.
const ENVIRONMENT_PREFIX: &str = "MONOCEROS";

/// A variable that other schedulers of this interface know, too: whether no ask reserves a node for
/// its age. It counts as part of the environment.
pub(super) const DISABLE_RESERVATION: &str = "DISABLE_RESERVATION";

/// Whether the value of [`DISABLE_RESERVATION`] says so.
pub(super) fn disables(value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("" | "0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(false),
        Some("1" | "t" | "T" | "true" | "True" | "TRUE") => Ok(true),
        Some(other) => {
            Err(format!("environment: {DISABLE_RESERVATION} is `{other}`: neither true nor false"))
        }
    }
}

pub(super) fn environment() -> Environment {
    Environment::with_prefix(ENVIRONMENT_PREFIX)
        .prefix_separator("__")
        .separator("__")
        .try_parsing(true)
}

/// Variables of the process that look like settings and are none, because one underscore was
/// written for two; each with the name that it should perhaps have.
pub fn ignored_variables() -> Vec<(String, String)> {
    ignored_among(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn ignored_among(names: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let suggested = |name: String| {
        let rest = name.strip_prefix(ENVIRONMENT_PREFIX)?.strip_prefix('_')?;
        // One is for those who ask a scheduler, which may be started from the same shell.
        if rest.starts_with('_') || name == GRPC_VARIABLE {
            return None;
        }
        let (section, key) = rest.split_once('_').unwrap_or((rest, "KEY"));
        let key = key.trim_start_matches('_');
        let meant = format!("{ENVIRONMENT_PREFIX}__{section}__{key}");
        Some((name, meant))
    };
    let mut ignored: Vec<_> = names.filter_map(suggested).collect();
    ignored.sort();
    ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_one_underscore_too_few_are_found_and_spelled() {
        let names = [
            "MONOCEROS_GRPC_SEND_CHUNK_ITEMS",
            "MONOCEROS__LOG__FORMAT",
            "MONOCEROSX",
            "MONOCEROS_GRPC",
        ];
        let ignored = ignored_among(names.iter().map(|&name| name.to_owned()));
        let meant = "MONOCEROS__GRPC__SEND_CHUNK_ITEMS";
        assert_eq!(ignored, [("MONOCEROS_GRPC_SEND_CHUNK_ITEMS".to_owned(), meant.to_owned())]);
    }
}
