//! Preemption for a guarantee: searches victims for an ask or a gang whose queue is below its
//! guarantee, and orders their eviction.
//!
//! # Two rounds
//! The first round visits the queues; if no leaf may lose anything, the search is over. The second
//! round visits the applications of the leaves that may lose something, and a plan is made with the
//! nodes and allocations in the books. Asks like the preemptor's get plans of their own on the same
//! survey, one after another.
//!
//! # The commit
//! A plan is carried out in the step that made it. If the RM is asked first, it is carried out in
//! the step of its last answer, after a test on fresh facts, so that nothing happens between the
//! test and the orders. The orders go to the applications that the plan concerns.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::asks::preemption::NoPreemption;
use monoceros_rules::decide::preemption::{
    Answer, Asking, Claimant, Claimed, Inquiry, MayUse, Next, NoVictimsFor, NodeFacts,
    PLANNED_ANEW, Plan, Planner, Question, QueueFacts, Survey as Ground,
};
use monoceros_rules::nodes::Domain;
use monoceros_rules::pending::nominations::{Coming, Nomination, Preemptor, Room};
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;
use prometheus::HistogramTimer;

use super::super::Task;

use super::Partition;
use super::eviction::Eviction;
use super::limits_left::{LimitsLeft, OtherNominations};
use crate::application::Application;
use crate::events::{Event, EventKind};
use crate::queue::Queue;
use crate::step::{
    AwaitsAnswers, Baton, GangOp, NoVictims, Op, PreemptionOp, PreemptionRequest, QueueSlot, Route,
    Survey,
};

/// Most domains in which places are searched for a group that has to stay in one.
const DOMAINS_TRIED: usize = 16;

/// The first round: the queues, for a preemptor.
pub(in crate::partition) struct VictimSearch {
    who: Preemptor,
    nodes_were_tried: bool,
    purpose: Purpose,
    /// Measures the search; stopped when it succeeds or fails.
    timer: HistogramTimer,
    queues: BTreeMap<QueueSlot, Surveyed>,
    asking: Option<Result<Asking, NoVictimsFor>>,
}

/// A queue that was surveyed.
struct Surveyed {
    above: Option<QueueSlot>,
    facts: QueueFacts,
    /// Whether the queue has room for one more running application.
    may_start: bool,
}

/// The purpose of the facts that are gathered.
enum Purpose {
    /// A plan, after `stale` plans that were out of date before they could be carried out.
    Plan { stale: u32 },
    /// The test of a plan that the RM was asked about, made when the count of changes was
    /// `changes`.
    Test { plan: Box<Plan>, stale: u32, changes: u64 },
}

impl Purpose {
    /// Returns the count of changes when the facts of a plan were taken.
    fn changes(&self, baton: &Baton) -> u64 {
        match self {
            Self::Plan { .. } => baton.books.changes(),
            Self::Test { changes, .. } => *changes,
        }
    }
}

impl VictimSearch {
    /// Searches victims for a preemptor. `nodes_were_tried`: whether the nodes with enough capacity
    /// were tried for it without result.
    pub(in crate::partition) fn for_one(
        who: Preemptor,
        nodes_were_tried: bool,
        timer: HistogramTimer,
    ) -> Self {
        Self { nodes_were_tried, ..Self::again(who, Purpose::Plan { stale: 0 }, timer) }
    }

    /// Begins the search again on fresh facts: nodes may have gained capacity.
    fn again(who: Preemptor, purpose: Purpose, timer: HistogramTimer) -> Self {
        let queues = BTreeMap::new();
        Self { who, nodes_were_tried: false, purpose, timer, queues, asking: None }
    }
}

