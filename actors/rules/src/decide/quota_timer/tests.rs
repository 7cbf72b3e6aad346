//! Tests the timer by example, and against a model of its definition: random sequences find orders
//! of events that no example covers.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Nanoseconds of a millisecond, the unit of the tables here.
const MS: i64 = 1_000_000;

type Entries = &'static [(&'static str, i64)];

/// A change of a queue, or a check. An empty maximum means no maximum.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The queue is configured with a maximum and a delay, ms.
    Set(Entries, i64),
    /// The queue uses this amount.
    Use(Entries),
    /// The queue uses this amount, charged without a check against the maximum.
    Charge(Entries),
    /// The queue uses this amount, which is less than before.
    Discharge(Entries),
    /// This many milliseconds pass, then the scan runs. The flag tells whether the timer fires.
    Scan(i64, bool),
    /// A run ends.
    End,
    /// Checks the start time, in milliseconds after the beginning; `None`: it is not set.
    Starts(Option<i64>),
}

#[derive(Default)]
struct Queue {
    max: Option<Limits>,
    delay_ns: i64,
    used: Resources,
    now_ns: i64,
    timer: QuotaTimer,
}

impl Queue {
    fn quota(&self) -> Quota<'_> {
        Quota { max: self.max.as_ref(), delay_ns: self.delay_ns }
    }

    fn set(&mut self, max: Option<Limits>, delay_ns: i64) {
        let new = Quota { max: max.as_ref(), delay_ns };
        let old = Quota { max: self.max.as_ref(), delay_ns: self.delay_ns };
        self.timer.reconfigured(old, new, &self.used, self.now_ns);
        (self.max, self.delay_ns) = (max, delay_ns);
    }

    fn charge(&mut self, used: Resources) {
        self.used = used;
        let quota = Quota { max: self.max.as_ref(), delay_ns: self.delay_ns };
        self.timer.charged_unchecked(quota, &self.used, self.now_ns);
    }

    fn scan(&mut self) -> bool {
        let mut timer = std::mem::take(&mut self.timer);
        let fires = timer.fires(self.quota(), &self.used, self.now_ns);
        self.timer = timer;
        fires
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Set(max, delay) => {
                self.set((!max.is_empty()).then(|| Limits::of(max)), delay * MS);
            }
            Step::Use(used) => self.used = Resources::of(used),
            Step::Charge(used) => self.charge(Resources::of(used)),
            Step::Discharge(used) => {
                self.used = Resources::of(used);
                let quota = Quota { max: self.max.as_ref(), delay_ns: self.delay_ns };
                self.timer.discharged(quota, &self.used);
            }
            Step::Scan(passed, expected) => {
                self.now_ns += passed * MS;
                assert_eq!(self.scan(), expected, "fires at {} ms", self.now_ns / MS);
            }
            Step::End => self.timer.ended(),
            Step::Starts(expected) => {
                assert_eq!(self.timer.start_ns(), expected.map(|at| at * MS), "start time");
            }
        }
    }
}

/// Plays each case from an unused queue without a maximum.
#[track_caller]
fn check(cases: &[(&str, &[Step])]) {
    for (claim, steps) in cases {
        let mut queue = Queue::default();
        for step in *steps {
            println!("{claim}: {step:?}");
            queue.take(*step);
        }
    }
}

use Step::{Charge, Discharge, End, Scan, Set, Starts, Use};

#[test]
fn a_queue_above_its_maximum_fires_once_when_its_delay_is_over() {
    check(&[
        (
            "a maximum lowered below usage fires after the delay, exactly once",
            &[
                Set(&[("m", 20)], 50),
                Use(&[("m", 18)]),
                Scan(0, false),
                Set(&[("m", 10)], 50),
                Starts(Some(50)),
                Scan(49, false),
                Scan(1, true),
                Scan(1, false),
                End,
                Starts(None),
                Scan(1_000, false),
            ],
        ),
        (
            "lowered twice within the delay: the first start time is kept",
            &[
                Set(&[("m", 20)], 50),
                Use(&[("m", 18)]),
                Set(&[("m", 10)], 50),
                Scan(30, false),
                Set(&[("m", 5)], 50),
                Starts(Some(50)),
                Scan(20, true),
            ],
        ),
        (
            "a quota raised above usage before the delay is over clears the start time",
            &[
                Set(&[("m", 20)], 50),
                Use(&[("m", 18)]),
                Set(&[("m", 10)], 50),
                Scan(30, false),
                Set(&[("m", 18)], 50),
                Starts(None),
                Scan(30, false),
            ],
        ),
        (
            "a delay changed from 5 to 10 while armed adds 5",
            &[
                Set(&[("m", 20)], 5),
                Use(&[("m", 18)]),
                Set(&[("m", 10)], 5),
                Set(&[("m", 10)], 10),
                Starts(Some(10)),
                Scan(9, false),
                Scan(1, true),
            ],
        ),
        (
            "usage of what the maximum does not name is within it",
            &[
                Set(&[("cpu", 9)], 5),
                Use(&[("cpu", 7)]),
                Set(&[("cpu", 5)], 5),
                Starts(Some(5)),
                Set(&[("memory", 1)], 5),
                Starts(None),
                Scan(10, false),
            ],
        ),
    ]);
}

