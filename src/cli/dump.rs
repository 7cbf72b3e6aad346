//! `monoceros dump`: the full state as one JSON document.

use std::process::ExitCode;

use clap::Args;
use monoceros_proto::v1;

use super::cluster::Cluster;
use super::output;
use crate::logging::clean_json;

/// Arguments of `monoceros dump`.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct DumpArgs {
    /// Only these top-level keys of the document
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    section: Vec<String>,
    /// Do not ask resource managers for their own state
    #[arg(long)]
    no_rm: bool,
}

/// Writes the document as it arrives.
pub(super) async fn run(cluster: &mut Cluster, args: &DumpArgs) -> anyhow::Result<ExitCode> {
    let request = v1::StateDumpParameters {
        rm_id: cluster.rm.clone(),
        sections: args.section.clone(),
        include_rm: !args.no_rm,
    };
    let mut parts = cluster.metrics.get_state_dump(request).await?.into_inner();
    let mut rest = Vec::new();
    while let Some(part) = parts.message().await? {
        // A part may end within a character.
        rest.extend_from_slice(&part.data);
        let whole = match str::from_utf8(&rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&rest[..whole]);
        output::write(&clean_json(&text))?;
        rest.drain(..whole);
    }
    output::write(&clean_json(&String::from_utf8_lossy(&rest)))?;
    Ok(ExitCode::SUCCESS)
}
