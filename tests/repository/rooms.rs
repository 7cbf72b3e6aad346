//! The rooms of the rules import in one direction: the order of the table in the head of their crate.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder with the sources of the rules.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("actors/rules/src")
}

/// Returns the rooms in the order in which the head of the crate lists them.
fn rooms() -> Vec<String> {
    let head = fs::read_to_string(sources().join("lib.rs")).unwrap();
    let rows = head.lines().filter_map(|line| line.strip_prefix("//! | [`"));
    rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}

/// Returns every source file below a folder, except files of tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().unwrap().to_string_lossy().ends_with("tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the rooms that a source names as `crate::ROOM`, each with its line. Comments and tests
/// are left out.
fn imports(source: &str) -> Vec<(usize, String)> {
    let code = source.lines().take_while(|line| !line.starts_with("mod tests {"));
    let code = code.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let named =
        code.flat_map(|(at, line)| line.split("crate::").skip(1).map(move |it| (at + 1, it)));
    let name = |rest: &str| {
        rest.split(|it: char| !it.is_alphanumeric() && it != '_').next().map(str::to_owned)
    };
    named.filter_map(|(at, rest)| Some((at, name(rest)?))).collect()
}

#[test]
fn each_room_of_the_rules_imports_only_rooms_before_it() {
    let rooms = rooms();
    let level = |room: &str| rooms.iter().position(|it| it == room);
    let mut wrong = Vec::new();
    for path in files(&sources()) {
        let inside = path.strip_prefix(sources()).unwrap();
        let room = inside.iter().next().unwrap().to_string_lossy();
        let room = room.trim_end_matches(".rs");
        if room == "lib" {
            continue;
        }
        let Some(own) = level(room) else {
            wrong.push(format!("{room} is not in the table of rooms in lib.rs"));
            continue;
        };
        for (line, used) in imports(&fs::read_to_string(&path).unwrap()) {
            if level(&used).is_some_and(|level| level > own) {
                wrong.push(format!(
                    "{}:{line}: {room} imports {used}, which comes after it",
                    inside.display()
                ));
            }
        }
    }
    assert!(rooms.len() > 10, "the table of rooms in lib.rs is not read");
    assert!(
        wrong.is_empty(),
        "a room imports only those before it in the table of lib.rs:\n{}",
        wrong.join("\n")
    );
}
