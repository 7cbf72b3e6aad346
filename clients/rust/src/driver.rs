//! The one task behind a client: it connects, says what is to be said, hears what comes, and does so
//! again whenever something breaks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff};
use monoceros_proto::si::v1 as si;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tonic::Status;

use crate::connection::{Connection, Heard, Incoming, Registered, Streams};
use crate::ending::{self, Next};
use crate::options::Options;
use crate::outgoing::{BATCH_ITEMS, Outgoing};
use crate::request::{AnyRequest, Kind};
use crate::{Event, Report, State};

/// How often what was seen is acknowledged, where no request does it.
const ACKNOWLEDGE: Duration = Duration::from_millis(200);
/// After so long in one piece, pauses begin anew.
const HEALTHY: Duration = Duration::from_secs(60);
/// How many commands are taken at once.
const COMMANDS: usize = 256;

/// What a client is asked to do.
pub(crate) enum Command {
    Send(AnyRequest),
    /// End the session, and tell when that is done.
    Leave(String, oneshot::Sender<Result<(), Status>>),
}

/// The task.
pub(crate) struct Driver {
    options: Options,
    state: Arc<dyn State>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::UnboundedSender<Event>,
    outgoing: Outgoing,
    session: Option<u64>,
    /// The number of the last message that was seen, by kind.
    seen: [u64; 3],
    /// It is to leave, and could not say so yet.
    leaves: Option<Leave>,
}

/// That the session is to end, and who waits for it.
struct Leave {
    reason: String,
    left: oneshot::Sender<Result<(), Status>>,
}

impl Driver {
    pub(crate) fn new(
        options: Options,
        state: Arc<dyn State>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        Self {
            outgoing: Outgoing::new(options.batch_items),
            options,
            state,
            commands,
            events,
            session: None,
            seen: [0; 3],
            leaves: None,
        }
    }

    /// Until there is nothing more to say, or trying again cannot help.
    pub(crate) async fn run(mut self) {
        let options = self.options.clone();
        let mut pauses = options.pauses.build();
        loop {
            let begun = Instant::now();
            let Err(status) = self.connected(&options).await else { return };
            match ending::next(&status) {
                Next::GiveUp => return self.tell(Event::Ended(status)),
                Next::Register => self.session = None,
                Next::Resume => {}
            }
            self.tell(Event::Disconnected(status.clone()));
            if begun.elapsed() >= HEALTHY {
                pauses = options.pauses.build();
            }
            if !self.pause(&mut pauses).await {
                return self.tell(Event::Ended(status));
            }
        }
    }

    fn tell(&self, event: Event) {
        // Nobody may listen any more.
        let _ = self.events.send(event);
    }

