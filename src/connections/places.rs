//! How many connections an edge may have, and what becomes of those beyond.
//!
//! # Why connections beyond are taken at all
//! A probe of health comes by a connection of its own. If nothing is taken beyond the limit, whoever
//! holds as many connections as may be open has the service killed by its own watchers. So a few
//! more are taken, which are answered questions of health only, and of which the oldest makes room
//! for the next.
//!
//! # Invariants
//! * No more connections are open than the limits say: those that are served, those that answer health
//!   only, and newcomers that have not said anything yet.
//! * A connection on which a call is open that counts is never turned away to make room; one on which
//!   nothing goes on is, once all places are taken: the oldest of those first by which nobody has called
//!   who may, and then the oldest of all.
//! * What anybody may call counts for nothing, and neither does a call that has not said what it is
//!   about: else whoever opens one keeps a place from those who have something to say.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a connection that answers health only lives.
const SPARE_LIFE: Duration = Duration::from_secs(5);

/// How long a newcomer waits for the place of one that is being closed.
const MAKING_ROOM: Duration = Duration::from_secs(1);

/// How many connections an edge may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// That are served.
    pub served: usize,
    /// Beyond these, that answer health only.
    pub spare: usize,
    /// That have not said anything yet.
    pub newcomers: usize,
    /// How long a client may take nothing of what is written to it.
    pub patience: Duration,
}

/// The places of one edge.
#[derive(Debug)]
pub(super) struct Places {
    served: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    /// Those that are open, oldest first.
    open: Mutex<VecDeque<Open>>,
}

/// A connection that has a place.
#[derive(Debug)]
struct Open {
    is_spare: bool,
    calls: Calls,
    /// Closes it, and is cancelled when it is closed.
    cut: CancellationToken,
}

/// How many calls are open on a connection, of those that count. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Use>);

/// A call that is open, until this is dropped.
#[derive(Debug)]
pub struct OpenCall(Arc<Use>);

/// What a connection is used for.
#[derive(Debug, Default)]
struct Use {
    n_open: AtomicUsize,
    /// Somebody has called who may.
    is_known: AtomicBool,
}

/// The place of one connection. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) is_spare: bool,
    _permit: OwnedSemaphorePermit,
}

impl Limits {
    /// So many that are served, and of the others as many as are usual.
    pub fn serving(served: usize) -> Self {
        Self { served, spare: 64, newcomers: 256, patience: Duration::from_secs(30) }
    }

    /// All connections that may be open at a time.
    pub fn in_all(&self) -> usize {
        self.served.saturating_add(self.spare).saturating_add(self.newcomers)
    }

    /// The same in so many descriptors: what is served gets most of what there is.
    #[must_use]
    pub fn within(self, descriptors: usize) -> Self {
        if self.in_all() <= descriptors {
            return self;
        }
        let spare = self.spare.min((descriptors / 6).max(1));
        let newcomers = self.newcomers.min((descriptors / 3).max(1));
        let served = descriptors.saturating_sub(spare + newcomers).clamp(1, self.served);
        Self { served, spare, newcomers, ..self }
    }
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        let places = |n: usize| Arc::new(Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS)));
        Self { served: places(limits.served), spare: places(limits.spare), open: Mutex::default() }
    }

    /// A place for a connection with these calls that `cut` closes; none if there is none even for
    /// health.
    pub(super) async fn place(&self, cut: &CancellationToken, calls: &Calls) -> Option<Place> {
        let is_full = self.served.available_permits() == 0;
        let is_idle = |open: &Open| !open.is_spare && open.calls.are_none();
        let is_spare = is_full
            && !self.turn_away(|open| is_idle(open) && !open.calls.is_known())
            && !self.turn_away(is_idle);
        let mut places = &self.served;
        if is_spare {
            places = &self.spare;
            if self.spare.available_permits() == 0 {
                self.turn_away(|open| open.is_spare);
            }
        }
        let permit = timeout(MAKING_ROOM, Arc::clone(places).acquire_owned()).await;
        let permit = permit.ok()?.ok()?;
        let open = Open { is_spare, calls: calls.clone(), cut: cut.clone() };
        self.open.lock().expect("no holder panics").push_back(open);
        if !is_spare {
            return Some(Place { is_spare, _permit: permit });
        }
        let cut = cut.clone();
        tokio::spawn(async move {
            // Gone by itself, or old.
            let _ = timeout(SPARE_LIFE, cut.cancelled()).await;
            cut.cancel();
        });
        Some(Place { is_spare, _permit: permit })
    }

    /// Closes the oldest connection that is `meant`, if there is one.
    fn turn_away(&self, meant: impl Fn(&Open) -> bool) -> bool {
        let mut open = self.open.lock().expect("no holder panics");
        open.retain(|open| !open.cut.is_cancelled());
        let Some(at) = open.iter().position(meant) else { return false };
        if let Some(oldest) = open.remove(at) {
            oldest.cut.cancel();
        }
        true
    }

    /// Forgets connections that are closed.
    pub(super) fn forget_closed(&self) {
        self.open.lock().expect("no holder panics").retain(|open| !open.cut.is_cancelled());
    }
}

