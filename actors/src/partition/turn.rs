//! A partition's turn: the work done while the baton is at home, and the choice of the next step.
//!
//! The agenda of the step that came home goes first, because no reader may see half of a step; then
//! the inbox chooses the next entry or offer. Between two steps deadlines are armed, and notices
//! are handed to the outlet.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::specs::quotas::QuotaUsage;

use super::Task;
use super::inbox::{Ahead, MayOffer, Next};
use super::input::{Input, Request, Stamped};
use super::surveys::Refresh;
use super::{LocalRequest, Partition, Trip};
use crate::queue::QueueMail;
use crate::session::BATCH;
use crate::step::{Alarm, Baton, HeldNow, Notice, Offering, Op};

/// From this number on, notices are handed to the outlet although more steps follow at once.
const NOTICES_TOGETHER: usize = 64;
/// The most reports that leave behind another without a stop at home.
const VISITS_TOGETHER: usize = 63;
/// The number of notices up to which the next list gets no capacity in advance.
const FEW_NOTICES: usize = 16;
/// The number of notices on their way to the RM above which nothing new is decided.
const OUTSTANDING_MAX: usize = 65_536;

impl Partition {
    /// Runs steps and offers until the baton is out or there is nothing to do, and flushes the
    /// outlet.
    pub(super) fn turn(&mut self, ctx: &mut Context<Self>) {
        self.go_on(ctx);
        self.outlet.flush();
    }

    fn go_on(&mut self, ctx: &mut Context<Self>) {
        while let Some(mut baton) = self.baton.take() {
            if !baton.gathered.is_empty() && !self.lets_gathered_wait(&baton) {
                baton.carry_out_gathered();
                return;
            }
            if let Some(task) = self.agenda.pop_front() {
                self.baton = self.perform(task, baton);
                continue;
            }
            self.n_turns += 1;
            self.skip_needless_offer(&baton);
            self.keep_terminated(&mut baton);
            if !self.may_hold_notices(&baton) {
                self.hand_over_notices(&mut baton);
            }
            self.arm(&mut baton, ctx);
            if self.agenda_from(&mut baton) {
                self.baton = Some(baton);
                continue;
            }
            baton.tally.cycle_over();
            if self.closing {
                self.dissolve(baton, ctx);
                return;
            }
            if let Some((slot, ops)) = baton.gathered.visits.pop_front() {
                self.agenda.push_back(Task::Visit(slot, ops));
                self.baton = Some(baton);
                continue;
            }
            if let Some(input) = self.inbox.ahead(&self.clock) {
                self.enter(input, &mut baton);
                self.baton = Some(baton);
                continue;
            }
            if self.proposal.is_some() {
                baton.tally.flush();
                self.baton = Some(baton);
                return;
            }
            if self.capacity_changed && !self.inbox.node_is_next() {
                self.capacity_changed = false;
                self.may_decide = true;
                self.agenda.push_back(Task::survey(Refresh::of_changed(BTreeSet::new())));
                self.baton = Some(baton);
                continue;
            }
            baton.now_ns = self.clock.now_ns();
            match self.inbox.next(self.may_offer(&baton), baton.now_ns) {
                Next::Offer if self.watch.oracle && !self.oracle.has_foreseen() => {
                    self.baton = Some(baton);
                    self.foresee();
                }
                Next::Offer => self.offer(baton),
                Next::Input(input) => {
                    self.enter(input, &mut baton);
                    self.baton = Some(baton);
                }
                Next::Slice { survey, is_alone } => {
                    if is_alone {
                        // Constant reads must not keep barriers from being passed on.
                        self.rest(&mut baton);
                    }
                    self.agenda.push_back(Task::Survey(survey));
                    self.baton = Some(baton);
                }
                Next::Local(request) => {
                    self.run(request, &mut baton);
                    self.baton = Some(baton);
                }
                Next::Nothing if self.may_search() => self.baton = Some(baton),
                Next::Nothing => {
                    self.hand_over_notices(&mut baton);
                    self.rest(&mut baton);
                    self.baton = Some(baton);
                    return;
                }
            }
        }
    }

    /// Skips the offer while no ask is pending, because it would come home without result. Any step
    /// after which an ask is pending sets `may_decide` again. The oracle lets these offers leave,
    /// and so proves that they find nothing.
    fn skip_needless_offer(&mut self, baton: &Baton) {
        self.may_decide &= baton.books.is_waiting || self.watch.oracle;
    }

