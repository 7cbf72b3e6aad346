//! A queue configuration, whoever wrote it: read or refused, with nothing else about it.
//!
//! # What must hold, whatever is fed
//! * Nothing panics, and the same text is answered the same way again.
//! * What is refused has a reason, told in at most 200 faults of a line each; of warnings there are no
//!   more either. What is accepted has queues whose paths are as every other
//!   part relies on: lower case, below their parent, each once in its partition.
//! * No queue may be promised more than it may use.

use std::collections::BTreeSet;

use monoceros_actors::config;
use monoceros_actors::config::QueueConfig;

/// Faults of one text that are told.
const TOLD: usize = 200;

/// The longest message, characters, with what shows that it was cut.
const MESSAGE: usize = 2_100;

/// Reads a text, if it is one.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let answer = config::parse(text);
    assert_eq!(config::parse(text), answer, "the same text, another answer");
    match answer {
        Err(refusal) => {
            assert!((1..=TOLD).contains(&refusal.told.len()));
            for fault in refusal.told {
                check_line(&fault.message, &fault.path, data.len());
                assert!(!fault.to_string().contains('\n'), "{fault}");
            }
        }
        Ok(configuration) => {
            assert!(configuration.warnings.len() <= TOLD + 1, "the last one says how many more");
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

/// What is said of a place in a text of so many bytes.
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
        assert!(max.allows(guaranteed), "`{path}` is promised more than it may use");
    }
    assert!(queue.children.is_empty() || !queue.is_leaf, "`{path}` is a leaf with queues");
    for child in &queue.children {
        assert_eq!(child.path.rsplit_once('.').map(|(parent, _)| parent), Some(path));
        check(child, seen);
    }
}
