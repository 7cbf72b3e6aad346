//! The clock of a member, and whether it may decide by it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use monoceros_cluster::Nanos;
use nix::time::{ClockId, clock_gettime};

/// The clock that goes on while the machine is suspended.
#[cfg(not(target_vendor = "apple"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(target_vendor = "apple")]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// A clock in nanoseconds that goes on while the machine is suspended.
pub type Clock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// The machine's own clock: time since its start, including the time it was suspended.
pub fn boot_time() -> Nanos {
    let time = clock_gettime(CLOCK).expect("the machine has this clock");
    let time = std::time::Duration::from(time).as_nanos();
    Nanos::try_from(time).expect("a machine runs for less than 584 years")
}

/// Right of the member to decide, for the code that hands decisions over to an RM. Every thread can
/// ask without a lock.
#[derive(Clone)]
pub struct Gate {
    clock: Clock,
    /// Time from which nothing may be decided. 0: nothing now.
    until: Arc<AtomicU64>,
}

impl Gate {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, until: Arc::new(AtomicU64::new(0)) }
    }

    /// Whether decisions may be handed over now. To be asked before each hand-over.
    pub fn is_open(&self) -> bool {
        (self.clock)() < self.until.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) -> Nanos {
        (self.clock)()
    }

    /// Closes the gate earlier, if `until` is earlier than the present end.
    pub(crate) fn lower_to(&self, until: Option<Nanos>) {
        self.until.fetch_min(until.unwrap_or(0), Ordering::SeqCst);
    }

    pub(crate) fn open_until(&self, until: Option<Nanos>) {
        self.until.store(until.unwrap_or(0), Ordering::SeqCst);
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_closes_by_the_clock_alone() {
        let time = Arc::new(AtomicU64::new(5));
        let read = time.clone();
        let gate = Gate::new(Arc::new(move || read.load(Ordering::SeqCst)));
        assert!(!gate.is_open());
        gate.open_until(Some(7));
        assert!(gate.is_open());
        time.store(7, Ordering::SeqCst);
        assert!(!gate.is_open());
        gate.open_until(Some(9));
        gate.lower_to(Some(10));
        time.store(8, Ordering::SeqCst);
        assert!(gate.is_open());
        time.store(9, Ordering::SeqCst);
        assert!(!gate.is_open());
        gate.open_until(Some(11));
        gate.lower_to(None);
        assert!(!gate.is_open());
    }

    #[test]
    fn the_clock_of_the_machine_goes_on() {
        let first = boot_time();
        assert!(0 < first && first <= boot_time());
    }
}
