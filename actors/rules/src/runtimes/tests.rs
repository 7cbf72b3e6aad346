//! Tests of the rows together: decay, fall-backs, the limit of classes, and images.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{
    Basis, ClassCache, RowFault, RowKey, RowLine, Run, RunLength, RunTimeSettings, RunTimes,
    RunTimesImage, Whose,
};
use crate::values::resources::Resources;

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_NS: i64 = 3_600_000_000_000;

/// Run times with the means to count in them.
struct Measured {
    run_times: RunTimes,
    now_ns: i64,
}

impl Measured {
    fn new(settings: RunTimeSettings) -> Self {
        Self { run_times: RunTimes::new(settings, 0), now_ns: 0 }
    }

    /// Counts a run of an application `root.a ada nightly-7` (queue, user, id).
    fn run(&mut self, application: &str, lasted: Duration, length: RunLength) {
        let (queue, user, id) = named(application);
        let whose = Whose { queue: &queue, user: &user, application: &id };
        let resources = Arc::new(cpus(1));
        let run = Run { resources: &resources, lasted, length };
        self.run_times.count(whose, &mut ClassCache::default(), &run, self.now_ns);
    }

    /// Returns from which row an estimate for this application is read, and its median in hours.
    fn estimate(&self, application: &str) -> Option<(Basis, f64)> {
        let estimate = self.run_times.estimate(&class(application), self.now_ns)?;
        let median = estimate.histogram.quantile(0.5, Duration::ZERO)?;
        Some((estimate.basis, (median.as_secs_f64() / 360.0).round() / 10.0))
    }

    fn has(&self, application: &str) -> bool {
        self.run_times.weights(&class(application), self.now_ns).is_some()
    }
}

fn cpus(vcore: i64) -> Resources {
    Resources::of(&[("vcore", vcore)])
}

fn named(application: &str) -> (Arc<str>, Arc<str>, String) {
    let mut words = application.split(' ');
    let mut next = || words.next().unwrap();
    (Arc::from(next()), Arc::from(next()), next().to_owned())
}

fn class(application: &str) -> RowKey {
    let (queue, user, id) = named(application);
    let whose = Whose { queue: &queue, user: &user, application: &id };
    whose.class(whose.stem(), &cpus(1))
}

fn settings(classes: usize) -> RunTimeSettings {
    RunTimeSettings { half_life: HOUR, classes }
}

#[test]
fn half_of_the_weight_is_gone_after_the_half_life() {
    let mut measured = Measured::new(settings(10));
    measured.run("root.a ada etl-1", HOUR, RunLength::Whole);
    measured.run("root.a ada etl-1", HOUR, RunLength::AtLeast);
    let weights = |measured: &Measured| {
        let key = class("root.a ada etl-2");
        let (ended, at_least) = measured.run_times.weights(&key, measured.now_ns).unwrap();
        ((ended * 100.0).round(), (at_least * 100.0).round())
    };
    assert_eq!(weights(&measured), (100.0, 100.0));
    measured.now_ns = HOUR_NS;
    assert_eq!(weights(&measured), (50.0, 50.0));
    measured.run("root.a ada etl-3", HOUR, RunLength::Whole);
    assert_eq!(weights(&measured), (150.0, 50.0));
    // Long after the range of a number is left.
    measured.now_ns = 5_000 * HOUR_NS;
    measured.run("root.a ada etl-3", HOUR, RunLength::Whole);
    assert_eq!(weights(&measured), (100.0, 0.0));
    measured.now_ns += HOUR_NS;
    assert_eq!(weights(&measured), (50.0, 0.0));
}

#[test]
fn old_runs_count_less_than_new_ones() {
    let mut measured = Measured::new(settings(10));
    for _ in 0..4 {
        measured.run("root.a ada etl-1", HOUR, RunLength::Whole);
    }
    measured.run("root.a ada etl-1", 8 * HOUR, RunLength::Whole);
    assert_eq!(measured.estimate("root.a ada etl-2"), Some((Basis::Class, 1.0)));
    measured.now_ns = 3 * HOUR_NS;
    measured.run("root.a ada etl-1", 8 * HOUR, RunLength::Whole);
    let (_, median) = measured.estimate("root.a ada etl-2").unwrap();
    assert!((7.6..8.4).contains(&median), "{median}");
}

