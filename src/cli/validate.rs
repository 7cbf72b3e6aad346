//! `monoceros validate`: the errors in a queue configuration, and the changes that a valid one
//! would make; or the errors in a settings file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use monoceros_actors::config::difference::{self, Difference, Usage};
use monoceros_actors::config::{self, Configuration, QueueConfig};
use serde_json::{Value, json};

use super::document;
use super::output;
use crate::logging::clean;
use crate::settings::mistakes_of;
use crate::validate::{Checked, n_leaves, n_queues, print_faults};
use crate::{input, usage};

/// Arguments of `monoceros validate`.
#[derive(Clone, Debug, Args)]
pub(super) struct ValidateArgs {
    /// The queue configuration (YAML), or a ConfigMap with one; `-` is standard input
    #[arg(value_name = "QUEUES.yaml", required_unless_present = "settings")]
    file: Option<PathBuf>,
    /// Check this settings file (TOML) of `serve` instead; `-` is standard input
    #[arg(long, value_name = "SETTINGS.toml", conflicts_with_all = ["file", "against", "usage"])]
    settings: Option<PathBuf>,
    /// Also print what is different from this one, which is or was in force; empty: the built-in one
    #[arg(long, value_name = "OLD.yaml")]
    against: Option<PathBuf>,
    /// A saved state dump (JSON), to say what is in use beyond what may be
    #[arg(long, value_name = "DUMP.json", requires = "against")]
    usage: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Shape,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Lines for people and editors
    Text,
    /// One document
    Json,
}

/// Checks the file. The exit code states whether it is valid.
pub(super) fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.file else {
        // The command line requires one of both.
        return settings(args.settings.as_deref().unwrap_or(Path::new("-")), args.output);
    };
    let mut checked = read(file)?;
    let usage = args.usage.as_deref().map(usage::load).transpose()?;
    if let Some(usage) = &usage {
        checked.set_known_types(&usage.types());
    }
    let old = args.against.as_deref().map(read).transpose()?;
    let is_good = |checked: &Checked| checked.configuration.is_some();
    let all_good = is_good(&checked) && old.as_ref().is_none_or(is_good);
    let difference = match (&checked.configuration, old.as_ref().map(|old| &old.configuration)) {
        (Some(new), Some(Some(old))) => Some(compare(old, new, usage.as_ref())?),
        _ => None,
    };
    match args.output {
        Shape::Text => text(&checked, old.as_ref(), difference.as_ref())?,
        Shape::Json => {
            let document = as_json(&checked, old.as_ref(), difference.as_ref());
            output::write(&document::json(&document)?)?;
        }
    }
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks a settings file by itself: neither the environment nor flags count.
fn settings(file: &Path, output: Shape) -> anyhow::Result<ExitCode> {
    let (name, mistakes) = (input::name(file), mistakes_of(&input::read_given(file)?));
    let is_good = mistakes.is_empty();
    match output {
        Shape::Text if is_good => output::write(&format!("{}: ok\n", clean(&name)))?,
        Shape::Text => print_faults(&name, "", &mistakes),
        Shape::Json => {
            let document = json!({ "file": name, "valid": is_good, "errors": mistakes });
            output::write(&document::json(&document)?)?;
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(file: &Path) -> anyhow::Result<Checked> {
    let text = input::read_given(file)?;
    Ok(Checked::of(input::name(file), &text))
}

fn compare(
    old: &Configuration,
    new: &Configuration,
    usage: Option<&Usage>,
) -> anyhow::Result<Difference> {
    let (old, new) = (or_built_in(old.clone())?, or_built_in(new.clone())?);
    Ok(difference::between(&old.partitions, &new.partitions, usage))
}

/// Returns the configuration that would be in force: an empty text stands for the built-in queues.
fn or_built_in(configuration: Configuration) -> anyhow::Result<Configuration> {
    if configuration.partitions.is_empty() {
        return Ok(config::parse(config::DEFAULT)?);
    }
    Ok(configuration)
}

fn text(
    checked: &Checked,
    old: Option<&Checked>,
    difference: Option<&Difference>,
) -> anyhow::Result<()> {
    checked.print();
    let Some(configuration) = &checked.configuration else { return Ok(()) };
    let mut text = format!("{}: ok\n", clean(&checked.name));
    for partition in &configuration.partitions {
        let _ = writeln!(text, "  partition {}: {}", partition.name, size(&partition.root));
    }
    if configuration.partitions.is_empty() {
        text += "  it is empty: the built-in queues would be used\n";
    }
    output::write(&text)?;
    let Some(old) = old else { return Ok(()) };
    old.print();
    let Some(difference) = difference else { return Ok(()) };
    let name = clean(&old.name);
    let mut text = if difference.is_empty() {
        format!("it means the same as {name}\n")
    } else {
        format!("different from {name}:\n")
    };
    for line in difference.lines() {
        let _ = writeln!(text, "  {}", clean(&line.text));
    }
    output::write(&text)
}

fn as_json(checked: &Checked, old: Option<&Checked>, difference: Option<&Difference>) -> Value {
    let partition = |it: &config::PartitionConfig| json!({ "name": &*it.name, "queues": n_queues(&it.root), "leaves": n_leaves(&it.root) });
    let of = |checked: &Checked| {
        let configuration = checked.configuration.as_ref();
        json!({
            "file": checked.name,
            "valid": configuration.is_some(),
            "errors": checked.errors,
            "warnings": checked.warnings,
            "notes": checked.notes,
            "partitions": configuration
                .map(|it| it.partitions.iter().map(partition).collect::<Vec<_>>())
                .unwrap_or_default(),
        })
    };
    let mut document = of(checked);
    if let Some(old) = old {
        document["against"] = of(old);
    }
    if let Some(difference) = difference {
        let line = |line: &difference::Line| json!({ "weight": format!("{:?}", line.weight).to_lowercase(), "text": line.text });
        document["different"] = difference.lines().iter().map(line).collect();
    }
    document
}

fn size(root: &QueueConfig) -> String {
    let queues = match n_queues(root) {
        1 => "1 queue".to_owned(),
        n_queues => format!("{n_queues} queues"),
    };
    match n_leaves(root) {
        1 => format!("{queues}, 1 of them a leaf"),
        n_leaves => format!("{queues}, {n_leaves} of them leaves"),
    }
}
