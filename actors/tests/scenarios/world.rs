//! Plays a script against a live scheduler in virtual time and records the notifications. Each
//! script is played in several ways that must agree, so that no scenario depends on the number of
//! decisions per offer or on how predicates are evaluated.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::Expect;
use monoceros_actors::image::{ImageReader, ResourceManagerImage};
use monoceros_actors::snapshot::{AllocationSnapshot, QueueSnapshot, UsageSnapshot};
use monoceros_actors::{
    DecisionFilter, ObjectState, Page, ResourceManagerCallback, Scheduler, SchedulerBuilder,
    SchedulerHandle, UpdateError,
};
use monoceros_config as config;
use monoceros_config::reload::{self, StandingQueue};
use monoceros_proto::si::v1 as si;
use monoceros_rules::audit::{About, Answers, Foreseen, QueueFact};
use monoceros_rules::decide::reservations::Patience;
use monoceros_rules::nodes::{NodeOrder, NodeSortPolicy};
use monoceros_rules::values::resources::Resources;

pub(crate) use crate::common::in_virtual_time;
use crate::decided::Decided;
use crate::ending::Endings;
use crate::judge::Judge;
use crate::picture::{Picture, Submitted};
use crate::recording_callback::{Answer, Notification, Predicates, RecordingCallback};
use crate::reported;
use crate::script::{Amounts, Item, QueueWords, Script, Show, Step};
use crate::wire::{self, Message};

/// The default configuration of scripts: one leaf `root.default`, open to everybody.
pub(crate) const ONE_LEAF: &str =
    r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [{name: default}]}]}]}"#;

/// Epoch time at the beginning of every script, s.
pub(crate) const BEGIN_S: i64 = 1_000;

/// The number of steps after which another scheduler goes on. Every step would cost the whole run of the
/// scenarios half a minute more.
const FORKS_EVERY: usize = 3;

/// Ways to run a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Default settings.
    Plain,
    /// An offer returns after each decision.
    OneAtATime,
    /// Like [`Self::OneAtATime`], with every decision, and every decision not made, compared with a
    /// full search.
    Watched,
    /// Predicates are answered later; at most this many placements wait for an answer.
    Later(usize),
    /// Like [`Self::Later`], with the books checked at every offer and random answers.
    Dice(usize),
    /// Another scheduler goes on from the state of this one, again and again ([`FORKS_EVERY`]).
    Forked,
}

/// The result of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Played {
    /// Notifications and shown content, line by line.
    pub(crate) text: String,
    /// Faults that were found.
    pub(crate) wrong: Vec<String>,
}

/// Plays the script with default settings and in four other ways, which must agree, and compares
/// the notifications.
#[track_caller]
pub(crate) fn check(text: &str, expect: &Expect) {
    check_also(text, expect, &[How::OneAtATime, How::Watched, How::Later(1), How::Forked]);
}

/// Plays the script with default settings and in these ways, which must agree, and compares the
/// notifications.
#[track_caller]
pub(crate) fn check_also(text: &str, expect: &Expect, hows: &[How]) {
    let script = Script::parse(text);
    let played = play(&script, How::Plain);
    expect.assert_eq(&played.text);
    assert_eq!(played.wrong, Vec::<String>::new(), "\n{script}");
    for how in hows {
        let again = play(&script, *how);
        assert_eq!(again, played, "{how:?} differs from the default\n{script}");
    }
}

/// Plays the script with default settings only. For scripts that change the answers of predicates,
/// or do not wait after a line: a full search would ask too early or too late.
#[track_caller]
pub(crate) fn check_plain(text: &str, expect: &Expect) {
    check_also(text, expect, &[]);
}

/// Plays the script with a full search of each decision only. The search may report a fault.
#[track_caller]
pub(crate) fn check_watched(text: &str, expect: &Expect) {
    let script = Script::parse(text);
    let played = play(&script, How::Watched);
    expect.assert_eq(&played.text);
    assert_eq!(played.wrong, Vec::<String>::new(), "\n{script}");
}

/// Returns what another process reads of this image. Written again it is the same.
fn read_again(image: &ResourceManagerImage) -> ResourceManagerImage {
    let parts = parts_of(image);
    let mut reader = ImageReader::default();
    for part in &parts {
        reader.add(&mut serde_json::Deserializer::from_str(part)).unwrap();
    }
    let read = reader.finish(image.configuration.clone()).unwrap().unwrap();
    assert_eq!(parts_of(&read), parts);
    read
}

