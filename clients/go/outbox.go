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
	// batchItems is the most items in one request, including the allocations of its nodes, and batchBytes the
	// most bytes. A single item may have more.
	batchItems = 1000
	batchBytes = 1 << 20
	// batchWait is how long an item waits for others to be joined with.
	batchWait = time.Millisecond
	// aheadItems is the most items sent and not acknowledged: fewer than the scheduler holds while an earlier
	// request is missing (one item per 4 KiB of session.ingress_bytes).
	aheadItems = 16384
	// aheadBytes is the same in bytes: less than session.ingress_bytes.
	aheadBytes = 64 << 20
	// itemOverhead bounds the bytes of an item in a request beyond its own, and requestOverhead those of the
	// request itself.
	itemOverhead    = 24
	requestOverhead = 64
)

// item is one unit to send. The scheduler applies the items of one request by stage, and those of one
// application together. So an item never joins a request that has one of a later stage. Existing
// allocations and asks are never in one request, because an ask could get the capacity of the former.
type item struct {
	kind  kind
	stage int
	// message is the item itself; bytes is its size in a request.
	message proto.Message
	bytes   int
	// broken is the error why the item cannot be written.
	broken error
	// items is one, plus one for each allocation of a node, since the scheduler counts those, too.
	items int
	add   func(proto.Message)
}

// buffers are reused to encode items, which finds their size and whether they can be written.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func newItem(k kind, stage int, message proto.Message, add func(proto.Message)) item {
	buffer := buffers.Get().(*[]byte)
	bytes, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], message)
	size := len(bytes) + itemOverhead
	// A large buffer is not kept for the small items that follow.
	if cap(bytes) <= batchBytes {
		*buffer = bytes
		buffers.Put(buffer)
	}
	return item{kind: k, stage: stage, message: message, bytes: size, broken: err, items: 1, add: add}
}

// check returns an ItemError if the item is too large for a message of most bytes, or cannot be written.
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
	// due is when the request is sent, full or not.
	due time.Time
	// over is set when the request was acknowledged or dropped.
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

// outbox holds the program's requests until the scheduler acknowledges them.
//
// Requests have one order over all streams. A request gets its number when it is first sent, and the number
// never changes. After a break, all requests after the last acknowledged one are sent again. Requests are
// in sent (numbered taken+1 and on, without a gap), then in pending; the last pending one takes further
// items while it is not due.
type outbox struct {
	mu    sync.Mutex
	limit int
	// batch is the most bytes of a request with several items.
	batch   int
	taken   uint64
	sent    []*request
	pending []*request
	// waiting is the number of items in pending, ahead the number in sent, aheadSize the bytes of those.
	waiting, ahead, aheadSize int
	// open is set while the full state is being queued: then no call blocks.
	open bool
	// ended is set once nothing is sent any more, and is the reason.
	ended error
	// ready holds a token while there may be a request to send; changed is closed to wake waiters.
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

// broadcast wakes waiters; o.mu is held.
func (o *outbox) broadcast() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// wait blocks until done, which is called with o.mu held, returns true.
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

// end stops the outbox and wakes all waiters, which return err.
func (o *outbox) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = err
	o.broadcast()
}

// add queues an item. It blocks while too many are queued.
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

// next returns the request after number after, as soon as it exists and is due; nil if there is none by
// until.
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

// poll returns the request after number after, or the time until there may be one; zero if that is unknown.
func (o *outbox) poll(after uint64, now time.Time) (*request, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// Requests acknowledged meanwhile need not be sent.
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

// last returns the number of the newest request.
func (o *outbox) last() uint64 { return o.taken + uint64(len(o.sent)) }

// known returns the number of the last acknowledged request.
func (o *outbox) known() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
}

// took records that requests up to number are acknowledged. It returns false for a number that was never
// used.
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

// flushed waits until all items added before are acknowledged, or a new session begins.
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

// forget drops requests that are not to be sent again.
func forget(requests []*request) {
	for at, r := range requests {
		r.over = true
		requests[at] = nil
	}
}

// begin drops all requests. Calls do not block until proceed.
func (o *outbox) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	forget(o.sent)
	forget(o.pending)
	o.taken, o.sent, o.pending, o.open = 0, nil, nil, true
	o.waiting, o.ahead, o.aheadSize = 0, 0, 0
	o.broadcast()
}

// attach continues the numbers of another instance, in place of begin. No request was sent before.
func (o *outbox) attach(taken uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = taken
}

// proceed puts these items before those added since begin.
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
