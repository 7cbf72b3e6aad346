//! An API server whose answers the test chooses.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

/// Answer of a server: status and document.
pub type Answer = (u16, Value);

/// A refusal in the form of the API.
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

/// Makes a client of a server that answers by method, path with query, and body. A request that was
/// sent takes effect even if its caller has gone.
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

/// Fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// Takes this long to the server and this long back.
    Takes(Duration, Duration),
    /// Takes this long to the server, and is never answered.
    Unanswered(Duration),
    /// Never reaches the server.
    Lost,
    /// Is refused with this status.
    Refused(u16),
}

/// A quick connection.
pub const QUICK: Trip = Trip::Takes(Duration::from_millis(5), Duration::from_millis(5));

/// Chooses the fate of a request by its method.
pub type Way = Box<dyn Fn(&str) -> Trip + Send + Sync>;

/// The only Lease of the server.
#[derive(Clone, Default)]
pub struct Leases(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
}

impl Leases {
    /// Makes a client with this connection.
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

    /// Returns the holder of the lease. `None` if it does not exist or was released.
    pub fn holder(&self) -> Option<String> {
        let store = self.0.lock().unwrap();
        let holder = store.lease.as_ref()?["spec"]["holderIdentity"].as_str().unwrap_or_default();
        Some(holder.to_owned()).filter(|holder| !holder.is_empty())
    }

    /// Returns the lease.
    pub fn spec(&self) -> Value {
        self.0.lock().unwrap().lease.clone().unwrap_or_default()["spec"].clone()
    }

    /// Writes the lease as another client.
    pub fn write(&self, spec: Value) {
        let lease = json!({"metadata": {"name": "lease", "namespace": "monoceros"}, "spec": spec});
        self.0.lock().unwrap().write(lease);
    }

    /// Deletes the lease.
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
