package monoceros

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// State is the full state of an RM. The scheduler keeps nothing on disk, so all of it is reported whenever
// a session begins: at the start, and after a restart of the scheduler.
type State struct {
	// Nodes are the nodes of the RM. Those with the action CREATE_DRAIN or DRAIN_NODE stay closed.
	Nodes []*si.NodeInfo
	// Applications are the applications that have not ended.
	Applications []*si.AddApplicationRequest
	// Allocations with a node are running; those that also have the tag `foreign` occupy capacity of the node;
	// those without a node are asks.
	Allocations []*si.Allocation
}

// items returns the items to send, in this order: nodes, closed at first, so that no ask gets the capacity
// of running allocations; applications; running allocations; the nodes again, open; asks. Items that do not
// fit in a message of most bytes are left out; the returned messages reject them, for the handler.
func (s *State) items(most int) ([]item, []proto.Message, error) {
	if s == nil {
		return nil, nil, errors.New("there is neither a state nor an error")
	}
	var items, opening, asked []item
	var refused rejections
	for at, node := range s.Nodes {
		if node == nil {
			return nil, nil, fmt.Errorf("node %d of %d: %w", at+1, len(s.Nodes), ErrNil)
		}
		closed := proto.Clone(node).(*si.NodeInfo)
		closed.Action = si.NodeInfo_CREATE_DRAIN
		it := nodeItem(closed)
		if err := it.check(most); err != nil {
			refused.node(node.GetNodeID(), err)
			continue
		}
		items = append(items, it)
		switch node.GetAction() {
		case si.NodeInfo_CREATE_DRAIN, si.NodeInfo_DRAIN_NODE:
		default:
			open := &si.NodeInfo{NodeID: node.GetNodeID(), Action: si.NodeInfo_DRAIN_TO_SCHEDULABLE}
			// The attributes name the partition of the node.
			open.Attributes = node.GetAttributes()
			opening = append(opening, nodeItem(open))
		}
	}
	for at, application := range s.Applications {
		if application == nil {
			return nil, nil, fmt.Errorf("application %d of %d: %w", at+1, len(s.Applications), ErrNil)
		}
		it := applicationItem(application)
		if err := it.check(most); err != nil {
			refused.application(application.GetApplicationID(), err)
			continue
		}
		items = append(items, it)
	}
	for at, allocation := range s.Allocations {
		if allocation == nil {
			return nil, nil, fmt.Errorf("allocation %d of %d: %w", at+1, len(s.Allocations), ErrNil)
		}
		it := allocationItem(allocation)
		if err := it.check(most); err != nil {
			refused.allocation(allocation, err)
			continue
		}
		if allocation.GetNodeID() == "" {
			asked = append(asked, it)
		} else {
			items = append(items, it)
		}
	}
	return append(append(items, opening...), asked...), refused.messages(), nil
}

// rejections are the unsent items of a state, in the form in which the scheduler rejects items.
type rejections struct {
	nodes        []*si.RejectedNode
	applications []*si.RejectedApplication
	allocations  []*si.RejectedAllocation
}

// reasonOf returns the reason of a rejection, with a code like those of the scheduler, which begin with R.
func reasonOf(err error) string {
	if errors.Is(err, ErrTooLarge) {
		return err.Error() + " [C_TOO_LARGE]"
	}
	return err.Error() + " [C_UNWRITABLE]"
}

func (r *rejections) node(id string, err error) {
	r.nodes = append(r.nodes, &si.RejectedNode{NodeID: id, Reason: reasonOf(err)})
}

func (r *rejections) application(id string, err error) {
	r.applications = append(r.applications,
		&si.RejectedApplication{ApplicationID: id, Reason: reasonOf(err)})
}

func (r *rejections) allocation(one *si.Allocation, err error) {
	r.allocations = append(r.allocations, &si.RejectedAllocation{
		ApplicationID: one.GetApplicationID(), AllocationKey: one.GetAllocationKey(),
		Reason: reasonOf(err),
	})
}

func (r *rejections) messages() []proto.Message {
	var messages []proto.Message
	if r.nodes != nil {
		messages = append(messages, &si.NodeResponse{Rejected: r.nodes})
	}
	if r.applications != nil {
		messages = append(messages, &si.ApplicationResponse{Rejected: r.applications})
	}
	if r.allocations != nil {
		messages = append(messages, &si.AllocationResponse{RejectedAllocations: r.allocations})
	}
	return messages
}
