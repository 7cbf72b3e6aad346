//! How many calls may be open that belong to no session, and who makes room for others.
//!
//! # Why shares
//! Opening a call costs a client nothing, and each takes memory here. With one number for all, a
//! client that opens calls and says nothing keeps resource managers from registering. So each kind has
//! room of its own, and within a kind nobody takes what others need:
//!
//! * A call whose message has not come yet waits. There is always room for one more: when there are
//!   too many, of the caller that has the most of them the oldest is turned away.
//! * A registration, and any other call that is being answered, is refused while its caller has as
//!   many of the kind as are free: one caller takes half at most, and leaves the other half to others.
//! * A stream of a session takes no part in this: a session has one stream of each kind.
//!
//! A caller is the token or certificate by which the rules know it; where there are no rules, a
//! connection.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;

use crate::connections::{Calls as OfConnection, OpenCall};
use crate::grpc::end::StreamEnd;

/// Who has a call open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// Somebody whom the rules know.
    Known(String),
    /// Somebody at the other end of a connection.
    Connection(SocketAddr),
}

/// What a call that is being answered is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Registration,
    Other,
}

/// The calls that are open.
#[derive(Debug)]
pub(super) struct OpenCalls {
    /// What the setting says.
    most: usize,
    most_waiting: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    calls_so_far: u64,
    n_waiting: usize,
    /// By the order in which they came.
    waiting: HashMap<Caller, BTreeMap<u64, CancellationToken>>,
    registrations: Share,
    others: Share,
}

/// The calls of one kind that are being answered.
#[derive(Debug)]
struct Share {
    n_free: usize,
    taken: HashMap<Caller, usize>,
}

/// One call, until it is dropped.
#[derive(Debug)]
pub(super) struct Call {
    calls: Arc<OpenCalls>,
    caller: Caller,
    number: u64,
    turned_away: CancellationToken,
    of_connection: Option<OfConnection>,
    now: Mutex<Now>,
}

/// Where a call has got to.
#[derive(Debug)]
struct Now {
    place: Place,
    /// It keeps the place of its connection.
    _open: Option<OpenCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Answered(Kind),
    OfSession,
}

impl OpenCalls {
    /// At most so many: half of them wait, an eighth are registrations, the rest is for others.
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

    /// A call has begun and waits for its message. It may be turned away for others.
    pub(super) fn begin(
        self: &Arc<Self>,
        caller: Caller,
        of_connection: Option<OfConnection>,
    ) -> Arc<Call> {
        let turned_away = CancellationToken::new();
        let number = self.state().wait(&caller, &turned_away, self.most_waiting);
        let now = Mutex::new(Now { place: Place::Waiting, _open: None });
        let calls = Arc::clone(self);
        Arc::new(Call { calls, caller, number, turned_away, of_connection, now })
    }

    fn too_many(&self) -> StreamEnd {
        StreamEnd::TooManyStreams(self.most)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
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

    /// The call waits no more; nothing if it did not.
    fn leave_waiting(&mut self, caller: &Caller, number: u64) -> Option<CancellationToken> {
        let of_caller = self.waiting.get_mut(caller)?;
        let gone = of_caller.remove(&number)?;
        if of_caller.is_empty() {
            self.waiting.remove(caller);
        }
        self.n_waiting -= 1;
        Some(gone)
    }

    fn share(&mut self, kind: Kind) -> &mut Share {
        match kind {
            Kind::Registration => &mut self.registrations,
            Kind::Other => &mut self.others,
        }
    }
}

impl Share {
    /// Whether the caller may have one more, which it has from now on.
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
        let Some(has) = self.taken.get_mut(caller) else { return };
        *has -= 1;
        self.n_free += 1;
        if *has == 0 {
            self.taken.remove(caller);
        }
    }
}

impl Call {
    /// Its message has come: it is being answered, if its caller may have one more of the kind.
    pub(super) fn is_answered(&self, kind: Kind) -> Result<(), StreamEnd> {
        {
            let mut state = self.calls.state();
            if state.leave_waiting(&self.caller, self.number).is_none()
                || !state.share(kind).take(&self.caller)
            {
                return Err(self.calls.too_many());
            }
        }
        self.moved(Place::Answered(kind));
        Ok(())
    }

    /// It is a stream of a session from now on.
    pub(super) fn is_of_session(&self) {
        self.calls.state().leave_waiting(&self.caller, self.number);
        self.moved(Place::OfSession);
    }

    fn moved(&self, place: Place) {
        let open = self.of_connection.as_ref().map(OfConnection::begin);
        *self.now() = Now { place, _open: open };
    }

    /// Waits until it is turned away.
    pub(super) fn turned_away(&self) -> impl Future<Output = StreamEnd> + Send + use<> {
        let (turned_away, end) = (self.turned_away.clone(), self.calls.too_many());
        async move {
            turned_away.cancelled_owned().await;
            end
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder panics")
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let place = self.now().place;
        let mut state = self.calls.state();
        match place {
            Place::Waiting => drop(state.leave_waiting(&self.caller, self.number)),
            Place::Answered(kind) => state.share(kind).give_back(&self.caller),
            Place::OfSession => {}
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
    fn of_those_who_wait_the_oldest_of_the_greediest_makes_room() {
        let calls = Arc::new(OpenCalls::new(8));
        let quiet = begin(&calls, "quiet");
        let greedy = [(); 3].map(|()| begin(&calls, "greedy"));
        let is_gone = |call: &Call| call.turned_away.is_cancelled();
        let late = [(); 2].map(|()| begin(&calls, "late"));
        assert_eq!([0, 1, 2].map(|n| is_gone(&greedy[n])), [true, true, false]);
        assert!(!is_gone(&quiet) && !late.iter().any(|call| is_gone(call)));
        // One that is a session's makes room for nobody, and takes none.
        late[0].is_of_session();
        let more = [(); 3].map(|()| begin(&calls, "greedy"));
        assert!(!is_gone(&late[0]) && !is_gone(&late[1]) && !is_gone(&quiet));
        assert!(greedy[0].is_answered(Kind::Other).is_err(), "it was turned away");
        drop((greedy, late, more, quiet));
        let state = calls.state();
        assert_eq!((state.n_waiting, state.waiting.len()), (0, 0));
    }

    #[test]
    fn one_caller_has_half_at_most_and_what_it_gives_back_is_free() {
        let calls = Arc::new(OpenCalls::new(64));
        let answered = |name: &str, kind| {
            let call = begin(&calls, name);
            call.is_answered(kind).map(|()| call)
        };
        let of = |name: &str, kind| -> Vec<_> {
            (0..64).map_while(|_| answered(name, kind).ok()).collect()
        };
        // Eight are for registrations.
        let greedy = of("greedy", Kind::Registration);
        let next = of("next", Kind::Registration);
        assert_eq!((greedy.len(), next.len()), (4, 2));
        assert_eq!(of("greedy", Kind::Other).len(), 12);
        drop(greedy);
        assert_eq!(of("third", Kind::Registration).len(), 3);
        drop(next);
        assert_eq!(calls.state().registrations.n_free, 8);
        assert!(calls.state().registrations.taken.is_empty());
    }
}
