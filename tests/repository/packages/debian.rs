//! The Debian package: its files exist, with their targets.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::{at, printed, root, text};

/// Returns `package.metadata.deb` of the program.
fn metadata() -> Value {
    let metadata = ["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"];
    let printed = printed(Command::new(env!("CARGO")).args(metadata).current_dir(root()));
    let metadata: Value = serde_json::from_str(&printed).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    packages.find(|package| package["name"] == "monoceros").unwrap()["metadata"]["deb"].clone()
}

/// Returns source and target of each file. A folder of files ends with `*` and their suffix.
pub(super) fn installed() -> BTreeMap<String, String> {
    let metadata = metadata();
    let assets = metadata["assets"].as_array().unwrap();
    let place = |asset: &Value| {
        let (source, folder) = (at(asset, "/0"), at(asset, "/1"));
        let name = source.rsplit('/').next().unwrap();
        (format!("/{folder}{name}"), source.to_owned())
    };
    assets.iter().map(place).collect()
}

#[test]
fn the_package_has_all_its_files() {
    let files = installed();
    assert_eq!(files["/usr/bin/monoceros"], "target/release/monoceros");
    for source in files.values().filter(|source| !source.starts_with("target/")) {
        let (folder, name) = source.rsplit_once('/').unwrap_or((".", source));
        let ending = name.trim_start_matches('*');
        let mut entries = root().join(folder).read_dir().unwrap().map(Result::unwrap);
        let found = entries.any(|entry| entry.file_name().to_string_lossy().ends_with(ending));
        assert!(found, "`{source}`");
    }
    let metadata = metadata();
    let units = at(&metadata, "/systemd-units/unit-scripts");
    assert!(text(&format!("{units}/monoceros.service")).contains("[Service]"));
    assert_eq!(metadata["systemd-units"]["start"], false, "nobody has looked at its settings yet");
    assert!(root().join(at(&metadata, "/license-file/0")).is_file());
    assert_eq!(metadata["features"], serde_json::json!(["kubernetes"]));
}
