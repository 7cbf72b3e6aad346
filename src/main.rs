//! The `monoceros` command.
//!
//! It only starts the command line: each command is a module of the library, so that tests run the
//! same code without a process.
//!
//! Exit codes: 0 done, 1 the work could not be done (the reason is on standard error), 2 the
//! command line or a setting is wrong or another process has the id of this member, 70 the running
//! service has lost its scheduler.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A decision makes four or five heap allocations, and many are freed on another thread. mimalloc
/// reduces its CPU time to two thirds or less (docs/performance.md). The library crates choose no
/// allocator: that is up to the program that embeds them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    monoceros::cli::run()
}
