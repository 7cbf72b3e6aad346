//! The profile-guided build: the benchmarks that train it exist. Such a build takes an hour, and is
//! left to releases.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::{printed, root, text};

const SCRIPT: &str = "deploy/build/profile-guided.sh";

#[test]
fn guided_builds_use_existing_benchmarks() {
    let script = text(SCRIPT);
    let (_, load) = script.split_once("\nload='").unwrap();
    let load: Vec<&str> = load.split_once('\'').unwrap().0.lines().collect();
    assert!(load.len() >= 5, "{load:?}");
    // Benchmarks are found by name in the whole workspace.
    let manifests = ["Cargo.toml", "shims/kubernetes/Cargo.toml"].map(text).concat();
    let figures = text("docs/performance.md");
    for line in load {
        let bench = line.split(' ').next().unwrap();
        assert!(manifests.contains(&format!("[[bench]]\nname = \"{bench}\"\n")), "`{bench}`");
        let has_figures = figures.contains(&format!("<!-- figures: {line}"))
            || figures.contains(&format!("--bench {bench}`"));
        assert!(has_figures, "`{line}` has no figures");
    }
}

#[test]
fn the_guided_build_script_is_executable() {
    printed(Command::new("sh").arg("-n").arg(SCRIPT).current_dir(root()));
    let mode = root().join(SCRIPT).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "{mode:o}");
}
