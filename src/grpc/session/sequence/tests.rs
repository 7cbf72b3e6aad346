//! Numbered requests arriving in every order.

use proptest::prelude::*;

use super::*;

fn sequence(items: usize) -> Sequence<u64> {
    Sequence::new(Load { items, bytes: 1_000 }, Duration::from_secs(10))
}

/// Delivers a request of one item whose content is its number.
fn come(sequence: &mut Sequence<u64>, number: u64, now: Instant) -> Arrival<u64> {
    sequence.arrive(0, number, number, Load { items: 1, bytes: 10 }, now)
}

/// Forwards until no request is left; returns those taken.
fn hand_on(sequence: &mut Sequence<u64>, now: Instant) -> Vec<u64> {
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
            sequence.took();
            all.push(request);
        }
    }
}

#[test]
fn what_comes_too_early_is_held_and_what_comes_again_is_dropped() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    assert_eq!(come(&mut sequence, 3, now), Arrival::Held);
    assert_eq!(come(&mut sequence, 3, now), Arrival::Repeat);
    assert_eq!(come(&mut sequence, 2, now), Arrival::Held);
    assert_eq!(come(&mut sequence, 1, now), Arrival::HandOn);
    assert_eq!(hand_on(&mut sequence, now), [1, 2, 3]);
    for number in [0, 1, 3] {
        assert_eq!(come(&mut sequence, number, now), Arrival::Repeat);
    }
    assert_eq!(sequence.begin(now).taken, 3);
}

#[test]
fn while_somebody_hands_requests_on_nobody_else_does() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    assert_eq!(come(&mut sequence, 1, now), Arrival::HandOn);
    assert_eq!(sequence.next(now), Next::Request(1));
    assert_eq!(sequence.next(now), Next::NoneYet);
    assert_eq!(come(&mut sequence, 1, now), Arrival::Repeat, "it is in somebody's hands");
    assert_eq!(come(&mut sequence, 2, now), Arrival::Held);
    assert_eq!(sequence.begin(now).taken, 1, "it will have been by then");
    sequence.took();
    assert_eq!(hand_on(&mut sequence, now), [2]);
}

#[test]
fn who_finds_no_room_waits_while_something_is_due_and_is_told_of_a_gap_when_nothing_is() {
    let now = Instant::now();
    let mut sequence = sequence(2);
    assert_eq!(come(&mut sequence, 3, now), Arrival::Held);
    assert_eq!(come(&mut sequence, 4, now), Arrival::Held);
    assert_eq!(come(&mut sequence, 5, now), Arrival::Gap);
    assert_eq!(come(&mut sequence, 1, now), Arrival::HandOn, "the next is always let in");
    assert_eq!(come(&mut sequence, 5, now), Arrival::NoRoom(5));
    assert_eq!(hand_on(&mut sequence, now), [1]);
    assert_eq!(come(&mut sequence, 2, now), Arrival::HandOn);
    assert_eq!(hand_on(&mut sequence, now), [2, 3, 4]);
    assert_eq!(come(&mut sequence, 5, now), Arrival::HandOn);
}

#[test]
fn a_gap_is_given_up_after_its_time_which_begins_anew_with_a_stream() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut sequence = sequence(10);
    assert!(!sequence.wants_watch());
    assert_eq!(come(&mut sequence, 2, start), Arrival::Held);
    assert!(sequence.wants_watch());
    assert!(!sequence.wants_watch(), "somebody does");
    assert_eq!(sequence.expire(at(9)), Gap::Until(at(10)));
    sequence.begin(at(9));
    assert_eq!(sequence.expire(at(10)), Gap::Until(at(19)));
    assert_eq!(sequence.expire(at(19)), Gap::Overdue);
    assert_eq!(come(&mut sequence, 1, at(19)), Arrival::HandOn);
    assert_eq!(hand_on(&mut sequence, at(19)), [1], "the second has to come again");
    assert_eq!(sequence.expire(at(19)), Gap::None);
}

#[test]
fn a_gap_that_was_filled_does_not_keep_the_next_one_from_being_looked_at() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    come(&mut sequence, 2, now);
    assert!(sequence.wants_watch());
    come(&mut sequence, 1, now);
    hand_on(&mut sequence, now);
    assert_eq!(sequence.due(), None);
    come(&mut sequence, 4, now);
    assert!(sequence.wants_watch());
    assert!(sequence.due().is_some());
}

#[test]
fn a_stream_that_begins_while_requests_are_in_hand_hears_of_those_behind_them() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    come(&mut sequence, 1, now);
    assert_eq!(sequence.next(now), Next::Request(1));
    let told = sequence.begin(now).taken;
    assert_eq!(sequence.taken(told), 0);
    come(&mut sequence, 2, now);
    assert!(sequence.took(), "somebody waits for news");
}

#[test]
fn who_takes_over_counts_from_what_was_taken_and_what_the_earlier_one_sends_is_dropped() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    come(&mut sequence, 1, now);
    assert_eq!(hand_on(&mut sequence, now), [1]);
    come(&mut sequence, 3, now);
    let numbering = sequence.take_over();
    assert_eq!(numbering.taken, 1);
    assert_eq!(come(&mut sequence, 2, now), Arrival::Outdated);
    let load = Load { items: 1, bytes: 10 };
    assert_eq!(sequence.arrive(numbering.generation, 2, 20, load, now), Arrival::HandOn);
    assert_eq!(hand_on(&mut sequence, now), [20], "the third of the earlier one is gone");
}

#[test]
fn streams_are_woken_when_they_have_told_everything_and_after_many_requests() {
    let now = Instant::now();
    let mut sequence = sequence(10);
    assert_eq!(sequence.taken(0), 0);
    let mut woken = Vec::new();
    for number in 1..=2 * TOLD_AFTER {
        come(&mut sequence, number, now);
        while matches!(sequence.next(now), Next::Request(_)) {
            if sequence.took() {
                woken.push(number);
            }
        }
    }
    assert_eq!(woken, [1, TOLD_AFTER, 2 * TOLD_AFTER]);
}

proptest! {
    /// A client sends 30 requests over three streams that break at any message; each stream
    /// progresses on its own, and the client resends the requests that were not taken.
    #[test]
    fn however_streams_break_and_overtake_each_other_each_request_is_taken_once_in_order(
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
                match come(&mut sequence, number, now) {
                    Arrival::NoRoom(_) => continue,
                    Arrival::Gap => {
                        sequence.forget();
                        break;
                    }
                    Arrival::HandOn => effect.extend(hand_on(&mut sequence, now)),
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
