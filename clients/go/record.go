package monoceros

import (
	"context"
	"sort"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// record is the state of an RM as derived from the messages in both directions (Config.Remember). An item
// is recorded before it is queued, so that it is sent, or in the state, or both.
//
// Ids are taken to be unique over the partitions of the RM.
type record struct {
	mu           sync.Mutex
	nodes        map[string]*noted[*si.NodeInfo]
	applications map[string]*noted[*si.AddApplicationRequest]
	allocations  map[allocationID]*noted[*si.Allocation]
	// last numbers the recorded items, so that a state lists them in the order of their arrival.
	last uint64
}

type allocationID struct{ application, key string }

// noted is a recorded item. The record owns it, and replaces it in place of changing it, since a state may
// refer to it.
type noted[T proto.Message] struct {
	item   T
	number uint64
	// taken is set if the program has received the allocation through Callbacks.Take, for its node.
	taken bool
}

func newRecord() *record {
	return &record{
		nodes:        map[string]*noted[*si.NodeInfo]{},
		applications: map[string]*noted[*si.AddApplicationRequest]{},
		allocations:  map[allocationID]*noted[*si.Allocation]{},
	}
}

// put records an item. An item that replaces another keeps its place in the order.
func put[K comparable, T proto.Message](r *record, in map[K]*noted[T], key K, item T) {
	if known := in[key]; known != nil {
		known.item = item
		return
	}
	r.last++
	in[key] = &noted[T]{item: item, number: r.last}
}

// inOrder lists items in the order of their arrival.
func inOrder[K comparable, T proto.Message](in map[K]*noted[T]) []T {
	all := make([]*noted[T], 0, len(in))
	for _, one := range in {
		all = append(all, one)
	}
	sort.Slice(all, func(a, b int) bool { return all[a].number < all[b].number })
	items := make([]T, len(all))
	for at, one := range all {
		items[at] = one.item
	}
	return items
}

// state implements Config.State.
func (r *record) state(context.Context) (*State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &State{
		Nodes: inOrder(r.nodes), Applications: inOrder(r.applications), Allocations: inOrder(r.allocations),
	}, nil
}

// sent records an item that the program sends.
func (r *record) sent(item proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch one := item.(type) {
	case *si.NodeInfo:
		r.node(one)
	case *si.AddApplicationRequest:
		put(r, r.applications, one.GetApplicationID(), cloned(one))
	case *si.RemoveApplicationRequest:
		r.dropApplication(one.GetApplicationID(), func(*si.Allocation) bool { return true })
	case *si.Allocation:
		r.allocation(one)
	case *si.AllocationRelease:
		r.release(one)
	}
}

func (r *record) node(sent *si.NodeInfo) {
	id := sent.GetNodeID()
	switch sent.GetAction() {
	case si.NodeInfo_CREATE, si.NodeInfo_CREATE_DRAIN:
		node := cloned(sent)
		for _, one := range node.GetExistingAllocations() {
			r.allocation(one)
		}
		node.ExistingAllocations = nil
		put(r, r.nodes, id, node)
		return
	case si.NodeInfo_DECOMISSION:
		delete(r.nodes, id)
		for key, one := range r.allocations {
			if one.item.GetNodeID() == id {
				delete(r.allocations, key)
			}
		}
		return
	}
	known := r.nodes[id]
	if known == nil {
		return
	}
	node := cloned(known.item)
	switch sent.GetAction() {
	case si.NodeInfo_DRAIN_NODE:
		node.Action = si.NodeInfo_CREATE_DRAIN
	case si.NodeInfo_DRAIN_TO_SCHEDULABLE:
		node.Action = si.NodeInfo_CREATE
	case si.NodeInfo_UPDATE:
		updateNode(node, cloned(sent))
	}
	known.item = node
}

// updateNode applies an update as the scheduler does (docs/nodes.md).
func updateNode(node, update *si.NodeInfo) {
	const removed, ready = "monoceros.io/removed-attributes", "ready"
	if update.SchedulableResource != nil {
		node.SchedulableResource = update.SchedulableResource
	}
	if update.OccupiedResource != nil {
		node.OccupiedResource = update.OccupiedResource
	}
	if node.Attributes == nil {
		node.Attributes = map[string]string{}
	}
	// A node is ready unless the update says that it is not.
	delete(node.Attributes, ready)
	for _, key := range strings.Split(update.Attributes[removed], ",") {
		delete(node.Attributes, strings.TrimSpace(key))
	}
	for key, value := range update.Attributes {
		if key != removed {
			node.Attributes[key] = value
		}
	}
}

// allocation records an ask, or a running allocation. An update of a running allocation may leave out the
// node.
func (r *record) allocation(sent *si.Allocation) {
	one := cloned(sent)
	key := allocationID{one.GetApplicationID(), one.GetAllocationKey()}
	if known := r.allocations[key]; known != nil {
		if one.NodeID == "" {
			one.NodeID = known.item.GetNodeID()
		}
		known.taken = known.taken && one.NodeID == known.item.GetNodeID()
	}
	put(r, r.allocations, key, one)
}

// release records a release by the program. Without a key it covers the whole application.
func (r *record) release(sent *si.AllocationRelease) {
	key := allocationID{sent.GetApplicationID(), sent.GetAllocationKey()}
	for _, key := range r.keys(key) {
		known := r.allocations[key]
		if sent.GetTerminationType() == si.TerminationType_SCHEDULING_FAILED_ON_RM {
			pending := cloned(known.item)
			pending.NodeID = ""
			known.item, known.taken = pending, false
			continue
		}
		if confirms(sent) && known.item.GetNodeID() == "" {
			continue
		}
		delete(r.allocations, key)
	}
}

// confirms reports whether the release confirms one that the scheduler began. Such a release withdraws no
// ask.
func confirms(release *si.AllocationRelease) bool {
	switch release.GetTerminationType() {
	case si.TerminationType_TIMEOUT, si.TerminationType_PREEMPTED_BY_SCHEDULER,
		si.TerminationType_PLACEHOLDER_REPLACED:
		return true
	}
	return false
}

// keys returns the recorded ids: the named one, or all of the application if named has no key.
func (r *record) keys(named allocationID) []allocationID {
	if named.key != "" {
		if r.allocations[named] == nil {
			return nil
		}
		return []allocationID{named}
	}
	var keys []allocationID
	for key := range r.allocations {
		if key.application == named.application {
			keys = append(keys, key)
		}
	}
	return keys
}

func (r *record) dropApplication(id string, drops func(*si.Allocation) bool) {
	delete(r.applications, id)
	for key, one := range r.allocations {
		if key.application == id && drops(one.item) {
			delete(r.allocations, key)
		}
	}
}

// take passes a placement to the program, unless the program has it already or the ask is not recorded (any
// more). An error means that the program does not accept it.
func (r *record) take(p Placement, take func(*si.Allocation) error) error {
	key := allocationID{p.Application, p.Allocation}
	r.mu.Lock()
	known := r.allocations[key]
	if known == nil || known.item.GetNodeID() == p.Node {
		r.mu.Unlock()
		return nil
	}
	before := known.item
	placed := cloned(before)
	placed.NodeID = p.Node
	known.item, known.taken = placed, true
	r.mu.Unlock()
	err := take(cloned(placed))
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if known.item == placed {
			known.item, known.taken = before, false
		}
	}
	return err
}

