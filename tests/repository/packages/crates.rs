//! The published crates: the libraries of an embedding program and of a client. They are packed as
//! for a registry; the workflow of releases also builds what was packed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{TempFolder, at, printed, root, text};

/// Returns the members of the workspace that may be published.
fn published() -> Vec<Value> {
    let metadata = ["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"];
    let printed = printed(Command::new(env!("CARGO")).args(metadata).current_dir(root()));
    let mut metadata: Value = serde_json::from_str(&printed).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("{metadata}") };
    // No list of registries: any registry.
    packages.into_iter().filter(|package| package["publish"].is_null()).collect()
}

fn names(packages: &[Value]) -> BTreeSet<&str> {
    packages.iter().map(|package| at(package, "/name")).collect()
}

#[test]
fn published_crates_depend_on_no_other_member() {
    let packages = published();
    let published = names(&packages);
    let expected = ["actors", "client", "config", "proto", "rules"];
    let expected = expected.map(|name| format!("monoceros-{name}"));
    assert!(published.iter().eq(&expected), "{published:?}");
    for package in &packages {
        assert!(!at(package, "/description").is_empty() && at(package, "/license") == "Apache-2.0");
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        for one in dependencies.filter(|one| one["path"].is_string() && one["kind"] != "dev") {
            let name = at(one, "/name");
            assert!(published.contains(name), "`{name}` is not published");
            assert_eq!(at(one, "/req"), concat!("^", env!("CARGO_PKG_VERSION")), "{name}");
        }
    }
    // The workflow and the steps by hand have them all.
    for file in [".github/workflows/release.yml", "RELEASING.md"] {
        for name in &published {
            let option = format!("--package {name}");
            assert!(text(file).contains(&option), "{file} has no `{option}`");
        }
    }
}

#[test]
fn published_crates_are_packed_with_all_their_files() {
    let packages = published();
    let folder = TempFolder::new("crates");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--offline", "--locked", "--allow-dirty", "--no-verify"]);
    cargo.arg("--target-dir").arg(&folder.0).current_dir(root());
    for name in names(&packages) {
        cargo.args(["--package", name]);
    }
    printed(&mut cargo);
    for package in &packages {
        let name = format!("{}-{}", at(package, "/name"), at(package, "/version"));
        let archive = folder.0.join("package").join(format!("{name}.crate"));
        let mut list = Command::new("tar");
        let listed = printed(list.arg("--list").arg("--gzip").arg("--file").arg(archive));
        let listed: BTreeSet<_> = listed.lines().collect();
        let manifest = Path::new(at(package, "/manifest_path")).parent().unwrap();
        for target in package["targets"].as_array().unwrap() {
            let source = Path::new(at(target, "/src_path")).strip_prefix(manifest).unwrap();
            let packed = format!("{name}/{}", source.display());
            assert!(listed.contains(&*packed), "{packed} in {listed:?}");
        }
        if name.starts_with("monoceros-config-") {
            assert!(listed.contains(&*format!("{name}/queues.yaml")), "{listed:?}");
        }
        if name.starts_with("monoceros-proto-") {
            let text = format!("{name}/monoceros/si/v1/scheduler.proto");
            assert!(listed.contains(&*text), "the client is made of it: {listed:?}");
        }
    }
}
