//! Snapshots over gRPC, in parts.

use std::pin::Pin;

use axum::body::Bytes;
use futures::{Stream, stream};
use monoceros_actors::SchedulerHandle;
use monoceros_proto::v1;
use tokio::task::spawn_blocking;
use tonic::{Response, Status};

use crate::grpc::admin::refusal::CallRefusal;
use crate::grpc::admin::target;
use crate::grpc::shared::{self, Reads};
use crate::identity::Identity;
use crate::reads::{Draft, Kind, Made};
use crate::snapshot::{Replaced, Snapshots, Summary, Written};

/// Size of one part: a quarter of what clients in Go and Python accept by default.
const PART_BYTES: usize = 1 << 20;

/// The stream of parts.
pub(super) type Parts = Pin<Box<dyn Stream<Item = Result<v1::SnapshotPart, Status>> + Send>>;

/// Makes the snapshot and splits it.
pub(super) async fn get(
    handle: &SchedulerHandle,
    snapshots: &Snapshots,
    reads: &Reads,
    caller: &Identity,
    request: v1::SnapshotParameters,
) -> Result<Response<Parts>, Status> {
    let rm_id = target::resource_manager_or_all(handle, caller, &request.rm_id).await?;
    let replaced = Replaced::of(request.anonymize, request.redact);
    let turn = snapshots.turn().map_err(CallRefusal::from)?;
    let (handle, snapshots) = (handle.clone(), snapshots.clone());
    let which = format!("{rm_id:?} {replaced:?}");
    let make = move |_| async move {
        let written = snapshots.make(&handle, rm_id.as_deref(), replaced, turn).await?;
        let cut = spawn_blocking(move || {
            let Written { bytes, summary } = written;
            let mut messages = Vec::with_capacity(bytes.len() + bytes.len() / 1_000 + 100);
            for part in parts(bytes.into(), summary, PART_BYTES) {
                shared::append(&part, &mut messages);
            }
            Draft::of(messages)
        });
        let cut = cut.await.map_err(|panic| CallRefusal::Unwritten(panic.to_string()))?;
        Ok(Made::New(cut))
    };
    let document = reads.read(Kind::Snapshot, "", which, make).await?;
    let nothing: Parts = Box::pin(stream::empty());
    Ok(shared::whole(nothing, &document))
}

/// Splits the file into parts of at most `size` bytes. The last one has the figures.
fn parts(file: Bytes, summary: Summary, size: usize) -> impl Iterator<Item = v1::SnapshotPart> {
    let count = file.len().div_ceil(size).max(1);
    (0..count).map(move |index| {
        let last = index + 1 == count;
        v1::SnapshotPart {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            last,
            data: file.slice(index * size..file.len().min((index + 1) * size)).into(),
            figures: last.then_some(v1::SnapshotFigures {
                bytes: summary.bytes,
                nodes: summary.nodes as u64,
                applications: summary.applications as u64,
                allocations: summary.allocations as u64,
                requests: summary.asks as u64,
                step: summary.step,
            }),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_and_the_last_has_the_figures() {
        let summary = Summary { nodes: 3, ..Summary::default() };
        let parts: Vec<_> = parts(Bytes::from_static(b"abcdefg"), summary, 3).collect();
        let data: Vec<_> = parts.iter().map(|part| &part.data[..]).collect();
        assert_eq!(data, [&b"abc"[..], b"def", b"g"]);
        let figures: Vec<_> =
            parts.iter().map(|part| part.figures.as_ref().map(|it| it.nodes)).collect();
        assert_eq!(figures, [None, None, Some(3)]);
        assert_eq!(parts.iter().map(|part| part.last).collect::<Vec<_>>(), [false, false, true]);
    }
}
