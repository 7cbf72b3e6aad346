//! The task behind a client: connects, sends requests, receives messages, and reconnects after each
//! break.

mod leave;

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use backon::BackoffBuilder as _;
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tonic::Status;

use crate::callbacks::Invalid;
use crate::connect::authority;
use crate::connection::{Connection, Credentials, Incoming, Received, Registered, Streams};
use crate::ending::{self, Next};
use crate::events::{Processed, QueuedEvent};
use crate::identity::Knowledge;
use crate::options::Options;
use crate::outgoing::Outgoing;
use crate::report::in_order;
use crate::request::{AnyRequest, Kind};
use crate::route::{Attempted, Pace, Route};
use crate::silence::{self, Silence};
use crate::{Ended, Event, OwnerChannel, State};

pub(crate) use self::leave::Leave;

/// Interval between acknowledgements while no request carries one.
const ACKNOWLEDGE: Duration = Duration::from_millis(200);
/// A connection that lasted at least this long resets the pauses.
const HEALTHY: Duration = Duration::from_secs(60);
/// Longest pause after an answer that a member may serve soon.
const SHORT: Duration = Duration::from_secs(1);
/// Messages queued for the program before reading stops.
const EVENTS: usize = 1_000;
/// How long the request queue may be full before the state is reported although the program has not
/// processed all messages. The program may be waiting for room in that queue.
const FULL_FOR: Duration = Duration::from_secs(5);
/// Commands taken from the queue at once.
const COMMANDS: usize = 256;

/// A command to the client's task.
pub(crate) enum Command {
    Send(AnyRequest),
    Leave(Leave),
}

/// The state of the client's task.
pub(crate) struct Driver {
    options: Options,
    state: Arc<dyn State>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::UnboundedSender<QueuedEvent>,
    /// Progress of the program in processing messages.
    processed: Arc<Processed>,
    outgoing: Outgoing,
    session: Option<u64>,
    /// Number of this client among those of its identity.
    number: u64,
    /// Number of the last session, also after its end.
    last_session: Option<u64>,
    route: Route,
    silence: Silence,
    /// The incarnation of the owner.
    owner: Option<String>,
    /// The incarnation of the owner that fell silent, until a member has answered a registration
    /// with it.
    suspects: Option<String>,
    /// Whether the client before has left a pause.
    pauses_first: bool,
    /// The last connection, for other calls of the program.
    channel: OwnerChannel,
    /// Time at which the streams of the session were opened. `None` while there are none.
    open_since: Option<Instant>,
    /// Whether the client had a session before.
    has_registered: bool,
    /// Pending invalidation of earlier answers of the callbacks.
    invalid: Arc<Invalid>,
    /// Number of the last received message of each kind.
    last_received: [u64; 3],
    /// A deregistration that was requested and not sent yet.
    leave_requested: Option<Leave>,
}

impl Driver {
    pub(crate) fn new(
        options: Options,
        state: Arc<dyn State>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::UnboundedSender<QueuedEvent>,
        processed: Arc<Processed>,
        invalid: Arc<Invalid>,
        channel: OwnerChannel,
    ) -> Self {
        let configured: Vec<_> = options.endpoints.iter().map(authority).collect();
        let (number, known) = options.identity.begin();
        let route = known.route.filter(|route| route.is_of(&configured));
        Self {
            outgoing: Outgoing::new(options.batch_items),
            route: route.unwrap_or_else(|| Route::new(configured)),
            options,
            state,
            commands,
            events,
            processed,
            session: None,
            number,
            last_session: known.last_session,
            silence: known.silence,
            owner: None,
            suspects: known.suspects,
            pauses_first: known.pauses,
            channel,
            open_since: None,
            has_registered: false,
            invalid,
            last_received: [0; 3],
            leave_requested: None,
        }
    }

