//! The front: registered resource managers, the requests of each in order, and its notifications.
//!
//! # Why a module of its own
//! The front runs on one thread, apart from partitions. Work that is slow or may panic (texts,
//! callbacks, the interface's messages) is done here, so that no decision waits for it.
//!
//! # Order of the files
//! `document`, `default_queues` and `settings` are data, and `translate` and `answers` are functions.
//! None of them knows the session (`rm`), which knows nothing of `rm_proxy` above it.

mod answers;
pub(crate) mod default_queues;
pub(crate) mod document;
pub mod fuzzing;
pub(crate) mod rm;
pub(crate) mod rm_proxy;
pub(crate) mod rosters;
pub(crate) mod settings;
pub(crate) mod translate;
