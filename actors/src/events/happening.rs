//! Happenings: events as they are kept until they are read. A happening is one event, or the content of a
//! notice that stands for several.
//!
//! # Why
//! Each placement has three or four events, and each ask has one. Hardly any is ever read, and making them
//! would be the most expensive part of reporting a placement. A happening shares the content of the
//! notice, which costs a pointer; events are made of it for a reader.

use std::borrow::Cow;
use std::sync::Arc;

use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::specs::ask::AskSpec;

use super::{Event, EventKind, Message};
use crate::notices::{Allocated, Entered, Owner};

/// One event, or several consecutive ones.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// One event.
    Event(Arc<Event>),
    /// A placement: events of its node, its user, its group if it has one, and its application.
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
        // The message, if it says more than the transition of the state machine.
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

    /// The events of this placement.
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
    /// The number of its events.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Event(_) | Self::AskAdded(_) | Self::Entered(_) => 1,
            Self::Placed(allocated) => Part::of(allocated).len(),
        }
    }

    /// The event at this position.
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

    /// The kind of the event at this position, for filters: the event is not made.
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
