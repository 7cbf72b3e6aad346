//! A proxy in front of the API server that injects faults, and records the requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::bed::SHIM;
use crate::cluster::Cluster;

/// Fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server answers it.
    None,
    /// The proxy answers this, and the server does not receive it.
    Refused(u16),
    /// The server executes it, and the proxy answers this.
    DoneAndRefused(u16),
    /// The server executes it, and the connection is cut.
    DoneAndCut,
    /// The connection is cut at once.
    Cut,
    /// The server executes it after this time, and answers.
    Late(Duration),
    /// The server does not receive it, and nothing is answered.
    Hangs,
    /// The server executes it after this time, and nothing is ever answered.
    DoneAndHangs(Duration),
}

/// Outcome of a request that would change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub method: String,
    pub path: String,
    /// Status that the server answered. `None` if it did not receive the request.
    pub status: Option<u16>,
}

impl Sent {
    pub fn is_binding(&self) -> bool {
        self.method == "POST" && self.path.ends_with("/binding")
    }

    pub fn is_done(&self) -> bool {
        self.status.is_some_and(|status| status < 300)
    }
}

type AllSent = Arc<Mutex<Vec<Sent>>>;

/// A proxy that runs until it is dropped.
pub struct Proxy {
    task: JoinHandle<()>,
    pub kubeconfig: PathBuf,
    sent: AllSent,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts a proxy for the holder of the manifests' rights.
    pub async fn start(
        cluster: &Cluster,
        fault: impl Fn(&str, &str) -> Fault + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let client = cluster.bed.client(SHIM).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let kubeconfig = cluster.bed.folder().join(format!("proxy-{}.kubeconfig", address.port()));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "user", "user": {}}],
            "contexts": [{"name": "proxy", "context": {
                "cluster": "proxy", "user": "user", "namespace": "monoceros"}}],
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        let fault = Arc::new(fault);
        let sent = AllSent::default();
        let all_sent = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (client, fault) = (client.clone(), Arc::clone(&fault));
                let sent = Arc::clone(&all_sent);
                let serve = service_fn(move |request: Request<Incoming>| {
                    let wanted = fault(request.method().as_str(), request.uri().path());
                    forward(client.clone(), wanted, Arc::clone(&sent), request)
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(connection), serve);
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        Ok(Self { task, kubeconfig, sent })
    }

    /// Returns the changing requests so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// Returns the bindings so far.
    pub fn bindings(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(Sent::is_binding).collect()
    }
}

/// Error that cuts the connection.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut")
    }
}

impl std::error::Error for Cut {}

fn refused(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Fault", "message": "a fault"});
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code.try_into().unwrap();
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

async fn forward(
    client: Client,
    wanted: Fault,
    sent: AllSent,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    parts.headers.remove("host");
    let number = (parts.method != "GET").then(|| {
        let mut sent = sent.lock().unwrap();
        let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
        sent.push(Sent { method, path, status: None });
        sent.len() - 1
    });
    let answer = async move {
        let answered = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
        if let (Some(number), Ok(response)) = (number, &answered) {
            sent.lock().unwrap()[number].status = Some(response.status().as_u16());
        }
        answered
    };
    match wanted {
        Fault::None => answer.await.map_err(|_| Cut),
        Fault::Refused(code) => Ok(refused(code)),
        Fault::DoneAndRefused(code) => {
            drop(answer.await);
            Ok(refused(code))
        }
        Fault::DoneAndCut => {
            drop(answer.await);
            Err(Cut)
        }
        Fault::Cut => Err(Cut),
        Fault::Late(time) => {
            sleep(time).await;
            answer.await.map_err(|_| Cut)
        }
        Fault::Hangs => std::future::pending().await,
        Fault::DoneAndHangs(time) => {
            // The sender may have closed the connection already.
            tokio::spawn(async move {
                sleep(time).await;
                drop(answer.await);
            });
            std::future::pending().await
        }
    }
}
