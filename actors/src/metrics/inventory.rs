//! Registration of families in the registry and in the inventory, so that the documentation lists every
//! family that is exported.

use prometheus::core::Collector;
use prometheus::{
    Counter, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// A family as a reader of the documentation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name; `<queue>` and `<resource>` stand for parts that depend on the cluster.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Names of the labels, each with its values where they are known beforehand.
    pub labels: Vec<(&'static str, Vec<&'static str>)>,
    /// The help text.
    pub help: &'static str,
}

/// The name of a label and all its values.
pub(super) type Label<const N: usize> = (&'static str, [&'static str; N]);

const ONCE: &str = "each family is made once, with a name and labels that are valid";

#[derive(Default)]
pub(super) struct Maker {
    registry: Registry,
    inventory: Vec<Family>,
}

impl Maker {
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> IntCounter {
        let counter = IntCounter::new(name, help).expect(ONCE);
        self.registry.register(Box::new(counter.clone())).expect(ONCE);
        self.note(name, "counter", vec![], help);
        counter
    }

    /// A counter of seconds.
    pub(super) fn seconds(&mut self, name: &'static str, help: &'static str) -> Counter {
        let counter = Counter::new(name, help).expect(ONCE);
        self.registry.register(Box::new(counter.clone())).expect(ONCE);
        self.note(name, "counter", vec![], help);
        counter
    }

    pub(super) fn counters<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        (label, values): Label<N>,
    ) -> [IntCounter; N] {
        let family = IntCounterVec::new(Opts::new(name, help), &[label]).expect(ONCE);
        self.registry.register(Box::new(family.clone())).expect(ONCE);
        self.note(name, "counter", vec![(label, values.to_vec())], help);
        values.map(|value| family.with_label_values(&[value]))
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> IntGauge {
        let gauge = IntGauge::new(name, help).expect(ONCE);
        self.registry.register(Box::new(gauge.clone())).expect(ONCE);
        self.note(name, "gauge", vec![], help);
        gauge
    }

    /// Counters with labels whose values are not known beforehand.
    pub(super) fn counters_by_name<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> IntCounterVec {
        let family = IntCounterVec::new(Opts::new(name, help), &labels).expect(ONCE);
        self.registry.register(Box::new(family.clone())).expect(ONCE);
        self.note(name, "counter", labels.map(|label| (label, vec![])).to_vec(), help);
        family
    }

    pub(super) fn gauges<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        (label, values): Label<N>,
    ) -> [IntGauge; N] {
        let family = IntGaugeVec::new(Opts::new(name, help), &[label]).expect(ONCE);
        self.registry.register(Box::new(family.clone())).expect(ONCE);
        self.note(name, "gauge", vec![(label, values.to_vec())], help);
        values.map(|value| family.with_label_values(&[value]))
    }

    pub(super) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        buckets: &[f64],
    ) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let histogram = Histogram::with_opts(options).expect(ONCE);
        self.registry.register(Box::new(histogram.clone())).expect(ONCE);
        self.note(name, "histogram", vec![], help);
        histogram
    }

    pub(super) fn histograms<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        (label, values): Label<N>,
        buckets: &[f64],
    ) -> [Histogram; N] {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let family = HistogramVec::new(options, &[label]).expect(ONCE);
        self.registry.register(Box::new(family.clone())).expect(ONCE);
        self.note(name, "histogram", vec![(label, values.to_vec())], help);
        values.map(|value| family.with_label_values(&[value]))
    }

    /// Adds the values of a label of the family that was made last.
    pub(super) fn label_values(&mut self, label: &'static str, values: &[&'static str]) {
        let labels = self.inventory.last_mut().into_iter().flat_map(|family| &mut family.labels);
        for (name, known) in labels {
            if *name == label {
                known.extend(values);
            }
        }
    }

    /// Registers a collector of these families.
    pub(super) fn collector(&mut self, collector: Box<dyn Collector>, families: Vec<Family>) {
        self.registry.register(collector).expect(ONCE);
        self.inventory.extend(families);
    }

    pub(super) fn inventory(&mut self) -> Vec<Family> {
        let mut families = std::mem::take(&mut self.inventory);
        families.sort_by_key(|family| family.name);
        families
    }

    pub(super) fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// Lists a family that is registered later or by others.
    pub(super) fn list(&mut self, family: Family) {
        self.inventory.push(family);
    }

    fn note(
        &mut self,
        name: &'static str,
        kind: &'static str,
        labels: Vec<(&'static str, Vec<&'static str>)>,
        help: &'static str,
    ) {
        self.inventory.push(Family { name, kind, labels, help });
    }
}
