//! The queue of events to the program, and the program's progress in processing them.
//!
//! A message is acknowledged when the program asks for the next one. If the program dies, its
//! successor receives again all messages that may not have been processed.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, mpsc};

use crate::Event;
use crate::request::Kind;

/// Events in order. Read them, if need be in a task of their own: while a thousand messages wait,
/// the client reads nothing more, not even acknowledgements of requests.
#[derive(Debug)]
pub struct Events {
    queue: mpsc::UnboundedReceiver<QueuedEvent>,
    processed: Arc<Processed>,
    /// Number of the message that the program is processing.
    last: Option<Number>,
}

/// Number of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// Number of the session, counted from the first of this client.
    session: u64,
    kind: Kind,
    seq: u64,
}

/// An event with the number of its message. `None` for events of the client itself.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) event: Event,
    pub(crate) number: Option<Number>,
}

/// Progress of the program, and a signal when it changes.
#[derive(Debug, Default)]
pub(crate) struct Processed {
    progress: Mutex<Progress>,
    change: Notify,
}

#[derive(Debug, Default)]
struct Progress {
    session: u64,
    /// The first session whose waiting messages were not dropped.
    kept_from: u64,
    /// Number of the last processed message of each kind.
    numbers: [u64; 3],
    /// Messages that the program has not asked for yet.
    waiting: usize,
    /// Messages that the program has not processed yet.
    unprocessed: usize,
}

impl Events {
    pub(crate) fn new(
        queue: mpsc::UnboundedReceiver<QueuedEvent>,
        processed: Arc<Processed>,
    ) -> Self {
        Self { queue, processed, last: None }
    }

    /// Returns the next event, or `None` when the client has ended. The call marks the event before
    /// as processed.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(number) = self.last.take() {
            self.processed.complete(number);
        }
        loop {
            let QueuedEvent { event, number } = self.queue.recv().await?;
            let Some(number) = number else { return Some(event) };
            if self.processed.dequeue(number) {
                self.last = Some(number);
                return Some(event);
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Nobody will read the messages still in the queue.
        self.queue.close();
        self.processed.change.notify_one();
    }
}

impl Processed {
    /// Numbers of the last processed messages, by kind.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        self.progress().numbers
    }

    /// Starts a session, whose messages are numbered from one.
    pub(crate) fn begin(&self) {
        let mut progress = self.progress();
        progress.session += 1;
        progress.numbers = [0; 3];
    }

    /// Drops the messages of the present session that the program has not asked for yet.
    pub(crate) fn drop_waiting(&self) {
        let mut progress = self.progress();
        progress.kept_from = progress.session + 1;
        progress.unprocessed -= progress.waiting;
        progress.waiting = 0;
        self.change.notify_one();
    }

    /// Counts a message as queued for the program and returns its number.
    pub(crate) fn enqueue(&self, kind: Kind, seq: u64) -> Number {
        let mut progress = self.progress();
        progress.waiting += 1;
        progress.unprocessed += 1;
        Number { session: progress.session, kind, seq }
    }

    /// Counts a message as processed, or as dropped together with the receiver.
    pub(crate) fn complete(&self, number: Number) {
        let mut progress = self.progress();
        progress.unprocessed -= 1;
        if progress.session == number.session {
            let processed = &mut progress.numbers[number.kind.index()];
            *processed = (*processed).max(number.seq);
        }
        self.change.notify_one();
    }

    /// Whether the program has processed all messages.
    pub(crate) fn is_all_processed(&self) -> bool {
        self.progress().unprocessed == 0
    }

    /// Number of messages that wait for the program.
    pub(crate) fn waiting(&self) -> usize {
        self.progress().waiting
    }

    /// Waits until the program asks for a message, has processed one, or drops the receiver.
    pub(crate) async fn changed(&self) {
        self.change.notified().await;
    }

    /// Counts a message as taken by the program. Returns `false` if it was dropped.
    fn dequeue(&self, number: Number) -> bool {
        let mut progress = self.progress();
        if number.session < progress.kept_from {
            return false;
        }
        progress.waiting -= 1;
        self.change.notify_one();
        true
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;

    use super::*;

    #[tokio::test]
    async fn asking_for_the_next_message_completes_the_last() {
        let (queue, received) = mpsc::unbounded_channel();
        let processed = Arc::new(Processed::default());
        let mut events = Events::new(received, Arc::clone(&processed));
        let deliver = |seq| {
            let number = Some(processed.enqueue(Kind::Nodes, seq));
            let event = Event::Nodes(si::NodeResponse::default());
            queue.send(QueuedEvent { event, number }).unwrap();
        };
        deliver(1);
        deliver(2);
        events.next().await.unwrap();
        assert_eq!((processed.numbers(), processed.waiting()), ([0; 3], 1));
        events.next().await.unwrap();
        assert_eq!((processed.numbers(), processed.waiting()), ([1, 0, 0], 0));
        assert!(!processed.is_all_processed(), "the second is being processed");
        processed.begin();
        deliver(1);
        events.next().await.unwrap();
        assert_eq!(processed.numbers(), [0; 3], "the second was of the session before");
    }

    #[tokio::test]
    async fn dropped_messages_are_not_delivered() {
        let (queue, received) = mpsc::unbounded_channel();
        let processed = Arc::new(Processed::default());
        let mut events = Events::new(received, Arc::clone(&processed));
        let deliver = |seq| {
            let number = Some(processed.enqueue(Kind::Nodes, seq));
            let event = Event::Nodes(si::NodeResponse::default());
            queue.send(QueuedEvent { event, number }).unwrap();
        };
        processed.begin();
        (1..=3).for_each(deliver);
        events.next().await.unwrap();
        processed.drop_waiting();
        assert_eq!(processed.waiting(), 0);
        assert!(!processed.is_all_processed(), "the first is being processed");
        let event = Event::Registered { session: 2, resumed: false };
        queue.send(QueuedEvent { event, number: None }).unwrap();
        assert!(matches!(events.next().await, Some(Event::Registered { .. })));
        assert!(processed.is_all_processed());
        processed.begin();
        deliver(1);
        assert!(matches!(events.next().await, Some(Event::Nodes(_))));
    }
}
