//! A bounded queue of log lines, and the one thread that writes them.
//!
//! # Why not a crate
//! The writer of `tracing-appender` is bounded, does not block, and counts the lines that its full
//! queue refuses. But it forgets lines whose write fails, uncounted and without a sign of the
//! fault; it bounds lines and not their bytes; after a half-written line it continues on the same
//! line; and at its end it prints to standard output, which panics if nobody reads that. This
//! module handles each of these cases.
//!
//! # Invariants
//! * [`Lines::put`] never waits and never fails: it takes no lock that is held across a system
//!   call, and a line that does not fit is counted as lost.
//! * At most [`LINES`] lines and [`BYTES`] bytes are queued. Debug lines may fill half of that,
//!   audit lines all, other lines seven eighths: important lines are not displaced by debugging
//!   output.
//! * A line that was not written completely is counted as lost. The next one begins on a new line.
//! * Once writing works again, the first line states how many were lost. The writer tries this
//!   every second, also when there is nothing else to write.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Most queued lines.
pub(super) const LINES: usize = 8_192;

/// Most bytes of queued lines.
pub(super) const BYTES: usize = 4 << 20;

/// Interval between attempts to report lost lines.
const TICK: Duration = Duration::from_secs(1);

/// Pause before the next attempt when the output would block.
const PAUSE: Duration = Duration::from_millis(20);

/// Importance of a line, which sets its share of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// `debug` and `trace`.
    Detail,
    /// `info`, `warn` and `error`.
    News,
    /// Acts of administrators.
    Audit,
}

impl Class {
    /// Returns how full the queue may become by a line of this class, if `whole` is its bound of
    /// lines or bytes.
    fn share(self, whole: usize) -> usize {
        match self {
            Self::Detail => whole / 2,
            Self::News => whole / 8 * 7,
            Self::Audit => whole,
        }
    }
}

/// Counts of lines since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Written.
    pub written: u64,
    /// Dropped by the rate limit: one of their kind was written in the same second.
    pub left_out: u64,
    /// Lost: the queue was full, or the write failed.
    pub lost: u64,
    /// The lines in the queue.
    pub waiting: u64,
}

/// The sending side of the queue.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    queue: SyncSender<String>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Queued lines and bytes, including the line that is being written.
    lines: AtomicUsize,
    bytes: AtomicUsize,
    written: AtomicU64,
    left_out: AtomicU64,
    lost: AtomicU64,
}

/// Work of the thread every second, besides writing.
pub(super) trait PeriodicWork: Send + 'static {
    /// Formats the line that reports `lines` lost lines, with a newline.
    fn lost(&self, lines: u64) -> String;

    /// Does the other work that is due.
    fn tick(&mut self);
}

/// Why the last write failed. `None` while writes succeed.
pub(super) type WriteFailure = watch::Receiver<Option<String>>;

impl Lines {
    /// Starts a thread that writes to `out` and does `work`.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        mut work: impl PeriodicWork,
    ) -> io::Result<(Self, WriteFailure)> {
        let (queue, lines) = sync_channel(LINES);
        let shared = Arc::new(Shared::default());
        let (failure, failures) = watch::channel(None);
        let (out, held) = (Box::new(out), Arc::clone(&shared));
        let mut writer = Writer { out, shared: held, failure, reported: 0, is_torn: false };
        let work = move || writer.write_all(&lines, &mut work);
        thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok((Self { queue, shared }, failures))
    }

    /// Whether a line of this class would be accepted.
    pub(super) fn have_room(&self, class: Class) -> bool {
        self.shared.lines.load(Ordering::Relaxed) < class.share(LINES)
            && self.shared.bytes.load(Ordering::Relaxed) < class.share(BYTES)
    }

    /// Queues a line, which ends in a newline, if there is room.
    pub(super) fn put(&self, class: Class, line: String) {
        let bytes = line.len();
        let lines = self.shared.lines.fetch_add(1, Ordering::Relaxed);
        let held = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = lines < class.share(LINES) && held + bytes <= class.share(BYTES);
        if !fits || self.queue.try_send(line).is_err() {
            self.shared.forget(bytes);
            self.lose();
        }
    }

    /// Counts a line that was lost before it was queued.
    pub(super) fn lose(&self) {
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a line that the rate limit dropped.
    pub(super) fn leave_out(&self) {
        self.shared.left_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> LineCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        LineCounts {
            written: count(&self.shared.written),
            left_out: count(&self.shared.left_out),
            lost: count(&self.shared.lost),
            waiting: self.shared.lines.load(Ordering::Relaxed) as u64,
        }
    }

    /// Waits until the queue is empty, for at most `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.shared.lines.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Shared {
    fn forget(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.lines.fetch_sub(1, Ordering::Release);
    }
}

struct Writer {
    out: Box<dyn Write + Send>,
    shared: Arc<Shared>,
    failure: watch::Sender<Option<String>>,
    /// Lost lines that the log has reported.
    reported: u64,
    /// Whether the last write ended within a line.
    is_torn: bool,
}

impl Writer {
    fn write_all(&mut self, lines: &Receiver<String>, work: &mut impl PeriodicWork) {
        let mut ticked = Instant::now();
        loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => {
                    self.report_losses(work);
                    match self.write(&line) {
                        Ok(()) => self.shared.written.fetch_add(1, Ordering::Relaxed),
                        Err(_) => self.shared.lost.fetch_add(1, Ordering::Relaxed),
                    };
                    self.shared.forget(line.len());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now >= ticked + TICK {
                ticked = now;
                work.tick();
                self.report_losses(work);
            }
        }
    }