fn parts_of(image: &ResourceManagerImage) -> Vec<String> {
    let mut parts = Vec::new();
    let written = image.each_part(|part| {
        parts.push(serde_json::to_string(part)?);
        Ok::<_, serde_json::Error>(())
    });
    written.unwrap();
    parts
}

/// Plays a script on a clock of its own.
pub(crate) fn play(script: &Script, how: How) -> Played {
    in_virtual_time(async {
        let mut world = World::new(how);
        for step in &script.0 {
            world.step(step).await;
            if world.stands_still {
                break;
            }
        }
        world.settle().await;
        // With other placement rules, applications would go to other queues.
        let is_reloaded = script.0.iter().any(|step| matches!(step, Step::Reload));
        if how == How::Forked && !is_reloaded {
            world.report().await;
        }
        world.scheduler.shutdown().await;
        world.played
    })
}

/// Returns the number of messages to actors of a kind since the start.
pub(crate) fn messages_to(scheduler: &SchedulerHandle, kind: &str) -> u64 {
    counted(scheduler, "monoceros_actor_messages_total", Some(kind))
}

/// Value of a counter; for a family, of the one with a label of this value.
pub(crate) fn counted(scheduler: &SchedulerHandle, family: &str, value: Option<&str>) -> u64 {
    let families = scheduler.metrics().gather();
    let family = families.iter().find(|candidate| candidate.name() == family);
    let meant = family.unwrap().get_metric().iter().find(|metric| {
        value.is_none_or(|value| metric.get_label().iter().any(|label| label.value() == value))
    });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
    let count = meant.unwrap().get_counter().get_value() as u64;
    count
}

/// Registers an RM with this configuration; an empty one is the built-in default.
pub(crate) async fn register(
    scheduler: &SchedulerHandle,
    rm: &str,
    config: &str,
    callback: Arc<dyn ResourceManagerCallback>,
) {
    let (rm_id, config) = (rm.to_owned(), config.to_owned());
    let request = si::RegisterResourceManagerRequest { rm_id, config, ..Default::default() };
    scheduler.register_resource_manager(request, callback).await.unwrap();
}

/// Sends the messages of a script and waits until no further decision is possible.
pub(crate) async fn send_lines(scheduler: &SchedulerHandle, rm: &str, text: &str) {
    for step in Script::parse(text).0 {
        let Step::Send { items, .. } = step else { panic!("`{step}` is no message") };
        send(scheduler, rm, &items).await.unwrap();
    }
    scheduler.settle().await;
}

async fn send(scheduler: &SchedulerHandle, rm: &str, items: &[Item]) -> Result<(), UpdateError> {
    match wire::message(rm, items) {
        Message::Allocation(request) => scheduler.update_allocation(request).await,
        Message::Application(request) => scheduler.update_application(request).await,
        Message::Node(request) => scheduler.update_node(request).await,
    }
}

/// A resource manager of a played script.
struct Side {
    recorder: Arc<RecordingCallback>,
    judge: Judge,
    decided: Decided,
    endings: Endings,
    /// The submitted applications.
    known: Submitted,
    /// Callbacks of earlier sessions, which must receive nothing more.
    old_recorders: Vec<Arc<RecordingCallback>>,
    /// Whether its partition was lost: nothing can be compared until it registers again.
    is_lost: bool,
}

/// A scheduler that plays a script, and its resource managers, each with a recording callback and a
/// judge.
pub(crate) struct World {
    pub(crate) scheduler: SchedulerHandle,
    sides: BTreeMap<String, Side>,
    present: String,
    order: Option<(String, Amounts)>,
    queues: Vec<QueueWords>,
    /// Text of a configuration, which replaces `queues` and `order` if it is set.
    config: Option<String>,
    /// Order, queues and text of the configuration in force.
    in_force: (Option<(String, Amounts)>, Vec<QueueWords>, Option<String>),
    played: Played,
    /// Whether the scheduler failed to settle once, and would fail again.
    stands_still: bool,
    how: How,
    /// The number of steps after which nothing was left to decide.
    n_settled: usize,
    /// The age of asks that may reserve, and how long reservations wait, if a script says so.
    reservations: Option<(Option<Duration>, Duration)>,
}

