//! Run times: counted when allocations end, and kept for the next partition of the same name.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::runtimes::{RowKey, RunTimeSettings, Whose};
use monoceros_actors::{ResourceManagerCallback, Resources, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tokio::time::sleep;

use crate::common::in_virtual_time;

const MINUTES: Duration = Duration::from_secs(60);

/// A resource manager that does not look at its notifications.
struct Silent;

impl ResourceManagerCallback for Silent {
    fn update_allocation(&self, _: si::AllocationResponse) {}

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {}
}

/// Registers `rm` with a node and the application `nightly-1`.
async fn register(scheduler: &SchedulerHandle) {
    let registration = si::RegisterResourceManagerRequest::new("rm");
    scheduler.register_resource_manager(registration, Arc::new(Silent)).await.unwrap();
    let node = si::NodeInfo::new("n1", si::Resource::default().cores(8));
    scheduler.update_node(si::NodeRequest::report("rm", [node])).await.unwrap();
    let application = si::AddApplicationRequest::new("nightly-1", "ada");
    let request = si::ApplicationRequest::submit("rm", [application]);
    scheduler.update_application(request).await.unwrap();
}

fn core(key: &str) -> si::Allocation {
    si::Allocation::ask("nightly-1", key, si::Resource::default().cores(1))
}

async fn ask(scheduler: &SchedulerHandle, asks: Vec<si::Allocation>) {
    scheduler.update_allocation(si::AllocationRequest::ask("rm", asks)).await.unwrap();
    scheduler.settle().await;
}

async fn release(scheduler: &SchedulerHandle, key: &str, kind: si::TerminationType) {
    let mut release = si::AllocationRelease::new("nightly-1", key);
    release.termination_type = kind.into();
    let request = si::AllocationRequest::release("rm", [release]);
    scheduler.update_allocation(request).await.unwrap();
    scheduler.settle().await;
}

fn class() -> RowKey {
    let (queue, user) = (Arc::from("root.default"), Arc::from("ada"));
    let whose = Whose { queue: &queue, user: &user, application: "nightly-1" };
    whose.class("nightly", &Resources::of(&[("vcore", 1_000)]))
}

/// Returns how many runs of the class ended by themselves, and how many were cut off.
async fn counted(scheduler: &SchedulerHandle) -> Option<(f64, f64)> {
    let (run_times, now_ns) = scheduler.run_times("default").await.unwrap()?;
    let (ended, at_least) = run_times.weights(&class(), now_ns)?;
    Some(((ended * 10.0).round() / 10.0, (at_least * 10.0).round() / 10.0))
}

#[test]
fn a_run_is_counted_by_how_it_ended() {
    in_virtual_time(async {
        let scheduler = Scheduler::simple().start_local().unwrap();
        register(&scheduler).await;
        ask(&scheduler, vec![core("a"), core("b"), core("c"), core("e").running_on("n1")]).await;
        assert_eq!(counted(&scheduler).await, None);
        sleep(10 * MINUTES).await;
        release(&scheduler, "a", si::TerminationType::StoppedByRm).await;
        assert_eq!(counted(&scheduler).await, Some((1.0, 0.0)));
        release(&scheduler, "e", si::TerminationType::StoppedByRm).await;
        assert_eq!(counted(&scheduler).await, Some((1.0, 1.0)), "it ran before it was reported");
        release(&scheduler, "b", si::TerminationType::SchedulingFailedOnRm).await;
        assert_eq!(counted(&scheduler).await, Some((1.0, 1.0)), "it has never run");
        sleep(10 * MINUTES).await;
        let node = si::NodeInfo::change("n1", ActionFromRm::Decomission);
        scheduler.update_node(si::NodeRequest::report("rm", [node])).await.unwrap();
        scheduler.settle().await;
        assert_eq!(counted(&scheduler).await, Some((1.0, 3.0)), "b and c were lost");

        let (run_times, now_ns) = scheduler.run_times("default").await.unwrap().unwrap();
        let estimate = run_times.estimate(&class(), now_ns).unwrap();
        let within = |part| estimate.histogram.quantile(part, Duration::ZERO);
        let fifth = within(0.2).unwrap().as_secs_f64() / (10.0 * MINUTES.as_secs_f64());
        assert!((0.95..1.05).contains(&fifth), "{fifth}");
        assert_eq!(within(0.5), None);
        scheduler.shutdown().await;
    });
}

#[test]
fn the_removal_of_an_application_cuts_its_runs_off() {
    in_virtual_time(async {
        let scheduler = Scheduler::simple().start_local().unwrap();
        register(&scheduler).await;
        ask(&scheduler, vec![core("a"), core("b")]).await;
        sleep(MINUTES).await;
        let gone = si::RemoveApplicationRequest::new("nightly-1");
        let request = si::ApplicationRequest::remove("rm", [gone]);
        scheduler.update_application(request).await.unwrap();
        scheduler.settle().await;
        assert_eq!(counted(&scheduler).await, Some((0.0, 2.0)));
        scheduler.shutdown().await;
    });
}

#[test]
fn the_next_partition_of_a_name_goes_on() {
    in_virtual_time(async {
        let scheduler = Scheduler::simple().start_local().unwrap();
        let run = async |scheduler: &SchedulerHandle| {
            register(scheduler).await;
            ask(scheduler, vec![core("a")]).await;
            sleep(MINUTES).await;
            release(scheduler, "a", si::TerminationType::StoppedByRm).await;
        };
        assert!(scheduler.all_run_times().await.is_empty());
        run(&scheduler).await;
        run(&scheduler).await;
        assert_eq!(counted(&scheduler).await, Some((2.0, 0.0)));
        scheduler.stop_resource_manager("rm").await.unwrap();
        sleep(MINUTES).await;
        let runs: Vec<_> = scheduler.runs_counted().await.into_iter().collect();
        assert_eq!(runs, [(Arc::from("[rm]default"), 2)]);
        let known = scheduler.all_run_times().await;
        assert_eq!(known.iter().map(|it| &*it.partition).collect::<Vec<_>>(), ["[rm]default"]);
        scheduler.shutdown().await;

        let builder = Scheduler::simple().known_run_times(known);
        let next = builder.clone().start_local().unwrap();
        register(&next).await;
        assert_eq!(counted(&next).await, Some((2.0, 0.0)));
        run(&next).await;
        assert_eq!(counted(&next).await, Some((3.0, 0.0)));
        next.shutdown().await;

        let off = builder.run_times(None).start_local().unwrap();
        run(&off).await;
        assert_eq!(counted(&off).await, None);
        assert!(off.all_run_times().await.is_empty() && off.runs_counted().await.is_empty());
        off.shutdown().await;
        let one = RunTimeSettings { classes: 1, ..RunTimeSettings::default() };
        let one = Scheduler::simple().run_times(Some(one)).start_local().unwrap();
        run(&one).await;
        assert_eq!(counted(&one).await, Some((1.0, 0.0)));
        one.shutdown().await;
    });
}
