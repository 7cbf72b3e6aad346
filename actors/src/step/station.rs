//! Where the baton stops: the address of an actor that it visits, and the hand in which it is put.
//!
//! # Why beside the mailbox
//! A message of the runtime is two heap allocations, and on the way of an ask that is decided there would be
//! several of them. There is one baton, which is boxed already and has room for what it brings. So what happens for each
//! ask or allocation (a visit that brings it, the nodes and queues that this changes, the offer that decides it)
//! puts the baton into the hand of the next actor, whose context looks there whenever it is woken. So does a survey, which may go
//! through all of them. All else, what is rare and what is not sent with the baton, goes by the mailbox:
//! `do_send`.
//!
//! # Invariants
//! * An actor that has ended has no hand: what is put there is dropped, which tells the Rm, as a message
//!   to it would be.
//! * Whoever is sent something by its mailbox while the baton is in its hand may be given that first. So
//!   nobody is told to end while the baton is on its way to it.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker};

use actix::fut::ActorFuture;
use actix::prelude::*;

/// An actor that the baton visits.
pub(crate) trait Visited: Actor<Context = Context<Self>> {
    /// The baton.
    type Baton: Send;
    /// What the baton brings.
    type Mail;

    /// Where the baton has it.
    fn mail(baton: &mut Self::Baton) -> &mut Option<Self::Mail>;

    /// The baton is here.
    fn visit(&mut self, baton: Box<Self::Baton>, mail: Self::Mail, ctx: &mut Self::Context);
}

/// The address of an actor, and its hand.
pub(crate) struct Station<A: Visited> {
    address: Addr<A>,
    hand: Mutex<Hand<A::Baton>>,
}

struct Hand<B> {
    baton: Option<Box<B>>,
    /// Wakes the context of the actor.
    waker: Option<Waker>,
    has_ended: bool,
}

/// Looks into the hand of an actor, in its context.
struct Courier<A: Visited>(Arc<Station<A>>);

impl<A: Visited> Station<A> {
    /// Starts the actor.
    pub(crate) fn start(actor: A) -> Arc<Self> {
        let mut station = None;
        A::create(|ctx| {
            station = Some(Self::of(ctx));
            actor
        });
        station.expect("an actor is created at once")
    }

    /// That of an actor which is being created.
    pub(crate) fn of(ctx: &mut A::Context) -> Arc<Self> {
        let station = Arc::new(Self {
            address: ctx.address(),
            hand: Mutex::new(Hand { baton: None, waker: None, has_ended: false }),
        });
        ctx.spawn(Courier(Arc::clone(&station)));
        station
    }

    /// Sends the baton there, with what it brings.
    pub(crate) fn hand(&self, mut baton: Box<A::Baton>, mail: A::Mail) {
        *A::mail(&mut baton) = Some(mail);
        let mut hand = self.look();
        if hand.has_ended {
            // Dropped behind the lock: that tells others.
            drop(hand);
            return drop(baton);
        }
        debug_assert!(hand.baton.is_none(), "there is one baton");
        hand.baton = Some(baton);
        if let Some(waker) = &hand.waker {
            waker.wake_by_ref();
        }
    }

    fn look(&self) -> MutexGuard<'_, Hand<A::Baton>> {
        // Whoever panics holds nothing half done.
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the baton; where it is not there, the task is woken when it is.
    fn take(&self, waker: &Waker) -> Option<Box<A::Baton>> {
        let mut hand = self.look();
        let baton = hand.baton.take();
        if baton.is_none() && !hand.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            hand.waker = Some(waker.clone());
        }
        baton
    }
}

impl<A: Visited> Deref for Station<A> {
    type Target = Addr<A>;

    fn deref(&self) -> &Addr<A> {
        &self.address
    }
}

impl<A: Visited> ActorFuture<A> for Courier<A> {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        ctx: &mut A::Context,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        while let Some(mut baton) = self.0.take(task.waker()) {
            match A::mail(&mut baton).take() {
                Some(mail) => actor.visit(baton, mail, ctx),
                None => debug_assert!(false, "the baton brings something"),
            }
        }
        Poll::Pending
    }
}

impl<A: Visited> Drop for Courier<A> {
    fn drop(&mut self) {
        let mut hand = self.0.look();
        hand.has_ended = true;
        let lost = hand.baton.take();
        hand.waker = None;
        drop(hand);
        drop(lost);
    }
}