fn builder(how: How) -> SchedulerBuilder {
    let builder = Scheduler::builder().epoch_ns(BEGIN_S * 1_000_000_000);
    match how {
        How::Plain | How::Later(_) | How::Forked => builder,
        How::OneAtATime => builder.decisions_per_trip(1),
        How::Watched | How::Dice(_) => builder.compare_with_full_search(),
    }
}

impl World {
    pub(crate) fn new(how: How) -> Self {
        Self {
            scheduler: builder(how).start_local().unwrap(),
            sides: BTreeMap::new(),
            present: "rm".to_owned(),
            order: None,
            queues: Vec::new(),
            config: None,
            in_force: (None, Vec::new(), None),
            played: Played::default(),
            stands_still: false,
            how,
            n_settled: 0,
            reservations: None,
        }
    }

    /// Plays the steps of a script, one after another.
    pub(crate) async fn play(&mut self, text: &str) {
        for step in Script::parse(text).0 {
            self.step(&step).await;
        }
    }

    pub(crate) async fn step(&mut self, step: &Step) {
        match step {
            Step::Order { policy, weights } => {
                self.order = Some((policy.clone(), weights.clone()));
            }
            Step::Queue(queue) => self.queues.push(queue.clone()),
            Step::Config(text) => self.config = Some(text.clone()),
            Step::As(rm) => self.present.clone_from(rm),
            Step::Register => self.register().await,
            Step::Forget => {
                self.order = None;
                self.queues.clear();
                self.config = None;
            }
            Step::Reload => self.reload().await,
            Step::State(state) => self.enter(state).await,
            Step::Leave => {
                self.scheduler.stop_resource_manager(&self.present).await.unwrap();
                self.sides.remove(&self.present);
            }
            Step::Send { items, waits } => {
                self.send(items, *waits).await;
                if *waits {
                    self.settle().await;
                }
            }
            Step::Recover(number) => self.recover(*number).await,
            Step::Confirm { which, kind, waits } => {
                let items = self.side().await.endings.confirm(*which, *kind);
                self.send_lines(&items, *waits).await;
            }
            Step::ConfirmAgain(number) => {
                let items = self.side().await.endings.confirm_again(*number);
                self.send_lines(&items, true).await;
            }
            Step::Prefer { key, node, by, among_all } => {
                let said = (*by, *among_all);
                let side = self.side().await;
                side.recorder.predicates().preferred.insert((key.clone(), node.clone()), said);
            }
            Step::Refuse { key, node } => self.answer(key, node, Some(Answer::Refuses)).await,
            Step::Explode { key, node } => self.answer(key, node, Some(Answer::Panics)).await,
            Step::Waver { key, node } => self.answer(key, node, Some(Answer::Wavers)).await,
            Step::Allow { key, node } => self.answer(key, node, None).await,
            Step::Apart => self.side().await.recorder.predicates().apart = true,
            Step::RefuseSome { percent, seed } => {
                self.side().await.recorder.predicates().some = Some((*percent, *seed));
            }
            Step::Reservations { delay, timeout } => {
                assert!(self.sides.is_empty(), "`{step}` comes before anything else");
                self.reservations = Some((*delay, *timeout));
                let scheduler = self.builder().start_local().unwrap();
                std::mem::replace(&mut self.scheduler, scheduler).shutdown().await;
            }
            Step::Wait(time) => {
                tokio::time::sleep(*time).await;
                self.settle().await;
            }
            Step::Settle => self.settle().await,
            Step::Quiet => self.is_quiet().await,
            Step::Show(show) => self.show(*show).await,
        }
        if self.how == How::Forked && !step.leaves_work() {
            self.n_settled += 1;
            if self.n_settled.is_multiple_of(FORKS_EVERY) {
                self.fork().await;
            }
        }
    }

    fn builder(&self) -> SchedulerBuilder {
        let builder = builder(self.how);
        match self.reservations {
            None => builder,
            Some((delay, timeout)) => {
                builder.reservation_delay(delay).reservation_wait_timeout(timeout)
            }
        }
    }

    /// Has another scheduler go on from the state of this one.
    async fn fork(&mut self) {
        let mut images = Vec::new();
        for (rm, side) in &self.sides {
            if side.is_lost {
                return;
            }
            let image = self.scheduler.image(rm).await.unwrap();
            images.push((read_again(&image), Arc::clone(&side.recorder)));
        }
        let Some(at_ns) = images.iter().map(|(image, _)| image.at_ns()).max() else { return };
        let fork = self.builder().epoch_ns(at_ns).start_local().unwrap();
        for (image, recorder) in images {
            fork.restore(image, recorder).await.unwrap();
        }
        std::mem::replace(&mut self.scheduler, fork).shutdown().await;
    }

