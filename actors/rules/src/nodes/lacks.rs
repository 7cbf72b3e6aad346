//! Reasons why no node holds a request: counts of nodes by the resources that they lack, or other
//! reason.
//!
//! A search returns a node or nothing, and costs one descent. Explanations of a pending request are
//! made one at a time, so that this module may read every node; a search must not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::fits::Fits;
use super::index::NodeIndex;
use super::node::IndexedNode;
use super::request::NodeRequest;
use super::set_aside::SetAside;
use crate::values::ids::NodeSlot;
use crate::values::readable::title;

/// The most reasons of nodes that a sentence lists.
const TEXTS_SHOWN: usize = 8;

/// Counts of nodes that do not hold a request. A node counts once, for the first of these reasons
/// that applies; a node that lacks several resources counts for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLacks {
    /// The number of nodes in question: all of them, or the one that is required.
    pub nodes: usize,
    /// Those that are closed: they drain or are not ready.
    pub closed: usize,
    /// Open nodes that the request may not use whatever their capacity, by the reason that the node
    /// itself gives.
    pub unfit: BTreeMap<Arc<str>, usize>,
    /// Whether the nodes in `unfit` are still being counted.
    pub is_counting: bool,
    /// Other open nodes that would not hold the request even if empty.
    pub too_small: usize,
    /// Other open nodes that are set aside for asks which reserved them.
    pub reserved: usize,
    /// Other open nodes that the placement constraint excludes.
    pub constraints: usize,
    /// Other open nodes outside the domain of the task group.
    pub topology: usize,
    /// Other open nodes for which a predicate refused the ask, or was not answered in time.
    pub refused: usize,
    /// Other open nodes that the RM has refused for good.
    pub excluded: usize,
    /// The number of other nodes that lack a resource, by resource.
    pub lacking: BTreeMap<Arc<str>, usize>,
    /// The number of nodes that no reason excludes.
    pub holding: usize,
}

impl NodeLacks {
    /// Whether there are nodes, and each of them is closed or refuses the request by itself.
    pub fn are_all_unfit(&self) -> bool {
        !self.unfit.is_empty() && self.closed + self.unfit.values().sum::<usize>() == self.nodes
    }

    /// Returns the reasons in `unfit` with their counts, the most frequent first.
    pub fn unfit_by_count(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let mut unfit: Vec<_> = self.unfit.iter().map(|(reason, count)| (reason, *count)).collect();
        unfit.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        unfit.into_iter()
    }

    /// Counts a node.
    fn count(
        &mut self,
        slot: NodeSlot,
        node: &IndexedNode,
        request: &NodeRequest<'_>,
        (is_within, is_as_wished): (bool, bool),
        counts: &mut Counts<'_>,
    ) {
        if request.required.is_some_and(|required| *required != *node.id) {
            return;
        }
        self.nodes += 1;
        if !node.open && request.required.is_none() {
            self.closed += 1;
        } else if let Some(reason) = counts.fits.refusal(&node.id) {
            counts.unfit(reason);
        } else if !node.total.holds(request.resources) {
            self.too_small += 1;
        } else if node.aside != SetAside::No
            && request.required.is_none()
            && request.own != Some(slot)
        {
            self.reserved += 1;
        } else if !is_within {
            self.topology += 1;
        } else if !is_as_wished {
            self.constraints += 1;
        } else if request.is_refused_by(&node.id) {
            self.refused += 1;
        } else if request.is_excluded_from(&node.id) {
            self.excluded += 1;
        } else {
            let mut holds = true;
            for ((name, wanted), short) in request.resources.entries().zip(&mut counts.short) {
                let lacks = wanted > node.available.get(name).max(0);
                *short += usize::from(lacks);
                holds &= !lacks;
            }
            self.holding += usize::from(holds);
        }
    }
}

/// Counts by number; names are added at the end, since a cluster has many nodes and few texts.
struct Counts<'a> {
    fits: &'a Fits,
    /// The number of nodes that lack a resource, by the index of the resource in the request.
    short: Vec<usize>,
    /// The number of nodes that refuse, by the index of the reason.
    unfit: Vec<usize>,
}

impl Counts<'_> {
    fn unfit(&mut self, reason: u16) {
        let reason = usize::from(reason);
        if self.unfit.len() <= reason {
            self.unfit.resize(reason + 1, 0);
        }
        self.unfit[reason] += 1;
    }
}

impl NodeIndex {
    /// Counts nodes by the reason why they do not hold the request. Reads every node.
    pub fn lacks(&self, request: &NodeRequest<'_>, fits: &Fits) -> NodeLacks {
        self.lacks_of_each(&[(*request, fits)]).pop().unwrap_or_default()
    }

