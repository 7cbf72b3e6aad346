//! The scheduler embedded in another program: `cargo run --example embed`.
//!
//! The program is its own resource manager. It needs `monoceros-actors`, the messages of
//! `monoceros-proto` and a runtime, but neither gRPC nor HTTP. It owns three nodes, one of them
//! with a GPU, and evaluates the scheduler's predicates itself: tasks that need a GPU run only on
//! that node.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, mpsc};

use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1 as si;

/// The id of this resource manager; a scheduler can serve several.
const RM: &str = "workshop";
const APPLICATION: &str = "training";

/// Callbacks of the scheduler. They must not block, so they only queue messages. A real program
/// also handles the rejections of all three responses.
struct Shim {
    gpu_nodes: BTreeSet<&'static str>,
    gpu_tasks: BTreeSet<&'static str>,
    lines: mpsc::Sender<String>,
}

impl Shim {
    fn queue(&self, line: String) {
        // Fails only if the receiver is closed.
        let _ = self.lines.send(line);
    }
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        for new in response.new {
            self.queue(format!("{} runs on {}", new.allocation_key, new.node_id));
        }
        for gone in response.released {
            self.queue(format!("{} ends: {}", gone.allocation_key, gone.message));
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        for updated in response.updated {
            self.queue(format!("{} is {}", updated.application_id, updated.state));
        }
    }

    fn update_node(&self, _response: si::NodeResponse) {}

    /// Evaluates a task on a node with enough capacity. `Err` makes the scheduler try the next
    /// node.
    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let needs_gpu = self.gpu_tasks.contains(args.allocation_key.as_str());
        if needs_gpu && !self.gpu_nodes.contains(args.node_id.as_str()) {
            return Err(format!("{} has no GPU", args.node_id));
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&mut io::stdout()))
}

/// Runs the whole example and writes the messages of the scheduler to `out`.
pub(crate) async fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let (lines, received) = mpsc::channel();
    let shim = Shim { gpu_nodes: ["n3"].into(), gpu_tasks: ["fit-1", "fit-2"].into(), lines };

    // One queue that accepts everybody; `Scheduler::builder` takes a queue configuration.
    let scheduler = Scheduler::simple().start()?;
    let registration = si::RegisterResourceManagerRequest::new(RM);
    scheduler.register_resource_manager(registration, Arc::new(shim)).await?;
    let nodes = ["n1", "n2", "n3"].map(|id| si::NodeInfo::new(id, cores(4)));
    scheduler.update_node(si::NodeRequest::report(RM, nodes)).await?;
    let training = si::AddApplicationRequest::new(APPLICATION, "ada");
    scheduler.update_application(si::ApplicationRequest::submit(RM, [training])).await?;
    let asks = [("load", 2), ("fit-1", 3), ("fit-2", 3)];
    let asks = asks.map(|(key, n)| si::Allocation::ask(APPLICATION, key, cores(n)));
    scheduler.update_allocation(si::AllocationRequest::ask(RM, asks)).await?;

    scheduler.settle().await;
    write_lines(&received, out)?;

    writeln!(out, "fit-1 is done, which makes room for fit-2:")?;
    let done = si::AllocationRelease::new(APPLICATION, "fit-1");
    scheduler.update_allocation(si::AllocationRequest::release(RM, [done])).await?;
    scheduler.settle().await;
    write_lines(&received, out)?;

    scheduler.shutdown().await;
    Ok(())
}

fn write_lines(received: &mpsc::Receiver<String>, out: &mut dyn Write) -> io::Result<()> {
    received.try_iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn cores(n: i64) -> si::Resource {
    si::Resource::default().cores(n)
}
