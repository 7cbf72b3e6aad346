package monoceros

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// inbox passes received messages to the program, one at a time, in the order of each stream.
//
// A message counts as received when it is in the queue, which outlives streams. It is acknowledged when the
// program has handled it.
type inbox struct {
	handler Handler
	queue   chan delivery

	mu       sync.Mutex
	received [kinds]uint64
	handled  [kinds]uint64
	// dropped counts the calls of drop.
	dropped uint64
}

// delivery is a message, or a mark that is closed when everything before it was handled. A message made by
// the client itself has no number.
type delivery struct {
	// dropped is the count of the inbox when the message was queued.
	dropped uint64
	kind    kind
	seq     uint64
	message proto.Message
	mark    chan struct{}
}

func newInbox(handler Handler) *inbox {
	return &inbox{handler: handler, queue: make(chan delivery, 256)}
}

// run passes messages to the handler until ctx ends.
func (i *inbox) run(ctx context.Context) {
	for {
		select {
		case h := <-i.queue:
			i.handle(h)
		case <-ctx.Done():
			return
		}
	}
}

func (i *inbox) handle(h delivery) {
	if h.mark == nil && h.dropped != i.drops() {
		return
	}
	switch m := h.message.(type) {
	case *si.NodeResponse:
		i.handler.Nodes(m)
	case *si.ApplicationResponse:
		i.handler.Applications(m)
	case *si.AllocationResponse:
		i.handler.Allocations(m)
	default:
		close(h.mark)
		return
	}
	if h.seq == 0 {
		return
	}
	i.mu.Lock()
	i.handled[h.kind] = h.seq
	i.mu.Unlock()
}

// put queues a message, unless it was received before.
func (i *inbox) put(ctx context.Context, h delivery) error {
	if h.seq != 0 && h.seq <= i.resume(h.kind) {
		return nil
	}
	h.dropped = i.drops()
	select {
	case i.queue <- h:
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.seq == 0 {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.received[h.kind] = h.seq
	return nil
}

// resume returns the number of the last received message, after which a stream continues.
func (i *inbox) resume(k kind) uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.received[k]
}

// acknowledged returns the number up to which messages were handled.
func (i *inbox) acknowledged(k kind) uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handled[k]
}

// drop makes the queued messages ineffective: the program does not receive them.
func (i *inbox) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.dropped++
}

func (i *inbox) drops() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.dropped
}

// begin waits until the program has handled what it has of the earlier session, and restarts the numbers.
func (i *inbox) begin(ctx context.Context) error {
	mark := make(chan struct{})
	select {
	case i.queue <- delivery{mark: mark}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-mark:
	case <-ctx.Done():
		return ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.received, i.handled = [kinds]uint64{}, [kinds]uint64{}
	return nil
}
