package monoceros

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// kind is one of the three streams of a session.
type kind int

const (
	nodes kind = iota
	applications
	allocations
	kinds
)

func (k kind) String() string { return [kinds]string{"node", "application", "allocation"}[k] }

const (
	// batchItems is how many items one request may have, the allocations of its nodes included, and
	// batchBytes how many bytes. A single item may have more.
	batchItems = 1000
	batchBytes = 1 << 20
	// batchWait is how long an item waits for others.
	batchWait = time.Millisecond
	// aheadItems is how many items are sent and not known to be taken: less than the scheduler holds
	// while an earlier request is missing (one item per 4 KiB of session.ingress_bytes).
	aheadItems = 16384
	// aheadBytes bounds the same in bytes: less than session.ingress_bytes.
	aheadBytes = 64 << 20
	// itemOverhead is what an item takes in a request beside its own bytes, and requestOverhead what the
	// request itself takes, at most.
	itemOverhead    = 24
	requestOverhead = 64
)

// item is one thing to say. Those of one request take effect in the order of their stages, and
// those of one application together; so an item never joins a request that has one of a later stage,
// and what is there is never in one request with what is wanted, which might get its room.
type item struct {
	kind  kind
	stage int
	// message is the item itself, of which bytes is the size in a request.
	message proto.Message
	bytes   int
	// broken says why the item cannot be written.
	broken error
	// items is one, and one more for each allocation of a node, since the scheduler counts these, too.
	items int
	add   func(proto.Message)
}

// buffers are those in which items are written to see how large they are and that they can be.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func newItem(k kind, stage int, message proto.Message, add func(proto.Message)) item {
	buffer := buffers.Get().(*[]byte)
	bytes, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], message)
	size := len(bytes) + itemOverhead
	// A large one is not kept for the small ones that follow.
	if cap(bytes) <= batchBytes {
		*buffer = bytes
		buffers.Put(buffer)
	}
	return item{kind: k, stage: stage, message: message, bytes: size, broken: err, items: 1, add: add}
}

// check returns an ItemError if the item cannot be sent in a message of so many bytes.
func (it item) check(most int) error {
	if it.broken != nil {
		return &ItemError{nameOf(it.message), fmt.Errorf("%w: %w", ErrUnwritable, it.broken)}
	}
	if size := it.bytes + requestOverhead; size > most {
		return &ItemError{nameOf(it.message), fmt.Errorf(
			"%w: a request with it has %d bytes, and may have %d (Config.MaxMessage)", ErrTooLarge, size, most)}
	}
	return nil
}

func nodeItem(node *si.NodeInfo) item {
	it := newItem(nodes, 0, node, func(m proto.Message) {
		r := m.(*si.NodeRequest)
		r.Nodes = append(r.Nodes, node)
	})
	it.items += len(node.GetExistingAllocations())
	return it
}

func applicationItem(application *si.AddApplicationRequest) item {
	return newItem(applications, 0, application, func(m proto.Message) {
		r := m.(*si.ApplicationRequest)
		r.New = append(r.New, application)
	})
}

func removalItem(removal *si.RemoveApplicationRequest) item {
	return newItem(applications, 1, removal, func(m proto.Message) {
		r := m.(*si.ApplicationRequest)
		r.Remove = append(r.Remove, removal)
	})
}

// Stages of allocations.
const (
	there = iota
	wanted
	released
)

func allocationItem(allocation *si.Allocation) item {
	stage := wanted
	if allocation.GetNodeID() != "" {
		stage = there
	}
	return newItem(allocations, stage, allocation, func(m proto.Message) {
		r := m.(*si.AllocationRequest)
		r.Allocations = append(r.Allocations, allocation)
	})
}

func releaseItem(release *si.AllocationRelease) item {
	return newItem(allocations, released, release, func(m proto.Message) {
		r := m.(*si.AllocationRequest)
		if r.Releases == nil {
			r.Releases = &si.AllocationReleasesRequest{}
		}
		r.Releases.AllocationsToRelease = append(r.Releases.AllocationsToRelease, release)
	})
}

// request is one message, with its number once it has one.
type request struct {
	kind    kind
	number  uint64
	message proto.Message
	items   int
	bytes   int
	stage   int
	// due is when it leaves, full or not.
	due time.Time
	// over is set when it was taken or forgotten.
	over bool
}

func newRequest(k kind, now time.Time) *request {
	messages := [kinds]proto.Message{
		&si.NodeRequest{}, &si.ApplicationRequest{}, &si.AllocationRequest{},
	}
	return &request{kind: k, message: messages[k], due: now.Add(batchWait)}
}

// takes adds an item, if it may join. The first item always may.
func (r *request) takes(it item, most int) bool {
	if r.items > 0 {
		if r.kind != it.kind || it.stage < r.stage {
			return false
		}
		if r.items+it.items > batchItems || r.bytes+it.bytes > most {
			return false
		}
		if r.kind == allocations && (r.stage == there) != (it.stage == there) {
			return false
		}
	}
	it.add(r.message)
	r.items += it.items
	r.bytes += it.bytes
	r.stage = it.stage
	return true
}

func (r *request) setNumber(number uint64) {
	r.number = number
	switch m := r.message.(type) {
	case *si.NodeRequest:
		m.ClientSeq = number
	case *si.ApplicationRequest:
		m.ClientSeq = number
	case *si.AllocationRequest:
		m.ClientSeq = number
	}
}

