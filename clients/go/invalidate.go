package monoceros

import (
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	mono "monoceros.io/clients/go/v1"
)

// Invalidation names requests and nodes whose earlier refusals may be outdated.
type Invalidation struct {
	// Nodes are nodes on which requests may fit now.
	Nodes []string
	// Allocations are keys of requests that may fit now.
	Allocations []string
	// All means every request on every node.
	All bool
}

// Invalidate makes the scheduler retry requests that Predicate or Judge has refused. It returns at once:
// the invalidation is sent when a stream is open, joined with earlier ones that are not sent yet. More than
// a mebibyte of names counts as All. If the connection breaks after an invalidation was sent, the next
// stream invalidates everything, because the client cannot know whether it arrived.
func (c *Client) Invalidate(what Invalidation) error {
	if c.config.Callbacks == nil || !c.config.Callbacks.judges() {
		return errors.New("monoceros: Invalidate has no effect without Callbacks.Predicate or Callbacks.Judge")
	}
	if !what.All && len(what.Nodes) == 0 && len(what.Allocations) == 0 {
		return errors.New("monoceros: Invalidate names neither nodes nor allocations, nor All")
	}
	if err := c.life.hasEnded(); err != nil {
		return err
	}
	c.invalidations.add(what)
	return nil
}

// invalidations are the unsent invalidations, joined in one message.
type invalidations struct {
	mu      sync.Mutex
	pending *mono.Invalidate
	// sent is set when the present stream has carried an invalidation.
	sent bool
	// ready holds a token while there may be a message to send.
	ready chan struct{}
}

func newInvalidations() *invalidations { return &invalidations{ready: make(chan struct{}, 1)} }

func (i *invalidations) add(what Invalidation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending == nil {
		i.pending = &mono.Invalidate{}
	}
	p := i.pending
	p.All = p.All || what.All
	if !p.All {
		for _, node := range what.Nodes {
			p.NodeIds = append(p.NodeIds, validText(node))
		}
		for _, key := range what.Allocations {
			p.AllocationKeys = append(p.AllocationKeys, validText(key))
		}
	}
	if p.All || proto.Size(p) > batchBytes {
		i.pending = &mono.Invalidate{All: true}
	}
	i.wake()
}

// wake wakes the sender; i.mu is held.
func (i *invalidations) wake() {
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// opened records that a stream begins, of the present session or of a new one.
func (i *invalidations) opened() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sent {
		i.pending, i.sent = &mono.Invalidate{All: true}, false
	}
	if i.pending != nil {
		i.wake()
	}
}

// take returns the message to send, or nil if there is none.
func (i *invalidations) take() *mono.Invalidate {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending
	i.pending = nil
	i.sent = i.sent || taken != nil
	return taken
}
