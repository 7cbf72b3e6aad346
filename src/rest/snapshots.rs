//! The endpoint with snapshots.

use super::endpoints::{parameter, value};
use super::failures::Failure;
use super::replies::{Class, EndpointReply};
use super::{Reads, RestEdge};
use crate::reads::{Draft, Kind};
use crate::snapshot::Replaced;

/// Answers with a snapshot of one resource manager, or of all.
pub(super) async fn file<S: Reads>(
    edge: &RestEdge<S>,
    query: Option<&str>,
) -> Result<EndpointReply, Failure> {
    let replaced = Replaced::of(flag(query, "anonymize")?, flag(query, "redact")?);
    let rm = value(query, "rm");
    let turn = edge.logbook.snapshots.turn()?;
    let (source, snapshots) = (edge.source.clone(), edge.logbook.snapshots.clone());
    let which = format!("{rm:?} {replaced:?}");
    let make = move |_| async move {
        let written = source.snapshot(&snapshots, rm.as_deref(), replaced, turn).await?;
        Ok(Draft::of(written.bytes).into())
    };
    let file = edge.joined.read(Kind::Snapshot, "", which, make).await?;
    Ok(EndpointReply::shared(Class::Snapshot, file))
}

/// Whether a parameter is set: `true`, `1` or without a value.
fn flag(query: Option<&str>, name: &'static str) -> Result<bool, Failure> {
    match parameter(query, name).as_deref() {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1" | "") => Ok(true),
        Some(other) => Err(Failure::Flag { name, text: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_set_by_its_name_alone() {
        let flag = |query| flag(Some(query), "redact").ok();
        assert_eq!(["redact", "redact=1", "redact=true"].map(flag), [Some(true); 3]);
        assert_eq!(["", "redact=false", "redact=0", "anonymize"].map(flag), [Some(false); 4]);
        assert_eq!(flag("redact=yes"), None);
    }
}
