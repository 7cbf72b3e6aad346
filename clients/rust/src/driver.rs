//! The task behind a client: connects, sends requests, receives messages, and reconnects after each
//! break.

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
use crate::connection::{Attempt, Connection, Incoming, Received, Registered, Streams};
use crate::ending::{self, Next};
use crate::events::{Processed, QueuedEvent};
use crate::options::Options;
use crate::outgoing::{BATCH_ITEMS, Outgoing};
use crate::request::{AnyRequest, Kind};
use crate::{Event, Report, State};

/// Interval between acknowledgements while no request carries one.
const ACKNOWLEDGE: Duration = Duration::from_millis(200);
/// A connection that lasted at least this long resets the pauses.
const HEALTHY: Duration = Duration::from_secs(60);
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
    attempt: Attempt,
    /// Whether the client had a session before.
    has_registered: bool,
    /// Pending invalidation of earlier answers of the callbacks.
    invalid: Arc<Invalid>,
    /// Number of the last received message of each kind.
    last_received: [u64; 3],
    /// A deregistration that was requested and not sent yet.
    leave_requested: Option<Leave>,
}

/// A request to end the session, and the channel for its result.
pub(crate) struct Leave {
    pub(crate) reason: String,
    pub(crate) left: oneshot::Sender<Result<(), Status>>,
}

impl Driver {
    pub(crate) fn new(
        options: Options,
        state: Arc<dyn State>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::UnboundedSender<QueuedEvent>,
        processed: Arc<Processed>,
        invalid: Arc<Invalid>,
    ) -> Self {
        Self {
            outgoing: Outgoing::new(options.batch_items),
            options,
            state,
            commands,
            events,
            processed,
            session: None,
            attempt: Attempt::none(),
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
        loop {
            let begun = Instant::now();
            let Err(status) = self.connected(&options).await else { return };
            match ending::next(&status) {
                Next::GiveUp => return self.emit(Event::Ended(status)),
                Next::Register => self.session = None,
                Next::Resume => {}
            }
            if options.once && self.has_registered && self.session.is_none() {
                return self.emit(Event::Ended(status));
            }
            self.emit(Event::Disconnected(status.clone()));
            if begun.elapsed() >= HEALTHY {
                pauses = options.pauses.build();
            }
            if !self.pause(&mut pauses).await {
                return self.emit(Event::Ended(status));
            }
        }
    }

    fn emit(&self, event: Event) {
        // The program may have dropped the receiver.
        let _ = self.events.send(QueuedEvent { event, number: None });
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
        if self.session.is_none() {
            // Before connecting: the program may take long, and an idle connection would be closed.
            self.wait_until_processed().await;
        }
        let connection = Connection::open(options, self.attempt.next()).await?;
        if let Some(leave) = self.leave_requested.take() {
            return self.leave(&connection, leave).await;
        }
        let session = match self.session {
            Some(session) => session,
            None => self.register(&connection).await?,
        };
        if let Some(leave) = self.leave_requested.take() {
            return self.leave(&connection, leave).await;
        }
        let acknowledged = self.outgoing.acknowledged();
        let streams =
            connection.streams(session, acknowledged, self.last_received, &self.invalid).await;
        if streams.as_ref().is_err_and(|status| ending::reason(status) == Some("SEQUENCE_GAP")) {
            // The scheduler has lost its numbers, so the session cannot continue.
            self.session = None;
        }
        let (streams, incoming) = streams?;
        self.outgoing.resume(streams.taken);
        self.converse(&connection, &streams, incoming).await
    }

    /// Ends the session. `Err` if another connection has to try again.
    async fn leave(&mut self, connection: &Connection<'_>, leave: Leave) -> Result<(), Status> {
        let done = connection.deregister(leave.reason.clone()).await;
        if let Err(status) = &done
            && ending::next(status) == Next::Resume
        {
            self.leave_requested = Some(leave);
            return Err(status.clone());
        }
        // The caller may have stopped waiting.
        let _ = leave.left.send(done);
        Ok(())
    }

    /// Registers, and reports the state unless the session continues.
    async fn register(&mut self, connection: &Connection<'_>) -> Result<u64, Status> {
        let Registered { session, taken } = connection.register().await?;
        self.session = Some(session);
        self.has_registered = true;
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
        mut incoming: Incoming,
    ) -> Result<(), Status> {
        let mut acknowledged = self.processed.numbers();
        let mut acknowledging = interval(ACKNOWLEDGE);
        acknowledging.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                                return self.leave(connection, leave).await;
                            }
                        }
                    }
                }
                () = sleep_until(flush.unwrap_or_else(Instant::now)), if next.is_some() && !is_due => {}
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

    fn receive(&mut self, received: Received) -> Result<(), Status> {
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

/// Turns a report into requests. Nodes are reported closed and opened after their allocations, so
/// that no occupied capacity is given away.
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

/// Splits a list into parts of at most the number of items that a message should have. An item
/// larger than that is a part of its own.
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
    fn nodes_stay_closed_until_their_allocations_are_reported() {
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
