package monoceros

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

func ask(key string) *si.Allocation { return &si.Allocation{AllocationKey: key} }

func gone(key string) *si.AllocationRelease { return &si.AllocationRelease{AllocationKey: key} }

func mustAdd(t *testing.T, o *outbox, items ...item) {
	t.Helper()
	for _, it := range items {
		if err := o.add(during(t), it); err != nil {
			t.Fatal(err)
		}
	}
}

func later() time.Time { return time.Now().Add(time.Hour) }

func TestItemsJoinIfTheirOrderAllowsIt(t *testing.T) {
	o := newOutbox(1<<20, batchBytes)
	mustAdd(t, o, allocationItem(ask("a")), allocationItem(ask("b")), releaseItem(gone("a")),
		// Asks of a request take effect before its releases.
		allocationItem(ask("a")),
		applicationItem(&si.AddApplicationRequest{ApplicationID: "x"}),
		allocationItem(ask("c")))
	for at, expected := range []string{"[a b] 1", "[a] 0", "application", "[c] 0"} {
		r, _ := o.poll(uint64(at), later())
		if r == nil || r.number != uint64(at+1) {
			t.Fatalf("request %d is %+v", at+1, r)
		}
		seen := r.kind.String()
		if m, ok := r.message.(*si.AllocationRequest); ok {
			keys := []string{}
			for _, one := range m.Allocations {
				keys = append(keys, one.AllocationKey)
			}
			seen = fmt.Sprint(keys, len(m.Releases.GetAllocationsToRelease()))
			if m.ClientSeq != r.number {
				t.Errorf("request %d says %d", r.number, m.ClientSeq)
			}
		}
		if seen != expected {
			t.Errorf("request %d: %s, expected %s", at+1, seen, expected)
		}
	}
}

func TestARequestIsSentWhenFullOrDue(t *testing.T) {
	o := newOutbox(1<<20, batchBytes)
	for n := 0; n <= batchItems; n++ {
		mustAdd(t, o, allocationItem(ask("a")))
	}
	now := o.pending[1].due.Add(-batchWait)
	if r, _ := o.poll(0, now); r == nil || r.items != batchItems {
		t.Fatalf("%+v", r)
	}
	if r, wait := o.poll(1, now); r != nil || wait != batchWait {
		t.Fatalf("%+v after %v", r, wait)
	}
	if r, _ := o.poll(1, now.Add(batchWait)); r == nil || r.items != 1 {
		t.Fatalf("%+v", r)
	}
}

func TestUnacknowledgedRequestsAreResentWithTheirNumber(t *testing.T) {
	o := newOutbox(1<<20, batchBytes)
	for k := 0; k < 4; k++ {
		mustAdd(t, o, allocationItem(ask(fmt.Sprint(k))), nodeItem(&si.NodeInfo{}))
	}
	var sent []*request
	for at := uint64(0); at < 8; at++ {
		r, _ := o.poll(at, later())
		sent = append(sent, r)
	}
	if !o.took(3) || !o.took(2) || o.known() != 3 {
		t.Fatal("three are taken")
	}
	for at := uint64(3); at < 8; at++ {
		if r, _ := o.poll(at, later()); r != sent[at] || r.number != at+1 {
			t.Errorf("%+v is not number %d", r, at+1)
		}
	}
	if r, _ := o.poll(1, later()); r != sent[3] {
		t.Errorf("%+v was taken already", r)
	}
	if o.took(9) {
		t.Error("nine was never given")
	}
}

func TestCallsBlockWhileTheOutboxIsFull(t *testing.T) {
	o := newOutbox(2, batchBytes)
	mustAdd(t, o, allocationItem(ask("a")), allocationItem(ask("b")))
	given, cancel := context.WithCancel(during(t))
	cancel()
	if err := o.add(given, allocationItem(ask("c"))); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	added := make(chan error)
	go func() { added <- o.add(during(t), allocationItem(ask("c"))) }()
	if r, _ := o.poll(0, later()); r == nil || r.items != 2 {
		t.Fatalf("%+v", r)
	}
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	flushed := make(chan error)
	go func() { flushed <- o.flushed(during(t)) }()
	o.poll(1, later())
	o.took(1)
	select {
	case <-flushed:
		t.Fatal("the second was not taken")
	case <-time.After(10 * time.Millisecond):
	}
	o.took(2)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
}

