//! Checks a queue configuration in a file: all errors and warnings at once, in a form that editors
//! read.
//!
//! It uses the scheduler's own check, so a configuration that passes here is accepted there. All
//! errors are reported together, in the order of the text, because a check is often a step of a
//! pipeline and each further run takes minutes.

use std::io::{self, Write as _};

use monoceros_actors::config::config_map;
use monoceros_actors::config::{self, ConfigWarning, Configuration, KnownTypes, QueueConfig};
use serde::Serialize;

use crate::logging::clean;

/// The outcome of a check.
#[derive(Debug)]
pub struct Checked {
    /// The path of the text, or another name of its source.
    pub name: String,
    /// The configuration, if it is valid.
    pub configuration: Option<Configuration>,
    /// Errors by line.
    pub errors: Vec<Fault>,
    /// Warnings by line: the configuration is valid but probably a mistake.
    pub warnings: Vec<Fault>,
    /// Notes that explain the errors.
    pub notes: Vec<String>,
}

/// An error or a warning of a queue configuration, or an error of a settings file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// `E_…`, which `docs/configuration.md` explains. `None` for a warning, and for settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The line, counted from 1. `None` if the fault has no position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column, counted from 1 in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The keys that lead to the position. Empty at the top.
    pub path: String,
    /// The message.
    pub message: String,
}

impl Fault {
    fn of_warning(warning: &ConfigWarning) -> Self {
        Self {
            code: None,
            line: Some(warning.line),
            column: Some(warning.column),
            path: warning.path.clone(),
            message: warning.message.clone(),
        }
    }

    /// Formats the fault for a line that begins with the name of the file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let (Some(line), Some(column)) = (self.line, self.column) {
            text = format!("line {line}, column {column}");
            if !self.path.is_empty() {
                text = format!("{text}, {}", self.path);
            }
            text += ": ";
        }
        text += &self.message;
        match self.code {
            Some(code) => format!("{text} [{code}]"),
            None => text,
        }
    }
}

impl Checked {
    /// Checks a text: a queue configuration, or a ConfigMap with one.
    pub fn of(name: String, text: &str) -> Self {
        let mut checked =
            Self { name, configuration: None, errors: vec![], warnings: vec![], notes: vec![] };
        match config_map::find(text) {
            Ok(None) => checked.parse(text),
            Ok(Some(embedded)) => {
                checked.parse(embedded.in_place.as_ref().unwrap_or(&embedded.text));
                if embedded.in_place.is_none() && !checked.errors.is_empty() {
                    let key = &embedded.key;
                    let note = format!("lines are those of the text in `{key}` of the ConfigMap");
                    checked.notes.push(note);
                }
            }
            Err(errors) => checked.refuse(errors),
        }
        checked
    }

    /// Updates the warnings for a cluster with these resource types.
    pub fn set_known_types(&mut self, types: &KnownTypes) {
        if let Some(configuration) = &self.configuration {
            let warnings = configuration.types.warnings(&configuration.warnings, types);
            self.warnings = warnings.iter().map(Fault::of_warning).collect();
        }
    }

    fn parse(&mut self, yaml: &str) {
        match config::parse(yaml) {
            Ok(configuration) => self.accept(configuration),
            Err(errors) => self.refuse(errors),
        }
    }

    fn accept(&mut self, configuration: Configuration) {
        self.warnings = configuration.warnings.iter().map(Fault::of_warning).collect();
        self.configuration = Some(configuration);
    }

    fn refuse(&mut self, errors: config::ConfigErrors) {
        if errors.reported.iter().any(|error| error.code == "E_NO_PARTITIONS") {
            let note = "only an empty text, without comments, stands for the built-in queues";
            self.notes.push(note.to_owned());
        }
        if errors.n_more > 0 {
            self.notes.push(format!("{} more errors are left out", errors.n_more));
        }
        for error in errors.reported {
            self.errors.push(Fault {
                code: Some(error.code),
                line: Some(error.line),
                column: Some(error.column),
                path: error.path,
                message: error.message,
            });
        }
        self.errors.sort_by_key(|error| (error.line, error.column));
    }

    /// Prints errors, warnings and notes to standard error, one line each, beginning with the name.
    /// Errors of printing are ignored.
    pub fn print(&self) {
        print_faults(&self.name, "", &self.errors);
        print_faults(&self.name, "warning: ", &self.warnings);
        for note in &self.notes {
            print_line(&self.name, "note: ", note);
        }
    }
}

/// Prints faults to standard error, one line each: the name of the file, the kind, the text. Errors
/// of printing are ignored.
pub fn print_faults(name: &str, kind: &str, faults: &[Fault]) {
    for fault in faults {
        print_line(name, kind, &fault.text());
    }
}

fn print_line(name: &str, kind: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{}: {kind}{}", clean(name), clean(text));
}

/// Returns the configuration if `yaml` is valid. Prints errors and warnings to standard error.
pub fn check(path: &std::path::Path, yaml: &str) -> Option<Configuration> {
    let checked = Checked::of(path.display().to_string(), yaml);
    checked.print();
    checked.configuration
}

/// Counts the queues below and including `queue`.
pub fn n_queues(queue: &QueueConfig) -> usize {
    1 + queue.children.iter().map(n_queues).sum::<usize>()
}

/// Counts the leaves below and including `queue`.
pub fn n_leaves(queue: &QueueConfig) -> usize {
    usize::from(queue.is_leaf) + queue.children.iter().map(n_leaves).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n          - name: a\n            resources: {guaranteed: {memory: 8Gi}, max: {memory: 4Gi}}\n            maxApps: 1\n          - name: b c\n";

    fn of(text: &str) -> Checked {
        Checked::of("f".to_owned(), text)
    }

    #[test]
    fn errors_have_the_order_and_amounts_of_the_text() {
        let errors = of(BAD).errors;
        let lines: Vec<_> = errors.iter().map(|error| error.line.unwrap()).collect();
        assert_eq!(lines, [7, 8, 9], "{errors:#?}");
        let text = errors[0].text();
        assert!(text.contains("{memory: 8Gi}") && text.contains("{memory: 4Gi}"), "{text}");
    }

    #[test]
    fn config_map_errors_have_file_lines() {
        let embedded = format!("    {}\n", BAD.trim_end().replace('\n', "\n    "));
        let file = format!("kind: ConfigMap\ndata:\n  queues.yaml: |\n{embedded}");
        let moved = of(&file);
        for (error, plain) in moved.errors.iter().zip(of(BAD).errors) {
            assert_eq!(error.line, plain.line.map(|line| line + 3));
            assert_eq!(error.column, plain.column.map(|column| column + 4));
        }
        assert_eq!((moved.errors.len(), moved.notes.len()), (3, 0));
        let quoted = format!("kind: ConfigMap\ndata: {{queues.yaml: {BAD:?}}}\n");
        let quoted = of(&quoted);
        assert_eq!(quoted.errors, of(BAD).errors);
        assert!(quoted.notes[0].contains("`queues.yaml`"), "{:?}", quoted.notes);
    }
}
