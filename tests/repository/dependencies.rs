//! Dependencies: compatible licences, one registry, and few duplicates.
//!
//! Known vulnerabilities are not checked, because that needs a database that is not part of a
//! build.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};

/// Accepted licences of dependencies. Of a choice, one is enough.
const LICENCES: [&str; 10] = [
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    // Applies to its own files only, so programs that use them may have any licence.
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// Packages in two versions, which two dependencies require.
const TWICE: [&str; 11] = [
    "base64",
    "foldhash",
    "getrandom",
    "hashbrown",
    "linux-raw-sys",
    "rand",
    "rand_core",
    "rustix",
    "syn",
    "synstructure",
    "unicode-width",
];

/// Returns all packages of the workspace and its dependencies on this platform, as Cargo lists
/// them.
fn packages() -> Vec<Value> {
    let version = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // The needed packages are on this machine, or this test could not run.
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

#[test]
fn every_dependency_has_a_licence_that_fits() {
    let is_allowed = |wanted: &LicenseReq| {
        wanted.license.id().is_some_and(|licence| LICENCES.contains(&licence.name))
    };
    for package in packages() {
        let licence = package["license"].as_str().unwrap_or_default();
        let expression = Expression::parse_mode(licence, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{}: `{licence}`: {error}", name(&package)));
        assert!(expression.evaluate(is_allowed), "{}: `{licence}`", name(&package));
    }
}

#[test]
fn dependencies_come_from_one_registry() {
    let packages = packages();
    let sources: BTreeSet<&str> =
        packages.iter().filter_map(|package| package["source"].as_str()).collect();
    assert!(sources.len() == 1 && sources.iter().all(|it| it.starts_with("registry+")));
    let root = env!("CARGO_MANIFEST_DIR");
    for package in packages.iter().filter(|package| package["source"].is_null()) {
        let manifest = package["manifest_path"].as_str().unwrap();
        assert!(manifest.starts_with(root), "{} is at {manifest}", name(package));
    }
}

#[test]
fn few_dependencies_are_there_twice() {
    let packages = packages();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in &packages {
        *versions.entry(name(package)).or_default() += 1;
    }
    let twice: Vec<&str> = versions.into_iter().filter(|(_, n)| *n > 1).map(|(it, _)| it).collect();
    assert_eq!(twice, TWICE);
}
