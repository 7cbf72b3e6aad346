//! CSV files with a header, whose mistakes are all told at once.
//!
//! Columns are found by name: their order is free and further columns are passed over. Each mistake
//! is told with file, line, column and reason. The line is the one at which an editor shows the
//! beginning of the row.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use csv::StringRecord;

/// More problems than these are counted, not listed.
const LISTED_PROBLEMS: usize = 20;
const UNREADABLE: &str = "is not UTF-8 text or not CSV";

/// Everything that is wrong in the files of a trace.
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

/// One row with what is needed to complain about it.
pub(crate) struct CsvRow<'a> {
    file: &'a Path,
    /// The line of the header.
    pub(super) header_line: u64,
    pub(super) line: u64,
    columns: &'a HashMap<&'static str, usize>,
    fields: &'a StringRecord,
    problems: &'a mut Problems,
    /// Names that were used before, with their lines.
    names: &'a mut HashMap<String, u64>,
}

impl CsvRow<'_> {
    /// The field without white space around it. Tables that passed through data-frame tools write
    /// a missing field as `nan`.
    pub(super) fn text(&self, column: &'static str) -> &str {
        let at = self.columns.get(column);
        let text = at.and_then(|at| self.fields.get(*at)).unwrap_or_default().trim();
        if text.eq_ignore_ascii_case("nan") { "" } else { text }
    }

    /// Whether the file has the column.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    pub(super) fn complain(&mut self, column: &'static str, reason: impl fmt::Display) {
        self.problems.add(self.file, self.line, Some(column), reason);
    }

    /// A name that no earlier row has.
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

    /// A whole number that must be there.
    pub(super) fn whole(&mut self, column: &'static str) -> Option<i64> {
        let number = self.optional(column)?;
        if number.is_none() {
            self.complain(column, "is empty");
        }
        number
    }

    /// A whole number, `Some(None)` where the field is empty, `None` after a complaint. The bound
    /// keeps every product below in range; data-frame tools write `12` as `12.0`.
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

    /// Whether something is so; `Some(None)` where the field is empty, `None` after a complaint.
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

    /// A priority; `Some(None)` where the field is empty, `None` after a complaint.
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

    /// A JSON object of texts, none where the field is empty; `None` after a complaint.
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

    /// The text of a JSON object, empty where the field is; `None` after a complaint.
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

/// Lines of a text, counted up to rows that are named in their order.
///
/// The reader counts lines, too, but says the line at which it stood before it looked for the row:
/// that is one before it where lines end with CRLF, and further before it after blank lines.
struct Lines<'a> {
    text: &'a [u8],
    /// Up to where lines were counted.
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// The line at which the row begins that the reader found when it stood at `position`.
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

/// Calls `each` for the rows of a file whose header has all columns of the first kind, and perhaps
/// those of the second.
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

/// The position of each column, of the second kind only of those that are there; `None` after a
/// complaint.
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
