//! An API server that a test answers for.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

/// What a server answers: a status and a document.
pub type Answer = (u16, Value);

/// A refusal, as the API writes one.
pub fn refusal(code: u16) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "Refused",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": format!("a refusal with {code}")});
    (code, status)
}

/// A client of a server that answers like this: by method, path with query, and body. What has been sent
/// is done, also when nobody waits for the answer any more.
pub fn client<F>(answer: impl Fn(String, String, Value) -> F + Send + Sync + 'static) -> Client
where
    F: Future<Output = Answer> + Send + 'static,
{
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path_and_query().unwrap().to_string();
            let answered = tokio::spawn(answer(parts.method.to_string(), path, body));
            let (status, text) = answered.await.unwrap();
            let mut response = Response::new(Body::from(text.to_string().into_bytes()));
            *response.status_mut() = status.try_into().unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    Client::new(service, "monoceros")
}

/// What becomes of a request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// It takes so long to the server, and so long back.
    Takes(Duration, Duration),
    /// It takes so long to the server, and is never answered.
    Unanswered(Duration),
    /// It never comes to the server.
    Lost,
    /// It is refused with this status.
    Refused(u16),
}

/// A way that takes a moment.
pub const QUICK: Trip = Trip::Takes(Duration::from_millis(5), Duration::from_millis(5));

/// The way to the server, of a request with this method.
pub type Way = Box<dyn Fn(&str) -> Trip + Send + Sync>;

/// The server's one Lease.
#[derive(Clone, Default)]
pub struct Leases(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
}

impl Leases {
    /// A client that reaches the server on this way.
    pub fn client(&self, way: Way) -> Client {
        let leases = self.clone();
        client(move |method, path, body| {
            let (leases, trip) = (leases.clone(), way(&method));
            async move {
                let (there, back) = match trip {
                    Trip::Takes(there, back) => (there, Some(back)),
                    Trip::Unanswered(there) => (there, None),
                    Trip::Lost => std::future::pending().await,
                    Trip::Refused(code) => return refusal(code),
                };
                sleep(there).await;
                let answer = leases.answer(&method, &path, body);
                match back {
                    Some(back) => sleep(back).await,
                    None => std::future::pending().await,
                }
                answer
            }
        })
    }

    fn answer(&self, method: &str, path: &str, body: Value) -> Answer {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/monoceros/leases";
        let Some(name) = path.split('?').next().unwrap().strip_prefix(leases) else {
            return refusal(404);
        };
        let mut store = self.0.lock().unwrap();
        match (method, name, store.lease.clone()) {
            ("GET", "/lease", Some(lease)) => (200, lease),
            ("GET" | "PUT", "/lease", None) => refusal(404),
            ("POST", "", None) => (201, store.write(body)),
            ("PUT", "/lease", Some(lease))
                if body["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"] =>
            {
                (200, store.write(body))
            }
            ("POST", "", Some(_)) | ("PUT", "/lease", Some(_)) => refusal(409),
            _ => refusal(405),
        }
    }

    /// Who has the lease: nobody where it is not there, or given back.
    pub fn holder(&self) -> Option<String> {
        let store = self.0.lock().unwrap();
        let holder = store.lease.as_ref()?["spec"]["holderIdentity"].as_str().unwrap_or_default();
        Some(holder.to_owned()).filter(|holder| !holder.is_empty())
    }

    /// The lease as it is.
    pub fn spec(&self) -> Value {
        self.0.lock().unwrap().lease.clone().unwrap_or_default()["spec"].clone()
    }

    /// Somebody else writes it.
    pub fn write(&self, spec: Value) {
        let lease = json!({"metadata": {"name": "lease", "namespace": "monoceros"}, "spec": spec});
        self.0.lock().unwrap().write(lease);
    }

    /// Somebody removes it.
    pub fn remove(&self) {
        self.0.lock().unwrap().lease = None;
    }
}

impl Store {
    fn write(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }
}
