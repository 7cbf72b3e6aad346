//! A resource manager over gRPC: `monoceros serve` in one window, `cargo run --example shim` in
//! another. Type the name of a task to end it; Ctrl-C ends the shim.
//!
//! It owns two nodes, one of them with a GPU, and runs five tasks. Through the client library it
//! registers, reports its nodes, submits an application, asks for one container per task, and
//! evaluates the scheduler's predicates: the task `train` runs only on the node with the GPU.
//!
//! # Where state is kept
//! The scheduler keeps nothing on disk, so the shim keeps the state of both: nodes, asks, and the
//! node of each running task. Whenever a session begins, the library reports that state from
//! [`report`]: running tasks are registered before new asks are sent.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead as _, Write as _};
use std::sync::{Arc, Mutex};

use monoceros_client::si::TerminationType;
use monoceros_client::{
    Callbacks, Client, Ended, Event, Fit, Options, Report, callback, reason, si,
};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::Endpoint;

const RM_ID: &str = "example";
const QUEUES: &str = r#"
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
"#;
const APPLICATION: &str = "job";
/// Nodes of four cores; the last one has a GPU.
const NODES: [&str; 2] = ["n1", "n2"];
const GPU_NODE: &str = "n2";
/// Tasks of two cores, one more than fit.
const TASKS: [&str; 5] = ["train", "web-1", "web-2", "web-3", "web-4"];
const GPU_TASK: &str = "train";

/// A command to the shim.
pub(crate) enum Order {
    /// End this task.
    End(String),
    /// Deregister from the scheduler and stop.
    Leave,
}

/// The node of each task; `None` while it waits.
type Tasks = BTreeMap<String, Option<String>>;

/// The shim.
pub(crate) struct Shim {
    options: Options,
    tasks: Arc<Mutex<Tasks>>,
    tell: Box<dyn FnMut(String) + Send>,
}

/// Accepts GPU tasks only on the node with the GPU.
struct Predicates;

impl Callbacks for Predicates {
    fn fits(&self, query: &callback::PredicateQuery, node: &str) -> Fit {
        if query.allocation_key != GPU_TASK || node == GPU_NODE {
            Fit::Yes
        } else {
            Fit::No("the task needs a GPU".to_owned())
        }
    }

    fn scope(&self, _query: &callback::PredicateQuery) -> callback::Scope {
        // The position of the GPU does not change.
        callback::Scope::Static
    }
}

/// The full state, for a scheduler that has none.
fn report(tasks: &Tasks) -> Report {
    let node = |id: &str| si::NodeInfo::new(id, cores(4));
    let task = |key: &str, node: Option<&String>| {
        let ask = si::Allocation::ask(APPLICATION, key, cores(2));
        if let Some(node) = node { ask.running_on(node) } else { ask }
    };
    let (running, waiting): (Vec<_>, Vec<_>) = tasks.iter().partition(|(_, node)| node.is_some());
    let in_order = running.into_iter().chain(waiting);
    Report {
        nodes: NODES.map(node).into(),
        applications: vec![
            si::AddApplicationRequest::new(APPLICATION, "ada").in_queue("root.jobs"),
        ],
        allocations: in_order.map(|(key, node)| task(key, node.as_ref())).collect(),
    }
}

impl Shim {
    /// Creates a shim of the scheduler in `options`. `tell` receives a sentence for each event.
    pub(crate) fn new(options: Options, tell: impl FnMut(String) + Send + 'static) -> Self {
        let tasks = TASKS.iter().map(|&task| (task.to_owned(), None)).collect();
        let tasks = Arc::new(Mutex::new(tasks));
        Self { options, tasks, tell: Box::new(tell) }
    }

