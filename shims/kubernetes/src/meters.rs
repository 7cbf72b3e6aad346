//! Prometheus metrics of the shim.

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry, Result};

/// Metrics of the shim.
#[derive(Clone, Debug)]
pub struct Meters {
    /// Bindings that succeeded.
    pub bound: IntCounter,
    /// Bindings that failed.
    pub failed_bindings: IntCounter,
    /// Pods that were evicted.
    pub evicted: IntCounter,
    /// Conditions that were written.
    pub conditions: IntCounter,
    /// Events dropped because the queue was full or they could not be written.
    pub dropped_events: IntCounter,
    /// Pods with a pending ask.
    pub pods_waiting: IntGauge,
    /// Pods that are not scheduled because of their own or their application's specification.
    pub pods_refused: IntGauge,
    /// Pods bound to nodes that do not exist.
    pub pods_on_unknown_nodes: IntGauge,
    /// 1 while this replica schedules, else 0.
    pub leads: IntGauge,
    /// Seconds from the first sight of a pod to its binding request.
    pub seen_to_sent: Histogram,
}

/// Bucket bounds of `seen_to_sent`, in seconds.
const SECONDS: [f64; 13] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

impl Meters {
    /// Creates the metrics and registers them.
    pub fn new(registry: &Registry) -> Result<Self> {
        let counter = |name: &str, help: &str| {
            registered(registry, IntCounter::new(format!("monoceros_kubernetes_{name}"), help)?)
        };
        let gauge = |name: &str, help: &str| {
            registered(registry, IntGauge::new(format!("monoceros_kubernetes_{name}"), help)?)
        };
        let seen_to_sent = Histogram::with_opts(
            HistogramOpts::new(
                "monoceros_kubernetes_pod_to_binding_seconds",
                "Time from a pod being seen to its binding being sent.",
            )
            .buckets(SECONDS.to_vec()),
        )?;
        Ok(Self {
            bound: counter("bound_pods_total", "Pods that were bound.")?,
            failed_bindings: counter("failed_bindings_total", "Bindings that came to nothing.")?,
            evicted: counter("evicted_pods_total", "Pods that were sent away.")?,
            conditions: counter("conditions_total", "Conditions of pods that were written.")?,
            dropped_events: counter(
                "dropped_events_total",
                "Events that were not written, because there were too many.",
            )?,
            pods_waiting: gauge("pods_waiting", "Pods that have been asked for and have no node.")?,
            pods_refused: gauge(
                "pods_refused",
                "Pods that are refused, or cannot be read, or want what is not supported.",
            )?,
            pods_on_unknown_nodes: gauge(
                "pods_on_unknown_nodes",
                "Pods bound to nodes that are not there.",
            )?,
            leads: gauge("leads", "1 where this replica schedules, 0 where it stands by.")?,
            seen_to_sent: registered(registry, seen_to_sent)?,
        })
    }
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}
