//! The events in the notices of partitions.
//!
//! A placement and a state that is entered are notices anyway. Their events are derived from those
//! here, on the front's thread, since to make them in the partition would cost each decision
//! several allocations.

use monoceros_rules::work::application_state::{ApplicationEvent, ApplicationState};

use super::{Event, EventKind, Message};
use crate::step::Notice;

/// Takes the events out of the notices, in order, with those that other notices stand for. Without
/// tracking there are no events.
pub(crate) fn gather(notices: Vec<Notice>, is_tracking: bool) -> (Vec<Notice>, Vec<Event>) {
    let mut events = Vec::new();
    // Collected in the place of the notices: they are large, and there is one per placement.
    let said = notices.into_iter().filter_map(|notice| match notice {
        Notice::Happened(event) => {
            if is_tracking {
                events.push(*event);
            }
            None
        }
        notice => {
            if is_tracking {
                derive(&notice, &mut events);
            }
            Some(notice)
        }
    });
    (said.collect(), events)
}

fn derive(notice: &Notice, events: &mut Vec<Event>) {
    match notice {
        Notice::Allocated(allocated) => {
            let event = |row, object| {
                Event::of(row, object, allocated.at_ns).allocated(&allocated.uuid, &allocated.spec)
            };
            events.push(event(EventKind::NodeAllocationAdded, &allocated.node));
            let charged = |row, whose| {
                Event::of(row, whose, allocated.at_ns)
                    .referring(&allocated.queue)
                    .amount(&allocated.spec.resources)
            };
            events.push(charged(EventKind::UserCharged, &allocated.user));
            let group = allocated.group.as_ref();
            events.extend(group.map(|group| charged(EventKind::GroupCharged, group)));
            let added = event(EventKind::AllocationAdded, &allocated.application);
            events.push(added.in_queue(&allocated.queue));
        }
        Notice::ApplicationUpdated { id, state, at_ns, queue, message } => {
            let mut event = Event::of(EventKind::AppState(*state), id, *at_ns).in_queue(queue);
            // The cause, where there is one beside the event of the state machine.
            let has_cause = matches!(state, ApplicationState::Failing | ApplicationState::Resuming);
            if has_cause && *message != ApplicationEvent::Fail.text() {
                event.message = Message::Says(message);
            }
            events.push(event);
        }
        _ => {}
    }
}