    /// Options for the scheduler at `address`, such as `http://127.0.0.1:50051`.
    pub(crate) fn options(address: String) -> Result<Options, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(address)?;
        Ok(Options::new(endpoint, RM_ID).queues(QUEUES).callbacks(Predicates))
    }

    /// Serves until it is stopped, or until a retry cannot help.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<Order>) -> Result<(), Status> {
        let remembered = Arc::clone(&self.tasks);
        let state = move || report(&remembered.lock().expect("no holder panics"));
        let (client, mut events) = Client::start(self.options.clone(), state);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Event::Ended(status)) => return Err(status),
                    Some(event) => {
                        // The client has ended: the event with the reason follows.
                        let _ = self.deal_with(event, &client).await;
                    }
                    None => return Ok(()),
                },
                order = orders.recv() => match order {
                    Some(Order::End(task)) => {
                        let ends = vec![release(&task, TerminationType::StoppedByRm)];
                        let _ = client.release(ends).await;
                    }
                    Some(Order::Leave) | None => return client.leave("the example ends").await,
                },
            }
        }
    }

    async fn deal_with(&mut self, event: Event, client: &Client) -> Result<(), Ended> {
        match event {
            Event::Registered { .. } => self.say("registered".to_owned()),
            Event::Disconnected(lost) => {
                let why = reason(&lost).map_or_else(|| lost.code().to_string(), str::to_owned);
                self.say(format!("lost the scheduler ({why}), trying again"));
            }
            Event::Nodes(response) => {
                for node in response.rejected {
                    self.say(format!("{} is refused: {}", node.node_id, node.reason));
                }
            }
            Event::Applications(response) => {
                for application in response.rejected {
                    let (id, reason) = (application.application_id, application.reason);
                    self.say(format!("{id} is refused: {reason}"));
                }
                for application in response.updated {
                    self.say(format!("{} is {}", application.application_id, application.state));
                }
            }
            Event::Allocations(response) => {
                for new in response.new {
                    self.start(&new);
                }
                for refused in response.rejected_allocations {
                    self.forget(&refused.allocation_key);
                    self.say(format!("{} is refused: {}", refused.allocation_key, refused.reason));
                }
                for gone in response.released {
                    self.end(gone, client).await?;
                }
            }
            Event::Ended(_) => {}
        }
        Ok(())
    }

    /// Handles a placement, or a running task that the scheduler has registered again.
    fn start(&mut self, new: &si::Allocation) {
        let (key, place) = (&new.allocation_key, Some(new.node_id.clone()));
        let known = {
            let mut tasks = self.tasks.lock().expect("no holder panics");
            let Some(task) = tasks.get_mut(key) else { return };
            let known = *task == place;
            // A real program starts the container here.
            *task = place;
            known
        };
        let verb = if known { "is still on" } else { "runs on" };
        self.say(format!("{key} {verb} {}", new.node_id));
    }

    /// Handles the end of a task, requested by the shim or by the scheduler.
    async fn end(&mut self, gone: si::AllocationRelease, client: &Client) -> Result<(), Ended> {
        if !self.forget(&gone.allocation_key) {
            return Ok(());
        }
        let why = gone.termination_type();
        self.say(format!("{} is over", gone.allocation_key));
        match why {
            TerminationType::StoppedByRm | TerminationType::UnknownTerminationType => Ok(()),
            // The scheduler requested it. A real program stops the container first, because this
            // message frees the capacity.
            _ => client.release(vec![release(&gone.allocation_key, why)]).await,
        }
    }

    fn forget(&self, task: &str) -> bool {
        self.tasks.lock().expect("no holder panics").remove(task).is_some()
    }

    fn say(&mut self, line: String) {
        (self.tell)(line);
    }
}

fn release(key: &str, why: TerminationType) -> si::AllocationRelease {
    let termination_type = why.into();
    si::AllocationRelease { termination_type, ..si::AllocationRelease::new(APPLICATION, key) }
}

fn cores(n: i64) -> si::Resource {
    si::Resource::default().cores(n)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let shim = Shim::new(Shim::options(address)?, |line| {
        // A closed output is no reason to stop.
        let _ = writeln!(io::stdout(), "{line}");
    });
    let (orders, received) = mpsc::channel(16);
    let leave = orders.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = leave.send(Order::Leave).await;
        }
    });
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = orders.blocking_send(Order::End(line.trim().to_owned()));
        }
    });
    Ok(shim.run(received).await?)
}
