//! The baton: the boxed message as which a step travels from actor to actor. It owns the books.
//!
//! State of a partition is written only with the baton in hand, so two steps cannot overlap; the
//! compiler checks this, without a lock and without an await. Values that several handlers on the
//! way need are fields here; a value for one actor only is [`Mail`].
//!
//! # When things go wrong
//! A baton that is lost (a panic in a handler, a dead mailbox) drops its [`Guard`], which reports the loss
//! to the Rm: the books are gone with it, so the partition is stopped and its RM is asked to resync.
//! A partition that closes in order disarms the guard first.

use std::sync::Arc;

use monoceros_proto::si::v1::PredicatesArgs;
use monoceros_rules::asks::failed_starts::StartRetry;
use monoceros_rules::books::Books;
use monoceros_rules::decide::reservations::Patience;
use monoceros_rules::decisions::Decisions;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::Resources;

use super::baton_address::BatonAddress;
use super::directory::Directory;
use super::effects::StepEffects;
use super::imaging::Imaging;
use super::offer::Offering;
use super::visit::Gathered;
use crate::api::callback::ResourceManagerCallback;
use crate::api::predicates::AnswerSink;
use crate::application::ApplicationMail;
use crate::clock::Clock;
use crate::events::{Event, Tracking};
use crate::metrics::ActorKind;
use crate::node::NodeMail;
use crate::partition::{Home, Partition};
use crate::queue::QueueMail;
use crate::run_times::MeasuredRuns;
use crate::session::{Notice, PartitionLost, SessionLink};
use crate::tally::Tally;

/// The state that a step carries from actor to actor.
pub(crate) struct Baton {
    /// The facts that several actors must agree on.
    pub(crate) books: Books,
    /// The addresses of all actors of the partition.
    pub(crate) directory: Directory,
    /// The time of this step, ns since the epoch.
    pub(crate) now_ns: i64,
    /// The offer under way. Between two offers it has the values of the last one.
    pub(crate) offer: Offering,
    /// Changes of visits that have still to climb the queues.
    pub(crate) gathered: Gathered,
    /// The effects of the step, carried out once it is home.
    pub(crate) effects: StepEffects,
    pub(crate) settings: StepSettings,
    pub(crate) services: Services,
    pub(crate) tally: Tally,
    /// The records of the last decisions.
    pub(crate) decisions: Decisions,
    /// How long allocations ran.
    pub(crate) run_times: MeasuredRuns,
    /// The image under way.
    pub(crate) imaging: Imaging,
    pub(crate) mail: Mail,
    pub(crate) guard: Guard,
}

/// Settings of the partition that handlers read.
pub(crate) struct StepSettings {
    /// When nodes may be reserved, and for how long.
    pub(crate) patience: Patience,
    /// The back-off of requests whose start failed.
    pub(crate) start_retry: StartRetry,
    /// Whether asks preempt others.
    pub(crate) preempts: bool,
    /// Whether events are recorded.
    pub(crate) tracking: Tracking,
}

/// Services that a step can call.
pub(crate) struct Services {
    /// The clock; used only to measure decision times. All else uses the time of the step
    /// ([`Baton::now_ns`]).
    pub(crate) clock: Clock,
    /// The RM's predicates, preferences and assumptions.
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    /// Takes the RM's answers to questions about placements.
    pub(crate) answers: AnswerSink,
    /// The arguments of a predicate question. One message is reused for all questions, to spare
    /// heap allocations.
    pub(crate) question: PredicatesArgs,
    /// The address of the partition.
    pub(crate) home: Arc<BatonAddress<Partition>>,
}

/// Mail for the actor that the baton goes to next: at most one field is `Some`, and that actor
/// takes it.
#[derive(Default)]
pub(crate) struct Mail {
    pub(crate) node: Option<NodeMail>,
    pub(crate) application: Option<ApplicationMail>,
    pub(crate) queue: Option<QueueMail>,
    pub(crate) partition: Option<Home>,
}

/// Reports to the Rm that the baton was dropped before the partition closed.
pub(crate) struct Guard {
    pub(crate) session: SessionLink,
    pub(crate) partition: Arc<str>,
    pub(crate) armed: bool,
}

/// A baton that is dropped before the partition closed ends all actors of the partition; its guard
/// then reports the loss.
impl Drop for Baton {
    fn drop(&mut self) {
        if self.guard.armed {
            self.directory.halt_all();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.session.lost.post(PartitionLost { partition: Arc::clone(&self.partition) });
        }
    }
}

impl Baton {
    /// Charges a placement to every queue on the path of the offer.
    pub(crate) fn charge(&mut self, resources: &Resources) {
        self.offer.charge(resources);
        let queues = &mut self.books.queues;
        let mut is_used_up = false;
        for frame in &self.offer.frames {
            is_used_up |= queues.charge(frame.facts.slot.0, resources);
        }
        if is_used_up {
            self.books.nodes.note_lending();
        }
    }

    /// Returns this amount to every queue on the path of the offer.
    pub(crate) fn give_back(&mut self, resources: &Resources, loosening: Loosening) {
        self.offer.give_back(resources, loosening);
        for frame in &self.offer.frames {
            self.books.queues.give_back(frame.facts.slot.0, resources);
        }
    }

    /// Records an event, if events are recorded. The event gets the time of the step.
    pub(crate) fn happens(&mut self, event: impl FnOnce(i64) -> Event) {
        if self.settings.tracking.is_on() {
            self.effects.notify(Notice::Happened(event(self.now_ns).into()));
        }
    }

    pub(crate) fn go_home(mut self: Box<Self>) {
        self.homeward().hand(self, Home);
    }

    /// Returns the address of the partition. Counts the message as which the baton goes home.
    pub(crate) fn homeward(&mut self) -> Arc<BatonAddress<Partition>> {
        self.tally.post(ActorKind::Partition);
        Arc::clone(&self.services.home)
    }
}
