//! Target for queue configurations: any text is either accepted or rejected.
//!
//! # Properties for every input
//! * Nothing panics, and the same text gives the same result again.
//! * A rejection has a reason, listed in at most 200 errors of one line each; warnings have the
//!   same bound. Queues of an accepted text have valid paths: lower case, below their parent,
//!   unique in the partition.
//! * No queue has a guarantee above its maximum.

use std::collections::BTreeSet;

use monoceros_actors::config;
use monoceros_actors::config::QueueConfig;

/// Most errors that one text lists.
const MOST_LISTED: usize = 200;

/// Longest message in characters, including the mark that it was cut.
const MESSAGE: usize = 2_100;

/// Reads the bytes as a configuration, if they are a text.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let answer = config::parse(text);
    assert_eq!(config::parse(text), answer, "the same text, another answer");
    match answer {
        Err(refusal) => {
            assert!((1..=MOST_LISTED).contains(&refusal.reported.len()));
            for fault in refusal.reported {
                check_line(&fault.message, &fault.path, data.len());
                assert!(!fault.to_string().contains('\n'), "{fault}");
            }
        }
        Ok(configuration) => {
            assert!(
                configuration.warnings.len() <= MOST_LISTED + 1,
                "the last one says how many more"
            );
            for warning in &configuration.warnings {
                check_line(&warning.message, &warning.path, data.len());
            }
            for partition in &configuration.partitions {
                assert_eq!(&*partition.root.path, "root");
                check(&partition.root, &mut BTreeSet::new());
            }
        }
    }
}

/// Checks the position in a message, for a text of this many bytes.
fn check_line(message: &str, path: &str, bytes: usize) {
    assert!(!message.is_empty() && message.chars().count() <= MESSAGE, "{message}");
    assert!(!message.contains('\n'), "{message}");
    assert!(path.len() <= bytes + 1_024, "{} bytes of a path", path.len());
}

fn check<'a>(queue: &'a QueueConfig, seen: &mut BTreeSet<&'a str>) {
    let path = &*queue.path;
    assert!(seen.insert(path), "`{path}` is there twice");
    assert_eq!(path, path.to_lowercase());
    if let (Some(max), Some(guaranteed)) = (&queue.max, &queue.guaranteed) {
        assert!(max.allows(guaranteed), "`{path}` is guaranteed more than it may use");
    }
    assert!(queue.children.is_empty() || !queue.is_leaf, "`{path}` is a leaf with queues");
    for child in &queue.children {
        assert_eq!(child.path.rsplit_once('.').map(|(parent, _)| parent), Some(path));
        check(child, seen);
    }
}
