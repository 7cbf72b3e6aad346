//! The bodies of the fuzz targets, and of the test that runs them on the golden messages
//! (`tests/repository/fuzzing`): `docs/fuzzing.md`.
//!
//! # Why most of them start nothing
//! What a client sends is measured, decoded and translated by plain functions, and an execution of
//! those takes microseconds; one against a service waits until its actors have settled. So a fuzzer
//! looks a thousand times more often. Only [`Edge`] is a whole service: it alone shows that nothing
//! hangs, and that the books agree with what every actor says.
//!
//! Reading order: [`draw`], `items`, `message`, `request`, `conversation`,
//! `configuration`, `edge`.

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

/// What a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `UpdateAllocation`
    Allocation,
    /// `UpdateApplication`
    Application,
    /// `UpdateNode`
    Node,
    /// `Update`, of the oldest dialect
    Update,
    /// `RegisterResourceManager`, with its queue configuration
    Register,
    /// `Attach`, after the greeting
    Callback,
    /// `Attach`, in place of the greeting
    Greeting,
    /// A call of the administration: the first byte says which
    Admin,
}

impl Kind {
    /// Each of them.
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

    /// The first byte says which kind the rest is a message of.
    fn first(data: &[u8]) -> Option<(Self, &[u8])> {
        let (first, rest) = data.split_first()?;
        Some((Self::ALL[usize::from(*first) % Self::ALL.len()], rest))
    }
}
