//! Starts a scheduler and replays a trace with it.

use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1::RegisterResourceManagerRequest;

use super::decisions::Decisions;
use super::history::History;
use super::trace::Trace;
use super::{ReplayOptions, Reservations, replay};
use crate::replay::virtual_time::in_virtual_time;

/// Starts a scheduler on a paused clock and replays the trace with it.
pub(super) fn replay_in_virtual_time(
    trace: Arc<Trace>,
    queues: String,
    options: ReplayOptions,
) -> anyhow::Result<History> {
    in_virtual_time(start_and_replay(trace, queues, options))
}

async fn start_and_replay(
    trace: Arc<Trace>,
    queues: String,
    options: ReplayOptions,
) -> anyhow::Result<History> {
    let epoch_ns = trace.start().saturating_mul(1_000_000_000);
    let mut builder = Scheduler::builder().default_queues(queues.clone()).epoch_ns(epoch_ns);
    if options.reservations == Reservations::Never {
        builder = builder.reservation_delay(None);
    }
    let scheduler = builder
        .start_local()
        .context("the scheduler does not start with this queue configuration")?;
    let decisions = Arc::new(Decisions::new(Arc::clone(&trace)));
    let registration = RegisterResourceManagerRequest {
        rm_id: replay::RM.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "queues".to_owned(),
        config: queues,
        ..RegisterResourceManagerRequest::default()
    };
    let callback: Arc<dyn ResourceManagerCallback> = Arc::clone(&decisions) as _;
    scheduler
        .register_resource_manager(registration, callback)
        .await
        .context("the scheduler refuses the simulator")?;
    let bar = progress_bar(trace.pods.len());
    let tick = |done: usize| bar.set_position(done as u64);
    let (trace, assumptions) = (Arc::clone(&trace), options.assumptions);
    let history = replay::replay(scheduler, trace, decisions, assumptions, tick).await?;
    bar.finish_and_clear();
    Ok(history)
}

/// Makes a progress bar. The library hides it if standard error is not a terminal.
fn progress_bar(n_pods: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} pods, {eta} to go")
        .expect("the template is well-formed");
    ProgressBar::new(n_pods as u64).with_style(style)
}
