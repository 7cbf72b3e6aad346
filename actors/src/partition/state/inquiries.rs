//! Preemptors that wait for their search for victims, one after another.
//!
//! # Invariants
//! * Each preemptor waits once, however often it is added.
//! * At most one preemptor has open questions: its victims change what is left for the next.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::pending::nominations::Preemptor;

use crate::step::PreemptionRequest;

/// The preemptors that wait for their turn, and the open search. `A` is a search that waits for
/// answers.
pub(in crate::partition) struct Inquiries<A> {
    /// Preemptors by the time since which they wait, ns since the epoch. Among preemptors with the
    /// same time the lowest number is next, so the number of decisions made in one step does not
    /// matter.
    waiting: BTreeSet<(i64, Preemptor)>,
    /// The latest request of each preemptor.
    wants: BTreeMap<Preemptor, PreemptionRequest>,
    pub(in crate::partition) open: Option<(u64, A)>,
    /// The preemptor whose search was begun last, with the time since which it had waited.
    begun: Option<(i64, PreemptionRequest)>,
    /// Whether a search was begun since the caller last asked for this.
    has_just_searched: bool,
}

impl<A> Default for Inquiries<A> {
    fn default() -> Self {
        let (waiting, wants) = (BTreeSet::new(), BTreeMap::new());
        Self { waiting, wants, open: None, begun: None, has_just_searched: false }
    }
}

impl<A> Inquiries<A> {
    /// Whether the RM has still to answer.
    pub(in crate::partition) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Appends preemptors. One that waits already keeps its position; its request is replaced.
    pub(in crate::partition) fn extend(
        &mut self,
        now_ns: i64,
        who: impl IntoIterator<Item = PreemptionRequest>,
    ) {
        for wants in who {
            if self.wants.insert(wants.who(), wants).is_none() {
                self.waiting.insert((now_ns, wants.who()));
            }
        }
    }

    /// Whether a preemptor waits and no question is open.
    pub(in crate::partition) fn has_next(&self) -> bool {
        self.open.is_none() && !self.waiting.is_empty()
    }

    /// Returns whether a search was begun since the last call.
    pub(in crate::partition) fn has_just_searched(&mut self) -> bool {
        std::mem::take(&mut self.has_just_searched)
    }

    /// Takes the next preemptor, unless a question is open.
    pub(in crate::partition) fn next(&mut self) -> Option<PreemptionRequest> {
        let (since_ns, next) = self.open.is_none().then(|| self.waiting.pop_first())??;
        self.has_just_searched = true;
        let request = self.wants.remove(&next)?;
        self.begun = Some((since_ns, request));
        Some(request)
    }

    /// Returns every preemptor that waits, in order, with the time since which it does. One whose
    /// questions are open is the first: whoever goes on from here has to search for it anew.
    pub(in crate::partition) fn image(&self) -> Vec<(i64, PreemptionRequest)> {
        let open = self.begun.filter(|_| self.is_open());
        let wants = |(since_ns, who): &(i64, Preemptor)| Some((*since_ns, *self.wants.get(who)?));
        open.into_iter().chain(self.waiting.iter().filter_map(wants)).collect()
    }
}

#[cfg(test)]
mod tests {
    use monoceros_rules::pending::reservations::Reserver;
    use monoceros_rules::values::ids::{ApplicationSlot, AskSlot};

    use super::*;

    fn wants(ask: u32, nodes_were_tried: bool) -> PreemptionRequest {
        let (application, ask) = (ApplicationSlot::at(0), AskSlot::at(ask));
        let who = Preemptor::Ask(Reserver { application, ask });
        PreemptionRequest::ForGuarantee { who, nodes_were_tried }
    }

    #[test]
    fn who_comes_again_before_its_turn_keeps_its_place_and_looks_once() {
        let mut inquiries = Inquiries::<()>::default();
        inquiries.extend(10, [wants(2, false)]);
        inquiries.extend(11, [wants(1, false), wants(2, true)]);
        assert_eq!(inquiries.next(), Some(wants(2, true)));
        assert_eq!(inquiries.next(), Some(wants(1, false)));
        assert_eq!(inquiries.next(), None);
        inquiries.extend(12, [wants(2, false)]);
        assert_eq!(inquiries.next(), Some(wants(2, false)));
    }
}
