//! The bodies of the fuzz targets, and of the test that runs them on the golden messages
//! (`tests/repository/fuzzing`). See `docs/fuzzing.md`.
//!
//! # Why most targets start no service
//! Messages of a client are measured, decoded and translated by plain functions. An execution of
//! those takes microseconds, while one against a service waits until its actors have settled. So a
//! fuzzer runs a thousand times more inputs. Only [`Edge`] is a whole service: it alone shows that
//! nothing hangs, and that the books agree with the state of every actor.
//!
//! Reading order: [`draw`], `items`, `message`, `request`, `conversation`, `configuration`, `edge`.

mod configuration;
mod conversation;
pub mod draw;
mod edge;
mod items;
mod message;
mod raw;
mod request;

pub use self::configuration::configuration;
pub use self::conversation::conversation;
pub use self::edge::{Edge, edge};
pub use self::message::message;
pub use self::request::request;

/// Kind of call that a message is fed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `UpdateAllocation`
    Allocation,
    /// `UpdateApplication`
    Application,
    /// `UpdateNode`
    Node,
    /// `Update`, in the oldest dialect
    Update,
    /// `RegisterResourceManager`, with its queue configuration
    Register,
    /// `Attach`, after the greeting
    Callback,
    /// `Attach`, in place of the greeting
    Greeting,
    /// An administration call, chosen by the first byte
    Admin,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Allocation,
        Self::Application,
        Self::Node,
        Self::Update,
        Self::Register,
        Self::Callback,
        Self::Greeting,
        Self::Admin,
    ];

    /// Splits the input: the first byte is the kind, the rest the message.
    fn first(data: &[u8]) -> Option<(Self, &[u8])> {
        let (first, rest) = data.split_first()?;
        Some((Self::ALL[usize::from(*first) % Self::ALL.len()], rest))
    }
}