#[test]
fn a_lower_maximum_or_a_first_delay_arms_the_timer() {
    check(&[
        (
            "a first maximum is a lower one",
            &[Use(&[("m", 18)]), Set(&[], 5), Set(&[("m", 10)], 5), Starts(Some(5))],
        ),
        (
            "so is a limit on one more type",
            &[
                Set(&[("m", 20)], 5),
                Use(&[("m", 18), ("gpu", 2)]),
                Set(&[("m", 20), ("gpu", 1)], 5),
                Starts(Some(5)),
            ],
        ),
        (
            "a maximum raised that is still below usage arms nothing",
            &[Set(&[("m", 5)], 5), Use(&[("m", 18)]), Set(&[("m", 10)], 5), Starts(None)],
        ),
        (
            "nor does one that drops a type and keeps the other",
            &[
                Set(&[("m", 5), ("gpu", 1)], 5),
                Use(&[("m", 18), ("gpu", 2)]),
                Set(&[("m", 5)], 5),
                Starts(None),
            ],
        ),
        (
            "a first delay with the same maximum does",
            &[Set(&[("m", 5)], 0), Use(&[("m", 18)]), Set(&[("m", 5)], 7), Starts(Some(7))],
        ),
        (
            "another delay with the same maximum does not",
            &[Set(&[("m", 5)], 3), Use(&[("m", 18)]), Set(&[("m", 5)], 7), Starts(None)],
        ),
        (
            "nothing does without a delay",
            &[Set(&[("m", 20)], 0), Charge(&[("m", 30)]), Set(&[("m", 5)], 0), Starts(None)],
        ),
        (
            "what is charged without a look at the maximum does, once",
            &[
                Set(&[("m", 20)], 50),
                Charge(&[("m", 20)]),
                Starts(None),
                Charge(&[("m", 21)]),
                Starts(Some(50)),
                Scan(20, false),
                Charge(&[("m", 22)]),
                Starts(Some(50)),
            ],
        ),
    ]);
}

#[test]
fn a_queue_that_comes_back_below_its_maximum_is_not_waited_for() {
    check(&[
        (
            "less, and still too much, changes nothing",
            &[Set(&[("m", 5)], 7), Charge(&[("m", 9)]), Discharge(&[("m", 6)]), Starts(Some(7))],
        ),
        (
            "what comes after that has the whole delay",
            &[
                Set(&[("m", 5)], 7),
                Charge(&[("m", 9)]),
                Scan(3, false),
                Discharge(&[("m", 5)]),
                Starts(None),
                Charge(&[("m", 9)]),
                Starts(Some(10)),
            ],
        ),
        (
            "a run goes on",
            &[
                Set(&[("m", 5)], 7),
                Charge(&[("m", 9)]),
                Scan(7, true),
                Discharge(&[("m", 5)]),
                Starts(Some(7)),
            ],
        ),
    ]);
}

#[test]
fn what_moves_a_timer_that_is_armed() {
    check(&[
        (
            "usage back under the maximum clears it at the next scan",
            &[
                Set(&[("m", 10)], 60),
                Charge(&[("m", 18)]),
                Scan(30, false),
                Use(&[("m", 9)]),
                Starts(Some(60)),
                Scan(1, false),
                Starts(None),
            ],
        ),
        (
            "a shorter delay may put the start time into the past",
            &[
                Set(&[("m", 10)], 60),
                Charge(&[("m", 18)]),
                Scan(30, false),
                Set(&[("m", 11)], 20),
                Starts(Some(20)),
                Scan(0, true),
            ],
        ),
        (
            "a maximum raised that is still below usage keeps it",
            &[
                Set(&[("m", 10)], 60),
                Charge(&[("m", 18)]),
                Scan(30, false),
                Set(&[("m", 12)], 60),
                Starts(Some(60)),
            ],
        ),
        (
            "a delay of zero clears it, and so does a maximum that is gone",
            &[
                Set(&[("m", 10)], 60),
                Charge(&[("m", 18)]),
                Set(&[("m", 10)], 0),
                Starts(None),
                Set(&[("m", 10)], 60),
                Starts(Some(60)),
                Set(&[], 60),
                Starts(None),
            ],
        ),
        (
            "nothing does while a run goes on",
            &[
                Set(&[("m", 10)], 60),
                Charge(&[("m", 18)]),
                Scan(60, true),
                Set(&[("m", 20)], 0),
                Starts(Some(60)),
                Scan(1, false),
                End,
                Starts(None),
            ],
        ),
    ]);
}

