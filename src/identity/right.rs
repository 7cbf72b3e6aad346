//! The right that a call needs.
//!
//! Both edges use the same rights, so that no call can be open over REST and closed over gRPC. Two
//! tables (`rest::routes` and `grpc::rights`) give the right of each REST path and each gRPC
//! method. A path without a row is unknown; a method without a row is for administrators only.
//! docs/security.md shows both.

/// The right that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// None: probes, and documents without facts of any cluster.
    Nothing,
    /// To match any rule. The reply contains only data that the caller may read.
    Known,
    /// To read of one resource manager: `rm_ids` with its id, `read`, or `admin`. A call that may
    /// name a resource manager and names none needs [`Self::ReadAll`].
    Read,
    /// To read data that concern all resource managers: `read` or `admin`.
    ReadAll,
    /// To act as one resource manager: `rm_ids` with its id.
    Speak,
    /// To change something of one resource manager: `rm_ids` with its id, or `admin`.
    Act,
    /// To change something that concerns all resource managers: `admin`.
    Administer,
}

impl Right {
    /// The right as written in the manual.
    pub fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Known => "any rule",
            Self::Read => "`rm_ids`, `read` or `admin`",
            Self::ReadAll => "`read` or `admin`",
            Self::Speak => "`rm_ids`",
            Self::Act => "`rm_ids` or `admin`",
            Self::Administer => "`admin`",
        }
    }
}