    /// Has a fresh scheduler receive what each RM would report after a restart. It would report the
    /// same again.
    async fn report(&mut self) {
        for (rm, side) in &self.sides {
            if side.is_lost {
                continue;
            }
            let image = self.scheduler.image(rm).await.unwrap();
            let fresh = self.builder().epoch_ns(image.at_ns()).start_local().unwrap();
            let recorder = Arc::new(RecordingCallback::default());
            register(&fresh, rm, &image.configuration.config, recorder).await;
            fresh.control(rm).await.unwrap().hold(true);
            for partition in &image.partitions {
                reported::send(&fresh, rm, partition.report()).await;
            }
            let again = fresh.image(rm).await.unwrap();
            self.played.wrong.extend(reported::differences(&image, &again));
            fresh.shutdown().await;
        }
    }

    /// Notifications, shown content and faults since the last call.
    pub(crate) fn take_played(&mut self) -> Played {
        std::mem::take(&mut self.played)
    }

    async fn side(&mut self) -> &mut Side {
        if !self.sides.contains_key(&self.present) {
            self.register().await;
        }
        let notified = &self.played.text;
        self.sides
            .get_mut(&self.present)
            .unwrap_or_else(|| panic!("nobody registered:\n{notified}"))
    }

    async fn register(&mut self) {
        let config = match &self.config {
            None if self.queues.is_empty() && self.order.is_none() => ONE_LEAF.to_owned(),
            _ => self.configuration(),
        };
        let request = si::RegisterResourceManagerRequest {
            rm_id: self.present.clone(),
            config,
            ..Default::default()
        };
        let recorder = Arc::new(RecordingCallback::default());
        match self.scheduler.register_resource_manager(request, recorder.clone()).await {
            Ok(_) => {
                self.in_force = (self.order.clone(), self.queues.clone(), self.config.clone());
                recorder.counted().at_once = !matches!(self.how, How::Later(_) | How::Dice(_));
                if let How::Later(in_flight) | How::Dice(in_flight) = self.how {
                    let control = self.scheduler.control(&self.present).await.unwrap();
                    let holds = true;
                    let remote = monoceros_actors::Predicates::Remote { in_flight, holds };
                    control.set_predicates(remote);
                    recorder.predicates().dice = matches!(self.how, How::Dice(_));
                }
                let side = Side {
                    recorder,
                    judge: Judge::default(),
                    decided: Decided::default(),
                    endings: Endings::default(),
                    known: Submitted::default(),
                    old_recorders: Vec::new(),
                    is_lost: false,
                };
                if let Some(old) = self.sides.insert(self.present.clone(), side) {
                    old.recorder.take();
                    let old_recorders =
                        old.old_recorders.into_iter().chain([old.recorder]).collect();
                    self.sides.get_mut(&self.present).unwrap().old_recorders = old_recorders;
                }
            }
            Err(error) => {
                let text = error.to_string();
                self.note(&format!("register refused: {}", text.lines().next().unwrap_or("")));
            }
        }
    }

    fn configuration(&self) -> String {
        let written = || wire::configuration(self.order.as_ref(), &self.queues);
        self.config.clone().unwrap_or_else(written)
    }

    async fn reload(&mut self) {
        self.side().await;
        let request = si::UpdateConfigurationRequest {
            rm_id: self.present.clone(),
            config: self.configuration(),
            ..Default::default()
        };
        let text = request.config.clone();
        match self.scheduler.update_configuration(request).await {
            Ok(_) => {
                self.in_force = (self.order.clone(), self.queues.clone(), self.config.clone());
                self.is_configured(&text).await;
            }
            Err(error) => {
                let text = error.to_string();
                self.note(&format!("reload refused: {}", text.lines().last().unwrap_or("")));
                (self.order, self.queues, self.config) = self.in_force.clone();
            }
        }
        self.settle().await;
    }

