//! `monoceros validate`: every error of a queue configuration at once, in a form that editors read.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use monoceros_rules::config::{self, Configuration, QueueConfig};

use crate::cli::ValidateArgs;

/// Checks the file; the exit code says whether it can be used.
pub fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let path = &args.file;
    let yaml =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let Some(configuration) = check(path, &yaml)? else {
        return Ok(ExitCode::FAILURE);
    };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}: ok", path.display())?;
    for partition in &configuration.partitions {
        let queues = count(&partition.root);
        let (name, leaves) = (&partition.name, count_leaves(&partition.root));
        writeln!(stdout, "  partition {name}: {queues} queues, {leaves} of them leaves")?;
    }
    if configuration.partitions.is_empty() {
        writeln!(stdout, "  it is empty: the built-in queues would be used")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The configuration, if `yaml` is a valid one; if not, its errors are printed to standard error.
/// So are its warnings: one line each, behind the name of the file.
pub fn check(path: &Path, yaml: &str) -> io::Result<Option<Configuration>> {
    let mut stderr = io::stderr().lock();
    match config::parse(yaml) {
        Ok(configuration) => {
            for warning in &configuration.warnings {
                writeln!(stderr, "{}: warning: {warning}", path.display())?;
            }
            Ok(Some(configuration))
        }
        Err(errors) => {
            for error in errors.to_string().lines() {
                writeln!(stderr, "{}: {error}", path.display())?;
            }
            Ok(None)
        }
    }
}

fn count(queue: &QueueConfig) -> usize {
    1 + queue.children.iter().map(count).sum::<usize>()
}

fn count_leaves(queue: &QueueConfig) -> usize {
    usize::from(queue.is_leaf) + queue.children.iter().map(count_leaves).sum::<usize>()
}
