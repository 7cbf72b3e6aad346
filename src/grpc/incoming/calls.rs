//! Limits of open calls without a session, shared fairly among callers.
//!
//! # Why shares
//! Opening a call costs a client nothing and takes memory here. With a single limit, a client that
//! opens calls and sends nothing would keep resource managers from registering. So each kind of
//! call has its own limit, and within a kind no caller can use up the room of others:
//!
//! * A call whose message has not arrived waits. A new one is always admitted: if too many wait,
//!   the oldest call of the caller with the most waiting calls is turned away.
//! * A registration, or any other call being answered, is refused if its caller already has as many
//!   of that kind as are free: a single caller gets at most half, and leaves the other half.
//! * Streams of sessions are not limited here: a session has one stream of each kind.
//!
//! A caller is a token or certificate known to the access rules; without rules, a connection.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;

use crate::connections::{Calls as OfConnection, OpenCall};
use crate::grpc::end::StreamEnd;
use crate::locked::locked;

/// The owner of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// A caller known to the access rules.
    Known(String),
    /// The peer of a connection.
    Connection(SocketAddr),
}

/// The kind of a call that is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Registration,
    Other,
}

/// All open calls.
#[derive(Debug)]
pub(super) struct OpenCalls {
    /// The configured limit.
    most: usize,
    most_waiting: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    calls_so_far: u64,
    n_waiting: usize,
    /// Waiting calls of each caller by number, oldest first.
    waiting: HashMap<Caller, BTreeMap<u64, CancellationToken>>,
    registrations: Share,
    others: Share,
}

/// The limit of one kind of calls being answered.
#[derive(Debug)]
struct Share {
    n_free: usize,
    taken: HashMap<Caller, usize>,
}

/// One open call, counted until it is dropped.
#[derive(Debug)]
pub(super) struct Call {
    calls: Arc<OpenCalls>,
    caller: Caller,
    number: u64,
    turned_away: CancellationToken,
    of_connection: Option<OfConnection>,
    now: Mutex<Progress>,
}

/// The present phase of a call.
#[derive(Debug)]
struct Progress {
    phase: Phase,
    /// Keeps the connection from counting as idle.
    _open: Option<OpenCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Answered(CallKind),
    OfSession,
}

impl OpenCalls {
    /// Creates limits for `most` calls: half may wait, an eighth may be registrations, the rest is
    /// for other calls.
    pub(super) fn new(most: usize) -> Self {
        let (most_waiting, registrations) = ((most / 2).max(1), (most / 8).max(1));
        let others = most.saturating_sub(most_waiting + registrations).max(1);
        let share = |n_free| Share { n_free, taken: HashMap::new() };
        let state = State {
            calls_so_far: 0,
            n_waiting: 0,
            waiting: HashMap::new(),
            registrations: share(registrations),
            others: share(others),
        };
        Self { most, most_waiting, state: Mutex::new(state) }
    }

    /// Adds a call that waits for its message. It may be turned away later.
    pub(super) fn begin(
        self: &Arc<Self>,
        caller: Caller,
        of_connection: Option<OfConnection>,
    ) -> Arc<Call> {
        let turned_away = CancellationToken::new();
        let number = self.state().wait(&caller, &turned_away, self.most_waiting);
        let now = Mutex::new(Progress { phase: Phase::Waiting, _open: None });
        let calls = Arc::clone(self);
        Arc::new(Call { calls, caller, number, turned_away, of_connection, now })
    }

