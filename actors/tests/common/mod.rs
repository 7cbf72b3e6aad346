//! Helpers shared by several test binaries.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this")]

use monoceros_actors::SchedulerHandle;
use monoceros_proto::si::v1 as si;

/// Runs the future on one thread in virtual time: the clock jumps to the next timer when no task is
/// ready.
pub fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// An amount of cores in thousandths.
pub fn vcore(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

/// An ask of the application `app`, for up to `max_allocations` of one unit of `vcore`.
pub fn ask_for(key: &str, max_allocations: i32) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        resource_ask: Some(vcore(1)),
        max_allocations,
        ..Default::default()
    }
}

/// Sends an ask of `rm`.
pub async fn send_ask(scheduler: &SchedulerHandle, rm: &str, ask: si::AllocationAsk) {
    let request =
        si::AllocationRequest { rm_id: rm.to_owned(), asks: vec![ask], ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
}

/// Asserts that `main` has a `mod` for each file and folder beside it. A test file without one
/// would never run.
pub fn assert_all_named(folder: &str, main: &str) {
    for file in
        std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
    {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_named = main.contains(&format!("mod {name};"));
        assert!(is_named || matches!(name, "main" | "mod"), "{name} is forgotten");
    }
}