    /// Checks that the configured queues exist as configured, and that other remaining queues
    /// drain.
    async fn is_configured(&mut self, text: &str) {
        let partition = format!("[{}]default", self.present);
        let Ok(facts) = self.scheduler.facts(&partition).await else { return };
        let standing = |queue: &QueueFact| {
            let (config, state) = (Arc::clone(&queue.config), queue.state);
            (Arc::clone(&queue.config.path), StandingQueue { config, state })
        };
        let tree: reload::Tree = facts.queues.iter().map(standing).collect();
        let root = &config::parse(text).unwrap().partitions[0].root;
        for change in reload::changes(&tree, &reload::flat(root)) {
            self.played.wrong.push(format!("the reload did not {change}"));
        }
    }

    async fn enter(&mut self, state: &str) {
        self.side().await;
        let to = [ObjectState::Active, ObjectState::Draining, ObjectState::Stopped]
            .into_iter()
            .find(|known| known.text() == state)
            .unwrap_or_else(|| panic!("there is no state `{state}`"));
        match self.scheduler.set_partition_state(&self.present, "default", to).await {
            Ok(old) => self.note(&format!("partition was {old}")),
            Err(error) => self.note(&format!("error: {error}")),
        }
        self.settle().await;
    }

    async fn answer(&mut self, key: &str, node: &str, answer: Option<Answer>) {
        let pair = (key.to_owned(), node.to_owned());
        let mut predicates = self.side().await.recorder.predicates();
        match answer {
            Some(answer) => predicates.answers.insert(pair, answer),
            None if key == "*" && node == "*" => {
                let Predicates { dice, apart, .. } = *predicates;
                *predicates = Predicates { dice, apart, ..Predicates::default() };
                None
            }
            None => predicates.answers.remove(&pair),
        };
    }

    async fn is_quiet(&mut self) {
        let (policy, weights) = self.order.clone().unwrap_or_default();
        let policy = match policy.as_str() {
            "binpacking" => NodeSortPolicy::BinPacking,
            _ => NodeSortPolicy::Fair,
        };
        #[expect(clippy::cast_precision_loss, reason = "weights are small")]
        let weights = weights.0.into_iter().map(|(name, weight)| (name, weight as f64));
        let order = NodeOrder::new(policy, &weights.collect::<Vec<_>>());
        let partition = format!("[{}]default", self.present);
        let Ok(facts) = self.scheduler.facts(&partition).await else { return };
        // Only for asks that can be placed: reservations are not made for their age here.
        let patience = Patience { delay: None, ..Patience::default() };
        let passes = |_: About<'_>, _: &str, _| true;
        let answers = Answers { passes: &passes, prefers: &|_: &str, _: &str| None };
        let next = facts.next_decision(answers, &order, &patience, 0);
        if let Foreseen::Next(decision) = next {
            self.played
                .wrong
                .push(format!("nothing more is decided, but this could be placed: {decision:?}"));
        }
    }

    /// Sends these items, if there are any, and waits if `waits`.
    async fn send_lines(&mut self, items: &[Item], waits: bool) {
        if !items.is_empty() {
            self.send(items, waits).await;
            if waits {
                self.settle().await;
            }
        }
    }

    /// The RM registers again and reports its state. Afterwards its allocations must be charged as
    /// before.
    async fn recover(&mut self, number: u64) {
        self.settle().await;
        let partition = format!("[{}]default", self.present);
        let side = self.side().await;
        let (known, predicates) = (side.known.clone(), side.recorder.predicates().clone());
        let Ok(facts) = self.scheduler.facts(&partition).await else { return };
        let nodes = self.scheduler.nodes(&partition).await.unwrap();
        let mut picture = Picture::of(&facts, &nodes, &known, number);
        self.register().await;
        *self.side().await.recorder.predicates() = predicates;
        for item in picture.applications() {
            self.send_lines(&[item], true).await;
        }
        picture.keeps_active(&self.scheduler.facts(&partition).await.unwrap());
        for item in picture.nodes_and_allocations() {
            self.send_lines(&[item], true).await;
        }
        let after = self.scheduler.facts(&partition).await.unwrap();
        self.played.wrong.extend(picture.differs_from(&after));
        for item in picture.asks() {
            self.send_lines(&[item], true).await;
        }
    }

    async fn send(&mut self, items: &[Item], waits: bool) {
        let side = self.side().await;
        side.judge.sent(items, waits);
        side.decided.sent(items);
        for item in items {
            side.known.sent(item);
        }
        let sent = send(&self.scheduler, &self.present, items).await;
        if let Err(error) = sent {
            self.note(&format!("error: {error}"));
        }
    }