func TestNoCallBlocksAfterTheEnd(t *testing.T) {
	o := newOutbox(1, batchBytes)
	mustAdd(t, o, allocationItem(ask("a")))
	ends := make(chan error)
	go func() { ends <- o.add(during(t), allocationItem(ask("b"))) }()
	go func() { ends <- o.flushed(during(t)) }()
	o.end(errNumbers)
	for n := 0; n < 2; n++ {
		if err := <-ends; err != errNumbers {
			t.Error(err)
		}
	}
}

func TestANewSessionReportsTheStateFirst(t *testing.T) {
	o := newOutbox(1, batchBytes)
	mustAdd(t, o, allocationItem(ask("before")))
	o.poll(0, later())
	o.begin()
	mustAdd(t, o, releaseItem(gone("meanwhile")), releaseItem(gone("without waiting for room")))
	node := &si.NodeInfo{NodeID: "n", Action: si.NodeInfo_CREATE}
	running := &si.Allocation{AllocationKey: "runs", NodeID: "n"}
	state := State{
		Nodes:       []*si.NodeInfo{node},
		Allocations: []*si.Allocation{ask("wanted"), running},
	}
	items, refused, err := state.items(64 << 20)
	if err != nil || refused != nil {
		t.Fatal(refused, err)
	}
	o.proceed(items)
	var seen []string
	for at := uint64(0); ; at++ {
		r, _ := o.poll(at, later())
		if r == nil {
			break
		}
		switch m := r.message.(type) {
		case *si.NodeRequest:
			seen = append(seen, m.Nodes[0].Action.String())
		case *si.AllocationRequest:
			for _, one := range m.Allocations {
				seen = append(seen, one.AllocationKey)
			}
			for _, one := range m.Releases.GetAllocationsToRelease() {
				seen = append(seen, "no "+one.AllocationKey)
			}
		}
	}
	expected := "[CREATE_DRAIN runs DRAIN_TO_SCHEDULABLE wanted no meanwhile no without waiting for room]"
	if fmt.Sprint(seen) != expected {
		t.Errorf("%v", seen)
	}
	if node.Action != si.NodeInfo_CREATE {
		t.Error("the program's own node is changed")
	}
}

func TestEachEndHasItsVerdict(t *testing.T) {
	for _, one := range []struct {
		code   codes.Code
		reason string
		verdict
	}{
		{codes.Unavailable, "", reopen},
		{codes.Unavailable, "SHUTTING_DOWN", reopen},
		{codes.Aborted, "SEQUENCE_GAP", reopen},
		{codes.DeadlineExceeded, "REGISTRATION_TIMEOUT", reopen},
		{codes.ResourceExhausted, "LIMIT_SESSIONS", reopen},
		{codes.OK, "", reopen},
		{codes.FailedPrecondition, "SESSION_STALE", registerAgain},
		{codes.FailedPrecondition, "RM_NOT_REGISTERED", registerAgain},
		{codes.FailedPrecondition, "RESYNC_REQUIRED", registerAgain},
		{codes.FailedPrecondition, "POLICY_GROUP_CONFLICT", stop},
		{codes.Aborted, "SESSION_SUPERSEDED", stop},
		{codes.Aborted, "STREAM_DISPLACED", stop},
		{codes.OutOfRange, "MESSAGE_UNREADABLE", stop},
		{codes.DataLoss, "MESSAGE_UNREADABLE", registerAgain},
		{codes.Aborted, "DEREGISTERED", stop},
		{codes.InvalidArgument, "CONFIG_INVALID", stop},
		{codes.PermissionDenied, "RM_DENIED", stop},
	} {
		end := &Error{Status: status.New(one.code, "text"), Reason: one.reason}
		if seen := judge(end, false); seen != one.verdict {
			t.Errorf("%v: %v, expected %v", end, seen, one.verdict)
		}
	}
	for reason, expected := range map[string]verdict{
		"": registerAgain, "SHUTTING_DOWN": registerAgain, "HEARTBEAT_MISSED": reopen, "STREAM_STALLED": reopen,
		"NOT_OWNER": registerAgain, "SESSION_MOVED": registerAgain, "OWNER_UNREACHABLE": registerAgain, "ARBITER_UNAVAILABLE": registerAgain,
		"CLAIM_CONTENDED": registerAgain, "MEMBER_FENCED": registerAgain,
	} {
		end := &Error{Status: status.New(codes.Unavailable, "text"), Reason: reason}
		if seen := judge(end, true); seen != expected {
			t.Errorf("in a cluster, %v: %v, expected %v", end, seen, expected)
		}
	}
	if judge(fmt.Errorf("%w: 7", ErrSilent), false) != registerAgain {
		t.Error("silence")
	}
	if judge(fmt.Errorf("%w: 7", errVoid), false) != registerAgain || judge(errNumbers, false) != stop {
		t.Error("what the client finds itself")
	}
}

