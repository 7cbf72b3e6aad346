//! Controls of one session of an RM, for the code that carries its messages: a stream that breaks,
//! a window, a dialect. The RM itself cannot send them, since they are about its connection.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::api::callback::RmState;
use crate::api::predicates::{Invalidation, Predicates};
use crate::front::rm_proxy::{ControlSession, DiagnoseSession, RmProxy, SessionKey};
use crate::mailbox::Mailbox;
use crate::partition::Control;

/// Controls the session that was current when it was made; once that is over, nothing happens.
/// Calls return at once and are obeyed in order, after what the RM sent before and ahead of such
/// requests of it as still wait their turn.
#[derive(Clone, Debug)]
pub struct ResourceManagerControl {
    proxy: Mailbox<RmProxy>,
    session: SessionKey,
}

impl ResourceManagerControl {
    pub(crate) fn new(proxy: Mailbox<RmProxy>, session: SessionKey) -> Self {
        Self { proxy, session }
    }

    /// Holds: from now on nothing is decided for the RM, while requests, releases and timers go on.
    /// Placements that wait for a predicate are taken back. `false` lets it go on.
    pub fn hold(&self, hold: bool) {
        self.control(Control::Hold(hold));
    }

    /// Sets how the RM's predicates are asked.
    pub fn set_predicates(&self, predicates: Predicates) {
        self.control(Control::Predicates(predicates));
    }

    /// From now on asks wait so long for an application that has not come yet. None for an RM
    /// whose requests all come in one order.
    pub fn set_reorder_window(&self, window: Duration) {
        self.control(Control::ReorderWindow(window));
    }

    /// Whether a release with a termination type that is not defined is ignored; otherwise it
    /// counts as one that the RM wanted.
    pub fn set_strict_enums(&self, strict: bool) {
        self.control(Control::StrictEnums(strict));
    }

    /// Tries again what predicates refused.
    pub fn invalidate(&self, invalidation: Invalidation) {
        self.control(Control::Invalidate(invalidation));
    }

    /// Sets how many items may wait so in one partition, instead of 10,000.
    pub fn set_reorder_items(&self, items: usize) {
        self.control(Control::ReorderItems(items));
    }

    /// Has the RM begin to tell its own state; none where its callback has none to tell.
    pub async fn state(&self) -> Option<RmState> {
        let (reply, state) = oneshot::channel();
        self.proxy.post(DiagnoseSession { session: self.session.clone(), reply });
        state.await.ok().flatten()
    }

    fn control(&self, control: Control) {
        self.proxy.post(ControlSession { session: self.session.clone(), control });
    }
}
