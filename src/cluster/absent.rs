//! The member of a program that was built without clusters: there is none.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use monoceros_actors::SchedulerHandle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::operations::Operations;
use super::{Listening, MemberEnd};
use crate::files::Refresh;
use crate::grpc::MembersEdge;
use crate::grpc::registry::Claims;
use crate::grpc::routing::Routing;
use crate::queues_file::SharedTexts;
use crate::settings::Settings;
use crate::watchdog::{Healthy, Readiness};

/// A member, which cannot exist.
#[derive(Debug)]
pub struct Member(Infallible);

/// A listener for other members, which cannot exist.
#[derive(Debug)]
pub struct MemberListener(Infallible);

impl Member {
    /// Starts nothing: the settings refuse an arbiter in such a build.
    pub fn start(
        _settings: &Settings,
        _handle: &SchedulerHandle,
        _healthy: Healthy,
        _listening: (Listening, Option<&MemberListener>),
    ) -> Ready<anyhow::Result<Option<Self>>> {
        ready(Ok(None))
    }

    /// The claims of registrations.
    pub fn claims(&self) -> Arc<dyn Claims> {
        match self.0 {}
    }

    /// The operations for operators.
    pub fn operations(&self) -> Arc<dyn Operations> {
        match self.0 {}
    }

    /// The way to other members.
    pub fn routing(&self) -> Arc<dyn Routing> {
        match self.0 {}
    }

    /// The keeper of queue configurations that all members share.
    pub fn shared_texts(&self) -> Arc<dyn SharedTexts> {
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

impl MemberListener {
    /// Opens nothing.
    pub fn open(_settings: &Settings) -> Ready<anyhow::Result<Option<Self>>> {
        ready(Ok(None))
    }

    /// The address that is listened on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self.0 {}
    }

    /// The values that are read from files.
    pub fn sources(&self) -> Vec<Arc<dyn Refresh>> {
        match self.0 {}
    }

    /// The edge for other members.
    pub fn into_edge(self, _rest: Router, _shutdown: CancellationToken) -> MembersEdge {
        match self.0 {}
    }
}
