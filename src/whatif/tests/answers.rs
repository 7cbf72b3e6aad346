//! What the answer says about each kind of change.

use std::time::Duration;

use monoceros_actors::image::ResourceManagerImage;

use super::super::answer::{Answer, Differences};
use super::super::report::files;
use super::super::{
    AddedNodes, ChangeError, Changes, Options, Submission, WhatIfError, ahead, answer,
};
use super::world::{Step, application, ask, configuration, image_after, plain};

const TWO: &str = "{name: ls}, {name: be}";

fn asked(image: &ResourceManagerImage, changes: &Changes) -> Answer {
    answer(image, changes, &Options::default()).unwrap()
}

fn queues(leaves: &str) -> Changes {
    Changes { queues: Some(configuration(leaves)), ..Changes::default() }
}

/// The `be` half of a node of four cores runs, each for an hour, and `ls` waits for two.
fn full() -> Vec<Step> {
    let mut owner = plain("owner", "k", 2);
    (owner.preempts, owner.limit) = (true, Some(60));
    vec![
        Step::Node("n1", 4),
        application("batch", "be"),
        ask("batch", "old", 2, Some(3_600)),
        Step::Wait(1),
        ask("batch", "new", 2, Some(3_600)),
        Step::Wait(100),
        application("owner", "ls"),
        Step::Ask(owner),
        Step::Wait(40),
    ]
}

#[test]
fn raised_guarantee_evicts_for_its_queue_and_not_in_vain() {
    let image = image_after(TWO, full());
    let answer =
        asked(&image, &queues("{name: ls, resources: {guaranteed: {vcore: 2}}}, {name: be}"));

    assert!(!answer.is_safe());
    assert_eq!((answer.a.evicted, answer.b.evicted), (0, 1));
    let [row] = &answer.evicted[..] else { panic!("{answer:?}") };
    assert_eq!((&*row.of.application, &*row.of.key, &*row.node), ("batch", "new", "n1"));
    assert_eq!((row.grounds, row.for_queue.as_deref()), ("guarantee", Some("root.ls")));
    // The one for which it is evicted starts when it has left, and ends after a minute; then the
    // evicted one starts again.
    let [start] = &answer.starts[..] else { panic!("{:?}", answer.starts) };
    assert_eq!((&*start.of.key, start.b), ("k", Some(row.time + 1.0)));
    assert!(row.again.is_some_and(|again| (row.time + 61.0..row.time + 63.0).contains(&again)));
    assert_eq!(start.a, Some(3_459.0), "when the first of the others has run for its hour");
    assert_eq!(answer.differences, Differences { earlier: 1, ..Differences::default() });
    let lines = answer.lines();
    assert!(lines.len() <= 10, "{lines:#?}");
    assert_eq!(lines[0], "Not safe: 1 allocation is evicted that is not without the change.");
    assert!(lines.iter().any(|line| line.contains("1 for the guarantee of root.ls")), "{lines:#?}");
}

#[test]
fn lowered_maximum_evicts_after_its_delay() {
    let image = image_after(TWO, full());
    let lowered = "{name: ls}, {name: be, resources: {max: {vcore: 2}}, \
                   properties: {quota.preemption.delay: 10m}}";
    let answer = asked(&image, &queues(lowered));
    let [row] = &answer.evicted[..] else { panic!("{answer:?}") };
    assert_eq!((row.grounds, row.for_queue.as_deref()), ("quota", Some("root.be")));
    assert!((600.0..602.0).contains(&row.time), "{row:?}");
    assert!(!answer.is_safe() && row.is_asked_anew);
    // It waits for the other one, which has run for 141 s of its hour.
    assert!(row.again.is_some_and(|again| (3_458.0..3_462.0).contains(&again)), "{row:?}");
}

#[test]
fn change_without_evictions_is_safe() {
    let image = image_after(TWO, full());
    let added = AddedNodes { count: 1, like: "n1".to_owned() };
    let answer = asked(&image, &Changes { add_nodes: vec![added], ..Changes::default() });
    assert!(answer.is_safe() && answer.evicted.is_empty());
    assert_eq!((answer.a.at_once, answer.b.at_once), (0, 1));
    let [start] = &answer.starts[..] else { panic!("{:?}", answer.starts) };
    assert_eq!((&*start.of.application, start.b), ("owner", Some(0.0)));
    assert_eq!(answer.lines()[0], "Safe: nothing is evicted.");
}