impl Survey for VictimSearch {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().applications([self.who.application()]).all_queues(baton)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.asking = application.preemptors(baton).asking(self.who);
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let facts = queue.preemption_facts(&baton.books.nominations);
        let surveyed = Surveyed { above: queue.parent(), facts, may_start: queue.may_start() };
        self.queues.insert(queue.slot(), surveyed);
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { who, nodes_were_tried, purpose, timer, queues, asking } = *self;
        let asking = match asking {
            Some(Ok(asking)) => asking,
            Some(Err(NoVictimsFor { key, why })) => {
                timer.stop_and_discard();
                let changes = purpose.changes(baton);
                let found = NoVictims { why, nodes_were_tried, changes, bound_ends_ns: None };
                return not_preempted(who, key, found, partition);
            }
            // The ask was placed or withdrawn.
            None => {
                timer.stop_and_discard();
                return;
            }
        };
        let above = |slot: &QueueSlot| queues.get(slot)?.above;
        let mut on_path = std::iter::successors(Some(QueueSlot(asking.leaf)), above);
        let may_start = on_path.all(|slot| queues.get(&slot).is_none_or(|it| it.may_start));
        let is_kept_from_running = asking.is_starting && !may_start;
        // Parents have smaller slots, so they come before their children.
        let places: BTreeMap<QueueSlot, usize> =
            queues.keys().enumerate().map(|(at, slot)| (*slot, at)).collect();
        let parent = |of: Option<QueueSlot>| of.and_then(|of| places.get(&of).copied());
        let facts: Vec<QueueFacts> = queues
            .into_values()
            .map(|it| QueueFacts { parent: parent(it.above), ..it.facts })
            .collect();
        let Some(&leaf) = places.get(&QueueSlot(asking.leaf)) else {
            debug_assert!(false, "all queues are surveyed");
            return;
        };
        let preemptor = asking.preemptor(leaf, nodes_were_tried);
        let path = Arc::clone(&facts[leaf].path);
        let search = Search {
            path,
            asking,
            nodes_were_tried,
            changes: purpose.changes(baton),
            limits: LimitsLeft::default(),
            timer: Some(timer),
            bound_ends_ns: None,
            at: 0,
            avoided: Vec::new(),
            tried: None,
        };
        if is_kept_from_running {
            return search.found_none(NoPreemption::MayNotStart, partition);
        }
        match Ground::begin(&facts, preemptor, baton.now_ns) {
            Ok(ground) => {
                let others = OtherNominations::default();
                partition.survey_next(Victims { search, purpose, places, ground, others });
            }
            Err(why) => search.found_none(why, partition),
        }
    }
}

/// The second round: applications that may lose something.
struct Victims {
    search: Search,
    purpose: Purpose,
    places: BTreeMap<QueueSlot, usize>,
    ground: Ground,
    /// The applications with nominations that may count for the same limits.
    others: OtherNominations,
}

impl Victims {
    /// Returns the position of the leaf, if it may lose something.
    fn loser(&self, leaf: QueueSlot) -> Option<usize> {
        self.places.get(&leaf).copied().filter(|leaf| self.ground.may_lose(*leaf))
    }
}

impl Survey for Victims {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let nominated = OtherNominations::to_ask(self.search.asking.lane, baton);
        Route::default().applications_that(baton, |entry| {
            self.loser(entry.leaf).is_some() || nominated.contains(&entry.slot)
        })
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.others.ask(application);
        let Some(leaf) = self.loser(application.leaf_facts.slot) else { return };
        let winner = Some(self.search.asking.application);
        self.ground.application(&application.loser(baton).facts(leaf, winner));
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { mut search, purpose, mut ground, others, .. } = *self;
        let Some((who, _)) = search.present() else { return };
        search.limits = others.left(who, search.asking.lane, baton);
        if let Some(until_ns) = room_is_coming(&search.asking, who, baton) {
            search.bound_ends_ns = Some(until_ns);
            return search.found_none(NoPreemption::RoomIsComing, partition);
        }
        let effective = search.asking.effective(&baton.books);
        let preemptor = Claimant { who, effective: &effective };
        ground.books(&baton.books, &baton.books.nominations, preemptor);
        search.bound_ends_ns = ground.bound_ends_ns();
        let mut planner = ground.finish();
        match purpose {
            Purpose::Plan { stale } => search.go_on(planner, stale, partition, baton),
            Purpose::Test { .. } if !search.limits.allow(&search.asking.total()) => {
                search.found_none(NoPreemption::OverLimits, partition);
            }
            Purpose::Test { plan, stale, .. } => {
                let judge = MayUse::new(&search.asking, &mut baton.books.nodes, &[]);
                match planner.recheck(&plan, &judge) {
                    Ok(plan) => {
                        if search.take(&plan, &mut planner, partition, baton) {
                            search.changes = baton.books.changes();
                            search.go_on(planner, 0, partition, baton);
                        }
                    }
                    Err(why) if stale + 1 < PLANNED_ANEW => {
                        tracing::debug!(%why, "victims are looked for anew");
                        let purpose = Purpose::Plan { stale: stale + 1 };
                        partition.survey_next(search.again(who, purpose, baton));
                    }
                    Err(why) => search.found_none(NoPreemption::Stale(why), partition),
                }
            }
        }
    }
}

