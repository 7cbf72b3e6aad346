//! One registration of a resource manager, from the edge's side: where the scheduler's answers go,
//! and whether it may decide anything.
//!
//! # Invariants
//! * The scheduler is on hold for the resource manager unless the session is [running](state) and
//!   not too much waits to be sent. Whoever changes either calls `Session::review`, which looks
//!   at what is so now and tells the scheduler in the order in which it looked.
//! * A session that ends does so in [`Session::over`], whatever ends it.
//! * Locks: that of the life before those of an outbox, never the other way round.

pub mod backlog;
pub mod state;
pub mod terms;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use monoceros_actors::{
    PredicateQuestion, QuestionId, ResourceManagerCallback, ResourceManagerControl, RmState,
    StateDump,
};
use monoceros_proto::callback::v1::Hello;
use monoceros_proto::si::legacy::v0::UpdateResponse;
use monoceros_proto::si::v1 as si;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use self::backlog::Backlog;
use self::state::{Happening, Life, State};
use self::terms::Terms;
use super::attach::{self, Attachment, Delivery};
use super::end::{Cause, End};
use super::kind::{Allocations, Applications, Dialect, Kind, Nodes};
use super::legacy::options::Options;
use super::legacy::{self, Legacy, Translator};
use super::line::Line;
use super::outbox::{AnyOutbox, Outbox, Overflow, Unbindable};

/// The session that a registration opened. It is the callback that the scheduler calls.
pub struct Session {
    registrant: Registrant,
    terms: Terms,
    /// The queue configuration that it brought, or was given since; empty if none.
    config: Mutex<String>,
    /// The instance that registered or spoke last, if it says.
    instance: Mutex<Option<String>>,
    dialect: OnceLock<Dialect>,
    /// Why client and scheduler no longer know the same: no stream may bind any more.
    lost: OnceLock<Cause>,
    /// How it ended.
    end: OnceLock<End>,
    control: OnceLock<ResourceManagerControl>,
    life: Mutex<Conduct>,
    deadline: watch::Sender<Option<Instant>>,
    backlog: Arc<Backlog>,
    /// Too much waits to be sent.
    is_behind: AtomicBool,
    /// For allocation streams.
    pub allocations: Outbox<si::AllocationResponse>,
    /// For application streams.
    pub applications: Outbox<si::ApplicationResponse>,
    /// For node streams.
    pub nodes: Outbox<si::NodeResponse>,
    /// For the one stream of the oldest dialect.
    pub legacy: Translator,
    /// The callback side.
    attachment: Arc<Attachment>,
}

/// What a registration said of itself.
#[derive(Clone, Debug, Default)]
pub struct Registrant {
    /// Whose session it is.
    pub rm_id: String,
    /// Larger than that of any earlier session, restarts included.
    pub number: u64,
    /// Of the resource manager.
    pub version: String,
    /// Never empty.
    pub policy_group: String,
    /// The queue configuration that it brought; empty if none.
    pub config: String,
    /// About the resource manager's program.
    pub build_info: BTreeMap<String, String>,
    /// Nanoseconds since the epoch.
    pub registered_at_ns: i64,
}

/// What can be told of a session.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// What it said of itself.
    pub registrant: Registrant,
    /// Where it is in its life.
    pub state: State,
    /// Since when it is paused, in nanoseconds since the epoch.
    pub paused_at_ns: Option<i64>,
    /// None before the first stream.
    pub dialect: Option<Dialect>,
    /// Kinds of its open streams.
    pub open_streams: Vec<&'static str>,
    /// What waits to be sent.
    pub outbox_items: usize,
    /// The instance that registered or spoke last, if it says.
    pub instance: Option<String>,
    /// Why it takes no more streams, when that is so.
    pub lost: Option<String>,
}

/// How a stream asks to be bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding<'m> {
    /// The number of the last message that its client received.
    pub resume: Option<u64>,
    /// The instance whose stream it is.
    pub instance: Option<&'m str>,
}

struct Conduct {
    life: Life,
    registered: Instant,
    /// What the scheduler was told last.
    held: bool,
}