#[test]
fn what_loses_its_node_asks_anew() {
    let mut steps = vec![Step::Node("n1", 4), application("batch", "be")];
    steps.extend([
        ask("batch", "long", 2, Some(3_600)),
        ask("batch", "short", 2, Some(600)),
        Step::Node("n2", 2),
    ]);
    let mut pinned = plain("batch", "pinned", 1);
    pinned.node = Some("n3");
    steps.extend([Step::Node("n3", 1), Step::Ask(pinned)]);
    let image = image_after(TWO, steps);
    let removed = ["n1", "n3"].map(str::to_owned).to_vec();
    let answer = asked(&image, &Changes { remove_nodes: removed, ..Changes::default() });
    let mut rows: Vec<_> = answer
        .evicted
        .iter()
        .map(|row| (&*row.of.key, row.grounds, row.is_asked_anew, row.again))
        .collect();
    rows.sort_by_key(|row| row.0);
    // One of them fits the other node at once, and the other one when that has ended. What may only
    // run on a lost node is not asked for.
    assert_eq!(
        rows,
        [
            ("long", "nodeRemoved", true, Some(0.0)),
            ("pinned", "nodeRemoved", false, None),
            ("short", "nodeRemoved", true, Some(3_600.0)),
        ]
    );
}

#[test]
fn drained_node_takes_nothing_new() {
    let image = image_after(TWO, full());
    let drained = Changes { drain_nodes: vec!["n1".to_owned()], ..Changes::default() };
    let answer = asked(&image, &drained);
    assert!(answer.is_safe());
    let [never] = &answer.never[..] else { panic!("{:?}", answer.never) };
    assert_eq!((&*never.of.key, never.a), ("k", Some(3_459.0)));
    assert_eq!(answer.differences.only_in_a, 1);
}

#[test]
fn released_application_leaves_its_room_to_others() {
    let image = image_after(TWO, full());
    let released = vec!["batch".to_owned()];
    let answer = asked(&image, &Changes { release_applications: released, ..Changes::default() });
    assert!(answer.is_safe(), "it was to end: {:?}", answer.evicted);
    assert_eq!((answer.b.at_once, answer.b.started), (1, 1));
    assert_eq!(answer.starts[0].b, Some(0.0));
}

#[test]
fn gang_that_does_not_fit_never_starts_and_says_why() {
    let image = image_after(TWO, vec![Step::Node("n1", 4)]);
    let submit = Submission::read(
        r#"{"applications": [{"applicationID": "gang", "queueName": "root.ls", "ugi": {"user": "ada"},
                "taskGroups": [{"name": "g", "minMembers": 3, "member": {"vcore": 2000}}]}],
            "asks": [
                {"applicationID": "gang", "allocationKey": "m0", "taskGroupName": "g",
                 "maxAllocations": 1, "resourceAsk": {"vcore": 2000}},
                {"applicationID": "gang", "allocationKey": "m1", "taskGroupName": "g",
                 "maxAllocations": 2, "resourceAsk": {"resources": {"vcore": {"value": "2000"}}}}]}"#,
    );
    let answer = asked(&image, &Changes { submit: submit.unwrap(), ..Changes::default() });
    assert_eq!(answer.differences.submitted_waiting, 2);
    assert_eq!((answer.b.started, answer.b.waiting), (0, 3));
    assert_eq!(answer.never.len(), 2);
    for row in &answer.never {
        assert_eq!((&*row.of.queue, row.a), ("root.ls", None));
        assert!(!row.why.is_empty(), "{row:?}");
    }
    assert!(answer.is_safe());
}

#[test]
fn submitted_work_starts_when_there_is_room() {
    let image = image_after(TWO, full());
    let submit = Submission::read(
        r#"{"asks": [{"applicationID": "batch", "allocationKey": "more", "maxAllocations": 1,
                      "resourceAsk": {"vcore": 1000}}]}"#,
    );
    let changes = Changes { submit: submit.unwrap(), ..Changes::default() };
    let answer = asked(&image, &changes);
    assert_eq!((answer.differences.submitted_started, answer.differences.same), (1, 1));
    let [start] = &answer.starts[..] else { panic!("{:?}", answer.starts) };
    assert!(start.is_submitted && start.a.is_none(), "{start:?}");
}

#[test]
fn unknown_durations_are_counted_and_no_time_is_told() {
    let mut steps = full();
    for step in &mut steps {
        if let Step::Ask(ask) = step {
            ask.limit = None;
        }
    }
    let answer = asked(&image_after(TWO, steps), &Changes::default());
    assert_eq!((answer.a.running_durations.unknown, answer.a.started), (2, 0));
    let [never] = &answer.never[..] else { panic!("{:?}", answer.never) };
    assert_eq!((&*never.of.application, never.a), ("owner", None));
    assert!(!never.why.is_empty());
    let lines = answer.lines();
    assert!(lines.iter().any(|line| line.ends_with("2 unknown: taken to run until the horizon")));
}

/// Four runs of 10, 100, 100 and 1,000 s have ended, one of the same kind runs since 20 s, and another
/// one waits for it.
fn measured() -> ResourceManagerImage {
    let mut steps = vec![Step::Node("n1", 1), application("nightly", "be")];
    for (key, lasts) in [("a", 10), ("b", 100), ("c", 100), ("f", 1_000)] {
        steps.extend([ask("nightly", key, 1, None), Step::Wait(lasts)]);
        steps.push(Step::End("nightly".to_owned(), key.to_owned()));
    }
    steps.extend([ask("nightly", "d", 1, None), Step::Wait(20), ask("nightly", "e", 1, None)]);
    image_after(TWO, steps)
}

