//! `monoceros man`: manual pages, generated from the command line's own definition so that they are
//! never out of date.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use clap_mangen::Man;

use super::{documented, output};

/// Arguments of `monoceros man`.
#[derive(Clone, Debug, Args)]
pub(super) struct ManArgs {
    /// Write the pages of all commands to this folder, which is there
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints the main manual page, or writes one page per command.
pub(super) fn pages(args: &ManArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.folder {
        clap_mangen::generate_to(documented(), folder)
            .with_context(|| format!("cannot write pages to `{}`", folder.display()))?;
    } else {
        let mut page = Vec::new();
        Man::new(documented()).render(&mut page)?;
        output::write(&String::from_utf8(page)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