impl Session {
    /// A session without streams.
    pub fn new(
        registrant: Registrant,
        terms: Terms,
        options: Options,
        instance: Option<String>,
        attachment: Attachment,
    ) -> Self {
        let now = Instant::now();
        let life = Life::new(terms.patience, now);
        let backlog = Arc::new(Backlog::new(terms.marks()));
        let bounds = terms.bounds;
        Self {
            config: Mutex::new(registrant.config.clone()),
            registrant,
            terms,
            instance: Mutex::new(instance),
            dialect: OnceLock::new(),
            lost: OnceLock::new(),
            end: OnceLock::new(),
            control: OnceLock::new(),
            deadline: watch::Sender::new(life.deadline()),
            life: Mutex::new(Conduct { life, registered: now, held: false }),
            is_behind: AtomicBool::new(false),
            allocations: Outbox::new(bounds, &backlog),
            applications: Outbox::new(bounds, &backlog),
            nodes: Outbox::new(bounds, &backlog),
            legacy: Translator::new(bounds, &backlog, options),
            backlog,
            attachment: Arc::new(attachment),
        }
    }

    /// Whose session it is.
    pub fn rm_id(&self) -> &str {
        &self.registrant.rm_id
    }

    /// Its number: larger than that of any earlier session, restarts included.
    pub fn number(&self) -> u64 {
        self.registrant.number
    }

    /// What the registration said.
    pub fn registrant(&self) -> &Registrant {
        &self.registrant
    }

    /// The resource manager was given another queue configuration; none if that is empty.
    pub fn was_given(&self, config: String) {
        *self.config.lock().expect("no holder panics") = config;
    }

    /// Whether it brought a queue configuration, or was given one since, that is not `config`.
    pub fn brought_other_than(&self, config: &str) -> bool {
        let own = self.config.lock().expect("no holder panics");
        !own.is_empty() && *own != config
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.conduct().life.state()
    }

    /// What steers the scheduler's side of it; there once the scheduler has accepted it.
    pub fn control(&self) -> Option<&ResourceManagerControl> {
        self.control.get()
    }