// recording is a handler that records the scheduler's messages before the program receives them.
type recording struct {
	record  *record
	handler Handler
}

func (h recording) Nodes(m *si.NodeResponse) {
	h.record.mu.Lock()
	for _, one := range m.GetRejected() {
		if !isThere(one.GetReason()) {
			delete(h.record.nodes, one.GetNodeID())
		}
	}
	h.record.mu.Unlock()
	h.handler.Nodes(m)
}

// isThere reports whether an item was rejected because it exists. That happens if it was in the state and
// was also sent.
func isThere(reason string) bool {
	return strings.Contains(reason, "[R_NODE_EXISTS]") || strings.Contains(reason, "[R_APP_EXISTS]")
}

func (h recording) Applications(m *si.ApplicationResponse) {
	pending := func(one *si.Allocation) bool { return one.GetNodeID() == "" }
	h.record.mu.Lock()
	for _, one := range m.GetRejected() {
		if !isThere(one.GetReason()) {
			h.record.dropApplication(one.GetApplicationID(), pending)
		}
	}
	for _, one := range m.GetUpdated() {
		switch one.GetState() {
		case "Completed", "Failed", "Rejected", "Expired":
			h.record.dropApplication(one.GetApplicationID(), pending)
		}
	}
	h.record.mu.Unlock()
	h.handler.Applications(m)
}

func (h recording) Allocations(m *si.AllocationResponse) {
	h.record.mu.Lock()
	var fresh []*si.Allocation
	for _, one := range m.GetNew() {
		key := allocationID{one.GetApplicationID(), one.GetAllocationKey()}
		running := one
		if known := h.record.allocations[key]; known != nil {
			if known.taken && known.item.GetNodeID() == one.GetNodeID() {
				continue
			}
			known.taken = false
			running = known.item
		}
		running = cloned(running)
		running.NodeID = one.GetNodeID()
		put(h.record, h.record.allocations, key, running)
		fresh = append(fresh, one)
	}
	m.New = fresh
	for _, one := range m.GetRejectedAllocations() {
		key := allocationID{one.GetApplicationID(), one.GetAllocationKey()}
		if known := h.record.allocations[key]; known != nil && known.item.GetNodeID() == "" {
			delete(h.record.allocations, key)
		}
	}
	for _, one := range m.GetReleased() {
		key := allocationID{one.GetApplicationID(), one.GetAllocationKey()}
		known := h.record.allocations[key]
		if known == nil || confirms(one) && known.item.GetNodeID() != "" {
			// It runs until the program confirms that it has ended.
			continue
		}
		delete(h.record.allocations, key)
	}
	h.record.mu.Unlock()
	h.handler.Allocations(m)
}
