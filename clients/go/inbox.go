package monoceros

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// inbox hands what was heard to the program, one message at a time, in the order of each stream.
//
// A message counts as received when it is in the queue, which outlives streams, and is acknowledged
// when the program has dealt with it.
type inbox struct {
	handler Handler
	queue   chan heard

	mu       sync.Mutex
	received [kinds]uint64
	handled  [kinds]uint64
}

// heard is a message, or a mark that is closed when everything before it was dealt with. A message of
// the client itself has no number.
type heard struct {
	kind    kind
	seq     uint64
	message proto.Message
	mark    chan struct{}
}

func newInbox(handler Handler) *inbox {
	return &inbox{handler: handler, queue: make(chan heard, 256)}
}

// run hands on what comes until ctx ends.
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

func (i *inbox) handle(h heard) {
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
func (i *inbox) put(ctx context.Context, h heard) error {
	if h.seq != 0 && h.seq <= i.resume(h.kind) {
		return nil
	}
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

// resume is the number behind which a stream goes on.
func (i *inbox) resume(k kind) uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.received[k]
}

// acknowledged is the number up to which messages were dealt with.
func (i *inbox) acknowledged(k kind) uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handled[k]
}

// begin waits until everything of the session before was dealt with, and counts anew.
func (i *inbox) begin(ctx context.Context) error {
	mark := make(chan struct{})
	select {
	case i.queue <- heard{mark: mark}:
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
