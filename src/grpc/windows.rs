//! The flow-control windows of HTTP/2: how much a client may send ahead.
//!
//! # Why not the defaults
//! To guard against peers that send tiny frames, the HTTP/2 library charges each unread data frame
//! of fewer than 256 bytes: the difference to 256 is taken from a budget, and when the budget is
//! used up the connection is closed with everything in flight. A harmless client that sends one
//! message per pod produces thousands of such frames in a burst. The budget is half of the
//! connection's window, so the stream windows are made small in proportion: even if all streams are
//! full of small messages the budget lasts, and a client that sends faster than it is read is
//! stopped by the window of its stream.
//!
//! The connection's window bounds nothing else: a client's unread data is bounded by the windows of
//! its streams.
//!
//! # Invariant
//! Frames of at least `SMALLEST` bytes never use up the budget, on as many streams as a connection
//! may have. For more than 12,000 streams no such window exists, and the largest one is used.

use std::num::NonZeroU32;

/// A smaller frame is charged the difference to this size, in bytes.
const CHEAP: u64 = 256;
/// The smallest useful message, in bytes with its frame: a release by key.
const SMALLEST: u64 = 40;
/// The largest window that HTTP/2 allows.
const LARGEST: u64 = (1 << 31) - 1;
/// The largest stream window: enough to read at full rate, and small enough that a connection with
/// very many streams holds little memory.
const STREAM_MOST: u64 = 64 << 10;
/// The smallest stream window: one frame of the usual size.
const STREAM_LEAST: u64 = 16 << 10;

/// The windows of a connection, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// The window of each stream.
    pub(super) stream: u32,
    /// The window of all streams together.
    pub(super) connection: u32,
}

impl Windows {
    /// The windows of a connection with at most `streams` streams.
    pub(super) fn new(streams: NonZeroU32) -> Self {
        let streams = u64::from(streams.get());
        // Budget charged per byte, in frames of the smallest size; doubled, since the budget is
        // half of the connection's window.
        let (cost, of) = (2 * (CHEAP - SMALLEST), SMALLEST);
        let stream = (LARGEST * of / cost / streams).clamp(STREAM_LEAST, STREAM_MOST);
        let connection = (streams * stream * cost).div_ceil(of).min(LARGEST);
        let window = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { stream: window(stream), connection: window(connection) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(streams: u32) -> Windows {
        Windows::new(NonZeroU32::new(streams).unwrap())
    }

    #[test]
    fn small_frames_never_exhaust_the_budget() {
        for streams in [1, 4, 1_024, 3_000, 12_000] {
            let Windows { stream, connection } = of(streams);
            let budget = u64::from(connection) / 2;
            for size in SMALLEST..CHEAP {
                let frames = u64::from(streams) * (u64::from(stream) / size);
                assert!(frames * (CHEAP - size) <= budget, "{streams} streams, {size} bytes");
            }
        }
    }

    #[test]
    fn windows_are_valid_http_2_sizes() {
        assert_eq!(of(1_024), Windows { stream: 65_536, connection: 724_775_732 });
        assert_eq!(of(12_000).stream, 16_570);
        assert_eq!(of(u32::MAX), Windows { stream: 16_384, connection: 2_147_483_647 });
    }
}
