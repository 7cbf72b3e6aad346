//! What would happen if: two replays from the state of a running scheduler, one as it is and one
//! with changes.
//!
//! The scheduler that runs is not touched: a replay goes on from an image of it, in virtual time,
//! with the same actors. `docs/what-if.md` explains the answer, and what it does not know.
//!
//! Reading order: `source` (the snapshot), `changes` (the question), `durations`, `recorder`, `usage`, `manager` and `replay`
//! (a replay), `history` (what became of all work), `answer` (two of them, side by side), `summary`
//! and `report` (output), `ahead` (one replay, without a question).
//!
//! # Invariant
//! One image, one question and one seed give one answer.

mod ahead;
mod answer;
mod changes;
mod durations;
mod history;
mod manager;
mod recorder;
mod replay;
mod report;
mod source;
mod summary;
#[cfg(test)]
mod tests;
mod usage;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{ForkedPredicates, Scheduler, SchedulerBuilder};

pub use self::ahead::{Ahead, ahead};
pub use self::answer::Answer;
pub use self::changes::{AddedNodes, ChangeError, Changes, Submission};
pub use self::durations::DurationCounts;
pub use self::replay::ReplayError;
pub use self::report::write as write_report;
pub use self::source::{SourceError, image_in, read_snapshot};

use self::answer::{Asked, Gathered};
use self::changes::Resolved;
use self::durations::Draw;
use self::history::History;
use self::replay::{Course, replay};
use crate::replay::virtual_time::in_virtual_time;

/// The longest horizon: a year.
pub const HORIZON_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The most runs of a question.
pub const RUNS_MAX: u32 = 1_000;

/// How a question is answered.
#[derive(Clone)]
pub struct Options {
    /// How far the replays go.
    pub horizon: Duration,
    /// The number of runs. With one, durations are medians; with more, each run draws its own.
    pub runs: u32,
    /// The seed of the draws.
    pub seed: u64,
    /// How long an allocation needs to leave when the scheduler asks for that.
    pub leave_after: Duration,
    /// The settings of the scheduler that goes on.
    pub scheduler: SchedulerBuilder,
    /// Set by whoever does not wait for the answer any more.
    pub cancelled: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            horizon: Duration::from_secs(86_400),
            runs: 1,
            seed: 0,
            leave_after: Duration::from_secs(1),
            scheduler: Scheduler::builder(),
            cancelled: Arc::default(),
        }
    }
}

/// A question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// A change cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The horizon is zero or too long.
    #[error("the horizon is more than zero and at most 366 days")]
    Horizon,
    /// There are no runs, or too many.
    #[error("there are 1 to {RUNS_MAX} runs")]
    Runs,
    /// The predicates of the snapshot cannot be used.
    #[error("{0}")]
    Mirror(String),
    /// A replay could not be made.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A replay broke.
    #[error("a replay broke: {0}")]
    Broken(String),
}

/// Answers what would happen with these changes. Blocks until then, and works on threads of its own:
/// both replays of a run go on at the same time.
pub fn answer(
    image: &ResourceManagerImage,
    changes: &Changes,
    options: &Options,
) -> Result<Answer, WhatIfError> {
    check(options)?;
    let resolved = Arc::new(changes.resolve(image)?);
    let asked = Asked {
        rm: image.configuration.rm_id.clone(),
        at_ns: image.at_ns(),
        horizon: milliseconds(options.horizon),
        changes: changes.lines(),
    };
    let (a, b) = both(image, &resolved, options, 0)?;
    let mut gathered = Gathered::new(asked, Arc::new(a), Arc::new(b));
    for run in 1..options.runs {
        let (a, b) = both(image, &resolved, options, run)?;
        gathered.add(&a, &b);
    }
    Ok(gathered.answer())
}

fn check(options: &Options) -> Result<(), WhatIfError> {
    if options.horizon.is_zero() || options.horizon > HORIZON_MAX {
        return Err(WhatIfError::Horizon);
    }
    if !(1..=RUNS_MAX).contains(&options.runs) {
        return Err(WhatIfError::Runs);
    }
    Ok(())
}

/// Replays a run, without and with the changes.
fn both(
    image: &ResourceManagerImage,
    changes: &Arc<Resolved>,
    options: &Options,
    run: u32,
) -> Result<(History, History), WhatIfError> {
    // Nobody reads why something waits without the changes.
    let of_a = Course { explains: false, ..course(image, options, run)? };
    let of_b = course(image, options, run)?;
    let a = spawn(image.clone(), None, of_a);
    let b = spawn(image.clone(), Some(Arc::clone(changes)), of_b);
    let (a, b) = (join(a), join(b));
    Ok((a?, b?))
}

/// A replay on a thread of its own.
type Spawned = std::io::Result<thread::JoinHandle<anyhow::Result<Result<History, ReplayError>>>>;

fn spawn(image: ResourceManagerImage, changes: Option<Arc<Resolved>>, course: Course) -> Spawned {
    thread::Builder::new().name("monoceros-whatif".to_owned()).spawn(move || {
        // A replay is no event of the service: its log would be taken for that of the scheduler.
        let _silent = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
        in_virtual_time(async { Ok(replay(image, changes, course).await) })
    })
}

fn join(spawned: Spawned) -> Result<History, WhatIfError> {
    let thread = spawned.map_err(|error| WhatIfError::Broken(format!("no thread: {error}")))?;
    let ended = || WhatIfError::Broken("its thread has ended".to_owned());
    let done = thread.join().map_err(|_| ended())?;
    Ok(done.map_err(|error| WhatIfError::Broken(format!("{error:#}")))??)
}

fn course(
    image: &ResourceManagerImage,
    options: &Options,
    run: u32,
) -> Result<Course, WhatIfError> {
    // A run is the same whatever the number of runs is.
    let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(run));
    Ok(Course {
        builder: options.scheduler.clone(),
        predicates: predicates(image)?,
        horizon: milliseconds(options.horizon),
        leave_after: milliseconds(options.leave_after),
        explains: true,
        draw: if options.runs == 1 { Draw::Median } else { Draw::Seed(seed) },
        cancelled: Arc::clone(&options.cancelled),
    })
}

/// Returns a fork of the predicates that the image has, if there are any and this build reads them.
#[cfg(feature = "kubernetes")]
fn predicates(
    image: &ResourceManagerImage,
) -> Result<Option<Arc<dyn ForkedPredicates>>, WhatIfError> {
    let Some(mirror) = &image.mirror else { return Ok(None) };
    let fork = monoceros_kubernetes::fork::Fork::from_mirror(mirror);
    let fork = fork.map_err(|error| WhatIfError::Mirror(error.to_string()))?;
    Ok(Some(Arc::new(fork)))
}

#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
fn predicates(_: &ResourceManagerImage) -> Result<Option<Arc<dyn ForkedPredicates>>, WhatIfError> {
    Ok(None)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
