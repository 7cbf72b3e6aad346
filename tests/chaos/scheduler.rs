//! The scheduler of a game: one service, or three members of a cluster on an etcd.

#![cfg_attr(
    not(feature = "cluster"),
    allow(
        clippy::unused_async,
        unused_variables,
        dead_code,
        reason = "members of a cluster need them"
    )
)]

#[cfg(feature = "cluster")]
pub(crate) mod cluster;

use std::net::SocketAddr;

use crate::harness::{Dice, Proxy, Service};

/// Number of faults that [`Scheduler::fail`] draws from.
const FAULTS: usize = 4;

pub(crate) enum Scheduler {
    Alone {
        service: Service,
        proxy: Proxy,
    },
    #[cfg(feature = "cluster")]
    Cluster(cluster::Members),
}

impl Scheduler {
    pub(crate) async fn alone() -> Self {
        let service = Service::start();
        let proxy = Proxy::start(service.grpc).await;
        Self::Alone { service, proxy }
    }

    /// Addresses for the resource manager.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Alone { proxy, .. } => vec![proxy.address],
            #[cfg(feature = "cluster")]
            Self::Cluster(members) => members.addresses(),
        }
    }

    /// The service that has the books of the resource manager. `None` while there is none.
    pub(crate) async fn owner(&self) -> Option<&Service> {
        match self {
            Self::Alone { service, .. } => Some(service),
            #[cfg(feature = "cluster")]
            Self::Cluster(members) => members.owner().await,
        }
    }

    /// Breaks all connections of the resource manager.
    pub(crate) fn cut(&self) {
        match self {
            Self::Alone { proxy, .. } => proxy.cut(),
            #[cfg(feature = "cluster")]
            Self::Cluster(members) => members.cut(),
        }
    }

    /// Lets the service fail: a single one is killed, and the next one has no state. Returns what
    /// has happened.
    pub(crate) async fn fail(&mut self, dice: &mut Dice) -> &'static str {
        match self {
            Self::Alone { service, proxy } => {
                proxy.lead_to(None);
                *service = Service::start();
                proxy.lead_to(Some(service.grpc));
                "the service is killed"
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(members) => members.fail(dice.below(FAULTS)).await,
        }
    }

    /// Waits until all that failed is there again.
    pub(crate) async fn mend(&mut self) {
        #[cfg(feature = "cluster")]
        if let Self::Cluster(members) = self {
            members.mend().await;
        }
    }
}
