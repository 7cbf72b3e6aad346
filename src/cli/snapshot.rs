//! `monoceros snapshot`: the state in a file from which another scheduler goes on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use monoceros_proto::v1;

use super::cluster::Cluster;
use super::output;
use crate::snapshot::Header;

/// Most bytes of a file that are kept for its first line.
const HEADER_BYTES: usize = 1 << 20;

/// Arguments of `monoceros snapshot`.
#[derive(Clone, Debug, Args)]
pub(super) struct SnapshotArgs {
    /// The file to write (gzip); `-` writes to the standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace every name by a made-up one that sorts as the name does
    #[arg(long)]
    anonymize: bool,
    /// Replace the names of users and groups only
    #[arg(long)]
    redact: bool,
}

/// Writes the file as it arrives, beside its place, and moves it there once it is whole.
pub(super) async fn run(cluster: &mut Cluster, args: &SnapshotArgs) -> anyhow::Result<ExitCode> {
    let request = v1::SnapshotParameters {
        rm_id: cluster.rm.clone(),
        anonymize: args.anonymize,
        redact: args.redact,
    };
    let mut parts = cluster.metrics.get_snapshot(request).await?.into_inner();
    let mut target = Target::of(&args.file)?;
    let (mut beginning, mut figures, mut is_whole) = (Vec::new(), None, false);
    while let Some(part) = parts.message().await? {
        if beginning.len() < HEADER_BYTES {
            beginning.extend_from_slice(&part.data);
        }
        target.write(&part.data)?;
        is_whole = part.last;
        figures = part.figures;
    }
    anyhow::ensure!(is_whole, "the snapshot ended before its last part");
    let line = line(&figures.unwrap_or_default(), Header::read(&beginning).ok().as_ref());
    match target.finish()? {
        Some(file) => output::write(&format!("{}: {line}\n", file.display()))?,
        None => writeln!(io::stderr(), "{line}").unwrap_or_default(),
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a snapshot of the resource manager that is meant, for another command.
#[cfg(feature = "simulator")]
pub(super) async fn bytes(cluster: &mut Cluster) -> anyhow::Result<Vec<u8>> {
    let request = v1::SnapshotParameters { rm_id: cluster.rm.clone(), ..Default::default() };
    let mut parts = cluster.metrics.get_snapshot(request).await?.into_inner();
    let (mut bytes, mut is_whole) = (Vec::new(), false);
    while let Some(part) = parts.message().await? {
        bytes.extend_from_slice(&part.data);
        is_whole = part.last;
    }
    anyhow::ensure!(is_whole, "the snapshot ended before its last part");
    Ok(bytes)
}

/// Says in a line what is in the file.
fn line(figures: &v1::SnapshotFigures, header: Option<&Header>) -> String {
    let v1::SnapshotFigures { bytes, nodes, applications, allocations, requests, step } = figures;
    let time = header.map(|header| format!(", {}", header.time)).unwrap_or_default();
    format!(
        "{bytes} bytes: {nodes} nodes, {applications} applications, {allocations} allocations, \
         {requests} requests, step {step}{time}"
    )
}

/// The place to which a snapshot is written.
enum Target {
    Output,
    File { file: File, beside: PathBuf, path: PathBuf, is_whole: bool },
}

impl Target {
    fn of(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Output);
        }
        let mut name = path.file_name().context("FILE names no file")?.to_owned();
        name.push(".part");
        let beside = path.with_file_name(name);
        let file = File::create(&beside);
        let file = file.with_context(|| format!("cannot write `{}`", beside.display()))?;
        Ok(Self::File { file, beside, path: path.to_owned(), is_whole: false })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Output => Ok(io::stdout().write_all(bytes)?),
            Self::File { file, beside, .. } => file
                .write_all(bytes)
                .with_context(|| format!("cannot write `{}`", beside.display())),
        }
    }

    /// Moves the file to its place.
    fn finish(mut self) -> anyhow::Result<Option<PathBuf>> {
        match &mut self {
            Self::Output => {
                io::stdout().flush()?;
                Ok(None)
            }
            Self::File { file, beside, path, is_whole } => {
                let cannot = || format!("cannot write `{}`", path.display());
                file.sync_all().with_context(cannot)?;
                fs::rename(&*beside, &*path).with_context(cannot)?;
                *is_whole = true;
                Ok(Some(path.clone()))
            }
        }
    }
}

impl Drop for Target {
    /// Removes a file that is not whole.
    fn drop(&mut self) {
        if let Self::File { beside, is_whole: false, .. } = self {
            // It may be gone already.
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_only_once_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("snapshot-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("s.gz");
        let names = || fs::read_dir(&folder).unwrap().count();
        let mut target = Target::of(&path).unwrap();
        target.write(b"ab").unwrap();
        assert!(!path.exists() && names() == 1);
        drop(target);
        assert_eq!(names(), 0);
        let mut target = Target::of(&path).unwrap();
        target.write(b"abc").unwrap();
        assert_eq!(target.finish().unwrap(), Some(path.clone()));
        assert_eq!((fs::read(&path).unwrap(), names()), (b"abc".to_vec(), 1));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_line_says_what_is_in_the_file() {
        let figures = v1::SnapshotFigures { bytes: 9, nodes: 1, step: 7, ..Default::default() };
        assert_eq!(
            line(&figures, None),
            "9 bytes: 1 nodes, 0 applications, 0 allocations, 0 requests, step 7"
        );
    }
}
