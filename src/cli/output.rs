//! Standard output, and the forms in which things are printed there.
//!
//! # Invariant
//! That the reader of standard output has gone (`monoceros get apps | head -1`) is told apart from
//! every other failure, so that it can end the command without a complaint.

use std::io::{self, ErrorKind, Write as _};

use clap::ValueEnum;

/// The reader of standard output has seen enough.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub(crate) struct ReaderGone;

/// The command line is wrong, which only the work could tell.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongLine(pub(crate) String);

/// Writes a text to standard output, at once. Names in it are clean already.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(writing)
}

/// What became of writing to standard output.
pub(crate) fn writing(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    }
}

/// A form in which a list is printed.
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