#[test]
fn a_class_falls_back_to_its_queue_and_user() {
    let mut measured = Measured::new(settings(10));
    assert_eq!(measured.estimate("root.a ada etl"), None);
    measured.run("root.b eve etl", 4 * HOUR, RunLength::Whole);
    let (basis, _) = measured.estimate("root.a ada etl").unwrap();
    assert_eq!(basis, Basis::All);
    measured.run("root.a bob etl", HOUR, RunLength::Whole);
    assert_eq!(measured.estimate("root.a ada etl"), Some((Basis::Queue, 1.0)));
    measured.run("root.a ada train", 2 * HOUR, RunLength::Whole);
    let (basis, _) = measured.estimate("root.a ada etl").unwrap();
    assert_eq!(basis, Basis::User);
    measured.run("root.a ada etl", HOUR, RunLength::AtLeast);
    let (basis, _) = measured.estimate("root.a ada etl").unwrap();
    assert_eq!(basis, Basis::User, "nothing of the class has ended");
    measured.run("root.a ada etl", HOUR, RunLength::Whole);
    assert_eq!(measured.estimate("root.a ada etl").unwrap().0, Basis::Class);
    measured.now_ns = 20 * HOUR_NS;
    assert_eq!(measured.estimate("root.a ada etl"), None, "all of it is too old");
}

#[test]
fn the_least_used_class_goes() {
    let mut measured = Measured::new(settings(3));
    for id in ["a", "a", "b", "b", "c"] {
        measured.run(&format!("root.q ada {id}"), HOUR, RunLength::Whole);
    }
    measured.run("root.r eve d", HOUR, RunLength::Whole);
    let here = ["a", "b", "c"].map(|id| measured.has(&format!("root.q ada {id}")));
    assert_eq!(here, [true, true, false]);
    assert!(measured.has("root.r eve d"));
    // The rows of a user and a queue go with their last class, and that of all never does.
    measured.run("root.q ada b", HOUR, RunLength::Whole);
    measured.run("root.q ada e", HOUR, RunLength::Whole);
    assert!(!measured.has("root.r eve d"));
    assert_eq!(measured.run_times.n_classes(), 3);
    let rows = measured.run_times.keys().count();
    assert_eq!(rows, 3 + 3, "classes, and one user, one queue and all");
    let all = measured.run_times.weights(&RowKey::default(), 0).unwrap();
    assert!((all.0 - 8.0).abs() < 1e-9, "{all:?}");
}

proptest! {
    #[test]
    fn rows_are_nested_and_bounded(
        most in 1..6_usize,
        runs in prop::collection::vec((0..3_u8, 0..3_u8, 0..4_u8), 0..60),
    ) {
        let mut measured = Measured::new(settings(most));
        for (number, (queue, user, id)) in (1..).zip(runs) {
            let id = char::from(b'a' + id);
            measured.run(&format!("root.q{queue} u{user} {id}"), HOUR, RunLength::Whole);
            let keys: Vec<RowKey> =
                measured.run_times.keys().map(|key| RowKey::clone(key)).collect();
            let n_classes = keys.iter().filter(|key| key.is_class()).count();
            prop_assert_eq!(n_classes, measured.run_times.n_classes());
            prop_assert!(n_classes <= most);
            for key in &keys {
                let is_needed = key.is_class()
                    || *key == RowKey::default()
                    || keys.iter().any(|other| other.wider().as_ref() == Some(key));
                prop_assert!(is_needed, "{:?} has no class below it", key);
                prop_assert!(key.wider().is_none_or(|wider| keys.contains(&wider)));
            }
            prop_assert_eq!(measured.run_times.n_counted(), number);
            let all = measured.run_times.weights(&RowKey::default(), 0).unwrap();
            prop_assert!((all.0 - number as f64).abs() < 1e-9);
        }
    }
}

