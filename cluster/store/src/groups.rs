//! Configurations of policy groups in the store: compressing, reading, and writing by
//! compare-and-set.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use monoceros_cluster::{
    Configuration, GroupId, Judgement, Key, MAX_PACKED, MAX_TEXT, Offer, Record, Reply, Request,
    Revision, TooLarge, Version, Versioned,
};

use crate::arbiter::Arbiter;
use crate::store::Failure;

/// Times that an offer is judged again, after a lost compare-and-set or one without an answer.
const TRIES: u8 = 5;

/// Compresses a text. No text stays empty. Fails if no record can hold the text, or [`unpack`]
/// would refuse it.
pub fn pack(text: &str) -> Result<Arc<[u8]>, TooLarge> {
    if text.is_empty() {
        return Ok(Arc::default());
    }
    if text.len() > MAX_TEXT {
        return Err(TooLarge::Text(text.len()));
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let written = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
    let packed = written.expect("writing to memory does not fail");
    if packed.len() > MAX_PACKED { Err(TooLarge::Packed(packed.len())) } else { Ok(packed.into()) }
}

/// Returns the text of a configuration. Empty if it is withdrawn.
pub fn unpack(configuration: &Configuration) -> Result<String, String> {
    let mut text = String::new();
    if configuration.packed.is_empty() {
        return Ok(text);
    }
    let mut reader = GzDecoder::new(&configuration.packed[..]).take(MAX_TEXT as u64 + 1);
    let read = reader.read_to_string(&mut text);
    read.map_err(|why| format!("the text cannot be decompressed: {why}"))?;
    if text.len() > MAX_TEXT {
        return Err(format!("the text has more than {MAX_TEXT} bytes"));
    }
    Ok(text)
}

/// Result of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Whether the text is in force.
    pub outcome: OfferOutcome,
    /// The record as it is now. `None`: there is none.
    pub record: Option<Versioned<Configuration>>,
}

/// Whether an offered text is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferOutcome {
    /// It is, and was before.
    InForce,
    /// It is now.
    Written,
    /// It was in force before, and the present text counts.
    Older,
    /// That depends on whether other RMs of the group are served. Nothing was written.
    DependsOnOthers,
    /// Other RMs of the group use another text.
    Conflict,
    /// The record has changed since the trial.
    ChangedMeanwhile,
}

/// Reason why an offer has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferFailure {
    /// The store has no result. The text may have been written, or may be later.
    #[error(transparent)]
    Store(#[from] Failure),
    /// Others changed the record each time before this member could.
    #[error("the configuration changed {TRIES} times meanwhile")]
    Contended,
}

impl Arbiter {
    /// Reads the configuration of a group, with the revision of the store.
    pub async fn read_group(
        &self,
        group: &GroupId,
    ) -> Result<(Option<Versioned<Configuration>>, Revision), Failure> {
        match self.ask(Request::Read(Key::Group(group.clone()))).await? {
            Reply::Read(found, revision) => Ok((found.and_then(into_configuration), revision)),
            other => {
                Err(Failure::NoAnswer(format!("another reply than that to a read: {other:?}")))
            }
        }
    }

    /// Judges an offer by the present record, and writes it if it counts.
    pub async fn offer(&self, group: &GroupId, offer: &Offer) -> Result<Offered, OfferFailure> {
        let (mut record, _) = self.read_group(group).await?;
        for tries in (0..TRIES).rev() {
            let outcome = match offer.judge(record.as_ref().map(|record| &record.value)) {
                Judgement::Write(next) => {
                    let expected = record.as_ref().map(|record| record.version);
                    match self.write_group(group, expected, next.clone()).await {
                        Ok(Ok(version)) => {
                            record = Some(Versioned { version, value: next });
                            OfferOutcome::Written
                        }
                        Ok(Err(current)) => {
                            record = current;
                            continue;
                        }
                        // The next read shows whether it was carried out.
                        Err(Failure::NoAnswer(_)) if tries > 0 => {
                            record = self.read_group(group).await?.0;
                            continue;
                        }
                        Err(failure) => return Err(failure.into()),
                    }
                }
                Judgement::InForce => OfferOutcome::InForce,
                Judgement::Older => OfferOutcome::Older,
                Judgement::DependsOnOthers => OfferOutcome::DependsOnOthers,
                Judgement::Conflict => OfferOutcome::Conflict,
                Judgement::ChangedMeanwhile => OfferOutcome::ChangedMeanwhile,
            };
            return Ok(Offered { outcome, record });
        }
        Err(OfferFailure::Contended)
    }

    /// Sends one compare-and-set. Returns the new version, or the present record if it was lost.
    async fn write_group(
        &self,
        group: &GroupId,
        expected: Option<Version>,
        next: Configuration,
    ) -> Result<Result<Version, Option<Versioned<Configuration>>>, Failure> {
        let (key, record) = (Key::Group(group.clone()), Record::Group(next));
        match self.ask(Request::CompareAndSet { key, expected, record }).await? {
            Reply::Won(version, _) => Ok(Ok(version)),
            Reply::Lost(current, _) => Ok(Err(current.and_then(into_configuration))),
            other => {
                Err(Failure::NoAnswer(format!("another reply than that to a write: {other:?}")))
            }
        }
    }
}

/// The configuration, if this is one. Whatever is read as one is decoded as one.
fn into_configuration(record: Versioned<Record>) -> Option<Versioned<Configuration>> {
    match record.value {
        Record::Group(value) => Some(Versioned { version: record.version, value }),
        Record::Member(_) | Record::Claim(_) | Record::Era(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use monoceros_cluster::Occasion;

    use super::*;

    fn configuration(packed: Arc<[u8]>) -> Configuration {
        Configuration {
            version: 1,
            checksum: "C".into(),
            earlier: Vec::new(),
            source: "test".into(),
            packed,
        }
    }

    #[test]
    fn texts_are_unpacked_as_they_were_packed() {
        for text in ["", "partitions: []\n", &"ä".repeat(100_000)] {
            assert_eq!(unpack(&configuration(pack(text).unwrap())).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_text_that_grows_too_large_is_refused() {
        let most = "x".repeat(MAX_TEXT);
        assert!(unpack(&configuration(pack(&most).unwrap())).is_ok());
        // Another program has written it: `pack` refuses it.
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all((most + "x").as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        assert!(packed.len() < 20_000, "small in the store");
        let why = unpack(&configuration(packed.into())).unwrap_err();
        assert_eq!(why, "the text has more than 8388608 bytes");
        let why = unpack(&configuration(b"text"[..].into())).unwrap_err();
        assert!(why.starts_with("the text cannot be decompressed: "), "{why}");
        let refused =
            Offer::new("C".into(), vec![0; MAX_PACKED + 1].into(), "", Occasion::FileChanged);
        assert_eq!(refused, Err(TooLarge::Packed(MAX_PACKED + 1)));
    }

    #[test]
    fn no_text_is_packed_that_members_would_not_unpack() {
        let why = pack(&"x".repeat(MAX_TEXT + 1)).unwrap_err();
        let text = "the queue configuration has 8388609 bytes: a cluster keeps at most 8388608, \
                    and 917504 compressed";
        assert_eq!(why.to_string(), text);
        // Characters without a pattern, six bits each.
        let mut state = 1_u64;
        let random = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'0' + u8::try_from(state % 64).unwrap())
        });
        let why = pack(&random.take(2 << 20).collect::<String>()).unwrap_err();
        assert!(matches!(why, TooLarge::Packed(bytes) if bytes > MAX_PACKED), "{why}");
    }
}
