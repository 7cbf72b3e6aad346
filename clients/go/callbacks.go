package monoceros

import (
	"context"
	"errors"

	si "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

// Callbacks are the program's functions for the callback stream, in addition to Handler (docs/callback.md).
// Every field is optional; the scheduler sends only messages for which a function is set.
//
// Predicate, Judge, Elsewhere, Preemption, View, Confirm, Take and Members are called one at a time, in the
// order of the scheduler's messages. Events, ContainerStates, and SaveConfig with StateDump are each called
// one at a time, too, while others run. A context ends with the stream, when the scheduler cancels the
// question, or when its time is over.
type Callbacks struct {
	// Predicate reports whether a request may run on a node, and if not, the reason.
	Predicate func(Question) (fits bool, reason string)
	// Judge is Predicate with all fields of an answer, for programs that need more than yes and no. Only one
	// of the two may be set.
	Judge func(context.Context, Question) Answer
	// Holds enables questions about places held for members of a gang whose requests have not arrived: such a
	// Question has a TaskGroup and no Allocation. Without Holds, such members may use every node with enough
	// capacity.
	Holds bool
	// Scope is what the answers depend on: nothing that changes (SCOPE_STATIC), allocations on the node
	// (SCOPE_NODE), or allocations on any node (SCOPE_TOPOLOGY, the default). The scheduler repeats a question
	// whose answer is outdated when it arrives.
	//
	// Without View, Confirm and Take, an answer of SCOPE_STATIC is valid as usual, and an answer of SCOPE_NODE
	// until an allocation is added to or removed from that node. For SCOPE_TOPOLOGY, the scheduler then cannot
	// know which placements an answer includes, so each placement invalidates all answers in flight.
	Scope mono.Scope
	// Elsewhere returns the topics, numbers of the program's own choice, that an answer depends on besides its
	// own node, and those that the request affects on other nodes. It is used if Scope is the topology.
	// Without it, and if it returns nil, all topics are assumed. It needs View, Confirm or Take, and is not
	// called with Judge, whose Answer has the same field.
	Elsewhere func(Question) *mono.Elsewhere
	// View follows the placements of the scheduler, so that answers include them.
	View View
	// Confirm reports whether the program can accept a placement: nil if it can. The scheduler waits for the
	// result before it sends the allocation to Handler (confirm_assume), for callback.cache_sync_timeout at
	// most. A refused placement is withdrawn, its request is placed again, and View.Assume is not called for
	// it. When a stream begins, existing placements of the scheduler are confirmed again.
	Confirm func(Placement) *Refusal
	// Take receives each allocation before the next question, so that answers include it; Handler does not
	// receive it in `new`. The allocation is the request with its node. An error is a Refusal. Take is for
	// programs that count running allocations as they receive them. It needs Config.Remember, which keeps the
	// request, and excludes Confirm.
	Take func(*si.Allocation) error
	// Members receives the places of the other members of a gang before the first question about one of them,
	// and again when members have moved.
	Members func(Bundle)

	// Preemption reports whether a request would fit on a node after allocations have left, before any of them
	// is preempted. Without it, every proposal of the scheduler is accepted. It is called only if predicates
	// are evaluated, so it needs Predicate or Judge.
	Preemption func(context.Context, Preemption) Eviction

	// Events receives events in order; dropped is the number of events lost before these because the program
	// was too slow. Hello.EventTypes selects the types.
	Events func(events []*si.EventRecord, dropped uint64)
	// ContainerStates receives the latest scheduling state of requests. The only state is FAILED: the quota
	// allows the request but no node has the capacity.
	ContainerStates func([]*si.UpdateContainerSchedulingStateRequest)
	// StateDump returns the program's own state for the state dump of the scheduler: JSON as text in
	// UTF-8.
	StateDump func(context.Context) ([]byte, error)
	// SaveConfig stores a configuration set by an operator, and returns the one that it replaces.
	SaveConfig func(context.Context, SavedConfig) (old string, err error)

	// Hello has options of the stream: the size and number of batches, the time limit of an answer, the
	// behaviour while no stream is attached, types and credit of events. Zero leaves an option to the
	// scheduler. The client fills in the identity, the capabilities, the event number to continue at, and
	// confirm_assume.
	Hello *mono.Hello
	// Welcome receives the agreed options each time the stream is opened.
	Welcome func(*mono.Welcome)
}

// Question is about one request and one node.
type Question struct {
	Application, Allocation, Node string
	// Allocate is false if allocations must leave the node first; such a question must not be counted.
	Allocate bool
	// Bundle is the number of the gang that is decided as a whole with the request, or zero.
	Bundle uint64
	// TaskGroup is the task group of a member whose request has not arrived (Callbacks.Holds); Allocation is
	// then nil.
	TaskGroup string
}

// Answer is the result of Judge for a request on a node.
type Answer struct {
	// Fits reports whether the request may run on the node. If not, Plugin and Reason say why; both may be
	// empty.
	Fits           bool
	Plugin, Reason string
	// Scope and Elsewhere apply to this answer; a zero Scope means that of Callbacks. Of several answers about
	// one request, those of the fitting one count, or of the last.
	Scope     mono.Scope
	Elsewhere *mono.Elsewhere
	// Outcome is zero for an answer. Any other value ends the questions about this request, and no node fits:
	// UNKNOWN_ALLOCATION (the program does not know the request), ERROR (the program failed; Reason has
	// details), SHED (the program is overloaded and wants to be asked later) or STALE (its view is too old).
	Outcome mono.Outcome
}

// View is the program's model of the allocations on nodes.
type View interface {
	// Assume counts an allocation as running on its node.
	Assume(Placement)
	// Forget removes an allocation from its node.
	Forget(Placement)
	// Reset lists all placements of the scheduler that the program itself has not reported. Any other assumed
	// placement does not exist.
	Reset([]Placement)
}

// Placement is an allocation on a node. Two applications may use the same name for an allocation. Node is
// empty in Forget.
type Placement struct{ Application, Allocation, Node string }

// Refusal is the reason why a placement is not confirmed.
type Refusal struct {
	Reason string
	// SameNode allows the scheduler to place the request on this node again. Otherwise it excludes the node
	// for five minutes.
	SameNode bool
}

// Bundle lists the intended places of members of a gang. A member that was reported before has moved.
type Bundle struct {
	ID          uint64
	Application string
	Places      []Place
	// Over is the number of a bundle whose places are void, or zero.
	Over uint64
}

// Place is the place of one member.
type Place struct {
	Member           uint32
	Allocation, Node string
	// TaskGroup is the task group of a member whose request has not arrived; Allocation is then empty.
	TaskGroup string
}

// Preemption asks whether a request fits on a node once victims have left it. At least the victims up to
// the index Start leave.
type Preemption struct {
	Allocation, Node string
	Victims          []string
	Start            int
}

// Eviction answers a Preemption.
type Eviction struct {
	// Fits is false if the request does not fit even without all victims.
	Fits bool
	// Last is the index of the last victim that has to leave, in the order of the question; -1 if none has to.
	Last int
}

// SavedConfig is a configuration that the program has to store.
type SavedConfig struct {
	// Config is the queue configuration in YAML, ExtraConfig are the other settings.
	Config      string
	ExtraConfig map[string]string
}

func (c *Callbacks) judges() bool { return c.Predicate != nil || c.Judge != nil }

func (c *Callbacks) confirms() bool { return c.Confirm != nil || c.Take != nil }

// check rejects combinations that would have no effect.
func (c *Callbacks) check() error {
	switch {
	case c.Predicate != nil && c.Judge != nil:
		return errors.New("monoceros: Callbacks.Predicate and Callbacks.Judge are both set: which one is to answer?")
	case c.Holds && !c.judges():
		return errors.New("monoceros: Callbacks.Holds has no effect without Predicate or Judge")
	case c.Members != nil && !c.judges():
		return errors.New("monoceros: Callbacks.Members has no effect without Predicate or Judge")
	case c.Preemption != nil && !c.judges():
		return errors.New("monoceros: Callbacks.Preemption has no effect without Predicate or Judge")
	case c.Scope != mono.Scope_SCOPE_UNSPECIFIED && !c.judges():
		return errors.New("monoceros: Callbacks.Scope has no effect without Predicate or Judge")
	case c.Elsewhere != nil && c.Predicate == nil:
		return errors.New("monoceros: Callbacks.Elsewhere has no effect without Predicate; an Answer of Judge has its own")
	case c.Take != nil && c.Confirm != nil:
		return errors.New("monoceros: Callbacks.Take and Callbacks.Confirm are both set: which one is to answer?")
	case c.Elsewhere != nil && c.View == nil && !c.confirms():
		return errors.New("monoceros: Callbacks.Elsewhere has no effect without View, Confirm or Take")
	}
	return nil
}

// hello returns the first message of the stream.
func (c *Callbacks) hello() *mono.Hello {
	hello := &mono.Hello{}
	if c.Hello != nil {
		hello = cloned(c.Hello)
	}
	hello.Capabilities = nil
	for _, one := range []struct {
		able       bool
		capability mono.Capability
	}{
		{c.judges(), mono.Capability_PREDICATES},
		{c.Holds, mono.Capability_HOLD_PREDICATES},
		{c.Preemption != nil, mono.Capability_PREEMPTION_PREDICATES},
		{c.View != nil || c.confirms(), mono.Capability_CACHE_SYNC},
		{c.Events != nil, mono.Capability_EVENTS},
		{c.ContainerStates != nil, mono.Capability_CONTAINER_STATES},
		{c.StateDump != nil, mono.Capability_STATE_DUMP},
		{c.SaveConfig != nil, mono.Capability_CONFIG_STORE},
	} {
		if one.able {
			hello.Capabilities = append(hello.Capabilities, one.capability)
		}
	}
	hello.ConfirmAssume = c.confirms()
	return hello
}