    /// Answers [`Self::lacks`] for several requests, in one pass over all nodes.
    pub fn lacks_of_each(&self, requests: &[(NodeRequest<'_>, &Fits)]) -> Vec<NodeLacks> {
        let counted = requests.iter().map(|(request, fits)| {
            let short = vec![0; request.resources.entries().len()];
            (NodeLacks::default(), Counts { fits, short, unfit: Vec::new() })
        });
        let mut counted: Vec<_> = counted.collect();
        for (slot, node) in self.nodes.iter() {
            for ((lacks, counts), (request, _)) in counted.iter_mut().zip(requests) {
                let is_as_wished = request.wish.is_none_or(|wish| self.is_as_wished(slot, &wish));
                let is_within = self.is_within(slot, request.domains);
                lacks.count(slot, node, request, (is_within, is_as_wished), counts);
            }
        }
        let named =
            counted.into_iter().zip(requests).map(|((mut lacks, counts), (request, fits))| {
                let types = request.resources.entries().zip(counts.short);
                let types = types.filter(|(_, count)| *count > 0);
                lacks.lacking = types.map(|((name, _), count)| (name.text(), count)).collect();
                let reasons = (0..).zip(counts.unfit).filter(|(_, count)| *count > 0);
                let reasons =
                    reasons.filter_map(|(number, count)| Some((fits.reason(number)?, count)));
                lacks.unfit = reasons.map(|(reason, count)| (Arc::clone(reason), count)).collect();
                lacks.is_counting = matches!(fits, Fits::Counting);
                lacks
            });
        named.collect()
    }
}

impl fmt::Display for NodeLacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.nodes == 1 { "node" } else { "nodes" };
        write!(f, "{} {noun}", self.nodes)?;
        let counts = [
            (self.closed, "takes nothing now", "take nothing now"),
            (self.too_small, "is too small", "are too small"),
            (self.reserved, "is reserved for another", "are reserved for others"),
            (self.constraints, "is excluded by its constraint", "are excluded by its constraint"),
            (self.topology, "is outside of its domain", "are outside of its domain"),
            (self.refused, "refused it or did not answer", "refused it or did not answer"),
            (self.excluded, "can never run it", "can never run it"),
        ];
        let said = counts.iter().filter(|(count, ..)| *count > 0);
        let said = said
            .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }));
        let lacking = self.lacking.iter().map(|(name, count)| {
            let verb = if *count == 1 { "lacks" } else { "lack" };
            format!("{count} {verb} {}", title(name))
        });
        let unfit = self.unfit_by_count().map(|(reason, count)| format!("`{reason}` on {count}"));
        for (at, text) in said.chain(lacking).chain(unfit.take(TEXTS_SHOWN)).enumerate() {
            write!(f, "{}{text}", if at == 0 { ": " } else { ", " })?;
        }
        if self.is_counting {
            write!(f, "; which of them it may use is being counted")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Exclusion, NodeFits, NodeOrder};
    use crate::values::resources::Resources;

    fn of(vcore: i64, memory: i64) -> Resources {
        Resources::of(&[("vcore", vcore), ("memory", memory)])
    }

    #[test]
    fn every_node_that_does_not_hold_a_request_says_why() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        nodes.insert(Arc::from("e"), of(3, 9), of(3, 9), true).unwrap();
        for (id, vcore, memory, open) in
            [("a", 1, 9, true), ("b", 1, 1, true), ("c", 9, 9, false), ("d", 9, 9, true)]
        {
            nodes.insert(Arc::from(id), of(9, 9), of(vcore, memory), open).unwrap();
        }
        let reserved = nodes.insert(Arc::from("f"), of(9, 9), of(9, 9), true).unwrap();
        nodes.set_aside(reserved, SetAside::Bounded(0));
        let wanted = of(4, 4);
        let excluded = [Exclusion { node: Arc::from("d"), until_ns: 0 }];
        let request = NodeRequest { excluded: &excluded, ..NodeRequest::of(&wanted) };
        assert_eq!(nodes.first(&request), None);
        assert_eq!(
            nodes.lacks(&request, &Fits::Unknown).to_string(),
            "6 nodes: 1 takes nothing now, 1 is too small, 1 is reserved for another, \
             1 can never run it, 1 lacks memory, 2 lack cores"
        );
        let named = NodeRequest { required: Some("b"), ..NodeRequest::of(&wanted) };
        assert_eq!(
            nodes.lacks(&named, &Fits::Unknown).to_string(),
            "1 node: 1 lacks memory, 1 lacks cores"
        );
        assert_eq!(
            nodes.lacks_of_each(&[(named, &Fits::Unknown), (request, &Fits::Unknown)])[1],
            nodes.lacks(&request, &Fits::Unknown)
        );
        let fits = NodeFits::from_iter([("a", "other pool"), ("c", "tainted"), ("f", "tainted")]);
        assert_eq!(
            nodes.lacks(&request, &Fits::Known(fits.into())).to_string(),
            "6 nodes: 1 takes nothing now, 1 is too small, 1 can never run it, 1 lacks memory, \
             1 lacks cores, `other pool` on 1, `tainted` on 1",
            "what a node says goes before the room that it has, and not before that it is closed"
        );
        let counting = nodes.lacks(&named, &Fits::Counting).to_string();
        assert!(counting.ends_with("1 lacks cores; which of them it may use is being counted"));
        let gone = NodeRequest { required: Some("z"), ..NodeRequest::of(&wanted) };
        assert_eq!(nodes.lacks(&gone, &Fits::Unknown).to_string(), "0 nodes");
    }
}