    /// Whether gathered changes may wait for the next step: it visits an application, or takes in
    /// a request about one, and so does not read the totals of queues. If nodes have amounts to
    /// hold, it must bring plain reports alone. Nothing reads either while the partition has
    /// nothing to do.
    fn lets_gathered_wait(&self, baton: &Baton) -> bool {
        let may_wait = |ops: &[Op]| !baton.gathered.has_holds() || are_plain_reports(ops);
        match self.agenda.front() {
            Some(Task::Visit(_, ops)) => return may_wait(ops),
            Some(_) => return false,
            None if !baton.gathered.visits.is_empty() => return true,
            None => {}
        }
        match self.inbox.ahead_of_gathered() {
            Ahead::Orders(ops) => may_wait(ops),
            Ahead::ChunkEnd => true,
            Ahead::Nothing => !self.closing && self.proposal.is_none(),
            Ahead::Other => false,
        }
    }

    /// Plans the visit with these orders that leaves now: whether its changes of queues, and its
    /// work on nodes, may wait, and the visits that follow it at once.
    ///
    /// Changes may wait if another visit follows, and no offer leaves before it while no ask is
    /// pending. They do not wait under the oracle, where such offers leave, nor where queues give
    /// back what is above their maximum: the step that exceeds the maximum has to report it.
    pub(super) fn plan_visit(&mut self, ops: &[Op], baton: &mut Baton) {
        (baton.gathered.goes_on, baton.gathered.reports_on) = (false, false);
        let is_asked_for = self.watch.oracle || self.config.preemption.quota;
        let is_over = self.closing || self.proposal.is_some();
        if baton.books.is_waiting || is_asked_for || is_over {
            return;
        }
        if self.agenda.is_empty() && are_plain_reports(ops) {
            while baton.gathered.visits.len() < VISITS_TOGETHER
                && let Some((id, ops)) = self.inbox.next_orders()
                && let Some(slot) = self.report_slot(id, ops, baton)
                && let Some(ops) = self.inbox.take_orders()
            {
                self.steps += 1;
                baton.gathered.visits.push_back((slot, ops));
            }
        }
        let next = match self.agenda.front() {
            Some(Task::Visit(_, ops)) => Ahead::Orders(ops),
            Some(_) => Ahead::Other,
            None => self.inbox.ahead_of_gathered(),
        };
        (baton.gathered.goes_on, baton.gathered.reports_on) = match next {
            Ahead::Orders(ops) => (true, are_plain_reports(ops)),
            Ahead::ChunkEnd => (true, true),
            Ahead::Other | Ahead::Nothing => (false, false),
        };
    }

    fn can_decide(&self, baton: &Baton) -> bool {
        let has_memory = baton.quotas().has_memory().is_ok();
        self.may_decide && self.decides() && has_memory && !baton.books.nodes.is_empty()
    }

    fn may_offer(&self, baton: &Baton) -> MayOffer {
        let has_room = self.outstanding < OUTSTANDING_MAX && self.budget(baton) > 0;
        let stops = baton.books.unsettled.bundle.is_some_and(|bundle| bundle.stops_offers);
        if !self.can_decide(baton) || !has_room || self.capacity_changed || stops {
            MayOffer::No
        } else if self.oracle.has_foreseen() {
            // The foreseen decision holds only for the offer that follows at once, even if entries
            // have arrived.
            MayOffer::AtOnce
        } else {
            MayOffer::Yes
        }
    }

    /// Passes barriers on when there is nothing to do, unless an answer is still expected.
    fn rest(&mut self, baton: &mut Baton) {
        let unsettled = &baton.books.unsettled;
        let is_answered =
            unsettled.is_empty() && unsettled.placements() == 0 && !self.inquiries.is_open();
        let waits = self.can_decide(baton) || !is_answered;
        if !self.barriers.is_empty() && !waits && self.reorder.is_empty() {
            let barriers = std::mem::take(&mut self.barriers).into_iter();
            baton.effects.notices.extend(barriers.map(Notice::Barrier));
            self.hand_over_notices(baton);
        }
        baton.tally.flush();
    }

