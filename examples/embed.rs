//! The scheduler inside a program of your own: `cargo run --example embed`.
//!
//! The program below is its own resource manager. It needs `monoceros-actors`, the messages of
//! `monoceros-proto` and a runtime; no gRPC and no HTTP come along. It owns three machines, one of
//! them with a GPU, and answers the scheduler's predicates itself: tasks that need a GPU run only
//! there.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, mpsc};

use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1 as si;

/// What the scheduler calls. It must not block, so it only passes on what it hears. A real one
/// also looks at the rejections of all three responses.
struct Shim {
    gpu_nodes: BTreeSet<&'static str>,
    gpu_tasks: BTreeSet<&'static str>,
    heard: mpsc::Sender<String>,
}

impl Shim {
    fn tell(&self, line: String) {
        // Fails only when nobody listens any more.
        let _ = self.heard.send(line);
    }
}

impl ResourceManagerCallback for Shim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        for new in response.new {
            self.tell(format!("{} runs on {}", new.allocation_key, new.node_id));
        }
        for gone in response.released {
            self.tell(format!("{} ends: {}", gone.allocation_key, gone.message));
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        for updated in response.updated {
            self.tell(format!("{} is {}", updated.application_id, updated.state));
        }
    }

    fn update_node(&self, _response: si::NodeResponse) {}

    /// Asked for a task and a node with room for it; `Err` makes the scheduler try the next node.
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

/// The whole story; what is heard goes to `out`.
pub(crate) async fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let rm = || "workshop".to_owned();
    let (heard, hearing) = mpsc::channel();
    let shim = Shim { gpu_nodes: ["n3"].into(), gpu_tasks: ["fit-1", "fit-2"].into(), heard };

    // Without a queue configuration the built-in one serves: a queue for each namespace.
    let scheduler = Scheduler::builder().start()?;
    let register = si::RegisterResourceManagerRequest { rm_id: rm(), ..Default::default() };
    scheduler.register_resource_manager(register, Arc::new(shim)).await?;
    let nodes = ["n1", "n2", "n3"].map(node).into();
    scheduler.update_node(si::NodeRequest { nodes, rm_id: rm(), ..Default::default() }).await?;
    let new = vec![training()];
    let apps = si::ApplicationRequest { new, rm_id: rm(), ..Default::default() };
    scheduler.update_application(apps).await?;
    let allocations = vec![ask("load", 2), ask("fit-1", 3), ask("fit-2", 3)];
    let asks = si::AllocationRequest { allocations, rm_id: rm(), ..Default::default() };
    scheduler.update_allocation(asks).await?;

    scheduler.settle().await;
    tell(&hearing, out)?;

    writeln!(out, "fit-1 is done, which makes room for fit-2:")?;
    let allocations_to_release = vec![release("fit-1")];
    let releases = si::AllocationReleasesRequest { allocations_to_release, ..Default::default() };
    let releases = Some(releases);
    let done = si::AllocationRequest { releases, rm_id: rm(), ..Default::default() };
    scheduler.update_allocation(done).await?;
    scheduler.settle().await;
    tell(&hearing, out)?;

    scheduler.shutdown().await;
    Ok(())
}

fn tell(hearing: &mpsc::Receiver<String>, out: &mut dyn Write) -> io::Result<()> {
    hearing.try_iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// So many cores; the unit of `vcore` is a thousandth.
fn cores(cores: i64) -> si::Resource {
    let vcore = si::Quantity { value: cores * 1_000 };
    si::Resource { resources: [("vcore".to_owned(), vcore)].into() }
}

fn node(id: &str) -> si::NodeInfo {
    let action = si::node_info::ActionFromRm::Create.into();
    let (node_id, schedulable_resource) = (id.to_owned(), Some(cores(4)));
    si::NodeInfo { node_id, action, schedulable_resource, ..Default::default() }
}

fn training() -> si::AddApplicationRequest {
    si::AddApplicationRequest {
        application_id: "training".to_owned(),
        tags: [("namespace".to_owned(), "lab".to_owned())].into(),
        ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: vec![] }),
        ..Default::default()
    }
}

/// A request, because it names no node; with one it would be an allocation that exists already.
fn ask(key: &str, n_cores: i64) -> si::Allocation {
    si::Allocation {
        allocation_key: key.to_owned(),
        application_id: "training".to_owned(),
        resource_per_alloc: Some(cores(n_cores)),
        ..Default::default()
    }
}

fn release(key: &str) -> si::AllocationRelease {
    si::AllocationRelease {
        allocation_key: key.to_owned(),
        application_id: "training".to_owned(),
        termination_type: si::TerminationType::StoppedByRm.into(),
        ..Default::default()
    }
}
