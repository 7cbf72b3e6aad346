//! Short names of nodes on the callback streams of one session.
//!
//! A batch names hundreds of nodes, most of which the batch before named too, and node ids are
//! long. Each id is sent once with an index; questions name the index.
//!
//! # Invariant
//! An index names one node until the dictionary is [reset](Dictionary::reset), as at the beginning
//! of every stream.
//!
//! # Removal of nodes
//! An RM removes a node before the scheduler knows, and questions about it may still follow. So the
//! node keeps its index until no question has named it for [`PAUSE`], which is longer than any
//! question may be in flight.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::v1 as cb;
use tokio::time::Instant;

/// The nodes named by the scheduler, by id and index.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    version: u64,
    indexes: HashMap<Arc<str>, u32>,
    next: u32,
    added: Vec<cb::NodeDictEntry>,
    removed: Vec<u32>,
    /// Nodes being removed, and whether each was named since the last sweep.
    removing: HashMap<Arc<str>, bool>,
    /// The time of the next sweep.
    sweep: Option<Instant>,
}

/// The interval between two sweeps.
const PAUSE: Duration = Duration::from_secs(60);

/// Maximum size of an entry without its node id.
const ENTRY_OVERHEAD_BYTES: usize = 20;

impl Dictionary {
    /// The version after all [updates](Self::updates) were sent.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The index of a node; assigned if it has none.
    pub(super) fn index(&mut self, node: &str) -> u32 {
        if let Some(&index) = self.indexes.get(node) {
            if let Some(was_named) = self.removing.get_mut(node) {
                *was_named = true;
            }
            return index;
        }
        let index = self.next;
        self.next += 1;
        self.indexes.insert(node.into(), index);
        self.added.push(cb::NodeDictEntry { index, node_id: node.to_owned() });
        index
    }

    /// Marks a node as being removed.
    pub(super) fn mark_removed(&mut self, now: Instant, node: &str) {
        if let Some((name, _)) = self.indexes.get_key_value(node) {
            self.removing.insert(Arc::clone(name), true);
            self.sweep.get_or_insert(now + PAUSE);
        }
    }

    /// Cancels the removal of a node.
    pub(super) fn keep(&mut self, node: &str) {
        self.removing.remove(node);
    }

    /// Removes nodes that were not named since the last sweep. A node that is added again gets
    /// another index.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.sweep.is_none_or(|due| now < due) {
            return;
        }
        let Self { indexes, added, removed, .. } = self;
        self.removing.retain(|node, was_named| {
            if std::mem::take(was_named) {
                return true;
            }
            if let Some(index) = indexes.remove(node) {
                added.retain(|entry| entry.index != index);
                removed.push(index);
            }
            false
        });
        removed.sort_unstable();
        self.sweep = (!self.removing.is_empty()).then_some(now + PAUSE);
    }

    /// The messages that a shim needs to read recently assigned indexes.
    pub(super) fn updates(&mut self, max_bytes: usize) -> Vec<cb::NodeDictionary> {
        if self.added.is_empty() && self.removed.is_empty() {
            return Vec::new();
        }
        let remove = std::mem::take(&mut self.removed);
        self.messages(false, remove, max_bytes)
    }

    /// The whole dictionary, for a new stream.
    pub(super) fn reset(&mut self, max_bytes: usize) -> Vec<cb::NodeDictionary> {
        let mut entries: Vec<_> = self
            .indexes
            .iter()
            .map(|(node, &index)| cb::NodeDictEntry { index, node_id: node.to_string() })
            .collect();
        entries.sort_by_key(|entry| entry.index);
        self.added = entries;
        self.removed.clear();
        self.messages(true, Vec::new(), max_bytes)
    }

    fn messages(
        &mut self,
        reset: bool,
        remove: Vec<u32>,
        max_bytes: usize,
    ) -> Vec<cb::NodeDictionary> {
        let mut messages = Vec::new();
        let mut last = cb::NodeDictionary { reset, remove, ..Default::default() };
        let mut bytes = 0;
        for entry in std::mem::take(&mut self.added) {
            let size = entry.node_id.len() + ENTRY_OVERHEAD_BYTES;
            if bytes > 0 && bytes + size > max_bytes {
                messages.push(std::mem::take(&mut last));
                bytes = 0;
            }
            bytes += size;
            last.add.push(entry);
        }
        messages.push(last);
        for message in &mut messages {
            self.version += 1;
            message.dict_version = self.version;
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes `n1` for good.
    fn removed(dictionary: &mut Dictionary, now: Instant) {
        dictionary.mark_removed(now, "n1");
        dictionary.sweep(now + PAUSE);
        dictionary.sweep(now + 2 * PAUSE);
    }

    fn entries(message: &cb::NodeDictionary) -> Vec<(u32, &str)> {
        message.add.iter().map(|entry| (entry.index, &*entry.node_id)).collect()
    }

    #[test]
    fn node_is_sent_once_and_keeps_its_index() {
        let mut dictionary = Dictionary::default();
        assert_eq!(
            (dictionary.index("n1"), dictionary.index("n2"), dictionary.index("n1")),
            (0, 1, 0)
        );
        let updates = dictionary.updates(1_000);
        assert_eq!(entries(&updates[0]), [(0, "n1"), (1, "n2")]);
        assert_eq!(updates[0].dict_version, dictionary.version());
        assert!(dictionary.updates(1_000).is_empty());
    }

    #[test]
    fn indexes_are_never_reused() {
        let mut dictionary = Dictionary::default();
        dictionary.index("n1");
        dictionary.updates(1_000);
        removed(&mut dictionary, Instant::now());
        assert_eq!(dictionary.index("n1"), 1);
        let updates = dictionary.updates(1_000);
        assert_eq!((&*updates[0].remove, entries(&updates[0])), (&[0][..], vec![(1, "n1")]));
        let reset = dictionary.reset(1_000);
        assert!(reset[0].reset);
        assert_eq!(entries(&reset[0]), [(1, "n1")]);
    }

    #[test]
    fn removed_node_keeps_its_index_while_named() {
        let mut dictionary = Dictionary::default();
        dictionary.index("n1");
        dictionary.index("n2");
        dictionary.updates(1_000);
        let mut now = Instant::now();
        dictionary.mark_removed(now, "n1");
        dictionary.mark_removed(now, "n2");
        dictionary.mark_removed(now, "unheard of");
        dictionary.keep("n2");
        for _ in 0..3 {
            // A question that was in flight.
            assert_eq!(dictionary.index("n1"), 0);
            now += PAUSE;
            dictionary.sweep(now);
            assert!(dictionary.updates(1_000).is_empty());
        }
        dictionary.sweep(now + PAUSE / 2);
        assert!(dictionary.updates(1_000).is_empty(), "not yet");
        dictionary.sweep(now + PAUSE);
        assert_eq!(dictionary.updates(1_000)[0].remove, [0]);
        assert!(dictionary.removing.is_empty() && dictionary.sweep.is_none());
        assert_eq!(entries(&dictionary.reset(1_000)[0]), [(1, "n2")]);
    }

    #[test]
    fn only_the_first_part_of_a_dictionary_resets() {
        let mut dictionary = Dictionary::default();
        (0..10).for_each(|number| _ = dictionary.index(&format!("node-{number}")));
        let pieces = dictionary.reset(100);
        assert!(pieces.len() > 2);
        assert!(pieces[0].reset && pieces[1..].iter().all(|piece| !piece.reset));
        assert_eq!(pieces.iter().map(|piece| piece.add.len()).sum::<usize>(), 10);
        assert_eq!(pieces.last().unwrap().dict_version, dictionary.version());
    }
}
