//! Syncs of the shim's cache and withheld responses.

use monoceros_actors::ResourceManagerCallback;
use prost::Message as _;

use super::*;

const PATIENCE: Duration = Duration::from_secs(2);

fn allocation(key: &str, node: &str) -> si::Allocation {
    si::Allocation {
        allocation_key: key.to_owned(),
        uuid: key.to_owned(),
        application_id: "app".to_owned(),
        node_id: node.to_owned(),
        ..Default::default()
    }
}

fn new(allocations: Vec<si::Allocation>) -> si::AllocationResponse {
    si::AllocationResponse { new: allocations, ..Default::default() }
}

/// An allocation of an application other than the usual one.
fn of(application: &str, key: &str, node: &str) -> si::Allocation {
    si::Allocation { application_id: application.to_owned(), ..allocation(key, node) }
}

fn released(key: &str) -> si::AllocationResponse {
    released_of("app", key)
}

fn released_of(application: &str, key: &str) -> si::AllocationResponse {
    let release = si::AllocationRelease {
        allocation_key: key.to_owned(),
        uuid: key.to_owned(),
        application_id: application.to_owned(),
        ..Default::default()
    };
    si::AllocationResponse { released: vec![release], ..Default::default() }
}

fn request(application: &str, key: &str) -> RequestName {
    RequestName::new(application, key)
}

/// Syncs as text: `+key@node` and `-key`, with the application unless it is the usual one.
fn read(syncs: &[cb::CacheSync]) -> String {
    let name = |application: &str, key: &str| match application {
        "app" => key.to_owned(),
        other => format!("{other}/{key}"),
    };
    let words = syncs.iter().flat_map(|sync| {
        let args = sync.args.clone().unwrap_or_default();
        let assumed = args.assumed_allocations.into_iter();
        let assumed = assumed.map(|one| {
            format!("+{}@{}", name(&one.application_id, &one.allocation_key), one.node_id)
        });
        let forgotten = args.forget_allocations.into_iter();
        let forgotten =
            forgotten.map(|one| format!("-{}", name(&one.application_id, &one.allocation_key)));
        assumed.chain(forgotten)
    });
    words.collect::<Vec<_>>().join(" ")
}

const BYTES: usize = 1 << 20;

fn pass(cache: &mut Cache, response: si::AllocationResponse) -> CacheStep {
    cache.pass(Instant::now(), response, |_| false)
}

fn attached(gate: Gate) -> Cache {
    let mut cache = Cache::new(true);
    cache.attach(gate, PATIENCE, BYTES);
    cache
}

fn keys(responses: &[si::AllocationResponse]) -> Vec<&str> {
    let new = responses.iter().flat_map(|response| &response.new);
    new.map(|one| &*one.allocation_key).collect()
}

fn ack(seq: u64, failures: &[(&str, bool)]) -> cb::CacheSyncAck {
    let failures = failures.iter().map(|(key, retryable)| cb::CacheSyncFailure {
        allocation_key: (*key).to_owned(),
        retryable: *retryable,
        reason: "volume".to_owned(),
        ..Default::default()
    });
    cb::CacheSyncAck { cache_seq: seq, failures: failures.collect() }
}

#[test]
fn syncs_surround_allocation_and_release() {
    let mut cache = attached(Gate::Written);
    let told = pass(&mut cache, new(vec![allocation("a", "n1"), allocation("b", "n2")]));
    assert_eq!(read(&told.assume), "+a@n1 +b@n2");
    assert_eq!((told.deliver, told.forget), (vec![], vec![]));
    assert_eq!(keys(&cache.written(told.assume[0].cache_seq)), ["a", "b"]);
    let gone = pass(&mut cache, released("a"));
    assert_eq!((gone.assume, gone.deliver.len()), (vec![], 1));
    assert_eq!(read(&gone.forget), "-a");
}

#[test]
fn assumed_answers_need_no_sync() {
    let mut cache = attached(Gate::Written);
    let told = cache.pass(Instant::now(), new(vec![allocation("a", "n1")]), |_| true);
    assert_eq!((told.assume, told.deliver.len()), (vec![], 1));
    assert_eq!(read(&pass(&mut cache, released("a")).forget), "-a");
}

#[test]
fn reported_allocations_are_not_synced() {
    let mut cache = attached(Gate::Written);
    cache.reported("app", "a");
    assert_eq!(pass(&mut cache, new(vec![allocation("a", "n1")])).assume, vec![]);
    pass(&mut cache, new(vec![allocation("b", "n1")]));
    cache.detach();
    let snapshot = cache.attach(Gate::Written, PATIENCE, BYTES);
    assert_eq!(read(&snapshot), "+b@n1");
    assert_eq!(read(&pass(&mut cache, released("a")).forget), "-a");
    let again = pass(&mut cache, new(vec![allocation("a", "n1")]));
    assert_eq!(read(&again.assume), "+a@n1", "it ended, and is a new one");
}