    /// The kinds of stream, each with its outbox and whether it carries allocations.
    fn outboxes(&self) -> [(&'static str, bool, &dyn AnyOutbox); 4] {
        [
            (Allocations::NAME, Allocations::CARRIES_ALLOCATIONS, &self.allocations),
            (Applications::NAME, Applications::CARRIES_ALLOCATIONS, &self.applications),
            (Nodes::NAME, Nodes::CARRIES_ALLOCATIONS, &self.nodes),
            (Legacy::NAME, Legacy::CARRIES_ALLOCATIONS, &self.legacy.outbox),
        ]
    }

    /// Everything about it.
    pub fn status(&self) -> SessionStatus {
        let bound = self.outboxes().into_iter().filter(|(_, _, outbox)| outbox.is_bound());
        let attach = self.attachment.is_attached().then_some("attach");
        let open_streams = bound.map(|(name, _, _)| name).chain(attach).collect();
        let conduct = self.conduct();
        let state = conduct.life.state();
        let age = conduct.life.since().saturating_duration_since(conduct.registered);
        let paused_at_ns = (state == State::Paused).then(|| {
            let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.registrant.registered_at_ns.saturating_add(age)
        });
        SessionStatus {
            registrant: self.registrant.clone(),
            state,
            paused_at_ns,
            dialect: self.dialect.get().copied(),
            open_streams,
            outbox_items: self.backlog.load().items,
            instance: self.instance.lock().expect("no holder panics").clone(),
            lost: self.lost.get().map(ToString::to_string),
        }
    }

    /// The scheduler has accepted it; it decides nothing until a stream can carry it.
    pub fn begin(self: &Arc<Self>, control: ResourceManagerControl) {
        let delivery: Weak<dyn Delivery> = Arc::<Self>::downgrade(self);
        self.attachment.begin(control.clone(), delivery);
        self.control.get_or_init(|| control);
        self.reorder(&self.terms);
        self.review();
    }

    /// Other terms hold from now on. Outboxes stay as they are.
    pub fn configure(&self, terms: &Terms, options: Options, callback: attach::Options) {
        {
            let mut conduct = self.conduct();
            conduct.life.set_patience(terms.patience);
            self.deadline.send_replace(conduct.life.deadline());
        }
        self.reorder(terms);
        if let Some(control) = self.control.get() {
            control.set_strict_enums(options.strict_enums);
        }
        self.legacy.set_options(options);
        self.attachment.configure(callback);
    }

    fn reorder(&self, terms: &Terms) {
        // Nothing of the oldest dialect comes by another stream.
        if let Some(control) = self.control.get()
            && !self.speaks_legacy()
        {
            control.set_reorder_window(terms.reorder_window);
            control.set_reorder_items(terms.reorder_items);
        }
    }

    /// An instance goes on with it.
    pub fn taken_up_by(&self, instance: Option<String>) {
        if instance.is_some() {
            *self.instance.lock().expect("no holder panics") = instance;
        }
    }

    /// How it ended, once it did.
    pub fn ended(&self) -> Option<&End> {
        self.end.get()
    }

    /// Whether a client may go on with it.
    pub fn is_usable(&self) -> bool {
        self.lost.get().is_none() && self.end.get().is_none()
    }

    /// Makes `line` the stream of its kind.
    pub fn bind<K: Kind>(
        self: &Arc<Self>,
        line: &Arc<Line>,
        binding: Binding<'_>,
    ) -> Result<(), End> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let dialect = *self.dialect.get_or_init(|| K::DIALECT);
        if dialect != K::DIALECT {
            return Err(End::DialectMixed { has: dialect });
        }
        line.set_session(self);
        match K::outbox(self).bind(line, binding.resume, binding.instance) {
            Ok(()) => {}
            Err(Unbindable::Closed) => return Err(self.refusal().unwrap_or(End::Internal(GONE))),
            Err(Unbindable::Unknown) => return Err(End::ResyncRequired(Cause::Missed)),
            Err(Unbindable::Gap) => {
                warn!(rm = self.rm_id(), kind = K::NAME, "messages of a lost stream are missing");
                self.lost.get_or_init(|| Cause::Missed);
                self.review();
                return Err(End::ResyncRequired(Cause::Missed));
            }
        }
        if let Some(instance) = binding.instance {
            self.taken_up_by(Some(instance.to_owned()));
        }
        self.review();
        Ok(())
    }

