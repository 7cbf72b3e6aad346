//! The state of a resource manager, from which a fork goes on.

use monoceros_actors::image::ResourceManagerImage;
use serde_json::Value;

use super::SnapshotError;
use super::names::Names;
use super::reader::ManagerContents;
use super::writer::Lines;

/// Collects the names in the state.
#[expect(clippy::unnecessary_wraps, reason = "an image cannot be written yet")]
pub(super) fn collect(
    _image: &ResourceManagerImage,
    _names: &mut Names,
) -> Result<(), SnapshotError> {
    Ok(())
}

/// Writes the lines of the state.
#[expect(clippy::unnecessary_wraps, reason = "an image cannot be written yet")]
pub(super) fn write(
    _image: &ResourceManagerImage,
    _names: &mut Names,
    _lines: &mut Lines,
) -> Result<(), SnapshotError> {
    Ok(())
}

/// The state while its lines are read.
#[derive(Default)]
pub(super) struct Stated;

impl Stated {
    /// Takes a line in.
    #[expect(clippy::unnecessary_wraps, reason = "an image cannot be written yet")]
    pub(super) fn add(&mut self, _line: Value) -> Result<(), String> {
        Ok(())
    }

    /// The state of the resource manager, if there was any.
    #[expect(clippy::unnecessary_wraps, reason = "an image cannot be written yet")]
    pub(super) fn finish(
        self,
        _manager: &ManagerContents,
    ) -> Result<Option<ResourceManagerImage>, String> {
        Ok(None)
    }
}