#[test]
fn snapshot_is_split_and_marked_at_its_end() {
    let mut cache = Cache::new(true);
    let many = (0..2_500).map(|n| allocation(&format!("{n:04}"), "n1")).collect();
    assert_eq!(pass(&mut cache, new(many)).assume, vec![], "nobody is there");
    let snapshot = cache.attach(Gate::Written, PATIENCE, BYTES);
    let ends: Vec<_> = snapshot.iter().map(|part| part.snapshot_end).collect();
    assert_eq!(ends, [false, false, true]);
    assert!(snapshot.iter().all(|part| part.snapshot));
    assert!(snapshot.is_sorted_by_key(|part| part.cache_seq));
    assert_eq!(cache.seq(), snapshot[2].cache_seq);
    let keys: Vec<_> = snapshot
        .iter()
        .flat_map(|part| part.args.clone().unwrap().assumed_allocations)
        .map(|one| one.allocation_key)
        .collect();
    assert!(keys.len() == 2_500 && keys.is_sorted());
}

#[test]
fn incomplete_snapshot_is_not_sent() {
    let mut cache = Cache::new(false);
    assert!(!cache.must_record(1));
    assert!(cache.attach(Gate::Written, PATIENCE, BYTES).is_empty());
    assert!(cache.must_record(0));
}

#[test]
fn response_waits_for_confirmation_in_order() {
    let mut cache = attached(Gate::Confirmed);
    let first = pass(&mut cache, new(vec![allocation("a", "n1")]));
    let seq = first.assume[0].cache_seq;
    assert!(first.deliver.is_empty());
    let second = pass(&mut cache, released("x"));
    assert!(second.deliver.is_empty(), "the release waits its turn");
    let third = pass(&mut cache, new(vec![allocation("b", "n1")]));
    assert_eq!(cache.acknowledge(&ack(seq, &[])).unwrap().deliver.len(), 2);
    let seq = third.assume[0].cache_seq;
    let confirmed = cache.acknowledge(&ack(seq, &[])).unwrap();
    assert_eq!(confirmed.deliver[0].new[0].allocation_key, "b");
    let beyond = cache.acknowledge(&ack(seq + 1, &[])).unwrap_err();
    assert_eq!(beyond, NotSent { acknowledged: seq + 1, sent: seq });
}

#[test]
fn response_waits_for_written_sync_in_order() {
    let mut cache = attached(Gate::Written);
    let first = pass(&mut cache, new(vec![allocation("a", "n1")]));
    let seq = first.assume[0].cache_seq;
    assert!(first.deliver.is_empty() && cache.withholds());
    let release = pass(&mut cache, released("a"));
    assert!(release.deliver.is_empty(), "the release waits its turn");
    assert_eq!(read(&release.forget), "-a", "what rests on it does not");
    let third = pass(&mut cache, new(vec![allocation("b", "n1")]));
    assert!(cache.written(seq - 1).is_empty(), "the snapshot");
    let passed = cache.written(seq);
    assert_eq!((passed.len(), &*passed[1].released[0].allocation_key), (2, "a"));
    assert!(cache.withholds());
    assert_eq!(keys(&cache.written(third.assume[0].cache_seq)), ["b"]);
    assert!(!cache.withholds());
    assert_eq!(pass(&mut cache, released("b")).deliver.len(), 1, "nothing is left to wait for");
}

#[test]
fn written_sync_is_not_confirmed() {
    let mut cache = attached(Gate::Confirmed);
    let seq = pass(&mut cache, new(vec![allocation("a", "n1")])).assume[0].cache_seq;
    assert!(cache.written(seq).is_empty() && cache.awaits_confirmation());
    assert_eq!(cache.acknowledge(&ack(seq, &[])).unwrap().deliver.len(), 1);
}

#[test]
fn nothing_is_withheld_without_a_cache_stream() {
    let mut cache = Cache::new(true);
    assert_eq!(keys(&pass(&mut cache, new(vec![allocation("a", "n1")])).deliver), ["a"]);
    cache.attach(Gate::Written, PATIENCE, BYTES);
    assert!(pass(&mut cache, new(vec![allocation("b", "n1")])).deliver.is_empty());
    assert_eq!(keys(&cache.detach()), ["b"]);
    assert_eq!(keys(&pass(&mut cache, new(vec![allocation("c", "n1")])).deliver), ["c"]);
}

