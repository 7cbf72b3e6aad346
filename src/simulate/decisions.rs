//! The simulator's callback, which records decisions with their times.
//!
//! The scheduler calls it from its own tasks and must not wait, so decisions are only recorded, and
//! the replay reads them between two steps. Predicates are answered at once: a pod that names GPU
//! models only accepts machines of these models.
//!
//! # Keys
//! The application of a pod has the pod's name, or that of its gang. Its ask has the pod's name and
//! the number of the attempt, `web-7.0`. A preempted pod asks again as `web-7.1`, so that late
//! messages about the first attempt are not mistaken for the second.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monoceros_actors::ResourceManagerCallback;
use monoceros_proto::si::v1 as si;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::trace::Trace;

/// A decision about a pod or machine, by index in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Placed {
        pod: usize,
        attempt: u32,
        machine: usize,
        uuid: String,
    },
    /// The pod is evicted, for the reason `why`.
    Preempted {
        pod: usize,
        uuid: String,
        why: String,
    },
    PodRefused {
        pod: usize,
        reason: String,
    },
    /// The application of the pod was completed or failed, after a while without asks.
    ApplicationEnded {
        pod: usize,
    },
    MachineRefused {
        machine: usize,
        reason: String,
    },
    /// The decision is about an unknown item.
    Unknown(String),
}

/// The resource manager of the replay.
pub(crate) struct Decisions {
    trace: Arc<Trace>,
    pods: HashMap<String, usize>,
    /// Pods by application.
    applications: HashMap<String, Vec<usize>>,
    machines: HashMap<String, usize>,
    // Locked for a push or a swap, never across a call or an await.
    recorded: Mutex<Vec<(Instant, Decision)>>,
    wake: Notify,
}

