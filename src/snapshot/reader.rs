//! Reading a snapshot: twice from the beginning, first for its checksum, then for its lines, so that
//! nothing of a damaged file is used.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use monoceros_actors::image::{ImageReader, Report, ResourceManagerImage};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::header::Header;
use super::messages::Kind;
use super::{SnapshotError, hex, state};

/// The most bytes of a file after decompression, unless the caller says otherwise: 1 GiB.
pub const READ_BYTES: u64 = 1 << 30;
/// The most bytes of a line.
const LINE_BYTES: u64 = 256 << 20;

/// A snapshot that was read.
#[derive(Clone)]
pub struct Contents {
    /// The first line.
    pub header: Header,
    /// The resource managers, in the order of the header.
    pub managers: Vec<ManagerContents>,
}

/// A resource manager of a snapshot.
#[derive(Clone, Default)]
pub struct ManagerContents {
    /// Its id.
    pub rm_id: String,
    /// The policy group.
    pub policy_group: String,
    /// The text of the queue configuration.
    pub config: String,
    /// What it would report after a restart.
    pub partitions: Vec<PartitionContents>,
    /// The state from which a fork goes on.
    pub image: Option<ResourceManagerImage>,
}

/// A partition of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct PartitionContents {
    /// Its name, without its resource manager.
    pub name: String,
    /// What its resource manager would report after a restart.
    pub report: Report,
}

/// Reads a snapshot. `most_bytes` bounds what it may take after decompression.
///
/// # Errors
/// [`SnapshotError::Refused`], with the reason.
pub fn read(file: &[u8], most_bytes: u64) -> Result<Contents, SnapshotError> {
    let header = checked(file, most_bytes).map_err(SnapshotError::Refused)?;
    contents(file, header, most_bytes).map_err(SnapshotError::Refused)
}

/// The lines of a file.
struct FileLines<'f> {
    from: BufReader<io::Take<MultiGzDecoder<&'f [u8]>>>,
    number: u64,
    line: Vec<u8>,
}

impl<'f> FileLines<'f> {
    fn of(file: &'f [u8], most_bytes: u64) -> Self {
        // One byte more, to distinguish a file that is too long.
        let from = MultiGzDecoder::new(file).take(most_bytes.saturating_add(1));
        Self { from: BufReader::with_capacity(1 << 16, from), number: 0, line: Vec::new() }
    }

    /// The next line without its end; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        self.line.clear();
        let after = self.number;
        let read = (&mut self.from).take(LINE_BYTES).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("it is cut off after line {after}"),
            _ if after == 0 => format!("it is no gzip file, or damaged: {error}"),
            _ => format!("it is damaged after line {after}: {error}"),
        })?;
        if read == 0 {
            if self.from.get_ref().limit() == 0 {
                return Err(TOO_LONG.to_owned());
            }
            return Ok(None);
        }
        if self.line.pop() != Some(b'\n') {
            if self.from.get_ref().limit() == 0 {
                return Err(TOO_LONG.to_owned());
            }
            return Err(format!("it is cut off after line {after}"));
        }
        self.number += 1;
        Ok(Some(&self.line))
    }
}

const TOO_LONG: &str = "it takes more bytes than may be read";

/// The header of a file, of which the rest may be missing.
pub(super) fn header(file: &[u8]) -> Result<Header, String> {
    first(&mut FileLines::of(file, READ_BYTES))
}

fn first(lines: &mut FileLines<'_>) -> Result<Header, String> {
    let first = lines.next()?.ok_or("it is empty")?;
    let mut first: Map<String, Value> = serde_json::from_slice(first)
        .map_err(|_| "its first line is no header of a snapshot".to_owned())?;
    let header = first.remove("header").ok_or("its first line is no header of a snapshot")?;
    // The format first: in another one the header may have other fields.
    let format = header.get("format").and_then(Value::as_u64);
    if let Some(format) = format.filter(|it| *it != u64::from(super::FORMAT)) {
        return Err(format!("it is of format {format}, this program reads {}", super::FORMAT));
    }
    let header: Header =
        serde_json::from_value(header).map_err(|error| format!("its header has {error}"))?;
    header.check()?;
    Ok(header)
}

