//! The listener for other members, opened before the member says where it is.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::tls::MemberTls;
use crate::connections::Connections;
use crate::files::Refresh;
use crate::grpc::MembersEdge;
use crate::settings::{ClusterSettings, Settings, WrongSettings};

/// The listener for other members.
#[derive(Debug)]
pub struct MemberListener {
    listener: TcpListener,
    tls: Option<MemberTls>,
    /// Paths that the member of this process has for others, besides those of REST.
    pub(super) notices: OnceLock<Router>,
}

impl MemberListener {
    /// Listens, if the settings name an arbiter.
    pub async fn open(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let ClusterSettings { listen, tls, .. } = &settings.cluster;
        if !settings.cluster.is_on() {
            return Ok(None);
        }
        let tls = MemberTls::load(tls).context(WrongSettings)?;
        if tls.is_none() && !settings.identity.rules.is_empty() {
            warn!(
                "members speak to each other without TLS (`cluster.tls.names`): whoever has an \
                 account on this machine can get around `identity.rules`"
            );
        }
        let listener = TcpListener::bind(listen).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {listen} (cluster.listen)"))?;
        Ok(Some(Self { listener, tls, notices: OnceLock::new() }))
    }

    /// The address that is listened on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The values that are read from files.
    pub fn sources(&self) -> Vec<Arc<dyn Refresh>> {
        self.tls.as_ref().map(MemberTls::sources).unwrap_or_default()
    }

    /// TLS of connections between members.
    pub(super) fn tls(&self) -> Option<MemberTls> {
        self.tls.clone()
    }

    /// The edge for other members, with the paths of `rest`. To be called after the member has
    /// started.
    pub fn into_edge(self, rest: Router, shutdown: CancellationToken) -> MembersEdge {
        let rest = match self.notices.into_inner() {
            Some(notices) => notices.fallback_service(rest),
            None => rest,
        };
        let (server, names) = match self.tls {
            Some(MemberTls { server, names, .. }) => (Some(server), Some(names)),
            None => (None, None),
        };
        MembersEdge { connections: Connections::new(self.listener, server, shutdown), names, rest }
    }
}
