//! Health of the scheduler: whether its front (the thread before all partitions) answers, and
//! whether a step of a partition takes too long.
//!
//! # Why a thread of its own
//! The scheduler may hang, and so may the workers of the edges, so the watchdog depends on neither.
//! Probes read the health as a value and never wait.
//!
//! # Why ticks
//! Lateness is counted in ticks, not in time. If the whole process was suspended (SIGSTOP, a
//! laptop), the watchdog missed its ticks as well. The first tick afterwards counts once, however
//! late it is, so what was asked before the suspension still gets its usual time for an answer.
//!
//! # Invariants
//! * A lost front is found at the next tick, and a front that does not answer after `FRONT_TICKS`.
//!   Health changes at once.
//! * A step is logged once when it is late, and once more when it is home.
//! * Nothing here waits for the scheduler.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use monoceros_actors::metrics::WatchdogMetrics;
use monoceros_actors::{PartitionSign, Pulses, SchedulerHandle, Sign};
use tokio::sync::watch;
use tracing::{error, info, warn};

/// Interval between ticks.
pub const TICK: Duration = Duration::from_millis(250);

/// Ticks without a change after which a step is late: one second.
const STEP_TICKS: u32 = 4;

/// Ticks without an answer after which the front is stuck: five seconds. The front answers after
/// its earlier requests, and a request of a hundred thousand items takes its time.
const FRONT_TICKS: u32 = 20;

/// Whether the scheduler answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// The front answers.
    #[default]
    Serving,
    /// The front does not answer now.
    Stuck,
    /// The front has ended for good.
    Gone,
}

/// Whether this process has work, as readiness probes report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// Ready.
    #[default]
    Ready,
    /// Not ready, with the reason.
    NotYet(Cow<'static, str>),
    /// Another replica is active; its name, if known.
    StandsBy(Option<String>),
}

/// The health that probes read. Clones share it.
#[derive(Clone, Debug)]
pub struct Healthy {
    health: watch::Receiver<Health>,
    readiness: watch::Receiver<Readiness>,
}

impl Healthy {
    fn new(health: watch::Receiver<Health>) -> Self {
        Self { health, readiness: watch::Sender::default().subscribe() }
    }

    /// Adds a source of readiness.
    #[must_use]
    pub fn ready_by(self, readiness: watch::Receiver<Readiness>) -> Self {
        Self { readiness, ..self }
    }

    /// Returns the present readiness.
    pub fn readiness(&self) -> Readiness {
        self.readiness.borrow().clone()
    }

    /// Makes a health that never changes.
    pub fn fixed(health: Health) -> Self {
        Self::new(watch::Sender::new(health).subscribe())
    }

    /// Makes a health that its sender changes.
    #[cfg(all(test, feature = "cluster"))]
    pub(crate) fn watched() -> (watch::Sender<Health>, Self) {
        let (sender, health) = watch::channel(Health::Serving);
        (sender, Self::new(health))
    }

    /// Returns the present health.
    pub fn now(&self) -> Health {
        *self.health.borrow()
    }

    /// Whether the scheduler serves and the watchdog runs.
    pub fn is_watched_and_serving(&self) -> bool {
        self.health.has_changed().is_ok() && self.now() == Health::Serving
    }

    /// Waits for a change since the last call. Never returns once the watchdog has ended.
    pub async fn changed(&mut self) -> Health {
        if self.health.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.health.borrow_and_update()
    }

