//! A partition's turn: what is done while the baton is at home, and what it leaves for.
//!
//! First comes what is left on the agenda of the step that came home, since nobody may see half of
//! a step; then what the inbox says is next. Between two steps deadlines are armed, and notices are
//! handed to the outlet.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::specs::quotas::Standing;

use super::Task;
use super::inbox::{MayOffer, Next};
use super::input::{Input, Request, Stamped};
use super::surveys::Refresh;
use super::{LocalRequest, Partition, Trip};
use crate::queue::QueueMail;
use crate::session::BATCH;
use crate::step::{Alarm, Baton, HeldNow, Notice, Offering};

/// The number of notices from which the outlet gets them although more steps follow at once.
const NOTICES_TOGETHER: usize = 64;
/// The number of notices up to which no room is made for as many in advance.
const FEW_NOTICES: usize = 16;
/// The number of notices on their way to the RM above which nothing new is decided.
const OUTSTANDING_MAX: usize = 65_536;

impl Partition {
    /// Runs steps and offers until the baton is out or there is nothing to do, and tells what was said.
    pub(super) fn turn(&mut self, ctx: &mut Context<Self>) {
        self.go_on(ctx);
        self.outlet.flush();
    }

    fn go_on(&mut self, ctx: &mut Context<Self>) {
        while let Some(mut baton) = self.baton.take() {
            if !baton.gathered.is_empty() && !self.visits_next() {
                baton.climb_gathered();
                return;
            }
            if let Some(task) = self.agenda.pop_front() {
                self.baton = self.perform(task, baton);
                continue;
            }
            self.n_turns += 1;
            self.decide_for_somebody(&baton);
            self.keep_terminated(&mut baton);
            if !self.may_say_more(&baton) {
                self.speak(&mut baton);
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
                        // Whoever reads and reads must not keep the partition from its rest.
                        self.rest(&mut baton);
                    }
                    self.agenda.push_back(Task::Survey(survey));
                    self.baton = Some(baton);
                }
                Next::Local(request) => {
                    self.run(request, &mut baton);
                    self.baton = Some(baton);
                }
                Next::Nothing if self.may_look() => self.baton = Some(baton),
                Next::Nothing => {
                    self.speak(&mut baton);
                    self.rest(&mut baton);
                    self.baton = Some(baton);
                    return;
                }
            }
        }
    }

    /// Where nothing waits an offer would come home in vain, and need not leave. Whatever lets something
    /// wait is a step, which says anew that something may be decided. The oracle has all of them leave, and
    /// so proves that these are in vain.
    fn decide_for_somebody(&mut self, baton: &Baton) {
        self.may_decide &= baton.books.is_waiting || self.watch.oracle;
    }

    /// Whether an application is visited next, or a request about one is taken in. Neither looks at the
    /// totals of queues: what was gathered may wait.
    fn visits_next(&self) -> bool {
        match self.agenda.front() {
            Some(task) => matches!(task, Task::Visit(..)),
            None => self.inbox.application_is_next(),
        }
    }

    /// Whether what a visit changes of queues may wait: the next visit follows, and no offer leaves before it
    /// while nothing waits. The oracle has some leave; and who has to give up what is above a maximum
    /// is told by the step that took it there.
    pub(super) fn may_gather(&self, baton: &Baton) -> bool {
        let is_asked_for = self.watch.oracle || self.config.preemption.quota;
        let is_over = self.closing || self.proposal.is_some() || baton.gathered.is_full();
        !baton.books.is_waiting && !is_asked_for && !is_over && self.visits_next()
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
            // The foreseen decision holds only for the offer that follows at once, whatever else
            // came.
            MayOffer::AtOnce
        } else {
            MayOffer::Yes
        }
    }

    /// Called when there is nothing to do: passes barriers on, unless an answer is still waited
    /// for.
    fn rest(&mut self, baton: &mut Baton) {
        let unsettled = &baton.books.unsettled;
        let is_answered =
            unsettled.is_empty() && unsettled.placements() == 0 && !self.inquiries.is_open();
        let waits = self.can_decide(baton) || !is_answered;
        if !self.barriers.is_empty() && !waits && self.reorder.is_empty() {
            let barriers = std::mem::take(&mut self.barriers).into_iter();
            baton.effects.notices.extend(barriers.map(Notice::Barrier));
            self.speak(baton);
        }
        baton.tally.flush();
    }

    fn offer(&mut self, mut baton: Box<Baton>) {
        debug_assert!(baton.gathered.is_empty(), "an offer meets the totals of one moment");
        self.trip = Trip::Offer;
        self.steps += 1;
        baton.gathered.goes_on = false;
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

    /// Begins the step of an input: all that is decided follows from what enters here, and when.
    /// What the baton has to be sent out for is on the agenda then.
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
                self.tell_held(baton);
            }
            LocalRequest::Read(survey) => self.agenda.push_back(Task::Survey(survey)),
            LocalRequest::ReadSlice(survey) => self.inbox.push_slice(survey),
            LocalRequest::Barrier(barrier) => self.barriers.push(barrier),
            LocalRequest::Observe(reports) => self.observe(&reports, baton),
            LocalRequest::ChangeState(change) => self.change_state(change, baton),
        }
    }

    /// Whether the outlet may wait for the notices of further steps. To hand over those of each of
    /// many short steps would wake the RM's thread each time. Events wait for the offer that leaves
    /// now, too; all else does not, since predicates are asked in the middle of that.
    fn may_say_more(&self, baton: &Baton) -> bool {
        let stands = self.closing || self.proposal.is_some() || self.watch.oracle;
        let are_events =
            || baton.effects.notices.iter().all(|notice| matches!(notice, Notice::Happened(_)));
        let offers = || self.may_offer(baton) == MayOffer::Yes && are_events();
        !stands && baton.effects.notices.len() < NOTICES_TOGETHER && self.inbox.goes_on(offers)
    }

    /// Tells the session how much there is, if that is worth it.
    fn tell_held(&mut self, baton: &Baton) {
        let Standing { most, here, .. } = baton.quotas();
        if most.is_worth_telling(self.told, here) {
            self.told = here;
            self.session.held.post(HeldNow { partition: Arc::clone(&self.name), held: here });
        }
    }

    /// Hands the notices since the last time to the outlet.
    fn speak(&mut self, baton: &mut Baton) {
        if baton.effects.notices.is_empty() {
            return;
        }
        self.tell_held(baton);
        baton.tally.in_flight(baton.books.unsettled.len());
        self.outstanding += baton.effects.notices.len();
        // As many will be said next, where that is more than a few: to grow copies them.
        let said = baton.effects.notices.len();
        let room = if said > FEW_NOTICES { said.min(BATCH) } else { 0 };
        self.outlet.add(std::mem::replace(&mut baton.effects.notices, Vec::with_capacity(room)));
    }
}
