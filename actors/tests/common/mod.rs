//! What tests of several binaries need.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this")]

use monoceros_actors::SchedulerHandle;
use monoceros_proto::si::v1 as si;

/// Runs it on one thread, by a clock that jumps to the next event where nothing else is to be done.
pub fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// So many thousandths of a core.
pub fn vcore(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

/// An ask of the application `app`, for so many allocations of one unit of `vcore`.
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
