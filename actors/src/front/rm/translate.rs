//! The interface's messages as requests: everything that can be said of an item without looking at
//! the partition is said here, so that its thread has only what is valid.
//!
//! Items of one message that concern one application are one visit, up to a chunk's size, in the
//! order `allocations`, `asks`, ask releases, allocation releases
//! (`docs/applications.md#order-of-the-items-of-a-message`).

mod allocations;
mod applications;
mod nodes;
mod task_groups;

use std::sync::Arc;

use monoceros_config as config;
use monoceros_rules::work::rejection::Ignored;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::Rm;
use super::intake::CHUNK;
use crate::partition::{Entry, Input, LocalErrand, RefusedItem, Reports, Request};
use crate::step::{Barrier, Notice, Op};

/// A message in parts.
pub(super) struct Translated {
    /// The requests for each partition, in order.
    pub(super) chunks: Vec<(Arc<str>, Vec<Entry>)>,
    /// The answers to items that name no partition of this RM; they go out at once.
    pub(super) refused: Vec<Notice>,
}

/// Gathers the requests of one message, grouped by application.
struct Gathering {
    chunks: Vec<(Arc<str>, Vec<Entry>)>,
    /// The chunk under construction of each partition, and where its applications are in it.
    open: Vec<(Arc<str>, Open)>,
    refused: Vec<Notice>,
    /// The partition that the last item named: the next one mostly names it, too.
    last: Option<(String, Arc<str>)>,
}

#[derive(Default)]
struct Open {
    entries: Vec<Entry>,
    items: usize,
    applications: FxHashMap<Arc<str>, usize>,
}

impl Gathering {
    fn new() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), refused: Vec::new(), last: None }
    }

    fn op(&mut self, partition: &Arc<str>, id: Arc<str>, op: Op) {
        let open = self.open(partition);
        open.items += 1;
        if let Some(at) = open.applications.get(&id)
            && let Entry::Input(Input::Request(Request::Application { ops, .. })) =
                &mut open.entries[*at]
        {
            ops.push(op);
            return;
        }
        open.applications.insert(Arc::clone(&id), open.entries.len());
        open.entries.push(Request::Application { id, ops: vec![op] }.into());
    }

    fn request(&mut self, partition: &Arc<str>, request: Request) {
        let open = self.open(partition);
        open.items += 1;
        open.entries.push(request.into());
    }

    fn refuse(&mut self, item: RefusedItem) {
        self.refused.push(item.into());
    }

    fn ignore(&mut self, reason: Ignored) {
        self.refused.push(Notice::Ignored(reason));
    }

    fn open(&mut self, partition: &Arc<str>) -> &mut Open {
        let known = self.open.iter().position(|(name, _)| name == partition);
        let at = known.unwrap_or_else(|| {
            self.open.push((Arc::clone(partition), Open::default()));
            self.open.len() - 1
        });
        let open = &mut self.open[at].1;
        if open.items >= CHUNK {
            let full = std::mem::take(open);
            self.chunks.push((Arc::clone(partition), full.entries));
        }
        open
    }

    fn done(mut self) -> Translated {
        for (partition, open) in self.open {
            if !open.entries.is_empty() {
                self.chunks.push((partition, open.entries));
            }
        }
        Translated { chunks: self.chunks, refused: self.refused }
    }
}

impl Rm {
    /// The full name of the partition that a request names; `None`: this RM has none of that name.
    fn partition(&self, name: &str, gathering: &mut Gathering) -> Option<Arc<str>> {
        if let Some((last, partition)) = &gathering.last
            && last == name
        {
            return Some(Arc::clone(partition));
        }
        let partition: Arc<str> = Arc::from(self.partition_named(name)?);
        gathering.last = Some((name.to_owned(), Arc::clone(&partition)));
        Some(partition)
    }

    /// As [`Self::partition`], without remembering it.
    pub(super) fn partition_named(&self, name: &str) -> Option<String> {
        config::qualified_name(name, &self.id).ok().filter(|full| self.is_partition(full))
    }

    /// Sends a barrier to every partition; the reply comes when the last has passed it on.
    pub(super) fn translate_barrier(&self, reply: oneshot::Sender<()>) -> Translated {
        let barrier = Arc::new(Barrier::new(reply, self.mailbox.destination()));
        self.for_each_partition(|| LocalErrand::Barrier(Arc::clone(&barrier)))
    }

    /// Sends reports to every partition, since each of them may know what was measured.
    pub(super) fn translate_reports(&self, reports: Reports) -> Translated {
        let reports = Arc::new(reports);
        self.for_each_partition(|| LocalErrand::Observe(Arc::clone(&reports)))
    }

    fn for_each_partition(&self, errand: impl Fn() -> LocalErrand) -> Translated {
        let chunk = |name: &Arc<str>| (Arc::clone(name), vec![Entry::Errand(errand())]);
        Translated { chunks: self.partitions.keys().map(chunk).collect(), refused: Vec::new() }
    }
}
