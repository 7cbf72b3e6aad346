//! What happened, as it is kept until somebody reads it: an event, or what a step says anyway and
//! stands for several.
//!
//! # Why
//! Each placement is three events or four, and each ask is one. Hardly any of them is ever read, so
//! that to make them would be the dearest part of telling a placement. Kept as what was said, they
//! cost a pointer; an event is made of it for whoever reads it.

use std::borrow::Cow;
use std::sync::Arc;

use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::specs::ask::AskSpec;

use super::{Event, EventKind, Message};
use crate::notices::{Allocated, Entered, Owner};

/// What happened: one event, or several that are one after another.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// This event.
    Event(Arc<Event>),
    /// A placement: the node has it, its user and perhaps its group use more, and the application
    /// has it.
    Placed(Arc<Allocated>),
    /// An ask was added or replaced.
    AskAdded(AskAdded),
    /// An application entered a state.
    Entered(Arc<Entered>),
}

impl Entered {
    fn event(&self) -> Event {
        let Self { application, queue, state, at_ns, message } = self;
        let mut event = Event::of(EventKind::AppState(*state), application, *at_ns).in_queue(queue);
        // The cause, where there is one beside the event of the state machine.
        let has_cause = matches!(state, ApplicationState::Failing | ApplicationState::Resuming);
        if has_cause && *message != ApplicationEvent::Fail.text() {
            event.message = Message::Says(message);
        }
        event
    }
}

/// An ask of an application that was added or replaced.
#[derive(Clone, Debug)]
pub(crate) struct AskAdded {
    pub(crate) owner: Arc<Owner>,
    pub(crate) spec: Arc<AskSpec>,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
}

impl From<Event> for Happening {
    fn from(event: Event) -> Self {
        Self::Event(Arc::new(event))
    }
}

/// The events of a placement, in order.
#[derive(Clone, Copy)]
enum Part {
    OnNode,
    OfUser,
    OfGroup,
    OfApplication,
}

impl Part {
    const WITH_GROUP: [Self; 4] = [Self::OnNode, Self::OfUser, Self::OfGroup, Self::OfApplication];
    const WITHOUT: [Self; 3] = [Self::OnNode, Self::OfUser, Self::OfApplication];

    /// Those of this placement.
    fn of(allocated: &Allocated) -> &'static [Self] {
        if allocated.owner.group.is_some() { &Self::WITH_GROUP } else { &Self::WITHOUT }
    }

    fn kind(self) -> EventKind {
        match self {
            Self::OnNode => EventKind::NodeAllocationAdded,
            Self::OfUser => EventKind::UserCharged,
            Self::OfGroup => EventKind::GroupCharged,
            Self::OfApplication => EventKind::AllocationAdded,
        }
    }
}

impl Happening {
    /// How many events it is.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Event(_) | Self::AskAdded(_) | Self::Entered(_) => 1,
            Self::Placed(allocated) => Part::of(allocated).len(),
        }
    }

    /// One of them, by its place among them.
    pub(super) fn event(&self, part: usize) -> Cow<'_, Event> {
        match self {
            Self::Event(event) => Cow::Borrowed(event),
            Self::Placed(allocated) => Cow::Owned(placed(Part::of(allocated)[part], allocated)),
            Self::AskAdded(added) => {
                let AskAdded { owner, spec, at_ns } = added;
                let event = Event::of(EventKind::AskAdded, &owner.application, *at_ns);
                Cow::Owned(event.in_queue(&owner.queue).asked_for(spec))
            }
            Self::Entered(entered) => Cow::Owned(entered.event()),
        }
    }

    /// The kind of one of them: what filters ask, who need not have it made.
    pub(super) fn kind(&self, part: usize) -> EventKind {
        match self {
            Self::Event(event) => event.kind,
            Self::Placed(allocated) => Part::of(allocated)[part].kind(),
            Self::AskAdded(_) => EventKind::AskAdded,
            Self::Entered(entered) => EventKind::AppState(entered.state),
        }
    }
}

fn placed(part: Part, allocated: &Allocated) -> Event {
    let Allocated { owner, spec, uuid, node, at_ns, .. } = allocated;
    let Owner { application, queue, user, group } = &**owner;
    let of = |object| Event::of(part.kind(), object, *at_ns);
    let charged = |whose| of(whose).referring(queue).amount(&spec.resources);
    match part {
        Part::OnNode => of(node).allocated(uuid, spec),
        Part::OfUser => charged(user),
        Part::OfGroup => charged(group.as_ref().unwrap_or(user)),
        Part::OfApplication => of(application).allocated(uuid, spec).in_queue(queue),
    }
}
