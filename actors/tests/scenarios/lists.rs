//! Lists that are read in slices: other steps run between two slices, and objects that
//! they add or remove do not shift other rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use monoceros_actors::{
    ApplicationFilter, ApplicationList, ApplicationState, Page, ReadError, ResourceManagerCallback,
    Scheduler, SchedulerHandle,
};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

pub(crate) const QUEUES: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a}
          - {name: b}
          - {name: c, parent: true, queues: [{name: d}]}
";

/// More nodes than fit in two slices.
const NODES: usize = 300;

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

fn node(number: usize) -> String {
    format!("n{number:04}")
}

async fn with_nodes(callback: Arc<dyn ResourceManagerCallback>) -> SchedulerHandle {
    let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
    register(&scheduler, "rm", QUEUES, callback).await;
    send_lines(&scheduler, "rm", &lines(NODES, |n| format!("node {} vcore=9", node(n)))).await;
    scheduler
}

fn page(after: Option<&str>, limit: usize) -> Page {
    Page { after: after.map(str::to_owned), limit: Some(limit), ..Page::default() }
}

/// Counts allocations.
#[derive(Default)]
struct Counter(AtomicUsize);

impl ResourceManagerCallback for Counter {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.0.fetch_add(response.new.len(), Ordering::Relaxed);
    }
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

#[test]
fn placements_run_between_slices_of_a_list() {
    in_virtual_time(async {
        let counter = Arc::new(Counter::default());
        let scheduler = with_nodes(Arc::clone(&counter) as _).await;
        send_lines(&scheduler, "rm", "app a1 in root.a").await;
        let before = counter.0.load(Ordering::Relaxed);
        let all = BTreeSet::new();
        let mut read = Box::pin(scheduler.list_nodes("default", &all, Page::default()));
        let mut asked = 0;
        let listed = loop {
            asked += 1;
            let ask = format!("ask a1 k{asked} vcore=1");
            tokio::select! {
                biased;
                listed = &mut read => break listed.unwrap(),
                () = send_lines(&scheduler, "rm", &ask) => {}
            }
        };
        let placed = counter.0.load(Ordering::Relaxed) - before;
        // Five slices: between two of them at least one request was placed.
        assert!(placed >= 4, "{placed} were placed while the list was read");
        assert!(listed.steps.last >= listed.steps.first + 4, "{:?}", listed.steps);
        assert_eq!(listed.rows.len(), NODES);
        assert!(listed.rows.is_sorted_by(|a, b| a.node_id < b.node_id));
    });
}

#[test]
fn continuous_reads_do_not_keep_a_partition_busy() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let endless = async {
            let reads = async || loop {
                scheduler.nodes("default").await.unwrap();
            };
            tokio::join!(reads(), reads(), reads(), reads());
        };
        tokio::select! {
            biased;
            () = endless => unreachable!("it has no end"),
            // Each line is awaited until no further decision is possible.
            () = send_lines(&scheduler, "rm", "app a1 in root.a\nask a1 k1 vcore=1") => {}
        }
    });
}

#[test]
fn a_list_contains_everything_sent_before() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        for n in 0..20 {
            let id = format!("m{n}");
            // The call is not awaited.
            let request = si::NodeRequest {
                rm_id: "rm".into(),
                nodes: vec![si::NodeInfo {
                    node_id: id.clone(),
                    action: si::node_info::ActionFromRm::Create.into(),
                    ..si::NodeInfo::default()
                }],
                ..si::NodeRequest::default()
            };
            scheduler.update_node(request).await.unwrap();
            let listed = scheduler.nodes("default").await.unwrap();
            assert!(listed.iter().any(|node| node.node_id == id), "{id}");
        }
    });
}