    /// Runs until nothing is left to send or a retry cannot help.
    pub(crate) async fn run(mut self) {
        let options = self.options.clone();
        let mut pauses = options.pauses.build();
        let mut longest = Duration::MAX;
        if self.pauses_first && !self.pause(pauses.next()).await {
            return self.emit(Event::Ended(Status::unavailable(Ended.to_string())));
        }
        loop {
            let begun = Instant::now();
            let Err(answer) = self.connected(&options).await else { return };
            let had_session = self.session.is_some();
            let status = self.interpret(&answer);
            match ending::next(&status) {
                Next::GiveUp => {
                    self.leave_knowledge(false);
                    return self.emit(Event::Ended(status));
                }
                Next::Register => self.session = None,
                Next::Resume => {}
            }
            if self.route.is_cluster() && self.session.is_none() {
                self.processed.drop_waiting();
            }
            let pace = self.choose_address(&answer, &status, had_session);
            if options.once && self.has_registered && self.session.is_none() {
                self.leave_knowledge(pace == Pace::AfterPause && self.route.has_several());
                return self.emit(Event::Ended(status));
            }
            self.emit(Event::Disconnected(status.clone()));
            if begun.elapsed() >= HEALTHY {
                pauses = options.pauses.build();
            }
            if ending::is_passing(&status) {
                longest = SHORT;
            }
            if pace == Pace::AtOnce {
                continue;
            }
            let longest = std::mem::replace(&mut longest, Duration::MAX);
            let pause = pauses.next().map(|pause| pause.min(longest));
            if !self.pause(pause).await {
                return self.emit(Event::Ended(status));
            }
        }
    }

    /// Returns the loss of the owner if another member can serve, and else the status itself.
    fn interpret(&self, status: &Status) -> Status {
        let has_others = self.route.is_cluster() && self.route.has_others();
        if self.session.is_some() && has_others && ending::is_loss_of_owner(status) {
            return ending::owner_lost(status);
        }
        status.clone()
    }

    /// Chooses the address to try next. `status` is the answer as the client interprets it.
    fn choose_address(&mut self, answer: &Status, status: &Status, had_session: bool) -> Pace {
        let is_answered = ending::is_answered(answer);
        let attempted = Attempted {
            lasted: self.open_since.take().map(|since| since.elapsed()),
            stays: self.session.is_some() || ending::keeps_owner(status),
            is_answered,
            owner: ending::owner(answer),
            is_suspicion: self.suspects.is_some(),
        };
        if is_answered && !had_session {
            self.suspects = None;
        }
        self.route.after(attempted)
    }

    /// Leaves the knowledge of the cluster to the next client of the same identity.
    fn leave_knowledge(&self, pauses: bool) {
        let knowledge = Knowledge {
            route: Some(self.route.clone()),
            silence: self.silence.clone(),
            last_session: self.last_session,
            suspects: self.suspects.clone(),
            pauses,
        };
        self.options.identity.leave(self.number, knowledge);
    }

    fn emit(&self, event: Event) {
        // The program may have dropped the receiver.
        let _ = self.events.send(QueuedEvent { event, number: None });
    }

    /// Waits before the next attempt. Returns whether there is to be one.
    async fn pause(&mut self, pause: Option<Duration>) -> bool {
        let Some(pause) = pause else { return false };
        let mut pause = pin!(sleep(pause));
        loop {
            let has_room = self.outgoing.items() < self.options.most_items;
            tokio::select! {
                () = &mut pause => return true,
                command = self.commands.recv(), if has_room => match command {
                    Some(Command::Send(request)) => self.outgoing.push(request),
                    // The deregistration is sent on the next connection. Without one, the session
                    // expires.
                    Some(Command::Leave(leave)) => {
                        self.leave_requested = Some(leave);
                        return true;
                    }
                    None if self.outgoing.items() == 0 => return false,
                    None => {
                        (&mut pause).await;
                        return true;
                    }
                },
            }
        }
    }

    /// Waits until the program has processed all messages of the session that ended, because the
    /// state it is about to report must include them. Does not wait for a program that is blocked
    /// by a full request queue, since that empties only after the report.
    async fn wait_until_processed(&mut self) {
        let processed = Arc::clone(&self.processed);
        let mut full_since = None;
        while !processed.is_all_processed() && !self.events.is_closed() {
            let has_room = self.outgoing.items() < self.options.most_items;
            if has_room {
                full_since = None;
            }
            let full_since = *full_since.get_or_insert_with(Instant::now);
            tokio::select! {
                () = processed.changed() => {}
                () = sleep_until(full_since + FULL_FOR), if !has_room => return,
                command = self.commands.recv(), if has_room => match command {
                    Some(Command::Send(request)) => self.outgoing.push(request),
                    Some(Command::Leave(leave)) => {
                        self.leave_requested = Some(leave);
                        return;
                    }
                    None => return,
                },
            }
        }
    }

