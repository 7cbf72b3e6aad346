//! The outcome of each item of a message in the translation, for fuzz targets and property tests:
//! `docs/fuzzing.md`. Not part of the embedding API.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::rejection::Ignored;
use monoceros_rules::values::resources::NameHolder;

use super::answers::{self, Listener};
use super::translate::{CHUNK, Intake, Translated, Translator};
use crate::api::callback::ResourceManagerCallback;
use crate::api::users::{GroupAnswers, Resolvers, Users};
use crate::clock::Clock;
use crate::events::{EventLog, EventSettings};
use crate::partition::{Entry, Input, Request};
use crate::session::{Notice, gather};
use crate::step::{Op, Which};

/// The list of a message that holds an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// `allocations`
    Allocations,
    /// `asks`
    Asks,
    /// `allocation_asks_to_release`
    AskReleases,
    /// `allocations_to_release`
    Releases,
    /// `new` applications
    Applications,
    /// `remove`
    Removals,
    /// `nodes`
    Nodes,
}

/// An item of a message, by its name; empty if the RM gave it none.
pub type Item = (List, String);

/// The outcomes of the items of one message.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Items that a partition gets.
    pub taken: Vec<Item>,
    /// Items that are refused, with the reasons for the RM.
    pub refused: Vec<(Item, String)>,
    /// The reasons why the other items have no effect, and of releases that are accepted although
    /// their type is not defined.
    pub ignored: Vec<Ignored>,
}

/// The translation of one RM's messages, without a session.
pub struct Translation(Translator);

impl Translation {
    /// Builds the translation of an RM with these partitions, with the default bounds.
    pub fn new(rm: &str, partitions: &[&str]) -> Self {
        let intake = Intake::default();
        let names = Arc::new(NameHolder::new(intake.resource_names));
        let events = EventSettings { ring_capacity: NonZeroUsize::MIN, ..EventSettings::default() };
        let tracking = EventLog::new(events).tracking();
        let mut translator =
            Translator::new(&Arc::from(rm), intake, names, Clock::new(0), tracking);
        let users = Users::new(&Resolvers::default());
        for partition in partitions {
            let name = format!("[{rm}]{partition}");
            let of_partition = users.of(&name, "");
            translator.partitions.open(Arc::from(name), of_partition);
        }
        Self(translator)
    }

    /// From now on, releases with types that are not defined are ignored.
    pub fn be_strict(&mut self) {
        self.0.strict_enums = true;
    }

    /// Translates a request for asks, allocations and releases.
    pub fn allocations(&mut self, request: si::AllocationRequest) -> Outcomes {
        Outcomes::of(self.0.allocations(request))
    }

    /// Translates a request for applications.
    pub fn applications(&mut self, request: si::ApplicationRequest) -> Outcomes {
        Outcomes::of(self.0.applications(request, &GroupAnswers::default()))
    }

    /// Translates a request for nodes.
    pub fn nodes(&mut self, request: si::NodeRequest) -> Outcomes {
        Outcomes::of(self.0.nodes(request))
    }
}

impl Outcomes {
    /// # Panics
    /// If a chunk is larger than it may be, or empty.
    fn of(translated: Translated) -> Self {
        let mut outcomes = Self::default();
        outcomes.answer("", translated.refused);
        for (partition, chunk) in translated.chunks {
            let items: usize = chunk.iter().map(Entry::items).sum();
            assert!((1..=CHUNK).contains(&items), "a chunk of {items} items");
            for entry in chunk {
                outcomes.enter(&partition, entry);
            }
        }
        outcomes
    }

    /// Records the outcomes of an entry for a partition.
    fn enter(&mut self, partition: &str, entry: Entry) {
        let Entry::Input(Input::Request(request)) = entry else {
            panic!("a message becomes requests");
        };
        let (list, name) = match request {
            Request::Refused(item) => return self.answer(partition, vec![Notice::from(*item)]),
            Request::Application { ops, .. } => {
                self.taken.extend(ops.iter().map(item));
                return;
            }
            Request::AddApplication(new) => (List::Applications, new.id),
            Request::RemoveApplication(id) => (List::Removals, id),
            Request::CreateNode(new) => (List::Nodes, new.id),
            Request::ChangeNode { id, .. } | Request::RemoveNode(id) => (List::Nodes, id),
            Request::Foreign(foreign) => (List::Allocations, foreign.report.key),
            Request::ForeignGone(key) => (List::Releases, key),
        };
        self.taken.push((list, name.to_string()));
    }

    /// Records the outcomes in notices for the RM.
    fn answer(&mut self, partition: &str, notices: Vec<Notice>) {
        let notices = gather(notices, true, &mut Vec::new());
        for notice in &notices {
            if let Notice::Ignored(reason) = notice {
                self.ignored.push(*reason);
            }
        }
        let refusals = Refusals::default();
        answers::deliver(Listener::new("", &refusals, partition), notices);
        self.refused.extend(refusals.0.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
}

fn item(op: &Op) -> Item {
    let (list, name) = match op {
        Op::Ask(spec) => (List::Asks, Some(&spec.key)),
        Op::Unified(spec) => (List::Allocations, Some(&spec.key)),
        Op::Existing(existing) => (List::Allocations, Some(&existing.spec.key)),
        Op::WithdrawAsks(key) => (List::AskReleases, key.as_ref()),
        Op::Release { which: Which::Key(name) | Which::Uuid(name), .. } => {
            (List::Releases, Some(name))
        }
        Op::Release { which: Which::All, .. } => (List::Releases, None),
        other => panic!("no message says {other:?}"),
    };
    (list, name.map(ToString::to_string).unwrap_or_default())
}

/// A callback that records refusals.
#[derive(Default)]
struct Refusals(Mutex<Vec<(Item, String)>>);

impl Refusals {
    fn add(&self, list: List, refused: impl IntoIterator<Item = (String, String)>) {
        let refused = refused.into_iter().map(|(name, reason)| ((list, name), reason));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(refused);
    }
}

impl ResourceManagerCallback for Refusals {
    fn update_allocation(&self, response: si::AllocationResponse) {
        let asks = response.rejected.into_iter();
        self.add(List::Asks, asks.map(|it| (it.allocation_key, it.reason)));
        let allocations = response.rejected_allocations.into_iter();
        self.add(List::Allocations, allocations.map(|it| (it.allocation_key, it.reason)));
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        let applications = response.rejected.into_iter();
        self.add(List::Applications, applications.map(|it| (it.application_id, it.reason)));
    }

    fn update_node(&self, response: si::NodeResponse) {
        let nodes = response.rejected.into_iter();
        self.add(List::Nodes, nodes.map(|it| (it.node_id, it.reason)));
    }
}
