//! The callback side of one session: what is asked and told beside the three streams.
//!
//! # How it hangs together
//! A `Conversation` decides; this holds it under a lock, carries out what it decides, and tells
//! whoever waits. Three come here: the scheduler's threads through the session's callback, the two
//! directions of the stream, and a task that looks at the time.
//!
//! # Invariants
//! * Nobody waits under the lock, and nothing that is done under it comes back here.
//! * Effects are carried out under the lock, hence in the order in which they were decided.
//! * At most one [`Line`] is the stream; the newest.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use monoceros_actors::metrics::CallbackMetrics;
use monoceros_actors::{
    AnswerSink, PredicateAnswer, PredicateQuestion, Predicates, QuestionId, ResourceManagerControl,
};
use monoceros_proto::callback::v1 as cb;
use monoceros_proto::callback::v1::core_message::Body;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::batching::{Question, Ticket};
use super::conversation::{Conversation, Effect, Identity, Reply};
use super::options::Options;
use super::preemption::{self, Preempted};
use super::presence::Mode;
use crate::grpc::end::End;
use crate::grpc::line::Line;
use crate::grpc::registry::wall_clock_ns;

/// Where the responses go that were kept back.
pub trait Delivery: Send + Sync + 'static {
    /// A response whose turn has come. Must not call the attachment.
    fn deliver(&self, response: si::AllocationResponse);
}

/// The callback side of a session.
pub struct Attachment {
    state: Mutex<State>,
    /// The state has a stream.
    is_attached: AtomicBool,
    control: OnceLock<ResourceManagerControl>,
    delivery: OnceLock<Weak<dyn Delivery>>,
    /// Tells the task that looks at the time that it may have to do so earlier.
    earlier: Notify,
    ended: CancellationToken,
    end: OnceLock<End>,
    dumping: tokio::sync::Mutex<()>,
}

struct State {
    conversation: Conversation,
    line: Option<Arc<Line>>,
    /// How many streams there were.
    streams: u64,
    /// Of the partitions, by the number that tickets have; those that are gone leave when the next
    /// one asks for the first time.
    sinks: BTreeMap<u32, AnswerSink>,
    /// How many there were.
    sinks_so_far: u32,
    waiting: HashMap<u64, oneshot::Sender<Reply>>,
    /// When the time is looked at next.
    armed: Option<Instant>,
}

/// The tag of allocations that belong to no application of the scheduler, such as pods that were
/// placed by another: it counts what they take and tells nothing of them.
const FOREIGN: &str = "foreign";

/// No node has a longer id.
const ID_BYTES: usize = 1_024;

/// When nothing is due.
const FAR: Duration = Duration::from_secs(3_600);

impl Attachment {
    /// Nobody is attached.
    pub fn new(options: Options, metrics: CallbackMetrics) -> Self {
        let state = State {
            conversation: Conversation::new(options, metrics),
            line: None,
            streams: 0,
            sinks: BTreeMap::new(),
            sinks_so_far: 0,
            waiting: HashMap::new(),
            armed: None,
        };
        Self {
            state: Mutex::new(state),
            is_attached: AtomicBool::new(false),
            control: OnceLock::new(),
            delivery: OnceLock::new(),
            earlier: Notify::new(),
            ended: CancellationToken::new(),
            end: OnceLock::new(),
            dumping: tokio::sync::Mutex::default(),
        }
    }

    /// With the settings as shipped, and figures that nobody reads.
    #[cfg(test)]
    pub(in crate::grpc) fn for_tests() -> Self {
        let metrics = monoceros_actors::metrics::Metrics::new();
        Self::new(Options::for_tests(), metrics.callback.clone())
    }

    /// The session stands: it can be steered, and time passes for it. To be called once, before
    /// anything is asked.
    pub fn begin(self: &Arc<Self>, control: ResourceManagerControl, delivery: Weak<dyn Delivery>) {
        self.control.get_or_init(|| control);
        self.delivery.get_or_init(|| delivery);
        self.work(Conversation::begin);
        tokio::spawn(watch(Arc::downgrade(self), self.ended.clone()));
    }

