//! A cluster on the bed, as cases use it: objects as JSON, and the scheduler as a process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use kube::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::bed::{ADMIN, Bed, SHIM, free_port};
use crate::cases::Theirs;

/// A cluster on a bed.
pub struct Cluster {
    pub bed: Bed,
    pub client: Client,
    /// Environment of the schedulers.
    pub environment: Vec<(&'static str, &'static str)>,
    /// Log file of the schedulers, one for each case.
    pub log: PathBuf,
    /// Control plane of kube-scheduler, once a case has compared with it.
    pub theirs: Option<Box<Theirs>>,
}

/// The scheduler as a process.
pub struct Scheduler {
    child: Child,
    pub http: String,
    /// Its address; empty if it does not listen.
    pub grpc: String,
    log: PathBuf,
}

/// Time limit of effects that should occur at once. Test machines are slow at times.
pub const SOON: Duration = Duration::from_secs(60);

impl Cluster {
    pub async fn new(bed: Bed) -> anyhow::Result<Self> {
        let client = bed.client(ADMIN).await?;
        let log = bed.folder().join("scheduler.log");
        let cluster = Self { bed, client, environment: Vec::new(), log, theirs: None };
        cluster.create_namespace("monoceros", json!({})).await?;
        cluster.grant(&[]).await?;
        Ok(cluster)
    }

    /// Sends a request and returns the response.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path);
        let request =
            request.header("content-type", kind).body(body).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    pub async fn create(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.send("POST", path, &body).await.with_context(|| format!("POST {path} {body}"))
    }

    pub async fn patch(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.send("PATCH", path, &body).await.with_context(|| format!("PATCH {path} {body}"))
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send("GET", path, &Value::Null).await.with_context(|| format!("GET {path}"))
    }

