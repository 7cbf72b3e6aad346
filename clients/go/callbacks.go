package monoceros

import (
	"context"
	"errors"

	si "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

// Callbacks is what the scheduler may ask the program and report to it, in addition to what Handler
// receives (docs/callback.md). Every field is optional, and the scheduler asks and reports only what
// has a function here.
//
// Predicate, Judge, Elsewhere, Preemption, View, Confirm, Take and Members are called one at a time, in the
// order in which the scheduler has sent what they are about. Events, ContainerStates, and SaveConfig
// with StateDump are each called one at a time, too, while others run. A context ends with the stream,
// and where the scheduler does not want the answer any more or does not wait longer.
type Callbacks struct {
	// Predicate says whether a request may run on a node, and if not, why.
	Predicate func(Question) (fits bool, reason string)
	// Judge is Predicate with all that an answer can say, for programs that need more than yes and no.
	// Only one of the two may be set.
	Judge func(context.Context, Question) Answer
	// Holds lets Predicate or Judge be asked about places that are held for members of a gang whose
	// requests have not come yet: a Question then has a TaskGroup and no Allocation. Without it every
	// node with room will do for these.
	Holds bool
	// Scope is what the answers depend on: on nothing that changes (SCOPE_STATIC), on what runs on the
	// node (SCOPE_NODE), or on what runs anywhere (SCOPE_TOPOLOGY, and if it is not set). An answer that
	// does not hold any more when it arrives is asked for again.
	//
	// Without a View, Confirm or Take an answer of SCOPE_STATIC holds as with one of these, and an answer
	// of SCOPE_NODE until something comes to that node or leaves it. Others cannot hold then, since the
	// scheduler does not know of which placements the program knew when it answered: each placement makes
	// all of them void that are under way.
	Scope mono.Scope
	// Elsewhere says which topics, numbers of the program's own choice, an answer depends on besides
	// its own node, and which the request affects on other nodes. It counts where Scope is the topology.
	// Without it, and where it returns nil, that is everything. It needs View, Confirm or Take, and is not
	// called with Judge, whose Answer has it.
	Elsewhere func(Question) *mono.Elsewhere
	// View follows what the scheduler places, so that answers are about the cluster as it will be.
	View View
	// Confirm says whether the program can take a placement: nil if it can. The scheduler waits for that
	// before it sends the allocation to Handler (confirm_assume), for callback.cache_sync_timeout at
	// most. A placement that is refused is undone, its request is placed again, and View.Assume is not
	// called for it. When a stream begins, what the scheduler has placed before is confirmed again.
	Confirm func(Placement) *Refusal
	// Take receives each allocation before the next question is asked, so that answers know it, and
	// Handler does not receive it in `new`. The allocation is the request, with its node. An error is a
	// Refusal. It is for programs that count what runs as they receive it; it needs Config.Remember, for
	// the request, and excludes Confirm.
	Take func(*si.Allocation) error
	// Members is called with the places of the other members of a gang before the first question about
	// one of them, and again when members have moved.
	Members func(Bundle)

	// Preemption says whether a request fits on a node once allocations have left, before any of them is
	// preempted. Without it every proposal of the scheduler is taken to fit. It is only called where
	// predicates are asked, so it needs Predicate or Judge.
	Preemption func(context.Context, Preemption) Eviction

	// Events receives what happened, in order; dropped counts those that were lost before, because the
	// program took them too slowly. Hello.EventTypes chooses which.
	Events func(events []*si.EventRecord, dropped uint64)
	// ContainerStates receives the state of requests, of each the latest. The only one is FAILED: the
	// quota has room and no node has.
	ContainerStates func([]*si.UpdateContainerSchedulingStateRequest)
	// StateDump returns the program's own state for the state dump of the scheduler: JSON as text in
	// UTF-8.
	StateDump func(context.Context) ([]byte, error)
	// SaveConfig keeps a configuration that an operator has set, and returns the one that it replaces.
	SaveConfig func(context.Context, SavedConfig) (old string, err error)

	// Hello has wishes for the stream: how large batches may be and how many at a time, how long an
	// answer may take, what holds while nobody is attached, which events, with how much credit. Zero
	// leaves a wish to the scheduler. The client itself fills in who it is, the capabilities, where
	// events go on, and confirm_assume.
	Hello *mono.Hello
	// Welcome is called with what was agreed, each time the stream is opened.
	Welcome func(*mono.Welcome)
}

// Question is about one request and one node.
type Question struct {
	Application, Allocation, Node string
	// Allocate is false where something has to leave the node first, which is not to be counted.
	Allocate bool
	// Bundle is the gang that is decided with it as a whole, or zero.
	Bundle uint64
	// TaskGroup is that of a member whose request has not come yet (Callbacks.Holds); then there is no
	// Allocation.
	TaskGroup string
}

// Answer is what Judge says of a request on a node.
type Answer struct {
	// Fits says whether the request may run there. Plugin and Reason say why not; both may be empty.
	Fits           bool
	Plugin, Reason string
	// Scope and Elsewhere are those of this answer; a zero Scope is that of Callbacks. Of the answers
	// about one request the one counts that fits, or the last.
	Scope     mono.Scope
	Elsewhere *mono.Elsewhere
	// Outcome is zero for an answer. Else no more nodes are asked about for this request, and none fits:
	// UNKNOWN_ALLOCATION (there is no such request), ERROR (the program failed; Reason says how), SHED
	// (the program has too much to do and wants to be asked later) or STALE (its view is too old).
	Outcome mono.Outcome
}

// View is how the program sees what runs where.
type View interface {
	// Assume counts an allocation as running on its node.
	Assume(Placement)
	// Forget counts it no more.
	Forget(Placement)
	// Reset lists all that the scheduler has placed and the program itself has not reported: what else
	// is assumed is not there.
	Reset([]Placement)
}

// Placement is an allocation on a node. Two applications may use the same name for an allocation.
// Node is empty in what is to be forgotten.
type Placement struct{ Application, Allocation, Node string }

// Refusal says why a placement is not confirmed.
type Refusal struct {
	Reason string
	// SameNode says that the request may be placed on this node again. Otherwise the scheduler does not
	// do so for five minutes.
	SameNode bool
}

// Bundle says where members of a gang are to be; a member that was reported before has moved.
type Bundle struct {
	ID          uint64
	Application string
	Places      []Place
	// Over is a bundle whose places are void, or zero.
	Over uint64
}

// Place is that of one member.
type Place struct {
	Member           uint32
	Allocation, Node string
	// TaskGroup is that of a member whose request has not come yet; then there is no Allocation.
	TaskGroup string
}

// Preemption asks whether a request fits on a node once victims have left it. All up to the index Start
// leave at least.
type Preemption struct {
	Allocation, Node string
	Victims          []string
	Start            int
}

// Eviction answers a Preemption.
type Eviction struct {
	// Fits is false if the request does not fit whichever of the victims leave.
	Fits bool
	// Last is the index of the last victim that has to leave, in the order of the question; -1 if none
	// has to.
	Last int
}

// SavedConfig is a configuration that the program is to keep.
type SavedConfig struct {
	// Config is the queue configuration in YAML, ExtraConfig the settings beside it.
	Config      string
	ExtraConfig map[string]string
}

func (c *Callbacks) judges() bool { return c.Predicate != nil || c.Judge != nil }

func (c *Callbacks) confirms() bool { return c.Confirm != nil || c.Take != nil }

// check refuses what would have no effect.
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

// hello is what opens the stream.
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
