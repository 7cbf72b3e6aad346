//! The Debian package: what it installs is there, and where it goes.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::{at, printed, root, text};

/// `package.metadata.deb` of the program.
fn metadata() -> Value {
    let metadata = ["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"];
    let printed = printed(Command::new(env!("CARGO")).args(metadata).current_dir(root()));
    let metadata: Value = serde_json::from_str(&printed).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    packages.find(|package| package["name"] == "monoceros").unwrap()["metadata"]["deb"].clone()
}

/// Where each file goes, and which it is; a folder of files ends with `*` and what they end with.
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
fn the_package_has_the_program_its_unit_its_settings_and_its_manual() {
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
