//! A proxy before the API server that answers otherwise where a case wants it.

use std::path::PathBuf;
use std::sync::Arc;

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

use crate::bed::SHIM;
use crate::cluster::Cluster;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server answers it.
    None,
    /// This is answered, and the server hears nothing.
    Refused(u16),
    /// The server does it, and this is answered.
    DoneAndRefused(u16),
    /// The server does it, and the connection is cut.
    DoneAndCut,
    /// The connection is cut.
    Cut,
}

/// A proxy that runs until it is dropped.
pub struct Proxy {
    task: JoinHandle<()>,
    pub kubeconfig: PathBuf,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy for whoever has the rights of the manifests.
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
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (client, fault) = (client.clone(), Arc::clone(&fault));
                let serve =
                    service_fn(move |request| forward(client.clone(), Arc::clone(&fault), request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(connection), serve);
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        Ok(Self { task, kubeconfig })
    }
}

/// The connection is to be cut.
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
    fault: Arc<impl Fn(&str, &str) -> Fault>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let wanted = fault(request.method().as_str(), request.uri().path());
    match wanted {
        Fault::Cut => return Err(Cut),
        Fault::Refused(code) => return Ok(refused(code)),
        Fault::None | Fault::DoneAndCut | Fault::DoneAndRefused(_) => {}
    }
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    parts.headers.remove("host");
    let answered = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
    match (wanted, answered) {
        (Fault::DoneAndRefused(code), _) => Ok(refused(code)),
        (Fault::DoneAndCut, _) | (_, Err(_)) => Err(Cut),
        (_, Ok(response)) => Ok(response),
    }
}