#[test]
fn withheld_response_is_delivered_after_timeout_or_loss() {
    for gate in [Gate::Written, Gate::Confirmed] {
        let mut cache = attached(gate);
        let now = Instant::now();
        cache.pass(now, new(vec![allocation("a", "n1")]), |_| false);
        assert_eq!(cache.due(), Some(now + PATIENCE));
        assert!(cache.overdue(now).is_empty());
        assert_eq!(cache.overdue(now + PATIENCE).len(), 1);
        cache.pass(now, new(vec![allocation("b", "n1")]), |_| false);
        assert_eq!(cache.detach()[0].new[0].allocation_key, "b");
        assert_eq!(cache.due(), None);
    }
}

#[test]
fn failed_placement_is_undone_and_node_excluded() {
    let mut cache = attached(Gate::Confirmed);
    let both = new(vec![allocation("a", "n1"), allocation("b", "n2")]);
    let seq = pass(&mut cache, both).assume[0].cache_seq;
    let failed = cache.acknowledge(&ack(seq, &[("a", false), ("unknown", true)])).unwrap();
    let told: Vec<_> = failed.deliver[0].new.iter().map(|one| &*one.allocation_key).collect();
    assert_eq!(told, ["b"]);
    let [undo] = &failed.undo[..] else { panic!("{:?}", failed.undo) };
    assert_eq!((&*undo.allocation_key, &*undo.application_id), ("a", "app"));
    assert_eq!(undo.termination_type(), si::TerminationType::SchedulingFailedOnRm);
    assert!(undo.exclude_node, "the scheduler is to look for another node");
}

/// In the present form each allocation has a key of its own and no UUID. In the older form, several
/// allocations of a key are distinguished by UUIDs.
#[test]
fn only_the_failed_placement_is_withheld() {
    let today = |key: &str| si::Allocation { uuid: String::new(), ..allocation(key, "n1") };
    let instance = |uuid: &str| si::Allocation { uuid: uuid.to_owned(), ..allocation("a", "n1") };
    for (placed, told) in [
        (["a", "b", "c"].map(today), vec!["b", "c"]),
        (["a#0", "a#1", "a#2"].map(instance), vec!["a", "a"]),
    ] {
        let mut cache = attached(Gate::Confirmed);
        let seq = pass(&mut cache, new(placed.into())).assume[0].cache_seq;
        let failed = cache.acknowledge(&ack(seq, &[("a", true)])).unwrap();
        assert_eq!(keys(&failed.deliver), told);
        assert_eq!(failed.undo.len(), 1);
    }
}

#[test]
fn later_placement_is_assumed_again() {
    let mut cache = attached(Gate::Written);
    pass(&mut cache, new(vec![allocation("a", "n2")]));
    let requests = ["a", "b", "c"].map(|key| request("app", key));
    let assumed_on = |request: &RequestName| (*request.key == *"b").then(|| "n3".into());
    let sync = cache.forget(&requests, assumed_on);
    assert_eq!(read(&sync), "+a@n2 +b@n3 -c");
    let other = [request("two", "a")];
    assert_eq!(read(&cache.forget(&other, |_| None)), "-two/a", "what runs is of another one");
    cache.detach();
    assert_eq!(cache.forget(&requests, |_| None), [], "the next stream begins with everything");
}

#[test]
fn syncs_respect_the_message_limit() {
    let mut cache = Cache::new(true);
    let many: Vec<_> = (0..90).map(|n| allocation(&format!("{n:0100}"), "n1")).collect();
    pass(&mut cache, new(many.clone()));
    let mut syncs = cache.attach(Gate::Confirmed, PATIENCE, 1_000);
    assert!(syncs.iter().rev().skip(1).all(|part| part.snapshot && !part.snapshot_end));
    assert!(syncs.last().unwrap().snapshot_end);
    let gone = si::AllocationResponse {
        released: many.iter().flat_map(|one| released(&one.allocation_key).released).collect(),
        ..Default::default()
    };
    syncs.extend(pass(&mut cache, gone).forget);
    syncs.extend(pass(&mut cache, new(many)).assume);
    assert!(syncs.len() > 27 && syncs.iter().all(|sync| sync.encoded_len() <= 1_000));
    assert!(syncs.is_sorted_by(|a, b| a.cache_seq < b.cache_seq));
    let last = syncs.last().unwrap().cache_seq;
    assert!(cache.acknowledge(&ack(last - 1, &[])).unwrap().deliver.len() < 2, "not the last");
    assert_eq!(cache.acknowledge(&ack(last, &[])).unwrap().deliver.len(), 1);
}