    /// Waits until no further decision is possible, records the notifications, and judges them.
    pub(crate) async fn settle(&mut self) {
        // No time passes while a task is ready: a limit of 1 ms is reached only in a standstill.
        let limit = Duration::from_millis(1);
        if tokio::time::timeout(limit, self.scheduler.settle()).await.is_err() {
            self.played.wrong.push("settling does not end".to_owned());
            self.stands_still = true;
        }
        let many = self.sides.len() > 1;
        let rms: Vec<String> = self.sides.keys().cloned().collect();
        for rm in rms {
            let side = self.sides.get_mut(&rm).unwrap();
            let words = side.recorder.take();
            for notification in &words {
                side.judge.receive(notification);
                side.decided.receive(notification);
                side.endings.receive(notification);
                side.known.receive(notification);
                let prefix = if many { format!("{rm}: ") } else { String::new() };
                writeln!(self.played.text, "{prefix}{}", brief(&notification.to_string())).unwrap();
            }
            if side.old_recorders.iter().any(|recorder| !recorder.take().is_empty()) {
                self.played.wrong.push(format!("an earlier session of {rm} heard something"));
            }
            if words.iter().any(|notification| matches!(notification, Notification::Resync(_))) {
                side.is_lost = true;
            }
            if !side.is_lost {
                self.judge(&rm).await;
            }
        }
    }

    async fn judge(&mut self, rm: &str) {
        let partition = format!("[{rm}]default");
        let Ok(facts) = self.scheduler.facts(&partition).await else { return };
        let nodes = self.scheduler.nodes(&partition).await.unwrap();
        let all = (DecisionFilter::default(), Page::default());
        let kept = self.scheduler.list_decisions(&partition, all.0, all.1).await.unwrap();
        let side = self.sides.get_mut(rm).unwrap();
        let mut wrong = facts.check();
        wrong.extend(side.judge.settles(&facts, &nodes));
        // A fork has no records of the decisions before it.
        if self.how != How::Forked {
            wrong.extend(side.decided.settles(&kept.rows));
        }
        wrong.extend(side.recorder.counted().settles(&facts));
        self.played.wrong.extend(wrong);
    }

    fn note(&mut self, line: &str) {
        writeln!(self.played.text, "{line}").unwrap();
    }

    async fn show(&mut self, show: Show) {
        let partition = format!("[{}]default", self.present);
        if self.side().await.is_lost {
            self.note(&format!("there is no partition `{partition}`"));
            return;
        }
        match show {
            Show::Queues => {
                let root = self.scheduler.queues(&partition).await.unwrap();
                self.show_queue(&root);
            }
            Show::Shapes => {
                let facts = self.scheduler.facts(&partition).await.unwrap();
                let mut queues: Vec<_> = facts.queues.iter().map(shape).collect();
                queues.sort();
                for queue in queues {
                    self.note(&queue);
                }
            }
            Show::Apps => {
                let root = self.scheduler.queues(&partition).await.unwrap();
                self.show_apps(&partition, &root).await;
            }
            Show::Users => {
                for user in self.scheduler.users(&partition).await.unwrap() {
                    self.show_usage("user", &user.user_name, &user.queues);
                }
                for group in self.scheduler.groups(&partition).await.unwrap() {
                    self.show_usage("group", &group.group_name, &group.queues);
                }
            }
            Show::TaskGroups => {
                let root = self.scheduler.queues(&partition).await.unwrap();
                self.show_task_groups(&partition, &root).await;
            }
            Show::Nodes => {
                for node in self.scheduler.nodes(&partition).await.unwrap() {
                    let closed = if node.schedulable { "" } else { " closed" };
                    let (total, used) = (words(&node.capacity), words(&node.allocated));
                    let (occupied, left) = (words(&node.occupied), words(&node.available));
                    let reserved = match &*node.reservations.join(", ") {
                        "" => String::new(),
                        keys => format!(", reserved for [{keys}]"),
                    };
                    self.note(&format!(
                        "{}{closed}: total {total}, used {used}, occupied {occupied}, left {left}{reserved}",
                        node.node_id
                    ));
                }
            }
        }
    }