    /// Its callback side.
    pub fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// Makes `line` the callback stream. It carries no allocations: the session runs without it.
    pub fn attach(
        self: &Arc<Self>,
        line: &Arc<Line>,
        hello: &Hello,
        scheduler_id: String,
    ) -> Result<(), End> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        line.set_session(self);
        self.attachment.attach(line, hello, scheduler_id, self.number())
    }

    /// Why no stream may bind, if so.
    fn refusal(&self) -> Option<End> {
        let lost = self.lost.get().map(|cause| End::ResyncRequired(cause.clone()));
        lost.or_else(|| self.end.get().cloned())
    }

    /// The next message for `line`, if it is the stream of its kind.
    pub fn take<K: Kind>(&self, line: &Arc<Line>) -> Option<K::Reply> {
        let reply = K::outbox(self).take(line)?;
        if self.is_behind.load(Ordering::SeqCst) && !self.backlog.is_too_much(true) {
            self.review();
        }
        Some(reply)
    }

    /// `line` has ended.
    pub fn release<K: Kind>(&self, line: &Arc<Line>) {
        K::outbox(self).release(line);
        self.review();
    }

    /// A message of the client could not be read: open streams go on, later ones are refused until
    /// the client registers again and says everything anew.
    pub fn lose_items(&self) {
        self.lost.get_or_init(|| Cause::ItemsLost);
    }

    /// Client and scheduler no longer know the same: its streams end, and no other may bind. What
    /// it holds stays until it registers again or has been paused for too long. Returns how many
    /// streams were open.
    pub fn lose(&self, cause: Cause) -> usize {
        self.lost.get_or_init(|| cause.clone());
        let closed = self.over(&End::ResyncRequired(cause));
        self.happens(Happening::Lost);
        closed
    }

    /// The session is stopped, and everything that it held is gone.
    pub fn stop(&self, end: &End) {
        self.happens(Happening::Stopped);
        self.over(end);
    }

    /// Ends all streams and drops what waits. Whatever ends a session, or the client's part in it,
    /// comes by here. Returns how many streams were open.
    pub fn over(&self, end: &End) -> usize {
        self.end.get_or_init(|| end.clone());
        let attached = usize::from(self.attachment.is_attached());
        self.attachment.close(end);
        let outboxes = self.outboxes().into_iter();
        attached + outboxes.filter(|(_, _, outbox)| outbox.close(end)).count()
    }

    /// Forgets sent messages that time has confirmed.
    pub fn forget_confirmed(&self) {
        for (_, _, outbox) in self.outboxes() {
            outbox.forget_confirmed();
        }
    }

    /// How long a message is kept after it was sent.
    pub fn grace(&self) -> Duration {
        self.terms.bounds.grace
    }

    /// Announces when the session is overdue in its present state; closed when it has stopped.
    pub fn deadlines(&self) -> watch::Receiver<Option<Instant>> {
        self.deadline.subscribe()
    }

    /// Lets an overdue session go where that leads. Returns whether it has to be stopped.
    pub fn expire(&self) -> bool {
        let mut conduct = self.conduct();
        let now = Instant::now();
        if !conduct.life.is_overdue(now) {
            return false;
        }
        if conduct.life.state().after(Happening::Overdue) == State::Stopped {
            // Not by itself: the scheduler has to be told, and nobody may be let in meanwhile.
            return true;
        }
        self.moves(&mut conduct, Happening::Overdue);
        false
    }

    /// Looks at what is so now: is there a stream for allocations, and does it keep up?
    fn review(&self) {
        let mut conduct = self.conduct();
        let mut outboxes = self.outboxes().into_iter();
        let is_attached = outboxes.any(|(_, carries, outbox)| carries && outbox.is_bound());
        let happening = if is_attached { Happening::Attached } else { Happening::Detached };
        let was_behind = self.is_behind.load(Ordering::SeqCst);
        let mut is_behind = self.backlog.is_too_much(was_behind);
        if is_behind != was_behind {
            self.is_behind.store(is_behind, Ordering::SeqCst);
        }
        // Who took the last of it before that was stored did not know that there is a hold to lift.
        if is_behind && !was_behind && !self.backlog.is_too_much(true) {
            is_behind = false;
            self.is_behind.store(is_behind, Ordering::SeqCst);
        }
        if is_behind != was_behind {
            let items = self.backlog.load().items;
            if is_behind {
                info!(rm = self.rm_id(), items, "too much waits to be read, nothing is decided");
            } else {
                info!(rm = self.rm_id(), items, "little waits to be read, decisions go on");
            }
        }
        self.moves(&mut conduct, happening);
    }

    fn happens(&self, happening: Happening) {
        self.moves(&mut self.conduct(), happening);
    }

    /// Under the lock of the life, so that the scheduler hears of changes in their order.
    fn moves(&self, conduct: &mut Conduct, happening: Happening) {
        if conduct.life.takes(happening, Instant::now()) {
            let (session, state) = (self.number(), conduct.life.state().name());
            info!(rm = self.rm_id(), session, state, "session");
            self.deadline.send_replace(conduct.life.deadline());
        }
        let held = conduct.life.state() != State::Running || self.is_behind.load(Ordering::SeqCst);
        if held != conduct.held
            && let Some(control) = self.control.get()
        {
            conduct.held = held;
            control.hold(held);
        }
    }

    /// Says something in the oldest dialect.
    pub fn push_legacy(&self, response: UpdateResponse) {
        self.say(&self.legacy.outbox, response, Legacy::NAME);
    }

    fn speaks_legacy(&self) -> bool {
        self.dialect.get() == Some(&Dialect::Legacy)
    }

    /// Adds a message to an outbox; the client is too slow when it is full.
    fn say<R: super::reply::Reply>(&self, outbox: &Outbox<R>, reply: R, kind: &'static str) {
        if let Err(Overflow) = outbox.push(reply) {
            warn!(rm = self.rm_id(), kind, "client reads too slowly, it has to register again");
            self.lose(Cause::Overflow);
        } else if !self.is_behind.load(Ordering::SeqCst) && self.backlog.is_too_much(false) {
            self.review();
        }
    }

    fn conduct(&self) -> MutexGuard<'_, Conduct> {
        self.life.lock().expect("no holder panics")
    }
}

