//! Output and exit codes of the command line.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{QUEUES, Rm, Service, TempFile, ask, registration, run};

#[test]
fn without_arguments_the_help_is_shown() {
    let (_, stdout, stderr) = run(&[]);
    let help = format!("{stdout}{stderr}");
    let simulator = cfg!(feature = "simulator").then_some("simulate");
    for command in ["serve", "validate"].into_iter().chain(simulator) {
        assert!(help.contains(command), "{help}");
    }
}

#[test]
fn valid_queues_are_ok() {
    let file = TempFile::new("good.yaml", QUEUES);
    let (code, stdout, stderr) = run(&["validate", file.path()]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert!(stdout.contains("ok"), "{stdout}");
    assert!(stdout.contains("3 queues, 2 of them leaves"), "{stdout}");
}

#[test]
fn unusable_queues_are_valid_with_warnings() {
    let closed = "partitions: [{name: default, queues: [{name: root, parent: true}]}]\n";
    let file = TempFile::new("closed.yaml", closed);
    let (code, stdout, stderr) = run(&["validate", file.path()]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("1 queue, 0 of them leaves"), "{stdout}");
    let warnings: Vec<_> = stderr.lines().collect();
    assert_eq!(warnings.len(), 2, "{stderr}");
    let first =
        "warning: line 1, column 14, partitions[0]: partition `default`: no queue is a leaf";
    assert!(warnings[0].contains(first), "{stderr}");
    assert!(warnings[1].contains("nobody may submit"), "{stderr}");
}

#[test]
fn only_an_empty_text_means_built_in_queues() {
    for text in ["# queues to come\n", "~\n"] {
        let file = TempFile::new("comments.yaml", text);
        let (code, _, stderr) = run(&["validate", file.path()]);
        assert_eq!(code, Some(1));
        assert!(stderr.contains("only an empty text"), "{stderr}");
    }
    let file = TempFile::new("empty.yaml", "");
    let (code, stdout, _) = run(&["validate", file.path()]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("the built-in queues would be used"), "{stdout}");
}

#[test]
fn an_endless_device_is_refused() {
    let (code, _, stderr) = run(&["validate", "/dev/zero"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("/dev/zero") && stderr.contains("16 MiB"), "{stderr}");
}

#[test]
fn every_error_is_printed_with_the_file() {
    let bad = r#"
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: "has space"
          - name: twin
            resources:
              max: {memory: 1X}
          - name: twin
"#;
    let file = TempFile::new("bad.yaml", bad);
    let (code, _, stderr) = run(&["validate", file.path()]);
    assert_eq!(code, Some(1));
    assert!(stderr.lines().count() >= 3, "{stderr}");
    for line in stderr.lines() {
        assert!(line.starts_with(&format!("{}: ", file.path())), "{line}");
    }
    for subject in ["has space", "twin", "1X"] {
        assert!(stderr.contains(subject), "{stderr}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let (code, _, stderr) = run(&["validate", "/does/not/exist.yaml"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("/does/not/exist.yaml"), "{stderr}");
}

#[test]
fn a_setting_that_is_not_known_is_named() {
    let file = TempFile::new("settings.toml", "[grpc]\nadress = \"127.0.0.1:0\"\n");
    let (code, _, stderr) = run(&["serve", "--config", file.path()]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("adress"), "{stderr}");
}

#[test]
fn a_wrong_setting_is_said_once() {
    let file = TempFile::new("broken.toml", "[grpc\naddress");
    let (code, _, stderr) = run(&["serve", "--config", file.path()]);
    assert_eq!(code, Some(2));
    assert_eq!(stderr.matches("unclosed table").count(), 1, "{stderr}");
    assert!(stderr.contains(file.path()), "{stderr}");
    let (_, _, stderr) = run(&["serve", "--grpc", "localhost:1"]);
    assert_eq!(stderr.matches("IP:PORT").count(), 1, "{stderr}");
}

#[cfg(feature = "simulator")]
#[test]
fn bad_queues_keep_a_simulation_from_starting() {
    let file = TempFile::new("bad-simulated.yaml", "partitions:\n  - bogus: true\n");
    let (code, _, stderr) = run(&["simulate", "--queues", file.path()]);
    assert_eq!(code, Some(1));
    assert_eq!(stderr.matches("`bogus`").count(), 1, "{stderr}");
    assert!(stderr.lines().all(|line| line.starts_with(file.path())), "{stderr}");
}

#[cfg(feature = "simulator")]
#[test]
fn an_unwritable_report_is_refused_before_the_replay() {
    let file = TempFile::new("not-a-folder", "");
    let (code, stdout, stderr) = run(&["simulate", "--report", file.path()]);
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert!(stderr.contains(file.path()), "{stderr}");
}

#[test]
fn bad_queues_keep_the_service_from_starting() {
    let file = TempFile::new("bad-queues.yaml", "partitions:\n  - bogus: true\n");
    let arguments = ["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--queues"];
    let (code, _, stderr) = run(&[&arguments[..], &[file.path()]].concat());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("bogus"), "{stderr}");
}

/// Returns the output of `monoceros validate NEW --against OLD` after its first lines.
fn against(old: &str, new: &str, more: &[&str]) -> (Option<i32>, String, String) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let file = |which: &str, text| TempFile::new(&format!("{call}-{which}.yaml"), text);
    let (old, new) = (file("old", old), file("new", new));
    let arguments = [&["validate", new.path(), "--against", old.path()], more].concat();
    let (code, stdout, stderr) = run(&arguments);
    (code, stdout.replace(old.path(), "OLD"), stderr.replace(old.path(), "OLD"))
}

fn queues(queues: &str) -> String {
    format!(
        "partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{queues}]}}]}}]\n"
    )
}

#[test]
fn differences_are_printed_one_per_line() {
    let old = queues("{name: a, resources: {max: {vcore: 200}}}, {name: b}");
    let new = queues("{name: a, resources: {max: {vcore: 100}}}, {name: c}");
    let (code, stdout, _) = against(&old, &new, &[]);
    assert_eq!(code, Some(0));
    let expected = "different from OLD:\n  root.b: no longer configured: it drains, and goes once \
                    empty\n  root.a: max lowered: vcore from 200 to 100\n  root.c: new\n";
    assert!(stdout.ends_with(expected), "{stdout}");

    let dump = r#"{"queues": [{"queuename": "root", "partition": "default", "children": [
        {"queuename": "root.a", "allocatedResource": {"vcore": 120000}, "runningApps": 1}]}]}"#;
    let dump = TempFile::new("dump.json", dump);
    let (code, stdout, _) = against(&old, &new, &["--usage", dump.path()]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("now below what is used: 120 of 100 vcore"), "{stdout}");
}

