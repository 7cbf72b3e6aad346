//! Numbered requests arriving in every order.

use proptest::prelude::*;

use super::*;

fn sequence(items: usize) -> Sequence<u64> {
    Sequence::new(Load { items, bytes: 1_000 }, Duration::from_secs(10))
}

/// Delivers a request of one item whose content is its number.
fn arrive(sequence: &mut Sequence<u64>, number: u64, now: Instant) -> Arrival<u64> {
    sequence.arrive(0, number, number, Load { items: 1, bytes: 10 }, now)
}

/// Forwards until no request is left. Returns the requests taken.
fn forward(sequence: &mut Sequence<u64>, now: Instant) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        // Two at a time.
        let mut some = Vec::new();
        while let Next::Request(request) = sequence.next(now) {
            some.push(request);
            if some.len() == 2 {
                break;
            }
        }
        if some.is_empty() {
            return all;
        }
        for request in some {
            sequence.mark_taken();
            all.push(request);
        }
    }
}

#[test]
fn early_requests_are_held_and_repeats_dropped() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    assert_eq!(arrive(&mut sequence, 3, now), Arrival::Held);
    assert_eq!(arrive(&mut sequence, 3, now), Arrival::Repeat);
    assert_eq!(arrive(&mut sequence, 2, now), Arrival::Held);
    assert_eq!(arrive(&mut sequence, 1, now), Arrival::Forward);
    assert_eq!(forward(&mut sequence, now), [1, 2, 3]);
    for number in [0, 1, 3] {
        assert_eq!(arrive(&mut sequence, number, now), Arrival::Repeat);
    }
    assert_eq!(sequence.begin(now).taken, 3);
}

#[test]
fn only_one_task_forwards() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    assert_eq!(arrive(&mut sequence, 1, now), Arrival::Forward);
    assert_eq!(sequence.next(now), Next::Request(1));
    assert_eq!(sequence.next(now), Next::NoneYet);
    assert_eq!(arrive(&mut sequence, 1, now), Arrival::Repeat, "it is in somebody's hands");
    assert_eq!(arrive(&mut sequence, 2, now), Arrival::Held);
    assert_eq!(sequence.begin(now).taken, 1, "it will have been by then");
    sequence.mark_taken();
    assert_eq!(forward(&mut sequence, now), [2]);
}

#[test]
fn full_sequence_waits_or_reports_a_gap() {
    let now = Instant::now();
    let mut sequence = sequence(2);
    assert_eq!(arrive(&mut sequence, 3, now), Arrival::Held);
    assert_eq!(arrive(&mut sequence, 4, now), Arrival::Held);
    assert_eq!(arrive(&mut sequence, 5, now), Arrival::Gap);
    assert_eq!(arrive(&mut sequence, 1, now), Arrival::Forward, "the next is always let in");
    assert_eq!(arrive(&mut sequence, 5, now), Arrival::NoRoom(5));
    assert_eq!(forward(&mut sequence, now), [1]);
    assert_eq!(arrive(&mut sequence, 2, now), Arrival::Forward);
    assert_eq!(forward(&mut sequence, now), [2, 3, 4]);
    assert_eq!(arrive(&mut sequence, 5, now), Arrival::Forward);
}

#[test]
fn gap_expires_and_a_new_stream_restarts_its_time() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut sequence = sequence(10);
    assert!(!sequence.needs_watch());
    assert_eq!(arrive(&mut sequence, 2, start), Arrival::Held);
    assert!(sequence.needs_watch());
    assert!(!sequence.needs_watch(), "somebody does");
    assert_eq!(sequence.expire(at(9)), Gap::Until(at(10)));
    sequence.begin(at(9));
    assert_eq!(sequence.expire(at(10)), Gap::Until(at(19)));
    assert_eq!(sequence.expire(at(19)), Gap::Overdue);
    assert_eq!(arrive(&mut sequence, 1, at(19)), Arrival::Forward);
    assert_eq!(forward(&mut sequence, at(19)), [1], "the second has to come again");
    assert_eq!(sequence.expire(at(19)), Gap::None);
}

