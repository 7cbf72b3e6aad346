//! What an RM has in all its partitions, against its quotas: `docs/quotas.md`.
//!
//! Partitions say what they have when it has become another part of a quota; each is told what the
//! others have together. An RM with one partition is never told anything.

use actix::prelude::*;
use monoceros_rules::specs::quotas::Held;

use super::Rm;
use crate::mailbox::Receive;
use crate::partition::{ApplyControl, Control};
use crate::step::HeldNow;

impl Rm {
    /// Tells each partition what the others have, where that is worth it.
    fn tell_elsewhere(&mut self) {
        let all = self.partitions.values().fold(Held::default(), |sum, it| sum.plus(it.held));
        self.held.set(all);
        for partition in self.partitions.values_mut() {
            let elsewhere = all.minus(partition.held);
            if self.quotas.is_worth_telling(partition.elsewhere, elsewhere) {
                partition.elsewhere = elsewhere;
                partition.mailbox.post(ApplyControl(Control::Elsewhere(elsewhere)));
            }
        }
    }
}

impl Receive<HeldNow> for Rm {
    fn receive(&mut self, HeldNow { partition, held }: HeldNow, _ctx: &mut Context<Self>) {
        if let Some(partition) = self.partitions.get_mut(&partition) {
            partition.held = held;
            self.tell_elsewhere();
        }
    }
}