/// A search for victims: for some asks that are alike, one after another, or for a gang.
struct Search {
    /// The leaf of the preemptors.
    path: Arc<str>,
    asking: Asking,
    nodes_were_tried: bool,
    /// The count of changes when the facts of the plans were taken.
    changes: u64,
    /// The amounts that the limits of user and group leave to the preemptors.
    limits: LimitsLeft,
    /// The timer of the next preemptor, once its search begins.
    timer: Option<HistogramTimer>,
    /// The earliest end of the bounds that protect allocations from them, ns since the epoch.
    bound_ends_ns: Option<i64>,
    /// The index of the next preemptor.
    at: usize,
    /// Domains that were tried without result for a task group of a gang.
    avoided: Vec<(usize, Domain)>,
    /// The domain that was tried last.
    tried: Option<(usize, Domain)>,
}

impl Search {
    /// Returns the next preemptor; for an ask, with its specification.
    fn present(&self) -> Option<(Preemptor, Option<&Arc<AskSpec>>)> {
        let (who, spec) = self.asking.preemptors.get(self.at)?;
        Some((*who, spec.as_ref()))
    }

    /// Searches victims for the remaining preemptors, as long as some are found.
    fn go_on(
        mut self,
        mut planner: Planner,
        stale: u32,
        partition: &mut Partition,
        baton: &mut Baton,
    ) {
        while self.present().is_some() {
            if !self.limits.allow(&self.asking.total()) {
                return self.found_none(NoPreemption::OverLimits, partition);
            }
            self.timer.get_or_insert_with(|| baton.tally.preemption_try());
            let inquiry = match self.inquire(&mut planner) {
                Ok(inquiry) => inquiry,
                Err(why) => return self.found_none(why, partition),
            };
            let asked = Asked { search: self, planner, inquiry, stale };
            // Without a result, the search continues when the RM has answered.
            let Some((search, back, plan)) = asked.proceed(partition, baton) else { return };
            (self, planner) = (search, back);
            match plan {
                Ok(plan) if self.take(&plan, &mut planner, partition, baton) => {}
                Ok(_) => return,
                Err(why) => return self.found_none(why, partition),
            }
        }
    }

    fn inquire(&mut self, planner: &mut Planner) -> Result<Inquiry, NoPreemption> {
        self.tried = None;
        Inquiry::begin(planner, |member| self.asking.has_ask(member))
    }

    /// Whether a plan may be found if a group of a gang is placed in another domain than the one
    /// that was tried without result.
    fn avoids(&mut self) -> bool {
        let Some(tried) = self.tried.take().filter(|_| self.avoided.len() < DOMAINS_TRIED) else {
            return false;
        };
        self.avoided.push(tried);
        true
    }

    /// Carries out a plan for the next preemptor. Returns whether the next plan may be made on
    /// these facts. Nothing is carried out if the application would take back what it lost.
    fn take(
        &mut self,
        plan: &Plan,
        planner: &mut Planner,
        partition: &mut Partition,
        baton: &mut Baton,
    ) -> bool {
        let (winner, now_ns) = (self.asking.application, baton.now_ns);
        if let Some(loser) = baton.books.evictions.loop_with(winner, &plan.losers, now_ns) {
            let (why, ends_ns) = break_loop(winner, loser, baton);
            self.bound_ends_ns = self.bound_ends_ns.into_iter().chain(ends_ns).min();
            self.found_none(why, partition);
            return false;
        }
        if self.present().is_none() {
            return false;
        }
        self.timer = None;
        partition.agenda.extend(self.carry_out(plan, baton));
        self.limits.take(&self.asking.total());
        self.at += 1;
        // If the plan ends only holds, or reservations of other asks, there is capacity at once.
        partition.may_decide = true;
        if plan.has_victims() {
            planner.commit(plan);
            return true;
        }
        // This preemptor is placed in this step; the next search sees the capacity that is left.
        if let Some((who, _)) = self.present() {
            let next =
                PreemptionRequest::ForGuarantee { who, nodes_were_tried: self.nodes_were_tried };
            partition.inquiries.extend(now_ns, [next]);
        }
        false
    }

