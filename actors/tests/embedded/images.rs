//! Images: taken while a partition goes on, and restored elsewhere.

use std::sync::Arc;

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::common::{in_virtual_time, vcore};

const PARTITION: &str = "[rm]default";
const APPLICATIONS: usize = 120;
const NODES: usize = 150;
const CHANGES: usize = 40;

struct Nobody;

impl ResourceManagerCallback for Nobody {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

/// Starts a scheduler with some hundred actors and seven hundred allocations.
async fn filled() -> SchedulerHandle {
    let scheduler = Scheduler::simple().epoch_ns(1_000_000_000_000).start_local().unwrap();
    let request = si::RegisterResourceManagerRequest::new("rm");
    scheduler.register_resource_manager(request, Arc::new(Nobody)).await.unwrap();
    let nodes = (0..NODES).map(|n| si::NodeInfo::new(format!("n{n}"), vcore(5)));
    let nodes: Vec<_> = nodes.collect();
    scheduler.update_node(si::NodeRequest::report("rm", nodes)).await.unwrap();
    let applications =
        (0..APPLICATIONS).map(|n| si::AddApplicationRequest::new(format!("a{n}"), "ada"));
    let applications: Vec<_> = applications.collect();
    scheduler.update_application(si::ApplicationRequest::submit("rm", applications)).await.unwrap();
    for n in 0..APPLICATIONS * 6 {
        let ask = si::Allocation::ask(format!("a{}", n % APPLICATIONS), format!("k{n}"), vcore(1));
        scheduler.update_allocation(si::AllocationRequest::ask("rm", [ask])).await.unwrap();
    }
    scheduler.settle().await;
    scheduler
}

/// Sends a change: one item, so that it is one step.
async fn change(scheduler: &SchedulerHandle, n: usize) {
    let number = (n * 7) % APPLICATIONS;
    let application = format!("a{number}");
    let ask = |amount| si::Allocation::ask(&*application, format!("more-{n}"), vcore(amount));
    let sent = match n % 6 {
        0 => scheduler.update_allocation(si::AllocationRequest::ask("rm", [ask(1)])),
        1 => scheduler.update_allocation(si::AllocationRequest::ask("rm", [ask(100)])),
        2 => {
            let stop = si::AllocationRelease::new(&*application, format!("k{number}"));
            scheduler.update_allocation(si::AllocationRequest::release("rm", [stop]))
        }
        3 => {
            let new = si::NodeInfo::new(format!("new-{n}"), vcore(9));
            scheduler.update_node(si::NodeRequest::report("rm", [new]))
        }
        4 => {
            let mut gone = si::NodeInfo::new(format!("n{}", NODES - 1 - n), vcore(5));
            gone.action = si::node_info::ActionFromRm::Decomission as i32;
            scheduler.update_node(si::NodeRequest::report("rm", [gone]))
        }
        _ => {
            let new = si::AddApplicationRequest::new(format!("new-{n}"), "bob");
            scheduler.update_application(si::ApplicationRequest::submit("rm", [new]))
        }
    };
    sent.await.unwrap();
}

async fn facts(scheduler: &SchedulerHandle) -> String {
    format!("{:?}", scheduler.facts(PARTITION).await.unwrap())
}

async fn restored(image: ResourceManagerImage) -> SchedulerHandle {
    let fork = Scheduler::simple().epoch_ns(image.at_ns()).start_local().unwrap();
    fork.restore(image, Arc::new(Nobody)).await.unwrap();
    fork
}

#[test]
fn an_image_is_of_one_moment_though_the_partition_goes_on_meanwhile() {
    in_virtual_time(async {
        let one_by_one = filled().await;
        let mut moments = vec![facts(&one_by_one).await];
        for n in 0..CHANGES {
            change(&one_by_one, n).await;
            one_by_one.settle().await;
            moments.push(facts(&one_by_one).await);
        }
        let scheduler = filled().await;
        let changes = async {
            for n in 0..CHANGES {
                change(&scheduler, n).await;
                scheduler.settle().await;
            }
        };
        let (image, ()) = tokio::join!(scheduler.image("rm"), changes);
        let fork = restored(image.unwrap()).await;
        fork.settle().await;
        let of_image = facts(&fork).await;
        let moment = moments.iter().position(|moment| *moment == of_image);
        let moment = moment.expect("the image is of one of the moments");
        assert!(moment < CHANGES, "changes came after it was begun");
        assert_eq!(fork.check_books(PARTITION).await.unwrap(), Vec::<String>::new());
        for n in moment..CHANGES {
            change(&fork, n).await;
            fork.settle().await;
        }
        assert_eq!(facts(&fork).await, facts(&scheduler).await, "it goes on as the other did");
        assert_eq!(facts(&scheduler).await, moments[CHANGES]);
    });
}
