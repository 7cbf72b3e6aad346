//! Plays scenes in both control planes, and compares the outcomes.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::time::{Instant, sleep};

use super::build::{Instance, NAME, ask, build, clear, instances, make};
use super::observed::{Observed, observe, wanted};
use super::{Outcome, Scene, reasons};
use crate::bed::{Bed, Component, Programs, SHIM, say};
use crate::cluster::{Cluster, Scheduler};

/// Pause between two checks of the outcomes.
pub const BETWEEN_LOOKS: Duration = Duration::from_millis(80);
/// Time limit for a pod to reach its expected outcome.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time limit for messages to settle once a pod is known to wait.
const SETTLES: Duration = Duration::from_secs(2);

/// Control plane of kube-scheduler. It outlives a case, since its start takes seconds.
pub struct Theirs {
    cluster: Cluster,
    _scheduler: Component,
}

/// Both sides while a case runs.
struct Sides<'c> {
    theirs: &'c Cluster,
    ours: &'c Cluster,
    scheduler: &'c Scheduler,
}

/// Findings of a case.
#[derive(Default)]
struct Findings {
    rows: usize,
    pods: usize,
    /// Number of placed pods, at least once each.
    placed: usize,
    /// Number of pending pods with equal counts, and those with different counts.
    alike: usize,
    unlike: usize,
    wrong: Vec<String>,
}

/// Builds the scenes one after the other, and fails with the differences found. `controllers` run
/// in both control planes in the meantime.
pub async fn alike(
    cluster: &mut Cluster,
    controllers: &[&str],
    scenes: Vec<Scene>,
) -> anyhow::Result<()> {
    let Some(theirs) = with_theirs(cluster).await? else { return Ok(()) };
    let outcome = compare(cluster, &theirs.cluster, controllers, &scenes).await;
    cluster.theirs = Some(theirs);
    outcome
}

/// Runs a closure in both control planes at once, each with its scheduler. The closure learns which
/// is ours.
pub async fn on_both(
    cluster: &mut Cluster,
    act: impl AsyncFn(&Cluster, bool) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(theirs) = with_theirs(cluster).await? else { return Ok(()) };
    let scheduler = cluster.start(SHIM, &[]).await?;
    scheduler.ready().await?;
    let (of_ours, of_theirs) = futures::join!(act(cluster, true), act(&theirs.cluster, false));
    let cleared = theirs.cluster.remove_all().await;
    cluster.theirs = Some(theirs);
    match (of_ours, of_theirs) {
        (Err(of_ours), Err(of_theirs)) => Err(of_ours.context(format!("{of_theirs:#}, and"))),
        (of_ours, of_theirs) => of_ours.and(of_theirs).and(cleared),
    }
}

/// Returns the control plane of kube-scheduler. `None` if there is none.
async fn with_theirs(cluster: &mut Cluster) -> anyhow::Result<Option<Box<Theirs>>> {
    if !cluster.bed.has_components() {
        say("skipped, there is no kube-scheduler to compare with beside this API server");
        return Ok(None);
    }
    Ok(Some(match cluster.theirs.take() {
        Some(theirs) => theirs,
        None => Box::new(start_theirs(cluster.bed.programs()).await?),
    }))
}

async fn start_theirs(programs: &Programs) -> anyhow::Result<Theirs> {
    let bed = Bed::start(programs).await.context("a second control plane")?;
    let scheduler = bed.start_kube_scheduler(NAME)?;
    Ok(Theirs { cluster: Cluster::new(bed).await?, _scheduler: scheduler })
}