/// Checks the header, and the checksum of all lines below.
fn checked(file: &[u8], most_bytes: u64) -> Result<Header, String> {
    let mut lines = FileLines::of(file, most_bytes);
    let header = first(&mut lines)?;
    if header.bytes > most_bytes {
        return Err(format!("it takes {} bytes, and at most {most_bytes} are read", header.bytes));
    }
    let (mut hash, mut n_lines) = (Sha256::new(), 0);
    while let Some(line) = lines.next()? {
        hash.update(line);
        hash.update(b"\n");
        n_lines += 1;
    }
    if n_lines < header.lines {
        return Err(format!("it is cut off after line {}", n_lines + 1));
    }
    if hex(&hash.finalize()) != header.sha256 {
        return Err("what follows its header does not match its checksum".to_owned());
    }
    Ok(header)
}

/// Reads the lines below the header, whose checksum is right.
fn contents(file: &[u8], header: Header, most_bytes: u64) -> Result<Contents, String> {
    let mut lines = FileLines::of(file, most_bytes);
    lines.next()?;
    let mut managers: Vec<(ManagerContents, ImageReader)> = Vec::new();
    while let Some(line) = lines.next()? {
        if let Err(why) = take(line, &mut managers) {
            return Err(format!("line {}: {why}", lines.number));
        }
    }
    let managers = managers.into_iter().map(|(mut manager, reader)| {
        manager.image = state::finish(reader, &manager)?;
        Ok::<_, String>(manager)
    });
    Ok(Contents { header, managers: managers.collect::<Result<_, _>>()? })
}

/// Takes a line in.
fn take(line: &[u8], managers: &mut Vec<(ManagerContents, ImageReader)>) -> Result<(), String> {
    if let Some(part) = state::part(line) {
        let (_, reader) = managers.last_mut().ok_or("no resource manager is named before it")?;
        return reader.add(&mut serde_json::Deserializer::from_slice(part));
    }
    let line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Value::Object(line) = line else { return Err("it is no object".to_owned()) };
    let mut entries = line.into_iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else {
        return Err("it has not one key".to_owned());
    };
    if key == "rm" {
        let rm_id = text(value)?;
        managers.push((ManagerContents { rm_id, ..Default::default() }, ImageReader::default()));
        return Ok(());
    }
    let (manager, _) = managers.last_mut().ok_or("no resource manager is named before it")?;
    match &*key {
        "configuration" => {
            let Value::Object(mut parts) = value else { return Err("it is no object".to_owned()) };
            let mut part = |name| parts.remove(name).map_or(Ok(String::new()), text);
            (manager.policy_group, manager.config) = (part("policyGroup")?, part("text")?);
            return Ok(());
        }
        "partition" => {
            let name = text(value)?;
            manager.partitions.push(PartitionContents { name, ..Default::default() });
            return Ok(());
        }
        _ => {}
    }
    let partition = manager.partitions.last_mut().ok_or("no partition is named before it")?;
    let report = &mut partition.report;
    match &*key {
        "node" => report.nodes.push(Kind::Node.read(value)?),
        "application" => report.applications.push(Kind::Application.read(value)?),
        "allocation" => report.allocations.push(Kind::Allocation.read(value)?),
        "foreign" => report.foreign.push(Kind::Allocation.read(value)?),
        "held" => report.held.push(Kind::Application.read(value)?),
        "ask" => report.asks.push(Kind::Allocation.read(value)?),
        "repeatedAsk" => report.repeated_asks.push(Kind::AllocationAsk.read(value)?),
        other => return Err(format!("a snapshot has no `{other}`")),
    }
    Ok(())
}

fn text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!("{other} is no text")),
    }
}