#[test]
fn durations_are_medians_of_what_ended_given_the_age() {
    let answer = asked(&measured(), &Changes::default());
    assert_eq!((answer.a.running_durations.measured, answer.a.started_durations.measured), (1, 1));
    // After 20 s it is one of the three longer ones, whose median is 100 s.
    let waits = answer.queues.iter().find(|row| row.name == "root.be").unwrap();
    assert!((75.0..90.0).contains(&waits.a.wait_median), "{waits:?}");
    assert_eq!(waits.a, waits.b);
}

#[test]
fn runs_draw_equal_durations_for_both_replays() {
    let image = measured();
    let some = |runs, seed| {
        let options = Options { runs, seed, ..Options::default() };
        answer(&image, &Changes::default(), &options).unwrap()
    };
    let answer = some(9, 1);
    assert_eq!((answer.runs, answer.starts.len()), (9, 0), "nothing is changed");
    assert_eq!(answer, some(9, 1));
    let wait = |answer: &Answer| answer.queues[0].a.wait_median;
    let single: Vec<_> = (0..9).map(|seed| wait(&some(2, seed))).collect();
    assert!(single.iter().any(|wait| *wait > 500.0) && single.iter().any(|wait| *wait < 200.0));
}

#[test]
fn changes_of_what_is_not_there_are_refused() {
    let image = image_after(TWO, full());
    let refused = |changes: Changes| match answer(&image, &changes, &Options::default()) {
        Err(error) => error.to_string(),
        Ok(answer) => panic!("{answer:?}"),
    };
    let names = || vec!["x".to_owned()];
    let changes = Changes { remove_nodes: names(), ..Changes::default() };
    assert_eq!(refused(changes), "node `x` is not in the snapshot");
    let changes = Changes { release_applications: names(), ..Changes::default() };
    assert_eq!(refused(changes), "application `x` is not in the snapshot");
    let asks = r#"{"asks": [{"applicationID": "batch", "allocationKey": "old",
                             "maxAllocations": 1, "resourceAsk": {"vcore": 1}}]}"#;
    let submit = Submission::read(asks).unwrap();
    let changes = Changes { submit, ..Changes::default() };
    assert_eq!(refused(changes), "key `old` of application `batch` is used already");
    let text = refused(queues("{name: ls, resources: {max: {vcore: x}}}"));
    assert!(text.starts_with("queue configuration is not valid"), "{text}");
    let wrong = Submission::read(r#"{"asks": [{"applicationId": "batch"}]}"#).unwrap_err();
    assert!(matches!(wrong, ChangeError::Unreadable(_)));
    assert!(wrong.to_string().starts_with("`asks`, number 1: "), "{wrong}");
    let none = Options { horizon: Duration::ZERO, ..Options::default() };
    let changes = Changes::default();
    assert!(matches!(answer(&image, &changes, &none), Err(WhatIfError::Horizon)));
}

#[test]
fn the_manual_shows_the_answer_of_a_raised_guarantee() {
    let image = image_after(TWO, full());
    let raised = "{name: ls, resources: {guaranteed: {vcore: 2}}}, {name: be}";
    let text = asked(&image, &queues(raised)).text();
    let page = include_str!("../../../docs/what-if.md");
    assert!(page.contains(&format!("```text\n{text}```\n")), "{text}");
}

#[test]
fn a_report_has_a_page_with_charts_and_all_numbers() {
    let image = image_after(TWO, full());
    let changes = Changes { release_applications: vec!["batch".to_owned()], ..Changes::default() };
    let files = files(&asked(&image, &changes)).unwrap();
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    let charts = ["queue-shares-a.svg", "queue-shares-b.svg"];
    assert_eq!(names[..3], ["answer.json", "compare.json", "index.html"]);
    assert_eq!(names[3..], charts);
    for (name, svg) in &files[3..] {
        assert!(svg.contains("<polyline") && files[2].1.contains(name), "{name}");
    }
    let compared: serde_json::Value = serde_json::from_str(&files[1].1).unwrap();
    let rows = compared["figures"].as_array().unwrap();
    let row = rows.iter().find(|row| row["figure"] == "started at once").unwrap();
    assert_eq!([&row["a"], &row["b"], &row["difference"]], [0.0, 1.0, 1.0]);
}

#[test]
fn what_happens_without_changes_is_one_replay() {
    let image = image_after(TWO, full());
    let ahead = ahead(&image, &Options::default()).unwrap();
    let text = ahead.text();
    assert!(text.contains("started: 1, 0 of them at once; evicted: 0"), "{text}");
    assert!(text.contains("run times: 3 by their limit"), "{text}");
}