    /// Waits until the front has ended.
    pub async fn gone(&mut self) {
        if self.health.wait_for(|health| *health == Health::Gone).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Watches the scheduler until dropped.
#[derive(Debug)]
pub struct Watchdog {
    health: Healthy,
    stop: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts the watchdog thread.
    pub fn start(handle: &SchedulerHandle) -> io::Result<Self> {
        let (health, health_of) = watch::channel(Health::Serving);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, metrics) = (Arc::clone(&stop), handle.watchdog_metrics());
        let watch = Watch { pulses: handle.pulses(), rule: Rule::default(), health, metrics };
        let work = move || watch.until(&stopped);
        thread::Builder::new().name("watchdog".to_owned()).spawn(work)?;
        Ok(Self { health: Healthy::new(health_of), stop })
    }

    /// Returns the health.
    pub fn health(&self) -> Healthy {
        self.health.clone()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// State of the thread.
struct Watch {
    pulses: Pulses,
    rule: Rule,
    health: watch::Sender<Health>,
    metrics: WatchdogMetrics,
}

impl Watch {
    fn until(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let (front, partitions) = self.pulses.feel();
            // A scheduler that ends in order stops the watchdog first.
            if stop.load(Ordering::Relaxed) {
                return;
            }
            for finding in self.rule.tick(front, &partitions) {
                self.report(finding);
            }
            let late = i64::try_from(self.rule.n_late()).unwrap_or(i64::MAX);
            self.metrics.late_partitions.set(late);
            thread::sleep(TICK);
        }
    }

    fn report(&self, finding: Finding) {
        match finding {
            Finding::Front(health) => {
                match health {
                    Health::Serving => info!("the front of the scheduler answers again"),
                    Health::Stuck => error!("the front of the scheduler does not answer"),
                    Health::Gone => error!("the front of the scheduler is gone"),
                }
                self.metrics.front_stuck.set((health != Health::Serving).into());
                self.health.send_replace(health);
            }
            Finding::Late(sign) => {
                let (rm, partition) = (&*sign.rm_id, &*sign.partition);
                warn!(rm, partition, kind = partition, "a step takes longer than a second");
                self.pulses.step_is_late(&sign);
            }
            Finding::Recovered(sign) => {
                let (rm, partition) = (&*sign.rm_id, &*sign.partition);
                info!(rm, partition, kind = partition, "the step is home");
            }
        }
    }
}

/// A change found at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// The health of the front changed.
    Front(Health),
    /// A step of this partition is late.
    Late(PartitionSign),
    /// The late step is home.
    Recovered(PartitionSign),
}

/// The rule that turns the signs at each tick into findings.
#[derive(Debug, Default)]
struct Rule {
    health: Health,
    silent_ticks: u32,
    partitions: BTreeMap<(Arc<str>, Arc<str>), PartitionState>,
}

/// A partition's last sign, and the number of ticks for which it has not changed.
#[derive(Clone, Copy, Debug, Default)]
struct PartitionState {
    /// The running step at its last answer.
    step: Option<u64>,
    ticks: u32,
    is_late: bool,
}

impl PartitionState {
    /// Adds a sign, and returns whether the partition is late.
    fn tick(&mut self, sign: Sign) -> bool {
        match sign {
            // A removed partition is handled by other code, and does not appear at the next tick.
            Sign::Gone => self.ticks = 0,
            Sign::Silent => self.ticks += 1,
            Sign::Alive { step: Some(step) } if self.step == Some(step) => self.ticks += 1,
            Sign::Alive { step } => {
                self.step = step;
                self.ticks = 0;
            }
        }
        self.ticks >= STEP_TICKS
    }
}

impl Rule {
    /// Returns the changes since the last tick.
    fn tick(&mut self, front: Sign, partitions: &[PartitionSign]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let health = self.front_health(front);
        if health != self.health {
            self.health = health;
            findings.push(Finding::Front(health));
        }
        let mut before = std::mem::take(&mut self.partitions);
        for sign in partitions {
            let key = (Arc::clone(&sign.rm_id), Arc::clone(&sign.partition));
            let mut since = before.remove(&key).unwrap_or_default();
            let is_late = since.tick(sign.sign);
            match (since.is_late, is_late) {
                (false, true) => findings.push(Finding::Late(sign.clone())),
                (true, false) => findings.push(Finding::Recovered(sign.clone())),
                _ => {}
            }
            since.is_late = is_late;
            self.partitions.insert(key, since);
        }
        findings
    }

