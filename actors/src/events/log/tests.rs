use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::resources::Resources;
use proptest::prelude::*;

use super::super::Event;
use super::*;
use crate::notices::{Allocated, Owner};

/// Events whose objects are their ids.
fn fill(log: &Log, count: u64) {
    fill_for(log, "rm", count);
}

fn fill_for(log: &Log, rm: &str, count: u64) {
    let first = log.held().ring.next;
    let name = |id: u64| Arc::from(id.to_string());
    let event = |id| Event::of(EventKind::AppNew, &name(id), 0).into();
    log.append(&Arc::from(rm), &mut (first..first + count).map(event).collect(), 0);
}

fn ids(range: &EventRange) -> Vec<u64> {
    range.records.iter().map(|record| record.object_id.parse().unwrap()).collect()
}

#[test]
fn empty_ring_has_no_records() {
    assert_eq!(Log::new(20).range(0, 1), EventRange::default());
}

#[test]
fn range_from_a_dropped_id_is_empty() {
    let log = Log::new(20);
    fill(&log, 30);
    let range = |start, count| {
        let range = log.range(start, count);
        assert_eq!((range.lowest, range.highest), (10, 29));
        ids(&range)
    };
    assert_eq!(range(9, 5), Vec::<u64>::new());
    assert_eq!(range(10, 2), [10, 11]);
    assert_eq!(range(27, 9), [27, 28, 29]);
    assert_eq!(range(29, 1), [29]);
    assert_eq!(range(30, 1), Vec::<u64>::new());
    assert_eq!(range(u64::MAX, u64::MAX), Vec::<u64>::new());
}

#[test]
fn every_range_of_a_wrapped_ring_is_contiguous() {
    for records in [25, 50] {
        let log = Log::new(20);
        fill(&log, records);
        for start in records - 20..records {
            for count in 1..=25 {
                let end = records.min(start + count);
                assert_eq!(ids(&log.range(start, count)), (start..end).collect::<Vec<_>>());
            }
        }
    }
}

async fn followed(subscription: &mut EventSubscription, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let Some(Streamed::Event { id, record }) = subscription.next().await else { break };
        assert_eq!(record.object_id, id.to_string());
        ids.push(id);
    }
    ids
}

#[tokio::test]
async fn follower_gets_past_and_new_events_once_in_order() {
    let log = Log::new(20);
    fill(&log, 30);
    let mut all = log.follow(History::Last(100), EventFilter::default(), WAITING_MAX);
    let mut few = log.follow(History::Last(2), EventFilter::default(), WAITING_MAX);
    let mut from = log.follow(History::From(28), EventFilter::default(), WAITING_MAX);
    let mut new = log.follow(History::Last(0), EventFilter::default(), WAITING_MAX);
    fill(&log, 2);
    assert_eq!(followed(&mut all, 22).await, (10..32).collect::<Vec<_>>());
    assert_eq!(followed(&mut few, 4).await, [28, 29, 30, 31]);
    assert_eq!(followed(&mut from, 4).await, [28, 29, 30, 31]);
    assert_eq!(followed(&mut new, 2).await, [30, 31]);
}

#[tokio::test]
async fn follower_gets_only_events_that_pass_its_filter() {
    let log = Log::new(20);
    let of_type = |types| EventFilter { types, rm_id: None };
    let of_rm = |rm: &str| EventFilter { types: vec![], rm_id: Some(rm.to_owned()) };
    fill(&log, 3);
    let node = Event::of(EventKind::NodeAdded, &Arc::from("3"), 0);
    log.append(&Arc::from("other"), &mut vec![node.into()], 0);
    fill(&log, 1);
    let mut nodes = log.follow(History::Last(9), of_type(vec![Type::Node]), WAITING_MAX);
    let mut other = log.follow(History::From(0), of_rm("other"), WAITING_MAX);
    let mut last = log.follow(History::Last(2), of_rm("rm"), WAITING_MAX);
    drop(log);
    assert_eq!(followed(&mut nodes, 9).await, [3]);
    assert_eq!(followed(&mut other, 9).await, [3]);
    assert_eq!(followed(&mut last, 9).await, [2, 4]);
}