    /// Waits before the next attempt. Returns whether there is to be one.
    async fn pause(&mut self, pauses: &mut ExponentialBackoff) -> bool {
        let Some(pause) = pauses.next() else { return false };
        let mut pause = pin!(sleep(pause));
        loop {
            let has_room = self.outgoing.items() < self.options.most_items;
            tokio::select! {
                () = &mut pause => return true,
                command = self.commands.recv(), if has_room => match command {
                    Some(Command::Send(request)) => self.outgoing.push(request),
                    // It goes with the next connection, or with the session, which nobody renews.
                    Some(Command::Leave(reason, left)) => {
                        self.leaves = Some(Leave { reason, left });
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

    /// One connection. `Ok`: there is nothing more to say.
    async fn connected(&mut self, options: &Options) -> Result<(), Status> {
        let connection = Connection::open(options).await?;
        if let Some(leave) = self.leaves.take() {
            return self.leave(&connection, leave).await;
        }
        let session = match self.session {
            Some(session) => session,
            None => self.register(&connection).await?,
        };
        let known = self.outgoing.known();
        let (streams, incoming) = connection.streams(session, known, self.seen).await?;
        self.outgoing.resume(streams.taken);
        self.converse(&connection, &streams, incoming).await
    }

    /// Ends the session. `Err`: it is to be tried again, by another connection.
    async fn leave(&mut self, connection: &Connection<'_>, leave: Leave) -> Result<(), Status> {
        let done = connection.deregister(leave.reason.clone()).await;
        if let Err(status) = &done
            && ending::next(status) == Next::Resume
        {
            self.leaves = Some(leave);
            return Err(status.clone());
        }
        // Whoever asked may have gone.
        let _ = leave.left.send(done);
        Ok(())
    }

    /// Registers, and says again whatever the scheduler does not know.
    async fn register(&mut self, connection: &Connection<'_>) -> Result<u64, Status> {
        let Registered { session, taken } = connection.register().await?;
        self.session = Some(session);
        self.seen = [0; 3];
        self.outgoing.restart();
        if let Some(taken) = taken {
            self.outgoing.resume(taken);
        }
        self.tell(Event::Registered { session, goes_on: taken.is_some() });
        if taken.is_none() {
            let Report { nodes, applications, allocations } = self.state.report();
            for nodes in in_chunks(nodes) {
                self.outgoing.push(si::NodeRequest { nodes, ..Default::default() }.into());
            }
            for new in in_chunks(applications) {
                self.outgoing.push(si::ApplicationRequest { new, ..Default::default() }.into());
            }
            for allocations in in_chunks(allocations) {
                let request = si::AllocationRequest { allocations, ..Default::default() };
                self.outgoing.push(request.into());
            }
        }
        Ok(session)
    }

    async fn converse(
        &mut self,
        connection: &Connection<'_>,
        streams: &Streams,
        mut incoming: Incoming,
    ) -> Result<(), Status> {
        let mut acknowledged = self.seen;
        let mut acknowledging = interval(ACKNOWLEDGE);
        acknowledging.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut commands = Vec::with_capacity(COMMANDS);
        let mut has_commands = true;
        // What is left of an earlier connection has waited long enough.
        let mut flush = Some(Instant::now());
        loop {
            if !has_commands && self.outgoing.items() == 0 {
                return Ok(());
            }
            let next = self.outgoing.next_kind();
            let is_due =
                self.outgoing.is_full() || flush.is_none_or(|flush| flush <= Instant::now());
            let has_room = self.outgoing.items() < self.options.most_items;
            let is_behind = acknowledged != self.seen;
            tokio::select! {
                heard = incoming.next() => self.hear(heard)?,
                room = streams.room(next.unwrap_or(Kind::Nodes)), if next.is_some() && is_due => {
                    let (Ok(room), Some(mut request)) = (room, self.outgoing.send()) else {
                        // Why it has ended is about to be heard.
                        self.hear(incoming.next().await)?;
                        continue;
                    };
                    let kind = request.kind().index();
                    request.set_acknowledged(self.seen[kind]);
                    acknowledged[kind] = self.seen[kind];
                    room.send(request);
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
                            Command::Leave(reason, left) => {
                                return self.leave(connection, Leave { reason, left }).await;
                            }
                        }
                    }
                }
                () = sleep_until(flush.unwrap_or_else(Instant::now)), if next.is_some() && !is_due => {}
                _ = acknowledging.tick(), if is_behind => {
                    for kind in Kind::ALL {
                        let seen = self.seen[kind.index()];
                        if acknowledged[kind.index()] != seen && streams.acknowledge(kind, seen) {
                            acknowledged[kind.index()] = seen;
                        }
                    }
                }
            }
        }
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Status> {
        let (kind, taken, seq, event) = match heard {
            Heard::Nodes(mut reply) => {
                let (taken, seq) = (take(&mut reply.taken_seq), take(&mut reply.seq));
                let is_empty = reply == si::NodeResponse::default();
                (Kind::Nodes, taken, seq, (!is_empty).then_some(Event::Nodes(reply)))
            }
            Heard::Applications(mut reply) => {
                let (taken, seq) = (take(&mut reply.taken_seq), take(&mut reply.seq));
                let is_empty = reply == si::ApplicationResponse::default();
                (Kind::Applications, taken, seq, (!is_empty).then_some(Event::Applications(reply)))
            }
            Heard::Allocations(mut reply) => {
                let (taken, seq) = (take(&mut reply.taken_seq), take(&mut reply.seq));
                let is_empty = reply == si::AllocationResponse::default();
                (Kind::Allocations, taken, seq, (!is_empty).then_some(Event::Allocations(reply)))
            }
            Heard::Ended(status) => return Err(status),
        };
        self.outgoing.taken(taken);
        let seen = &mut self.seen[kind.index()];
        let is_repeat = seq != 0 && seq <= *seen;
        *seen = (*seen).max(seq);
        if let Some(event) = event.filter(|_| !is_repeat) {
            self.tell(event);
        }
        Ok(())
    }
}

fn take(number: &mut u64) -> u64 {
    std::mem::take(number)
}

/// Lists of at most as many items as a message should have.
fn in_chunks<T>(items: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || {
        let chunk: Vec<T> = items.by_ref().take(BATCH_ITEMS).collect();
        (!chunk.is_empty()).then_some(chunk)
    })
}
