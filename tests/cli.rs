//! The command line: what it prints, and how it exits.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{QUEUES, TempFile, run};

#[test]
fn without_arguments_the_help_is_shown() {
    let (_, stdout, stderr) = run(&[]);
    let help = format!("{stdout}{stderr}");
    for command in ["serve", "simulate", "validate"] {
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
fn every_error_is_printed_behind_the_name_of_the_file() {
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
    assert_eq!(code, Some(1));
    assert!(stderr.contains("adress"), "{stderr}");
}

#[test]
fn bad_queues_keep_the_service_from_starting() {
    let file = TempFile::new("bad-queues.yaml", "partitions:\n  - bogus: true\n");
    let arguments = ["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--queues"];
    let (code, _, stderr) = run(&[&arguments[..], &[file.path()]].concat());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("bogus"), "{stderr}");
}