    fn offer(&mut self, mut baton: Box<Baton>) {
        debug_assert!(baton.gathered.is_empty(), "an offer meets the totals of one moment");
        self.trip = Trip::Offer;
        self.steps += 1;
        (baton.gathered.goes_on, baton.gathered.reports_on) = (false, false);
        baton.offer = Offering {
            budget: self.budget(&baton),
            asks_later: self.controls.asks_later(),
            asks_about_holds: self.controls.asks_about_holds(),
            is_watched: self.watch.oracle,
            explains: baton.decisions.is_on(),
            rise_to: usize::MAX,
            frames: std::mem::take(&mut baton.offer.frames),
            ..Offering::default()
        };
        baton.tally.offer_leaves();
        let root = Arc::clone(baton.directory.root());
        root.hand(baton, QueueMail::Offer);
    }

    /// Begins the step of an input: every decision follows from what enters here, and when. Tasks
    /// for which the baton has to be sent out are put on the agenda.
    pub(super) fn enter(&mut self, Stamped { at_ns, input }: Stamped, baton: &mut Baton) {
        baton.now_ns = at_ns;
        if !matches!(input, Input::Acknowledged(_)) {
            self.steps += 1;
        }
        match input {
            Input::Request(request) => {
                self.may_decide |= !matches!(request, Request::Refused(_));
                self.request(request, baton);
            }
            Input::Unfinished(slot, ops) => {
                self.may_decide = true;
                self.agenda.push_back(Task::Visit(slot, ops));
            }
            Input::Answers(answers) => self.answers(answers, baton),
            Input::PreemptionAnswers(question, answers) => {
                self.preemption_answers(question, &answers, baton);
            }
            Input::Control(control) => self.control(control, baton),
            Input::Alarm(alarm) => {
                self.may_decide |=
                    !matches!(alarm, Alarm::ScaleUp | Alarm::CleanQueues | Alarm::Retention);
                self.alarm(alarm, baton);
            }
            Input::Acknowledged(notices) => {
                self.outstanding = self.outstanding.saturating_sub(notices);
            }
            Input::State(to) => {
                self.may_decide = true;
                self.enter_state(to, baton);
            }
            Input::Prepare(wanted) => self.prepare(wanted, baton),
            Input::Conclude(conclusion) => self.conclude(conclusion, baton),
        }
    }

    /// Runs a local request, which decides nothing.
    fn run(&mut self, request: LocalRequest, baton: &mut Baton) {
        match request {
            LocalRequest::ChunkDone => {
                self.outlet.chunk_done();
                self.report_held(baton);
            }
            LocalRequest::Read(survey) => self.agenda.push_back(Task::Survey(survey)),
            LocalRequest::ReadSlice(survey) => self.inbox.push_slice(survey),
            LocalRequest::Barrier(barrier) => self.barriers.push(barrier),
            LocalRequest::Observe(reports) => self.observe(&reports, baton),
            LocalRequest::ChangeState(change) => self.change_state(change, baton),
        }
    }

    /// Whether notices may be held until further steps have run. Sending after every short step
    /// would wake the RM's thread each time. Only events may also be held across an offer: an offer
    /// calls predicates, and the RM must know the earlier decisions by then.
    fn may_hold_notices(&self, baton: &Baton) -> bool {
        let stands = self.closing || self.proposal.is_some() || self.watch.oracle;
        let are_events =
            || baton.effects.notices.iter().all(|notice| matches!(notice, Notice::Happened(_)));
        let offers = || self.may_offer(baton) == MayOffer::Yes && are_events();
        !stands && baton.effects.notices.len() < NOTICES_TOGETHER && self.inbox.goes_on(offers)
    }

    /// Reports the quota usage to the session, if it has changed enough.
    fn report_held(&mut self, baton: &Baton) {
        let QuotaUsage { most, here, .. } = baton.quotas();
        if most.is_worth_telling(self.reported, here) {
            self.reported = here;
            self.session.held.post(HeldNow { partition: Arc::clone(&self.name), held: here });
        }
    }

    /// Hands the notices since the last time to the outlet.
    fn hand_over_notices(&mut self, baton: &mut Baton) {
        if baton.effects.notices.is_empty() {
            return;
        }
        self.report_held(baton);
        baton.tally.in_flight(baton.books.unsettled.len());
        self.outstanding += baton.effects.notices.len();
        // If this list is not short, the next one will probably be as long. It gets capacity in
        // advance, since a list that grows is copied.
        let said = baton.effects.notices.len();
        let room = if said > FEW_NOTICES { said.min(BATCH) } else { 0 };
        self.outlet.add(std::mem::replace(&mut baton.effects.notices, Vec::with_capacity(room)));
    }
}

fn are_plain_reports(ops: &[Op]) -> bool {
    ops.iter().all(Op::is_plain_report)
}
