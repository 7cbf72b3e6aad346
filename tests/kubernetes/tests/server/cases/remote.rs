//! Remote scheduler: `monoceros serve` with `monoceros kubernetes --scheduler`.

use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::gangs::gang_that_keeps_apart;
use crate::cluster::{Cluster, Scheduler, eventually};

pub async fn two_hundred_pods_and_nothing_but_probes_beside(
    cluster: &mut Cluster,
) -> anyhow::Result<()> {
    cluster.create_namespace("remote", json!({})).await?;
    cluster.nodes(10, 32).await?;
    let service = cluster.serve(&[]).await?;
    let shim = cluster.start_elsewhere(&format!("http://{}", service.grpc), &[]).await?;
    cluster.pods("remote", 200, json!({})).await?;
    cluster.wait_bound("remote", 200).await?;
    cluster.agrees(&service).await?;
    shim.ready().await?;
    ensure!(shim.grpc.is_empty(), "it listens for gRPC at {}", shim.grpc);
    ensure!(shim.ask("/healthz").await? == (200, "serving\n".to_owned()));
    let (_, numbers) = shim.ask("/ws/v1/metrics").await?;
    ensure!(numbers.contains("monoceros_kubernetes_bound_pods_total 200\n"), "{numbers}");
    let (status, text) = shim.ask("/ws/v1/partitions").await?;
    ensure!(status == 404 && text.contains(&service.grpc), "{status} {text}");
    Ok(())
}

pub async fn a_gang_that_keeps_apart_on_too_few_hosts(cluster: &mut Cluster) -> anyhow::Result<()> {
    let service = cluster.serve(&[]).await?;
    let _shim = cluster.start_elsewhere(&format!("http://{}", service.grpc), &[]).await?;
    gang_that_keeps_apart(cluster, &service, "remote-apart").await
}

pub async fn a_service_killed_in_the_middle(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("remote-service", json!({})).await?;
    // Slow enough to be interrupted.
    cluster.environment.push(("MONOCEROS__KUBERNETES__BINDINGS", "2"));
    cluster.nodes(20, 32).await?;
    cluster.pods("remote-service", 500, json!({})).await?;
    let mut service = cluster.serve(&[]).await?;
    let grpc = service.grpc.clone();
    let mut shim = cluster.start_elsewhere(&format!("http://{grpc}"), &[]).await?;
    while cluster.bound("remote-service").await? < 50 {
        sleep(Duration::from_millis(20)).await;
    }
    service.end(Signal::SIGKILL).await?;
    let before = cluster.places("remote-service").await?;
    ensure!(before.values().flatten().count() < 500, "it was done before it could be killed");
    for number in 500..520 {
        cluster.pod("remote-service", &format!("p{number}"), json!({})).await?;
    }
    let service = cluster.serve(&[&format!("--grpc={grpc}")]).await?;
    cluster.wait_bound("remote-service", 520).await?;
    let after = cluster.places("remote-service").await?;
    for (name, node) in before {
        ensure!(node.is_none() || after[&name] == node, "{name} was moved");
    }
    cluster.agrees(&service).await?;
    ensure!(!shim.has_ended()?, "{}", shim.log());
    let (_, numbers) = shim.ask("/ws/v1/metrics").await?;
    ensure!(numbers.contains("monoceros_kubernetes_bound_pods_total 520\n"), "{numbers}");
    Ok(())
}

pub async fn a_shim_killed_in_the_middle(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("remote-shim", json!({})).await?;
    // Slow enough to be interrupted.
    cluster.environment.push(("MONOCEROS__KUBERNETES__BINDINGS", "2"));
    cluster.nodes(20, 32).await?;
    cluster.pods("remote-shim", 500, json!({})).await?;
    let service = cluster.serve(&[]).await?;
    let scheduler = format!("http://{}", service.grpc);
    let mut shim = cluster.start_elsewhere(&scheduler, &[]).await?;
    while cluster.bound("remote-shim").await? < 50 {
        sleep(Duration::from_millis(20)).await;
    }
    shim.end(Signal::SIGKILL).await?;
    let before = cluster.places("remote-shim").await?;
    ensure!(before.values().flatten().count() < 500, "it was done before it could be killed");
    let _shim = cluster.start_elsewhere(&scheduler, &[]).await?;
    cluster.wait_bound("remote-shim", 500).await?;
    let after = cluster.places("remote-shim").await?;
    for (name, node) in before {
        ensure!(node.is_none() || after[&name] == node, "{name} was moved");
    }
    cluster.agrees(&service).await
}

