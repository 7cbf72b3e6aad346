//! The allocator of the service, for benchmarks: they measure what users run.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