// polled returns the number of items of each request that the outbox would send now.
func polled(o *outbox) []int {
	var items []int
	for at := uint64(0); ; at++ {
		r, _ := o.poll(at, later())
		if r == nil {
			return items
		}
		items = append(items, r.items)
	}
}

func TestARequestHasNoMoreBytesThanABatch(t *testing.T) {
	o := newOutbox(1<<20, 1000)
	for n := 0; n < 4; n++ {
		mustAdd(t, o, allocationItem(&si.Allocation{AllocationKey: strings.Repeat("k", 400)}))
	}
	// An item larger than a batch has a request of its own.
	mustAdd(t, o, allocationItem(ask("a")), allocationItem(&si.Allocation{AllocationKey: strings.Repeat("k", 2000)}),
		allocationItem(ask("b")))
	for at, r := range o.pending {
		if size := proto.Size(r.message) + requestOverhead; r.items > 1 && size > 1000+requestOverhead || size > r.bytes+requestOverhead {
			t.Errorf("request %d has %d bytes, and is counted as %d", at, size, r.bytes)
		}
	}
	if seen := fmt.Sprint(polled(o)); seen != "[2 3 1 1]" {
		t.Error(seen)
	}
	// A request that is full by bytes is sent before it is due.
	o = newOutbox(1<<20, 1000)
	mustAdd(t, o, allocationItem(&si.Allocation{AllocationKey: strings.Repeat("k", 2000)}))
	if r, wait := o.poll(0, o.pending[0].due.Add(-batchWait)); r == nil {
		t.Errorf("it waits for %v", wait)
	}
}

func TestAllocationsOfANodeAreItems(t *testing.T) {
	o := newOutbox(1<<20, batchBytes)
	for n := 0; n < 3; n++ {
		node := &si.NodeInfo{}
		for a := 0; a < batchItems/2; a++ {
			node.ExistingAllocations = append(node.ExistingAllocations, ask("a"))
		}
		mustAdd(t, o, nodeItem(node))
	}
	if seen := fmt.Sprint(polled(o)); seen != "[501 501 501]" {
		t.Error(seen)
	}
}

func TestBytesInFlightAreBounded(t *testing.T) {
	o := newOutbox(1<<20, batchBytes)
	large := strings.Repeat("k", aheadBytes/4)
	for n := 0; n < 5; n++ {
		mustAdd(t, o, allocationItem(ask(large)))
	}
	if seen := fmt.Sprint(polled(o)); seen != "[1 1 1]" {
		t.Error(seen)
	}
	o.took(2)
	if r, _ := o.poll(3, later()); r == nil {
		t.Error("two are taken, and nothing follows")
	}
}
