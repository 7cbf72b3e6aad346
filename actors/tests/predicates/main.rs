//! Predicates that are answered later, under the test's control, in virtual time: what waits, what
//! an answer does, who takes a placement back.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod shim;

mod answers;
mod bundles;
mod cancelling;
mod constraints;
mod elsewhere;
mod exclusions;
mod gangs;
mod holding;
mod preemption;
mod refusals;
mod starting;

/// A file that no `mod` names is a file of tests that nobody runs.
#[test]
fn no_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/predicates");
    let named = include_str!("main.rs");
    for file in std::fs::read_dir(here).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name == "main" || named.contains(&format!("mod {name};")), "{name} is forgotten");
    }
}
