//! CSV files with a header, whose mistakes are reported together.
//!
//! Columns are found by name: their order is free and other columns are ignored. A mistake is
//! reported with file, line, column and reason. The line is the one at which an editor shows the
//! beginning of the row.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use csv::StringRecord;

/// Most mistakes that are listed. Further ones are only counted.
const LISTED_PROBLEMS: usize = 20;
const UNREADABLE: &str = "is not UTF-8 text or not CSV";

/// The mistakes in the files of a trace.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    listed: Vec<String>,
    unlisted: usize,
}

impl Problems {
    pub(super) fn add(
        &mut self,
        file: &Path,
        line: u64,
        column: Option<&str>,
        reason: impl fmt::Display,
    ) {
        if self.listed.len() == LISTED_PROBLEMS {
            self.unlisted += 1;
            return;
        }
        let column = column.map(|name| format!("column `{name}`: ")).unwrap_or_default();
        self.listed.push(format!("{}:{line}: {column}{reason}", file.display()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.listed.len() + self.unlisted
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listed.join("\n"))?;
        if self.unlisted > 0 {
            write!(f, "\nand {} more", self.unlisted)?;
        }
        Ok(())
    }
}

/// A row, with the context for error messages.
pub(crate) struct CsvRow<'a> {
    file: &'a Path,
    pub(super) header_line: u64,
    pub(super) line: u64,
    columns: &'a HashMap<&'static str, usize>,
    fields: &'a StringRecord,
    problems: &'a mut Problems,
    /// Names of earlier rows, with their lines.
    names: &'a mut HashMap<String, u64>,
}

impl CsvRow<'_> {
    /// Returns the field without surrounding white space. Data-frame tools write a missing field as
    /// `nan`.
    pub(super) fn text(&self, column: &'static str) -> &str {
        let at = self.columns.get(column);
        let text = at.and_then(|at| self.fields.get(*at)).unwrap_or_default().trim();
        if text.eq_ignore_ascii_case("nan") { "" } else { text }
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    pub(super) fn complain(&mut self, column: &'static str, reason: impl fmt::Display) {
        self.problems.add(self.file, self.line, Some(column), reason);
    }

    /// Parses a name that no earlier row has.
    pub(super) fn name(&mut self, column: &'static str) -> Option<String> {
        let name = self.text(column).to_owned();
        if name.is_empty() {
            self.complain(column, "is empty");
            return None;
        }
        if let Some(first) = self.names.insert(name.clone(), self.line) {
            self.complain(column, format_args!("`{name}` is already in line {first}"));
            self.names.insert(name, first);
            return None;
        }
        Some(name)
    }

    /// Parses a required whole number.
    pub(super) fn whole(&mut self, column: &'static str) -> Option<i64> {
        let number = self.optional(column)?;
        if number.is_none() {
            self.complain(column, "is empty");
        }
        number
    }

    /// Parses a whole number: `Some(None)` if the field is empty, `None` after a mistake. The bound
    /// keeps every product below in range. Data-frame tools write `12` as `12.0`.
    #[allow(clippy::option_option, reason = "wrong and missing are different answers")]
    pub(super) fn optional(&mut self, column: &'static str) -> Option<Option<i64>> {
        let text = self.text(column);
        if text.is_empty() {
            return Some(None);
        }
        let digits = text.split_once('.').map_or(text, |(whole, fraction)| {
            if fraction.bytes().all(|digit| digit == b'0') { whole } else { text }
        });
        if let Ok(number) = digits.parse::<u32>() {
            return Some(Some(i64::from(number)));
        }
        let reason = format!("`{text}` is not a whole number from 0 to {}", u32::MAX);
        self.complain(column, reason);
        None
    }

    /// Parses a Boolean: `Some(None)` if the field is empty, `None` after a mistake.
    #[allow(clippy::option_option, reason = "wrong and missing are different answers")]
    pub(super) fn yes_or_no(&mut self, column: &'static str) -> Option<Option<bool>> {
        let text = self.text(column).to_ascii_lowercase();
        match &*text {
            "" => Some(None),
            "true" | "yes" | "1" => Some(Some(true)),
            "false" | "no" | "0" => Some(Some(false)),
            _ => {
                self.complain(column, format_args!("`{text}` is neither `true` nor `false`"));
                None
            }
        }
    }

    /// Parses a priority: `Some(None)` if the field is empty, `None` after a mistake.
    #[allow(clippy::option_option, reason = "wrong and missing are different answers")]
    pub(super) fn priority(&mut self, column: &'static str) -> Option<Option<i32>> {
        let text = self.text(column).to_owned();
        if text.is_empty() {
            return Some(None);
        }
        if let Ok(priority) = text.strip_suffix(".0").unwrap_or(&text).parse() {
            return Some(Some(priority));
        }
        let (least, most) = (i32::MIN, i32::MAX);
        let reason = format!("`{text}` is not a whole number from {least} to {most}");
        self.complain(column, reason);
        None
    }

    /// Parses a JSON object of texts, which is empty if the field is. `None` after a mistake.
    pub(super) fn texts(&mut self, column: &'static str) -> Option<BTreeMap<String, String>> {
        let text = self.text(column);
        if text.is_empty() {
            return Some(BTreeMap::new());
        }
        match serde_json::from_str(text) {
            Ok(texts) => Some(texts),
            Err(error) => {
                let reason = format!("is not a JSON object of texts: {error}");
                self.complain(column, reason);
                None
            }
        }
    }

    /// Checks a JSON object and returns its text, which is empty if the field is. `None` after a
    /// mistake.
    pub(super) fn object(&mut self, column: &'static str) -> Option<String> {
        let text = self.text(column).to_owned();
        if text.is_empty() {
            return Some(text);
        }
        let object: Result<serde_json::Map<String, serde_json::Value>, _> =
            serde_json::from_str(&text);
        match object {
            Ok(_) => Some(text),
            Err(error) => {
                self.complain(column, format_args!("is not a JSON object: {error}"));
                None
            }
        }
    }
}

