//! The store of a cluster's records in config maps.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Config;
use monoceros_cluster_store::conformance::{Order, run};
use monoceros_cluster_store::kubernetes::{Kubernetes, config};
use monoceros_cluster_store::{ClusterName, Failure, Kind, RecordKey, Store, conformance};

use crate::bed::{ADMIN, Bed, MEMBER, NOBODY, free_port, say};
use crate::cluster::{Cluster, eventually};

/// Time of a request. An API server that has just started takes long for its first ones.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The control plane on which the cases of a store run.
struct OnKubernetes<'b> {
    bed: &'b mut Bed,
    config: Config,
}

impl conformance::Bed for OnKubernetes<'_> {
    fn store(&self, cluster: &ClusterName) -> Arc<dyn Store> {
        Arc::new(Kubernetes::new(self.config.clone(), cluster, TIMEOUT).unwrap().with_page(5))
    }

    fn order(&mut self, order: Order) -> BoxFuture<'_, Result<bool>> {
        async move {
            match order {
                Order::Stop => self.bed.kill_server()?,
                Order::Start => self.bed.start_server().await?,
                // Revisions are those of the etcd below, where these are tried.
                Order::Compact | Order::BackUp | Order::Restore => return Ok(false),
            }
            Ok(true)
        }
        .boxed()
    }
}

pub async fn every_case_of_a_store(cluster: &mut Cluster) -> Result<()> {
    // With the rights that the chart gives to members, and no others.
    cluster.grant_member().await?;
    let config = config(Some(&cluster.bed.kubeconfig(MEMBER)?)).await?;
    let store = Kubernetes::new(config.clone(), &ClusterName::new("rights")?, TIMEOUT)?;
    eventually("the rights of a member", async || {
        Ok(store.read_all(Kind::Claims).await.map(drop).map_err(|why| why.to_string()))
    })
    .await?;
    let mut bed = OnKubernetes { bed: &mut cluster.bed, config };
    for line in run(&mut bed, &[]).await? {
        say(&format!("  {line}"));
    }
    Ok(())
}

pub async fn refusals_in_one_line(cluster: &mut Cluster) -> Result<()> {
    let name = ClusterName::new("refused")?;
    let key = RecordKey::new(Kind::Claims, &"rm".into())?;
    let read = async |config: Config| {
        let endpoint = config.cluster_url.to_string();
        let store = Kubernetes::new(config, &name, TIMEOUT)?;
        let Err(why) = store.read(&key).await else { anyhow::bail!("it was read") };
        let line = why.to_string();
        ensure!(line.starts_with(&format!("{}: ", endpoint.trim_end_matches('/'))), "{line}");
        ensure!(!line.contains('\n') && line.len() < 400, "{line}");
        Ok((line, matches!(why, Failure::Refused(_))))
    };
    let nobody = config(Some(&cluster.bed.kubeconfig(NOBODY)?)).await?;
    let (line, is_refused) = read(nobody).await?;
    ensure!(is_refused && line.contains("cannot list resource \"configmaps\""), "{line}");

    let known = config(Some(&cluster.bed.kubeconfig(ADMIN)?)).await?;
    let mut unknown = known.clone();
    unknown.root_cert = None;
    unknown.root_cert_file = None;
    let (line, is_refused) = read(unknown).await?;
    ensure!(!is_refused && line.contains("certificate"), "{line}");

    let mut nowhere = known.clone();
    nowhere.cluster_url = format!("https://127.0.0.1:{}", free_port()?).parse()?;
    let (line, is_refused) = read(nowhere).await?;
    ensure!(!is_refused && line.contains("refused"), "{line}");

    let mut elsewhere = known;
    "none".clone_into(&mut elsewhere.default_namespace);
    let store = Kubernetes::new(elsewhere, &name, TIMEOUT)?;
    let written = store.compare_and_set(&key, None, "claim".into()).await;
    ensure!(
        matches!(&written, Err(Failure::Refused(why)) if why.contains("not found")),
        "{written:?}"
    );
    let missing = config(Some("/none/config".as_ref())).await.unwrap_err().to_string();
    ensure!(missing.starts_with("/none/config: "), "{missing}");
    Ok(())
}
