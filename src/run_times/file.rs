//! The file of run times: JSON lines, compressed with gzip, whose checksum is that of the file.
//!
//! # Format
//! A header; for each partition a line with its name and the time, and a line for each of its rows; at
//! the end the number of lines before.
//!
//! # Invariant
//! At most [`BYTES_MAX`] bytes of text are written or read, and [`PARTITIONS_MAX`] partitions read.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use monoceros_actors::RunTimesOf;
use monoceros_actors::runtimes::{RowFault, RowLine, RunTimesImage};
use serde::{Deserialize, Serialize};

use crate::state_dir::{beside, replace};

/// The format that this program writes and reads.
const FORMAT: u32 = 1;
/// Most bytes of the file before compression. A row takes some hundred.
const BYTES_MAX: u64 = 1 << 30;
/// Most partitions that are read.
const PARTITIONS_MAX: usize = 256;

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Line {
    Header { format: u32 },
    Partition { partition: String, at_ns: i64 },
    Row(RowLine),
    End { lines: u64 },
}

/// Why the file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFault {
    /// The system, or the checksum.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// Another program wrote it.
    #[error("format {0} is unknown: this program reads {FORMAT}")]
    Format(u32),
    /// A line has no meaning.
    #[error("line {0}: {1}")]
    Line(u64, serde_json::Error),
    /// A row cannot be.
    #[error("line {0}: {1}")]
    Row(u64, RowFault),
    /// A line is out of place.
    #[error("line {0} is out of place")]
    Place(u64),
    /// It has too many partitions.
    #[error("it has more than {PARTITIONS_MAX} partitions")]
    Partitions,
    /// It ends too early.
    #[error("it is cut off, or longer than {BYTES_MAX} bytes: its last line is missing")]
    CutOff,
}

/// Writes run times to a new file, which then replaces the one at `path`.
pub(super) fn write(path: &Path, all: &[RunTimesOf]) -> io::Result<()> {
    replace(path, |file| write_to(file, all))
}

fn write_to(file: &mut File, all: &[RunTimesOf]) -> io::Result<()> {
    let text = BufWriter::new(file);
    let mut lines = Lines { text: GzEncoder::new(text, Compression::fast()), bytes: 0, count: 0 };
    lines.add(&Line::Header { format: FORMAT })?;
    for RunTimesOf { partition, image } in all {
        lines.add(&Line::Partition { partition: partition.clone(), at_ns: image.at_ns() })?;
        for row in image.lines() {
            lines.add(&Line::Row(row))?;
        }
    }
    let n_lines = lines.count;
    lines.add(&Line::End { lines: n_lines })?;
    lines.text.finish()?.flush()
}

/// Lines on the way into the file.
struct Lines<W: Write> {
    text: GzEncoder<W>,
    bytes: u64,
    count: u64,
}

impl<W: Write> Lines<W> {
    fn add(&mut self, line: &Line) -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        self.bytes += line.len() as u64;
        self.count += 1;
        if self.bytes > BYTES_MAX {
            let why = format!("the run times take more than {BYTES_MAX} bytes");
            return Err(io::Error::other(why));
        }
        self.text.write_all(&line)
    }
}

/// Reads run times. `None`: there is no file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<RunTimesOf>>, ReadFault> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let text = BufReader::new(GzDecoder::new(BufReader::new(file)).take(BYTES_MAX));
    let mut all: Vec<RunTimesOf> = Vec::new();
    let (mut n_lines, mut is_whole) = (0, false);
    for text in text.lines() {
        let text = text?;
        let line = serde_json::from_str(&text).map_err(|why| ReadFault::Line(n_lines + 1, why))?;
        match line {
            Line::Header { format: FORMAT } if n_lines == 0 => {}
            Line::Header { format } if n_lines == 0 => return Err(ReadFault::Format(format)),
            _ if n_lines == 0 || is_whole => return Err(ReadFault::Place(n_lines + 1)),
            Line::Partition { .. } if all.len() == PARTITIONS_MAX => {
                return Err(ReadFault::Partitions);
            }
            Line::Partition { partition, at_ns } => {
                all.push(RunTimesOf { partition, image: RunTimesImage::new(at_ns) });
            }
            Line::Row(row) => {
                let last = all.last_mut().ok_or(ReadFault::Place(n_lines + 1))?;
                last.image.push(row).map_err(|why| ReadFault::Row(n_lines + 1, why))?;
            }
            Line::End { lines } if lines == n_lines => is_whole = true,
            Line::Header { .. } | Line::End { .. } => return Err(ReadFault::Place(n_lines + 1)),
        }
        n_lines += 1;
    }
    if is_whole { Ok(Some(all)) } else { Err(ReadFault::CutOff) }
}

