package monoceros

import (
	"context"
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
	// batchItems is how many items one request may have.
	batchItems = 1000
	// batchWait is how long an item waits for others.
	batchWait = time.Millisecond
	// aheadItems is how many items are sent and not known to be taken: less than the scheduler holds
	// while an earlier request is missing (session.ingress_items).
	aheadItems = 16384
)

// item is one thing to say. Those of one request take effect in the order of their stages, and
// those of one application together; so an item never joins a request that has one of a later stage,
// and what is there is never in one request with what is wanted, which might get its room.
type item struct {
	kind  kind
	stage int
	add   func(proto.Message)
}

func nodeItem(node *si.NodeInfo) item {
	return item{nodes, 0, func(m proto.Message) {
		r := m.(*si.NodeRequest)
		r.Nodes = append(r.Nodes, node)
	}}
}

func applicationItem(application *si.AddApplicationRequest) item {
	return item{applications, 0, func(m proto.Message) {
		r := m.(*si.ApplicationRequest)
		r.New = append(r.New, application)
	}}
}

func removalItem(removal *si.RemoveApplicationRequest) item {
	return item{applications, 1, func(m proto.Message) {
		r := m.(*si.ApplicationRequest)
		r.Remove = append(r.Remove, removal)
	}}
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
	return item{allocations, stage, func(m proto.Message) {
		r := m.(*si.AllocationRequest)
		r.Allocations = append(r.Allocations, allocation)
	}}
}

func releaseItem(release *si.AllocationRelease) item {
	return item{allocations, released, func(m proto.Message) {
		r := m.(*si.AllocationRequest)
		if r.Releases == nil {
			r.Releases = &si.AllocationReleasesRequest{}
		}
		r.Releases.AllocationsToRelease = append(r.Releases.AllocationsToRelease, release)
	}}
}

// request is one message, with its number once it has one.
type request struct {
	kind    kind
	number  uint64
	message proto.Message
	items   int
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

// takes adds an item, if it may join.
func (r *request) takes(it item) bool {
	if r.kind != it.kind || it.stage < r.stage || r.items == batchItems {
		return false
	}
	if r.kind == allocations && r.items > 0 && (r.stage == there) != (it.stage == there) {
		return false
	}
	it.add(r.message)
	r.items++
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
	mu      sync.Mutex
	limit   int
	taken   uint64
	sent    []*request
	pending []*request
	// waiting counts the items in pending, ahead those in sent.
	waiting, ahead int
	// open is set while everything is told anew: then nobody waits for room.
	open bool
	// ended says why nothing is sent any more.
	ended error
	// ready has something when there may be more to send; changed is closed when waiters look again.
	ready   chan struct{}
	changed chan struct{}
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, ready: make(chan struct{}, 1), changed: make(chan struct{})}
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
	o.waiting++
	if n := len(o.pending); n > 0 && o.pending[n-1].takes(it) {
		return
	}
	r := newRequest(it.kind, now)
	r.takes(it)
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
	if o.ahead > 0 && o.ahead+r.items > aheadItems {
		return nil, 0
	}
	if wait := r.due.Sub(now); wait > 0 && len(o.pending) == 1 && r.items < batchItems {
		return nil, wait
	}
	o.pending[0] = nil
	o.pending = o.pending[1:]
	full := o.waiting >= o.limit
	o.waiting -= r.items
	o.ahead += r.items
	r.setNumber(o.last() + 1)
	o.sent = append(o.sent, r)
	if full {
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
	o.taken, o.sent, o.pending, o.waiting, o.ahead, o.open = 0, nil, nil, 0, 0, true
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
