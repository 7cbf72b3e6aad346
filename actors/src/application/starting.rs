//! An application gets its place among those that run: what changes with that.
//!
//! # Why all is tried anew
//! While an application may not start, the queues above it pass over what waits in it, whatever is
//! loosened meanwhile, and note that they have declined. That note covers what runs. So when the
//! application comes to be among those, its asks have to be looked at once, or what was loosened in
//! between would never be seen by them.

use monoceros_rules::nodes::NodeIndex;
use monoceros_rules::waiting::WaitSet;

use super::Application;

/// Where an application stood before a change.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Standing {
    is_starting: bool,
    may_run_soon: bool,
}

impl Application {
    /// Where it stands, to be compared when something has changed.
    pub(super) fn standing(&self) -> Standing {
        Standing { is_starting: self.book.is_starting(), may_run_soon: self.book.may_run_soon() }
    }

    /// It stood there before: if it has left those that have still to start, its asks are tried
    /// anew. Returns the change of how many hold something and do not run.
    pub(super) fn moved_on(&mut self, was: Standing, nodes: &NodeIndex) -> i64 {
        if was.is_starting && !self.book.is_starting() {
            self.book.asks.wake_all(nodes);
            if let Some(bundle) = &mut self.bundle
                && bundle.air.is_none()
            {
                bundle.waits = WaitSet::Due;
            }
        }
        i64::from(self.book.may_run_soon()) - i64::from(was.may_run_soon)
    }
}
