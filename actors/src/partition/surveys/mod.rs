//! The surveys of a partition, a file each: they read or renew its actors one after another. See
//! [`crate::step::Survey`].
//!
//! # Why the reply is in the survey
//! A caller gives the survey a sender for just the type that it answers ([`Read`]), so that no
//! answer can go to another question. A question that the partition can answer by itself is a
//! survey that visits no actor, and has its turn among the other entries of the inbox.

mod applications;
mod decisions;
mod dismiss;
mod eviction;
mod explain;
mod facts;
mod image;
mod limits_left;
mod listing;
mod look_again;
mod measured;
mod names;
mod nodes;
mod outstanding;
mod overview;
mod queues;
mod quota;
mod refresh;
mod run_times;
mod soundness;
mod usage;
mod used;
mod victims;
mod victims_on_node;
mod wanted;

use std::collections::BTreeMap;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::input::{Entry, LocalRequest};
use super::{AtHome, Partition, Task};
use crate::mailbox::Receive;
use crate::step::{Baton, QueueSlot, Survey, Surveyed, Surveyor};

pub(crate) use super::state::ObservedKind;
pub(crate) use applications::{Applications, EndedApplications, Over};
pub(crate) use decisions::{DecisionsKept, LastDecisions};
pub(super) use dismiss::Dismiss;
pub(crate) use explain::{CLASSES_MAX, Explain, Found, KEYS_MAX, KEYS_WITH_ASKS_MAX};
pub(crate) use facts::Everything;
pub(crate) use image::{BeginImage, ImageSlice};
pub(crate) use listing::{List, Named, Slice, Sliced};
pub(super) use look_again::LoosenedLanes;
pub(crate) use measured::{ObservedSum, ObservedSums, Recommendations, Recommended};
pub(crate) use names::NamesInUse;
pub use nodes::NodeLoad;
pub(crate) use nodes::{NodeLoads, Nodes};
pub(crate) use outstanding::{Left, Outstanding, Rooms, ScaleUpList, WaitingFor};
pub(crate) use overview::{Overview, PlacementRules, StepNow};
pub(crate) use queues::Queues;
pub(super) use quota::QuotaScan;
pub(super) use refresh::Refresh;
pub(crate) use run_times::{RunTimeRows, RunsCounted};
pub(crate) use soundness::{CheckedApplications, CheckedNodes, Sums};
pub(crate) use usage::{Groups, OneGroup, OneUser, Users};
pub(super) use used::InUse;
pub(super) use victims::VictimSearch;
pub(super) use victims_on_node::VictimsOnNode;
pub(super) use wanted::scale_up_survey;

/// Asks a partition to do a survey. Sent by the scheduler's handle; the survey has the sender of
/// its answer.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Read(pub(crate) Box<dyn Survey>);

/// Asks a partition a question that need not wait for earlier entries: it is answered after the
/// step that is under way.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReadAhead(pub(crate) Box<dyn Survey>);

/// Asks a partition for a slice of a list. Sent by the scheduler's handle. Like [`Read`], it waits
/// for earlier entries; then it takes its turn among the slices.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReadSlice(pub(crate) Box<dyn Survey>);

/// Asks a partition for a further slice of a list: unlike the first, it waits for no earlier entry.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReadOn(pub(crate) Box<dyn Survey>);

/// Values that queues pass up to the queue above them, kept until that is visited.
struct LeftBelow<T>(BTreeMap<QueueSlot, Vec<T>>);

impl<T> Default for LeftBelow<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> LeftBelow<T> {
    /// Keeps a value for this queue.
    fn leave(&mut self, above: QueueSlot, left: T) {
        self.0.entry(above).or_default().push(left);
    }

    /// Takes the values that are kept for this queue.
    fn take(&mut self, queue: QueueSlot) -> Vec<T> {
        self.0.remove(&queue).unwrap_or_default()
    }
}

fn answer<T>(reply: oneshot::Sender<T>, answer: T) {
    // The caller may have given up.
    let _ = reply.send(answer);
}

impl Partition {
    /// Starts a survey. It ends here if it visits no actor.
    pub(super) fn survey(&mut self, mut survey: Box<dyn Survey>, mut baton: Box<Baton>) -> AtHome {
        let route = survey.route(self, &baton);
        if route.is_empty() {
            survey.home(self, &mut baton);
            return Some(baton);
        }
        Box::new(Surveyor::new(survey, route)).go_on(baton);
        None
    }

    /// Continues the step with another survey before it does anything else.
    fn survey_next(&mut self, survey: impl Survey) {
        self.agenda.push_front(Task::survey(survey));
    }
}

impl Handler<Surveyed> for Partition {
    type Result = ();

    fn handle(&mut self, surveyed: Surveyed, ctx: &mut Self::Context) {
        let Surveyed { baton, survey } = surveyed;
        self.take_home(baton, ctx, |partition, baton| survey.home(partition, baton));
    }
}

impl Receive<Read> for Partition {
    fn receive(&mut self, Read(survey): Read, ctx: &mut Context<Self>) {
        self.inbox.push(Entry::Local(LocalRequest::Read(survey)));
        self.turn(ctx);
    }
}

impl Receive<ReadAhead> for Partition {
    fn receive(&mut self, ReadAhead(survey): ReadAhead, ctx: &mut Context<Self>) {
        self.inbox.push_question(survey);
        self.turn(ctx);
    }
}

impl Receive<ReadSlice> for Partition {
    fn receive(&mut self, ReadSlice(survey): ReadSlice, ctx: &mut Context<Self>) {
        self.inbox.push(Entry::Local(LocalRequest::ReadSlice(survey)));
        self.turn(ctx);
    }
}

impl Receive<ReadOn> for Partition {
    fn receive(&mut self, ReadOn(survey): ReadOn, ctx: &mut Context<Self>) {
        self.inbox.push_slice(survey);
        self.turn(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_leave_is_for_their_parent_alone_and_once() {
        let mut left = LeftBelow::default();
        left.leave(QueueSlot(1), "a");
        left.leave(QueueSlot(2), "b");
        left.leave(QueueSlot(1), "c");
        assert_eq!(left.take(QueueSlot(1)), ["a", "c"]);
        assert_eq!(left.take(QueueSlot(1)), [""; 0]);
        assert_eq!(left.take(QueueSlot(2)), ["b"]);
    }
}
