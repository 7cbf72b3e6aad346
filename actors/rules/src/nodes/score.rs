//! The score of a node, which decides which node is tried first: `docs/nodes.md#order-of-nodes`.
//!
//! A score is one number, so that nodes can be kept in order and only those that changed are moved.
//! So the score of a node must not depend on other nodes.

use serde::{Deserialize, Serialize};

use crate::values::resources::{Name, Resources};

/// The preference for empty or for full nodes (`nodesortpolicy.type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeSortPolicy {
    /// The emptiest node first: load is spread.
    #[default]
    Fair,
    /// The fullest node first: whole machines are kept free.
    BinPacking,
}

/// The order of nodes: a policy, and the weights of resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeOrder {
    policy: NodeSortPolicy,
    /// Weights above zero, in order of the texts: a sum in floating point depends on its order.
    #[serde(with = "weights_as_bits")]
    weights: Vec<(Name, f64)>,
}

impl NodeOrder {
    /// Builds an order by `policy` with these weights (`nodesortpolicy.resourceweights`), whose
    /// names stay for the life of the process. A resource without a weight above zero does not
    /// count. If there are no weights, the default applies: one each for memory and vcore.
    pub fn new(policy: NodeSortPolicy, weights: &[(String, f64)]) -> Self {
        Self::with(policy, weights, |text| Some(Name::keep(text)))
    }

    /// Builds an order in which a weight counts only if its name is held already.
    pub fn of_held(policy: NodeSortPolicy, weights: &[(String, f64)]) -> Self {
        Self::with(policy, weights, Name::known)
    }

    fn with(
        policy: NodeSortPolicy,
        weights: &[(String, f64)],
        named: impl Fn(&str) -> Option<Name>,
    ) -> Self {
        if weights.is_empty() {
            return Self { policy, ..Self::default() };
        }
        let mut counted: Vec<_> = weights.iter().filter(|(_, weight)| *weight > 0.0).collect();
        counted.sort_by(|a, b| a.0.cmp(&b.0));
        let weights = counted
            .into_iter()
            .filter_map(|(text, weight)| Some((named(text)?, *weight)))
            .collect();
        Self { policy, weights }
    }

    /// The policy.
    pub fn policy(&self) -> NodeSortPolicy {
        self.policy
    }

    /// Returns the score of a node with these amounts; nodes are tried from the lowest to the
    /// highest.
    ///
    /// It is the weighted mean of the used shares, or for bin packing one minus that. A resource
    /// counts if it has a weight, the node's total names it, and its share is a number (of a total
    /// of zero with no usage it is not). If none counts, the mean is zero.
    pub fn score(&self, total: &Resources, available: &Resources) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for &(name, weight) in &self.weights {
            let Some(capacity) = total.find(name) else { continue };
            let share = 1.0 - available.get(name) as f64 / capacity as f64;
            if !share.is_nan() {
                sum += weight * share;
                weights += weight;
            }
        }
        // Two shares of totals of zero may be infinite with opposite signs.
        let mean = if weights == 0.0 { 0.0 } else { sum / weights };
        let usage = if mean.is_nan() { 0.0 } else { mean };
        match self.policy {
            NodeSortPolicy::Fair => usage,
            NodeSortPolicy::BinPacking => 1.0 - usage,
        }
    }
}

impl Default for NodeOrder {
    fn default() -> Self {
        let weights = vec![(Name::MEMORY, 1.0), (Name::VCORE, 1.0)];
        Self { policy: NodeSortPolicy::default(), weights }
    }
}

/// Returns a number with the same order as the score; minus zero counts as zero.
pub(super) fn ordered_bits(score: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = (score + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Weights in serialized form: their bits, which are exact and may be those of infinity.
mod weights_as_bits {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::Name;

    pub(super) fn serialize<S: Serializer>(
        weights: &[(Name, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(weights.iter().map(|(name, weight)| (name, weight.to_bits())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(Name, f64)>, D::Error> {
        let read = |(name, bits): (Name, u64)| match f64::from_bits(bits) {
            weight if weight > 0.0 => Ok((name, weight)),
            _ => Err(D::Error::custom("a weight of a resource is no number above zero")),
        };
        Vec::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(policy: NodeSortPolicy, weights: &[(&str, f64)]) -> NodeOrder {
        let weights: Vec<_> = weights.iter().map(|(k, w)| ((*k).to_owned(), *w)).collect();
        NodeOrder::new(policy, &weights)
    }

    #[test]
    fn scores_of_the_spec() {
        use NodeSortPolicy::{BinPacking, Fair};
        let node = Resources::of(&[("memory", 100), ("vcore", 1_000)]);
        let half = Resources::of(&[("memory", 50), ("vcore", 100)]);
        let over = Resources::of(&[("memory", -100), ("vcore", 0)]);
        let v4m1 = [("vcore", 4.0), ("memory", 1.0)];
        let cases: &[(&str, NodeOrder, &Resources, f64)] = &[
            ("90 % cpu, 50 % memory, weights 4 and 1", weighted(Fair, &v4m1), &half, 0.82),
            ("the same, bin packing", weighted(BinPacking, &v4m1), &half, 0.18),
            ("default weights", NodeOrder::default(), &half, 0.7),
            ("no weights are the default ones", weighted(Fair, &[]), &half, 0.7),
            ("given weights replace the default", weighted(Fair, &[("memory", 3.0)]), &half, 0.5),
            ("zero is ignored", weighted(Fair, &[("memory", 0.0), ("vcore", 1.0)]), &half, 0.9),
            ("nothing counts", weighted(Fair, &[("memory", 0.0)]), &half, 0.0),
            ("nothing counts, bin packing", weighted(BinPacking, &[("gpu", 1.0)]), &half, 1.0),
            ("a type the node lacks", weighted(Fair, &[("gpu", 9.0), ("vcore", 1.0)]), &half, 0.9),
            ("over-allocated", NodeOrder::default(), &over, 1.5),
            ("over-allocated, bin packing", weighted(BinPacking, &[]), &over, -0.5),
        ];
        for (name, order, available, expected) in cases {
            let score = order.score(&node, available);
            assert!((score - expected).abs() < 1e-12, "{name}: {score}, not {expected}");
        }
    }

    #[test]
    fn a_total_of_zero_makes_no_score_that_is_not_a_number() {
        let order = NodeOrder::default();
        let none = Resources::of(&[("memory", 0), ("vcore", 0)]);
        let gone = Resources::of(&[("memory", -1), ("vcore", 1)]);
        assert!(order.score(&none, &none).to_bits() == 0);
        assert!(order.score(&none, &gone).to_bits() == 0);
        let vcores = Resources::of(&[("memory", 0), ("vcore", 4)]);
        let half = Resources::of(&[("vcore", 2)]);
        assert!((order.score(&vcores, &half) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn bits_order_as_scores_do() {
        let scores =
            [f64::NEG_INFINITY, -2.0, -0.5, -f64::MIN_POSITIVE, 0.0, 0.25, 1.0, 7.0, f64::INFINITY];
        assert!(scores.map(ordered_bits).is_sorted_by(|a, b| a < b));
        assert_eq!(ordered_bits(-0.0), ordered_bits(0.0));
    }
}
