//! The `monoceros` command, with the features that a cluster needs.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    monoceros::cli::run()
}
