//! Acknowledgements of syncs, and the placements that a shim refuses in them.

use super::{Cache, Confirmed, NotSent, Placed, forgotten, remove_newest};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;

/// The placements that a failure concerns.
enum FailedPlacements {
    These(Vec<Placed>),
    /// The failure names no application, and several use the key.
    Unclear,
}

impl Cache {
    /// Processes an acknowledgement of all syncs up to its number, and its failures.
    pub(in crate::grpc::attach) fn acknowledge(
        &mut self,
        ack: &cb::CacheSyncAck,
    ) -> Result<Confirmed, NotSent> {
        if ack.cache_seq > self.seq {
            return Err(NotSent { acknowledged: ack.cache_seq, sent: self.seq });
        }
        let mut confirmed = Confirmed::default();
        for failure in &ack.failures {
            match self.take_failed(ack.cache_seq, failure) {
                FailedPlacements::These(placed) => {
                    // The shim does not report which of several placements it refused, so it must
                    // forget all of them.
                    let forgotten: Vec<_> = match &placed[..] {
                        [] | [_] => Vec::new(),
                        several => several
                            .iter()
                            .map(|one| forgotten(&one.application, &failure.allocation_key))
                            .collect(),
                    };
                    confirmed.forget.extend(self.sync(Vec::new(), forgotten));
                    let undone = placed.into_iter().map(|one| self.undo(&one, failure));
                    confirmed.undo.extend(undone);
                }
                FailedPlacements::Unclear => {
                    confirmed.ambiguous.push(failure.allocation_key.clone());
                }
            }
        }
        confirmed.deliver = self.pass_gate(ack.cache_seq);
        Ok(confirmed)
    }

    /// Removes and returns the placements that a failure concerns. First choice: for each matching
    /// application, the newest placement withheld for this very acknowledgement. If there is none:
    /// the newest placement of the only matching application.
    fn take_failed(
        &mut self,
        acknowledged: u64,
        failure: &cb::CacheSyncFailure,
    ) -> FailedPlacements {
        let cb::CacheSyncFailure { allocation_key: key, application_id, .. } = failure;
        let is_meant =
            |application: &str| application_id.is_empty() || application == application_id;
        let Some(ledger) = &mut self.ledger else { return FailedPlacements::These(Vec::new()) };
        let mut waiting: Vec<&si::Allocation> = Vec::new();
        let withheld = self.withheld.iter().rev().filter(|withheld| withheld.seq <= acknowledged);
        for one in withheld.flat_map(|withheld| withheld.response.new.iter().rev()) {
            let is_known = waiting.iter().any(|other| other.application_id == one.application_id);
            if one.allocation_key == *key && is_meant(&one.application_id) && !is_known {
                waiting.push(one);
            }
        }
        if !waiting.is_empty() {
            let placed = waiting.into_iter().filter_map(|one| {
                remove_newest(ledger, key, |placed| {
                    *placed.application == *one.application_id && *placed.uuid == *one.uuid
                })
            });
            return FailedPlacements::These(placed.collect());
        }
        let of_key = ledger.get(&**key).into_iter().flatten();
        let mut applications = of_key.map(|placed| &placed.application);
        let first = applications.find(|application| is_meant(application));
        if applications.any(|other| is_meant(other) && Some(other) != first) {
            return FailedPlacements::Unclear;
        }
        FailedPlacements::These(
            remove_newest(ledger, key, |placed| is_meant(&placed.application))
                .into_iter()
                .collect(),
        )
    }

    /// Releases a placement that the shim refused, and removes it from withheld responses.
    fn undo(&mut self, placed: &Placed, failure: &cb::CacheSyncFailure) -> si::AllocationRelease {
        for withheld in &mut self.withheld {
            // In the present form all UUIDs are empty, and each key has one allocation. In the
            // older form, UUIDs distinguish several allocations of a key.
            let is_it = |one: &si::Allocation| {
                *one.application_id == *placed.application
                    && one.allocation_key == failure.allocation_key
                    && *one.uuid == *placed.uuid
            };
            withheld.response.new.retain(|allocation| !is_it(allocation));
        }
        si::AllocationRelease {
            application_id: placed.application.to_string(),
            uuid: placed.uuid.to_string(),
            allocation_key: failure.allocation_key.clone(),
            partition_name: placed.partition.to_string(),
            termination_type: si::TerminationType::SchedulingFailedOnRm.into(),
            message: failure.reason.clone(),
            exclude_node: !failure.retryable,
            ..Default::default()
        }
    }
}
