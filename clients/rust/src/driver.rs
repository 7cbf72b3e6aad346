//! The one task behind a client: it connects, says what is to be said, hears what comes, and does so
//! again whenever something breaks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tonic::Status;

use crate::callbacks::Invalid;
use crate::connection::{Attempt, Connection, Heard, Incoming, Registered, Streams};
use crate::ending::{self, Next};
use crate::events::{Dealt, Told};
use crate::options::Options;
use crate::outgoing::{BATCH_ITEMS, Outgoing};
use crate::request::{AnyRequest, Kind};
use crate::{Event, Report, State};

/// How often what was seen is acknowledged, where no request does it.
const ACKNOWLEDGE: Duration = Duration::from_millis(200);
/// After so long in one piece, pauses begin anew.
const HEALTHY: Duration = Duration::from_secs(60);
/// Messages that wait for the program before nothing more is read.
const EVENTS: usize = 1_000;
/// How long nothing more of the program may find room before its state is reported though it has not dealt
/// with all that it was told: what it waits for may be that room.
const FULL_FOR: Duration = Duration::from_secs(5);
/// How many commands are taken at once.
const COMMANDS: usize = 256;

/// What a client is asked to do.
pub(crate) enum Command {
    Send(AnyRequest),
    Leave(Leave),
}

/// The task.
pub(crate) struct Driver {
    options: Options,
    state: Arc<dyn State>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::UnboundedSender<Told>,
    /// What the program has dealt with.
    dealt: Arc<Dealt>,
    outgoing: Outgoing,
    session: Option<u64>,
    attempt: Attempt,
    /// It has had a session.
    has_registered: bool,
    /// Earlier answers of the callbacks may be wrong by now.
    invalid: Arc<Invalid>,
    /// The number of the last message that was seen, by kind.
    seen: [u64; 3],
    /// It is to leave, and could not say so yet.
    leaves: Option<Leave>,
}

/// That the session is to end, and who waits for it.
pub(crate) struct Leave {
    pub(crate) reason: String,
    pub(crate) left: oneshot::Sender<Result<(), Status>>,
}

