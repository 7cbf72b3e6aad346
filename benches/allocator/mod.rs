//! The service's allocator, so that benchmarks measure what users run.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
