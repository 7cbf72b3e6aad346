//! Asks that overtake their application wait for it (scheduler-interface chapter, 3.4 O3).
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

/// Writes down what it hears.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Ear {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ResourceManagerCallback for Ear {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let mut heard = self.0.lock().unwrap();
        heard.extend(response.new.into_iter().map(|new| format!("{} placed", new.allocation_key)));
        heard.extend(response.rejected.into_iter().map(|rejected| rejected.reason));
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        let mut heard = self.0.lock().unwrap();
        heard.extend(response.accepted.into_iter().map(|app| format!("{} in", app.application_id)));
        heard
            .extend(response.rejected.into_iter().map(|app| format!("{} out", app.application_id)));
    }
    fn update_node(&self, _response: si::NodeResponse) {}
}

fn vcore(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

async fn ask(scheduler: &SchedulerHandle, key: &str) {
    let ask = si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        resource_ask: Some(vcore(1)),
        max_allocations: 1,
        ..Default::default()
    };
    let request =
        si::AllocationRequest { rm_id: "rm".to_owned(), asks: vec![ask], ..Default::default() };
    scheduler.update_allocation(request).await.unwrap();
}

async fn application(scheduler: &SchedulerHandle, user: &str) {
    let new = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        ugi: Some(si::UserGroupInformation { user: user.to_owned(), groups: Vec::new() }),
        ..Default::default()
    };
    let request =
        si::ApplicationRequest { rm_id: "rm".to_owned(), new: vec![new], ..Default::default() };
    scheduler.update_application(request).await.unwrap();
}

/// A scheduler with a window of a second and one node, in virtual time.
fn play<F: Future<Output = ()>>(story: impl FnOnce(SchedulerHandle, Arc<Ear>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let builder = Scheduler::builder().reorder_window(Duration::from_secs(1));
        let scheduler = builder.start_local().unwrap();
        let ear = Arc::new(Ear::default());
        let register =
            si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
        let callback = Arc::clone(&ear);
        scheduler.register_resource_manager(register, callback).await.unwrap();
        let node = si::NodeInfo {
            node_id: "n1".to_owned(),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(vcore(4)),
            ..Default::default()
        };
        let request =
            si::NodeRequest { rm_id: "rm".to_owned(), nodes: vec![node], ..Default::default() };
        scheduler.update_node(request).await.unwrap();
        story(scheduler, ear).await;
    });
}

#[test]
fn an_ask_joins_the_application_that_comes_after_it() {
    play(|scheduler, ear| async move {
        ask(&scheduler, "early").await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(ear.heard().is_empty());
        application(&scheduler, "ada").await;
        scheduler.settle().await;
        assert_eq!(ear.heard(), ["app in", "early placed"]);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(ear.heard().is_empty(), "it is not rejected afterwards");
    });
}

#[test]
fn an_ask_whose_application_does_not_come_is_rejected_after_the_window() {
    play(|scheduler, ear| async move {
        ask(&scheduler, "early").await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        scheduler.settle().await;
        assert_eq!(ear.heard(), ["failed to find application `app` [R_APP_UNKNOWN]"]);
    });
}

#[test]
fn settling_waits_for_the_window() {
    play(|scheduler, ear| async move {
        ask(&scheduler, "early").await;
        let before = tokio::time::Instant::now();
        scheduler.settle().await;
        assert_eq!(before.elapsed().as_secs(), 1);
        assert_eq!(ear.heard().len(), 1);
    });
}