impl Driver {
    pub(crate) fn new(
        options: Options,
        state: Arc<dyn State>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::UnboundedSender<Told>,
        dealt: Arc<Dealt>,
        invalid: Arc<Invalid>,
    ) -> Self {
        Self {
            outgoing: Outgoing::new(options.batch_items),
            options,
            state,
            commands,
            events,
            dealt,
            session: None,
            attempt: Attempt::none(),
            has_registered: false,
            invalid,
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
            if options.once && self.has_registered && self.session.is_none() {
                return self.tell(Event::Ended(status));
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
        let _ = self.events.send(Told { event, number: None });
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
                    Some(Command::Leave(leave)) => {
                        self.leaves = Some(leave);
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

    /// Waits until the program has dealt with all that it was told in the session that is over: what it
    /// believes is about to be reported, and is to be what it was told. Only a program that waits for room
    /// is not waited for, since none comes before the report.
    async fn until_all_is_dealt_with(&mut self) {
        let dealt = Arc::clone(&self.dealt);
        let mut full_since = None;
        while !dealt.is_all_dealt_with() && !self.events.is_closed() {
            let has_room = self.outgoing.items() < self.options.most_items;
            if has_room {
                full_since = None;
            }
            let full_since = *full_since.get_or_insert_with(Instant::now);
            tokio::select! {
                () = dealt.news() => {}
                () = sleep_until(full_since + FULL_FOR), if !has_room => return,
                command = self.commands.recv(), if has_room => match command {
                    Some(Command::Send(request)) => self.outgoing.push(request),
                    Some(Command::Leave(leave)) => {
                        self.leaves = Some(leave);
                        return;
                    }
                    None => return,
                },
            }
        }
    }

    /// One connection. `Ok`: there is nothing more to say.
    async fn connected(&mut self, options: &Options) -> Result<(), Status> {
        if self.session.is_none() {
            // The program may take long, and a connection that says nothing meanwhile does not last.
            self.until_all_is_dealt_with().await;
        }
        let connection = Connection::open(options, self.attempt.next()).await?;
        if let Some(leave) = self.leaves.take() {
            return self.leave(&connection, leave).await;
        }
        let session = match self.session {
            Some(session) => session,
            None => self.register(&connection).await?,
        };
        if let Some(leave) = self.leaves.take() {
            return self.leave(&connection, leave).await;
        }
        let known = self.outgoing.known();
        let streams = connection.streams(session, known, self.seen, &self.invalid).await;
        if streams.as_ref().is_err_and(|status| ending::reason(status) == Some("SEQUENCE_GAP")) {
            // It knows nothing of what it has taken: the numbers are of no use.
            self.session = None;
        }
        let (streams, incoming) = streams?;
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
        self.has_registered = true;
        self.seen = [0; 3];
        self.dealt.begin();
        self.tell(Event::Registered { session, goes_on: taken.is_some() });
        if let Some(taken) = taken {
            self.outgoing.follow(taken);
            return Ok(session);
        }
        self.outgoing.restart();
        // What was said until now is in the state by now.
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Leave(leave) = command {
                self.leaves = Some(leave);
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
        mut incoming: Incoming,
    ) -> Result<(), Status> {
        let mut acknowledged = self.dealt.numbers();
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
            let reads = self.dealt.waiting() < EVENTS || self.events.is_closed();
            tokio::select! {
                heard = incoming.next(), if reads => self.hear(heard)?,
                () = self.dealt.news(), if !reads => {}
                room = streams.room(next.unwrap_or(Kind::Nodes)), if next.is_some() && is_due => {
                    let Ok(room) = room else {
                        // Why it has ended is about to be heard.
                        self.hear(incoming.next().await)?;
                        continue;
                    };
                    let Some(mut request) = self.outgoing.send() else { continue };
                    let kind = request.kind().index();
                    acknowledged[kind] = self.dealt.numbers()[kind];
                    request.set_acknowledged(acknowledged[kind]);
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
                            Command::Leave(leave) => {
                                return self.leave(connection, leave).await;
                            }
                        }
                    }
                }
                () = sleep_until(flush.unwrap_or_else(Instant::now)), if next.is_some() && !is_due => {}
                _ = acknowledging.tick(), if is_behind => {
                    let dealt = self.dealt.numbers();
                    for kind in Kind::ALL {
                        let dealt = dealt[kind.index()];
                        if acknowledged[kind.index()] != dealt && streams.acknowledge(kind, dealt) {
                            acknowledged[kind.index()] = dealt;
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
            let number = self.dealt.is_told(kind, seq);
            if self.events.send(Told { event, number: Some(number) }).is_err() {
                self.dealt.is_dealt_with(number);
            }
        }
        Ok(())
    }
}

fn take(number: &mut u64) -> u64 {
    std::mem::take(number)
}

/// A report as requests, in an order in which no room is given away that is taken: nodes are closed
/// until everything that runs is on the books.
fn in_order(report: Report) -> Vec<AnyRequest> {
    let Report { nodes, applications, allocations } = report;
    let (there, wanted): (Vec<_>, Vec<_>) =
        allocations.into_iter().partition(|allocation| !allocation.node_id.is_empty());
    let mut opened = Vec::new();
    let close = |mut node: si::NodeInfo| {
        if node.action() == ActionFromRm::Create && !there.is_empty() {
            node.action = ActionFromRm::CreateDrain.into();
            opened.push(si::NodeInfo {
                node_id: node.node_id.clone(),
                attributes: node.attributes.clone(),
                action: ActionFromRm::DrainToSchedulable.into(),
                ..Default::default()
            });
        }
        node
    };
    let nodes: Vec<_> = nodes.into_iter().map(close).collect();
    let weight = |node: &si::NodeInfo| 1 + node.existing_allocations.len();
    let nodes_request = |nodes| si::NodeRequest { nodes, ..Default::default() }.into();
    let allocations_request =
        |allocations| si::AllocationRequest { allocations, ..Default::default() }.into();
    let mut requests: Vec<AnyRequest> = Vec::new();
    requests.extend(in_chunks(nodes, weight).into_iter().map(nodes_request));
    let applications = in_chunks(applications, |_| 1).into_iter();
    requests.extend(
        applications.map(|new| si::ApplicationRequest { new, ..Default::default() }.into()),
    );
    requests.extend(in_chunks(there, |_| 1).into_iter().map(allocations_request));
    requests.extend(in_chunks(opened, |_| 1).into_iter().map(nodes_request));
    requests.extend(in_chunks(wanted, |_| 1).into_iter().map(allocations_request));
    requests
}

/// Lists of at most as many items as a message should have, unless one alone has more.
fn in_chunks<T>(items: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut chunks: Vec<Vec<T>> = Vec::new();
    let mut total = BATCH_ITEMS;
    for item in items {
        total += weight(&item);
        match chunks.last_mut() {
            Some(chunk) if total <= BATCH_ITEMS => chunk.push(item),
            _ => {
                total = weight(&item);
                chunks.push(vec![item]);
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_closed_until_what_runs_there_is_reported() {
        let node = |id: &str| si::NodeInfo {
            node_id: id.to_owned(),
            action: ActionFromRm::Create.into(),
            ..Default::default()
        };
        let task = |key: &str, node: &str| si::Allocation {
            allocation_key: key.to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        let report = Report {
            nodes: (0..=BATCH_ITEMS).map(|n| node(&n.to_string())).collect(),
            applications: vec![si::AddApplicationRequest::default()],
            allocations: vec![task("wanted", ""), task("runs", "0")],
        };
        let said = in_order(report.clone()).into_iter().map(|request| match request {
            AnyRequest::Nodes(request) => {
                format!("{} {:?}", request.nodes.len(), request.nodes[0].action())
            }
            AnyRequest::Applications(request) => format!("{} applications", request.new.len()),
            AnyRequest::Allocations(request) => request.allocations[0].allocation_key.clone(),
        });
        let said: Vec<String> = said.collect();
        assert_eq!(
            said,
            [
                "1000 CreateDrain",
                "1 CreateDrain",
                "1 applications",
                "runs",
                "1000 DrainToSchedulable",
                "1 DrainToSchedulable",
                "wanted",
            ]
        );
        let nothing_runs = Report { allocations: vec![task("wanted", "")], ..report };
        assert_eq!(in_order(nothing_runs).len(), 4, "open from the beginning");
    }
}
