//! Reads the texts that people write: settings and queue configurations.
//!
//! # Invariant
//! At most [`LARGEST_BYTES`] are read, whatever the path leads to: a device may have no end.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Largest text in bytes: 16 MiB, far above any configuration written or generated.
pub const LARGEST_BYTES: u64 = 16 << 20;

/// A text cannot be read. The message is complete, so the error has no source.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system refuses, or the file is not UTF-8.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The text is larger than [`LARGEST_BYTES`].
    #[error("cannot read `{}`: it is larger than {} MiB", .0.display(), LARGEST_BYTES >> 20)]
    TooLarge(PathBuf),
}

/// The argument that means standard input.
const STANDARD_INPUT: &str = "-";

/// Returns the text of a file, which must be UTF-8, without a byte order mark.
pub fn read_text(path: &Path) -> Result<String, InputError> {
    let file = File::open(path)
        .map_err(|error| InputError::Unreadable { path: path.to_owned(), error })?;
    read(file, path)
}

/// Returns the text of the file given on a command line; `-` is standard input.
pub fn read_given(path: &Path) -> Result<String, InputError> {
    if path.as_os_str() == STANDARD_INPUT {
        read(io::stdin().lock(), Path::new(&name(path)))
    } else {
        read_text(path)
    }
}

/// Returns the name by which messages call the given file.
pub fn name(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

fn read(source: impl io::Read, path: &Path) -> Result<String, InputError> {
    let unreadable = |error| InputError::Unreadable { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let length = source.take(LARGEST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if length as u64 > LARGEST_BYTES {
        return Err(InputError::TooLarge(path.to_owned()));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8")))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files_are_named_with_the_reason() {
        for (path, reason) in [
            ("/does/not/exist", "No such file"),
            ("/", "directory"),
            ("/dev/zero", "larger than 16 MiB"),
        ] {
            let error = read_text(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(&format!("`{path}`")) && error.contains(reason), "{error}");
        }
        assert_eq!(read_text(Path::new("/dev/null")).unwrap(), "");
    }
}
