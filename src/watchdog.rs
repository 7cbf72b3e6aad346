//! Health of the scheduler: whether its front answers, and whether steps of partitions are late.
//!
//! # Why a thread of its own
//! The scheduler may hang, and so may the workers of the edges, so the watchdog depends on neither.
//! Probes read the health as a value and never wait.
//!
//! # Why ticks
//! The rule counts ticks and not time. If the whole process was suspended (SIGSTOP, a laptop), the
//! watchdog missed its ticks as well. The first tick afterwards counts once, however late it is,
//! and earlier questions get their usual time for an answer.
//!
//! # Invariants
//! * A lost front is found at the next tick, one that does not answer after `FRONT_LOOKS`. Health
//!   changes at once.
//! * A step is logged once when it is late, and once more when it is home.
//! * Nothing here waits for the scheduler.

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
const STEP_LOOKS: u32 = 4;

/// Ticks without an answer after which the front is stuck: five seconds. The front answers in turn,
/// and a request of a hundred thousand items takes its time.
const FRONT_LOOKS: u32 = 20;

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
    NotYet(&'static str),
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
        let (health, told) = watch::channel(Health::Serving);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, metrics) = (Arc::clone(&stop), handle.watchdog_metrics());
        let watch = Watch { pulses: handle.pulses(), rule: Rule::default(), health, metrics };
        let work = move || watch.until(&stopped);
        thread::Builder::new().name("watchdog".to_owned()).spawn(work)?;
        Ok(Self { health: Healthy::new(told), stop })
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
            for finding in self.rule.look(front, &partitions) {
                self.tell(finding);
            }
            let late = i64::try_from(self.rule.n_late()).unwrap_or(i64::MAX);
            self.metrics.late_partitions.set(late);
            thread::sleep(TICK);
        }
    }

    fn tell(&self, finding: Finding) {
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
            Finding::Home(sign) => {
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
    Home(PartitionSign),
}

/// The rule that turns the signs at each tick into findings.
#[derive(Debug, Default)]
struct Rule {
    health: Health,
    silent_looks: u32,
    partitions: BTreeMap<(Arc<str>, Arc<str>), Since>,
}

/// How long a partition has given the same sign.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    /// The running step at its last answer.
    step: Option<u64>,
    looks: u32,
    is_late: bool,
}

impl Since {
    /// Adds a sign, and returns whether the partition is late.
    fn look(&mut self, sign: Sign) -> bool {
        match sign {
            // A removed partition is handled elsewhere, and does not appear at the next tick.
            Sign::Gone => self.looks = 0,
            Sign::Silent => self.looks += 1,
            Sign::Alive { step: Some(step) } if self.step == Some(step) => self.looks += 1,
            Sign::Alive { step } => {
                self.step = step;
                self.looks = 0;
            }
        }
        self.looks >= STEP_LOOKS
    }
}

impl Rule {
    /// Returns the changes since the last tick.
    fn look(&mut self, front: Sign, partitions: &[PartitionSign]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let health = self.look_at_front(front);
        if health != self.health {
            self.health = health;
            findings.push(Finding::Front(health));
        }
        let mut before = std::mem::take(&mut self.partitions);
        for sign in partitions {
            let key = (Arc::clone(&sign.rm_id), Arc::clone(&sign.partition));
            let mut since = before.remove(&key).unwrap_or_default();
            let is_late = since.look(sign.sign);
            match (since.is_late, is_late) {
                (false, true) => findings.push(Finding::Late(sign.clone())),
                (true, false) => findings.push(Finding::Home(sign.clone())),
                _ => {}
            }
            since.is_late = is_late;
            self.partitions.insert(key, since);
        }
        findings
    }

    fn look_at_front(&mut self, front: Sign) -> Health {
        match front {
            _ if self.health == Health::Gone => return Health::Gone,
            Sign::Gone => return Health::Gone,
            Sign::Silent => self.silent_looks = self.silent_looks.saturating_add(1),
            Sign::Alive { .. } => self.silent_looks = 0,
        }
        if self.silent_looks >= FRONT_LOOKS { Health::Stuck } else { Health::Serving }
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
        let look = |sign: &Sign| match rule.look(ALIVE, &[partition(*sign)]).as_slice() {
            [] => '.',
            [Finding::Late(_)] => 'L',
            [Finding::Home(_)] => 'H',
            _ => '?',
        };
        signs.iter().map(look).collect()
    }

    #[test]
    fn a_step_that_is_under_way_for_a_second_is_told_once_and_once_more_when_it_is_home() {
        let slow = [vec![ALIVE], vec![under_way(7); 7], vec![ALIVE; 2]].concat();
        assert_eq!(found(&slow), ".....L..H.");
        let busy: Vec<Sign> = (1..40).map(|look| under_way(look / 3)).collect();
        assert!(found(&busy).chars().all(|found| found == '.'), "{}", found(&busy));
    }

    #[test]
    fn a_partition_that_says_nothing_is_as_one_whose_step_is_not_home() {
        let hangs = [vec![ALIVE], vec![Sign::Silent; 6], vec![under_way(9), ALIVE]].concat();
        assert_eq!(found(&hangs), "....L..H.");
        let mixed = [under_way(3), under_way(3), Sign::Silent, Sign::Silent, under_way(3), ALIVE];
        assert_eq!(found(&mixed), "....LH");
    }

    #[test]
    fn a_partition_that_is_gone_is_nothing_to_tell() {
        assert_eq!(found(&[ALIVE, Sign::Silent, Sign::Gone, Sign::Gone, Sign::Gone]), ".....");
    }

    #[test]
    fn a_front_that_does_not_answer_is_stuck_and_serves_again_when_it_does() {
        let mut rule = Rule::default();
        for look in 1..FRONT_LOOKS {
            assert_eq!(rule.look(Sign::Silent, &[]), [], "look {look}");
        }
        assert_eq!(rule.look(Sign::Silent, &[]), [Finding::Front(Health::Stuck)]);
        assert_eq!(rule.look(Sign::Silent, &[]), []);
        assert_eq!(rule.look(ALIVE, &[]), [Finding::Front(Health::Serving)]);
    }

    #[test]
    fn a_front_that_is_gone_is_found_at_once_and_for_good() {
        let mut rule = Rule::default();
        assert_eq!(rule.look(Sign::Gone, &[]), [Finding::Front(Health::Gone)]);
        assert_eq!(rule.look(ALIVE, &[]), []);
    }

    #[test]
    fn health_counts_while_somebody_looks() {
        let (health, told) = watch::channel(Health::Serving);
        let healthy = Healthy::new(told);
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
    fn an_hour_without_a_look_is_one_look() {
        // The process was suspended: nobody answered, and no tick was made.
        let mut rule = Rule::default();
        assert_eq!(rule.look(ALIVE, &[partition(under_way(1))]), []);
        assert_eq!(rule.look(Sign::Silent, &[partition(Sign::Silent)]), []);
        assert_eq!(rule.look(ALIVE, &[partition(ALIVE)]), []);
    }
}
