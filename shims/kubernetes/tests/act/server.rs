//! An API server that records each request and answers by a function.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use monoceros_kubernetes::act::{ApiSettings, ApiWorkers, Victims};
use monoceros_kubernetes::meters::Meters;
use monoceros_kubernetes::objects::Pod;
use monoceros_kubernetes::shim::{
    ApiOrder, Bind, Condition, Evict, Key, Outcome, SharedScene, open,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// A request, and its time.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub path: String,
    pub body: Value,
    pub at: Duration,
}

/// Answer of the server.
#[derive(Clone, Debug)]
pub enum Answer {
    Is(Value),
    Refuses(u16, &'static str),
    /// A refusal, as for creations in a namespace that is being deleted.
    NamespaceGoing,
    /// No answer, ever.
    Hangs,
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap()
}

pub fn ok() -> Answer {
    Answer::Is(json!({}))
}

fn response(answer: Answer) -> Response<Body> {
    let (code, body) = match answer {
        Answer::Is(body) => (200, body),
        Answer::Refuses(code, why) => (
            code,
            json!({"kind": "Status", "status": "Failure", "code": code, "message": why,
                "reason": "Odd"}),
        ),
        Answer::NamespaceGoing => (
            403,
            json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                "message": "it is being terminated",
                "details": {"causes": [{"reason": "NamespaceTerminating"}]}}),
        ),
        Answer::Hangs => unreachable!("it is not answered"),
    };
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

/// The workers, their server, and the outcomes of their work.
pub struct Bench {
    pub workers: ApiWorkers,
    pub scene: SharedScene,
    outcomes: UnboundedReceiver<Outcome>,
    calls: Arc<Mutex<Vec<Call>>>,
    /// End of the right to act, in milliseconds.
    may_act: Arc<AtomicU64>,
    _stop: tokio_util::sync::DropGuard,
}

pub fn read<T: DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

/// Runs a test in virtual time.
pub fn in_virtual_time(test: impl Future<Output = ()>) {
    crate::log::keep();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(test);
}

/// Settings: 64 bindings in flight, one minute for evictions, ten for volumes.
pub fn settings() -> ApiSettings {
    ApiSettings {
        bindings: 64,
        victims: Victims::EvictThenDelete,
        eviction_timeout: Duration::from_secs(60),
        volume_timeout: Duration::from_secs(600),
        events_per_second: 50,
    }
}

impl Bench {
    /// Starts workers in a cluster with the nodes `n1` and `n2`.
    pub fn new(
        settings: ApiSettings,
        answers: impl Fn(&Call) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let (noted, answers, begun) = (Arc::clone(&calls), Arc::new(answers), Instant::now());
        let service = service_fn(move |request: Request<Body>| {
            let (noted, answers) = (Arc::clone(&noted), Arc::clone(&answers));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let call = Call {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                    at: begun.elapsed(),
                };
                noted.lock().unwrap().push(call.clone());
                let answer = answers(&call);
                if matches!(answer, Answer::Hangs) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(response(answer))
            }
        });
        let scene = SharedScene::default();
        for name in ["n1", "n2"] {
            let node = json!({"metadata": {"name": name, "labels": {"host": name}}});
            open(&scene).set_node(read(node));
        }
        let (report, outcomes) = unbounded_channel();
        let may_act = Arc::new(AtomicU64::new(u64::MAX));
        let until = Arc::clone(&may_act);
        let stop = CancellationToken::new();
        let workers = ApiWorkers::start(
            Client::new(service, "default"),
            settings,
            Arc::clone(&scene),
            Arc::new(Meters::new(&prometheus::Registry::new()).unwrap()),
            Arc::new(move || {
                let left = until.load(Ordering::Relaxed).saturating_sub(millis(begun.elapsed()));
                (left > 0).then(|| Duration::from_millis(left))
            }),
            report,
            begun,
            &stop,
        );
        Self { workers, scene, outcomes, calls, may_act, _stop: stop.drop_guard() }
    }

    /// Sets the end of the right to act.
    pub fn may_act_until(&self, until: Duration) {
        self.may_act.store(millis(until), Ordering::Relaxed);
    }

    /// Assumes a pod on `n1`, as the scheduler would, and orders its binding. Returns the token
    /// that cancels it.
    pub fn bind(&self, pod: Value) -> CancellationToken {
        let pod: Arc<Pod> = read(pod);
        let key = Key::from(pod.metadata.uid.clone().unwrap());
        let volumes = {
            let mut scene = open(&self.scene);
            scene.expect(&key, Arc::clone(&pod));
            scene.assume(&key, "n1");
            scene.volume_choices(&key)
        };
        let (node, seen) = (Key::from("n1"), Duration::ZERO);
        let called_off = CancellationToken::new();
        let bind = Bind { key, pod, node, volumes, seen, called_off: called_off.clone() };
        self.workers.queue(ApiOrder::Bind(bind));
        called_off
    }

    /// Orders an eviction. Returns the token that cancels it.
    pub fn evict(&self, pod: Value) -> CancellationToken {
        let pod: Arc<Pod> = read(pod);
        let key = Key::from(pod.metadata.uid.clone().unwrap());
        let message = "it makes room".to_owned();
        let called_off = CancellationToken::new();
        let evict = Evict { key, pod, message, called_off: called_off.clone() };
        self.workers.queue(ApiOrder::Evict(evict));
        called_off
    }

    pub fn condition(&self, pod: Value) {
        let pod: Arc<Pod> = read(pod);
        let key = Key::from(pod.metadata.uid.clone().unwrap());
        let (reason, message) = ("NoNode".to_owned(), "no node has room".to_owned());
        self.workers.queue(ApiOrder::Condition(Condition { key, pod, reason, message }));
    }

    /// Returns the next outcome. `None` if there is none within this time.
    pub async fn outcome_within(&mut self, time: Duration) -> Option<Outcome> {
        tokio::time::timeout(time, self.outcomes.recv()).await.ok().flatten()
    }

    pub async fn outcome(&mut self) -> Outcome {
        self.outcome_within(Duration::from_secs(3_600)).await.expect("an outcome")
    }

    /// Returns the requests so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the requests so far of this method whose path ends like this.
    pub fn sent(&self, method: &str, end: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.method == method && call.path.ends_with(end));
        calls
    }
}

pub async fn pass(time: Duration) {
    sleep(time).await;
}

pub fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"}})
}
