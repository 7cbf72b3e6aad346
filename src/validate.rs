//! `monoceros validate`: every error of a queue configuration at once, in a form that editors read.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use monoceros_rules::config;

use crate::cli::ValidateArgs;

/// Checks the file; the exit code says whether it can be used.
pub fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let path = &args.file;
    let yaml =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !check(path, &yaml)? {
        return Ok(ExitCode::FAILURE);
    }
    writeln!(io::stdout(), "{}: ok", path.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Whether `yaml` is a valid queue configuration; if not, its errors are printed to standard error,
/// one per line, each behind the name of the file.
pub fn check(path: &Path, yaml: &str) -> io::Result<bool> {
    let Err(errors) = config::parse(yaml) else { return Ok(true) };
    let mut stderr = io::stderr().lock();
    for error in errors.to_string().lines() {
        writeln!(stderr, "{}: {error}", path.display())?;
    }
    Ok(false)
}