impl Calls {
    /// One more, until what this returns is dropped.
    pub fn begin(&self) -> OpenCall {
        self.0.n_open.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(&self.0))
    }

    /// Somebody has called who may.
    pub fn came_from_somebody_known(&self) {
        self.0.is_known.store(true, Ordering::Relaxed);
    }

    fn are_none(&self) -> bool {
        self.0.n_open.load(Ordering::Relaxed) == 0
    }

    fn is_known(&self) -> bool {
        self.0.is_known.load(Ordering::Relaxed)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[test]
    fn few_descriptors_are_shared_and_many_change_nothing() {
        let usual = Limits::serving(1_024);
        assert_eq!(usual.within(10_000), usual);
        let few = usual.within(36);
        assert_eq!((few.served, few.spare, few.newcomers), (18, 6, 12));
        assert_eq!(few.in_all(), 36);
        assert!(usual.within(0).in_all() <= 3, "one each, whatever happens");
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_the_oldest_makes_room_and_each_ends_soon() {
        let places = Places::new(Limits { served: 1, spare: 2, ..Limits::serving(1) });
        let cuts = [(); 4].map(|()| CancellationToken::new());
        let (busy, idle) = (Calls::default(), Calls::default());
        let _call = busy.begin();
        let served = places.place(&cuts[0], &busy).await.unwrap();
        let first = places.place(&cuts[1], &idle).await.unwrap();
        let second = places.place(&cuts[2], &idle).await.unwrap();
        assert!(!served.is_spare && first.is_spare && second.is_spare);
        let closed = cuts[1].clone();
        tokio::spawn(async move {
            closed.cancelled().await;
            drop(first);
        });
        assert!(places.place(&cuts[3], &idle).await.unwrap().is_spare);
        assert!(cuts[1].is_cancelled() && !cuts[0].is_cancelled() && !cuts[2].is_cancelled());
        let began = Instant::now();
        cuts[2].cancelled().await;
        assert!(began.elapsed() <= SPARE_LIFE);
        sleep(SPARE_LIFE).await;
        assert!(!cuts[0].is_cancelled(), "what is served stays");
        drop(served);
        assert!(!places.place(&CancellationToken::new(), &idle).await.unwrap().is_spare);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_goes_on_the_oldest_makes_room_and_where_a_call_is_open_it_does_not() {
        let places = Places::new(Limits { served: 3, spare: 2, ..Limits::serving(3) });
        let cuts = [(); 4].map(|()| CancellationToken::new());
        let calls = [(); 4].map(|()| Calls::default());
        let _call = calls[0].begin();
        let mut open = Vec::new();
        for (cut, calls) in cuts.iter().zip(&calls).take(3) {
            open.push(places.place(cut, calls).await.unwrap());
        }
        let (closed, idle) = (cuts[1].clone(), open.remove(1));
        tokio::spawn(async move {
            closed.cancelled().await;
            drop(idle);
        });
        assert!(!places.place(&cuts[3], &calls[3]).await.unwrap().is_spare);
        assert_eq!(cuts.map(|cut| cut.is_cancelled()), [false, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_known_stays_as_long_as_a_stranger_can_make_room() {
        let places = Places::new(Limits { served: 2, spare: 2, ..Limits::serving(2) });
        let calls = [(); 2].map(|()| Calls::default());
        calls[0].came_from_somebody_known();
        let mut closed = Vec::new();
        for calls in &calls {
            let cut = CancellationToken::new();
            let place = places.place(&cut, calls).await.unwrap();
            closed.push(cut.clone());
            tokio::spawn(async move {
                cut.cancelled().await;
                drop(place);
            });
        }
        for wanted in [[false, true], [true, true]] {
            let next = Calls::default();
            next.came_from_somebody_known();
            let place = places.place(&CancellationToken::new(), &next).await.unwrap();
            assert!(!place.is_spare);
            assert_eq!([0, 1].map(|n| closed[n].is_cancelled()), wanted);
            std::mem::forget(place);
        }
    }
}
