//! What the RM's answers about the members of a bundle in the air mean for it.

use std::time::Duration;

use monoceros_rules::decide::predicates::{Confirmation, confirm};
use monoceros_rules::pending::unsettled::OpenQuestion;

use super::super::Application;
use super::super::effects::{Grounded, VisitEffects};
use super::Pass;
use crate::step::{Baton, Op, Settlement};

/// How often a member is asked about anew before its bundle is taken back.
const ANEW_MAX: u32 = 3;
/// After how long the bundle is taken back since its first void answer.
const VOID_MAX: Duration = Duration::from_secs(30);

/// Why a member is asked about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anew {
    /// There is no answer.
    Unanswered,
    /// What the answer rests on has changed since it was asked, when there had been so many changes
    /// of the partition.
    Void { asked_at: u64 },
}

impl Application {
    /// Whether the question is about a member of the bundle.
    pub(in crate::application) fn is_about_bundle(&self, number: u64) -> bool {
        let air = self.in_flight.as_ref();
        air.is_some_and(|air| air.open.contains_key(&number))
    }

    /// Carries out what an answer about one member means for the bundle.
    pub(in crate::application) fn take_bundle_answer(
        &mut self,
        number: u64,
        settlement: Settlement,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        match settlement {
            Settlement::Confirmed { scope, assumed, .. } => {
                if let Some((at, question)) = self.close_question(number, baton)
                    && let Some(air) = self.air()
                {
                    // Nobody will ever tell that a place is held: it is not to be counted on.
                    let is_void = assumed && air.members[at].is_held;
                    if is_void {
                        baton.question_cancelled(number);
                    }
                    let assumed = assumed && !is_void;
                    let Some(air) = self.air() else { return };
                    air.members[at].passed = Some(Pass { number, question, scope, assumed });
                }
            }
            Settlement::NotTaken { assumed, is_void: false, .. } => {
                // Its node takes nothing any more, or has too little.
                let Some((at, _)) = self.close_question(number, baton) else { return };
                if assumed {
                    baton.question_cancelled(number);
                }
                self.member_refused(at, baton, effects);
            }
            Settlement::NotTaken { assumed, is_void: true, .. }
            | Settlement::NodeGone { assumed } => {
                let Some((at, question)) = self.close_question(number, baton) else { return };
                if assumed {
                    baton.question_cancelled(number);
                }
                self.ask_anew(at, Anew::Void { asked_at: question.asked_at() }, baton, effects);
            }
            Settlement::Unanswered => {
                baton.tally.predicate_unanswered();
                baton.books.unsettled.window.answered(true);
                if let Some((at, _)) = self.close_question(number, baton) {
                    self.ask_anew(at, Anew::Unanswered, baton, effects);
                }
            }
            Settlement::Failed { reasons } => {
                baton.tally.predicate_failed();
                self.refuse_member(number, reasons, false, baton, effects);
            }
            Settlement::Presumed { reasons } => {
                baton.tally.predicate_unanswered();
                self.refuse_member(number, reasons, true, baton, effects);
            }
            Settlement::Senseless { verdict } => {
                tracing::error!(application = %self.book.id, question = number, ?verdict,
                    "no answer that makes sense, taken as a refusal for now");
                baton.tally.predicate_unanswered();
                self.ground_bundle(Grounded::Unanswered, None, baton, effects);
            }
        }
    }

    /// Goes on once all answers of a visit are taken: asks about more members, or settles all.
    pub(in crate::application) fn go_on_with_bundle(
        &mut self,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(air) = self.air() else { return };
        if !air.members.iter().all(|member| !member.is_asked || member.passed.is_some()) {
            return self.ask_members(baton);
        }
        for at in 0..air.members.len() {
            self.look_again(at, baton, effects);
        }
        let Some(air) = self.air() else { return };
        if air.to_ask.is_empty() {
            self.settle_bundle(baton, effects);
        } else {
            self.ask_members(baton);
        }
    }

    /// Others may have come or gone since a member passed: whether its answer still counts.
    fn look_again(&mut self, at: usize, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(air) = self.air() else { return };
        let Some(pass) = &air.members[at].passed else { return };
        let Some(entry) = baton.books.allocations.get(air.members[at].id) else { return };
        match confirm(&baton.books, &pass.question, entry.node, &pass.scope) {
            Confirmation::Confirmed => {}
            Confirmation::Void => {
                let asked_at = pass.question.asked_at();
                self.ask_anew(at, Anew::Void { asked_at }, baton, effects);
            }
            Confirmation::Refused => self.member_refused(at, baton, effects),
        }
    }

    /// The question has its answer. Says which member it was about.
    fn close_question(&mut self, number: u64, baton: &mut Baton) -> Option<(usize, OpenQuestion)> {
        let question = baton.books.unsettled.take(number)?;
        if let Some(entry) = baton.books.allocations.get_mut(question.allocation) {
            entry.answered();
        }
        Some((self.air()?.open.remove(&number)?, question))
    }

    /// A node refuses a member, or is presumed to.
    fn refuse_member(
        &mut self,
        number: u64,
        reasons: Vec<(String, u32)>,
        is_presumed: bool,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some((at, _)) = self.close_question(number, baton) else { return };
        let Some(air) = self.air() else { return };
        let member = &mut air.members[at];
        member.was_silent |= is_presumed;
        let ask = member.ask;
        self.note_reasons(ask, reasons);
        self.member_refused(at, baton, effects);
    }

    /// There is no answer that counts: the member is asked about again, on its place.
    fn ask_anew(&mut self, at: usize, why: Anew, baton: &mut Baton, effects: &mut VisitEffects) {
        let now_ns = baton.now_ns;
        let Some(air) = self.air() else { return };
        air.to_ask.push_back(at);
        air.members[at].forget_pass(baton);
        if let Anew::Void { asked_at } = why
            && asked_at < air.moved_at
        {
            return;
        }
        air.members[at].anew += 1;
        let has_enough = air.members[at].anew > ANEW_MAX;
        if air.void_since_ns.is_none() {
            air.void_since_ns = Some(now_ns);
            baton.effects.remind(VOID_MAX, self.alarm(Op::BundleVoid { since_ns: now_ns }));
        }
        if has_enough {
            self.ground_bundle(Grounded::Unanswered, None, baton, effects);
        }
    }

    /// The bundle has waited for too long since an answer was void first.
    pub(in crate::application) fn bundle_void(
        &mut self,
        since_ns: i64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.air().is_some_and(|air| air.void_since_ns == Some(since_ns)) {
            self.ground_bundle(Grounded::Unanswered, None, baton, effects);
        }
    }
}
