//! Errors and warnings of a configuration, each with its location in the text.
//!
//! The report collects all faults before it is returned, so that a text with three faults needs one
//! correction and not three. An error gives its location in two ways: line and column for an
//! editor, the path of keys for a reader of generated text.

use std::fmt;
use std::sync::Arc;

use monoceros_rules::values::resources::NameHolder;

/// Longest message in characters; the rest is cut.
const LONGEST: usize = 2_000;

/// Most errors, and most warnings, that are listed; the others are counted. An author needs no more
/// at a time, and a text can be written to have millions.
pub(super) const MOST_TOLD: usize = 200;

/// One fault of a configuration. Displayed on one line, with its code in brackets at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The symbolic code, `E_…`, used by programs and by `docs/configuration.md`.
    pub code: &'static str,
    /// Line in the text, counted from 1.
    pub line: usize,
    /// Column in the text, counted from 1 in characters.
    pub column: usize,
    /// Path of keys to the value, such as `partitions[0].queues[1].resources.max.memory`; empty at
    /// the top.
    pub path: String,
    /// Describes the fault and, if that is clear, the correction.
    pub message: String,
}

/// A text that loads but probably does not mean what its author thinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Line in the text, counted from 1.
    pub line: usize,
    /// Column in the text, counted from 1 in characters.
    pub column: usize,
    /// Path of keys to the value.
    pub path: String,
    /// Describes how the text was understood.
    pub message: String,
    /// Whether the warning doubts a resource type. A caller that knows the types of nodes and
    /// requests can replace such warnings by better ones.
    pub is_of_type: bool,
}

/// The faults of a configuration, at least one. The first is the one to correct first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The first errors that were found, at most 200.
    pub reported: Vec<ConfigError>,
    /// Number of further errors.
    pub n_more: usize,
}

/// A location in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) path: String,
}

impl Location {
    /// The top of the text.
    pub(super) fn top() -> Self {
        Self { line: 1, column: 1, path: String::new() }
    }
}

/// Collects faults and warnings in the order they were found, at most [`MOST_TOLD`] of each, and
/// the resource types that the text names.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) errors: Vec<ConfigError>,
    /// Number of errors beyond [`MOST_TOLD`].
    pub(super) n_more_errors: usize,
    pub(super) warnings: Vec<ConfigWarning>,
    n_more_warnings: usize,
    /// Holder of the resource names, kept as long as the configuration. Names of a rejected
    /// configuration are released with it.
    pub(super) names: Arc<NameHolder>,
}

impl Report {
    pub(super) fn error(
        &mut self,
        code: &'static str,
        place: &Location,
        message: impl Into<String>,
    ) {
        if self.errors.len() == MOST_TOLD {
            self.n_more_errors += 1;
            return;
        }
        let Location { line, column, path } = place.clone();
        self.errors.push(ConfigError {
            code,
            line,
            column,
            path,
            message: one_line(message.into()),
        });
    }

    /// Starts a separate report with the same names, for findings to be appended later.
    pub(super) fn apart(&self) -> Self {
        Self { names: Arc::clone(&self.names), ..Self::default() }
    }

    /// Appends the findings of `later`.
    pub(super) fn append(&mut self, mut later: Self) {
        self.errors.append(&mut later.errors);
        self.n_more_errors += later.n_more_errors + cut(&mut self.errors);
        self.warnings.append(&mut later.warnings);
        self.n_more_warnings += later.n_more_warnings + cut(&mut self.warnings);
    }

    /// Returns the warnings in the order of the text. If some were left out, a last warning says
    /// how many.
    pub(super) fn into_warnings(mut self) -> Vec<ConfigWarning> {
        self.warnings.sort_by_key(|warning| (warning.line, warning.column));
        if self.n_more_warnings > 0
            && let Some(last) = self.warnings.last().cloned()
        {
            let message = format!("{} more warnings are left out", self.n_more_warnings);
            self.warnings.push(ConfigWarning { message, ..last });
        }
        self.warnings
    }

    pub(super) fn warn(&mut self, place: &Location, message: impl Into<String>) {
        if self.warnings.len() == MOST_TOLD {
            self.n_more_warnings += 1;
            return;
        }
        let Location { line, column, path } = place.clone();
        let message = one_line(message.into());
        self.warnings.push(ConfigWarning { line, column, path, message, is_of_type: false });
    }
}

/// Truncates the list to [`MOST_TOLD`] entries and returns how many were removed.
fn cut<T>(found: &mut Vec<T>) -> usize {
    let n_more = found.len().saturating_sub(MOST_TOLD);
    found.truncate(MOST_TOLD);
    n_more
}

/// Makes one line of a message, which may repeat any text of the author at any length.
fn one_line(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push('…');
    }
    if message.contains(char::is_control) {
        let shown =
            |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
        message = message.chars().map(shown).collect();
    }
    message
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, self.line, self.column, &self.path)?;
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, self.line, self.column, &self.path)?;
        f.write_str(&self.message)
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, line: usize, column: usize, path: &str) -> fmt::Result {
    write!(f, "line {line}, column {column}")?;
    if !path.is_empty() {
        write!(f, ", {path}")?;
    }
    f.write_str(": ")
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.reported.iter().enumerate() {
            write!(f, "{}{error}", if at == 0 { "" } else { "\n" })?;
        }
        if self.n_more > 0 {
            write!(f, "\nand {} more errors, which are left out", self.n_more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl std::error::Error for ConfigErrors {}
