//! What a caller needs for what it asks.
//!
//! There is one set of rights for both edges, so that one thing cannot be open over REST and closed
//! over gRPC. Each path of REST and each method of gRPC has a right in a table (`rest::routes` and
//! `grpc::rights`); what is in no table is not answered. docs/security.md shows both.

/// What is needed for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Nothing: probes, and what holds no facts of any cluster.
    Nothing,
    /// To be known by a rule. What the call tells is narrowed to what the caller may read, or is of
    /// nobody.
    Known,
    /// To read of one resource manager: `rm_ids` with its id, `read`, or `admin`. Where a call that
    /// may name one names none and so means all of them, [`Self::ReadAll`].
    Read,
    /// To read what concerns all resource managers: `read` or `admin`.
    ReadAll,
    /// To speak for one resource manager: `rm_ids` with its id.
    Speak,
    /// To change something of one resource manager: `rm_ids` with its id, or `admin`.
    Act,
    /// To change what concerns all: `admin`.
    Administer,
}

impl Right {
    /// The right as the manual shows it.
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