    /// Takes fresh facts for the next preemptor.
    fn again(self, who: Preemptor, purpose: Purpose, baton: &Baton) -> VictimSearch {
        let timer = self.timer.unwrap_or_else(|| baton.tally.preemption_try());
        VictimSearch::again(who, purpose, timer)
    }

    /// Reports that there are no victims for the next preemptor.
    fn found_none(&self, why: NoPreemption, partition: &mut Partition) {
        let Some((who, spec)) = self.present() else { return };
        let key = spec.map(|spec| Arc::clone(&spec.key));
        let nodes_were_tried = self.nodes_were_tried;
        let (changes, bound_ends_ns) = (self.changes, self.bound_ends_ns);
        let found = NoVictims { why, nodes_were_tried, changes, bound_ends_ns };
        not_preempted(who, key, found, partition);
    }

    /// Returns the orders by which a plan is carried out for the next preemptor.
    fn carry_out(&self, plan: &Plan, baton: &mut Baton) -> Vec<Task> {
        let Some((who, spec)) = self.present() else { return Vec::new() };
        for place in plan.places.iter().filter(|place| place.cancels) {
            let others = baton.books.reservations.on_node(place.node).map(|(other, _)| other);
            for other in others.filter(|other| Preemptor::Ask(*other) != who).collect::<Vec<_>>() {
                baton.unreserve(other, End::Preempted);
            }
        }
        let mut eviction = Eviction::of(plan.holds.iter().chain(&plan.victims), baton);
        eviction.count(Some(who.application()), baton);
        let nomination = Nomination {
            queue: Arc::clone(&self.path),
            amount: self.asking.total(),
            since_ns: baton.now_ns,
            arrival: baton.books.last_arrival(),
            victims: std::mem::take(&mut eviction.victims),
            losers: plan.losers.clone(),
            rooms: if self.asking.is_gang() { self.rooms(plan) } else { Vec::new() },
        };
        baton.nominate(who, nomination);
        let grounds = Arc::new(Grounds::Guarantee {
            application: baton.directory.application_id(who.application()),
            key: spec.map(|spec| Arc::clone(&spec.key)),
            pod: spec.and_then(|spec| spec.pod().cloned()),
            queue: Arc::clone(&self.path),
        });
        let mut orders: Vec<Task> = eviction.orders(&grounds, &plan.chosen).collect();
        let nominated = match (spec, plan.places.first()) {
            (Some(spec), Some(place)) => {
                let node = Arc::clone(baton.books.nodes.id(place.node));
                Some(Op::Preemption(PreemptionOp::Nominated { key: Arc::clone(&spec.key), node }))
            }
            _ if !plan.has_victims() => Some(Op::Gang(GangOp::RoomsAreFree)),
            _ => None,
        };
        orders.extend(nominated.map(|op| Task::Visit(who.application(), vec![op])));
        orders
    }

    /// Returns the capacity to keep for each member of the gang.
    fn rooms(&self, plan: &Plan) -> Vec<Room> {
        let rooms = plan.places.iter().map(|place| {
            let (group, amount) = self.asking.room_of(place.member);
            Room { group, node: place.node, amount: amount.clone() }
        });
        rooms.collect()
    }
}

/// A search whose plan the RM is asked about.
pub(in crate::partition) struct Asked {
    search: Search,
    planner: Planner,
    inquiry: Inquiry,
    stale: u32,
}

impl Asked {
    /// Continues until the plan is made, or answers have to be waited for.
    fn proceed(
        mut self,
        partition: &mut Partition,
        baton: &mut Baton,
    ) -> Option<(Search, Planner, Result<Plan, NoPreemption>)> {
        loop {
            let Search { asking, avoided, .. } = &self.search;
            let judge = MayUse::new(asking, &mut baton.books.nodes, avoided);
            let next = self.inquiry.next(&mut self.planner, &judge);
            if let Some(tried) = judge.tried() {
                self.search.tried = Some(tried);
            }
            let questions = match next {
                Next::Ask(questions) => questions,
                Next::Done(Err(_)) if self.search.avoids() => {
                    match self.search.inquire(&mut self.planner) {
                        Ok(inquiry) => self.inquiry = inquiry,
                        Err(why) => return Some((self.search, self.planner, Err(why))),
                    }
                    continue;
                }
                Next::Done(plan) => return Some((self.search, self.planner, plan)),
            };
            let Search { asking, at, .. } = &self.search;
            let key = |question: &Question| asking.key_of(*at, question.member).cloned();
            let questions: Vec<_> =
                questions.into_iter().filter_map(|it| Some((key(&it)?, it))).collect();
            match partition.ask_about_victims(asking.application, &questions, baton) {
                Ok(answers) => self.inquiry.answer(&mut self.planner, &answers),
                Err(number) => {
                    partition.await_victims(number, Box::new(self));
                    return None;
                }
            }
        }
    }
}