// outbox holds what the program has said until the scheduler has taken it.
//
// Requests have one order over all streams. The number of a request is given when it is sent first,
// and never changes; after a break everything behind the last one that was taken is sent again.
// Requests are in sent (numbered taken+1 and on, without a gap), then in pending; the last pending
// one takes further items while it is not due.
type outbox struct {
	mu    sync.Mutex
	limit int
	// batch is how many bytes a request of several items may have.
	batch   int
	taken   uint64
	sent    []*request
	pending []*request
	// waiting counts the items in pending, ahead those in sent, and aheadSize their bytes.
	waiting, ahead, aheadSize int
	// open is set while everything is told anew: then nobody waits for room.
	open bool
	// ended says why nothing is sent any more.
	ended error
	// ready has something when there may be more to send; changed is closed when waiters look again.
	ready   chan struct{}
	changed chan struct{}
}

func newOutbox(limit, batch int) *outbox {
	return &outbox{limit: limit, batch: batch, ready: make(chan struct{}, 1), changed: make(chan struct{})}
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// broadcast lets waiters look again; o.mu is held.
func (o *outbox) broadcast() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// wait returns once done, which is called with o.mu held, is true.
func (o *outbox) wait(ctx context.Context, done func() bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if o.ended != nil {
			return o.ended
		}
		if done() {
			return nil
		}
		changed := o.changed
		o.mu.Unlock()
		select {
		case <-changed:
			o.mu.Lock()
		case <-ctx.Done():
			o.mu.Lock()
			return ctx.Err()
		}
	}
}

// end lets everybody know that nothing is sent any more.
func (o *outbox) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = err
	o.broadcast()
}

// add queues an item; it waits while too many are waiting to be sent.
func (o *outbox) add(ctx context.Context, it item) error {
	err := o.wait(ctx, func() bool {
		if o.waiting >= o.limit && !o.open {
			return false
		}
		o.append(it, time.Now())
		return true
	})
	if err == nil {
		o.wake()
	}
	return err
}

func (o *outbox) append(it item, now time.Time) {
	o.waiting += it.items
	if n := len(o.pending); n > 0 && o.pending[n-1].takes(it, o.batch) {
		return
	}
	r := newRequest(it.kind, now)
	r.takes(it, o.batch)
	o.pending = append(o.pending, r)
}

// next returns the request behind the one numbered after, as soon as there is one and it is due;
// nothing if there is none by a time.
func (o *outbox) next(ctx context.Context, after uint64, until time.Time) (*request, error) {
	for {
		now := time.Now()
		r, wait := o.poll(after, now)
		if r != nil || !now.Before(until) {
			return r, nil
		}
		left := until.Sub(now)
		if wait > 0 {
			left = min(left, wait)
		}
		timer := time.NewTimer(left)
		select {
		case <-o.ready:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// poll returns the request behind the one numbered after, or in how long there will be one; zero
// if nobody knows.
func (o *outbox) poll(after uint64, now time.Time) (*request, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// What was taken meanwhile need not be sent.
	after = max(after, o.taken)
	if at := after - o.taken; at < uint64(len(o.sent)) {
		return o.sent[at], 0
	}
	if len(o.pending) == 0 {
		return nil, 0
	}
	r := o.pending[0]
	if o.ahead > 0 && (o.ahead+r.items > aheadItems || o.aheadSize+r.bytes > aheadBytes) {
		return nil, 0
	}
	full := r.items >= batchItems || r.bytes >= o.batch
	if wait := r.due.Sub(now); wait > 0 && len(o.pending) == 1 && !full {
		return nil, wait
	}
	o.pending[0] = nil
	o.pending = o.pending[1:]
	crowded := o.waiting >= o.limit
	o.waiting -= r.items
	o.ahead += r.items
	o.aheadSize += r.bytes
	r.setNumber(o.last() + 1)
	o.sent = append(o.sent, r)
	if crowded {
		o.broadcast()
	}
	return r, 0
}

// last is the newest number that was given.
func (o *outbox) last() uint64 { return o.taken + uint64(len(o.sent)) }

// known is the newest number that is known to be taken.
func (o *outbox) known() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
}

// took notes that everything up to a number was taken. It is false for a number that nobody gave.
func (o *outbox) took(number uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if number > o.last() {
		return false
	}
	if number > o.taken {
		n := int(number - o.taken)
		for _, r := range o.sent[:n] {
			o.ahead -= r.items
			o.aheadSize -= r.bytes
		}
		forget(o.sent[:n])
		o.sent = o.sent[n:]
		o.taken = number
		o.broadcast()
		o.wake()
	}
	return true
}

// flushed waits until everything that was added so far was taken, or the session was begun anew.
func (o *outbox) flushed(ctx context.Context) error {
	var last *request
	o.mu.Lock()
	if n := len(o.pending); n > 0 {
		last = o.pending[n-1]
	} else if n := len(o.sent); n > 0 {
		last = o.sent[n-1]
	}
	o.mu.Unlock()
	if last == nil {
		return nil
	}
	return o.wait(ctx, func() bool { return last.over })
}

// forget lets go of requests that are not to be sent again.
func forget(requests []*request) {
	for at, r := range requests {
		r.over = true
		requests[at] = nil
	}
}

// begin forgets everything. Nobody waits for room until proceed.
func (o *outbox) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	forget(o.sent)
	forget(o.pending)
	o.taken, o.sent, o.pending, o.open = 0, nil, nil, true
	o.waiting, o.ahead, o.aheadSize = 0, 0, 0
	o.broadcast()
}

// attach goes on with the numbers of another instance, in place of begin. Nothing was sent before.
func (o *outbox) attach(taken uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = taken
}

// proceed puts these items before whatever was added since begin.
func (o *outbox) proceed(first []item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	later := o.pending
	o.pending = nil
	now := time.Now()
	for _, it := range first {
		o.append(it, now)
	}
	o.pending = append(o.pending, later...)
	o.open = false
	o.broadcast()
}
