//! `monoceros config`: prints or replaces the queue configuration.

use std::io::{self, Write as _};
use std::path::PathBuf;
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
    let text = input::read_given(file)?;
    let config = match config_map::find(&text) {
        Ok(None) => text,
        Ok(Some(found)) => found.text,
        Err(errors) => anyhow::bail!("{}: {errors}", input::name(file)),
    };
    let request = si::UpdateConfigurationRequest {
        rm_id: cluster.rm.clone(),
        config,
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
    if answer.success {
        // Warnings first, then the differences.
        let is_warning = |line: &&str| line.starts_with("warning: ");
        for warning in answer.reason.lines().filter(is_warning) {
            writeln!(io::stderr(), "{}: {}", input::name(file), clean(warning))?;
        }
        let changes = answer.reason.lines().filter(|line| !is_warning(line));
        output::write(&changes.map(|change| clean(change) + "\n").collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(io::stderr(), "{}: {}", input::name(file), clean_lines(&answer.reason))?;
    Ok(ExitCode::FAILURE)
}