    /// Runs one connection. `Ok` if nothing is left to send.
    async fn connected(&mut self, options: &Options) -> Result<(), Status> {
        if self.session.is_none() && self.leave_requested.is_none() {
            // Before connecting: the program may take long, and an idle connection would be closed.
            self.wait_until_processed().await;
        }
        let (patience, attempt) = (self.route.patience(), options.identity.next_attempt());
        let target = self.route.current();
        let connection = Connection::open(options, target, attempt, self.route.takes_redirects());
        let connection = within(patience.map(|it| it.connection), connection).await?;
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.channel());
        let patience = patience.map(|it| it.answer);
        if let Some(session) = self.session_to_leave()
            && let Some(leave) = self.leave_requested.take()
        {
            return self.leave(&connection, session, leave).await;
        }
        let session = match self.session {
            Some(session) => session,
            None => self.register(&connection, patience).await?,
        };
        if let Some(leave) = self.leave_requested.take() {
            return self.leave(&connection, session, leave).await;
        }
        let acknowledged = self.outgoing.acknowledged();
        let streams = connection.streams(session, acknowledged, self.last_received, &self.invalid);
        let streams = within(patience, streams).await;
        if streams.as_ref().is_err_and(|status| ending::reason(status) == Some("SEQUENCE_GAP")) {
            // The scheduler has lost its numbers, so the session cannot continue.
            self.session = None;
        }
        let (streams, mut incoming) = streams?;
        self.outgoing.resume(streams.taken);
        let now = Instant::now();
        self.open_since = Some(now);
        self.silence.begin(streams.beat, now);
        let ended = self.converse(&connection, &streams, &mut incoming).await;
        drop(streams);
        incoming.close().await;
        ended
    }

    /// Registers, and reports the state unless the session continues.
    async fn register(
        &mut self,
        connection: &Connection<'_>,
        patience: Option<Duration>,
    ) -> Result<u64, Status> {
        let shown = Credentials {
            proof: self.options.identity.proof.clone(),
            session: self.last_session,
            suspects: self.suspects.clone(),
        };
        let registered = within(patience, connection.register(shown)).await?;
        let Registered { session, taken, scheduler, members } = registered;
        (self.session, self.last_session) = (Some(session), Some(session));
        (self.owner, self.suspects) = (scheduler, None);
        self.route.keep_members(members.as_deref(), self.options.shuffle);
        self.has_registered = true;
        self.leave_knowledge(false);
        self.last_received = [0; 3];
        self.processed.begin();
        self.emit(Event::Registered { session, resumed: taken.is_some() });
        if let Some(taken) = taken {
            self.outgoing.continue_from(taken);
            return Ok(session);
        }
        self.outgoing.restart();
        // The state already contains the requests queued until now.
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Leave(leave) = command {
                self.leave_requested = Some(leave);
            }
        }
        for request in in_order(self.state.report()) {
            self.outgoing.push(request);
        }
        Ok(session)
    }

    async fn converse(
        &mut self,
        connection: &Connection<'_>,
        streams: &Streams,
        incoming: &mut Incoming,
    ) -> Result<(), Status> {
        let mut acknowledged = self.processed.numbers();
        let mut acknowledging = interval(ACKNOWLEDGE);
        acknowledging.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut counting = interval(silence::TICK);
        counting.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut commands = Vec::with_capacity(COMMANDS);
        let mut has_commands = true;
        // Requests left from an earlier connection are sent without delay.
        let mut flush = Some(Instant::now());
        loop {
            if !has_commands && self.outgoing.items() == 0 {
                return Ok(());
            }
            let next = self.outgoing.next_kind();
            let is_due =
                self.outgoing.is_full() || flush.is_none_or(|flush| flush <= Instant::now());
            let has_room = self.outgoing.items() < self.options.most_items;
            let is_behind = acknowledged != self.last_received;
            let reads = self.processed.waiting() < EVENTS || self.events.is_closed();
            tokio::select! {
                received = incoming.next(), if reads => self.receive(received)?,
                () = self.processed.changed(), if !reads => {}
                permit = streams.reserve(next.unwrap_or(Kind::Nodes)), if next.is_some() && is_due => {
                    let Ok(permit) = permit else {
                        // The reason of the end is the next message.
                        self.receive(incoming.next().await)?;
                        continue;
                    };
                    let Some(mut request) = self.outgoing.send() else { continue };
                    let kind = request.kind().index();
                    acknowledged[kind] = self.processed.numbers()[kind];
                    request.set_acknowledged(acknowledged[kind]);
                    permit.send(request);
                    if self.outgoing.next_kind().is_none() {
                        flush = None;
                    }
                }
                n = self.commands.recv_many(&mut commands, COMMANDS), if has_commands && has_room => {
                    has_commands = n > 0;
                    if self.outgoing.next_kind().is_none() {
                        flush = Some(Instant::now() + self.options.batch_delay);
                    }
                    for command in commands.drain(..) {
                        match command {
                            Command::Send(request) => self.outgoing.push(request),
                            Command::Leave(leave) => {
                                return self.leave(connection, streams.session, leave).await;
                            }
                        }
                    }
                }
                () = sleep_until(flush.unwrap_or_else(Instant::now)), if next.is_some() && !is_due => {}
                _ = counting.tick(), if self.silence.is_counted() => self.check_silence(incoming)?,
                _ = acknowledging.tick(), if is_behind => {
                    let processed = self.processed.numbers();
                    for kind in Kind::ALL {
                        let processed = processed[kind.index()];
                        if acknowledged[kind.index()] != processed && streams.acknowledge(kind, processed) {
                            acknowledged[kind.index()] = processed;
                        }
                    }
                }
            }
        }
    }

    /// Counts the silence of the owner. `Err` if the owner is given up.
    fn check_silence(&mut self, incoming: &Incoming) -> Result<(), Status> {
        let now = Instant::now();
        if incoming.has_unread() {
            self.silence.received(now);
            return Ok(());
        }
        let Some(silent) = self.silence.tick(now) else { return Ok(()) };
        self.suspects.clone_from(&self.owner);
        Err(ending::owner_silent(silent))
    }

    fn receive(&mut self, received: Received) -> Result<(), Status> {
        self.silence.received(Instant::now());
        let (kind, taken, seq, event) = match received {
            Received::Nodes(mut reply) => {
                let (taken, seq) = (take(&mut reply.taken_seq), take(&mut reply.seq));
                let is_empty = reply == si::NodeResponse::default();
                (Kind::Nodes, taken, seq, (!is_empty).then_some(Event::Nodes(reply)))
            }
            Received::Applications(mut reply) => {
                let (taken, seq) = (take(&mut reply.taken_seq), take(&mut reply.seq));
                let is_empty = reply == si::ApplicationResponse::default();
                (Kind::Applications, taken, seq, (!is_empty).then_some(Event::Applications(reply)))
            }
            Received::Allocations(mut reply) => {
                let (taken, seq) = (take(&mut reply.taken_seq), take(&mut reply.seq));
                let is_empty = reply == si::AllocationResponse::default();
                (Kind::Allocations, taken, seq, (!is_empty).then_some(Event::Allocations(reply)))
            }
            Received::Ended(status) => return Err(status),
        };
        self.outgoing.acknowledge(taken);
        let last_received = &mut self.last_received[kind.index()];
        let is_repeat = seq != 0 && seq <= *last_received;
        *last_received = (*last_received).max(seq);
        if let Some(event) = event.filter(|_| !is_repeat) {
            let number = self.processed.enqueue(kind, seq);
            if self.events.send(QueuedEvent { event, number: Some(number) }).is_err() {
                self.processed.complete(number);
            }
        }
        Ok(())
    }
}

fn take(number: &mut u64) -> u64 {
    std::mem::take(number)
}

/// Waits for a call for at most `patience`, if there is another address.
async fn within<T>(
    patience: Option<Duration>,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let Some(patience) = patience else { return call.await };
    let late = |_| Status::unavailable(format!("no answer within {patience:?}"));
    timeout(patience, call).await.map_err(late)?
}