/// An outbox is closed only by [`Session::over`], which says why first.
const GONE: &str = "the session has ended";

impl ResourceManagerCallback for Session {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.attachment.allocations(response);
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(legacy::response::application(response));
        }
        self.say(&self.applications, response, Applications::NAME);
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.attachment.nodes(&response);
        if self.speaks_legacy() {
            return self.push_legacy(legacy::response::node(response));
        }
        self.say(&self.nodes, response, Nodes::NAME);
    }

    fn dialect(&self) -> &'static str {
        self.dialect.get().map_or("none", |dialect| dialect.name())
    }

    fn application_placed(&self, partition: &str, application_id: &str, queue: Option<&str>) {
        if self.speaks_legacy() {
            self.legacy.placed(partition, application_id, queue);
        }
    }

    fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        self.attachment.ask_predicates(questions);
    }

    fn cancel_predicates(&self, questions: Vec<QuestionId>) {
        self.attachment.cancel_predicates(&questions);
    }

    fn send_events(&self, events: Vec<si::EventRecord>) {
        self.attachment.events(events);
    }

    fn update_container_scheduling_state(
        &self,
        states: Vec<si::UpdateContainerSchedulingStateRequest>,
    ) {
        self.attachment.container_states(states);
    }

    fn state_dump(&self) -> Option<&dyn StateDump> {
        self.attachment.tells_state().then_some(self)
    }

    fn resync_required(&self, cause: &str) {
        warn!(rm = self.rm_id(), cause, "state lost, the resource manager has to register again");
        self.lose(Cause::StateLost(cause.to_owned()));
    }
}

impl Delivery for Session {
    fn deliver(&self, response: si::AllocationResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(self.legacy.allocation(response));
        }
        self.say(&self.allocations, response, Allocations::NAME);
    }
}

