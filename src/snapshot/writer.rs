//! Writing a snapshot: the lines are compressed as they are made, and counted.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use monoceros_actors::image::{Report, ResourceManagerImage};
use monoceros_actors::partition_name::plain_name;
use monoceros_actors::rfc3339;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::header::{FORMAT, Header, PartitionAt, Replaced};
use super::messages::Kind;
use super::names::Names;
use super::{About, SnapshotError, Summary, configuration, state, texts};
use crate::cli::BUILD;

/// A file with its figures.
#[derive(Debug)]
pub struct Written {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// Figures for people.
    pub summary: Summary,
}

/// Writes the snapshot of these resource managers. It takes as long as it takes, so it belongs on a
/// thread for blocking work.
///
/// # Errors
/// [`SnapshotError::TooLarge`] if one of them takes more bytes than `limit` before compression.
pub fn write(
    images: &[ResourceManagerImage],
    about: &About,
    limit: u64,
) -> Result<Written, SnapshotError> {
    let mut reports: Vec<Vec<Report>> = images
        .iter()
        .map(|image| {
            image.partitions.iter().map(monoceros_actors::image::PartitionImage::report).collect()
        })
        .collect();
    let mut configurations: Vec<Value> = images.iter().map(configuration::of).collect();
    let names = match about.replaced {
        Replaced::Nothing => Names::kept(),
        replaced => {
            let mut found = Names::collecting(replaced);
            for (image, reports) in images.iter().zip(&mut reports) {
                found.add(&image.configuration.rm_id);
                for report in reports {
                    texts::visit(report, &mut found);
                }
                state::collect(image, &mut found)?;
            }
            for it in &configurations {
                configuration::visit(&mut it.clone(), &mut found);
            }
            found.numbered()
        }
    };
    let mut names = names;
    let mut lines = Lines::new();
    let mut summary = Summary::default();
    let mut header = Header {
        format: FORMAT,
        version: BUILD.version.to_owned(),
        commit: BUILD.commit.to_owned(),
        time: rfc3339(about.now_ns),
        cluster: names.replaced_name(&about.cluster),
        replaced: about.replaced,
        ..Header::default()
    };
    for ((image, reports), configuration) in images.iter().zip(reports).zip(&mut configurations) {
        let before = lines.bytes;
        let rm = names.replaced_name(&image.configuration.rm_id);
        lines.limit = before.saturating_add(limit);
        lines.add(&json!({ "rm": rm }))?;
        let dropped = configuration::visit(configuration, &mut names);
        header.notes.extend(dropped.then(|| format!("{rm}: {}", configuration::FILTERS_DROPPED)));
        if !names.is_idle() && image.mirror.is_some() {
            header.notes.push(format!("{rm}: {}", state::MIRROR_DROPPED));
        }
        lines.add(&json!({ "configuration": {
            "policyGroup": image.configuration.policy_group,
            "text": configuration::text(configuration, &image.configuration, about.replaced)?,
        }}))?;
        for (partition, mut report) in image.partitions.iter().zip(reports) {
            texts::visit(&mut report, &mut names);
            let name = names.replaced_name(plain_name(partition.name()));
            lines.add(&json!({ "partition": name }))?;
            summary.add(&report);
            write_report(report, &mut lines)?;
            header.partitions.push(PartitionAt {
                rm: rm.clone(),
                partition: name,
                step: partition.step(),
                at_nano: partition.at_ns(),
            });
        }
        state::write(image, &mut names, &mut lines)?;
        let bytes = lines.bytes - before;
        if bytes > limit {
            return Err(SnapshotError::TooLarge { rm, bytes, limit });
        }
        header.rms.push(rm);
    }
    summary.step = header.partitions.iter().map(|it| it.step).max().unwrap_or(0);
    let bytes = lines.finish(header)?;
    summary.bytes = bytes.len() as u64;
    Ok(Written { bytes, summary })
}

fn write_report(report: Report, lines: &mut Lines) -> Result<(), SnapshotError> {
    let Report { nodes, applications, allocations, foreign, held, asks, repeated_asks } = report;
    lines.messages("node", Kind::Node, &nodes)?;
    lines.messages("application", Kind::Application, &applications)?;
    lines.messages("allocation", Kind::Allocation, &allocations)?;
    lines.messages("foreign", Kind::Allocation, &foreign)?;
    lines.messages("held", Kind::Application, &held)?;
    lines.messages("ask", Kind::Allocation, &asks)?;
    lines.messages("repeatedAsk", Kind::AllocationAsk, &repeated_asks)
}

/// Lines below the header, compressed.
pub(super) struct Lines {
    /// `None` once there are too many bytes: the rest is only counted.
    compressed: Option<GzEncoder<Vec<u8>>>,
    hash: Sha256,
    count: u64,
    bytes: u64,
    /// The most bytes; more are not kept.
    limit: u64,
    line: Vec<u8>,
}

impl Lines {
    fn new() -> Self {
        Self {
            compressed: Some(GzEncoder::new(Vec::new(), Compression::fast())),
            hash: Sha256::new(),
            count: 0,
            bytes: 0,
            limit: u64::MAX,
            line: Vec::new(),
        }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: &impl Serialize) -> Result<(), SnapshotError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)
            .map_err(|error| SnapshotError::Unwritten(error.to_string()))?;
        self.add_written()
    }

    /// Adds the line that is in `line`.
    fn add_written(&mut self) -> Result<(), SnapshotError> {
        self.line.push(b'\n');
        self.count += 1;
        self.bytes += self.line.len() as u64;
        if self.bytes > self.limit {
            self.compressed = None;
        }
        if let Some(compressed) = &mut self.compressed {
            self.hash.update(&self.line);
            compressed.write_all(&self.line).map_err(unwritten)?;
        }
        Ok(())
    }

    fn messages<M: prost::Message>(
        &mut self,
        key: &str,
        kind: Kind,
        messages: &[M],
    ) -> Result<(), SnapshotError> {
        for message in messages {
            let message = kind.written(message).map_err(SnapshotError::Unwritten)?;
            self.add(&json!({ key: message }))?;
        }
        Ok(())
    }

    /// The whole file: the header is a gzip member of its own, so that it can have the checksum of
    /// what follows.
    fn finish(self, mut header: Header) -> Result<Vec<u8>, SnapshotError> {
        let kept = self
            .compressed
            .ok_or_else(|| SnapshotError::Unwritten("its lines were not kept".to_owned()))?;
        header.lines = self.count;
        header.bytes = self.bytes;
        header.sha256 = super::hex(&self.hash.finalize());
        let body = kept.finish().map_err(unwritten)?;
        let mut first = GzEncoder::new(Vec::with_capacity(body.len() + 4_096), Compression::fast());
        serde_json::to_writer(&mut first, &json!({ "header": header }))
            .map_err(|error| SnapshotError::Unwritten(error.to_string()))?;
        first.write_all(b"\n").map_err(unwritten)?;
        let mut file = first.finish().map_err(unwritten)?;
        file.extend_from_slice(&body);
        Ok(file)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an error is mapped")]
fn unwritten(error: io::Error) -> SnapshotError {
    SnapshotError::Unwritten(error.to_string())
}