async fn compare(
    ours: &Cluster,
    theirs: &Cluster,
    controllers: &[&str],
    scenes: &[Scene],
) -> anyhow::Result<()> {
    let mut running = Vec::new();
    for cluster in [ours, theirs].into_iter().filter(|_| !controllers.is_empty()) {
        running.push(cluster.bed.start_controllers(controllers)?);
    }
    let scheduler = ours.start(SHIM, &[]).await?;
    scheduler.ready().await?;
    let sides = Sides { theirs, ours, scheduler: &scheduler };
    let mut findings = Findings::default();
    for scene in scenes {
        let begun = Instant::now();
        let found = findings.wrong.len();
        sides.play(scene, &mut findings).await.with_context(|| scene.name)?;
        for wrong in &mut findings.wrong[found..] {
            *wrong = format!("{}, {wrong}", scene.name);
        }
        let took = begun.elapsed().as_secs_f64();
        if std::env::var_os("MONOCEROS_KEEP").is_some() {
            say(&format!("scene {} ({} rows, {took:.1} s)", scene.name, scene.rows.len()));
        }
    }
    let Findings { rows, pods, placed, alike, unlike, wrong } = findings;
    say(&format!(
        "{rows} rows with {pods} pods, {placed} of them placed; nodes are counted alike for {alike} \
         that wait, and not for {unlike}"
    ));
    ensure!(wrong.is_empty(), "{} are not alike:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

impl Sides<'_> {
    async fn play(&self, scene: &Scene, findings: &mut Findings) -> anyhow::Result<()> {
        let instances = instances(scene);
        futures::try_join!(
            build(self.theirs, scene, &instances),
            build(self.ours, scene, &instances)
        )?;
        futures::try_join!(ask(self.theirs, &instances), ask(self.ours, &instances))?;
        findings.rows += scene.rows.len();
        findings.pods += instances.len();
        let stages = scene.rows.iter().map(|row| row.changes.len()).max().unwrap_or_default();
        for stage in 0..=stages {
            if let Some(change) = stage.checked_sub(1) {
                futures::try_join!(
                    make(self.theirs, &instances, change),
                    make(self.ours, &instances, change)
                )?;
            }
            self.look(stage, &instances, findings).await?;
        }
        futures::try_join!(
            clear(self.theirs, scene, &instances),
            clear(self.ours, scene, &instances)
        )?;
        Ok(())
    }

    /// Waits until each pod is as in the table on both sides, up to a time limit.
    async fn look(
        &self,
        stage: usize,
        instances: &[Instance<'_>],
        findings: &mut Findings,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut open: Vec<&Instance<'_>> =
            instances.iter().filter(|it| it.row.changes.len() >= stage).collect();
        loop {
            let (theirs, ours) = futures::try_join!(
                observe(self.theirs, None, &open),
                observe(self.ours, Some(self.scheduler), &open)
            )?;
            let waited = begun.elapsed();
            let mut left = Vec::new();
            for (instance, (theirs, ours)) in open.iter().zip(theirs.iter().zip(&ours)) {
                let verdict = instance.judge(stage, theirs, ours);
                let settles = if instance.row.counts.is_some() { SETTLES / 4 } else { SETTLES };
                let is_settled = verdict.is_alike() || waited >= settles;
                if verdict.places.is_empty() && is_settled {
                    findings.placed += usize::from(!matches!(theirs, Observed::Waits(_)));
                    findings.count(instance, &verdict);
                } else if waited >= PATIENCE {
                    findings.wrong.extend(verdict.places);
                } else {
                    left.push(*instance);
                }
            }
            if left.is_empty() {
                return self.look_again(stage, instances, findings).await;
            }
            open = left;
            sleep(BETWEEN_LOOKS).await;
        }
    }
}

impl Sides<'_> {
    /// Checks all pods again: a pending pod is accepted at once, and may have been placed while
    /// other pods were awaited.
    async fn look_again(
        &self,
        stage: usize,
        instances: &[Instance<'_>],
        findings: &mut Findings,
    ) -> anyhow::Result<()> {
        let all: Vec<_> = instances.iter().filter(|it| it.row.changes.len() >= stage).collect();
        let (theirs, ours) = futures::try_join!(
            observe(self.theirs, None, &all),
            observe(self.ours, Some(self.scheduler), &all)
        )?;
        for (instance, (theirs, ours)) in all.iter().zip(theirs.iter().zip(&ours)) {
            // The pod is being tried again because of a change.
            if [theirs, ours].contains(&&Observed::Nothing) {
                continue;
            }
            for wrong in instance.judge(stage, theirs, ours).places {
                if !findings.wrong.contains(&wrong) {
                    findings.wrong.push(wrong);
                }
            }
        }
        Ok(())
    }
}

/// Comparison of both outcomes for a pod.
struct Verdict {
    /// Difference from the table.
    places: Vec<String>,
    /// Counts of both schedulers, if the pod is pending and all nodes were tried.
    counts: Option<(reasons::Counts, reasons::Counts)>,
    shown: String,
}

impl Verdict {
    fn is_alike(&self) -> bool {
        self.counts.as_ref().is_none_or(|(theirs, ours)| theirs == ours)
    }
}

impl Findings {
    fn count(&mut self, instance: &Instance<'_>, verdict: &Verdict) {
        if verdict.counts.is_none() {
            return;
        }
        let wrong = match (verdict.is_alike(), instance.row.counts) {
            (false, None) => Some(format!("counts differ: {}", verdict.shown)),
            (true, Some(why)) => Some(format!("counts are alike, in spite of: {why}")),
            (true, None) | (false, Some(_)) => None,
        };
        let number = if verdict.is_alike() { &mut self.alike } else { &mut self.unlike };
        *number += 1;
        self.wrong.extend(wrong.map(|wrong| format!("{}: {wrong}", instance.name())));
    }
}

impl Instance<'_> {
    fn judge(&self, stage: usize, theirs: &Observed, ours: &Observed) -> Verdict {
        let right = &self.asked.outcomes[stage.min(self.asked.outcomes.len() - 1)];
        let of_ours = self.row.ours.as_ref().map_or(right, |(all, _)| &all[stage]);
        let node = self.node.as_deref().map(|node| self.row.plain(node));
        let mut places = Vec::new();
        for (who, observed, outcome) in [("kube-scheduler", theirs, right), ("ours", ours, of_ours)]
        {
            let observed = match observed {
                Observed::Bound(node) => &Observed::Bound(self.row.plain(node).to_owned()),
                Observed::Makes(node) => &Observed::Makes(self.row.plain(node).to_owned()),
                observed => observed,
            };
            if *outcome == Outcome::Alike {
                if !theirs.is_like(ours) {
                    places.push(format!("{}: {who}: {observed:?}", self.name()));
                }
            } else if !observed.is(outcome, node) {
                let wanted = wanted(outcome, node);
                places
                    .push(format!("{} ({stage}): {who}: {observed:?}, not {wanted}", self.name()));
            }
        }
        let counts = match (theirs, ours) {
            (Observed::Waits(theirs), Observed::Waits(ours)) if node.is_none() => {
                Some(reasons::both(theirs, ours))
            }
            _ => None,
        };
        let shown = match &counts {
            Some((by_theirs, by_ours)) => {
                format!("{by_theirs:?} and {by_ours:?} of {theirs:?} and {ours:?}")
            }
            None => String::new(),
        };
        Verdict { places, counts, shown }
    }
}