type Model = BTreeMap<&'static str, i64>;

fn amounts() -> impl Strategy<Value = Model> {
    prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), 0..4_i64, 0..3)
}

fn entries(model: &Model) -> Vec<(&'static str, i64)> {
    model.iter().map(|(name, quantity)| (*name, *quantity)).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Set(Option<Model>, i64),
    Charge(Model),
    Scan(i64),
    End,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (prop::option::weighted(0.9, amounts()), 0..4_i64).prop_map(|(max, delay)| Op::Set(max, delay)),
        2 => amounts().prop_map(Op::Charge),
        3 => (0..3_i64).prop_map(Op::Scan),
        1 => Just(Op::End),
    ]
}

/// The definition of the timer in terms of maps by name: how each change of maximum and delay
/// changes the start time.
#[derive(Debug, Default)]
struct Written {
    max: Option<Model>,
    delay: i64,
    used: Model,
    now: i64,
    start: Option<i64>,
    is_running: bool,
    n_armed: usize,
    n_fired: usize,
}

impl Written {
    fn is_above(&self, max: Option<&Model>) -> bool {
        let used = |name| self.used.get(name).copied().unwrap_or(0);
        max.is_some_and(|max| max.iter().any(|(name, limit)| used(name) > *limit))
    }

    fn arm(&mut self, delay: i64) {
        self.start = Some(self.now + delay);
        self.n_armed += 1;
    }

    fn set(&mut self, max: Option<Model>, delay: i64) {
        let infinite = |model: &Option<Model>, name| {
            model.as_ref().and_then(|model| model.get(name)).copied().unwrap_or(i64::MAX)
        };
        let is_lowered =
            max.as_ref().is_some_and(|new| new.keys().any(|k| new[k] < infinite(&self.max, k)));
        let is_changed = max != self.max;
        let difference = delay - self.delay;
        let is_above = self.is_above(max.as_ref());
        if !self.is_running {
            match self.start {
                _ if delay == 0 || max.is_none() || !is_above => self.start = None,
                None if !is_changed && self.delay == 0 => self.arm(delay),
                Some(start) if !is_changed && difference != 0 => {
                    self.start = Some(start + difference);
                }
                Some(start) if is_changed && difference != 0 => {
                    self.start = Some(start + difference);
                }
                None if is_lowered => self.arm(delay),
                Some(_) | None => {}
            }
        }
        (self.max, self.delay) = (max, delay);
    }

    fn scan(&mut self) -> bool {
        if self.is_running {
            return false;
        }
        if !self.is_above(self.max.as_ref()) {
            self.start = None;
            return false;
        }
        self.is_running = self.start.is_some_and(|start| self.now >= start);
        self.n_fired += usize::from(self.is_running);
        self.is_running
    }
}

proptest! {
    #[test]
    fn the_timer_is_as_written_and_fires_once_for_each_arming(
        ops in prop::collection::vec(op(), 1..40),
    ) {
        let (mut queue, mut written) = (Queue::default(), Written::default());
        for op in ops {
            match op {
                Op::Set(max, delay) => {
                    queue.set(max.as_ref().map(|max| Limits::of(&entries(max))), delay);
                    written.set(max, delay);
                }
                Op::Charge(used) => {
                    queue.charge(Resources::of(&entries(&used)));
                    written.used = used;
                    if written.start.is_none()
                        && written.delay != 0
                        && written.is_above(written.max.as_ref())
                    {
                        written.arm(written.delay);
                    }
                }
                Op::Scan(passed) => {
                    queue.now_ns += passed;
                    written.now += passed;
                    prop_assert_eq!(queue.scan(), written.scan());
                }
                Op::End => {
                    queue.timer.ended();
                    (written.start, written.is_running) = (None, false);
                }
            }
            prop_assert_eq!(queue.timer.start_ns(), written.start);
            prop_assert_eq!(queue.timer.is_running(), written.is_running);
            prop_assert!(written.n_fired <= written.n_armed);
        }
    }
}
