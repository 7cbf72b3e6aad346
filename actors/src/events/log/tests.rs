use proptest::prelude::*;

use super::super::catalogue::EventKind;
use super::*;

/// Events whose objects are their ids.
fn fill(log: &Log, count: u64) {
    let first = log.held().ring.next;
    let name = |id: u64| Arc::from(id.to_string());
    let events =
        (first..first + count).map(|id| Event::of(EventKind::AppNew, &name(id), 0)).collect();
    log.append(&Arc::from("rm"), events);
}

fn ids(range: &EventRange) -> Vec<u64> {
    range.records.iter().map(|record| record.object_id.parse().unwrap()).collect()
}

#[test]
fn an_empty_ring_has_no_records_and_the_range_zero() {
    assert_eq!(Log::new(20).range(0, 1), EventRange::default());
}

#[test]
fn a_start_that_is_not_kept_gives_nothing_and_any_other_what_there_is() {
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
async fn a_reader_gets_what_was_and_what_comes_once_and_in_order() {
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
async fn a_reader_gets_only_the_types_and_the_rm_it_named() {
    let log = Log::new(20);
    let of_type = |types| EventFilter { types, rm_id: None };
    let of_rm = |rm: &str| EventFilter { types: vec![], rm_id: Some(rm.to_owned()) };
    fill(&log, 3);
    let node = Event::of(EventKind::NodeAdded, &Arc::from("3"), 0);
    log.append(&Arc::from("other"), vec![node]);
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
async fn a_slow_reader_gets_what_waited_and_is_told_that_it_lagged() {
    let log = Log::new(20);
    let mut slow = log.follow(History::Last(0), EventFilter::default(), WAITING_MAX);
    fill(&log, 2500);
    assert!(log.held().followers.is_empty());
    assert_eq!(followed(&mut slow, WAITING_MAX).await, (0..1000).collect::<Vec<_>>());
    assert_eq!(slow.next().await, Some(Streamed::Lagged));
    assert_eq!(slow.next().await, None);
}

#[tokio::test]
async fn many_events_are_taken_at_once_past_ones_first_and_a_reader_may_have_more_room() {
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
fn a_reader_that_has_gone_is_forgotten_even_if_it_wanted_nothing_of_what_came() {
    let log = Log::new(20);
    let types = vec![Type::Queue];
    drop(log.follow(History::Last(0), EventFilter { types, rm_id: None }, 1));
    fill(&log, 1);
    assert!(log.held().followers.is_empty());
}

proptest! {
    #[test]
    fn a_ring_answers_as_a_list_of_everything_would(
        steps in prop::collection::vec(0_u64..8, 1..20),
        capacity in 1_usize..12,
        start in 0_u64..80,
        count in 0_u64..20,
    ) {
        let log = Log::new(capacity);
        let mut all = 0_u64;
        for more in steps {
            fill(&log, more);
            all += more;
        }
        let lowest = all.saturating_sub(capacity as u64);
        let expected: Vec<u64> = if (lowest..all).contains(&start) {
            (start..all.min(start + count)).collect()
        } else {
            Vec::new()
        };
        prop_assert_eq!(ids(&log.range(start, count)), expected);
    }
}