#[test]
fn rejected_node_reports_nothing() {
    let mut cache = attached(Gate::Written);
    cache.reported_with("n1", "app", "a");
    cache.node_answered("n1", false);
    assert!(cache.reported.is_empty() && cache.reported_with.is_empty());
    assert_eq!(read(&pass(&mut cache, new(vec![allocation("a", "n2")])).assume), "+a@n2");
    cache.reported_with("n1", "app", "b");
    cache.node_answered("n1", true);
    // Sent again, while it exists already.
    cache.reported_with("n1", "app", "b");
    cache.node_answered("n1", false);
    assert_eq!(cache.reported.len(), 1);
}

#[test]
fn failure_concerns_the_withheld_allocation() {
    let mut cache = attached(Gate::Confirmed);
    let waits = pass(&mut cache, new(vec![of("one", "a", "n1")])).assume[0].cache_seq;
    // Another application has the same key and a newer allocation.
    let newer = pass(&mut cache, new(vec![of("two", "a", "n2")])).assume[0].cache_seq;
    let failed = cache.acknowledge(&ack(waits, &[("a", true)])).unwrap();
    assert_eq!(failed.undo[0].application_id, "one");
    assert!(failed.deliver[0].new.is_empty());
    let confirmed = cache.acknowledge(&ack(newer, &[])).unwrap();
    assert_eq!(confirmed.deliver[0].new[0].application_id, "two");
}

#[test]
fn equal_keys_of_two_applications_are_distinct() {
    let mut cache = attached(Gate::Written);
    let both = new(vec![of("one", "a", "n1"), of("two", "a", "n2")]);
    assert_eq!(read(&pass(&mut cache, both).assume), "+one/a@n1 +two/a@n2");
    cache.detach();
    assert_eq!(read(&cache.attach(Gate::Written, PATIENCE, BYTES)), "+one/a@n1 +two/a@n2");
    assert_eq!(read(&pass(&mut cache, released_of("one", "a")).forget), "-one/a");
    cache.detach();
    assert_eq!(read(&cache.attach(Gate::Written, PATIENCE, BYTES)), "+two/a@n2");
}

fn failure(application: &str, key: &str) -> cb::CacheSyncFailure {
    cb::CacheSyncFailure {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        retryable: true,
        ..Default::default()
    }
}

fn undone(confirmed: &Confirmed) -> Vec<&str> {
    confirmed.undo.iter().map(|undo| &*undo.application_id).collect()
}

#[test]
fn failure_with_application_concerns_only_it() {
    let mut cache = attached(Gate::Confirmed);
    let both = new(vec![of("one", "a", "n1"), of("two", "a", "n2")]);
    let seq = pass(&mut cache, both).assume[0].cache_seq;
    let failures = vec![failure("one", "a"), failure("three", "a")];
    let failed = cache.acknowledge(&cb::CacheSyncAck { cache_seq: seq, failures }).unwrap();
    assert_eq!(undone(&failed), ["one"]);
    assert_eq!(failed.deliver[0].new[0].application_id, "two");
    assert_eq!((failed.forget, failed.ambiguous), (vec![], vec![]));
    // A failure with an application concerns a delivered allocation, too.
    let failures = vec![failure("two", "a")];
    let failed = cache.acknowledge(&cb::CacheSyncAck { cache_seq: seq, failures }).unwrap();
    assert_eq!(undone(&failed), ["two"]);
}

#[test]
fn failure_without_application_undoes_withheld_allocations() {
    let mut cache = attached(Gate::Confirmed);
    let ack = |cache: &mut Cache, cache_seq, key: &str| {
        let failures = vec![failure("", key)];
        cache.acknowledge(&cb::CacheSyncAck { cache_seq, failures }).unwrap()
    };
    let told = pass(&mut cache, new(vec![of("one", "a", "n1"), of("one", "b", "n1")]));
    let seq = told.assume[0].cache_seq;
    cache.acknowledge(&cb::CacheSyncAck { cache_seq: seq, failures: vec![] }).unwrap();
    let newer = ["two", "three"].map(|application| of(application, "a", "n2"));
    let seq = pass(&mut cache, new(newer.into())).assume[0].cache_seq;
    let failed = ack(&mut cache, seq, "a");
    assert_eq!(undone(&failed), ["three", "two"], "the one that was told runs on");
    assert_eq!(read(&failed.forget), "-three/a -two/a", "one of them it may have");
    assert!(failed.deliver[0].new.is_empty());
    // One application is left with the key.
    assert_eq!(undone(&ack(&mut cache, seq, "a")), ["one"]);

    // Allocations of two applications run under the key, and either may be meant.
    let other = pass(&mut cache, new(vec![of("two", "b", "n1")])).assume[0].cache_seq;
    cache.acknowledge(&cb::CacheSyncAck { cache_seq: other, failures: vec![] }).unwrap();
    let failed = ack(&mut cache, other, "b");
    assert_eq!((failed.undo, failed.ambiguous), (vec![], vec!["b".to_owned()]));
}