#[test]
fn next_gap_is_watched_after_a_filled_one() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    arrive(&mut sequence, 2, now);
    assert!(sequence.needs_watch());
    arrive(&mut sequence, 1, now);
    forward(&mut sequence, now);
    assert_eq!(sequence.due(), None);
    arrive(&mut sequence, 4, now);
    assert!(sequence.needs_watch());
    assert!(sequence.due().is_some());
}

#[test]
fn stream_begun_in_flight_gets_reports() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    arrive(&mut sequence, 1, now);
    assert_eq!(sequence.next(now), Next::Request(1));
    let reported = sequence.begin(now).taken;
    assert_eq!(sequence.taken(reported), 0);
    arrive(&mut sequence, 2, now);
    assert!(sequence.mark_taken(), "somebody waits for news");
}

#[test]
fn takeover_continues_after_the_last_taken() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    arrive(&mut sequence, 1, now);
    assert_eq!(forward(&mut sequence, now), [1]);
    arrive(&mut sequence, 3, now);
    let numbering = sequence.take_over();
    assert_eq!(numbering.taken, 1);
    assert_eq!(arrive(&mut sequence, 2, now), Arrival::Outdated);
    let load = Load { items: 1, bytes: 10 };
    assert_eq!(sequence.arrive(numbering.generation, 2, 20, load, now), Arrival::Forward);
    assert_eq!(forward(&mut sequence, now), [20], "the third of the earlier one is gone");
}

#[test]
fn streams_are_woken_to_report() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    assert_eq!(sequence.taken(0), 0);
    let mut woken = Vec::new();
    for number in 1..=2 * REPORT_AFTER {
        arrive(&mut sequence, number, now);
        while matches!(sequence.next(now), Next::Request(_)) {
            if sequence.mark_taken() {
                woken.push(number);
            }
        }
    }
    assert_eq!(woken, [1, REPORT_AFTER, 2 * REPORT_AFTER]);
}

proptest! {
    /// A client sends 30 requests over three streams that break at any message; each stream
    /// progresses on its own, and the client resends the requests that were not taken.
    #[test]
    fn every_request_is_taken_once_in_order(
        cuts in prop::collection::vec((prop::collection::vec(0..3usize, 0..40), 0..40usize), 1..8),
        bound in 1..6usize,
    ) {
        const LAST: u64 = 30;
        let mut now = Instant::now();
        let mut sequence = sequence(bound);
        let mut effect = Vec::new();
        let mut rounds = cuts.into_iter();
        loop {
            let cut = rounds.next();
            let taken = sequence.begin(now).taken;
            // The client distributes the requests over the streams in turn.
            let mut streams = [vec![], vec![], vec![]];
            for number in (taken + 1..=LAST).rev() {
                streams[usize::try_from(number % 3).unwrap()].push(number);
            }
            // Without a cut all requests arrive in order.
            let everything = (taken + 1..=LAST).map(|number| usize::try_from(number % 3).unwrap());
            let (order, cut) = match &cut {
                Some((order, cut)) => (order.clone(), *cut),
                None => (everything.collect(), usize::MAX),
            };
            for stream in order.into_iter().take(cut) {
                let Some(&number) = streams[stream].last() else { continue };
                match arrive(&mut sequence, number, now) {
                    Arrival::NoRoom(_) => continue,
                    Arrival::Gap => {
                        sequence.forget();
                        break;
                    }
                    Arrival::Forward => effect.extend(forward(&mut sequence, now)),
                    Arrival::Held | Arrival::Repeat => {}
                    Arrival::Outdated => unreachable!("nobody takes over"),
                }
                streams[stream].pop();
            }
            now += Duration::from_secs(1);
            prop_assert!(sequence.load.items <= bound + 1);
            if sequence.begin(now).taken == LAST {
                break;
            }
        }
        prop_assert_eq!(effect, (1..=LAST).collect::<Vec<_>>());
    }
}