    fn front_health(&mut self, front: Sign) -> Health {
        match front {
            _ if self.health == Health::Gone => return Health::Gone,
            Sign::Gone => return Health::Gone,
            Sign::Silent => self.silent_ticks = self.silent_ticks.saturating_add(1),
            Sign::Alive { .. } => self.silent_ticks = 0,
        }
        if self.silent_ticks >= FRONT_TICKS { Health::Stuck } else { Health::Serving }
    }

    fn n_late(&self) -> usize {
        self.partitions.values().filter(|since| since.is_late).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIVE: Sign = Sign::Alive { step: None };

    fn partition(sign: Sign) -> PartitionSign {
        PartitionSign { rm_id: "rm".into(), partition: "[rm]default".into(), sign }
    }

    fn under_way(step: u64) -> Sign {
        Sign::Alive { step: Some(step) }
    }

    /// Returns the findings about one partition, tick by tick: `.` for none.
    fn found(signs: &[Sign]) -> String {
        let mut rule = Rule::default();
        let look = |sign: &Sign| match rule.tick(ALIVE, &[partition(*sign)]).as_slice() {
            [] => '.',
            [Finding::Late(_)] => 'L',
            [Finding::Recovered(_)] => 'H',
            _ => '?',
        };
        signs.iter().map(look).collect()
    }

    #[test]
    fn a_late_step_is_reported_when_late_and_home() {
        let slow = [vec![ALIVE], vec![under_way(7); 7], vec![ALIVE; 2]].concat();
        assert_eq!(found(&slow), ".....L..H.");
        let busy: Vec<Sign> = (1..40).map(|look| under_way(look / 3)).collect();
        assert!(found(&busy).chars().all(|found| found == '.'), "{}", found(&busy));
    }

    #[test]
    fn a_silent_partition_counts_as_late() {
        let hangs = [vec![ALIVE], vec![Sign::Silent; 6], vec![under_way(9), ALIVE]].concat();
        assert_eq!(found(&hangs), "....L..H.");
        let mixed = [under_way(3), under_way(3), Sign::Silent, Sign::Silent, under_way(3), ALIVE];
        assert_eq!(found(&mixed), "....LH");
    }

    #[test]
    fn a_removed_partition_is_not_reported() {
        assert_eq!(found(&[ALIVE, Sign::Silent, Sign::Gone, Sign::Gone, Sign::Gone]), ".....");
    }

    #[test]
    fn a_silent_front_is_stuck_until_it_answers() {
        let mut rule = Rule::default();
        for look in 1..FRONT_TICKS {
            assert_eq!(rule.tick(Sign::Silent, &[]), [], "look {look}");
        }
        assert_eq!(rule.tick(Sign::Silent, &[]), [Finding::Front(Health::Stuck)]);
        assert_eq!(rule.tick(Sign::Silent, &[]), []);
        assert_eq!(rule.tick(ALIVE, &[]), [Finding::Front(Health::Serving)]);
    }

    #[test]
    fn a_lost_front_is_found_at_once() {
        let mut rule = Rule::default();
        assert_eq!(rule.tick(Sign::Gone, &[]), [Finding::Front(Health::Gone)]);
        assert_eq!(rule.tick(ALIVE, &[]), []);
    }

    #[test]
    fn health_needs_a_running_watchdog() {
        let (health, health_of) = watch::channel(Health::Serving);
        let healthy = Healthy::new(health_of);
        assert!(healthy.is_watched_and_serving());
        health.send_replace(Health::Stuck);
        assert!(!healthy.is_watched_and_serving());
        health.send_replace(Health::Serving);
        assert!(healthy.is_watched_and_serving());
        drop(health);
        assert_eq!(healthy.now(), Health::Serving, "as it was at the last look");
        assert!(!healthy.is_watched_and_serving());
    }

    #[test]
    fn a_missed_hour_counts_as_one_tick() {
        // The process was suspended: no partition answered, and no tick was made.
        let mut rule = Rule::default();
        assert_eq!(rule.tick(ALIVE, &[partition(under_way(1))]), []);
        assert_eq!(rule.tick(Sign::Silent, &[partition(Sign::Silent)]), []);
        assert_eq!(rule.tick(ALIVE, &[partition(ALIVE)]), []);
    }
}