pub async fn a_service_that_is_not_there_yet(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("remote-late", json!({})).await?;
    cluster.nodes(2, 8).await?;
    let mut service = cluster.serve(&[]).await?;
    let grpc = service.grpc.clone();
    service.end(Signal::SIGKILL).await?;
    let mut shim = cluster.start_elsewhere(&format!("http://{grpc}"), &[]).await?;
    let says_so = async || {
        Ok(if shim.log().contains("the scheduler cannot be reached") {
            Ok(())
        } else {
            Err(shim.log())
        })
    };
    eventually("a line that says so", says_so).await?;
    let (status, text) = shim.ask("/readyz").await?;
    ensure!(status == 503, "it has nobody to schedule: {text}");
    // The shim ends although no response arrives.
    timeout(Duration::from_secs(4), shim.end(Signal::SIGTERM)).await??;
    let _shim = cluster.start_elsewhere(&format!("http://{grpc}"), &[]).await?;
    cluster.pod("remote-late", "p", json!({})).await?;
    sleep(Duration::from_secs(2)).await;
    let service = cluster.serve(&[&format!("--grpc={grpc}")]).await?;
    cluster.wait_node("remote-late", "p").await?;
    cluster.agrees(&service).await
}

pub async fn queues_of_config_maps(cluster: &mut Cluster) -> anyhow::Result<()> {
    let most = |cores: u32| {
        format!(
            "partitions: [{{name: default, placementrules: [{{name: tag, value: namespace, create: true}}], \
             queues: [{{name: root, submitacl: '*', queues: [{{name: remote-queues, \
             resources: {{max: {{vcore: {cores}}}}}}}]}}]}}]"
        )
    };
    cluster.create_namespace("remote-queues", json!({})).await?;
    cluster.nodes(2, 8).await?;
    cluster.queues("monoceros-configs", "partitions: [{nonsense: 1}]").await?;
    let service = cluster.serve(&[]).await?;
    let _shim = cluster.start_elsewhere(&format!("http://{}", service.grpc), &[]).await?;
    let refused = async |word: &str| {
        eventually("an event about queues that are refused", async || {
            let events = cluster.list("/api/v1/namespaces/monoceros/events").await?;
            let is_it = |event: &serde_json::Value| {
                event["reason"] == "QueuesRefused" && event.to_string().contains(word)
            };
            Ok(if events.iter().any(is_it) { Ok(()) } else { Err(format!("{events:?}")) })
        })
        .await
    };
    refused("nonsense").await?;
    cluster.queues("monoceros-configs", &most(2)).await?;
    let path = "/ws/v1/partition/default/queue/root.remote-queues";
    eventually("the queues to be in force", async || {
        let (status, text) = service.ask(path).await?;
        Ok(if status == 200 { Ok(()) } else { Err(text) })
    })
    .await?;
    cluster.pods("remote-queues", 4, json!({})).await?;
    cluster.wait_bound("remote-queues", 2).await?;
    let places = cluster.places("remote-queues").await?;
    let (waiting, _) = places.iter().find(|(_, node)| node.is_none()).unwrap();
    cluster.wait_reason("remote-queues", waiting, "QueueQuota", "root.remote-queues").await?;
    cluster.queues("monoceros-configs", "partitions: [{rubbish: 1}]").await?;
    refused("rubbish").await?;
    cluster.queues("monoceros-configs", &most(4)).await?;
    cluster.wait_bound("remote-queues", 4).await?;
    cluster.agrees(&service).await
}