    fn show_queue(&mut self, queue: &QueueSnapshot) {
        let (used, pending) = (words(&queue.allocated_resource), words(&queue.pending_resource));
        let headroom = words(&queue.headroom.as_resources());
        let priority = match queue.current_priority {
            i32::MIN => "none".to_owned(),
            priority => priority.to_string(),
        };
        let preempting = match &*words(&queue.preempting_resource) {
            "nothing" => String::new(),
            preempting => format!(", of which {preempting} is preempted"),
        };
        let status = match queue.status.as_str() {
            "Active" => String::new(),
            status => format!(" ({status})"),
        };
        self.note(&format!(
            "{}{status}: used {used}{preempting}, pending {pending}, headroom {headroom}, running {}, priority {priority}",
            queue.queue_name, queue.running_apps
        ));
        for child in &queue.children {
            self.show_queue(child);
        }
    }

    fn show_usage(&mut self, what: &str, whose: &str, usage: &UsageSnapshot) {
        let (used, running) = (words(&usage.resource_usage), usage.running_applications.join(", "));
        self.note(&format!("{what} {whose}: used {used}, running [{running}]"));
    }

    async fn show_task_groups(&mut self, partition: &str, root: &QueueSnapshot) {
        let mut queues = vec![root];
        while let Some(queue) = queues.pop() {
            queues.extend(queue.children.iter().rev());
            let apps = self.scheduler.applications(partition, &queue.queue_name).await.unwrap();
            for app in apps {
                for group in app.placeholder_data {
                    self.note(&format!(
                        "{}/{}: {} placeholders of {}, {} replaced, {} timed out",
                        app.application_id,
                        group.task_group_name,
                        group.count,
                        words(&group.min_resource),
                        group.replaced,
                        group.timed_out,
                    ));
                }
            }
        }
    }

    async fn show_apps(&mut self, partition: &str, root: &QueueSnapshot) {
        let mut queues = vec![root];
        while let Some(queue) = queues.pop() {
            queues.extend(queue.children.iter().rev());
            let apps = self.scheduler.applications(partition, &queue.queue_name).await.unwrap();
            for app in apps {
                let held = app.allocations.iter().map(held);
                let asked = app.requests.iter();
                let asked = asked.map(|ask| {
                    if ask.internal {
                        format!("({}) x{}", ask.task_group_name, ask.pending_count)
                    } else {
                        format!("{} x{}", ask.allocation_key, ask.pending_count)
                    }
                });
                self.note(&format!(
                    "{} in {} is {} since {}s: used {}, pending {}, holds [{}], asks [{}]",
                    app.application_id,
                    queue.queue_name,
                    app.application_state,
                    app.submission_time / 1_000_000_000,
                    words(&app.used_resource),
                    words(&app.pending_resource),
                    held.collect::<Vec<_>>().join(", "),
                    asked.collect::<Vec<_>>().join(", "),
                ));
            }
        }
    }
}

/// Formats an allocation by its key, and a placeholder with its group.
fn held(held: &AllocationSnapshot) -> String {
    let key = &held.allocation_key;
    if held.internal {
        return format!("({key})");
    }
    if held.placeholder { format!("{key} for {}", held.task_group_name) } else { key.clone() }
}

/// Formats a queue and its limits.
fn shape(queue: &QueueFact) -> String {
    let config = &queue.config;
    let kind = if config.is_dynamic { "dynamic" } else { "configured" };
    let leaf = if config.is_leaf { "leaf" } else { "parent" };
    let mut line = format!("{} is a {kind} {leaf}", config.path);
    if queue.state != ObjectState::Active {
        write!(line, " ({})", queue.state).unwrap();
    }
    if let Some(max) = &config.max {
        write!(line, ", max {}", words(&max.as_resources())).unwrap();
    }
    if let Some(guaranteed) = &config.guaranteed {
        write!(line, ", guaranteed {}", words(guaranteed)).unwrap();
    }
    if config.max_applications > 0 {
        write!(line, ", apps {}", config.max_applications).unwrap();
    }
    for (name, value) in &config.properties {
        write!(line, ", {name} {value}").unwrap();
    }
    line
}

/// Replaces overlong words of a line by their length.
fn brief(line: &str) -> String {
    let short = |notification: &str| match notification.len() {
        0..=200 => notification.to_owned(),
        bytes => format!("({bytes}_bytes)"),
    };
    line.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// Amounts as a script writes them.
fn words(amounts: &Resources) -> String {
    let entries = amounts.sorted();
    let entries: Vec<_> = entries.iter().map(|(name, q)| format!("{name}={q}")).collect();
    if entries.is_empty() { "nothing".to_owned() } else { entries.join(" ") }
}

/// One byte longer than an id or key may be.
pub(crate) fn too_long() -> String {
    "i".repeat(1025)
}