#[test]
fn published_sync_message_decodes_ours() {
    let mut cache = attached(Gate::Written);
    let assume = pass(&mut cache, new(vec![of("one", "a", "n1")])).assume.remove(0);
    let forget = pass(&mut cache, released_of("one", "a")).forget.remove(0);
    let reads = |sync: cb::CacheSync| {
        let bytes = sync.args.unwrap().encode_to_vec();
        si::ReSyncSchedulerCacheArgs::decode(&*bytes).unwrap()
    };
    let assumed =
        si::AssumedAllocation { allocation_key: "a".to_owned(), node_id: "n1".to_owned() };
    assert_eq!(reads(assume).assumed_allocations, [assumed]);
    let forgotten = si::ForgotAllocation { allocation_key: "a".to_owned() };
    assert_eq!(reads(forget).forget_allocations, [forgotten]);
}

/// The recorded placements and reports as sorted text.
fn known(cache: &Cache) -> Vec<String> {
    let ledger = cache.ledger.iter().flatten();
    let placed = ledger
        .flat_map(|(key, placed)| placed.iter().map(move |placed| format!("{key} {placed:?}")));
    let mut known: Vec<_> =
        placed.chain(cache.reported.iter().map(|name| format!("{name:?}"))).collect();
    known.sort();
    known
}

/// Two caches: the first records notifications, the second processes the messages.
struct Two(std::sync::Mutex<[Cache; 2]>);

impl ResourceManagerCallback for Two {
    fn update_allocation(&self, _: si::AllocationResponse) {
        unreachable!("it takes what is told itself");
    }

    fn allocations(&self, told: AllocationNotices<'_>) {
        let mut caches = self.0.lock().unwrap();
        let [record, passes] = &mut *caches;
        let (mut confirmed, mut asked) = (Vec::new(), Vec::new());
        assert!(record.record(&told, |new| confirmed.push(new.allocation_key().to_string())));
        let message = told.into_message();
        let step = passes.pass(Instant::now(), message.clone(), |new| {
            asked.push(new.allocation_key.clone());
            false
        });
        assert_eq!(step, CacheStep { deliver: vec![message], ..CacheStep::default() });
        assert_eq!(confirmed, asked);
        assert_eq!(known(record), known(passes));
    }

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {}
}

#[tokio::test]
async fn recording_equals_processing_messages() {
    let two = [true, true].map(|keep| {
        let mut cache = Cache::new(keep);
        // The RM reports this one itself.
        cache.reported("b", "pod-1");
        cache
    });
    let two = Arc::new(Two(std::sync::Mutex::new(two)));
    crate::grpc::allocation_responses::tests::notify(Arc::clone(&two)).await;
    let mut caches = two.0.lock().unwrap();
    assert_eq!(
        known(&caches[0]).len(),
        15,
        "all but the one that was released, with the reported one"
    );
    let begins = caches.each_mut().map(|cache| cache.attach(Gate::Written, PATIENCE, BYTES));
    assert_eq!(begins[0], begins[1]);
    assert!(read(&begins[0]).contains("+pod-3@n1") && !read(&begins[0]).contains("pod-1@"));
}

#[test]
fn recording_is_refused_while_a_sync_is_due() {
    struct Attached(std::sync::Mutex<Cache>);
    impl ResourceManagerCallback for Attached {
        fn update_allocation(&self, _: si::AllocationResponse) {}
        fn allocations(&self, told: AllocationNotices<'_>) {
            let mut cache = self.0.lock().unwrap();
            let before = known(&cache);
            assert!(!cache.record(&told, |_| panic!("nothing is done")));
            assert_eq!(known(&cache), before);
        }
        fn update_application(&self, _: si::ApplicationResponse) {}
        fn update_node(&self, _: si::NodeResponse) {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cache = Arc::new(Attached(std::sync::Mutex::new(attached(Gate::Written))));
    runtime.block_on(crate::grpc::allocation_responses::tests::notify(cache));
}
