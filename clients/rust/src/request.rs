//! Requests of all kinds, numbered in one sequence: their size, and which of them may be joined in
//! one message.

use monoceros_proto::si::v1 as si;
use prost::Message as _;

/// Kind of stream, in the order of the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nodes,
    Applications,
    Allocations,
}

/// A request of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnyRequest {
    Nodes(si::NodeRequest),
    Applications(si::ApplicationRequest),
    Allocations(si::AllocationRequest),
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Nodes, Self::Applications, Self::Allocations];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl AnyRequest {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Nodes(_) => Kind::Nodes,
            Self::Applications(_) => Kind::Applications,
            Self::Allocations(_) => Kind::Allocations,
        }
    }

    /// Number of items in each list, in the order in which the scheduler processes the lists.
    fn lengths(&self) -> [usize; 4] {
        match self {
            Self::Nodes(request) => [request.nodes.len(), 0, 0, 0],
            Self::Applications(request) => [request.new.len(), request.remove.len(), 0, 0],
            Self::Allocations(request) => {
                let releases = request.releases.as_ref();
                let of =
                    |list: fn(&si::AllocationReleasesRequest) -> usize| releases.map_or(0, list);
                [
                    request.allocations.len(),
                    request.asks.len(),
                    of(|releases| releases.allocation_asks_to_release.len()),
                    of(|releases| releases.allocations_to_release.len()),
                ]
            }
        }
    }

    /// Whether the request reports existing allocations.
    fn reports_existing(&self) -> bool {
        let Self::Allocations(request) = self else { return false };
        request.allocations.iter().any(|allocation| !allocation.node_id.is_empty())
    }

    /// Number of items, including the existing allocations of nodes.
    pub(crate) fn items(&self) -> usize {
        let existing = match self {
            Self::Nodes(request) => {
                request.nodes.iter().map(|node| node.existing_allocations.len()).sum()
            }
            _ => 0,
        };
        self.lengths().iter().sum::<usize>() + existing
    }

    /// Size of the encoded message in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Nodes(request) => request.encoded_len(),
            Self::Applications(request) => request.encoded_len(),
            Self::Allocations(request) => request.encoded_len(),
        }
    }

    /// Splits the request into one per item, in the order in which the scheduler processes them.
    pub(crate) fn into_single(self) -> Vec<Self> {
        match self {
            Self::Nodes(si::NodeRequest { nodes, .. }) => {
                let one = |node| si::NodeRequest { nodes: vec![node], ..Default::default() };
                nodes.into_iter().map(|node| one(node).into()).collect()
            }
            Self::Applications(si::ApplicationRequest { new, remove, .. }) => {
                let new = new.into_iter().map(|new| (vec![new], Vec::new()));
                let remove = remove.into_iter().map(|remove| (Vec::new(), vec![remove]));
                let one =
                    |(new, remove)| si::ApplicationRequest { new, remove, ..Default::default() };
                new.chain(remove).map(|lists| one(lists).into()).collect()
            }
            Self::Allocations(si::AllocationRequest { allocations, asks, releases, .. }) => {
                let allocations = allocations.into_iter().map(|one| si::AllocationRequest {
                    allocations: vec![one],
                    ..Default::default()
                });
                let asks = asks
                    .into_iter()
                    .map(|one| si::AllocationRequest { asks: vec![one], ..Default::default() });
                let si::AllocationReleasesRequest {
                    allocation_asks_to_release,
                    allocations_to_release,
                } = releases.unwrap_or_default();
                let of_asks = allocation_asks_to_release.into_iter().map(|one| {
                    si::AllocationReleasesRequest {
                        allocation_asks_to_release: vec![one],
                        ..Default::default()
                    }
                });
                let of_allocations =
                    allocations_to_release.into_iter().map(|one| si::AllocationReleasesRequest {
                        allocations_to_release: vec![one],
                        ..Default::default()
                    });
                let releases = of_asks.chain(of_allocations).map(|releases| {
                    si::AllocationRequest { releases: Some(releases), ..Default::default() }
                });
                allocations.chain(asks).chain(releases).map(Self::from).collect()
            }
        }
    }

    /// Appends `later` if one message keeps the order in which the scheduler processes the items.
    /// Returns it otherwise.
    #[must_use]
    pub(crate) fn join(&mut self, later: Self) -> Option<Self> {
        let last = self.lengths().iter().rposition(|&length| length > 0);
        let first = later.lengths().iter().position(|&length| length > 0);
        let in_order = match self {
            // A message never contains both added and removed applications.
            Self::Applications(_) => last == first,
            // A message never contains both existing allocations and asks, because the asks could
            // get the capacity of the former.
            Self::Allocations(_) => {
                last <= first && self.reports_existing() == later.reports_existing()
            }
            Self::Nodes(_) => true,
        };
        if !in_order {
            return Some(later);
        }
        match (self, later) {
            (Self::Nodes(request), Self::Nodes(later)) => request.nodes.extend(later.nodes),
            (Self::Applications(request), Self::Applications(later)) => {
                if !(request.new.is_empty() || request.remove.is_empty()) {
                    return Some(Self::Applications(later));
                }
                request.new.extend(later.new);
                request.remove.extend(later.remove);
            }
            (Self::Allocations(request), Self::Allocations(later)) => {
                request.allocations.extend(later.allocations);
                request.asks.extend(later.asks);
                if let Some(later) = later.releases {
                    let releases = request.releases.get_or_insert_default();
                    releases.allocation_asks_to_release.extend(later.allocation_asks_to_release);
                    releases.allocations_to_release.extend(later.allocations_to_release);
                }
            }
            (_, later) => return Some(later),
        }
        None
    }

    pub(crate) fn set_number(&mut self, number: u64) {
        match self {
            Self::Nodes(request) => request.client_seq = number,
            Self::Applications(request) => request.client_seq = number,
            Self::Allocations(request) => request.client_seq = number,
        }
    }

    pub(crate) fn set_acknowledged(&mut self, seq: u64) {
        match self {
            Self::Nodes(request) => request.ack_seq = seq,
            Self::Applications(request) => request.ack_seq = seq,
            Self::Allocations(request) => request.ack_seq = seq,
        }
    }
}

