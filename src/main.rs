//! The `monoceros` command.
//!
//! It does nothing by itself: each command is a module of the library, so that tests run the same
//! code without a process.
//!
//! Exit codes: 0 done, 1 the work could not be done (the reason is on standard error), 2 the
//! command line is wrong, 70 the running service has lost its scheduler.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use mimalloc::MiMalloc;
use monoceros::cli::{Cli, Command, ServeArgs};
use monoceros::logging::{Log, clean_lines};
use monoceros::{admin_cli, explain_cli, serve, settings, simulate, validate};
use tracing::warn;

/// A decision makes some 27 heap allocations, and many are freed on another thread. With mimalloc it
/// takes two thirds of the CPU time or less (docs/performance.md). The library crates choose no
/// allocator: that is up to the program that embeds them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => run_service(&args),
        Command::Simulate(args) => simulate::run(args),
        Command::Validate(args) => validate::run(&args),
        Command::Admin(args) => admin_cli::run(args),
        Command::Explain(args) => explain_cli::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        let error = format!("monoceros: {error:#}");
        let error = clean_lines(&error);
        if writeln!(io::stderr(), "{error}").is_err() {
            // Nobody is left to tell when even this cannot be written.
            let _ = writeln!(io::stdout(), "{error}");
        }
        ExitCode::FAILURE
    })
}

fn run_service(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = serve::settings(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let log = Log::start(&settings.log)?;
        for (key, meant) in settings::ignored_variables() {
            warn!(key, meant, "not a setting, ignored; a setting has two underscores twice");
        }
        serve::run(settings, args.demo, log.account()).await
    });
    // Whatever has not ended within the grace is cut.
    runtime.shutdown_background();
    outcome
}