#[test]
fn a_permanent_node_is_on_exactly_one_page() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let all = BTreeSet::new();
        // Every third node is removed, and others are added, before and after the position of the
        // pages.
        let stays = |number: usize| !number.is_multiple_of(3);
        for limit in [1, 7, 64, 65, 1_000] {
            let (mut after, mut seen, mut n_page) = (None::<String>, Vec::new(), 0_usize);
            loop {
                let asked = page(after.as_deref(), limit);
                let listed = scheduler.list_nodes("default", &all, asked).await.unwrap();
                assert!(listed.rows.len() <= limit);
                seen.extend(listed.rows.into_iter().map(|node| node.node_id));
                let Some(next) = listed.next else { break };
                if n_page.is_multiple_of(10) {
                    let number = n_page * 7 % NODES / 3 * 3;
                    let id = node(number);
                    let comes = format!("node {id}x vcore=1\nnode {id} vcore=9");
                    let goes = format!("remove {id}\nremove {id}x");
                    let text = if n_page.is_multiple_of(20) { goes } else { comes };
                    send_lines(&scheduler, "rm", &text).await;
                }
                n_page += 1;
                after = Some(next);
            }
            assert!(seen.is_sorted_by(|a, b| a < b), "in order, none twice: {seen:?}");
            for number in (0..NODES).filter(|number| stays(*number)) {
                assert!(seen.contains(&node(number)), "{} with pages of {limit}", node(number));
            }
        }
    });
}

#[test]
fn a_page_continues_after_a_removed_node() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let all = BTreeSet::new();
        let ids = async |page| {
            let listed = scheduler.list_nodes("default", &all, page).await.unwrap();
            let ids: Vec<_> = listed.rows.into_iter().map(|node| node.node_id).collect();
            (ids, listed.next)
        };
        let (first, next) = ids(page(None, 2)).await;
        assert_eq!((first, next.as_deref()), (vec![node(0), node(1)], Some("n0001")));
        send_lines(&scheduler, "rm", "remove n0001").await;
        let (second, _) = ids(page(next.as_deref(), 2)).await;
        assert_eq!(second, [node(2), node(3)]);
        let (last, next) = ids(page(Some("n0297"), 2)).await;
        assert_eq!((last, next), (vec![node(298), node(299)], None), "a full page may be the last");
    });
}

#[test]
fn removed_attributes_are_not_listed() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let of = async |line: &str| {
            send_lines(&scheduler, "rm", line).await;
            let found = scheduler.node("default", "x").await.unwrap().unwrap();
            let said = found.attributes.into_iter().filter(|(key, _)| key != "si/node-partition");
            said.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        };
        let removed = "attr monoceros.io/removed-attributes";
        let host = "attr si/hostname=h";
        let came = of(&format!("node x vcore=1 attr a=1 attr b=2 {host} {removed}=a,b")).await;
        assert_eq!(came, "a=1 b=2 si/hostname=h", "a new node has what it says");
        assert_eq!(
            of(&format!("resize x attr c=3 {removed}=a,si/hostname")).await,
            "b=2 c=3 si/hostname=h"
        );
        assert_eq!(of(&format!("resize x attr b=4 {removed}=b,c")).await, "b=4 si/hostname=h");
    });
}

#[test]
fn named_nodes_are_read_without_the_others() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let named: BTreeSet<String> = ["n0007", "n0299", "nope"].map(str::to_owned).into();
        let listed = scheduler.list_nodes("default", &named, Page::default()).await.unwrap();
        let ids: Vec<_> = listed.rows.iter().map(|node| &*node.node_id).collect();
        assert_eq!(ids, ["n0007", "n0299"]);
        let first = scheduler.list_nodes("default", &named, page(None, 1)).await.unwrap();
        assert_eq!(first.next.as_deref(), Some("n0007"));
        let found = scheduler.node("default", "n0007").await.unwrap();
        assert_eq!(found.unwrap().node_id, "n0007");
        assert_eq!(scheduler.node("default", "nope").await.unwrap(), None);
    });
}