impl From<si::NodeRequest> for AnyRequest {
    fn from(request: si::NodeRequest) -> Self {
        Self::Nodes(request)
    }
}

impl From<si::ApplicationRequest> for AnyRequest {
    fn from(request: si::ApplicationRequest) -> Self {
        Self::Applications(request)
    }
}

impl From<si::AllocationRequest> for AnyRequest {
    fn from(request: si::AllocationRequest) -> Self {
        Self::Allocations(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> AnyRequest {
        let allocations = vec![si::Allocation::default()];
        si::AllocationRequest { allocations, ..Default::default() }.into()
    }

    fn release() -> AnyRequest {
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: vec![si::AllocationRelease::default()],
            ..Default::default()
        };
        si::AllocationRequest { releases: Some(releases), ..Default::default() }.into()
    }

    fn application(new: usize, remove: usize) -> AnyRequest {
        let new = vec![si::AddApplicationRequest::default(); new];
        let remove = vec![si::RemoveApplicationRequest::default(); remove];
        si::ApplicationRequest { new, remove, ..Default::default() }.into()
    }

    #[test]
    fn requests_join_only_if_order_is_kept() {
        let mut all = ask();
        assert_eq!(all.join(ask()), None);
        assert_eq!(all.join(release()), None);
        assert_eq!(all.items(), 3);
        assert_eq!(all.join(ask()), Some(ask()), "it would overtake the release");
        let there = si::Allocation { node_id: "n1".to_owned(), ..Default::default() };
        let there = si::AllocationRequest { allocations: vec![there], ..Default::default() };
        let mut report = AnyRequest::from(there.clone());
        assert_eq!(report.join(there.into()), None);
        assert_eq!(report.join(ask()), Some(ask()), "it might get their capacity");
        let mut applications = application(1, 0);
        assert_eq!(applications.join(application(2, 0)), None);
        assert!(applications.join(application(0, 1)).is_some());
        assert!(applications.join(ask()).is_some());
        assert!(application(1, 1).join(application(1, 0)).is_some());
    }

    #[test]
    fn the_allocations_of_a_node_are_items_too() {
        let existing_allocations = vec![si::Allocation::default(); 2];
        let node = si::NodeInfo { existing_allocations, ..Default::default() };
        let request = si::NodeRequest { nodes: vec![node], ..Default::default() };
        assert_eq!(AnyRequest::from(request).items(), 3);
    }
}
