package monoceros

import (
	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// State is everything that an RM knows. The scheduler keeps nothing on disk, so it is told all of it
// whenever a session begins: at the start, and after a restart of the scheduler.
type State struct {
	// Nodes that there are. Those with the action CREATE_DRAIN or DRAIN_NODE stay closed.
	Nodes []*si.NodeInfo
	// Applications that have not ended.
	Applications []*si.AddApplicationRequest
	// Allocations with a node run there, with a node and the tag `foreign` take room on it, without
	// a node are asked for.
	Allocations []*si.Allocation
}

// items returns what has to be said, in this order: nodes, which are closed at first, so that nobody
// gets the room of what runs there; applications; what runs; nodes once more, open; what is asked for.
func (s *State) items() []item {
	var items, opening, asked []item
	for _, node := range s.Nodes {
		closed := proto.Clone(node).(*si.NodeInfo)
		closed.Action = si.NodeInfo_CREATE_DRAIN
		items = append(items, nodeItem(closed))
		switch node.GetAction() {
		case si.NodeInfo_CREATE_DRAIN, si.NodeInfo_DRAIN_NODE:
		default:
			open := &si.NodeInfo{NodeID: node.GetNodeID(), Action: si.NodeInfo_DRAIN_TO_SCHEDULABLE}
			// Says which partition the node is of.
			open.Attributes = node.GetAttributes()
			opening = append(opening, nodeItem(open))
		}
	}
	for _, application := range s.Applications {
		items = append(items, applicationItem(application))
	}
	for _, allocation := range s.Allocations {
		if allocation.GetNodeID() == "" {
			asked = append(asked, allocationItem(allocation))
		} else {
			items = append(items, allocationItem(allocation))
		}
	}
	return append(append(items, opening...), asked...)
}
