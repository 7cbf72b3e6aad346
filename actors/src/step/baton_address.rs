//! Addresses that take the baton: the address of an actor, and the slot (its *hand*) into which the
//! baton is put.
//!
//! # Why beside the mailbox
//! A message of the runtime costs two heap allocations, and several of them would be needed for
//! each decided ask. There is one baton, which is boxed already and has room for its mail. So for
//! each ask or allocation (a visit that brings it, the nodes and queues that it changes, the offer
//! that decides it) the baton is put into the hand of the next actor, whose context polls the hand
//! whenever it is woken. A survey, which may pass through all actors, travels in the same way. Rare
//! messages, and messages without the baton, go by the mailbox: `do_send`.
//!
//! # Invariants
//! * An actor that has ended takes no baton: a baton put there is dropped, which reports the loss
//!   to the Rm as a message to it would.
//! * An actor that is sent a message by its mailbox while the baton is in its hand may be given the
//!   message first. So no actor is ended while the baton is on its way to it.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker};

use actix::fut::ActorFuture;
use actix::prelude::*;

/// An actor that the baton visits.
pub(crate) trait Visited: Actor<Context = Context<Self>> {
    /// The type of the baton.
    type Baton: Send;
    /// The mail that the baton brings.
    type Mail;

    /// Returns the field of the baton that holds this actor's mail.
    fn mail(baton: &mut Self::Baton) -> &mut Option<Self::Mail>;

    /// Called when the baton is here.
    fn visit(&mut self, baton: Box<Self::Baton>, mail: Self::Mail, ctx: &mut Self::Context);
}

/// The address of an actor, and its hand.
pub(crate) struct BatonAddress<A: Visited> {
    address: Addr<A>,
    hand: Mutex<Hand<A::Baton>>,
}

struct Hand<B> {
    baton: Option<Box<B>>,
    /// Wakes the context of the actor.
    waker: Option<Waker>,
    has_ended: bool,
}

/// Polls the hand of an actor, in its context.
struct HandPoller<A: Visited>(Arc<BatonAddress<A>>);

impl<A: Visited> BatonAddress<A> {
    /// Starts the actor.
    pub(crate) fn start(actor: A) -> Arc<Self> {
        let mut baton_address = None;
        A::create(|ctx| {
            baton_address = Some(Self::of(ctx));
            actor
        });
        baton_address.expect("an actor is created at once")
    }

    /// Returns the address of an actor that is being created.
    pub(crate) fn of(ctx: &mut A::Context) -> Arc<Self> {
        let baton_address = Arc::new(Self {
            address: ctx.address(),
            hand: Mutex::new(Hand { baton: None, waker: None, has_ended: false }),
        });
        ctx.spawn(HandPoller(Arc::clone(&baton_address)));
        baton_address
    }

    /// Puts the baton into the hand of the actor, with this mail.
    pub(crate) fn hand(&self, mut baton: Box<A::Baton>, mail: A::Mail) {
        *A::mail(&mut baton) = Some(mail);
        let mut hand = self.look();
        if hand.has_ended {
            // Dropped after the lock is released: the drop sends messages to other actors.
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
        // No code panics between two writes to the hand, so a poisoned lock is safe to use.
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the baton. If it is not here, the task is woken when it arrives.
    fn take(&self, waker: &Waker) -> Option<Box<A::Baton>> {
        let mut hand = self.look();
        let baton = hand.baton.take();
        if baton.is_none() && !hand.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            hand.waker = Some(waker.clone());
        }
        baton
    }
}

impl<A: Visited> Deref for BatonAddress<A> {
    type Target = Addr<A>;

    fn deref(&self) -> &Addr<A> {
        &self.address
    }
}

impl<A: Visited> ActorFuture<A> for HandPoller<A> {
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

impl<A: Visited> Drop for HandPoller<A> {
    fn drop(&mut self) {
        let mut hand = self.0.look();
        hand.has_ended = true;
        let lost = hand.baton.take();
        hand.waker = None;
        drop(hand);
        drop(lost);
    }
}
