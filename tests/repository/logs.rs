//! Log lines that one resource manager causes name it, so that the rate limit only drops its own
//! lines (`docs/operations.md`, How many lines).

use std::fs;
use std::path::{Path, PathBuf};

/// Log lines about no manager, here that the process has no thread left.
const OF_NOBODY: [&str; 1] = ["no thread for partitions"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Threads of partitions add the resource manager to their lines.
#[test]
fn log_lines_name_their_resource_manager() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("actors/src");
    let mut files = Vec::new();
    for folder in ["front", "api"] {
        sources(&root.join(folder), &mut files);
    }
    let (mut n_lines, mut nameless) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for level in ["info!(", "warn!(", "error!("] {
            for (at, _) in text.match_indices(level) {
                let line = &text[at..];
                let line = &line[..line.find(");").unwrap()];
                n_lines += 1;
                let says = ["rm,", "rm ="].iter().any(|field| line.contains(field));
                if !says && !OF_NOBODY.iter().any(|text| line.contains(text)) {
                    nameless.push(format!("{}: {line}", file.display()));
                }
            }
        }
    }
    assert!(n_lines > 15, "{n_lines}");
    assert!(nameless.is_empty(), "{nameless:#?}");
}