#[test]
fn applications_are_filtered_by_queue_state_user_and_id() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let line = |n: usize| {
            let queue = ["root.a", "root.b", "root.c.d"][n % 3];
            let user = ["ada", "bob"][n % 2];
            format!("app x{n:04} in {queue} user {user}")
        };
        send_lines(&scheduler, "rm", &lines(2_500, line)).await;
        send_lines(&scheduler, "rm", &lines(30, |n| format!("ask x{:04} k vcore=1", n * 50))).await;
        send_lines(&scheduler, "rm", "ask x0001 large vcore=100").await;
        let count = async |filter: ApplicationFilter| {
            let mut after = None::<String>;
            let mut found = 0;
            loop {
                let list = ApplicationList::Live(filter.clone());
                let asked = page(after.as_deref(), 100);
                let listed = scheduler.list_applications("default", list, asked).await.unwrap();
                assert!(listed.rows.is_sorted_by(|a, b| a.application_id < b.application_id));
                found += listed.rows.len();
                match listed.next {
                    Some(next) => after = Some(next),
                    None => return found,
                }
            }
        };
        let filter = ApplicationFilter::default;
        assert_eq!(count(filter()).await, 2_500);
        assert_eq!(count(ApplicationFilter::in_queue("ROOT.a")).await, 834);
        assert_eq!(count(ApplicationFilter::in_queue("root.c")).await, 0, "a parent has none");
        let below = ApplicationFilter { below: true, ..ApplicationFilter::in_queue("root.c") };
        assert_eq!(count(below).await, 833);
        let states = vec![ApplicationState::Running];
        assert_eq!(count(ApplicationFilter { states, ..filter() }).await, 30);
        let users = ["bob".to_owned()].into();
        assert_eq!(count(ApplicationFilter { users, ..filter() }).await, 1_250);
        let ids = ["x0001", "x2499", "gone"].map(str::to_owned).into();
        assert_eq!(count(ApplicationFilter { ids, ..filter() }).await, 2);
        let id_part = Some("x12".to_owned());
        assert_eq!(count(ApplicationFilter { id_part, ..filter() }).await, 100, "x1200 to x1299");
        assert_eq!(count(ApplicationFilter { pending: true, ..filter() }).await, 1, "x0001");
        let nowhere = ApplicationList::Live(ApplicationFilter::in_queue("root.nope"));
        let read = scheduler.list_applications("default", nowhere, Page::default()).await;
        assert_eq!(read, Err(ReadError::QueueNotFound("root.nope".to_owned())));
    });
}

#[test]
fn ended_applications_are_read_by_number() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let refused = lines(200, |n| format!("app r{n:03} in root.nope"));
        send_lines(&scheduler, "rm", &refused).await;
        let (mut after, mut seen) = (None::<String>, Vec::new());
        loop {
            let asked = page(after.as_deref(), 30);
            let list = ApplicationList::Rejected(ApplicationFilter::default());
            let listed = scheduler.list_applications("default", list, asked).await.unwrap();
            seen.extend(listed.rows.into_iter().map(|app| app.application_id));
            let Some(next) = listed.next else { break };
            after = Some(next);
            if seen.len() == 60 {
                // Rejected again, so it is the latest.
                send_lines(&scheduler, "rm", "app r000 in root.nope").await;
            }
        }
        let mut expected: Vec<String> = (0..200).map(|n| format!("r{n:03}")).collect();
        expected.push("r000".to_owned());
        assert_eq!(seen, expected);
        let list = ApplicationList::Completed(ApplicationFilter::default());
        let read = scheduler.list_applications("default", list, page(Some("r001"), 1)).await;
        assert_eq!(read, Err(ReadError::NotAPlace("r001".to_owned())));
    });
}

