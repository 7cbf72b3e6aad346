//! Measured mailboxes, for the actors that get messages from other threads: those of the front, and
//! partitions.
//!
//! # Why not an address alone
//! A slow actor shows first in its mailbox. Every message that is sent by a [`Mailbox`] is counted and
//! a sample of them is timed, in one place. An actor that implements [`Receive`] instead of `Handler`
//! cannot get a message in another way. The actors that a baton visits have plain addresses: there is one
//! baton, which counts its own messages.

use std::fmt;
use std::sync::Arc;

use actix::prelude::*;
use prometheus::HistogramTimer;

use crate::metrics::{ActorKind, Metrics, Posted};

/// An actor whose mailbox is measured.
pub(crate) trait Measured: Actor<Context = Context<Self>> {
    const KIND: ActorKind;
}

/// Handles messages that were sent by a [`Mailbox`].
pub(crate) trait Receive<M: Message>: Measured {
    /// Whether more messages may follow soon, so that the thread polls for them before it sleeps
    /// ([`crate::spin`]).
    const MAY_BE_FOLLOWED: bool = true;

    fn receive(&mut self, message: M, ctx: &mut Context<Self>) -> M::Result;
}

/// A message in a mailbox, with the measurement of its wait.
pub(crate) struct Mailed<M> {
    message: M,
    posted: Posted,
}

impl<M: Message> Message for Mailed<M> {
    type Result = M::Result;
}

impl<M> Mailed<M> {
    /// The message, and a timer that is to be kept until it is handled.
    pub(crate) fn received(self, may_be_followed: bool) -> (M, Option<HistogramTimer>) {
        if may_be_followed {
            crate::spin::received();
        }
        (self.message, self.posted.received())
    }
}

/// Implements the only `Handler` of a [`Measured`] actor, which calls its [`Receive`] implementations. A
/// macro, since a trait of another crate cannot be implemented for all types at once.
macro_rules! receives {
    ($actor:ty) => {
        impl<M> actix::Handler<$crate::mailbox::Mailed<M>> for $actor
        where
            M: actix::Message,
            M::Result: 'static,
            Self: $crate::mailbox::Receive<M>,
        {
            type Result = actix::MessageResult<$crate::mailbox::Mailed<M>>;

            fn handle(
                &mut self,
                mailed: $crate::mailbox::Mailed<M>,
                ctx: &mut Self::Context,
            ) -> Self::Result {
                let may_be_followed = <Self as $crate::mailbox::Receive<M>>::MAY_BE_FOLLOWED;
                let (message, _timer) = mailed.received(may_be_followed);
                actix::MessageResult(self.receive(message, ctx))
            }
        }
    };
}
pub(crate) use receives;

/// The address of an actor, with measurements of the messages that are sent by it.
pub(crate) struct Mailbox<A: Actor> {
    address: Addr<A>,
    metrics: Arc<Metrics>,
}

/// Not derived, because the actor need not be `Clone` itself.
impl<A: Actor> Clone for Mailbox<A> {
    fn clone(&self) -> Self {
        Self { address: self.address.clone(), metrics: Arc::clone(&self.metrics) }
    }
}

/// Not derived, as for [`Clone`].
impl<A: Measured> fmt::Debug for Mailbox<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mailbox").field(&A::KIND).finish()
    }
}

impl<A: Measured> Mailbox<A> {
    pub(crate) fn new(address: Addr<A>, metrics: &Arc<Metrics>) -> Self {
        Self { address, metrics: Arc::clone(metrics) }
    }

    /// Sends a message without waiting.
    pub(crate) fn post<M>(&self, message: M)
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Receive<M> + Handler<Mailed<M>>,
    {
        self.address.do_send(self.mailed(message));
    }

    /// Sends a message and waits for the answer. For the embedding API, never between actors.
    pub(crate) async fn ask<M>(&self, message: M) -> Result<M::Result, MailboxError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Receive<M> + Handler<Mailed<M>>,
    {
        self.address.send(self.mailed(message)).await
    }

    /// Whether the actor is still running.
    pub(crate) fn is_open(&self) -> bool {
        self.address.connected()
    }

    /// This mailbox, restricted to messages of one type.
    pub(crate) fn destination<M>(&self) -> Destination<M>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Receive<M> + Handler<Mailed<M>>,
    {
        let (recipient, metrics) = (self.address.clone().recipient(), Arc::clone(&self.metrics));
        Destination { recipient, metrics, kind: A::KIND }
    }

    fn mailed<M>(&self, message: M) -> Mailed<M> {
        Mailed { message, posted: self.metrics.posted(A::KIND) }
    }
}

/// A mailbox restricted to messages of one type, for senders that must not know the type of the actor.
pub(crate) struct Destination<M>
where
    M: Message + Send,
    M::Result: Send,
{
    recipient: Recipient<Mailed<M>>,
    metrics: Arc<Metrics>,
    kind: ActorKind,
}

/// Not derived, because the message need not be `Clone` itself.
impl<M> Clone for Destination<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn clone(&self) -> Self {
        let (recipient, metrics) = (self.recipient.clone(), Arc::clone(&self.metrics));
        Self { recipient, metrics, kind: self.kind }
    }
}

/// Not derived, as for [`Clone`].
impl<M> fmt::Debug for Destination<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Destination").field(&self.kind).finish()
    }
}

impl<M> Destination<M>
where
    M: Message + Send,
    M::Result: Send,
{
    /// Sends a message without waiting.
    pub(crate) fn post(&self, message: M) {
        self.recipient.do_send(Mailed { message, posted: self.metrics.posted(self.kind) });
    }

    /// Whether the actor is still running.
    pub(crate) fn is_open(&self) -> bool {
        self.recipient.connected()
    }
}

#[cfg(test)]
mod tests;