    fn too_many(&self) -> StreamEnd {
        StreamEnd::TooManyStreams(self.most)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl State {
    fn wait(&mut self, caller: &Caller, turned_away: &CancellationToken, most: usize) -> u64 {
        let number = self.calls_so_far;
        self.calls_so_far += 1;
        let of_caller = self.waiting.entry(caller.clone()).or_default();
        of_caller.insert(number, turned_away.clone());
        self.n_waiting += 1;
        if self.n_waiting > most {
            let rank = |(_, calls): &(&Caller, &BTreeMap<u64, CancellationToken>)| {
                (calls.len(), calls.keys().next().map(|oldest| Reverse(*oldest)))
            };
            let greedy = self.waiting.iter().max_by_key(rank);
            let oldest = greedy.and_then(|(caller, calls)| Some((caller, calls.keys().next()?)));
            if let Some((caller, &oldest)) = oldest {
                let caller = caller.clone();
                if let Some(turned_away) = self.leave_waiting(&caller, oldest) {
                    turned_away.cancel();
                }
            }
        }
        number
    }

    /// Removes a waiting call. `None` if it was not waiting.
    fn leave_waiting(&mut self, caller: &Caller, number: u64) -> Option<CancellationToken> {
        let of_caller = self.waiting.get_mut(caller)?;
        let gone = of_caller.remove(&number)?;
        if of_caller.is_empty() {
            self.waiting.remove(caller);
        }
        self.n_waiting -= 1;
        Some(gone)
    }

    fn share(&mut self, kind: CallKind) -> &mut Share {
        match kind {
            CallKind::Registration => &mut self.registrations,
            CallKind::Other => &mut self.others,
        }
    }
}

impl Share {
    /// Takes one call of the share for the caller. Returns false if the caller may have no more.
    fn take(&mut self, caller: &Caller) -> bool {
        let has = self.taken.get(caller).copied().unwrap_or_default();
        if has >= self.n_free {
            return false;
        }
        self.n_free -= 1;
        self.taken.insert(caller.clone(), has + 1);
        true
    }

    fn give_back(&mut self, caller: &Caller) {
        let Some(has) = self.taken.get_mut(caller) else {
            debug_assert!(false, "{caller:?} gives back a call that it has not taken");
            return;
        };
        *has -= 1;
        self.n_free += 1;
        if *has == 0 {
            self.taken.remove(caller);
        }
    }
}

impl Call {
    /// The message has arrived: counts the call among those being answered, or refuses it.
    pub(super) fn answer(&self, kind: CallKind) -> Result<(), StreamEnd> {
        {
            let mut state = self.calls.state();
            if state.leave_waiting(&self.caller, self.number).is_none()
                || !state.share(kind).take(&self.caller)
            {
                return Err(self.calls.too_many());
            }
        }
        self.enter(Phase::Answered(kind));
        Ok(())
    }

    /// Counts the call as a stream of a session from now on.
    pub(super) fn bind_to_session(&self) {
        self.calls.state().leave_waiting(&self.caller, self.number);
        self.enter(Phase::OfSession);
    }

    /// Counts the call as one of another member's from now on, unless it has been turned away.
    pub(super) fn leave_to_member(&self) -> Result<(), StreamEnd> {
        if self.calls.state().leave_waiting(&self.caller, self.number).is_none() {
            return Err(self.calls.too_many());
        }
        self.enter(Phase::OfSession);
        Ok(())
    }

    fn enter(&self, phase: Phase) {
        let open = self.of_connection.as_ref().map(OfConnection::begin);
        *self.now() = Progress { phase, _open: open };
    }

    /// Waits until the call is turned away.
    pub(super) fn turned_away(&self) -> impl Future<Output = StreamEnd> + Send + use<> {
        let (turned_away, end) = (self.turned_away.clone(), self.calls.too_many());
        async move {
            turned_away.cancelled_owned().await;
            end
        }
    }

    fn now(&self) -> MutexGuard<'_, Progress> {
        locked(&self.now)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let phase = self.now().phase;
        let mut state = self.calls.state();
        match phase {
            Phase::Waiting => drop(state.leave_waiting(&self.caller, self.number)),
            Phase::Answered(kind) => state.share(kind).give_back(&self.caller),
            Phase::OfSession => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Caller {
        Caller::Known(name.to_owned())
    }

    fn begin(calls: &Arc<OpenCalls>, name: &str) -> Arc<Call> {
        calls.begin(caller(name), None)
    }

    #[test]
    fn oldest_call_of_the_greediest_caller_is_turned_away() {
        let calls = Arc::new(OpenCalls::new(8));
        let quiet = begin(&calls, "quiet");
        let greedy = [(); 3].map(|()| begin(&calls, "greedy"));
        let is_gone = |call: &Call| call.turned_away.is_cancelled();
        let late = [(); 2].map(|()| begin(&calls, "late"));
        assert_eq!([0, 1, 2].map(|n| is_gone(&greedy[n])), [true, true, false]);
        assert!(!is_gone(&quiet) && !late.iter().any(|call| is_gone(call)));
        // A stream of a session makes no room, and needs none.
        late[0].bind_to_session();
        let more = [(); 3].map(|()| begin(&calls, "greedy"));
        assert!(!is_gone(&late[0]) && !is_gone(&late[1]) && !is_gone(&quiet));
        assert!(greedy[0].answer(CallKind::Other).is_err(), "it was turned away");
        assert!(greedy[1].leave_to_member().is_err(), "so was this one");
        assert!(late[1].leave_to_member().is_ok());
        drop((greedy, late, more, quiet));
        let state = calls.state();
        assert_eq!((state.n_waiting, state.waiting.len()), (0, 0));
    }

    #[test]
    fn one_caller_gets_at_most_half() {
        let calls = Arc::new(OpenCalls::new(64));
        let answered = |name: &str, kind| {
            let call = begin(&calls, name);
            call.answer(kind).map(|()| call)
        };
        let of = |name: &str, kind| -> Vec<_> {
            (0..64).map_while(|_| answered(name, kind).ok()).collect()
        };
        // Eight are for registrations.
        let greedy = of("greedy", CallKind::Registration);
        let next = of("next", CallKind::Registration);
        assert_eq!((greedy.len(), next.len()), (4, 2));
        assert_eq!(of("greedy", CallKind::Other).len(), 12);
        drop(greedy);
        assert_eq!(of("third", CallKind::Registration).len(), 3);
        drop(next);
        assert_eq!(calls.state().registrations.n_free, 8);
        assert!(calls.state().registrations.taken.is_empty());
    }
}