    fn report_losses(&mut self, work: &impl PeriodicWork) {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        if lost > self.reported && self.write(&work.lost(lost - self.reported)).is_ok() {
            self.reported = lost;
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let outcome = self.try_write(line);
        let failure = outcome.as_ref().err().map(ToString::to_string);
        self.failure.send_if_modified(|last| {
            let is_new = *last != failure;
            *last = failure;
            is_new
        });
        outcome
    }

    fn try_write(&mut self, line: &str) -> io::Result<()> {
        if self.is_torn {
            self.write_bytes(b"\n")?;
            self.is_torn = false;
        }
        self.write_bytes(line.as_bytes())?;
        self.out.flush()
    }

    fn write_bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n_written) => {
                    bytes = &bytes[n_written..];
                    self.is_torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process that shares the file has made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// An output with room for a number of bytes.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Sheet>>);

    #[derive(Default)]
    struct Sheet {
        text: String,
        /// Bytes that fit. `None`: any number.
        room: Option<usize>,
        n_failures: usize,
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut sheet = self.0.lock().unwrap();
            let n_bytes = bytes.len().min(sheet.room.unwrap_or(usize::MAX));
            if n_bytes == 0 {
                sheet.n_failures += 1;
                return Err(ErrorKind::StorageFull.into());
            }
            sheet.room = sheet.room.map(|room| room - n_bytes);
            sheet.text.push_str(str::from_utf8(&bytes[..n_bytes]).unwrap());
            Ok(n_bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Nothing;

    impl PeriodicWork for Nothing {
        fn lost(&self, lines: u64) -> String {
            format!("{lines} lost\n")
        }

        fn tick(&mut self) {}
    }

    const PATIENCE: Duration = Duration::from_secs(15);

    #[test]
    fn losses_are_reported_and_torn_lines_ended() {
        let paper = Paper::default();
        let (lines, failure) = Lines::start(paper.clone(), Nothing).unwrap();
        paper.0.lock().unwrap().room = Some(5 + 2);
        for line in ["one 1\n", "two 2\n", "three\n"] {
            lines.put(Class::News, line.to_owned());
        }
        lines.flush(PATIENCE);
        assert!(failure.borrow().as_ref().is_some_and(|why| why.contains("storage")));
        assert_eq!(lines.counts(), LineCounts { written: 1, lost: 2, ..LineCounts::default() });
        paper.0.lock().unwrap().room = None;
        lines.put(Class::News, "four\n".to_owned());
        lines.flush(PATIENCE);
        assert_eq!(paper.0.lock().unwrap().text, "one 1\nt\n2 lost\nfour\n");
        assert!(failure.borrow().is_none());
        assert_eq!(lines.counts(), LineCounts { written: 2, lost: 2, ..LineCounts::default() });
    }

    #[test]
    fn losses_are_told_although_no_further_line_comes() {
        let paper = Paper::default();
        paper.0.lock().unwrap().room = Some(0);
        let (lines, _) = Lines::start(paper.clone(), Nothing).unwrap();
        lines.put(Class::News, "one\n".to_owned());
        lines.flush(PATIENCE);
        paper.0.lock().unwrap().room = None;
        let deadline = Instant::now() + PATIENCE;
        while paper.0.lock().unwrap().text != "1 lost\n" {
            assert!(Instant::now() < deadline, "{}", paper.0.lock().unwrap().text);
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_stuck_writer_blocks_nobody_and_audit_has_priority() {
        let paper = Paper::default();
        let still = paper.0.lock().unwrap();
        let (lines, _) = Lines::start(paper.clone(), Nothing).unwrap();
        let put = |class: Class, n_lines: usize| {
            let before = lines.counts().lost;
            for _ in 0..n_lines {
                lines.put(class, "x\n".to_owned());
            }
            n_lines - usize::try_from(lines.counts().lost - before).unwrap()
        };
        assert_eq!(put(Class::Detail, 1_000_000), LINES / 2);
        assert!(!lines.have_room(Class::Detail) && lines.have_room(Class::News));
        assert_eq!(put(Class::News, 1_000_000), LINES / 8 * 3);
        assert_eq!(put(Class::Audit, 1_000_000), LINES / 8);
        assert!(!lines.have_room(Class::Audit));
        drop(still);
        lines.flush(PATIENCE);
        lines.put(Class::News, "last\n".to_owned());
        lines.flush(PATIENCE);
        let lost = 3_000_000 - LINES;
        let text = &paper.0.lock().unwrap().text;
        let reported =
            text.lines().filter_map(|line| line.strip_suffix(" lost")?.parse::<usize>().ok());
        assert_eq!(reported.sum::<usize>(), lost, "{:?}", lines.counts());
        assert!(text.ends_with("last\n"));
    }

    #[test]
    fn long_lines_are_bounded_by_their_bytes() {
        let paper = Paper::default();
        let still = paper.0.lock().unwrap();
        let (lines, _) = Lines::start(paper.clone(), Nothing).unwrap();
        for _ in 0..1_000 {
            lines.put(Class::Audit, "x".repeat(64 << 10));
        }
        assert_eq!(lines.counts().lost, 1_000 - (BYTES as u64 >> 16));
        drop(still);
    }
}
