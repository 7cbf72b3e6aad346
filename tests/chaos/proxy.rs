//! A network between the resource manager and the service. It can be cut, and leads to the new
//! service after a restart.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Passes connections on.
pub(crate) struct Proxy {
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    acceptor: AbortHandle,
}

struct State {
    /// The target of connections. `None` refuses them.
    target: Option<SocketAddr>,
    connections: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { target: Some(target), connections: JoinSet::new() };
        let state = Arc::new(Mutex::new(state));
        let of_acceptor = Arc::clone(&state);
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut state = of_acceptor.lock().unwrap();
                let Some(target) = state.target else { continue };
                state.connections.spawn(pass(client, target));
            }
        };
        let acceptor = tokio::spawn(accept).abort_handle();
        Self { address, state, acceptor }
    }

    /// Breaks all connections. Data in transit is lost.
    pub(crate) fn cut(&self) {
        self.state.lock().unwrap().connections.abort_all();
    }

    /// Breaks all connections, and passes later ones on to another target.
    pub(crate) fn lead_to(&self, target: Option<SocketAddr>) {
        let mut state = self.state.lock().unwrap();
        state.target = target;
        state.connections.abort_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

async fn pass(mut client: TcpStream, target: SocketAddr) {
    let Ok(mut service) = TcpStream::connect(target).await else { return };
    // Either side may close.
    let _ = copy_bidirectional(&mut client, &mut service).await;
}