#[test]
fn a_cached_class_that_is_gone_is_made_again() {
    let mut run_times = RunTimes::new(settings(1), 0);
    let (queue, user) = (Arc::from("root.q"), Arc::from("ada"));
    let mut caches = [ClassCache::default(), ClassCache::default()];
    let resources: Vec<_> = (0..12).map(|power| Arc::new(cpus(1 << power))).collect();
    for resources in resources.iter().chain(&resources) {
        for (cache, application) in caches.iter_mut().zip(["one", "two"]) {
            let whose = Whose { queue: &queue, user: &user, application };
            let run = Run { resources, lasted: HOUR, length: RunLength::Whole };
            run_times.count(whose, cache, &run, 0);
            assert_eq!(run_times.n_classes(), 1);
            let class = whose.class(application, resources);
            assert_eq!(run_times.weights(&class, 0), Some((1.0, 0.0)));
        }
    }
}

#[test]
fn an_image_is_written_read_and_restored() {
    let mut measured = Measured::new(settings(10));
    for (number, id) in (1..).zip(["a", "b", "c", "c"]) {
        measured.now_ns = number * HOUR_NS / 2;
        measured.run(&format!("root.q ada {id}"), HOUR / 7 * 5, RunLength::Whole);
        measured.run(&format!("root.q ada {id}"), 2 * HOUR, RunLength::AtLeast);
    }
    // Copied in two slices.
    let now_ns = measured.now_ns;
    let mut rows: Vec<_> = measured.run_times.copies(0, now_ns).take(2).collect();
    rows.extend(measured.run_times.copies(rows[1].place() + 1, now_ns));
    let image = RunTimesImage::of(rows);
    assert_eq!((image.at_ns(), measured.run_times.n_counted()), (now_ns, 8));
    let mut read = RunTimesImage::new(image.at_ns());
    for line in image.lines() {
        let text = serde_json::to_string(&line).unwrap();
        read.push(serde_json::from_str(&text).unwrap()).unwrap();
    }
    let later = now_ns + HOUR_NS;
    for image in [&image, &read] {
        let restored = RunTimes::restored(settings(10), image);
        assert_eq!((restored.n_classes(), restored.keys().count()), (3, 6));
        for key in measured.run_times.keys() {
            let weights = |run_times: &RunTimes| run_times.weights(key, later).unwrap();
            let (now, then) = (weights(&restored), weights(&measured.run_times));
            assert!((now.0 - then.0).abs() + (now.1 - then.1).abs() < 1e-5, "{now:?} {then:?}");
        }
        let fewer = RunTimes::restored(settings(1), image);
        let left: Vec<_> = fewer.keys().filter(|key| key.is_class()).collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].stem.as_deref(), Some("c"), "that with the greatest weight");
    }
}

#[test]
fn rows_that_cannot_be_are_refused() {
    let push = |text: &str| {
        let line: RowLine = serde_json::from_str(text).unwrap();
        RunTimesImage::new(0).push(line)
    };
    let class = r#""queue":"root.a","user":"ada","stem":"etl","shape":"vcore=2^0""#;
    assert_eq!(push(&format!(r#"{{{class},"runs":[[0,1,0],[209,0,1]]}}"#)), Ok(()));
    assert_eq!(push(r#"{"runs":[]}"#), Ok(()));
    assert_eq!(push(r#"{"user":"ada","runs":[]}"#), Err(RowFault::Name));
    assert_eq!(push(r#"{"queue":"root.a","stem":"x","runs":[]}"#), Err(RowFault::Name));
    for runs in ["[[2,1,0],[1,1,0]]", "[[1,1,0],[1,1,0]]", "[[210,1,0]]"] {
        assert_eq!(push(&format!(r#"{{{class},"runs":{runs}}}"#)), Err(RowFault::Marks));
    }
    for runs in ["[[1,-1,0]]", "[[1,0,1e301]]"] {
        assert_eq!(push(&format!(r#"{{{class},"runs":{runs}}}"#)), Err(RowFault::Weight));
    }
}
