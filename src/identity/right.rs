//! The right that a call needs.
//!
//! Both edges use the same rights, so that nothing can be open over REST and closed over gRPC. Two
//! tables (`rest::routes` and `grpc::rights`) give the right of each REST path and each gRPC
//! method; what is in neither is not answered. docs/security.md shows both.

/// The right that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// None: probes, and what holds no facts of any cluster.
    Nothing,
    /// To match any rule. The reply contains only what the caller may read.
    Known,
    /// To read of one resource manager: `rm_ids` with its id, `read`, or `admin`. A call that may
    /// name one and names none needs [`Self::ReadAll`].
    Read,
    /// To read what concerns all resource managers: `read` or `admin`.
    ReadAll,
    /// To act as one resource manager: `rm_ids` with its id.
    Speak,
    /// To change something of one resource manager: `rm_ids` with its id, or `admin`.
    Act,
    /// To change what concerns all: `admin`.
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
