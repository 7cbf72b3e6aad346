//! The state of a resource manager, from which a fork goes on: a line for each part of its image.

use std::cell::RefCell;
use std::io;

use monoceros_actors::ConfigurationSnapshot;
use monoceros_actors::config;
use monoceros_actors::image::{ImageReader, KeptTags, ResourceManagerImage};
use serde::Serialize;

use super::SnapshotError;
use super::names::Names;
use super::reader::ManagerContents;
use super::renaming::{Context, Renamed};
use super::writer::Lines;

/// The beginning and the end of a line of the state, around the part.
const LINE: (&[u8], &[u8]) = (b"{\"state\":", b"}");

/// A line of the state.
#[derive(Serialize)]
struct Line<T> {
    state: T,
}

/// The note about a mirror that is left out.
pub(super) const MIRROR_DROPPED: &str =
    "what its predicates read is left out, since it is full of names: they are assumed to pass";

/// Collects the names in the state.
pub(super) fn collect(
    image: &ResourceManagerImage,
    names: &mut Names,
) -> Result<(), SnapshotError> {
    let context = Context { names: RefCell::new(names), kept: kept(image) };
    image.each_part(|part| {
        if part.is_of_mirror() {
            return Ok(());
        }
        serde_json::to_writer(io::sink(), &Renamed::new(part, &context)).map_err(unwritten)
    })
}

/// Writes the lines of the state.
pub(super) fn write(
    image: &ResourceManagerImage,
    names: &mut Names,
    lines: &mut Lines,
) -> Result<(), SnapshotError> {
    let are_replaced = !names.is_idle();
    let context = Context { names: RefCell::new(names), kept: kept(image) };
    image.each_part(|part| {
        if !part.is_of_mirror() {
            return lines.add(&Line { state: Renamed::new(part, &context) });
        }
        // Only its resource manager knows what in it is a name.
        if are_replaced { Ok(()) } else { lines.add(&Line { state: part }) }
    })
}

/// The tags that decisions of any of its partitions read.
fn kept(image: &ResourceManagerImage) -> KeptTags {
    let each = image.partitions.iter().map(KeptTags::of);
    each.reduce(KeptTags::and).unwrap_or_default()
}

#[expect(clippy::needless_pass_by_value, reason = "an error is mapped")]
fn unwritten(error: serde_json::Error) -> SnapshotError {
    SnapshotError::Unwritten(error.to_string())
}

/// The part of a line, if it is one of the state.
pub(super) fn part(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(LINE.0)?.strip_suffix(LINE.1)
}

/// The state of the resource manager, once all parts were read.
pub(super) fn finish(
    reader: ImageReader,
    manager: &ManagerContents,
) -> Result<Option<ResourceManagerImage>, String> {
    let read = config::parse(&manager.config).map_err(|error| {
        format!("the configuration of `{}` is not valid: {error}", manager.rm_id)
    })?;
    let configuration = ConfigurationSnapshot {
        rm_id: manager.rm_id.clone(),
        policy_group: manager.policy_group.clone(),
        config: manager.config.clone(),
        extra_config: std::collections::BTreeMap::new(),
        checksum: read.checksum,
    };
    reader.finish(configuration)
}
