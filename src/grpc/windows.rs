//! How much a client may send ahead: the windows of HTTP/2 flow control.
//!
//! # Why not the defaults
//! Against peers that send data in crumbs, the HTTP/2 library counts each data frame of fewer than 256
//! bytes that was received and not read yet: what it lacks of 256 comes out of a budget, and when
//! that is used up the connection is closed, with everything that was on its way. But a client
//! that sends a message for each pod sends such frames, thousands in a burst, and means no harm. The
//! budget is half of the connection's window. So the windows of the streams are made small against
//! that of the connection: however many streams are full of small messages, the budget is not used
//! up, and a client that sends faster than it is read is held up by its stream's window.
//!
//! The window of the connection bounds nothing beside that: what a client can have unread is the
//! windows of its streams.
//!
//! # Invariant
//! `SMALLEST` bytes or more in each frame never use the budget up, on as many streams as a connection
//! may have. For more than 12,000 streams there is no such window, and it is as near as can be.

use std::num::NonZeroU32;

/// Frames of fewer bytes cost what they lack of this.
const CHEAP: u64 = 256;
/// The smallest message that says anything, in bytes with its frame: a release by its key.
const SMALLEST: u64 = 40;
/// The largest window that HTTP/2 knows.
const LARGEST: u64 = (1 << 31) - 1;
/// What a stream is let send ahead at most: enough to read on at full rate, little enough that a
/// connection with very many streams holds little memory.
const STREAM_MOST: u64 = 64 << 10;
/// One frame of the usual size.
const STREAM_LEAST: u64 = 16 << 10;

/// The windows of a connection, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// Of each of its streams.
    pub(super) stream: u32,
    /// Of all of them together.
    pub(super) connection: u32,
}

impl Windows {
    /// Those of connections with at most so many streams.
    pub(super) fn new(streams: NonZeroU32) -> Self {
        let streams = u64::from(streams.get());
        // What a byte costs in the smallest frames, twice since the budget is half of the window.
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
    fn small_frames_on_all_streams_never_use_the_budget_up() {
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
    fn windows_are_of_a_size_that_http_2_knows() {
        assert_eq!(of(1_024), Windows { stream: 65_536, connection: 724_775_732 });
        assert_eq!(of(12_000).stream, 16_570);
        assert_eq!(of(u32::MAX), Windows { stream: 16_384, connection: 2_147_483_647 });
    }
}