#[tokio::test]
async fn slow_follower_gets_waiting_events_and_then_lagged() {
    let log = Log::new(20);
    let mut slow = log.follow(History::Last(0), EventFilter::default(), WAITING_MAX);
    fill(&log, 2500);
    assert!(log.held().followers.is_empty());
    assert_eq!(followed(&mut slow, WAITING_MAX).await, (0..1000).collect::<Vec<_>>());
    assert_eq!(slow.next().await, Some(Streamed::Lagged));
    assert_eq!(slow.next().await, None);
}

#[tokio::test]
async fn batches_of_events_begin_with_past_ones() {
    let log = Log::new(20);
    fill(&log, 5);
    let mut many = log.follow(History::Last(2), EventFilter::default(), 1_500);
    assert_eq!(many.live_from(), 5);
    fill(&log, 1_500);
    let ids = |events: Option<Vec<(u64, NamedEvent)>>| -> Vec<u64> {
        events.into_iter().flatten().map(|(id, _)| id).collect()
    };
    assert_eq!(ids(many.next_many(9).await), [3, 4]);
    assert_eq!(ids(many.next_many(1_000).await), (5..1_005).collect::<Vec<_>>());
    assert_eq!(ids(many.next_many(1_000).await), (1_005..1_505).collect::<Vec<_>>());
    drop(log);
    assert_eq!(many.next_many(9).await, None);
}

#[test]
fn dropped_follower_is_removed_even_if_no_event_passes_its_filter() {
    let log = Log::new(20);
    let types = vec![Type::Queue];
    drop(log.follow(History::Last(0), EventFilter { types, rm_id: None }, 1));
    fill(&log, 1);
    assert!(log.held().followers.is_empty());
}

/// A placement of which each event has another object, and these objects in order.
fn placement(number: u64, has_group: bool) -> (Happening, Vec<String>) {
    let named = |what: &str| Arc::<str>::from(format!("{what}-{number}"));
    let owner = Owner {
        application: named("application"),
        queue: named("queue"),
        user: named("user"),
        group: has_group.then(|| named("group")),
    };
    let allocated = Allocated {
        owner: Arc::new(owner),
        spec: Arc::new(AskSpec::new("k", Resources::of(&[("vcore", 1)]))),
        uuid: named("uuid"),
        node: named("node"),
        at_ns: 7,
        course: None,
    };
    let objects = [Some("node"), Some("user"), has_group.then_some("group"), Some("application")];
    let objects = objects.into_iter().flatten().map(|what| named(what).to_string()).collect();
    (Happening::Placed(Arc::new(allocated)), objects)
}

#[test]
fn placement_has_events_of_node_user_and_application() {
    let log = Log::new(20);
    let (told, all) = log.append(&Arc::from("rm"), &mut vec![placement(1, true).0], 3);
    assert_eq!((told.len(), all), (3, 4), "an RM is told the first that it wants");
    let records = log.range(0, 9).records;
    let shown = |record: &NamedEvent| {
        let detail = record.event_change_detail().as_str_name();
        (record.object_id.clone(), record.reference_id.clone(), detail)
    };
    let named = |of: &str| format!("{of}-1");
    assert_eq!(
        records.iter().map(shown).collect::<Vec<_>>(),
        [
            (named("node"), named("uuid"), "NODE_ALLOC"),
            (named("user"), named("queue"), "UG_USER_RESOURCE"),
            (named("group"), named("queue"), "UG_GROUP_RESOURCE"),
            (named("application"), named("uuid"), "APP_ALLOC"),
        ]
    );
    assert_eq!(records[3].group_id, "queue-1");
    assert!(records.iter().all(|record| record.timestamp_nano == 7
        && record.resource.as_ref().is_some_and(|it| it.resources["vcore"].value == 1)));
}

