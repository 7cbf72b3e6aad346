//! Decompression of a gzip message.
//!
//! A message declares its decompressed length at its end, so memory for it is taken at once and
//! data beyond it are refused.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use tonic::Code;

use super::super::measure::{Measure, Most};
use super::{Broken, unreadable};
use crate::grpc::end::StreamEnd;

/// This much of a compressed message is measured before the rest is decompressed.
const BEGINNING_BYTES: usize = 1 << 20;

/// The decompressed length, as given at the end of a gzip member.
pub(super) fn decompressed_length(data: &[u8], limit: usize) -> Result<usize, Broken> {
    let length = data.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > limit {
        let message = format!(
            "a compressed message holds {length} bytes and is refused: send at most {limit} \
             (`grpc.max_recv_message_bytes`)"
        );
        let end = StreamEnd::Unreadable { code: Code::ResourceExhausted, message };
        return Err(Broken::Refused(end));
    }
    Ok(length)
}

/// Decompresses data whose declared length is `length`; more data than that is malformed. Stops
/// after the beginning if that alone exceeds the limits.
pub(super) fn decompressed(
    data: &[u8],
    length: usize,
    most: Most,
    measured: impl Fn(&[u8]) -> Measure,
) -> Result<(Bytes, Measure), Broken> {
    let mut reader = GzDecoder::new(data);
    let mut bytes = vec![0; length.min(BEGINNING_BYTES)];
    let mut whole = reader.read_exact(&mut bytes);
    if whole.is_ok() && bytes.len() < length {
        let measure = measured(&bytes);
        if measure.exceeds(most) {
            return Ok((Bytes::from(bytes), measure));
        }
        let beginning = bytes;
        bytes = vec![0; length];
        bytes[..beginning.len()].copy_from_slice(&beginning);
        whole = reader.read_exact(&mut bytes[beginning.len()..]);
    }
    match whole.and_then(|()| reader.read(&mut [0])) {
        Ok(0) => {
            let measure = measured(&bytes);
            // Freed here: on another thread the allocator would keep the memory for this one.
            bytes.truncate(if measure.exceeds(most) { 0 } else { length });
            bytes.shrink_to_fit();
            Ok((Bytes::from(bytes), measure))
        }
        Ok(_) => Err(Broken::Refused(unreadable(
            "a compressed message holds more than it says at its end",
        ))),
        Err(error) => Err(Broken::Refused(unreadable(format!(
            "a compressed message could not be read: {error}"
        )))),
    }
}
