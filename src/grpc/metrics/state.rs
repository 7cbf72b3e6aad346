//! The state dump over gRPC, in parts.
//!
//! The dump of a large cluster exceeds the usual message limit of clients, so it is split. The
//! parts joined together are the JSON document served by REST.

use std::pin::Pin;

use axum::body::Bytes;
use futures::{Stream, stream};
use monoceros_actors::SchedulerHandle;
use monoceros_proto::v1;
use tokio::task::spawn_blocking;
use tonic::{Response, Status};

use crate::dump::{self, DumpError, DumpRequest, SECTIONS};
use crate::grpc::admin::refusal::CallRefusal;
use crate::grpc::admin::target;
use crate::grpc::shared::{self, Reads};
use crate::identity::Identity;
use crate::logbook::Logbook;
use crate::reads::{Draft, Kind, Made};

/// Size of one part: a quarter of what clients in Go and Python accept by default.
const PART_BYTES: usize = 1 << 20;

const JSON: &str = "application/json; charset=UTF-8";

/// The stream of parts.
pub(super) type Parts = Pin<Box<dyn Stream<Item = Result<v1::StateDumpPart, Status>> + Send>>;

/// Makes the dump and splits it.
pub(super) async fn dump(
    handle: &SchedulerHandle,
    logbook: &Logbook,
    reads: &Reads,
    caller: &Identity,
    request: v1::StateDumpParameters,
) -> Result<Response<Parts>, Status> {
    let wanted = wanted(handle, caller, request).await?;
    let (handle, which) = (handle.clone(), format!("{wanted:?}"));
    let logbook = logbook.clone();
    let make = move |_| async move {
        let text = dump::make(&handle, &logbook, &wanted).await.map_err(|error| match error {
            DumpError::Stopped => CallRefusal::Stopped,
            DumpError::Document(_) => CallRefusal::Unwritten(error.to_string()),
        })?;
        let cut = spawn_blocking(move || {
            let mut bytes = Vec::with_capacity(text.len() + text.len() / 1_000 + 100);
            for part in parts(text.into(), PART_BYTES) {
                shared::append(&part, &mut bytes);
            }
            Draft::of(bytes)
        });
        let cut = cut.await.map_err(|panic| CallRefusal::Unwritten(panic.to_string()))?;
        Ok(Made::New(cut))
    };
    let document = reads.read(Kind::StateDump, "", which, make).await?;
    let nothing: Parts = Box::pin(stream::empty());
    Ok(shared::whole(nothing, &document))
}

async fn wanted(
    handle: &SchedulerHandle,
    caller: &Identity,
    request: v1::StateDumpParameters,
) -> Result<DumpRequest, CallRefusal> {
    for section in &request.sections {
        if !SECTIONS.contains(&section.as_str()) {
            let reason = format!("`{section}` is none of {}", SECTIONS.join(", "));
            return Err(CallRefusal::field("sections", reason));
        }
    }
    let rm_id = target::resource_manager_or_all(handle, caller, &request.rm_id).await?;
    let sections = request.sections.into_iter().collect();
    Ok(DumpRequest { rm_id, sections, include_rm: request.include_rm })
}

/// Splits the text into parts of at most `size` bytes; at least one part.
fn parts(text: Bytes, size: usize) -> impl Iterator<Item = v1::StateDumpPart> + Send {
    let count = text.len().div_ceil(size).max(1);
    (0..count).map(move |index| {
        let data = text.slice(index * size..text.len().min((index + 1) * size));
        v1::StateDumpPart {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            last: index + 1 == count,
            data: data.into(),
            content_type: JSON.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_and_the_last_is_marked() {
        for (text, expected) in [
            ("", &[""][..]),
            ("abc", &["abc"]),
            ("abcd", &["abc", "d"]),
            ("abcdef", &["abc", "def"]),
        ] {
            let parts: Vec<_> = parts(Bytes::from_static(text.as_bytes()), 3).collect();
            for (index, (part, data)) in parts.iter().zip(expected).enumerate() {
                assert_eq!(part.data, data.as_bytes());
                assert_eq!((part.index as usize, part.last), (index, index + 1 == expected.len()));
            }
            assert_eq!(parts.len(), expected.len());
        }
    }
}
