//! Controls of a session of an RM, for the code that transports its messages: a broken stream, a reorder
//! window, a dialect. The RM itself cannot send them, since they concern its connection.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::api::callback::RmState;
use crate::api::predicates::{Invalidation, Predicates};
use crate::front::rm_proxy::{ControlSession, DiagnoseSession, RmProxy, SessionKey};
use crate::mailbox::Mailbox;
use crate::partition::Control;

/// The controls of the session that was current when this was made. Once the session is over, calls have no
/// effect. Calls return at once and take effect in order: after requests of the RM that partitions have
/// received before, and ahead of requests that still wait.
#[derive(Clone, Debug)]
pub struct ResourceManagerControl {
    proxy: Mailbox<RmProxy>,
    session: SessionKey,
}

impl ResourceManagerControl {
    pub(crate) fn new(proxy: Mailbox<RmProxy>, session: SessionKey) -> Self {
        Self { proxy, session }
    }

    /// Begins a hold, or ends it with `false`. During a hold nothing is decided for the RM, while requests,
    /// releases and timers are processed. Placements that wait for a predicate are withdrawn.
    pub fn hold(&self, hold: bool) {
        self.control(Control::Hold(hold));
    }

    /// Sets the way in which the RM's predicates are evaluated.
    pub fn set_predicates(&self, predicates: Predicates) {
        self.control(Control::Predicates(predicates));
    }

    /// Sets how long asks wait for an application that has not arrived. Zero for an RM whose requests all
    /// arrive in order.
    pub fn set_reorder_window(&self, window: Duration) {
        self.control(Control::ReorderWindow(window));
    }

    /// Sets whether a release with an undefined termination type is ignored. Otherwise it counts as stopped
    /// by the RM.
    pub fn set_strict_enums(&self, strict: bool) {
        self.control(Control::StrictEnums(strict));
    }

    /// Invalidates earlier answers of predicates: refused requests are tried again.
    pub fn invalidate(&self, invalidation: Invalidation) {
        self.control(Control::Invalidate(invalidation));
    }

    /// Sets the most items that wait in the reorder window of a partition, instead of 10,000.
    pub fn set_reorder_items(&self, items: usize) {
        self.control(Control::ReorderItems(items));
    }

    /// Begins a state dump of the RM; `None` if its callback provides none.
    pub async fn state(&self) -> Option<RmState> {
        let (reply, state) = oneshot::channel();
        self.proxy.post(DiagnoseSession { session: self.session.clone(), reply });
        state.await.ok().flatten()
    }

    fn control(&self, control: Control) {
        self.proxy.post(ControlSession { session: self.session.clone(), control });
    }
}