    /// Other options hold from now on.
    pub fn configure(&self, options: Options) {
        self.work(|conversation, now| conversation.configure(now, options));
    }

    /// Ends the stream, and lets none follow.
    pub fn close(&self, end: &End) {
        self.end.get_or_init(|| end.clone());
        // The rest is done by the task: whoever calls this may be in the middle of a delivery.
        self.ended.cancel();
    }

    /// How long a new stream may take to say Hello.
    pub(super) fn hello_timeout(options: &Options) -> Duration {
        options.callback.hello_timeout
    }

    /// Makes `line` the stream.
    pub fn attach(
        &self,
        line: &Arc<Line>,
        hello: &cb::Hello,
        scheduler_id: String,
        session: u64,
    ) -> Result<(), End> {
        let mut state = self.lock();
        if let Some(end) = self.end.get() {
            return Err(end.clone());
        }
        self.is_attached.store(true, Ordering::Relaxed);
        if let Some(earlier) = state.line.replace(Arc::clone(line)) {
            earlier.close(End::Displaced { by: None });
        }
        state.streams += 1;
        let identity = Identity { scheduler_id, session, attach: state.streams };
        self.work_on(&mut state, |conversation, now| conversation.attach(now, hello, &identity));
        Ok(())
    }

    /// Whether there is a stream. May be asked in the middle of a delivery.
    pub fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed)
    }

    /// `line` has ended.
    pub(super) fn release(&self, line: &Arc<Line>) {
        let mut state = self.lock();
        if state.is_spoken_on(line) {
            state.line = None;
            self.is_attached.store(false, Ordering::Relaxed);
            self.work_on(&mut state, Conversation::detach);
        }
    }

    /// The shim said something on `line`. What comes back was placed and is to be given back to the
    /// scheduler. `Err` ends the stream.
    pub(super) fn receive(
        &self,
        line: &Arc<Line>,
        message: cb::ShimMessage,
    ) -> Result<Vec<si::AllocationRelease>, End> {
        let mut state = self.lock();
        if !state.is_spoken_on(line) {
            return Ok(Vec::new());
        }
        let mut received = Ok(());
        let undo = self.work_on(&mut state, |conversation, now| {
            received = conversation.receive(now, message);
        });
        received.map(|()| undo)
    }

    /// The next message for `line`, if that is the stream.
    pub(super) fn take(&self, line: &Arc<Line>) -> Option<cb::CoreMessage> {
        let mut state = self.lock();
        if !state.is_spoken_on(line) {
            return None;
        }
        let mut message = state.conversation.take(Instant::now());
        if let Some(Body::Heartbeat(heartbeat)) =
            message.as_mut().and_then(|message| message.body.as_mut())
        {
            heartbeat.timestamp_nano = wall_clock_ns();
        }
        message
    }

    /// Questions of a partition.
    pub fn ask_predicates(&self, questions: Vec<PredicateQuestion>) {
        let mut state = self.lock();
        let questions = questions.into_iter().map(|question| state.question(question)).collect();
        self.work_on(&mut state, |conversation, now| conversation.ask(now, questions));
    }

    /// Questions that are given up.
    pub fn cancel_predicates(&self, questions: &[QuestionId]) {
        self.work(|conversation, now| conversation.cancel(now, questions));
    }

    /// A response on its way to the RM, and where it goes from here, now or later.
    pub fn allocations(&self, response: si::AllocationResponse) {
        self.work(|conversation, now| conversation.allocations(now, response));
    }

    /// The RM hears of nodes.
    pub fn nodes(&self, response: &si::NodeResponse) {
        self.work(|conversation, now| conversation.nodes(now, response));
    }

    /// Things happened.
    pub fn events(&self, events: Vec<si::EventRecord>) {
        self.work(|conversation, now| conversation.happened(now, events));
    }

    /// Requests stand differently.
    pub fn container_states(&self, states: Vec<si::UpdateContainerSchedulingStateRequest>) {
        self.work(|conversation, now| conversation.stands(now, states));
    }

    /// The RM sends allocations; to be called before the scheduler gets them.
    pub fn allocations_from_rm(&self, request: &si::AllocationRequest) {
        let lost = si::TerminationType::SchedulingFailedOnRm;
        let mut state = self.lock();
        let runs = |one: &&si::Allocation| {
            !one.node_id.is_empty() && !one.allocation_tags.contains_key(FOREIGN)
        };
        for allocation in request.allocations.iter().filter(runs) {
            let si::Allocation { application_id, allocation_key, .. } = allocation;
            state.conversation.reported(application_id, allocation_key);
        }
        let releases = request.releases.iter().flat_map(|all| &all.allocations_to_release);
        for release in releases.filter(|release| release.termination_type() == lost) {
            state.conversation.released_by_rm(release);
        }
    }

    /// The RM sends nodes; to be called before the scheduler gets them.
    pub fn nodes_from_rm(&self, request: &si::NodeRequest) {
        let mut state = self.lock();
        let now = Instant::now();
        for node in &request.nodes {
            let id = &node.node_id;
            match node.action() {
                ActionFromRm::Decomission => state.conversation.node_removed(now, id),
                // A longer id is refused without being named.
                ActionFromRm::Create | ActionFromRm::CreateDrain if id.len() <= ID_BYTES => {
                    for allocation in &node.existing_allocations {
                        let si::Allocation { application_id, allocation_key, .. } = allocation;
                        state.conversation.reported_with(id, application_id, allocation_key);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a shim that tells its state is attached.
    pub fn tells_state(&self) -> bool {
        self.lock().conversation.tells_state()
    }

    /// The shim's state as JSON text, or why there is none. One is told at a time; others wait.
    pub async fn rm_state(&self) -> Result<String, String> {
        let _turn = self.dumping.lock().await;
        let answer = self.request(Conversation::ask_state)?;
        match answer.await {
            Ok(Reply::State(state)) => state,
            _ => Err("the session is over".to_owned()),
        }
    }

    /// Has the shim keep a configuration.
    pub async fn save_config(
        &self,
        config: String,
        extra: BTreeMap<String, String>,
    ) -> Result<(), String> {
        let ask = |conversation: &mut Conversation, now| conversation.ask_save(now, config, extra);
        match self.request(ask)?.await {
            Ok(Reply::Saved(saved)) => saved,
            _ => Err("the session is over".to_owned()),
        }
    }

    /// Asks what preemption would make room for, ten questions at a time, those with the lowest
    /// start first, then by node; and no further once `enough` is known. The answers that came, with
    /// their questions, in the order in which those were asked.
    pub async fn ask_preemption(
        &self,
        questions: Vec<si::PreemptionPredicatesArgs>,
        enough: impl Fn(&[(si::PreemptionPredicatesArgs, Preempted)]) -> bool,
    ) -> Vec<(si::PreemptionPredicatesArgs, Preempted)> {
        let mut answered = Vec::new();
        for group in preemption::groups(questions) {
            let asked = group.clone();
            let answers = self.request(|conversation, now| conversation.ask_preemption(now, asked));
            let answers = match answers {
                Err(answers) => answers,
                Ok(answers) => match answers.await {
                    Ok(Reply::Preempted(answers)) => answers,
                    _ => vec![Preempted::Unanswered; group.len()],
                },
            };
            answered.extend(group.into_iter().zip(answers));
            if enough(&answered) {
                break;
            }
        }
        answered
    }

    fn request<E>(
        &self,
        ask: impl FnOnce(&mut Conversation, Instant) -> Result<u64, E>,
    ) -> Result<oneshot::Receiver<Reply>, E> {
        let mut state = self.lock();
        let mut asked = None;
        self.work_on(&mut state, |conversation, now| asked = Some(ask(conversation, now)));
        let number = asked.expect("asked just now")?;
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(number, sender);
        Ok(receiver)
    }

    /// Looks at the time; when to do so again.
    fn look(&self) -> Option<Instant> {
        let mut state = self.lock();
        let mut seen = Ok(());
        self.work_on(&mut state, |conversation, now| seen = conversation.tick(now));
        if let Err(end) = seen {
            self.drop_line(&mut state, end);
        }
        state.armed
    }

    /// The session is over.
    fn finish(&self) {
        let mut state = self.lock();
        let end = self.end.get().cloned().unwrap_or(End::ClientGone);
        self.drop_line(&mut state, end);
        state.waiting.clear();
    }

    fn drop_line(&self, state: &mut State, end: End) {
        self.is_attached.store(false, Ordering::Relaxed);
        if let Some(line) = state.line.take() {
            line.close(end);
        }
        self.work_on(state, Conversation::detach);
    }

    fn work(&self, step: impl FnOnce(&mut Conversation, Instant)) {
        let mut state = self.lock();
        let undo = self.work_on(&mut state, step);
        debug_assert!(undo.is_empty(), "only the shim has placements undone");
    }

    /// One step of the conversation, and what it comes to.
    fn work_on(
        &self,
        state: &mut State,
        step: impl FnOnce(&mut Conversation, Instant),
    ) -> Vec<si::AllocationRelease> {
        let now = Instant::now();
        step(&mut state.conversation, now);
        let mut undo = Vec::new();
        let mut answers: Option<(u32, Vec<PredicateAnswer>)> = None;
        for effect in state.conversation.effects() {
            if let Effect::Answer(answer) = effect {
                let Ticket { partition, id } = answer.ticket;
                let answer = PredicateAnswer { id, verdict: answer.verdict };
                match &mut answers {
                    Some((of, answers)) if *of == partition => answers.push(answer),
                    _ => state.answer(answers.replace((partition, vec![answer]))),
                }
                continue;
            }
            // What was decided before is done before.
            state.answer(answers.take());
            match effect {
                Effect::Answer(_) => unreachable!("dealt with above"),
                Effect::Mode(mode) => self.steer(mode, state.conversation.options()),
                Effect::Deliver(response) => {
                    if let Some(delivery) = self.delivery.get().and_then(Weak::upgrade) {
                        delivery.deliver(response);
                    }
                }
                Effect::Undo(release) => undo.push(release),
                Effect::Invalidate(invalidation) => {
                    if let Some(control) = self.control.get() {
                        control.invalidate(invalidation);
                    }
                }
                Effect::Reply(number, reply) => {
                    if let Some(waiting) = state.waiting.remove(&number) {
                        // Whoever asked may have gone.
                        let _ = waiting.send(reply);
                    }
                }
            }
        }
        state.answer(answers);
        if let Some(line) = &state.line
            && state.conversation.has_messages()
        {
            line.wake();
        }
        let due = state.conversation.due(now);
        if due.is_some_and(|due| state.armed.is_none_or(|armed| due < armed)) {
            self.earlier.notify_one();
        }
        state.armed = due;
        undo
    }

    fn steer(&self, mode: Mode, options: &Options) {
        let Some(control) = self.control.get() else { return };
        control.set_predicates(match mode {
            Mode::Local => Predicates::Local,
            // What fails for want of a shim is answered here.
            Mode::Remote | Mode::Fail => {
                Predicates::Remote { in_flight: options.placements_in_flight }
            }
            Mode::Hold => Predicates::Hold,
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl State {
    fn is_spoken_on(&self, line: &Arc<Line>) -> bool {
        self.line.as_ref().is_some_and(|current| Arc::ptr_eq(current, line))
    }

    fn question(&mut self, question: PredicateQuestion) -> Question {
        let PredicateQuestion { id, application, key, nodes, allocate, answers } = question;
        let known = self.sinks.iter().find(|(_, sink)| sink.is(&answers));
        let partition = if let Some((partition, _)) = known {
            *partition
        } else {
            self.sinks.retain(|_, sink| !sink.is_closed());
            self.sinks_so_far += 1;
            self.sinks.insert(self.sinks_so_far, answers);
            self.sinks_so_far
        };
        let candidates = (0..nodes.len()).collect();
        let ticket = Ticket { id, partition };
        Question { ticket, application, key, nodes, candidates, allocate }
    }

    fn answer(&self, answers: Option<(u32, Vec<PredicateAnswer>)>) {
        let Some((partition, answers)) = answers else { return };
        if let Some(sink) = self.sinks.get(&partition) {
            sink.answer(answers);
        }
    }
}

/// Looks at the time whenever something is due, until the session is over.
async fn watch(attachment: Weak<Attachment>, ended: CancellationToken) {
    let mut due = None;
    loop {
        let Some(attachment) = attachment.upgrade() else { return };
        let until = due.unwrap_or_else(|| Instant::now() + FAR);
        let earlier = pin!(attachment.earlier.notified());
        tokio::select! {
            biased;
            () = ended.cancelled() => {
                attachment.finish();
                return;
            }
            () = earlier => {}
            () = sleep_until(until) => {}
        }
        due = attachment.look();
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::callback::v1::shim_message::Body as Said;

    use super::*;

    /// An attachment whose time passes, and its stream.
    fn attached(capability: cb::Capability) -> (Arc<Attachment>, Arc<Line>) {
        let attachment = Arc::new(Attachment::for_tests());
        tokio::spawn(watch(Arc::downgrade(&attachment), attachment.ended.clone()));
        let line = Arc::new(Line::new());
        let hello = cb::Hello { capabilities: vec![capability.into()], ..Default::default() };
        attachment.attach(&line, &hello, "me".to_owned(), 1).unwrap();
        (attachment, line)
    }

    /// The next message that `wanted` takes, once it is there.
    async fn next<T>(
        attachment: &Attachment,
        line: &Arc<Line>,
        wanted: impl Fn(Body) -> Option<T>,
    ) -> T {
        loop {
            match attachment.take(line) {
                Some(message) => {
                    if let Some(found) = message.body.and_then(&wanted) {
                        return found;
                    }
                }
                None => line.news().await,
            }
        }
    }

    fn say(attachment: &Attachment, line: &Arc<Line>, body: Said) {
        attachment.receive(line, cb::ShimMessage { body: Some(body) }).unwrap();
    }

    fn questions(n: usize) -> Vec<si::PreemptionPredicatesArgs> {
        let question = |n| si::PreemptionPredicatesArgs {
            node_id: format!("n{n:02}"),
            preempt_allocation_keys: vec!["victim".to_owned(); 3],
            ..Default::default()
        };
        (0..n).rev().map(question).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn preemption_is_asked_group_by_group_until_enough_is_known() {
        let (attachment, line) = attached(cb::Capability::PreemptionPredicates);
        let asking = {
            let attachment = Arc::clone(&attachment);
            tokio::spawn(async move {
                let is_good = |answers: &[(si::PreemptionPredicatesArgs, Preempted)]| {
                    answers.iter().any(|(_, answer)| matches!(answer, Preempted::Victims(_)))
                };
                attachment.ask_preemption(questions(25), is_good).await
            })
        };
        for indexes in [[7; 10], [-9, 3, 2, 0, -1, 3, 3, 3, 3, 3]] {
            let batch = next(&attachment, &line, |body| match body {
                Body::PreemptionBatch(batch) => Some(batch),
                _ => None,
            });
            let batch = batch.await;
            assert_eq!(batch.queries.len(), 10);
            let results = batch.queries.iter().zip(indexes).map(|(query, index)| {
                let response = si::PreemptionPredicatesResponse { success: true, index };
                cb::PreemptionResult {
                    query_id: query.query_id,
                    outcome: cb::Outcome::Evaluated.into(),
                    response: Some(response),
                    ..Default::default()
                }
            });
            let (batch_id, results) = (batch.batch_id, results.collect());
            let results = cb::PreemptionResults { batch_id, results, ..Default::default() };
            say(&attachment, &line, Said::PreemptionResults(results));
        }
        let answers = asking.await.unwrap();
        assert_eq!(answers.len(), 20, "the third group was not asked");
        assert!(answers.is_sorted_by_key(|(args, _)| args.node_id.clone()));
        let second: Vec<_> = answers[11..15].iter().map(|(_, answer)| *answer).collect();
        let expected = [
            Preempted::Failed,
            Preempted::Victims(3),
            Preempted::Victims(1),
            Preempted::Victims(0),
        ];
        assert_eq!(second, expected);
        assert_eq!(answers[0].1, Preempted::Failed, "an index behind the last victim");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shim_that_does_not_answer_leaves_nobody_waiting() {
        let (attachment, line) = attached(cb::Capability::StateDump);
        let reader = {
            let attachment = Arc::clone(&attachment);
            tokio::spawn(async move {
                loop {
                    next(&attachment, &line, |body| match body {
                        Body::Heartbeat(beat) => Some(beat),
                        _ => None,
                    })
                    .await;
                    say(&attachment, &line, Said::Heartbeat(cb::Heartbeat::default()));
                }
            })
        };
        let (first, second) = tokio::join!(attachment.rm_state(), attachment.rm_state());
        for state in [first, second] {
            assert!(state.unwrap_err().contains("in time"));
        }
        reader.abort();
        attachment.save_config(String::new(), BTreeMap::new()).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_foreign_is_not_remembered_as_reported() {
        let (attachment, line) = attached(cb::Capability::CacheSync);
        next(&attachment, &line, |body| matches!(body, Body::CacheSync(_)).then_some(())).await;
        let on_n1 = |key: &str, tag: Option<&str>| si::Allocation {
            allocation_key: key.to_owned(),
            node_id: "n1".to_owned(),
            allocation_tags: tag.into_iter().map(|tag| (tag.to_owned(), String::new())).collect(),
            ..Default::default()
        };
        let allocations = vec![on_n1("theirs", Some(FOREIGN)), on_n1("ours", None)];
        attachment
            .allocations_from_rm(&si::AllocationRequest { allocations, ..Default::default() });
        let new = vec![on_n1("theirs", None), on_n1("ours", None)];
        attachment.allocations(si::AllocationResponse { new, ..Default::default() });
        let told = next(&attachment, &line, |body| match body {
            Body::CacheSync(sync) => sync.args,
            _ => None,
        });
        let told: Vec<_> = told.await.assumed_allocations;
        let keys: Vec<_> = told.iter().map(|one| &*one.allocation_key).collect();
        assert_eq!(keys, ["theirs"], "the other one was reported");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_says_what_time_it_is() {
        let (attachment, line) = attached(cb::Capability::StateDump);
        let asked = Said::Heartbeat(cb::Heartbeat { nonce: 4, reply: true, ..Default::default() });
        say(&attachment, &line, asked);
        let echo = next(&attachment, &line, |body| match body {
            Body::Heartbeat(echo) => Some(echo),
            _ => None,
        });
        let echo = echo.await;
        assert!(echo.nonce == 4 && echo.timestamp_nano > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_session_ends_the_stream_and_leaves_nobody_waiting() {
        let (attachment, line) = attached(cb::Capability::StateDump);
        let waiting = {
            let attachment = Arc::clone(&attachment);
            tokio::spawn(async move { attachment.rm_state().await })
        };
        next(&attachment, &line, |body| match body {
            Body::StateDump(request) => Some(request),
            _ => None,
        })
        .await;
        attachment.close(&End::Superseded { by: None });
        waiting.await.unwrap().unwrap_err();
        line.ended().await;
        assert!(matches!(line.end(), Some(End::Superseded { .. })));
        let hello = cb::Hello::default();
        let late = attachment.attach(&Arc::new(Line::new()), &hello, String::new(), 1);
        assert!(matches!(late, Err(End::Superseded { .. })));
    }
}
