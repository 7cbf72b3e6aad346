//! `monoceros validate`: every error of a queue configuration at once, in a form that editors read;
//! and what a good one changes, before it does.
//!
//! It is the check that the scheduler itself makes, not one of its own, so a configuration that
//! passes here is taken there. All errors come at once because a configuration is often checked by
//! a pipeline, where each further run takes minutes.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use monoceros_actors::config;
use monoceros_actors::config::difference;
use monoceros_actors::config::{Acl, QueueConfig};
use monoceros_actors::config::{Configuration, PartitionConfig};

use crate::cli::ValidateArgs;
use crate::logging::clean;
use crate::{input, usage};

/// Checks the file; the exit code says whether it can be used.
pub fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let path = &args.file;
    let yaml = input::read_text(path)?;
    let Some(configuration) = check(path, &yaml) else {
        return Ok(ExitCode::FAILURE);
    };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}: ok", path.display())?;
    for partition in &configuration.partitions {
        let (name, size) = (&partition.name, size(&partition.root));
        writeln!(stdout, "  partition {name}: {size}")?;
    }
    if configuration.partitions.is_empty() {
        writeln!(stdout, "  it is empty: the built-in queues would be used")?;
    }
    if let Some(against) = &args.against {
        let yaml = input::read_text(against)?;
        let Some(old) = check(against, &yaml) else {
            return Ok(ExitCode::FAILURE);
        };
        let usage = args.usage.as_deref().map(usage::load).transpose()?;
        let (old, new) = (or_built_in(old)?, or_built_in(configuration)?);
        let difference = difference::between(&old.partitions, &new.partitions, usage.as_ref());
        if difference.is_empty() {
            writeln!(stdout, "it means the same as {}", against.display())?;
        } else {
            writeln!(stdout, "different from {}:", against.display())?;
        }
        for line in difference.lines() {
            writeln!(stdout, "  {}", clean(&line.text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What would be used: an empty text stands for the built-in queues.
fn or_built_in(configuration: Configuration) -> anyhow::Result<Configuration> {
    if configuration.partitions.is_empty() {
        return Ok(config::parse(config::DEFAULT)?);
    }
    Ok(configuration)
}

/// The configuration, if `yaml` is a valid one; if not, its errors are printed to standard error.
/// So are its warnings: one line each, behind the name of the file.
/// Where they cannot be printed, the outcome is the same.
pub fn check(path: &Path, yaml: &str) -> Option<Configuration> {
    let mut stderr = io::stderr().lock();
    let mut say = |text: &str| {
        let _ = writeln!(stderr, "{}: {}", path.display(), clean(text));
    };
    match config::parse(yaml) {
        Ok(configuration) => {
            for warning in &configuration.warnings {
                say(&format!("warning: {warning}"));
            }
            for partition in &configuration.partitions {
                for warning in why_nothing_runs(partition) {
                    let name = &partition.name;
                    say(&format!("warning: partition `{name}`: {warning}"));
                }
            }
            Some(configuration)
        }
        Err(errors) => {
            for error in errors.to_string().lines() {
                say(error);
            }
            if errors.told.iter().any(|error| error.code == "E_NO_PARTITIONS") {
                let note = "only an empty text, without comments, stands for the built-in queues";
                say(&format!("note: {note}"));
            }
            None
        }
    }
}

/// A warning for a configuration that is valid and lets no application in at all.
fn why_nothing_runs(partition: &PartitionConfig) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    let makes_leaves = partition.placement.iter().any(|rule| rule.create);
    if count_leaves(&partition.root) == 0 && !makes_leaves {
        reasons.push("no queue is a leaf, so no application can run");
    }
    if !lets_anybody_in(&partition.root) {
        reasons.push(
            "no queue has a `submitacl`, so nobody may submit; `submitacl: \"*\"` of `root` lets \
             everybody",
        );
    }
    reasons
}

/// Whether anybody may submit to the queue or one below; who administers may submit, too.
fn lets_anybody_in(queue: &QueueConfig) -> bool {
    let nobody = Acl::default();
    queue.submit_acl != nobody
        || queue.admin_acl != nobody
        || queue.children.iter().any(lets_anybody_in)
}

fn size(root: &QueueConfig) -> String {
    let queues = match count(root) {
        1 => "1 queue".to_owned(),
        n_queues => format!("{n_queues} queues"),
    };
    match count_leaves(root) {
        1 => format!("{queues}, 1 of them a leaf"),
        n_leaves => format!("{queues}, {n_leaves} of them leaves"),
    }
}

fn count(queue: &QueueConfig) -> usize {
    1 + queue.children.iter().map(count).sum::<usize>()
}

fn count_leaves(queue: &QueueConfig) -> usize {
    usize::from(queue.is_leaf) + queue.children.iter().map(count_leaves).sum::<usize>()
}