/// Counts the lines of a text up to rows, in the order of the rows.
///
/// The CSV reader counts lines, too, but reports the line at which it began to search for the row:
/// one too low if lines end with CRLF, and more after blank lines.
struct Lines<'a> {
    text: &'a [u8],
    /// The position up to which lines were counted.
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// Returns the first line of the row that the reader found from `position`.
    fn of_row(&mut self, position: Option<&csv::Position>) -> u64 {
        let stood = position.map_or(0, csv::Position::byte);
        let stood = usize::try_from(stood).unwrap_or(usize::MAX);
        while let Some(&byte) = self.text.get(self.at) {
            let is_break = matches!(byte, b'\r' | b'\n');
            if self.at >= stood && !is_break {
                break;
            }
            self.at += 1;
            let ends_below = byte == b'\r' && self.text.get(self.at) == Some(&b'\n');
            self.line += u64::from(is_break && !ends_below);
        }
        self.line
    }
}

/// Calls `each` for the rows of a file. `columns` are the required ones, and the optional ones.
pub(super) fn for_each_row(
    file: &Path,
    text: &[u8],
    columns: (&[&'static str], &[&'static str]),
    problems: &mut Problems,
    mut each: impl FnMut(&mut CsvRow<'_>),
) {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let mut lines = Lines::of(text);
    let header = match reader.headers() {
        Ok(header) if header.iter().any(|name| !name.trim().is_empty()) => header.clone(),
        Ok(_) => return problems.add(file, 1, None, "the file is empty"),
        Err(error) => return problems.add(file, lines.of_row(error.position()), None, UNREADABLE),
    };
    let header_line = lines.of_row(header.position());
    let Some(columns) = find_columns((file, header_line), &header, columns, problems) else {
        return;
    };
    let mut names = HashMap::new();
    let mut n_rows = 0;
    for record in reader.records() {
        n_rows += 1;
        let fields = match record {
            Ok(fields) => fields,
            Err(error) => {
                let line = lines.of_row(error.position());
                problems.add(file, line, None, UNREADABLE);
                continue;
            }
        };
        let line = lines.of_row(fields.position());
        if fields.len() != header.len() {
            let reason = format!("has {} fields, the header has {}", fields.len(), header.len());
            problems.add(file, line, None, reason);
            continue;
        }
        let names = &mut names;
        let columns = &columns;
        each(&mut CsvRow { file, header_line, line, columns, fields: &fields, problems, names });
    }
    if n_rows == 0 {
        problems.add(file, header_line, None, "there is no row below the header");
    }
}

/// Returns the position of each required column, and of the optional ones that exist. `None` after
/// a mistake.
fn find_columns(
    (file, line): (&Path, u64),
    header: &StringRecord,
    (needed, further): (&[&'static str], &[&'static str]),
    problems: &mut Problems,
) -> Option<HashMap<&'static str, usize>> {
    let mut places = HashMap::new();
    let n_problems = problems.count();
    for &column in needed.iter().chain(further) {
        let names = header.iter().map(str::trim);
        let found: Vec<usize> =
            names.enumerate().filter(|(_, name)| *name == column).map(|(at, _)| at).collect();
        match found[..] {
            [at] => {
                places.insert(column, at);
            }
            [] if further.contains(&column) => {}
            [] => problems.add(file, line, Some(column), "is missing in the header"),
            _ => problems.add(file, line, Some(column), "is in the header more than once"),
        }
    }
    (problems.count() == n_problems).then_some(places)
}
