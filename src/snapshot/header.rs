//! The first line of a snapshot: what it is of, and what must be true of the lines below it.

use serde::{Deserialize, Serialize};

use crate::cli::BUILD;

/// The format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The first line of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The format of the lines.
    pub format: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// The commit of the program that wrote it.
    pub commit: String,
    /// The time at which it was taken, RFC 3339.
    pub time: String,
    /// The resource managers that it has.
    pub rms: Vec<String>,
    /// The name of the cluster of schedulers; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The partitions, each with the step at which it was read.
    pub partitions: Vec<PartitionAt>,
    /// Whether names are replaced.
    #[serde(default, skip_serializing_if = "Replaced::is_nothing")]
    pub replaced: Replaced,
    /// What was left out, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The number of lines below this one.
    pub lines: u64,
    /// The number of bytes below this one.
    pub bytes: u64,
    /// The SHA-256 of the bytes below this one, in hex digits.
    pub sha256: String,
}

/// A partition, and the step at which it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionAt {
    /// Its resource manager.
    pub rm: String,
    /// Its name.
    pub partition: String,
    /// The number of the step.
    pub step: u64,
    /// The time of the step, ns since the epoch.
    pub at_nano: i64,
}

/// The names that are replaced by made-up ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Replaced {
    /// None.
    #[default]
    Nothing,
    /// Those of users and groups.
    Users,
    /// All.
    Everything,
}

impl Replaced {
    /// What a request asks for. To replace everything includes users.
    pub fn of(anonymize: bool, redact: bool) -> Self {
        match (anonymize, redact) {
            (true, _) => Self::Everything,
            (false, true) => Self::Users,
            (false, false) => Self::Nothing,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

impl Header {
    /// Reads the header at the beginning of a file, which may be cut off.
    ///
    /// # Errors
    /// [`SnapshotError::Refused`](super::SnapshotError::Refused).
    pub fn read(beginning: &[u8]) -> Result<Self, super::SnapshotError> {
        super::reader::header(beginning).map_err(super::SnapshotError::Refused)
    }

    /// Checks that this program reads what follows. The error says what is different.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            let format = self.format;
            return Err(format!("it is of format {format}, this program reads {FORMAT}"));
        }
        let (written, own) = ((&*self.version, &*self.commit), (BUILD.version, BUILD.commit));
        if written != own {
            return Err(format!(
                "version {} (commit {}) wrote it, this program is version {} (commit {})",
                written.0, written.1, own.0, own.1
            ));
        }
        Ok(())
    }
}