#[test]
fn equivalent_texts_have_no_differences() {
    let old = queues("{name: a}, {name: b}");
    let new = format!("# other words\n{}", queues("{name: b}, {name: a}"));
    let (code, stdout, _) = against(&old, &new, &[]);
    assert_eq!(code, Some(0));
    assert!(stdout.ends_with("it means the same as OLD\n"), "{stdout}");
    let (_, stdout, _) = against("", &old, &[]);
    assert!(stdout.contains("root.a: new"), "{stdout}");
}

#[test]
fn a_comparison_needs_valid_texts_and_dump() {
    let good = queues("{name: a}");
    let bad = "partitions:\n  - bogus: true\n";
    for (old, new) in [(bad, &*good), (&*good, bad)] {
        let (code, _, stderr) = against(old, new, &[]);
        assert_eq!(code, Some(1));
        assert!(stderr.contains("bogus"), "{stderr}");
    }
    let dump = TempFile::new("no-dump.json", "[]");
    let (code, _, stderr) = against(&good, &good, &["--usage", dump.path()]);
    assert_eq!(code, Some(1));
    for part in ["expected is a state dump", "/ws/v1/partition/NAME/queues", "found a list"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    let (code, _, _) = run(&["validate", "x.yaml", "--usage", "y.json"]);
    assert_eq!(code, Some(2), "usage of what?");
}

/// `--usage` reads the dumps that `monoceros dump` and the REST endpoint produce now.
#[tokio::test]
async fn usage_is_read_from_present_dumps() {
    let limited = |vcore: &str, of_user: &str| {
        queues(&format!(
            "{{name: a, resources: {{max: {{vcore: {vcore}}}}}, \
             limits: [{{limit: '', users: [alice], maxresources: {{vcore: {of_user}}}}}]}}"
        ))
    };
    let (old, new) = (limited("4", "3"), limited("1", "500m"));
    let service = Service::start();
    let client = service.client().await;
    client.clone().register_resource_manager(registration("rm", &old)).await.unwrap();
    let rm = Rm::open(client, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x"), ask("app", "y")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 2).await;

    let (code, dumped, stderr) = run(&["dump", "--grpc", &service.grpc.to_string()]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    let shown = service.get("/debug/fullstatedump").await;
    let tree = service.get("/ws/v1/partition/default/queues").await;
    for (name, text, names_users) in
        [("dumped", dumped, true), ("shown", shown, true), ("tree", tree, false)]
    {
        let usage = TempFile::new(&format!("{name}.json"), &text);
        let (code, stdout, _) = against(&old, &new, &["--usage", usage.path()]);
        assert_eq!(code, Some(0), "{name}");
        assert!(stdout.contains("below what is used: 2 of 1 vcore"), "{name}: {stdout}");
        let names = stdout.contains("user alice (2 of 500m vcore)");
        assert_eq!(names, names_users, "{name}: {stdout}");
    }
}
