//! The store of the claims, as the settings choose it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use monoceros_cluster_store::etcd::{BadOptions, Etcd, EtcdOptions, TlsFiles, User};
use monoceros_cluster_store::{ClusterName, Store};

use crate::settings::{ArbiterKind, ClusterSettings};

/// Longest request to the store.
const LONGEST_REQUEST: Duration = Duration::from_secs(1);

/// Opens the store. `None` without an arbiter. The first request connects, so a store that is away
/// is no error here.
#[cfg_attr(
    not(feature = "kubernetes"),
    expect(clippy::unused_async, reason = "only the configuration of Kubernetes is awaited")
)]
pub(super) async fn open(settings: &ClusterSettings) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let name = || ClusterName::new(&settings.name).context("`cluster.name`");
    // A request that takes longer than a renewal's interval would delay the next renewal.
    let timeout = LONGEST_REQUEST.min(settings.lease / 5);
    match settings.arbiter {
        ArbiterKind::None => Ok(None),
        ArbiterKind::Etcd => {
            let etcd = Etcd::new(&name()?, options(settings, timeout)).map_err(with_key)?;
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

/// Names the key of the setting that cannot be used.
fn with_key(bad: BadOptions) -> anyhow::Error {
    let key = format!("`cluster.{}`", bad.option());
    anyhow::Error::new(bad).context(key)
}

/// Options for etcd. Its servers get certificates only over `https`: those of `cluster.tls` may be
/// for members alone.
fn options(settings: &ClusterSettings, timeout: Duration) -> EtcdOptions {
    let is_secure = settings.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
    let tls = settings.tls.ca.clone().filter(|_| is_secure).map(|ca| TlsFiles {
        ca,
        identity: settings.tls.certificate.clone().zip(settings.tls.key.clone()),
        server_name: settings.tls.server_name.clone(),
    });
    let user = settings.user.clone().zip(settings.password_file.clone());
    let user = user.map(|(name, password_file)| User { name, password_file });
    EtcdOptions { endpoints: settings.endpoints.clone(), tls, user, timeout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Flags, Settings};

    #[test]
    fn etcd_gets_certificates_over_https_alone() {
        let mut settings = Settings::load(None, &Flags::default()).unwrap().cluster;
        settings.tls.ca = Some("ca.pem".into());
        for (endpoint, has_tls) in [("https://e:1", true), ("http://e:1", false)] {
            settings.endpoints = vec![endpoint.to_owned()];
            let options = options(&settings, LONGEST_REQUEST);
            assert_eq!(options.tls.is_some(), has_tls, "{endpoint}");
        }
        let name = ClusterName::new("c").unwrap();
        assert!(Etcd::new(&name, options(&settings, LONGEST_REQUEST)).is_ok());
    }

    #[test]
    fn an_unusable_setting_is_named_by_its_key() {
        let mut settings = Settings::load(None, &Flags::default()).unwrap().cluster;
        settings.endpoints = vec!["http://e:1".to_owned()];
        settings.user = Some("monoceros".to_owned());
        settings.password_file = Some("/does/not/exist".into());
        let name = ClusterName::new("c").unwrap();
        let bad = Etcd::new(&name, options(&settings, LONGEST_REQUEST)).unwrap_err();
        let shown = format!("{:#}", with_key(bad));
        let expected = "`cluster.password_file`: `/does/not/exist` cannot be read: ";
        assert!(shown.starts_with(expected), "{shown}");
    }
}