    /// Returns the items of a list.
    pub async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.get(path).await?;
        Ok(serde_json::from_value(list["items"].take())?)
    }

    /// Deletes the object at once. A missing object is no error.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        match self.send("DELETE", path, &options).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(why) => Err(why).with_context(|| format!("DELETE {path}")),
        }
    }

    pub async fn create_namespace(&self, name: &str, annotations: Value) -> anyhow::Result<()> {
        let body = json!({"metadata": {"name": name, "annotations": annotations}});
        self.create("/api/v1/namespaces", body).await.map(drop)
    }

    /// Creates a node with this many cores and these labels.
    pub async fn node(&self, name: &str, cores: u32, labels: Value) -> anyhow::Result<()> {
        let mut all = json!({"kubernetes.io/hostname": name});
        for (key, value) in labels.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        self.create("/api/v1/nodes", json!({"metadata": {"name": name, "labels": all}})).await?;
        let amounts = json!({"cpu": cores.to_string(), "memory": "64Gi", "pods": "110"});
        let status = json!({"status": {"allocatable": amounts, "capacity": amounts}});
        self.patch(&format!("/api/v1/nodes/{name}/status"), status).await.map(drop)
    }

    pub async fn nodes(&self, count: usize, cores: u32) -> anyhow::Result<()> {
        let all = (0..count)
            .map(|number| async move { self.node(&format!("n{number}"), cores, json!({})).await });
        let made: Vec<_> = futures::stream::iter(all).buffer_unordered(8).collect().await;
        made.into_iter().collect()
    }

    /// Creates a pod of one core; `more` is merged into it.
    pub async fn pod(&self, namespace: &str, name: &str, more: Value) -> anyhow::Result<Value> {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "monoceros",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        });
        merge(&mut pod, more);
        self.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await
    }

    pub async fn pods(&self, namespace: &str, count: usize, more: Value) -> anyhow::Result<()> {
        self.pods_from(namespace, 0, count, more).await
    }

    /// Creates pods with consecutive numbers.
    pub async fn pods_from(
        &self,
        namespace: &str,
        first: usize,
        count: usize,
        more: Value,
    ) -> anyhow::Result<()> {
        let all = (first..first + count).map(|number| {
            let more = more.clone();
            async move { self.pod(namespace, &format!("p{number}"), more).await.map(drop) }
        });
        let made: Vec<_> = futures::stream::iter(all).buffer_unordered(16).collect().await;
        made.into_iter().collect()
    }

    pub async fn read_pod(&self, namespace: &str, name: &str) -> anyhow::Result<Value> {
        self.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await
    }

    pub async fn delete_pod(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        self.delete(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await
    }

    /// Returns the node of each pod, by name.
    pub async fn places(
        &self,
        namespace: &str,
    ) -> anyhow::Result<BTreeMap<String, Option<String>>> {
        let pods = self.list(&format!("/api/v1/namespaces/{namespace}/pods?limit=10000")).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let place =
            |pod: &Value| Some((text(&pod["metadata"]["name"])?, text(&pod["spec"]["nodeName"])));
        Ok(pods.iter().filter_map(place).collect())
    }

    /// Returns the number of bound pods of the namespace.
    pub async fn bound(&self, namespace: &str) -> anyhow::Result<usize> {
        Ok(self.places(namespace).await?.values().flatten().count())
    }

    /// Waits until this many pods are bound.
    pub async fn wait_bound(&self, namespace: &str, count: usize) -> anyhow::Result<()> {
        eventually(&format!("{count} pods of {namespace} bound"), async || {
            let bound = self.bound(namespace).await?;
            Ok(if bound == count { Ok(()) } else { Err(format!("{bound} are")) })
        })
        .await
    }

    /// Waits until a pod is bound, and returns its node.
    pub async fn wait_node(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let what = format!("{namespace}/{name} bound");
        let mut found = String::new();
        eventually(&what, async || {
            let pod = self.read_pod(namespace, name).await?;
            Ok(match pod["spec"]["nodeName"].as_str() {
                Some(node) => {
                    node.clone_into(&mut found);
                    Ok(())
                }
                None => Err(pod["status"].to_string()),
            })
        })
        .await?;
        Ok(found)
    }

    /// Waits until the pod's condition has this reason, and this text in its message.
    pub async fn wait_reason(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
        message: &str,
    ) -> anyhow::Result<String> {
        let what = format!("{namespace}/{name} to wait for {reason} `{message}`");
        let mut found = String::new();
        eventually(&what, async || {
            let pod = self.read_pod(namespace, name).await?;
            if let Some(node) = pod["spec"]["nodeName"].as_str() {
                bail!("{namespace}/{name} is bound to {node}");
            }
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let condition = conditions.into_iter().find(|one| one["type"] == "PodScheduled");
            let condition = condition.unwrap_or_default();
            let said = condition["message"].as_str().unwrap_or_default();
            said.clone_into(&mut found);
            let is_it = condition["reason"] == reason && said.contains(message);
            Ok(if is_it { Ok(()) } else { Err(condition.to_string()) })
        })
        .await?;
        Ok(found)
    }

    /// Waits until the pod's condition says why it waits.
    pub async fn wait_said(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        eventually(&format!("{namespace}/{name} to say why it waits"), async || {
            let pod = self.read_pod(namespace, name).await?;
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_it = |one: &Value| one["type"] == "PodScheduled" && one["status"] == "False";
            Ok(if conditions.iter().any(is_it) { Ok(()) } else { Err(pod["status"].to_string()) })
        })
        .await
    }

    /// Deletes everything that a case has created.
    pub async fn clear(&mut self) -> anyhow::Result<()> {
        self.environment.clear();
        self.remove_all().await
    }

    pub async fn remove_all(&self) -> anyhow::Result<()> {
        for kind in [
            "/api/v1/namespaces/NAMESPACE/pods",
            "/apis/policy/v1/namespaces/NAMESPACE/poddisruptionbudgets",
            "/apis/scheduling.k8s.io/v1beta1/namespaces/NAMESPACE/podgroups",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
        ] {
            let all = self.list(&kind.replace("/namespaces/NAMESPACE", "")).await?;
            let paths = all.iter().filter_map(|it| {
                let text = |key: &str| it["metadata"][key].as_str();
                let name = text("name").filter(|name| !name.starts_with("system-"))?;
                let kind = kind.replace("NAMESPACE", text("namespace").unwrap_or_default());
                Some(format!("{kind}/{name}"))
            });
            let gone = paths.map(|path| async move { self.delete(&path).await });
            let gone: Vec<_> = futures::stream::iter(gone).buffer_unordered(16).collect().await;
            gone.into_iter().collect::<anyhow::Result<()>>()?;
        }
        for path in [
            "/api/v1/nodes",
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes",
        ] {
            self.delete(path).await?;
        }
        for map in ["yunikorn-defaults", "yunikorn-configs", "monoceros-configs"] {
            self.delete(&format!("/api/v1/namespaces/monoceros/configmaps/{map}")).await?;
        }
        self.delete("/apis/coordination.k8s.io/v1/namespaces/monoceros/leases/monoceros").await
    }

    /// Creates a priority class.
    pub async fn priority_class(&self, name: &str, value: i32) -> anyhow::Result<()> {
        let class = json!({"metadata": {"name": name}, "value": value});
        self.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await.map(drop)
    }

    /// Returns the names of the pods that are being deleted.
    pub async fn going(&self, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
        let pods = self.list(&format!("/api/v1/namespaces/{namespace}/pods")).await?;
        let going = pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        Ok(going.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until this many pods are being deleted, and returns their names.
    pub async fn wait_going(
        &self,
        namespace: &str,
        count: usize,
    ) -> anyhow::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        eventually(&format!("{count} pods of {namespace} to go"), async || {
            found = self.going(namespace).await?;
            Ok(if found.len() == count { Ok(()) } else { Err(format!("{found:?} do")) })
        })
        .await?;
        Ok(found)
    }

    pub async fn queues(&self, name: &str, yaml: &str) -> anyhow::Result<()> {
        let path = "/api/v1/namespaces/monoceros/configmaps";
        let body = json!({"metadata": {"name": name}, "data": {"queues.yaml": yaml}});
        let changed = json!({"data": {"queues.yaml": yaml}});
        match self.send("POST", path, &body).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.patch(&format!("{path}/{name}"), changed).await.map(drop)
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Starts the scheduler with the rights of the token.
    pub async fn start(&self, token: &str, flags: &[&str]) -> anyhow::Result<Scheduler> {
        let kubeconfig = self.bed.kubeconfig(token)?;
        self.start_with(&kubeconfig, flags).await
    }

    pub async fn start_with(&self, kubeconfig: &Path, flags: &[&str]) -> anyhow::Result<Scheduler> {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        self.run(&[&["kubernetes", &kubeconfig, "--grpc=127.0.0.1:0"], flags].concat()).await
    }

    /// Starts the service without a cluster.
    pub async fn serve(&self, flags: &[&str]) -> anyhow::Result<Scheduler> {
        let is_anywhere = !flags.iter().any(|flag| flag.starts_with("--grpc"));
        // A service that is started again finds its port free.
        let grpc = format!("--grpc=127.0.0.1:{}", free_port()?);
        let grpc: &[&str] = if is_anywhere { &[&grpc] } else { &[] };
        self.run(&[&["serve"], grpc, flags].concat()).await
    }

    /// Starts the shim for a remote scheduler.
    pub async fn start_elsewhere(
        &self,
        scheduler: &str,
        flags: &[&str],
    ) -> anyhow::Result<Scheduler> {
        let kubeconfig = format!("--kubeconfig={}", self.bed.kubeconfig(SHIM)?.display());
        let scheduler = format!("--scheduler={scheduler}");
        self.run(&[&["kubernetes", &kubeconfig, &scheduler], flags].concat()).await
    }

    async fn run(&self, line: &[&str]) -> anyhow::Result<Scheduler> {
        let log = self.log.clone();
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_monoceros-on-kubernetes"))
            .args(line)
            .arg("--http=127.0.0.1:0")
            .env_remove("MONOCEROS_K8S_BED")
            .env_remove("MONOCEROS_KUBERNETES")
            .env_remove("MONOCEROS_KEEP")
            .envs(self.environment.clone())
            .stdout(Stdio::piped())
            .stderr(out)
            .kill_on_drop(true)
            .spawn()?;
        let out = child.stdout.take().context("its output")?;
        let mut lines = tokio::io::BufReader::new(out).lines();
        let line = lines.next_line().await?;
        let line = line.with_context(|| format!("it ended: {}", tail(&log)))?;
        let address = |name: &str| {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.map(str::to_owned)
        };
        let http = address("http=").with_context(|| format!("no address in `{line}`"))?;
        let grpc = address("grpc=").unwrap_or_default();
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Scheduler { child, http, grpc, log })
    }

    /// Checks that the books of the scheduler and those of the API agree on the node of every pod.
    pub async fn agrees(&self, scheduler: &Scheduler) -> anyhow::Result<()> {
        eventually("the books to agree", async || {
            let nodes = self.list("/api/v1/nodes?limit=10000").await?;
            let known: BTreeSet<&str> =
                nodes.iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
            let pods = self.list("/api/v1/pods?limit=100000").await?;
            let mut api: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for pod in &pods {
                let is_over =
                    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
                if let (Some(node), Some(uid), false) =
                    (pod["spec"]["nodeName"].as_str(), pod["metadata"]["uid"].as_str(), is_over)
                    && known.contains(node)
                {
                    api.entry(node.to_owned()).or_default().insert(uid.to_owned());
                }
            }
            let mut engine: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for node in scheduler
                .read("/ws/v1/partition/default/nodes")
                .await?
                .as_array()
                .into_iter()
                .flatten()
            {
                let name = node["nodeID"].as_str().unwrap_or_default().to_owned();
                for kind in ["allocations", "foreignAllocations"] {
                    for one in node[kind].as_array().into_iter().flatten() {
                        let key = one["allocationKey"].as_str().unwrap_or_default();
                        engine.entry(name.clone()).or_default().insert(key.to_owned());
                    }
                }
            }
            if api == engine {
                return Ok(Ok(()));
            }
            let differ =
                api.keys().chain(engine.keys()).find(|node| api.get(*node) != engine.get(*node));
            let node = differ.cloned().unwrap_or_default();
            Ok(Err(format!(
                "{node}: the API has {:?}, the engine {:?}",
                api.get(&node),
                engine.get(&node)
            )))
        })
        .await
    }
}

impl Scheduler {
    /// Reads a document over HTTP.
    pub async fn read(&self, path: &str) -> anyhow::Result<Value> {
        let (status, text) = self.ask(path).await?;
        ensure!(status == 200, "{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Sends an HTTP request. Returns the status and the text.
    pub async fn ask(&self, path: &str) -> anyhow::Result<(u16, String)> {
        use http_body_util::BodyExt as _;
        use hyper_util::client::legacy::Client;
        use hyper_util::rt::TokioExecutor;
        let client = Client::builder(TokioExecutor::new()).build_http::<String>();
        let uri = format!("http://{}{path}", self.http).parse::<http::Uri>()?;
        let answer = client.get(uri).await?;
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(text.to_vec())?))
    }

    /// Waits until the scheduler has read the cluster.
    pub async fn ready(&self) -> anyhow::Result<()> {
        eventually("the scheduler to be ready", async || match self.ask("/readyz").await {
            Ok((200, _)) => Ok(Ok(())),
            Ok((_, text)) => Ok(Err(text)),
            Err(why) => Ok(Err(format!("{why:#}"))),
        })
        .await
    }

    /// Returns the output of a command that asks this scheduler.
    pub async fn command(&self, line: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_monoceros-on-kubernetes"))
            .args(line)
            .args(["--grpc", &format!("http://{}", self.grpc)])
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{line:?}: {text}{wrong}");
        Ok(text)
    }

    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().context("it has ended")?;
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }

    /// Sends the signal, and waits for the end.
    pub async fn end(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.signal(signal)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Returns whether the scheduler has ended by itself.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(10).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Repeats the check until it passes. The inner error describes the current state.
pub async fn eventually(
    what: &str,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Result<(), String>>,
) -> anyhow::Result<()> {
    let until = Instant::now() + SOON;
    loop {
        match ask().await? {
            Ok(()) => return Ok(()),
            Err(instead) if Instant::now() >= until => bail!("{what}: {instead}"),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Merges one document into another.
pub fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}
