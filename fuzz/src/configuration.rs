//! A queue configuration, whoever wrote it: read or refused, with nothing else about it.
//!
//! # What must hold, whatever is fed
//! * Nothing panics, and the same text is answered the same way again.
//! * What is refused has a reason, and what is accepted has queues whose paths are as every other
//!   part relies on: lower case, below their parent, each once in its partition.
//! * No queue may be promised more than it may use.

use std::collections::BTreeSet;

use monoceros_actors::config;
use monoceros_actors::config::QueueConfig;

/// Reads a text, if it is one.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let answer = config::parse(text);
    assert_eq!(config::parse(text), answer, "the same text, another answer");
    match answer {
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
        Ok(configuration) => {
            for partition in &configuration.partitions {
                assert_eq!(&*partition.root.path, "root");
                check(&partition.root, &mut BTreeSet::new());
            }
        }
    }
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
