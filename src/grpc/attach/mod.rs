//! The service `monoceros.v1.CallbackService`: how a shim that is only a gRPC client is asked
//! predicates and told what happens.
//!
//! # Why a stream that the shim opens
//! A shim inside the same process is called; one that is only a client has no address to call, and
//! may be behind a firewall. So it opens a stream, and the questions travel as messages towards it.
//!
//! # How it hangs together
//! ```text
//! scheduler ── asks, tells ──▶ Session ──▶ Attachment ─ messages ─▶ stream::ShimWriter ──▶ shim
//! scheduler ◀── answers, control ───────── (lock)  ▲ ◀─ messages ── stream::ShimReader ◀── shim
//!                                                  └─── time ─────── one task per session
//! ```
//! The [`attachment`] holds a `Conversation`, which decides everything and knows neither stream nor
//! task nor clock; what belongs to one subject is in a file of its own, with its rules and tests.
//! An allocation whose cache sync has not left yet waits in the conversation; `written` says when it
//! has left.
//!
//! Reading order: `options`, `presence`, `dictionary`, `results`, `window`, `batching`, `bundles`, `cache`,
//! `events`, `states`, `preemption`, `requests`, `pulse`, `outgoing`, `conversation`,
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
