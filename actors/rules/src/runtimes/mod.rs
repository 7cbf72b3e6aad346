//! Run times: how long allocations run, measured at those that ended.
//!
//! # Classes
//! Allocations of one class are expected to run equally long: they have the same queue, user, stem
//! of the application's id, and shape of the amount ([`RowKey`]). Each run is counted in four nested
//! rows: its class, its user in the queue, its queue, and all. An estimate for a class of which
//! nothing is known is read from the narrowest wider row ([`RunTimes::estimate`]).
//!
//! # Runs that did not end by themselves
//! A run that was preempted, killed, or lost with its node would have lasted longer: its length is
//! known to be *at least* so long ([`RunLength::AtLeast`]). To count it as ended would make every
//! estimate too short, to leave it out as well, since long runs are cut off more often. Therefore
//! a [`Histogram`] counts both kinds, and its quantiles are those of the product-limit estimator
//! (Kaplan and Meier).
//!
//! # Old runs
//! A run counts half after the half-life. New runs are counted with a growing weight, in place of
//! letting all old weights shrink.
//!
//! # Invariants
//! * There are at most as many classes as the settings allow, and no wider row without a class below
//!   it, except that of all. At the limit, a class that is used little is replaced.
//! * No decision depends on a run time.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use monoceros_rules::runtimes::{ClassCache, Run, RunLength, RunTimeSettings, RunTimes, Whose};
//! use monoceros_rules::values::resources::Resources;
//!
//! let mut run_times = RunTimes::new(RunTimeSettings::default(), 0);
//! let (queue, user) = (Arc::from("root.etl"), Arc::from("ada"));
//! let whose = Whose { queue: &queue, user: &user, application: "nightly-20261130" };
//! let resources = Arc::new(Resources::of(&[("vcore", 4_000)]));
//! let mut cache = ClassCache::default();
//! for (minutes, length) in [(10, RunLength::AtLeast), (60, RunLength::Whole)] {
//!     let lasted = Duration::from_secs(60 * minutes);
//!     let run = Run { resources: &resources, lasted, length };
//!     run_times.count(whose, &mut cache, &run, 0);
//! }
//! let class = whose.class("nightly", &resources);
//! let estimate = run_times.estimate(&class, 0).expect("a run of the class has ended");
//! let median = estimate.histogram.quantile(0.5, Duration::ZERO).expect("one has ended");
//! assert!(median.as_secs().abs_diff(3_600) < 3_600 / 20, "{median:?}");
//! ```

mod class;
mod histogram;
mod image;
mod run;
mod table;
#[cfg(test)]
mod tests;

pub use class::{RowKey, Whose};
pub use histogram::{Histogram, RunLength};
pub use image::{CopiedRow, RowFault, RowLine, RunTimesImage};
pub use run::Run;
pub use table::{Basis, CLASSES_MAX, ClassCache, Estimate, RunTimeSettings, RunTimes};
