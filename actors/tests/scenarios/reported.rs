//! The report of a partition: a fresh scheduler that gets it as messages has the same nodes,
//! applications, allocations and pending asks, and would report the same.

use std::collections::BTreeMap;
use std::fmt::Debug;

use monoceros_actors::SchedulerHandle;
use monoceros_actors::image::{Report, ResourceManagerImage};
use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::tags::STARTED_NS;

/// Sends a report, and waits until all of it is known.
pub(crate) async fn send(scheduler: &SchedulerHandle, rm: &str, report: Report) {
    let Report { nodes, applications, allocations, foreign, held, asks, repeated_asks } = report;
    scheduler.update_node(si::NodeRequest::report(rm, nodes)).await.unwrap();
    let new = |new| si::ApplicationRequest::submit(rm, new);
    scheduler.update_application(new(applications)).await.unwrap();
    let existing: Vec<_> = allocations.into_iter().chain(foreign).collect();
    scheduler.update_allocation(si::AllocationRequest::ask(rm, existing)).await.unwrap();
    scheduler.update_application(new(held)).await.unwrap();
    scheduler.settle().await;
    let pending =
        si::AllocationRequest { asks: repeated_asks, ..si::AllocationRequest::ask(rm, asks) };
    scheduler.update_allocation(pending).await.unwrap();
    scheduler.settle().await;
}

/// The differences between the report of an image and that of a fresh scheduler that was sent it.
/// Asks and allocations of one message are sorted by application when they come.
pub(crate) fn differences(
    image: &ResourceManagerImage,
    again: &ResourceManagerImage,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (one, other) in image.partitions.iter().zip(&again.partitions) {
        let (mut before, mut after) = (one.report(), other.report());
        for report in [&mut before, &mut after] {
            report.allocations = without_start(std::mem::take(&mut report.allocations));
            report.allocations.sort_by_key(name);
            report.asks.sort_by_key(|ask| ask.application_id.clone());
            report.repeated_asks.sort_by_key(|ask| ask.application_id.clone());
        }
        compare("node", &before.nodes, &after.nodes, |it| it.node_id.clone(), &mut wrong);
        let id = |it: &si::AddApplicationRequest| it.application_id.clone();
        compare("application", &before.applications, &after.applications, id, &mut wrong);
        compare("allocation", &before.allocations, &after.allocations, name, &mut wrong);
        compare("foreign", &before.foreign, &after.foreign, name, &mut wrong);
        compare("ask", &before.asks, &after.asks, name, &mut wrong);
        let key = |it: &si::AllocationAsk| (it.application_id.clone(), it.allocation_key.clone());
        compare("ask", &before.repeated_asks, &after.repeated_asks, key, &mut wrong);
    }
    wrong
}

fn name(it: &si::Allocation) -> (String, String, String) {
    (it.application_id.clone(), it.uuid.clone(), it.allocation_key.clone())
}

/// Removes the times of the start, which a report only shows.
fn without_start(mut allocations: Vec<si::Allocation>) -> Vec<si::Allocation> {
    for allocation in &mut allocations {
        allocation.allocation_tags.remove(STARTED_NS);
    }
    allocations
}

fn compare<T: Debug + PartialEq, K: Ord + Debug>(
    what: &str,
    before: &[T],
    after: &[T],
    key: impl Fn(&T) -> K,
    wrong: &mut Vec<String>,
) {
    if before == after {
        return;
    }
    let mut known: BTreeMap<K, &T> = before.iter().map(|it| (key(it), it)).collect();
    let n_wrong = wrong.len();
    for now in after {
        match known.remove(&key(now)) {
            Some(then) if then == now => {}
            then => wrong.push(format!("{what} {now:?} was {then:?}")),
        }
    }
    wrong.extend(known.keys().map(|key| format!("{what} {key:?} is missing")));
    if wrong.len() == n_wrong {
        let keys = |list: &[T]| list.iter().map(&key).collect::<Vec<_>>();
        let (now, then) = (keys(after), keys(before));
        wrong.push(format!("{what}s have the order {now:?} instead of {then:?}"));
    }
}
