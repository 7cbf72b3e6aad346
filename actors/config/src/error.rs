//! What is wrong with a configuration, and where.
//!
//! Everything that is wrong is collected before anything is answered, so that a text with three
//! faults needs one correction and not three. An error names the place three ways: line and column
//! for an editor, the path of keys for a reader of generated text.

use std::fmt;
use std::sync::Arc;

use monoceros_rules::values::resources::NameHolder;

/// How many characters of a message are shown.
const LONGEST: usize = 2_000;

/// How many errors, and how many warnings, are told; the others are counted. Somebody who corrects
/// a text needs no more at a time, and a text may be written to have millions.
pub(super) const MOST_TOLD: usize = 200;

/// One fault of a configuration. Shown on one line, its code in brackets at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The symbolic code, `E_…`, by which programs and `docs/configuration.md` name it.
    pub code: &'static str,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// The keys that lead there, such as `partitions[0].queues[1].resources.max.memory`; empty at
    /// the top.
    pub path: String,
    /// What is wrong and, where that is clear, what to write instead.
    pub message: String,
}

/// Something that loads but probably does not mean what its author thinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// The keys that lead there.
    pub path: String,
    /// What was understood.
    pub message: String,
    /// Whether the warning doubts a resource type, which those who know the types of nodes and requests may
    /// do better.
    pub is_of_type: bool,
}

/// The faults of a configuration, at least one; the first is the one a reader should look at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The first 200 that were found.
    pub told: Vec<ConfigError>,
    /// How many there are besides.
    pub n_more: usize,
}

/// A place in the text.
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

/// Faults and warnings in the order they were found, at most [`MOST_TOLD`] of each, and the resource
/// types that were named.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) errors: Vec<ConfigError>,
    /// Errors that were found besides.
    pub(super) n_more_errors: usize,
    pub(super) warnings: Vec<ConfigWarning>,
    n_more_warnings: usize,
    /// Held as long as the configuration is there; those of one that is refused are given back.
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

    /// A report of its own for what is to be told later, with the same names.
    pub(super) fn apart(&self) -> Self {
        Self { names: Arc::clone(&self.names), ..Self::default() }
    }

    /// Puts what `later` found behind what was found so far.
    pub(super) fn append(&mut self, mut later: Self) {
        self.errors.append(&mut later.errors);
        self.n_more_errors += later.n_more_errors + cut(&mut self.errors);
        self.warnings.append(&mut later.warnings);
        self.n_more_warnings += later.n_more_warnings + cut(&mut self.warnings);
    }

    /// The warnings in the order of the text; the last one says how many are left out, if any are.
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

/// Leaves as many as are told; returns how many more there were.
fn cut<T>(found: &mut Vec<T>) -> usize {
    let n_more = found.len().saturating_sub(MOST_TOLD);
    found.truncate(MOST_TOLD);
    n_more
}

/// What was written may hold anything, and much of it; a message is a line that can be read.
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
        for (at, error) in self.told.iter().enumerate() {
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
