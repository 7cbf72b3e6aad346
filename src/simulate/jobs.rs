//! The applications of a trace: single pods, and gangs.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_proto::si::v1 as si;

use super::amount::Amount;
use super::trace::{Pod, Trace};

/// The applications of a trace.
pub(crate) struct Jobs {
    all: Vec<Job>,
    /// The job index of each pod.
    of_pod: Vec<usize>,
    /// Submitted gangs with unfinished pods.
    gangs: BTreeSet<usize>,
}

/// An application.
pub(crate) struct Job {
    /// The indexes of its pods, in order of creation.
    pub(crate) pods: Vec<usize>,
    is_gang: bool,
    is_submitted: bool,
    /// Whether the scheduler has ended the application. Later pods are then submitted without a
    /// gang.
    is_over: bool,
    /// Number of unfinished pods.
    n_left: usize,
}

impl Jobs {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut all: Vec<Job> = Vec::new();
        let mut of_pod = Vec::with_capacity(trace.pods.len());
        let mut gangs = BTreeMap::new();
        for (at, pod) in trace.pods.iter().enumerate() {
            let next = all.len();
            let job = match &pod.gang {
                Some(gang) => *gangs.entry(gang.as_str()).or_insert(next),
                None => next,
            };
            if job == next {
                let is_gang = pod.gang.is_some();
                all.push(Job {
                    pods: Vec::new(),
                    is_gang,
                    is_submitted: false,
                    is_over: false,
                    n_left: 0,
                });
            }
            all[job].pods.push(at);
            all[job].n_left += 1;
            of_pod.push(job);
        }
        Self { all, of_pod, gangs: BTreeSet::new() }
    }

    pub(crate) fn of_pod(&self, pod: usize) -> &Job {
        &self.all[self.of_pod[pod]]
    }

    /// Marks a pod's application as submitted. Returns whether it was not submitted before.
    pub(crate) fn submit(&mut self, pod: usize) -> bool {
        let at = self.of_pod[pod];
        let job = &mut self.all[at];
        if job.is_gang {
            self.gangs.insert(at);
        }
        !std::mem::replace(&mut job.is_submitted, true)
    }

    /// Whether the application of a pod is submitted, as far as is known.
    pub(crate) fn is_submitted(&self, pod: usize) -> bool {
        self.of_pod(pod).is_submitted
    }

    /// Records that the scheduler ended the application of a pod after a while without asks. The
    /// next pod submits it again.
    pub(crate) fn is_ended(&mut self, pod: usize) {
        let job = &mut self.all[self.of_pod[pod]];
        job.is_submitted = false;
        job.is_over = true;
    }

    /// Returns one pod of each submitted gang with unfinished pods.
    pub(crate) fn gangs(&self) -> impl Iterator<Item = usize> {
        self.gangs.iter().map(|gang| self.all[*gang].pods[0])
    }

    /// Records the end of a pod. Returns whether it was the last of its application.
    pub(crate) fn end(&mut self, pod: usize) -> bool {
        let at = self.of_pod[pod];
        let job = &mut self.all[at];
        job.n_left -= 1;
        let is_last = job.n_left == 0;
        if is_last {
            self.gangs.remove(&at);
        }
        is_last
    }
}

impl Job {
    /// Returns the declared task groups, one per kind of pod. Empty if the application is no gang,
    /// or the scheduler has ended it before. `all_preempt` is the default for pods without a
    /// preemption policy.
    pub(crate) fn task_groups(&self, trace: &Trace, all_preempt: bool) -> Vec<si::TaskGroup> {
        let mut groups: Vec<si::TaskGroup> = Vec::new();
        for pod in &self.pods {
            let Some(name) = self.group_of(*pod, trace) else { continue };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.min_members += 1,
                None => groups.push(si::TaskGroup {
                    name,
                    min_members: 1,
                    member: Some(trace.pods[*pod].ask.to_wire()),
                    tags: trace.pods[*pod].wishes.tags.clone(),
                    priority: trace.pods[*pod].wishes.priority.unwrap_or(0),
                    preemption_policy: trace.pods[*pod].wishes.policy(all_preempt),
                    ..si::TaskGroup::default()
                }),
            }
        }
        groups
    }

    /// Returns the task group of a pod, named after the first pod with equal ask, GPU models and
    /// wishes. `None` for a pod without resources.
    pub(crate) fn group_of(&self, pod: usize, trace: &Trace) -> Option<String> {
        let pod = &trace.pods[pod];
        if !self.is_gang || self.is_over || pod.ask == Amount::default() {
            return None;
        }
        let is_alike = |other: &Pod| {
            other.ask == pod.ask && other.models == pod.models && other.wishes == pod.wishes
        };
        let first = self.pods.iter().map(|at| &trace.pods[*at]).find(|other| is_alike(other));
        first.map(|first| first.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Lifetime;
    use super::super::wishes::Wishes;
    use super::*;

    fn pod(name: &str, vcore: i64, gang: Option<&str>) -> Pod {
        Pod {
            name: name.to_owned(),
            ask: Amount::new(0, 0, vcore),
            models: Vec::new(),
            qos: String::new(),
            phase: String::new(),
            creation: 0,
            lifetime: Lifetime::RunsToEnd,
            gang: gang.map(str::to_owned),
            wishes: Wishes::default(),
        }
    }

    #[test]
    fn a_gang_is_one_application_with_groups_by_size() {
        let gang = Some("g");
        let pods = vec![
            pod("a", 1, gang),
            pod("alone", 1, None),
            pod("b", 2, gang),
            pod("c", 1, gang),
            pod("idle", 0, gang),
        ];
        let trace = Trace::new(Vec::new(), pods, 0);
        let mut jobs = Jobs::of(&trace);
        let groups = jobs.of_pod(3).task_groups(&trace, false);
        let shown: Vec<_> = groups.iter().map(|it| (it.name.as_str(), it.min_members)).collect();
        assert_eq!(shown, [("a", 2), ("b", 1)]);
        assert_eq!(jobs.of_pod(3).group_of(3, &trace).as_deref(), Some("a"));
        assert_eq!(jobs.of_pod(4).group_of(4, &trace), None);
        assert!(jobs.of_pod(1).task_groups(&trace, false).is_empty());
        assert!(jobs.submit(2) && !jobs.submit(0) && jobs.submit(1), "once for each application");
        jobs.is_ended(3);
        assert!(!jobs.is_submitted(0) && jobs.is_submitted(1));
        assert!(jobs.of_pod(0).task_groups(&trace, false).is_empty());
        assert!(jobs.submit(3), "it comes again with its next pod");
        assert!(jobs.end(1), "it is its whole application");
        assert!(!jobs.end(0) && !jobs.end(3) && !jobs.end(4) && jobs.end(2));
    }
}