impl StateDump for Session {
    fn rm_state(&self) -> RmState {
        let attachment = Arc::clone(&self.attachment);
        Box::pin(async move { attachment.rm_state().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(ids: &[&str]) -> si::NodeResponse {
        let accepted =
            ids.iter().map(|id| si::AcceptedNode { node_id: (*id).to_owned() }).collect();
        si::NodeResponse { accepted, ..si::NodeResponse::default() }
    }

    fn session_with(extra: &[(&str, &str)]) -> Arc<Session> {
        let registrant = Registrant { rm_id: "rm".to_owned(), number: 1, ..Default::default() };
        let terms = terms::tests::terms(extra);
        let attachment = Attachment::for_tests();
        Arc::new(Session::new(registrant, terms, Options::default(), None, attachment))
    }

    fn session() -> Arc<Session> {
        session_with(&[("session.outboxItems", "2")])
    }

    fn bind<K: Kind>(session: &Arc<Session>) -> Result<Arc<Line>, End> {
        let line = Arc::new(Line::new());
        session.bind::<K>(&line, Binding::default()).map(|()| line)
    }

    #[test]
    fn a_client_that_does_not_read_loses_all_its_streams_and_has_to_register_again() {
        let session = session();
        let nodes = bind::<Nodes>(&session).unwrap();
        let applications = bind::<Applications>(&session).ok().unwrap();
        session.update_node(accepted(&["n1", "n2"]));
        session.update_node(accepted(&["n3"]));
        for line in [&nodes, &applications] {
            assert!(matches!(line.end(), Some(End::ResyncRequired(Cause::Overflow))));
        }
        assert!(session.take::<Nodes>(&nodes).is_none());
        assert!(matches!(bind::<Nodes>(&session), Err(End::ResyncRequired(_))));
        assert_eq!(session.state(), State::Paused);
    }

    #[test]
    fn a_loss_in_the_scheduler_ends_all_streams() {
        let session = session();
        let open = bind::<Nodes>(&session).unwrap();
        session.resync_required("a step was lost");
        assert!(matches!(open.end(), Some(End::ResyncRequired(Cause::StateLost(_)))));
        let late = bind::<Nodes>(&session);
        assert!(late.err().unwrap().to_string().contains("a step was lost"));
    }

    #[test]
    fn after_an_unreadable_message_open_streams_go_on_and_later_ones_are_refused() {
        let session = session();
        let open = bind::<Nodes>(&session).unwrap();
        session.lose_items();
        session.update_node(accepted(&["n1"]));
        assert!(session.take::<Nodes>(&open).is_some());
        assert!(bind::<Applications>(&session).is_err());
    }

    #[test]
    fn it_runs_while_it_has_a_stream_for_allocations() {
        let session = session();
        assert_eq!(session.state(), State::Unattached);
        bind::<Nodes>(&session).unwrap();
        assert_eq!(session.state(), State::Unattached);
        let older = bind::<Allocations>(&session).unwrap();
        assert_eq!(session.state(), State::Running);
        let newer = bind::<Allocations>(&session).unwrap();
        session.release::<Allocations>(&older);
        assert_eq!(session.state(), State::Running, "the newer one is there");
        session.release::<Allocations>(&newer);
        assert_eq!(session.state(), State::Paused);
        assert_eq!(session.status().open_streams, ["node"]);
        bind::<Allocations>(&session).unwrap();
        assert_eq!(session.state(), State::Running);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_paused_when_no_stream_comes_and_is_to_be_stopped_when_none_comes_back() {
        let session = session();
        let mut deadlines = session.deadlines();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(!session.expire());
        assert_eq!(session.state(), State::Unattached);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!session.expire());
        assert_eq!(session.state(), State::Paused);
        assert_eq!(*deadlines.borrow_and_update(), Some(Instant::now() + Duration::from_secs(120)));
        assert_eq!(session.status().paused_at_ns, Some(60_000_000_000));
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(session.expire(), "by whoever can tell the scheduler");
        let line = bind::<Allocations>(&session).unwrap();
        assert!(!session.expire(), "it came just in time");
        session.stop(&End::Deregistered);
        assert!(matches!(line.end(), Some(End::Deregistered)));
        assert!(matches!(bind::<Nodes>(&session), Err(End::Deregistered)));
    }

    #[test]
    fn too_much_that_waits_is_noticed_over_all_kinds_until_little_is_left() {
        let session = session_with(&[("session.outboxItems", "10")]);
        let line = bind::<Nodes>(&session).unwrap();
        bind::<Allocations>(&session).unwrap();
        session.update_node(accepted(&["n1", "n2", "n3"]));
        let is_behind = || session.is_behind.load(Ordering::Relaxed);
        assert!(!is_behind());
        let applications = vec![si::AcceptedApplication::default(); 2];
        session.update_application(si::ApplicationResponse {
            accepted: applications,
            ..Default::default()
        });
        assert!(is_behind(), "5 of 10");
        assert_eq!(session.status().outbox_items, 5);
        session.take::<Nodes>(&line).unwrap();
        assert!(!is_behind(), "2 of 10");
    }

    #[test]
    fn a_gap_is_told_to_the_next_stream_and_to_every_later_one() {
        let session = session_with(&[("session.onStreamLoss", "resync")]);
        let line = bind::<Nodes>(&session).unwrap();
        session.update_node(accepted(&["n1"]));
        session.release::<Nodes>(&line);
        for _ in 0..2 {
            let refused = bind::<Nodes>(&session);
            assert!(matches!(refused, Err(End::ResyncRequired(Cause::Missed))));
        }
        assert!(bind::<Allocations>(&session).is_err());
    }
}