impl Decisions {
    pub(crate) fn new(trace: Arc<Trace>) -> Self {
        let (mut pods, mut applications) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for (at, pod) in trace.pods.iter().enumerate() {
            pods.insert(pod.name.clone(), at);
            applications.entry(pod.application().to_owned()).or_default().push(at);
        }
        let machines = trace.machines.iter().enumerate();
        let machines = machines.map(|(at, machine)| (machine.name.clone(), at)).collect();
        Self {
            trace,
            pods,
            applications,
            machines,
            recorded: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Returns the decisions since the last call, in order, each with its virtual time.
    pub(crate) fn take(&self) -> Vec<(Instant, Decision)> {
        mem::take(&mut *self.recorded())
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<(Instant, Decision)>> {
        // No code panics between two writes, so a poisoned lock is safe to use.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a decision was recorded since the last call. [`take`](Self::take) may have
    /// returned it already.
    pub(crate) async fn more(&self) {
        self.wake.notified().await;
    }

    fn record(&self, decision: Decision) {
        self.recorded().push((Instant::now(), decision));
        self.wake.notify_one();
    }

    /// Records a decision about a pod, found by the key of its ask.
    fn record_for_pod(&self, key: &str, decision: impl FnOnce(usize, u32) -> Decision) {
        let known = split_key(key)
            .and_then(|(pod, attempt)| self.pods.get(pod).map(|&pod| decision(pod, attempt)));
        let unknown = || Decision::Unknown(format!("allocation key `{key}`"));
        self.record(known.unwrap_or_else(unknown));
    }

    fn placed(&self, allocation: si::Allocation) {
        let Some(&machine) = self.machines.get(&allocation.node_id) else {
            return self.record(Decision::Unknown(format!("node `{}`", allocation.node_id)));
        };
        let uuid = allocation.uuid;
        self.record_for_pod(&allocation.allocation_key, |pod, attempt| Decision::Placed {
            pod,
            attempt,
            machine,
            uuid,
        });
    }
}

pub(crate) fn ask_key(pod: &str, attempt: u32) -> String {
    format!("{pod}.{attempt}")
}

fn split_key(key: &str) -> Option<(&str, u32)> {
    let (pod, attempt) = key.rsplit_once('.')?;
    Some((pod, attempt.parse().ok()?))
}

impl ResourceManagerCallback for Decisions {
    fn update_allocation(&self, response: si::AllocationResponse) {
        for release in response.released {
            // Every other kind confirms a release that the simulator requested.
            if release.termination_type() == si::TerminationType::PreemptedByScheduler {
                let (uuid, why) = (release.uuid, release.message);
                let key = &release.allocation_key;
                self.record_for_pod(key, |pod, _| Decision::Preempted { pod, uuid, why });
            }
        }
        for allocation in response.new {
            self.placed(allocation);
        }
        for ask in response.rejected {
            let reason = ask.reason;
            let key = &ask.allocation_key;
            self.record_for_pod(key, |pod, _| Decision::PodRefused { pod, reason });
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        for application in response.rejected {
            let (id, reason) = (application.application_id, application.reason);
            let Some(pods) = self.applications.get(&id) else {
                self.record(Decision::Unknown(format!("application `{id}`")));
                continue;
            };
            for &pod in pods {
                self.record(Decision::PodRefused { pod, reason: reason.clone() });
            }
        }
        for application in response.updated {
            let pods = self.applications.get(&application.application_id);
            if let (Some(pods), "Completed" | "Failed") = (pods, &*application.state) {
                self.record(Decision::ApplicationEnded { pod: pods[0] });
            }
        }
    }

    fn update_node(&self, response: si::NodeResponse) {
        for node in response.rejected {
            self.record(match self.machines.get(&node.node_id) {
                Some(&machine) => Decision::MachineRefused { machine, reason: node.reason },
                None => Decision::Unknown(format!("node `{}`", node.node_id)),
            });
        }
    }

    fn predicates(&self, args: &si::PredicatesArgs) -> Result<(), String> {
        let pod = split_key(&args.allocation_key).and_then(|(name, _)| self.pods.get(name));
        let machine = self.machines.get(&args.node_id);
        let (Some(&pod), Some(&machine)) = (pod, machine) else {
            return Err(format!("`{}` or `{}` is unknown", args.allocation_key, args.node_id));
        };
        let (pod, machine) = (&self.trace.pods[pod], &self.trace.machines[machine]);
        if pod.admits(&machine.model) {
            return Ok(());
        }
        Err(format!("wants a GPU of {}, has `{}`", pod.models.join(" or "), machine.model))
    }

    /// Evictions do not change whether a pod is admitted to a machine.
    fn preemption_predicates(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        let question = si::PredicatesArgs {
            allocation_key: args.allocation_key.clone(),
            node_id: args.node_id.clone(),
            allocate: true,
            ..Default::default()
        };
        let success = self.predicates(&question).is_ok();
        let index = if args.preempt_allocation_keys.is_empty() { -1 } else { args.start_index };
        si::PreemptionPredicatesResponse { success, index }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::amount::Amount;
    use super::super::trace::{Lifetime, Machine, Pod};
    use super::super::wishes::Wishes;
    use super::*;

    fn decisions() -> Decisions {
        let machine = |name: &str, model: &str| Machine {
            name: name.to_owned(),
            capacity: Amount::default(),
            model: model.to_owned(),
            attributes: BTreeMap::new(),
        };
        let pod = Pod {
            name: "a.1".to_owned(),
            ask: Amount::default(),
            models: vec!["V100M16".to_owned(), "V100M32".to_owned()],
            qos: String::new(),
            phase: String::new(),
            creation: 0,
            lifetime: Lifetime::RunsToEnd,
            gang: None,
            wishes: Wishes::default(),
        };
        let machines = vec![machine("m1", "V100M32"), machine("m2", "T4"), machine("m3", "")];
        Decisions::new(Arc::new(Trace::new(machines, vec![pod], 0)))
    }

    #[test]
    fn a_pod_is_admitted_only_to_its_models() {
        let decisions = decisions();
        let ask = |node: &str| {
            decisions.predicates(&si::PredicatesArgs {
                allocation_key: ask_key("a.1", 3),
                node_id: node.to_owned(),
                allocate: true,
                ..Default::default()
            })
        };
        let fits = |node: &str| {
            decisions.preemption_predicates(&si::PreemptionPredicatesArgs {
                allocation_key: ask_key("a.1", 3),
                node_id: node.to_owned(),
                preempt_allocation_keys: vec!["b.0".to_owned(), "c.0".to_owned()],
                start_index: 1,
            })
        };
        assert_eq!((fits("m1").success, fits("m1").index), (true, 1));
        assert!(!fits("m2").success);
        assert_eq!(ask("m1"), Ok(()));
        assert_eq!(ask("m2"), Err("wants a GPU of V100M16 or V100M32, has `T4`".to_owned()));
        assert!(ask("m3").is_err() && ask("m4").is_err());
    }

    #[tokio::test]
    async fn decisions_keep_order_and_preemption_is_recognized() {
        let decisions = decisions();
        let release = |kind: si::TerminationType| si::AllocationRelease {
            application_id: "a.1".to_owned(),
            allocation_key: ask_key("a.1", 2),
            uuid: "u".to_owned(),
            termination_type: kind.into(),
            message: "because".to_owned(),
            ..si::AllocationRelease::default()
        };
        decisions.update_allocation(si::AllocationResponse {
            new: vec![si::Allocation {
                allocation_key: "a.1.2".to_owned(),
                application_id: "a.1".to_owned(),
                node_id: "m2".to_owned(),
                uuid: "u".to_owned(),
                ..si::Allocation::default()
            }],
            ..si::AllocationResponse::default()
        });
        decisions.update_allocation(si::AllocationResponse {
            released: vec![
                release(si::TerminationType::StoppedByRm),
                release(si::TerminationType::PreemptedByScheduler),
            ],
            ..si::AllocationResponse::default()
        });
        decisions.more().await;
        let recorded: Vec<_> = decisions.take().into_iter().map(|(_, decision)| decision).collect();
        let placed = Decision::Placed { pod: 0, attempt: 2, machine: 1, uuid: "u".to_owned() };
        let (uuid, why) = ("u".to_owned(), "because".to_owned());
        assert_eq!(recorded, [placed, Decision::Preempted { pod: 0, uuid, why }]);
        assert!(decisions.take().is_empty());
    }
}
