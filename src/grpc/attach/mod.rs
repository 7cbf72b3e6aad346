//! The service `monoceros.v1.CallbackService`: predicates and notifications for a shim that is only
//! a gRPC client.
//!
//! # Why the shim opens the stream
//! A shim in the same process is called directly. A shim that is only a client has no address to
//! call and may be behind a firewall. So it opens a stream, and the questions are messages to it.
//!
//! # Structure
//! ```text
//! scheduler ─ questions, events ─▶ Session ─▶ Attachment ─ messages ─▶ stream::ShimWriter ─▶ shim
//! scheduler ◀─ answers, control ───────────── (lock)  ▲ ◀─ messages ── stream::ShimReader ◀─ shim
//!                                                     └─── time ─────── one task per session
//! ```
//! The [`attachment`] holds a `Conversation`, which makes all decisions and is free of streams,
//! tasks and clocks; each subject has a file with its rules and tests. An allocation whose cache
//! sync was not written yet waits in the conversation; `written` reports when it was.
//!
//! Reading order: `options`, `presence`, `dictionary`, `results`, `window`, `batching`, `bundles`,
//! `cache`, `events`, `states`, `preemption`, `requests`, `pulse`, `outgoing`, `conversation`,
//! [`attachment`], `written`, `stream`.

pub mod attachment;
mod batching;
mod bundles;
mod cache;
mod conversation;
mod dictionary;
mod events;
#[doc(hidden)]
pub mod fuzzing;
mod options;
mod outgoing;
mod preemption;
mod presence;
mod pulse;
mod requests;
mod results;
mod states;
pub(super) mod stream;
mod window;
mod written;

pub use attachment::{AllocationSink, Attachment};
pub use options::CallbackOptions;
pub use preemption::Preempted;
pub(super) use written::NotingWritten;
