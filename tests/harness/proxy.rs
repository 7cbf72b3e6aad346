//! A line between a client and a service. It can be cut, or stand still, and leads to the new
//! service after a restart.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// Tells whether a connection from this address is refused.
type Refuses = Box<dyn Fn(SocketAddr) -> bool + Send>;

/// Passes connections on.
pub struct Proxy {
    /// The address that it listens on.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    still: watch::Sender<bool>,
    acceptor: AbortHandle,
}

struct State {
    /// The target of connections. `None` refuses them.
    target: Option<SocketAddr>,
    refuses: Refuses,
    connections: JoinSet<()>,
    /// Clients of the connections.
    clients: Vec<(SocketAddr, AbortHandle)>,
}

impl Proxy {
    pub async fn start(target: impl Into<Option<SocketAddr>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            target: target.into(),
            refuses: Box::new(|_| false),
            connections: JoinSet::new(),
            clients: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let (still, is_still) = watch::channel(false);
        let of_acceptor = Arc::clone(&state);
        let accept = async move {
            while let Ok((client, from)) = listener.accept().await {
                let mut state = of_acceptor.lock().unwrap();
                // Connections that have ended are forgotten.
                while state.connections.try_join_next().is_some() {}
                state.clients.retain(|(_, connection)| !connection.is_finished());
                let Some(target) = state.target.filter(|_| !(state.refuses)(from)) else {
                    continue;
                };
                let connection = state.connections.spawn(pass(client, target, is_still.clone()));
                state.clients.push((from, connection));
            }
        };
        let acceptor = tokio::spawn(accept).abort_handle();
        Self { address, state, still, acceptor }
    }

    /// Breaks all connections. Data in transit is lost.
    pub fn cut(&self) {
        self.state.lock().unwrap().connections.abort_all();
    }

    /// Breaks all connections, and passes later ones on to another target.
    pub fn lead_to(&self, target: Option<SocketAddr>) {
        let mut state = self.state.lock().unwrap();
        state.target = target;
        state.connections.abort_all();
    }

    /// Breaks the connections of some clients, and refuses later ones of theirs, from now on.
    pub fn refuse(&self, whose: impl Fn(SocketAddr) -> bool + Send + 'static) {
        let mut state = self.state.lock().unwrap();
        for (from, connection) in &state.clients {
            if whose(*from) {
                connection.abort();
            }
        }
        state.refuses = Box::new(whose);
    }

    /// Lets all connections stand still, old and new ones, or go on. Nothing is lost.
    pub fn stand_still(&self, is_still: bool) {
        self.still.send_replace(is_still);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

async fn pass(mut client: TcpStream, target: SocketAddr, mut still: watch::Receiver<bool>) {
    let Ok(mut service) = TcpStream::connect(target).await else { return };
    let mut copy = pin!(copy_bidirectional(&mut client, &mut service));
    loop {
        tokio::select! {
            biased;
            stands = becomes(&mut still, true) => {
                if !stands || !becomes(&mut still, false).await {
                    return;
                }
            }
            // Either side may close.
            _ = &mut copy => return,
        }
    }
}

/// Waits until lines stand still, or go on. Returns whether the proxy is still there.
async fn becomes(still: &mut watch::Receiver<bool>, wanted: bool) -> bool {
    still.wait_for(|is_still| *is_still == wanted).await.is_ok()
}
