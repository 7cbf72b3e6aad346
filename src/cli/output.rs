//! Standard output, and the forms of output.
//!
//! # Invariant
//! A closed standard output (`monoceros get apps | head -1`) is distinguished from every other
//! failure, so that it ends the command without an error.

use std::ffi::OsStr;
use std::io::{self, Write as _};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, ValueEnum};

use super::template::{CustomColumns, Template};

/// The reader of standard output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub(crate) struct ReaderGone;

/// The command line is wrong in a way that only its execution shows.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongLine(pub(crate) String);

/// Writes a text to standard output and flushes it. The text must be clean.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(writing)
}

/// Converts an error of standard output.
pub(crate) fn writing(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    }
}

/// A form of a list.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Form {
    /// Columns for people
    #[default]
    Table,
    /// The same with more columns
    Wide,
    /// Documents
    Json,
    /// Documents
    Yaml,
    /// Names alone, one a line
    Name,
    /// A template of the user. It is parsed once, and lives as long as the command.
    #[value(skip)]
    Path(&'static Template),
    /// Columns of the user. They are parsed once, and live as long as the command.
    #[value(skip)]
    Columns(&'static CustomColumns),
}

impl Form {
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::Wide)
    }

    /// Parses a form that has a text of the user. `None` if it is any other.
    fn of_user(text: &str) -> Option<Result<Self, String>> {
        if let Some(template) = text.strip_prefix(PATH_PREFIX) {
            let template = Template::parse(template);
            return Some(template.map(|it| Self::Path(Box::leak(Box::new(it)))));
        }
        let columns = CustomColumns::parse(text.strip_prefix(COLUMNS_PREFIX)?);
        Some(columns.map(|it| Self::Columns(Box::leak(Box::new(it)))))
    }
}

/// Prefix of a template.
const PATH_PREFIX: &str = "jsonpath=";
/// Prefix of the user's columns.
const COLUMNS_PREFIX: &str = "custom-columns=";

/// Reads a [`Form`] from the command line.
#[derive(Clone, Debug)]
pub(super) struct FormParser;

impl FormParser {
    fn known() -> impl Iterator<Item = PossibleValue> {
        let plain = Form::value_variants().iter().filter_map(Form::to_possible_value);
        let template = "A template of paths, such as jsonpath={.nodeId}";
        let columns = "Columns of your own, such as custom-columns=NODE:.nodeId,RACK:.rackName";
        plain.chain([
            PossibleValue::new("jsonpath=TEMPLATE").help(template),
            PossibleValue::new("custom-columns=COLUMNS").help(columns),
        ])
    }
}

impl TypedValueParser for FormParser {
    type Value = Form;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Form, clap::Error> {
        if let Some(form) = value.to_str().and_then(Form::of_user) {
            return form.map_err(|reason| {
                let of = arg.map(|arg| format!(" for '{arg}'")).unwrap_or_default();
                let text = format!("invalid value{of}: {reason}\n");
                clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
            });
        }
        let name = PossibleValuesParser::new(Self::known()).parse_ref(command, arg, value)?;
        Ok(Form::from_str(&name, false).expect("the other names have an equals sign"))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Self::known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_names_or_a_text_of_the_user() {
        let parse = |text: &str| FormParser.parse_ref(&Command::new("x"), None, OsStr::new(text));
        assert!(matches!(parse("wide"), Ok(Form::Wide)));
        assert!(matches!(parse("jsonpath={.a}"), Ok(Form::Path(_))));
        assert!(matches!(parse("custom-columns=A:.a"), Ok(Form::Columns(_))));
        for (wrong, reason) in [
            ("jsonpath", "jsonpath=TEMPLATE"),
            ("jsonpath={.a", "`{.a` is not closed"),
            ("custom-columns=A", "the column `A` is not TITLE:PATH"),
            ("tabel", "table"),
        ] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
