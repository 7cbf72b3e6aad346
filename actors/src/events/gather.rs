//! The events of what partitions say.

use monoceros_rules::work::application_state::{ApplicationEvent, ApplicationState};

use super::{Event, Message, Row};
use crate::baton::Saying;

/// Takes the events out of what was said, in order, with those that other sayings stand for.
/// Without tracking there are none.
pub(crate) fn gather(sayings: Vec<Saying>, is_tracking: bool) -> (Vec<Saying>, Vec<Event>) {
    let mut events = Vec::new();
    // Collected in the place of the sayings: they are large, and there is one per placement.
    let said = sayings.into_iter().filter_map(|saying| match saying {
        Saying::Happened(event) => {
            if is_tracking {
                events.push(*event);
            }
            None
        }
        saying => {
            if is_tracking {
                derive(&saying, &mut events);
            }
            Some(saying)
        }
    });
    (said.collect(), events)
}

fn derive(saying: &Saying, events: &mut Vec<Event>) {
    match saying {
        Saying::Allocated(allocated) => {
            let event = |row, object| {
                Event::of(row, object, allocated.at_ns)
                    .referring(&allocated.uuid)
                    .amount(&allocated.resources)
            };
            events.push(event(Row::NodeAllocationAdded, &allocated.node));
            let charged = |row, whose| {
                Event::of(row, whose, allocated.at_ns)
                    .referring(&allocated.queue)
                    .amount(&allocated.resources)
            };
            events.push(charged(Row::UserCharged, &allocated.user));
            let group = allocated.group.as_ref();
            events.extend(group.map(|group| charged(Row::GroupCharged, group)));
            let added = event(Row::AllocationAdded, &allocated.application);
            events.push(added.in_queue(&allocated.queue));
        }
        Saying::ApplicationUpdated { id, state, at_ns, queue, message } => {
            let mut event = Event::of(Row::AppState(*state), id, *at_ns).in_queue(queue);
            // The cause, where there is one beside the event of the state machine.
            if *state == ApplicationState::Failing && *message != ApplicationEvent::Fail.text() {
                event.message = Message::Says(message);
            }
            events.push(event);
        }
        _ => {}
    }
}
