//! A simulated API server, which lists, streams changes, and accepts bindings.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

/// A response body, which may be an endless stream.
type Answer = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Default)]
struct Table {
    /// The last resource version.
    version: u64,
    /// Objects as JSON, in the order of arrival.
    pods: Vec<Value>,
    added: Vec<Instant>,
    waited: Vec<f64>,
    /// Watches of pods.
    watches: Vec<Watch>,
    /// The lease. `None` if there is none.
    lease: Option<Value>,
    /// When a client first wrote the lease.
    taken: Option<Instant>,
    /// When the first binding arrived.
    first: Option<Instant>,
}

struct Watch {
    to: UnboundedSender<Bytes>,
    /// Changes that are under way. `None` while they arrive at once.
    held: Option<Vec<Bytes>>,
}

impl Table {
    /// Gives an object a new version, and sends it to the watches.
    fn change(&mut self, kind: &str, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if self.watches.is_empty() {
            return;
        }
        let event = event(kind, object);
        for watch in &mut self.watches {
            match &mut watch.held {
                Some(held) => held.push(event.clone()),
                None => drop(watch.to.send(event.clone())),
            }
        }
    }
}

/// The server.
pub struct Stub {
    nodes: Vec<String>,
    table: Mutex<Table>,
    bound: AtomicUsize,
    made: AtomicUsize,
    are_lists_held: AtomicBool,
    changed: Notify,
}

fn event(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": kind, "object": object})))
}

