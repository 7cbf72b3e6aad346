//! Standard output, and the forms of output.
//!
//! # Invariant
//! A closed standard output (`monoceros get apps | head -1`) is distinguished from every other
//! failure, so that it ends the command without an error.

use std::io::{self, ErrorKind, Write as _};

use clap::ValueEnum;

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
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    }
}

/// A form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
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
}