impl AwaitsAnswers for Asked {
    /// Tests the plan on fresh facts before it is carried out, since steps have run since it was
    /// made.
    fn answered(
        mut self: Box<Self>,
        answers: &[Answer],
        partition: &mut Partition,
        baton: &mut Baton,
    ) {
        self.inquiry.answer(&mut self.planner, answers);
        let stale = self.stale;
        let Some((search, _, plan)) = self.proceed(partition, baton) else { return };
        let Some((who, _)) = search.present() else { return };
        match plan {
            Ok(plan) => {
                let purpose =
                    Purpose::Test { plan: Box::new(plan), stale, changes: search.changes };
                partition.agenda.push_back(Task::survey(search.again(who, purpose, baton)));
            }
            Err(why) => search.found_none(why, partition),
        }
    }
}

/// Returns the time until which victims without a preemptor are expected to free enough capacity,
/// ns since the epoch; `None` if they will not. For a gang all nodes count together.
fn room_is_coming(asking: &Asking, who: Preemptor, baton: &Baton) -> Option<i64> {
    let books = &baton.books;
    let coming = books.nominations.coming(baton.now_ns, baton.settings.patience.wait_timeout);
    if asking.is_gang() {
        let mut sum = Resources::new();
        for here in coming.values() {
            sum.add(&here.amount);
        }
        let until_ns = coming.values().map(|here| here.until_ns).min()?;
        return sum.holds(&asking.total()).then_some(until_ns);
    }
    let effective = asking.effective(books);
    let preemptor = Claimant { who, effective: &effective };
    let is_enough = |node: NodeSlot, here: &Coming| {
        let facts = NodeFacts::of(books, &books.nominations, node, preemptor);
        let (kind, amount) = asking.wanted();
        facts.is_open
            && facts.claim == Claimed::Free
            && facts.available.plus(&here.amount).holds(amount)
            && kind.may_use(node, &here.who, &books.nodes)
    };
    let enough = coming.iter().filter(|(node, here)| is_enough(**node, here));
    enough.map(|(_, here)| here.until_ns).max()
}

/// Notes that there are no victims for a preemptor.
fn not_preempted(
    who: Preemptor,
    key: Option<Arc<str>>,
    found: NoVictims,
    partition: &mut Partition,
) {
    let op = Op::Preemption(PreemptionOp::NotPreempted { key, found });
    partition.agenda.push_back(Task::Visit(who.application(), vec![op]));
}

/// Bars the winner from evicting allocations of this loser for a while, because it would take back
/// what it lost to it. Returns the reason, and the end of the time, ns since the epoch.
fn break_loop(
    winner: ApplicationSlot,
    loser: ApplicationSlot,
    baton: &mut Baton,
) -> (NoPreemption, Option<i64>) {
    // The settings of the loser's leaf decide, as in all evictions of its applications.
    let leaf = baton.directory.applications[loser].leaf;
    let bounds = baton.directory.queue(leaf).facts.config.settings.eviction;
    let (evictions, now_ns) = (&mut baton.books.evictions, baton.now_ns);
    evictions.bar(winner, loser, &bounds, now_ns);
    let ends_ns = evictions.bound_ends_ns(loser, Some(winner), &bounds, now_ns);
    let [winner, with] = [winner, loser].map(|slot| baton.directory.application_id(slot));
    tracing::warn!(application = %winner, from = %with, kind = %winner,
        "would take back what it lost a moment ago: nothing is preempted");
    let why = NoPreemption::Loop { with: Arc::clone(&with) };
    let event = |at| Event::of(EventKind::PreemptionLoop, &winner, at).referring(&with);
    baton.happens(event);
    (why, ends_ns)
}