pub async fn a_service_with_tls_and_tokens(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("remote-tls", json!({})).await?;
    cluster.nodes(1, 2).await?;
    let folder = cluster.bed.folder().to_owned();
    let file = |name: &str| folder.join(name).display().to_string();
    let settings = format!(
        "[grpc.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n[identity]\ntokens = \"{}\"\n\
         [[identity.rules]]\ntoken = \"shim\"\nrm_ids = [\"kubernetes\"]\n\
         [[identity.rules]]\ntoken = \"people\"\nread = true\n",
        file("server.crt"),
        file("server.key"),
        file("tokens"),
    );
    std::fs::write(file("serve.toml"), settings)?;
    std::fs::write(file("tokens"), "shim:a-secret\npeople:another\n")?;
    std::fs::write(file("token"), "a-secret\n")?;
    std::fs::write(file("wrong"), "no-secret\n")?;
    let service = cluster.serve(&[&format!("--config={}", file("serve.toml"))]).await?;
    let port = service.grpc.rsplit_once(':').unwrap().1.to_owned();
    let scheduler = format!("https://localhost:{port}");
    let ca = format!("--ca={}", file("ca.crt"));
    let token = |name: &str| format!("--token={}", file(name));
    // A shim that is not authorized ends with a message.
    let mut shim = cluster.start_elsewhere(&scheduler, &[&ca, &token("wrong")]).await?;
    eventually("the stranger to end", async || {
        Ok(if shim.has_ended()? { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    ensure!(shim.log().contains("[UNAUTHENTICATED]"), "{}", shim.log());
    let _shim = cluster.start_elsewhere(&scheduler, &[&ca, &token("token")]).await?;
    cluster.pods("remote-tls", 3, json!({})).await?;
    cluster.wait_bound("remote-tls", 2).await?;
    // Explanations come from the same service.
    let places = cluster.places("remote-tls").await?;
    let (waiting, _) = places.iter().find(|(_, node)| node.is_none()).unwrap();
    cluster.wait_reason("remote-tls", waiting, "Unschedulable", "no node has room").await?;
    Ok(())
}

pub async fn a_leader_that_is_killed(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("remote-two", json!({})).await?;
    cluster.nodes(10, 32).await?;
    let service = cluster.serve(&[]).await?;
    let scheduler = format!("http://{}", service.grpc);
    let mut first = cluster.start_elsewhere(&scheduler, &["--lease=monoceros"]).await?;
    leads(&first).await?;
    let mut second = cluster.start_elsewhere(&scheduler, &["--lease=monoceros"]).await?;
    eventually("the other to stand by", async || {
        let said = second.ask("/readyz").await?;
        Ok(if said == (200, "standing by\n".to_owned()) { Ok(()) } else { Err(said.1) })
    })
    .await?;
    cluster.pods("remote-two", 100, json!({})).await?;
    let begun = Instant::now();
    first.end(Signal::SIGKILL).await?;
    leads(&second).await?;
    ensure!(begun.elapsed() < Duration::from_secs(25), "it took {:?}", begun.elapsed());
    cluster.wait_bound("remote-two", 100).await?;
    ensure!(!second.has_ended()?, "{}", second.log());
    cluster.agrees(&service).await
}

pub async fn a_leader_that_is_paused(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("remote-paused", json!({})).await?;
    cluster.nodes(10, 32).await?;
    let service = cluster.serve(&[]).await?;
    let scheduler = format!("http://{}", service.grpc);
    let mut first = cluster.start_elsewhere(&scheduler, &["--lease=monoceros"]).await?;
    leads(&first).await?;
    let mut second = cluster.start_elsewhere(&scheduler, &["--lease=monoceros"]).await?;
    cluster.pods("remote-paused", 100, json!({})).await?;
    first.signal(Signal::SIGSTOP)?;
    leads(&second).await?;
    cluster.wait_bound("remote-paused", 100).await?;
    first.signal(Signal::SIGCONT)?;
    eventually("the one that slept to end", async || {
        Ok(if first.has_ended()? { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    // The earlier replica has not taken the session back.
    sleep(Duration::from_secs(2)).await;
    ensure!(!second.has_ended()?, "{}", second.log());
    cluster.pod("remote-paused", "late", json!({})).await?;
    cluster.wait_node("remote-paused", "late").await?;
    cluster.agrees(&service).await
}

/// Waits until this replica schedules.
async fn leads(shim: &Scheduler) -> anyhow::Result<()> {
    eventually("it to lead", async || {
        let (_, numbers) = shim.ask("/ws/v1/metrics").await?;
        Ok(if numbers.contains("monoceros_kubernetes_leads 1\n") {
            Ok(())
        } else {
            Err(shim.log())
        })
    })
    .await
}
