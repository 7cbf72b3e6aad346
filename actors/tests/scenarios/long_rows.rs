//! Applications and nodes with so much content that they are read in parts: other steps run in
//! between, and nothing is lost or doubled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::snapshot::ApplicationSnapshot;
use monoceros_actors::{ApplicationFilter, ApplicationList, Page, Scheduler, SchedulerHandle};
use tokio::time::advance;

use crate::lists::QUEUES;
use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

/// As many as fit in several slices.
const ASKS: usize = 3_000;

async fn scheduler() -> SchedulerHandle {
    let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
    register(&scheduler, "rm", QUEUES, Arc::new(RecordingCallback::default())).await;
    let apps = "node n1 vcore=1000\napp fat in root.a\napp lean in root.a";
    send_lines(&scheduler, "rm", apps).await;
    scheduler
}

/// Sends `count` asks of `vcore` of the application `fat`.
async fn ask(scheduler: &SchedulerHandle, count: usize, vcore: usize) {
    let asks: Vec<_> = (0..count).map(|n| format!("ask fat k{n:04} vcore={vcore}")).collect();
    send_lines(scheduler, "rm", &asks.join("\n")).await;
}

/// Keys of all pending requests and allocations of an application.
fn keys(application: &ApplicationSnapshot) -> Vec<String> {
    let waiting = application.requests.iter().map(|ask| &ask.allocation_key);
    let held = application.allocations.iter().map(|held| &held.allocation_key);
    waiting.chain(held).cloned().collect()
}

fn expected(count: usize) -> BTreeSet<String> {
    (0..count).map(|n| format!("k{n:04}")).collect()
}

/// Reads `fat` while repeatedly sending the text of `meanwhile`, each time after the one before is
/// processed. Returns the number of repetitions.
async fn read_while(
    scheduler: &SchedulerHandle,
    meanwhile: impl Fn(usize) -> String,
) -> (ApplicationSnapshot, usize) {
    let mut read = Box::pin(scheduler.application("default", "fat"));
    let mut turns = 0;
    loop {
        let said = async {
            // Consecutive steps have different times.
            advance(Duration::from_millis(1)).await;
            send_lines(scheduler, "rm", &meanwhile(turns)).await;
        };
        tokio::select! {
            biased;
            found = &mut read => return (found.unwrap().unwrap(), turns),
            () = said => turns += 1,
        }
    }
}

#[test]
fn a_long_application_is_read_in_parts() {
    in_virtual_time(async {
        let scheduler = scheduler().await;
        ask(&scheduler, ASKS, 9_999).await;
        let other = |turn| format!("ask lean other-{turn} vcore=1");
        let (fat, turns) = read_while(&scheduler, other).await;
        // About five hundred requests each: at least one other step ran between two of them.
        assert!(turns >= ASKS / 1_024, "{turns} steps while it was read");
        assert_eq!(keys(&fat).len(), ASKS);
        assert_eq!(keys(&fat).into_iter().collect::<BTreeSet<_>>(), expected(ASKS));
        let list = ApplicationList::Live(ApplicationFilter::default());
        let listed = scheduler.list_applications("default", list, Page::default()).await.unwrap();
        let found: Vec<_> = listed.rows.iter().map(|row| &*row.application_id).collect();
        assert_eq!(found, ["fat", "lean"], "a long row is one row");
        assert_eq!(keys(&listed.rows[0]).len(), ASKS);
    });
}

#[test]
fn a_page_ends_after_a_long_row() {
    in_virtual_time(async {
        let scheduler = scheduler().await;
        ask(&scheduler, ASKS, 9_999).await;
        let page = async |after: Option<String>| {
            let list = ApplicationList::Live(ApplicationFilter::default());
            let page = Page { after, limit: Some(1), ..Page::default() };
            scheduler.list_applications("default", list, page).await.unwrap()
        };
        let first = page(None).await;
        assert_eq!((first.rows.len(), first.next.as_deref()), (1, Some("fat")));
        assert_eq!(keys(&first.rows[0]).len(), ASKS);
        let second = page(first.next).await;
        assert_eq!((&*second.rows[0].application_id, second.next), ("lean", None));
    });
}

#[test]
fn placements_during_a_long_read_appear_once() {
    in_virtual_time(async {
        let scheduler = scheduler().await;
        ask(&scheduler, ASKS, 2_000).await;
        // From the second slice on nodes with capacity are added, one after another.
        let nodes = |turn| format!("node big-{turn:03} vcore=1000000");
        let (fat, _) = read_while(&scheduler, nodes).await;
        assert!(!fat.allocations.is_empty(), "some are placed by the end");
        let keys = keys(&fat);
        let once: BTreeSet<_> = keys.iter().cloned().collect();
        assert_eq!(once, expected(ASKS), "none is lost");
        assert_eq!(keys.len(), once.len(), "none is there twice");
    });
}

#[test]
fn churning_asks_affect_no_other_ask() {
    in_virtual_time(async {
        let scheduler = scheduler().await;
        ask(&scheduler, ASKS, 9_999).await;
        // An ask among the first and an ask among the last are removed and added again in each
        // turn.
        let churn = |turn: usize| {
            let (first, last) = (turn % 100, ASKS - 1 - turn % 100);
            let twice = [first, last].map(|n| {
                format!("release fat key=k{n:04}\nask fat k{n:04} vcore=9999\nask fat new-{turn}-{n} vcore=9999")
            });
            twice.join("\n")
        };
        let (fat, _) = read_while(&scheduler, churn).await;
        let keys = keys(&fat);
        let once: BTreeSet<_> = keys.iter().cloned().collect();
        assert!(once.iter().any(|key| key.starts_with("new-")), "some came while it was read");
        assert_eq!(keys.len(), once.len(), "none is there twice");
        let stay: BTreeSet<_> = (100..ASKS - 100).map(|n| format!("k{n:04}")).collect();
        assert!(once.is_superset(&stay), "{:?}", stay.difference(&once).next());
    });
}

#[test]
fn a_long_node_is_read_whole() {
    in_virtual_time(async {
        let scheduler = scheduler().await;
        send_lines(&scheduler, "rm", "node big vcore=1000000").await;
        ask(&scheduler, ASKS, 10).await;
        let nodes = scheduler.nodes("default").await.unwrap();
        let held: Vec<_> = nodes.iter().flat_map(|node| &node.allocations).collect();
        assert_eq!(held.len(), ASKS);
        let all: BTreeSet<_> = held.iter().map(|held| held.allocation_key.clone()).collect();
        assert_eq!(all, expected(ASKS));
        for node in &nodes {
            let alone = scheduler.node("default", &node.node_id).await.unwrap();
            assert_eq!(alone.as_ref(), Some(node));
        }
    });
}