#[test]
fn queue_trees_are_read_in_slices_or_partly() {
    in_virtual_time(async {
        let leaves = lines(1_500, |n| format!("          - {{name: q{n:04}}}"));
        let queues = format!(
            "{QUEUES}          - name: e\n            queues:\n{}",
            leaves.replace("          -", "              -")
        );
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        register(&scheduler, "rm", &queues, Arc::new(RecordingCallback::default())).await;
        let tree = scheduler.queues("default").await.unwrap();
        assert_eq!(tree.child_names, ["root.a", "root.b", "root.c", "root.e"]);
        let of_e = tree.clone().descendant("root.e").unwrap();
        assert_eq!(of_e.children.len(), 1_500);
        let (part, _) = scheduler.queue_tree("default", Some("root.e")).await.unwrap();
        let part = part.unwrap();
        assert_eq!(part.child_names, ["root.e"], "those above, and those below");
        assert_eq!(part.descendant("root.e"), Some(of_e));
        let (part, _) = scheduler.queue_tree("default", Some("root.nope")).await.unwrap();
        assert_eq!(part.unwrap().descendant("root.nope"), None);
    });
}

#[test]
fn reading_is_no_step_and_acknowledging_is_none() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        send_lines(&scheduler, "rm", "app a1 in root.a\nask a1 k1 vcore=1").await;
        let before = scheduler.steps("default").await.unwrap();
        scheduler.nodes("default").await.unwrap();
        scheduler.queues("default").await.unwrap();
        scheduler.refresh_metrics().await;
        scheduler.settle().await;
        assert_eq!(scheduler.steps("default").await.unwrap(), before);
        send_lines(&scheduler, "rm", "ask a1 k2 vcore=1").await;
        let after = scheduler.steps("default").await.unwrap();
        assert!(after.first > before.first);
        register(&scheduler, "rm", QUEUES, Arc::new(RecordingCallback::default())).await;
        let other = scheduler.steps("default").await.unwrap();
        assert_ne!(other.partition, before.partition, "registered again, it is another partition");
    });
}

#[test]
fn brief_rows_have_allocation_counts() {
    in_virtual_time(async {
        let scheduler = with_nodes(Arc::new(RecordingCallback::default())).await;
        let applications = lines(NODES, |n| {
            format!(
                "app a{n:04} in root.a\nask a{n:04} k x{} vcore=1\nask a{n:04} l vcore=10",
                n % 4
            )
        });
        send_lines(&scheduler, "rm", &applications).await;
        send_lines(&scheduler, "rm", "foreign f on n0007 vcore=1").await;
        let brief =
            |after: Option<String>, limit| Page { after, limit, brief: true, ..Page::default() };
        // At once, and in pages that end within a slice and after one.
        for limit in [None, Some(100), Some(256)] {
            let (mut nodes, mut live) = (Vec::new(), Vec::new());
            let mut after = None;
            loop {
                let all = BTreeSet::new();
                let listed = scheduler.list_nodes("default", &all, brief(after, limit)).await;
                let listed = listed.unwrap();
                nodes.extend(listed.rows);
                after = listed.next;
                if after.is_none() {
                    break;
                }
            }
            loop {
                let list = ApplicationList::Live(ApplicationFilter::default());
                let listed =
                    scheduler.list_applications("default", list, brief(after, limit)).await;
                let listed = listed.unwrap();
                live.extend(listed.rows);
                after = listed.next;
                if after.is_none() {
                    break;
                }
            }
            let whole = scheduler.nodes("default").await.unwrap();
            assert!(whole.iter().any(|row| row.allocation_count > 1));
            let whole = whole.into_iter().map(|mut row| {
                assert_eq!(row.allocation_count, row.allocations.len());
                row.allocations.clear();
                row.foreign_allocations.clear();
                row
            });
            assert_eq!(nodes, whole.collect::<Vec<_>>());
            let whole = scheduler.all_applications("default").await.unwrap();
            assert!(whole.iter().any(|row| row.allocation_count > 1 && row.requests.len() == 1));
            let whole = whole.into_iter().map(|mut row| {
                assert_eq!(row.allocation_count, row.allocations.len());
                row.allocations.clear();
                row
            });
            assert_eq!(live, whole.collect::<Vec<_>>());
        }
    });
}