/// Gives a file that cannot be read another name. Returns the name.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let broken = beside(path, "broken");
    fs::rename(path, &broken)?;
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use monoceros_actors::runtimes::{RunTimeSettings, RunTimes};

    use super::*;

    /// A folder of its own, which is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("monoceros-run-times-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("run-times.json.gz")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn image(rows: &[&str]) -> RunTimesImage {
        let mut image = RunTimesImage::new(7);
        for row in rows {
            image.push(serde_json::from_str(row).unwrap()).unwrap();
        }
        image
    }

    /// The run times of two partitions.
    fn all() -> Vec<RunTimesOf> {
        let class = r#"{"queue":"root.a","user":"ada","stem":"etl","shape":"vcore=2^1",
            "runs":[[9,1.5,0.25]]}"#;
        let of = |partition: &str, rows: &[&str]| RunTimesOf {
            partition: partition.to_owned(),
            image: image(rows),
        };
        vec![of("[a]default", &[r#"{"runs":[[9,1.5,0.25]]}"#, class]), of("[b]default", &[])]
    }

    /// The lines of the run times, each after its partition.
    fn shown(all: &[RunTimesOf]) -> Vec<String> {
        let mut shown = Vec::new();
        for RunTimesOf { partition, image } in all {
            shown.push(format!("{partition} at {}", image.at_ns()));
            shown.extend(image.lines().map(|line| serde_json::to_string(&line).unwrap()));
        }
        shown
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = Folder::new("whole");
        let path = folder.file();
        assert!(read(&path).unwrap().is_none());
        for _ in 0..2 {
            write(&path, &all()).unwrap();
            let read = read(&path).unwrap().unwrap();
            assert_eq!(shown(&read), shown(&all()));
            let run_times = RunTimes::restored(RunTimeSettings::default(), &read[0].image);
            assert_eq!(run_times.n_classes(), 1);
        }
        let left = fs::read_dir(&folder.0).unwrap().count();
        assert_eq!(left, 1, "no file is left beside it");
    }

    #[test]
    fn a_file_that_is_cut_off_or_has_a_flipped_bit_is_refused() {
        let folder = Folder::new("broken");
        let path = folder.file();
        write(&path, &all()).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(read(&path).is_err(), "{length} of {} bytes", whole.len());
        }
        // The first ten bytes, the header of gzip, have a time that means nothing here.
        for at in 10..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            fs::write(&path, flipped).unwrap();
            // A bit that fills up the last byte before the checksum has no meaning either.
            if let Ok(read) = read(&path) {
                assert_eq!(shown(&read.unwrap()), shown(&all()), "byte {at}");
            }
        }
        assert_eq!(set_aside(&path).unwrap(), folder.0.join("run-times.json.gz.broken"));
        assert!(read(&path).unwrap().is_none());
    }

    #[test]
    fn lines_that_cannot_be_are_named() {
        let folder = Folder::new("lines");
        let path = folder.file();
        let fault = |lines: &[&str]| {
            let mut text = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
            text.write_all(lines.join("\n").as_bytes()).unwrap();
            text.finish().unwrap();
            read(&path).unwrap_err().to_string()
        };
        let (header, end) = (r#"{"line":"header","format":1}"#, r#"{"line":"end","lines":1}"#);
        let partition = r#"{"line":"partition","partition":"[a]x","atNs":7}"#;
        let newer = fault(&[r#"{"line":"header","format":2}"#]);
        assert_eq!(newer, "format 2 is unknown: this program reads 1");
        assert_eq!(fault(&[end]), "line 1 is out of place");
        assert_eq!(fault(&[header, r#"{"line":"row","runs":[]}"#]), "line 2 is out of place");
        assert_eq!(fault(&[header, partition, end]), "line 3 is out of place");
        assert_eq!(fault(&[header, end, partition]), "line 3 is out of place");
        assert!(fault(&[header, "{}"]).starts_with("line 2: missing field `line`"));
        let row = r#"{"line":"row","user":"ada","runs":[]}"#;
        assert!(fault(&[header, partition, row]).starts_with("line 3: a row has a queue, then"));
        assert!(fault(&[header, partition]).starts_with("it is cut off"));
        let many: Vec<_> = (0..=PARTITIONS_MAX).map(|_| partition).collect();
        let many = [vec![header], many].concat();
        assert_eq!(fault(&many), "it has more than 256 partitions");
    }
}
