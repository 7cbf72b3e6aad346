//! The member of a program that was built without clusters: there is none.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::SchedulerHandle;
use tokio::sync::watch;

use super::{Listening, MemberEnd};
use crate::grpc::registry::Claims;
use crate::settings::Settings;
use crate::watchdog::{Healthy, Readiness};

/// A member, which cannot exist.
#[derive(Debug)]
pub struct Member(Infallible);

impl Member {
    /// Starts nothing: the settings refuse an arbiter in such a build.
    pub fn start(
        _settings: &Settings,
        _handle: &SchedulerHandle,
        _healthy: Healthy,
        _listening: Listening,
    ) -> Ready<anyhow::Result<Option<Self>>> {
        ready(Ok(None))
    }

    /// The claims of registrations.
    pub fn claims(&self) -> Arc<dyn Claims> {
        match self.0 {}
    }

    /// Whether the member may decide, for probes.
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        match self.0 {}
    }

    /// Waits until the member has ended by itself.
    pub fn ended(&self) -> Ready<MemberEnd> {
        match self.0 {}
    }

    /// Hands over, and leaves the cluster.
    pub fn leave(&self, _patience: Duration) -> Ready<()> {
        match self.0 {}
    }
}
