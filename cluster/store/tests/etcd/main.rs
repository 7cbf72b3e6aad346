//! The store in etcd, on real servers: that of Debian's package (3.4) and one built with Go (3.7).
//!
//! A test without its server prints why in one line, and passes.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod access;
#[allow(dead_code, reason = "tests of clusters use all of it")]
mod servers;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_cluster_store::conformance::{Bed, Order, run};
use monoceros_cluster_store::etcd::Etcd;
use monoceros_cluster_store::{ClusterName, Kind, RecordKey, Store};

use crate::servers::{Program, Server, options, ready};

/// A server on which the cases run.
struct OnEtcd {
    server: Server,
}

fn etcd(server: &Server, cluster: &ClusterName) -> Etcd {
    Etcd::new(cluster, options(server)).unwrap().with_page(5)
}

impl Bed for OnEtcd {
    fn store(&self, cluster: &ClusterName) -> Arc<dyn Store> {
        Arc::new(etcd(&self.server, cluster))
    }

    fn order(&mut self, order: Order) -> BoxFuture<'_, Result<bool>> {
        async move {
            let etcd = etcd(&self.server, &ClusterName::new("orders")?);
            match order {
                Order::Stop => self.server.stop(),
                Order::Start => self.server.start()?,
                Order::Compact => {
                    let key = RecordKey::new(Kind::Era, &"era".into())?;
                    let revision = etcd.read(&key).await?.revision;
                    etcd.compact(revision).await?;
                }
                Order::BackUp => {
                    self.server.stop();
                    self.server.copy_data("data", "backup").context("the backup")?;
                    self.server.start()?;
                }
                Order::Restore => {
                    self.server.stop();
                    self.server.copy_data("backup", "data").context("the backup")?;
                    self.server.start()?;
                }
            }
            if order != Order::Stop {
                ready(&etcd).await?;
            }
            Ok(true)
        }
        .boxed()
    }
}

async fn every_case_passes(program: Option<Program>) {
    let Some(program) = program else { return };
    let server = Server::new(&program, &[]).unwrap();
    let mut bed = OnEtcd { server };
    ready(&etcd(&bed.server, &ClusterName::new("first").unwrap())).await.unwrap();
    run(&mut bed, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_passes_on_the_packaged_server() {
    every_case_passes(Program::packaged()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_passes_on_the_built_server() {
    every_case_passes(Program::built()).await;
}
