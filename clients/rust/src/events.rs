//! What comes back, on its way to the program, and how much of it the program has dealt with.
//!
//! A message is acknowledged when the program asks for the one behind it: whoever takes over from a
//! program that has died hears again what it may not have dealt with.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, mpsc};

use crate::Event;
use crate::request::Kind;

/// What comes back, in order. Read it, in a task of its own if need be: while a thousand messages
/// wait, nothing more is heard, also not that requests were taken.
#[derive(Debug)]
pub struct Events {
    told: mpsc::UnboundedReceiver<Told>,
    dealt: Arc<Dealt>,
    /// The message that the program deals with.
    last: Option<Number>,
}

/// The number of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// Of which session, counted from the first of this client.
    session: u64,
    kind: Kind,
    seq: u64,
}

/// An event, and the number of a message.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) number: Option<Number>,
}

/// How far the program has got.
#[derive(Debug, Default)]
pub(crate) struct Dealt {
    progress: Mutex<Progress>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Progress {
    session: u64,
    /// The number of the last message that it has dealt with, by kind.
    numbers: [u64; 3],
    /// Messages that it has not asked for yet.
    waiting: usize,
    /// Messages that it has not dealt with yet.
    undealt: usize,
}

impl Events {
    pub(crate) fn new(told: mpsc::UnboundedReceiver<Told>, dealt: Arc<Dealt>) -> Self {
        Self { told, dealt, last: None }
    }

    /// The next one; none when the client has ended. Asking for it says that the one before it has
    /// been dealt with.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(number) = self.last.take() {
            self.dealt.is_dealt_with(number);
        }
        let Told { event, number } = self.told.recv().await?;
        if number.is_some() {
            self.last = number;
            self.dealt.is_asked_for();
        }
        Some(event)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Nobody waits for what is still on its way.
        self.told.close();
        self.dealt.news.notify_one();
    }
}

impl Dealt {
    /// Up to which number messages were dealt with, by kind.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        self.progress().numbers
    }

    /// A session begins, and with it the numbers.
    pub(crate) fn begin(&self) {
        let mut progress = self.progress();
        progress.session += 1;
        progress.numbers = [0; 3];
    }

    /// A message is on its way to the program.
    pub(crate) fn is_told(&self, kind: Kind, seq: u64) -> Number {
        let mut progress = self.progress();
        progress.waiting += 1;
        progress.undealt += 1;
        Number { session: progress.session, kind, seq }
    }

    /// The program has dealt with a message, or is not there any more.
    pub(crate) fn is_dealt_with(&self, number: Number) {
        let mut progress = self.progress();
        progress.undealt -= 1;
        if progress.session == number.session {
            let dealt = &mut progress.numbers[number.kind.index()];
            *dealt = (*dealt).max(number.seq);
        }
        self.news.notify_one();
    }

    /// Whether the program has dealt with all that it was told.
    pub(crate) fn is_all_dealt_with(&self) -> bool {
        self.progress().undealt == 0
    }

    /// How many messages wait for the program.
    pub(crate) fn waiting(&self) -> usize {
        self.progress().waiting
    }

    /// Waits until the program asks for one more, has dealt with one, or has gone.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    fn is_asked_for(&self) {
        let mut progress = self.progress();
        progress.waiting -= 1;
        self.news.notify_one();
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
    async fn a_message_is_dealt_with_when_the_next_one_is_asked_for_and_only_in_its_session() {
        let (tell, told) = mpsc::unbounded_channel();
        let dealt = Arc::new(Dealt::default());
        let mut events = Events::new(told, Arc::clone(&dealt));
        let say = |seq| {
            let number = Some(dealt.is_told(Kind::Nodes, seq));
            let event = Event::Nodes(si::NodeResponse::default());
            tell.send(Told { event, number }).unwrap();
        };
        say(1);
        say(2);
        events.next().await.unwrap();
        assert_eq!((dealt.numbers(), dealt.waiting()), ([0; 3], 1));
        events.next().await.unwrap();
        assert_eq!((dealt.numbers(), dealt.waiting()), ([1, 0, 0], 0));
        assert!(!dealt.is_all_dealt_with(), "the second is in hand");
        dealt.begin();
        say(1);
        events.next().await.unwrap();
        assert_eq!(dealt.numbers(), [0; 3], "the second was of the session before");
    }
}
