//! Usage of an RM in all its partitions, against its quotas: `docs/quotas.md`.
//!
//! A partition reports its usage when its share of a quota has changed, and is informed of the usage of
//! all others together. The only partition of an RM is never informed.

use actix::prelude::*;
use monoceros_rules::specs::quotas::Held;

use super::Rm;
use crate::mailbox::Receive;
use crate::partition::{ApplyControl, Control};
use crate::session::HeldNow;

impl Rm {
    /// Informs each partition of the usage of the others, if the change is large enough to matter.
    fn inform_of_others(&mut self) {
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
            self.inform_of_others();
        }
    }
}
