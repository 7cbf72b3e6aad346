//! What steers a partition beside the requests of its RM.

use actix::prelude::*;

use super::{Entry, Partition};
use crate::predicates::PredicateAnswer;
use crate::rm::{Steer, Steering};

/// Answers to questions about placements. From whoever was asked.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answers(pub(crate) Vec<PredicateAnswer>);

impl Partition {
    pub(super) fn steer(&mut self, steering: Steering) {
        match steering {
            Steering::Hold(hold) => {
                self.on_hold = hold;
                self.may_decide |= !hold;
            }
            Steering::ReorderWindow(window) => self.reorder_window = window,
            Steering::StrictEnums(_) | Steering::Predicates(_) | Steering::Invalidate(_) => {}
        }
    }

    pub(super) fn answers(&mut self, _answers: Vec<PredicateAnswer>) {}
}

impl Handler<Steer> for Partition {
    type Result = ();

    fn handle(&mut self, Steer(steering): Steer, ctx: &mut Self::Context) {
        self.door.push_back(Entry::Steering(steering));
        self.turn(ctx);
    }
}

impl Handler<Answers> for Partition {
    type Result = ();

    fn handle(&mut self, Answers(answers): Answers, ctx: &mut Self::Context) {
        self.door.push_back(Entry::Answers(answers));
        self.turn(ctx);
    }
}