proptest! {
    /// Ids stay, and readers find the events that they would find in a list of all, whatever the
    /// ring has dropped: also within a placement or among events that are dropped together, with
    /// events of other RMs in between, and after any change of its capacity.
    #[test]
    fn ring_agrees_with_a_plain_list(
        steps in prop::collection::vec((0_u64..220, prop::sample::select(&["rm", "other"][..])), 1..20),
        capacity in 1_usize..500,
        start in 0_u64..1_500,
        count in 0_u64..400,
        last in 0_u64..400,
    ) {
        let log = Log::new(capacity);
        let mut live = log.follow(History::Last(0), EventFilter::default(), 10_000);
        let mut all: Vec<(&str, String)> = Vec::new();
        let mut lowest = 0;
        for (step, rm) in steps {
            if step < 150 {
                let before = all.len() as u64;
                fill_for(&log, rm, step);
                all.extend((before..before + step).map(|id| (rm, id.to_string())));
            } else if step < 200 {
                let (placement, objects) = placement(all.len() as u64, step < 175);
                log.append(&Arc::from(rm), &mut vec![placement], 0);
                all.extend(objects.into_iter().map(|object| (rm, object)));
            } else {
                // Events that a smaller ring has lost do not come back.
                let smaller = capacity.div_ceil(usize::try_from(step - 198).unwrap());
                log.resize(smaller);
                lowest = lowest.max(all.len().saturating_sub(smaller));
                log.resize(capacity);
            }
            lowest = lowest.max(all.len().saturating_sub(capacity));
        }
        let told: Vec<_> = std::iter::from_fn(|| live.live.try_recv().ok()).collect();
        let told = told.iter().map(|(id, entry)| (*id, entry.record().object_id));
        let expected = (0_u64..).zip(all.iter().map(|(_, object)| object.clone()));
        prop_assert!(told.eq(expected), "who follows is told everything, once and in order");
        let from = usize::try_from(start).unwrap();
        let expected: &[(&str, String)] = if (lowest..all.len()).contains(&from) {
            &all[from..all.len().min(from + usize::try_from(count).unwrap())]
        } else {
            &[]
        };
        let found = log.range(start, count).records.into_iter().map(|event| event.record.object_id);
        let expected = expected.iter().map(|(_, object)| object.clone());
        prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let wanted: Vec<_> = (0_u64..).zip(&all).skip(lowest).collect();
        for of in [None, Some("other")] {
            let is_wanted = |rm: &str| of.is_none_or(|of| of == rm);
            let filter = EventFilter { types: vec![], rm_id: of.map(str::to_owned) };
            let reader = log.follow(History::Last(last), filter, 1);
            let past = reader.past.iter().map(|(id, entry)| (*id, entry.record().object_id));
            let wanted = wanted.iter().filter(|(_, (rm, _))| is_wanted(rm));
            let wanted: Vec<_> = wanted.map(|(id, (_, object))| (*id, object.clone())).collect();
            let newest = wanted.len().saturating_sub(usize::try_from(last).unwrap());
            prop_assert_eq!(past.collect::<Vec<_>>(), &wanted[newest..]);
        }
    }

    /// Happenings without counted events are dropped, except for those kept together with the
    /// oldest one that counts.
    #[test]
    fn a_ring_keeps_little_more_than_its_capacity(
        steps in prop::collection::vec(0_u64..700, 1..9),
        capacity in 1_usize..500,
    ) {
        let log = Log::new(capacity);
        for step in steps {
            fill(&log, step);
            let held = log.held();
            let kept: usize = held.ring.stretches.iter().map(|it| it.happened.len()).sum();
            prop_assert!(kept < capacity + STRETCH, "{} of {}", kept, capacity);
        }
    }
}
