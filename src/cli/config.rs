//! `monoceros config`: prints or replaces the queue configuration.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use monoceros_actors::config::config_map;
use monoceros_proto::si::v1 as si;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;

use super::cluster::Cluster;
use super::output;
use crate::input;
use crate::logging::{clean, clean_lines};
use crate::validate::Checked;

/// What can be done with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the queue configuration that is in force
    Get,
    /// Put one in force, if all of it is valid; settings outside the queues stay as they are
    Set {
        /// The queue configuration (YAML), or a ConfigMap with one; `-` is standard input
        #[arg(value_name = "QUEUES.yaml")]
        file: PathBuf,
        /// Only say whether it is valid, and what it would change
        #[arg(long)]
        check: bool,
        /// Have the resource manager keep it first
        #[arg(long)]
        persist: bool,
    },
}

pub(super) async fn run(
    cluster: &mut Cluster,
    command: &ConfigCommand,
) -> anyhow::Result<ExitCode> {
    let present = cluster.config().await?;
    let (file, check, persist) = match command {
        ConfigCommand::Get => {
            output::write(&clean_lines(&present.config))?;
            return Ok(ExitCode::SUCCESS);
        }
        ConfigCommand::Set { file, check, persist } => (file, *check, *persist),
    };
    let given = input::read_given(file)?;
    let config = queues_in(file, &given)?;
    let request = si::UpdateConfigurationRequest {
        rm_id: cluster.rm.clone(),
        config: config.clone(),
        // The other settings are replaced as a whole, so the present ones are sent again.
        extra_config: present.extra_config,
        ..Default::default()
    };
    let mut request = Request::new(request);
    if persist {
        request.metadata_mut().insert("x-si-persist", AsciiMetadataValue::from_static("true"));
    }
    let answer = if check {
        cluster.admin.validate_config(request).await?
    } else {
        cluster.admin.update_config(request).await?
    };
    let answer = answer.into_inner();
    let name = input::name(file);
    if answer.success {
        // Warnings first, then the differences.
        let is_warning = |line: &&str| line.starts_with("warning: ");
        for warning in answer.reason.lines().filter(is_warning) {
            writeln!(io::stderr(), "{name}: {}", clean(warning))?;
        }
        let changes: Vec<_> = answer.reason.lines().filter(|line| !is_warning(line)).collect();
        output::write(&accepted(&clean(&name), &changes, check))?;
        #[cfg(feature = "simulator")]
        if check && !changes.is_empty() {
            output::write(&clean_lines(&super::whatif::told(cluster, config).await))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    print_errors(name, &given, &answer.reason)?;
    Ok(ExitCode::FAILURE)
}

/// Returns the queue configuration in what was read from a file: all of it, or that of a `ConfigMap`.
pub(super) fn queues_in(file: &Path, given: &str) -> anyhow::Result<String> {
    let config = match config_map::find(given) {
        Ok(None) => given.to_owned(),
        Ok(Some(found)) => found.text,
        Err(errors) => anyhow::bail!("{}: {errors}", input::name(file)),
    };
    anyhow::ensure!(
        !config.trim().is_empty(),
        "{}: it is empty, and would replace all queues with the built-in ones: give a file with these \
         queues if that is meant",
        input::name(file)
    );
    Ok(config)
}

/// Describes an accepted configuration and the lines of its changes.
fn accepted(name: &str, changes: &[&str], is_check: bool) -> String {
    let (outcome, same, heading) = if is_check {
        ("ok", "it means the same as what is in force", "it would change:")
    } else {
        ("in force", "it means the same as what was in force", "it changed:")
    };
    let mut text =
        format!("{name}: {outcome}\n{}\n", if changes.is_empty() { same } else { heading });
    for change in changes {
        let _ = writeln!(text, "  {}", clean(change));
    }
    text
}

/// Prints the errors of a refused configuration: as `validate` does if the same check refuses it
/// here, with lines of the file, or else the reason of the scheduler.
fn print_errors(name: String, given: &str, reason: &str) -> anyhow::Result<()> {
    let checked = Checked::of(name, given);
    if checked.errors.is_empty() {
        writeln!(io::stderr(), "{}: {}", checked.name, clean_lines(reason))?;
    } else {
        checked.print();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepted_configuration_lists_its_changes() {
        assert_eq!(
            accepted("q", &["a: max lowered"], true),
            "q: ok\nit would change:\n  a: max lowered\n"
        );
        assert_eq!(accepted("q", &[], true), "q: ok\nit means the same as what is in force\n");
        assert_eq!(accepted("q", &["b"], false), "q: in force\nit changed:\n  b\n");
    }
}
