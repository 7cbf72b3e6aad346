//! Translation of the interface's messages to requests for partitions. Every check of an item that does
//! not need the state of the partition is made here, so that the partition's thread gets valid items
//! only.
//!
//! Items of one message for one application become one visit, up to the size of a chunk, in the order
//! `allocations`, `asks`, ask releases, allocation releases
//! (`docs/applications.md#order-of-the-items-of-a-message`).
//!
//! # Why apart from the session
//! A [`Translator`] has everything that is needed to check a message and knows no actor, so tests and
//! fuzz targets translate without a scheduler. The session passes the result on.
//!
//! # Invariant
//! Each item has one outcome: it is passed to its partition, it is refused by name, or it is ignored
//! and counted. The exception is a release of an ask that confirms a timeout: nothing is to be done.
//!
//! Reading order: `addressees`, `checks`, `allocations` with `constraints`, `applications` with
//! `task_groups`, `nodes`.

mod addressees;
mod allocations;
mod applications;
mod checks;
mod constraints;
mod nodes;
mod task_groups;

use std::cell::RefCell;
use std::sync::Arc;

use monoceros_rules::specs::rejection::Ignored;
use monoceros_rules::values::hashing::SeededMap;
use monoceros_rules::values::resources::{NameHolder, SharedAmounts};
use smallvec::SmallVec;

pub(crate) use self::checks::{Intake, measured};

use self::addressees::Addressees;
use crate::clock::Clock;
use crate::events::Tracking;
use crate::partition::{Entry, Input, RefusedItem, Request};
use crate::session::Notice;
use crate::step::Op;

/// The most items of one chunk.
pub(crate) const CHUNK: usize = 256;

/// Translates the messages of one RM.
pub(in crate::front) struct Translator {
    rm: Arc<str>,
    /// The partitions of the RM.
    pub(in crate::front) partitions: Addressees,
    /// Whether releases with types that are not defined are ignored; otherwise they count as
    /// stopped by the RM.
    pub(in crate::front) strict_enums: bool,
    intake: Intake,
    /// The resource types that the RM uses.
    names: Arc<NameHolder>,
    /// Recent amounts of asks, shared by small messages. A large message has amounts of its own.
    sizes: RefCell<SharedAmounts>,
    clock: Clock,
    tracking: Tracking,
}

/// A translated message.
pub(in crate::front) struct Translated {
    /// The requests for each partition, in order.
    pub(in crate::front) chunks: Chunks,
    /// The answers to items that name no partition of this RM, to be delivered at once.
    pub(in crate::front) refused: Vec<Notice>,
}

/// Chunks of requests, each with its partition. Usually there is one.
pub(in crate::front) type Chunks = SmallVec<[(Arc<str>, Vec<Entry>); 1]>;

/// Gathers the requests of one message, grouped by application.
struct Gathering {
    chunks: Chunks,
    /// The chunk under construction for each partition.
    open: SmallVec<[(Arc<str>, Open); 1]>,
    refused: Vec<Notice>,
    /// The partition of the last item, by the name in the item: the next item usually has the same.
    last: Option<(String, Arc<str>)>,
    /// The application of the last item: neighbours usually have the same.
    last_application: Option<Arc<str>>,
}

/// A chunk under construction.
#[derive(Default)]
struct Open {
    entries: Vec<Entry>,
    items: usize,
    /// The entry of each application except the last one.
    applications: SeededMap<Arc<str>, usize>,
    /// The application of the last item, and its entry.
    last: Option<(Arc<str>, usize)>,
}

impl Gathering {
    fn new() -> Self {
        Self {
            chunks: Chunks::new(),
            open: SmallVec::new(),
            refused: Vec::new(),
            last: None,
            last_application: None,
        }
    }

    fn op(&mut self, partition: &Arc<str>, id: Arc<str>, op: Op) {
        let open = self.open(partition);
        open.items += 1;
        let known = match &open.last {
            Some((last, at)) if *last == id => Some(*at),
            _ => {
                open.applications.extend(open.last.take());
                open.applications.get(&id).copied()
            }
        };
        let at = known.unwrap_or(open.entries.len());
        open.last = Some((Arc::clone(&id), at));
        if let Some(at) = known
            && let Entry::Input(Input::Request(Request::Application { ops, .. })) =
                &mut open.entries[at]
        {
            ops.push(op);
            return;
        }
        open.entries.push(Request::Application { id, ops: vec![op] }.into());
    }