fn list(kind: &str, items: &[String], next: Option<usize>, version: u64) -> String {
    let next = next.map(|next| next.to_string()).unwrap_or_default();
    format!(
        r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

impl Stub {
    /// Makes a server with this many nodes of 32 cores.
    pub fn new(nodes: usize) -> Arc<Self> {
        Self::with_room(nodes, 110)
    }

    /// Same as [`Self::new`], with room for `pods` on each node.
    pub fn with_room(nodes: usize, pods: usize) -> Arc<Self> {
        let node = |number| {
            json!({
                "metadata": {"name": format!("n{number}"), "uid": format!("node-{number}"),
                    "labels": {"kubernetes.io/hostname": format!("n{number}"),
                        "topology.kubernetes.io/zone": format!("z{}", number % 3)}},
                "spec": {},
                "status": {"allocatable": {"cpu": "32", "memory": "128Gi",
                    "pods": pods.to_string()}},
            })
            .to_string()
        };
        Arc::new(Self {
            nodes: (0..nodes).map(node).collect(),
            table: Mutex::new(Table { version: 1, ..Table::default() }),
            bound: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            are_lists_held: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Adds a pod, which runs already if a node is given.
    pub fn add(&self, number: usize, application: &str, metadata: Value, node: Option<&str>) {
        let mut pod = json!({
            "metadata": {"name": format!("p{number}"), "namespace": "bench",
                "uid": format!("00000000-0000-0000-0000-{number:012}"), "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"applicationId": application, "app": application}},
            "spec": {"schedulerName": "monoceros", "serviceAccountName": "default",
                "containers": [{"name": "main", "image": "registry.example/app:1", "resources":
                    {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
            "status": {"phase": "Pending"},
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            pod["metadata"][key] = value.clone();
        }
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        let mut table = self.table.lock().unwrap();
        assert_eq!(table.pods.len(), number, "pods come in the order of their numbers");
        table.added.push(Instant::now());
        table.change("ADDED", &mut pod);
        table.pods.push(pod);
    }

    /// Sets the holder of the lease; empty for a lease that was given back.
    pub fn set_lease(&self, holder: &str) {
        let mut table = self.table.lock().unwrap();
        let mut lease = json!({"metadata": {"name": "lease", "namespace": "monoceros"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3_600}});
        table.version += 1;
        lease["metadata"]["resourceVersion"] = json!(table.version.to_string());
        table.lease = Some(lease);
    }

    /// Changes a pod as somebody else. `Null` deletes it.
    pub fn change(&self, number: usize, change: impl FnOnce(&mut Value)) {
        let mut table = self.table.lock().unwrap();
        let before = table.pods[number].clone();
        let mut pod = before.clone();
        change(&mut pod);
        if pod.is_null() {
            let mut gone = before;
            table.change("DELETED", &mut gone);
        } else {
            table.change("MODIFIED", &mut pod);
        }
        table.pods[number] = pod;
    }

    /// Holds up the changes that the present watches get.
    pub fn hold_watches(&self) {
        for watch in &mut self.table.lock().unwrap().watches {
            watch.held = Some(Vec::new());
        }
    }

    /// Sends what was held up.
    pub fn release_watches(&self) {
        for watch in &mut self.table.lock().unwrap().watches {
            for event in watch.held.take().unwrap_or_default() {
                watch.to.send(event).ok();
            }
        }
    }

    /// Ends the present watches, since their versions are too old.
    pub fn expire_watches(&self) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
        for watch in self.table.lock().unwrap().watches.drain(..) {
            watch.to.send(event("ERROR", &status)).ok();
        }
    }

    /// Answers no list of pods from now on.
    pub fn hold_lists(&self) {
        self.are_lists_held.store(true, Ordering::Relaxed);
    }

    /// Waits until a client has written the lease.
    pub async fn wait_lease(&self, patience: Duration) {
        let wait = async {
            while self.table.lock().unwrap().taken.is_none() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(timeout(patience, wait).await.is_ok(), "nobody takes the lease");
    }

    /// Returns how many bindings have arrived.
    pub fn bound(&self) -> usize {
        self.bound.load(Ordering::Acquire)
    }

    /// Returns the node of a pod.
    pub fn node_of(&self, number: usize) -> Option<String> {
        let table = self.table.lock().unwrap();
        table.pods[number]["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    /// Returns the time from the first writing of the lease by a client to the first binding.
    pub fn takeover(&self) -> Duration {
        let table = self.table.lock().unwrap();
        table.first.unwrap() - table.taken.unwrap()
    }

    /// Makes a client whose connection is a function call.
    pub fn client(self: &Arc<Self>) -> Client {
        let stub = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let stub = Arc::clone(&stub);
            async move { Ok::<_, Infallible>(stub.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Waits until this many bindings have arrived.
    pub async fn wait_bound(&self, wanted: usize, patience: Duration) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if self.bound() >= wanted {
                    return;
                }
                changed.await;
            }
        };
        let bound = timeout(patience, wait).await;
        assert!(bound.is_ok(), "{} of {wanted} are bound", self.bound());
    }

    /// Returns the seconds from each pod's arrival to its binding.
    pub fn waited(&self) -> Vec<f64> {
        self.table.lock().unwrap().waited.clone()
    }

    /// Returns how many objects were created besides bindings and events.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query: BTreeMap<String, String> =
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let is_watch = query.get("watch").is_some_and(|value| value == "true" || value == "1");
        match parts.method.as_str() {
            "GET" if is_watch => self.follow(&path),
            "GET" if path.starts_with("/apis/scheduling.k8s.io/v1beta1") => missing(),
            "GET" if path == "/apis" => {
                found(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#.to_owned())
            }
            "GET" if path.ends_with("/leases/lease") => match &self.table.lock().unwrap().lease {
                Some(lease) => found(lease.to_string()),
                None => missing(),
            },
            "GET" if path == "/api/v1/pods" && self.are_lists_held.load(Ordering::Relaxed) => {
                std::future::pending().await
            }
            "GET" => found(self.list(&path, &query)),
            "PUT" => {
                let body = body.collect().await.unwrap().to_bytes();
                let mut lease: Value = serde_json::from_slice(&body).unwrap();
                let mut table = self.table.lock().unwrap();
                table.version += 1;
                lease["metadata"]["resourceVersion"] = json!(table.version.to_string());
                table.lease = Some(lease.clone());
                table.taken.get_or_insert_with(Instant::now);
                found(lease.to_string())
            }
            "PATCH" if path.ends_with("/pods/own") => {
                let mut own = json!({"metadata": {"name": "own", "namespace": "monoceros",
                    "uid": "own"}, "spec": {"containers": []}, "status": {"phase": "Running"}});
                self.table.lock().unwrap().change("MODIFIED", &mut own);
                found(own.to_string())
            }
            "POST" if path.ends_with("/binding") => {
                let body = body.collect().await.unwrap().to_bytes();
                self.bind(&path, &serde_json::from_slice(&body).unwrap());
                found(r#"{"kind":"Status","status":"Success"}"#.to_owned())
            }
            method => {
                if method == "POST" && !path.ends_with("/events") {
                    self.made.fetch_add(1, Ordering::Relaxed);
                }
                found("{}".to_owned())
            }
        }
    }

    fn list(&self, path: &str, query: &BTreeMap<String, String>) -> String {
        let number =
            |key: &str, or: usize| query.get(key).and_then(|text| text.parse().ok()).unwrap_or(or);
        let (from, most) = (number("continue", 0), number("limit", usize::MAX));
        let page = |len: usize| from.min(len)..from.saturating_add(most).min(len);
        let next = |len: usize| (page(len).end < len).then(|| page(len).end);
        let version = self.table.lock().unwrap().version;
        match path {
            "/api/v1/nodes" => {
                let all = &self.nodes;
                list("Node", &all[page(all.len())], next(all.len()), version)
            }
            "/api/v1/pods" => {
                let table = self.table.lock().unwrap();
                let len = table.pods.len();
                let pods = table.pods[page(len)].iter().filter(|pod| !pod.is_null());
                let items: Vec<_> = pods.map(Value::to_string).collect();
                list("Pod", &items, next(len), version)
            }
            "/api/v1/namespaces" => {
                let namespace = json!({"metadata": {"name": "bench", "uid": "bench"}});
                list("Namespace", &[namespace.to_string()], None, version)
            }
            _ => list("Any", &[], None, version),
        }
    }

    fn follow(&self, path: &str) -> Response<Answer> {
        let (send, mut receive) = unbounded_channel();
        if path == "/api/v1/pods" {
            self.table.lock().unwrap().watches.push(Watch { to: send, held: None });
        } else {
            // The stream stays open and silent.
            Box::leak(Box::new(send));
        }
        let stream = futures::stream::poll_fn(move |context| receive.poll_recv(context));
        let frames = stream.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn bind(&self, path: &str, binding: &Value) {
        let name = path.rsplit('/').nth(1).unwrap();
        let number: usize = name[1..].parse().unwrap();
        let mut table = self.table.lock().unwrap();
        let waited = table.added[number].elapsed().as_secs_f64();
        table.waited.push(waited);
        table.first.get_or_insert_with(Instant::now);
        let mut pod = table.pods[number].take();
        assert!(pod["spec"]["nodeName"].is_null(), "{name} is bound twice");
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        table.change("MODIFIED", &mut pod);
        table.pods[number] = pod;
        drop(table);
        self.bound.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }
}

fn found(body: String) -> Response<Answer> {
    Response::new(Full::new(Bytes::from(body)).boxed_unsync())
}

fn missing() -> Response<Answer> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "not found", "reason": "NotFound", "code": 404});
    let mut response = found(status.to_string());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
