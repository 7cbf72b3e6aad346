//! The store of the claims, as the settings choose it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use monoceros_cluster_store::etcd::{Etcd, EtcdOptions, TlsFiles, User};
use monoceros_cluster_store::{ClusterName, Store};

use crate::settings::{ArbiterKind, ClusterSettings};

/// Longest request to the store.
const LONGEST_REQUEST: Duration = Duration::from_secs(1);

/// Opens the store. `None` without an arbiter. The first request connects, so a store that is away
/// is no error here.
pub(super) async fn open(settings: &ClusterSettings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let name = || ClusterName::new(&settings.name).context("`cluster.name`");
    // A request that takes longer than a renewal's interval would delay the next renewal.
    let timeout = LONGEST_REQUEST.min(settings.lease / 5);
    match settings.arbiter {
        ArbiterKind::None => Ok(None),
        ArbiterKind::Etcd => {
            let etcd = Etcd::new(&name()?, options(settings, timeout)).context("`cluster`")?;
            Ok(Some(Arc::new(etcd)))
        }
        #[cfg(feature = "kubernetes")]
        ArbiterKind::Kubernetes => {
            use monoceros_cluster_store::kubernetes::{Kubernetes, config};

            let config = config(None).await.context("`cluster.arbiter`")?;
            let store = Kubernetes::new(config, &name()?, timeout).context("`cluster.arbiter`")?;
            Ok(Some(Arc::new(store)))
        }
        #[cfg(not(feature = "kubernetes"))]
        ArbiterKind::Kubernetes => anyhow::bail!("`cluster.arbiter`: not in this program"),
    }
}

fn options(settings: &ClusterSettings, timeout: Duration) -> EtcdOptions {
    let tls = settings.tls.ca.clone().map(|ca| TlsFiles {
        ca,
        identity: settings.tls.certificate.clone().zip(settings.tls.key.clone()),
        server_name: settings.tls.server_name.clone(),
    });
    let user = settings.user.clone().zip(settings.password_file.clone());
    let user = user.map(|(name, password_file)| User { name, password_file });
    EtcdOptions { endpoints: settings.endpoints.clone(), tls, user, timeout }
}