    /// The id of an application, shared with the previous item if that has the same.
    fn application(&mut self, id: &str) -> Arc<str> {
        match &self.last_application {
            Some(last) if **last == *id => Arc::clone(last),
            _ => Arc::clone(self.last_application.insert(Arc::from(id))),
        }
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
            // A message that fills a chunk probably fills the next one as well.
            let next = Vec::with_capacity(open.entries.len());
            let entries = std::mem::replace(&mut open.entries, next);
            self.chunks.push((Arc::clone(partition), entries));
            (open.items, open.last) = (0, None);
            open.applications.clear();
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

impl Translator {
    /// Builds the translator of an RM without partitions.
    pub(in crate::front) fn new(
        rm: &Arc<str>,
        intake: Intake,
        names: Arc<NameHolder>,
        clock: Clock,
        tracking: Tracking,
    ) -> Self {
        let partitions = Addressees::default();
        let rm = Arc::clone(rm);
        let (strict_enums, sizes) = (false, RefCell::default());
        Self { rm, partitions, strict_enums, intake, names, sizes, clock, tracking }
    }

    /// The full name of the partition that an item names; `None`: this RM has none of that name.
    fn partition(&self, name: &str, gathering: &mut Gathering) -> Option<Arc<str>> {
        if let Some((last, partition)) = &gathering.last
            && last == name
        {
            return Some(Arc::clone(partition));
        }
        let partition = Arc::clone(self.partitions.find(name)?);
        gathering.last = Some((name.to_owned(), Arc::clone(&partition)));
        Some(partition)
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use monoceros_rules::specs::rejection::Rejection;
    use monoceros_rules::values::resources::Resources;

    use super::*;
    use crate::api::users::{GroupAnswers, Resolvers, Users};
    use crate::events::{EventLog, EventSettings};

    fn translator(partitions: &[&str]) -> Translator {
        let tracking = EventLog::new(EventSettings::default()).tracking();
        let (intake, names) = (Intake::default(), Arc::new(NameHolder::default()));
        let mut translator =
            Translator::new(&Arc::from("rm"), intake, names, Clock::new(0), tracking);
        let users = Users::new(&Resolvers::default());
        for partition in partitions {
            translator.partitions.open(Arc::from(*partition), users.of(partition, ""));
        }
        translator
    }

    fn application(id: &str, partition: &str) -> si::AddApplicationRequest {
        let user = "ada".to_owned();
        si::AddApplicationRequest {
            application_id: id.to_owned(),
            partition_name: partition.to_owned(),
            ugi: Some(si::UserGroupInformation { user, groups: vec![] }),
            ..Default::default()
        }
    }

    fn removal(id: &str, partition: &str) -> si::RemoveApplicationRequest {
        let (application_id, partition_name) = (id.to_owned(), partition.to_owned());
        si::RemoveApplicationRequest { application_id, partition_name }
    }

    fn applications(translator: &mut Translator, partition: &str) -> Translated {
        let request = si::ApplicationRequest {
            new: vec![application("app", partition)],
            remove: vec![removal("app", partition)],
            ..Default::default()
        };
        translator.applications(request, &GroupAnswers::default())
    }

    #[test]
    fn items_without_a_known_partition_are_refused() {
        let mut translator = translator(&["[rm]default", "[rm]gpu"]);
        for (named, full) in [("", "[rm]default"), ("gpu", "[rm]gpu"), ("[rm]gpu", "[rm]gpu")] {
            let Translated { chunks, refused } = applications(&mut translator, named);
            let [(partition, entries)] = &chunks[..] else { panic!("{named}") };
            assert_eq!((&**partition, entries.len(), refused.len()), (full, 2, 0));
        }
        for unknown in ["cpu", "[other]gpu"] {
            let Translated { chunks, refused } = applications(&mut translator, unknown);
            assert!(chunks.is_empty());
            assert!(matches!(
                &refused[..],
                [
                    Notice::ApplicationRejected { id, reason },
                    Notice::Ignored(Ignored::RemovalOfUnknown),
                ] if **id == *"app" && matches!(**reason, Rejection::PartitionOfApplication { .. })
            ));
        }
    }

    #[test]
    fn items_for_a_lost_partition_are_not_refused() {
        let mut translator = translator(&["[rm]default"]);
        assert!(!translator.partitions.has_lost());
        translator.partitions.lose(Arc::from("[rm]default"));
        assert!(translator.partitions.has_lost() && translator.partitions.is_lost("[rm]default"));
        assert!(applications(&mut translator, "").refused.is_empty());
        translator.partitions.close("[rm]default");
        assert!(!translator.partitions.has_lost());
        assert_eq!(applications(&mut translator, "").refused.len(), 2);
    }

    #[test]
    fn long_message_becomes_full_chunks_and_a_rest() {
        let mut translator = translator(&["[rm]default"]);
        let remove = (0..=(2 * CHUNK)).map(|n| removal(&n.to_string(), "")).collect();
        let request = si::ApplicationRequest { remove, ..Default::default() };
        let chunks = translator.applications(request, &GroupAnswers::default()).chunks;
        let lengths: Vec<usize> = chunks.iter().map(|(_, entries)| entries.len()).collect();
        assert_eq!(lengths, [CHUNK, CHUNK, 1]);
    }

    /// Returns the amounts of a message of this many equal asks.
    fn amounts(translator: &Translator, asks: usize) -> Vec<Arc<Resources>> {
        let ask = |number: usize| si::AllocationAsk {
            allocation_key: number.to_string(),
            application_id: "app".to_owned(),
            max_allocations: 1,
            resource_ask: Some(si::Resource {
                resources: [("vcore".to_owned(), si::Quantity { value: 7 })].into(),
            }),
            ..Default::default()
        };
        let request =
            si::AllocationRequest { asks: (0..asks).map(ask).collect(), ..Default::default() };
        let mut amounts = Vec::new();
        for entry in translator.allocations(request).chunks.into_iter().flat_map(|(_, it)| it) {
            let Entry::Input(Input::Request(Request::Application { ops, .. })) = entry else {
                panic!("asks are for an application")
            };
            amounts.extend(ops.into_iter().map(|op| match op {
                Op::Ask(spec) => Arc::clone(&spec.resources),
                _ => panic!("asks are asks"),
            }));
        }
        assert_eq!(amounts.len(), asks);
        amounts
    }

    #[test]
    fn only_small_messages_share_amounts() {
        let translator = translator(&["[rm]default"]);
        let messages = [1, 63, 64, 64, 1].map(|asks| amounts(&translator, asks));
        for amounts in &messages {
            assert!(amounts.iter().all(|amount| Arc::ptr_eq(amount, &amounts[0])));
        }
        let [small, same, large, other, after] = messages.map(|mut amounts| amounts.remove(0));
        assert!(Arc::ptr_eq(&small, &same));
        for (one, another) in [(&same, &large), (&large, &other), (&other, &after)] {
            assert!(!Arc::ptr_eq(one, another));
            assert_eq!(one, another);
        }
    }
}
