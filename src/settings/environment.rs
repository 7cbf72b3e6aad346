//! Settings from environment variables: `MONOCEROS__SECTION__KEY`.
//!
//! Two underscores separate the parts, because keys contain single ones. A variable with a single
//! underscore in place of two would be ignored silently, so such variables are found and logged.

use config::Environment;

use crate::cli::GRPC_VARIABLE;

/// Prefix of the variables. Two underscores follow it.
const ENVIRONMENT_PREFIX: &str = "MONOCEROS";

/// A variable that other schedulers of this interface know, too: it switches off all reservations
/// by age. It counts as part of the environment.
pub(super) const DISABLE_RESERVATION: &str = "DISABLE_RESERVATION";

/// Parses the value of [`DISABLE_RESERVATION`].
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

/// Returns variables of the process that look like settings but have one underscore in place of
/// two, each with the probable intended name.
pub fn ignored_variables() -> Vec<(String, String)> {
    ignored_among(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn ignored_among(names: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let suggested = |name: String| {
        let rest = name.strip_prefix(ENVIRONMENT_PREFIX)?.strip_prefix('_')?;
        // This variable is for clients, and may be set in the same shell.
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
    fn variables_with_one_underscore_are_reported() {
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
