package monoceros

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	si "monoceros.io/clients/go/si/v1"
	scheduler "monoceros.io/clients/go/si/v1/scheduler"
	mono "monoceros.io/clients/go/v1"
)

// asker is the scheduler's end of callback streams, played by the test.
type asker struct {
	mono.UnimplementedCallbackServiceServer
	streams chan *conversation
}

// conversation is one stream of callbacks.
type conversation struct {
	t     *testing.T
	hello *mono.Hello
	to    chan *mono.CoreMessage
	from  chan *mono.ShimMessage
	end   chan error
}

func (a *asker) Attach(stream mono.CallbackService_AttachServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	c := &conversation{
		hello: first.GetHello(), to: make(chan *mono.CoreMessage), from: make(chan *mono.ShimMessage, 1000),
		end: make(chan error),
	}
	welcome := &mono.Welcome{MaxInflightBatches: 7}
	if err := stream.Send(&mono.CoreMessage{Body: &mono.CoreMessage_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	a.streams <- c
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				return
			}
			c.from <- message
		}
	}()
	for {
		select {
		case message := <-c.to:
			if err := stream.Send(message); err != nil {
				return err
			}
		case err := <-c.end:
			return err
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// answering runs a client with callbacks against a scheduler played by the test.
func answering(t *testing.T, callbacks *Callbacks) (*Client, func() *conversation) {
	t.Helper()
	service := &fake{breaks: func() bool { return false }}
	service.held, service.broken, service.news = nil, make(chan struct{}), make(chan struct{})
	asks := &asker{streams: make(chan *conversation, 8)}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	scheduler.RegisterSchedulerServer(server, service)
	mono.RegisterCallbackServiceServer(server, asks)
	go server.Serve(listening)
	t.Cleanup(server.Stop)
	client := running(t, Config{
		Target: listening.Addr().String(), Handler: &listener{}, State: nothing, Callbacks: callbacks,
	})
	return client, func() *conversation {
		c := received(t, "a stream of callbacks", asks.streams)
		c.t = t
		return c
	}
}

func (c *conversation) send(message *mono.CoreMessage) {
	c.t.Helper()
	select {
	case c.to <- message:
	case <-time.After(30 * time.Second):
		c.t.Fatal("the stream takes nothing")
	}
}

func (c *conversation) receive() *mono.ShimMessage {
	c.t.Helper()
	return received(c.t, "a message of the client", c.from)
}

// names tells the client the numbers of nodes: 1 is n1, and so on.
func (c *conversation) names(n uint32) {
	dictionary := &mono.NodeDictionary{Reset_: true}
	for index := uint32(1); index <= n; index++ {
		dictionary.Add = append(dictionary.Add, &mono.NodeDictEntry{Index: index, NodeId: fmt.Sprint("n", index)})
	}
	c.send(&mono.CoreMessage{Body: &mono.CoreMessage_NodeDictionary{NodeDictionary: dictionary}})
}

func batchOf(id uint64, queries ...*mono.PredicateQuery) *mono.CoreMessage {
	batch := &mono.PredicateBatch{BatchId: id, Queries: queries}
	return &mono.CoreMessage{Body: &mono.CoreMessage_PredicateBatch{PredicateBatch: batch}}
}

func query(key string, nodes ...uint32) *mono.PredicateQuery {
	return &mono.PredicateQuery{ApplicationId: "app", AllocationKey: key, NodeIndex: nodes}
}

func TestHelloHasACapabilityForEachFunction(t *testing.T) {
	yes := func(Question) (bool, string) { return true, "" }
	for expected, callbacks := range map[string]Callbacks{
		"[]":                                 {},
		"[PREDICATES]":                       {Predicate: yes},
		"[PREDICATES HOLD_PREDICATES]":       {Judge: func(context.Context, Question) Answer { return Answer{} }, Holds: true},
		"[PREEMPTION_PREDICATES]":            {Preemption: func(context.Context, Preemption) Eviction { return Eviction{} }},
		"[CACHE_SYNC]":                       {View: &view{}},
		"[CACHE_SYNC] confirmed":             {Confirm: func(Placement) *Refusal { return nil }},
		"[EVENTS]":                           {Events: func([]*si.EventRecord, uint64) {}},
		"[CONTAINER_STATES]":                 {ContainerStates: func([]*si.UpdateContainerSchedulingStateRequest) {}},
		"[STATE_DUMP]":                       {StateDump: func(context.Context) ([]byte, error) { return nil, nil }},
		"[CONFIG_STORE]":                     {SaveConfig: func(context.Context, SavedConfig) (string, error) { return "", nil }},
		"[PREDICATES] 9 batches at a time  ": {Predicate: yes, Hello: &mono.Hello{MaxInflightBatches: 9, ConfirmAssume: true, Capabilities: []mono.Capability{mono.Capability_EVENTS}}},
	} {
		hello := callbacks.hello()
		seen := fmt.Sprint(hello.Capabilities)
		if hello.ConfirmAssume {
			seen += " confirmed"
		}
		if n := hello.MaxInflightBatches; n != 0 {
			seen += fmt.Sprintf(" %d batches at a time  ", n)
		}
		if seen != expected {
			t.Errorf("%s, expected %s", seen, expected)
		}
	}
}

func TestHelloCarriesTheOptionsOfTheProgram(t *testing.T) {
	agreed := make(chan *mono.Welcome, 1)
	_, next := answering(t, &Callbacks{
		Hello:   &mono.Hello{PredicateTimeoutMs: 700, RmId: "somebody else"},
		Welcome: func(w *mono.Welcome) { agreed <- w },
	})
	hello := next().hello
	if hello.PredicateTimeoutMs != 700 || hello.RmId != "rm" || hello.SessionId != 1 {
		t.Error(hello)
	}
	if welcome := received(t, "Welcome", agreed); welcome.MaxInflightBatches != 7 {
		t.Error(welcome)
	}
}

func TestAJudgeFillsEveryFieldOfAnAnswer(t *testing.T) {
	_, next := answering(t, &Callbacks{
		Scope: mono.Scope_SCOPE_TOPOLOGY,
		Judge: func(_ context.Context, q Question) Answer {
			switch {
			case q.Allocation == "unknown":
				return Answer{Outcome: mono.Outcome_UNKNOWN_ALLOCATION}
			case q.Allocation == "shed" && q.Node == "n2":
				return Answer{Outcome: mono.Outcome_SHED, Reason: "too much to do", Scope: mono.Scope_SCOPE_NODE}
			case q.TaskGroup == "workers" && q.Allocation == "":
				return Answer{Fits: true, Scope: mono.Scope_SCOPE_STATIC}
			case q.Node == "n3":
				return Answer{Fits: true, Elsewhere: &mono.Elsewhere{Affects: []uint64{4}}}
			}
			return Answer{Plugin: "taints", Reason: "tainted " + strings.Repeat("x", 2*reasonBytes)}
		},
		Holds: true,
	})
	stream := next()
	stream.names(3)
	held := &mono.PredicateQuery{TaskGroupName: "workers", NodeIndex: []uint32{1}}
	stream.send(batchOf(5, query("unknown", 1), query("shed", 1, 2), query("a", 1, 2, 3), held))
	results := stream.receive().GetPredicateResults()
	if results.GetBatchId() != 5 || !results.GetLast() || len(results.GetResults()) != 4 {
		t.Fatal(results)
	}
	unknown, shed, a, hold := results.Results[0], results.Results[1], results.Results[2], results.Results[3]
	if unknown.Outcome != mono.Outcome_UNKNOWN_ALLOCATION || unknown.Scope != mono.Scope_SCOPE_TOPOLOGY {
		t.Error(unknown)
	}
	if shed.Outcome != mono.Outcome_SHED || shed.Error != "too much to do" || shed.Scope != mono.Scope_SCOPE_NODE || shed.Failures != nil {
		t.Error(shed)
	}
	if a.Evaluated != 3 || a.PassBitmap[0] != 4 || a.Elsewhere.GetAffects()[0] != 4 || a.Scope != mono.Scope_SCOPE_TOPOLOGY {
		t.Error(a)
	}
	group := a.Failures[0]
	if group.Plugin != "taints" || len(group.Reason) != reasonBytes || group.Count != 2 || group.FailBitmap[0] != 3 {
		t.Error(group)
	}
	if hold.PassBitmap[0] != 1 || hold.Scope != mono.Scope_SCOPE_STATIC {
		t.Error(hold)
	}
}

func TestManyReasonsAreBounded(t *testing.T) {
	n := 0
	a := &attachment{Callbacks: Callbacks{Predicate: func(Question) (bool, string) {
		n++
		return false, fmt.Sprint(n)
	}}}
	asked := query("a")
	asked.NodeIndex = make([]uint32, 3*reasonGroups)
	result := a.result(during(t), asked)
	if len(result.Failures) != reasonGroups || result.Failures[reasonGroups-1].Count != 2*reasonGroups+1 {
		t.Errorf("%d groups, the last of %d", len(result.Failures), result.Failures[reasonGroups-1].Count)
	}
}

func TestLargeResultsComeInParts(t *testing.T) {
	a := newAttachment(nil, Callbacks{Predicate: func(q Question) (bool, string) {
		return false, q.Allocation + strings.Repeat("x", reasonBytes)
	}})
	a.out = make(chan *mono.ShimMessage, 100)
	asked := &mono.PredicateBatch{BatchId: 1}
	for n := 0; n < 3000; n++ {
		asked.Queries = append(asked.Queries, &mono.PredicateQuery{QueryId: uint32(n), AllocationKey: fmt.Sprint(n), NodeIndex: []uint32{1}})
	}
	a.predicates(during(t), asked)
	close(a.out)
	seen, lasts := 0, 0
	for message := range a.out {
		results := message.GetPredicateResults()
		for _, one := range results.Results {
			if one.QueryId != uint32(seen) {
				t.Fatalf("%d comes where %d should", one.QueryId, seen)
			}
			seen++
		}
		if results.Last {
			lasts++
			if len(a.out) != 0 {
				t.Error("something follows the last part")
			}
		}
	}
	if seen != 3000 || lasts != 1 {
		t.Errorf("%d results, %d last parts", seen, lasts)
	}
}

func TestACancelledBatchIsNotAnswered(t *testing.T) {
	asked := make(chan string, 8)
	_, next := answering(t, &Callbacks{Judge: func(ctx context.Context, q Question) Answer {
		asked <- q.Allocation
		if q.Allocation != "quick" {
			<-ctx.Done()
		}
		return Answer{Fits: true}
	}})
	stream := next()
	stream.names(1)
	stream.send(batchOf(1, query("slow", 1), query("never asked", 1)))
	stream.send(batchOf(2, query("waits", 1)))
	if seen := received(t, "a question", asked); seen != "slow" {
		t.Fatal(seen)
	}
	// Heartbeats are answered in the meantime.
	beat := &mono.Heartbeat{Nonce: 77, Reply: true}
	stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_Heartbeat{Heartbeat: beat}})
	if seen := stream.receive().GetHeartbeat(); seen.GetNonce() != 77 || seen.GetReply() {
		t.Error(seen)
	}
	cancel := &mono.CancelBatch{BatchIds: []uint64{2, 1}}
	stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_Cancel{Cancel: cancel}})
	late := batchOf(3, query("late", 1))
	late.GetPredicateBatch().DeadlineMs = 20
	stream.send(late)
	stream.send(batchOf(4, query("quick", 1)))
	if seen := stream.receive().GetPredicateResults(); seen.GetBatchId() != 4 || seen.GetResults()[0].GetPassBitmap()[0] != 1 {
		t.Error(seen)
	}
	var all []string
	for len(asked) > 0 {
		all = append(all, <-asked)
	}
	if fmt.Sprint(all) != "[late quick]" && fmt.Sprint(all) != "[quick]" {
		t.Errorf("asked %v", all)
	}
}

func TestPreemptionIsAskedAndAnswered(t *testing.T) {
	_, next := answering(t, &Callbacks{
		Predicate: func(Question) (bool, string) { return true, "" },
		Preemption: func(_ context.Context, p Preemption) Eviction {
			if p.Node == "n2" {
				return Eviction{}
			}
			return Eviction{Fits: p.Allocation == "a" && p.Start == 1, Last: len(p.Victims) - 1}
		},
	})
	stream := next()
	stream.names(2)
	args := func(node string) *si.PreemptionPredicatesArgs {
		return &si.PreemptionPredicatesArgs{
			AllocationKey: "a", NodeID: node, PreemptAllocationKeys: []string{"v1", "v2", "v3"}, StartIndex: 1,
		}
	}
	batch := &mono.PreemptionBatch{BatchId: 3, Queries: []*mono.PreemptionQuery{
		{QueryId: 0, Args: args("n1")}, {QueryId: 1, NodeIndex: 2, Args: args("")},
	}}
	stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_PreemptionBatch{PreemptionBatch: batch}})
	results := stream.receive().GetPreemptionResults()
	if results.GetBatchId() != 3 || !results.GetLast() || len(results.GetResults()) != 2 {
		t.Fatal(results)
	}
	if one := results.Results[0]; one.Outcome != mono.Outcome_EVALUATED || !one.Response.Success || one.Response.Index != 2 {
		t.Error(one)
	}
	if one := results.Results[1]; one.QueryId != 1 || one.Response.Success {
		t.Error(one)
	}
}

func TestAnUnconfirmedPlacementIsNotAssumed(t *testing.T) {
	seen := &view{nodes: map[[2]string]string{}}
	_, next := answering(t, &Callbacks{View: seen, Confirm: func(p Placement) *Refusal {
		switch p.Allocation {
		case "bad":
			return &Refusal{Reason: "no volume"}
		case "busy":
			return &Refusal{Reason: "busy", SameNode: true}
		}
		return nil
	}})
	stream := next()
	sync := func(seq uint64, whole bool, keys ...string) *mono.CoreMessage {
		args := &mono.CacheSyncArgs{}
		for _, key := range keys {
			args.AssumedAllocations = append(args.AssumedAllocations,
				&mono.AssumedAllocation{ApplicationID: "app", AllocationKey: key, NodeID: "n1"})
		}
		sync := &mono.CacheSync{CacheSeq: seq, Snapshot: whole, SnapshotEnd: whole, Args: args}
		return &mono.CoreMessage{Body: &mono.CoreMessage_CacheSync{CacheSync: sync}}
	}
	stream.send(sync(1, true, "old", "bad"))
	if ack := stream.receive().GetCacheSyncAck(); ack.GetCacheSeq() != 1 || len(ack.GetFailures()) != 1 {
		t.Error(ack)
	}
	stream.send(sync(2, false, "good", "bad", "busy"))
	ack := stream.receive().GetCacheSyncAck()
	if ack.GetCacheSeq() != 2 || len(ack.GetFailures()) != 2 {
		t.Fatal(ack)
	}
	if bad := ack.Failures[0]; bad.AllocationKey != "bad" || bad.ApplicationId != "app" || bad.Reason != "no volume" || bad.Retryable {
		t.Error(bad)
	}
	if busy := ack.Failures[1]; !busy.Retryable {
		t.Error(busy)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if fmt.Sprint(seen.nodes) != "map[[app good]:n1 [app old]:n1]" {
		t.Error(seen.nodes)
	}
}

func TestEventsContinueAfterABreak(t *testing.T) {
	var lost atomic.Uint64
	delivered := make(chan string, 8)
	_, next := answering(t, &Callbacks{Events: func(events []*si.EventRecord, dropped uint64) {
		lost.Add(dropped)
		for _, one := range events {
			delivered <- one.ObjectID
		}
	}})
	stream := next()
	if stream.hello.InitialEventCredit == 0 || stream.hello.LastEventSeq != 0 {
		t.Error(stream.hello)
	}
	batch := &mono.EventBatch{FirstSeq: 8, LastSeq: 9, Dropped: 7, Events: []*si.EventRecord{{ObjectID: "a"}, {ObjectID: "b"}}}
	stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_EventBatch{EventBatch: batch}})
	if credit := stream.receive().GetEventCredit(); credit.GetAdd() != 2 || credit.GetAckSeq() != 9 {
		t.Error(credit)
	}
	if len(delivered) != 2 || lost.Load() != 7 {
		t.Errorf("%d events, %d lost", len(delivered), lost.Load())
	}
	stream.end <- status.Error(codes.Unavailable, "broken")
	if hello := next().hello; hello.LastEventSeq != 9 {
		t.Error(hello)
	}
}

func TestContainerStatesAreReported(t *testing.T) {
	delivered := make(chan *si.UpdateContainerSchedulingStateRequest, 8)
	_, next := answering(t, &Callbacks{ContainerStates: func(states []*si.UpdateContainerSchedulingStateRequest) {
		delivered <- states[0]
	}})
	batch := &mono.ContainerStateBatch{States: []*si.UpdateContainerSchedulingStateRequest{{AllocationKey: "a"}}}
	next().send(&mono.CoreMessage{Body: &mono.CoreMessage_ContainerStates{ContainerStates: batch}})
	if seen := received(t, "a state", delivered); seen.AllocationKey != "a" {
		t.Error(seen)
	}
}

func TestADumpComesInPartsOrWithItsError(t *testing.T) {
	var fails atomic.Bool
	_, next := answering(t, &Callbacks{StateDump: func(context.Context) ([]byte, error) {
		if fails.Load() {
			return nil, errors.New("")
		}
		return []byte("0123456789"), nil
	}})
	stream := next()
	ask := func(id uint64) {
		request := &mono.StateDumpRequest{RequestId: id, MaxChunkBytes: 4}
		stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_StateDump{StateDump: request}})
	}
	ask(1)
	for index, expected := range []string{"0123", "4567", "89"} {
		chunk := stream.receive().GetStateDump()
		if chunk.GetRequestId() != 1 || chunk.GetIndex() != uint32(index) || string(chunk.GetData()) != expected ||
			chunk.GetLast() != (index == 2) {
			t.Error(chunk)
		}
	}
	fails.Store(true)
	ask(2)
	if chunk := stream.receive().GetStateDump(); chunk.GetRequestId() != 2 || chunk.GetError() == "" || !chunk.GetLast() {
		t.Error(chunk)
	}
}

func TestTooManyRequestsOfOperatorsAreRefused(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	begun := make(chan struct{}, 1000)
	_, next := answering(t, &Callbacks{SaveConfig: func(ctx context.Context, _ SavedConfig) (string, error) {
		begun <- struct{}{}
		<-hold
		return "", nil
	}})
	stream := next()
	save := func() {
		request := &mono.ConfigSaveRequest{RequestId: 4}
		stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_ConfigSave{ConfigSave: request}})
	}
	save()
	received(t, "the first", begun)
	for n := 0; n < queuedRequests; n++ {
		save()
	}
	save()
	if saved := stream.receive().GetConfigSave(); saved.GetSuccess() || !strings.Contains(saved.GetReason(), "too many") {
		t.Error(saved)
	}
}

func TestConfigurationsAreKeptOrRefused(t *testing.T) {
	_, next := answering(t, &Callbacks{SaveConfig: func(_ context.Context, c SavedConfig) (string, error) {
		if c.Config != "new" || c.ExtraConfig["log.level"] != "info" {
			return "", fmt.Errorf("the disk is full of %v", c)
		}
		return "old", nil
	}})
	stream := next()
	for _, config := range []string{"new", "other"} {
		request := &mono.ConfigSaveRequest{RequestId: 4, Config: config, ExtraConfig: map[string]string{"log.level": "info"}}
		stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_ConfigSave{ConfigSave: request}})
		saved := stream.receive().GetConfigSave()
		if saved.GetRequestId() != 4 || saved.GetSuccess() != (config == "new") ||
			saved.GetSuccess() != (saved.GetOldConfig() == "old") || saved.GetSuccess() == (saved.GetReason() != "") {
			t.Error(saved)
		}
	}
}

func TestInvalidationsAreSentAndRepeatedAfterABreak(t *testing.T) {
	client, next := answering(t, &Callbacks{Predicate: func(Question) (bool, string) { return true, "" }})
	if err := client.Invalidate(Invalidation{}); err == nil {
		t.Error("an invalidation of nothing is no error")
	}
	stream := next()
	if err := client.Invalidate(Invalidation{Nodes: []string{"n1"}, Allocations: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if seen := stream.receive().GetInvalidate(); fmt.Sprint(seen.GetNodeIds(), seen.GetAllocationKeys(), seen.GetAll()) != "[n1] [a] false" {
		t.Error(seen)
	}
	stream.end <- status.Error(codes.Unavailable, "broken")
	stream = next()
	if seen := stream.receive().GetInvalidate(); !seen.GetAll() {
		t.Errorf("after a break: %v", seen)
	}
	without := made(t, valid())
	if err := without.Invalidate(Invalidation{All: true}); err == nil {
		t.Error("without predicates it is no error")
	}
}

func TestUnsentInvalidationsAreJoinedAndBounded(t *testing.T) {
	i := newInvalidations()
	i.add(Invalidation{Nodes: []string{"n1"}})
	i.add(Invalidation{Nodes: []string{"n2"}, Allocations: []string{"a\xff"}})
	if seen := i.take(); fmt.Sprint(seen.GetNodeIds(), seen.GetAllocationKeys()) != "[n1 n2] [a\uFFFD]" {
		t.Error(seen)
	}
	if seen := i.take(); seen != nil {
		t.Error(seen)
	}
	for n := 0; n < 3; n++ {
		i.add(Invalidation{Nodes: []string{strings.Repeat("n", batchBytes/2)}})
	}
	if seen := i.take(); !seen.GetAll() || len(seen.GetNodeIds()) != 0 {
		t.Error("more than a mebibyte of names is not all")
	}
}

func TestTheClientPausesAsLongAsRequested(t *testing.T) {
	_, next := answering(t, &Callbacks{})
	stream := next()
	goodbye := &mono.Goodbye{ReconnectAfterMs: 400}
	stream.send(&mono.CoreMessage{Body: &mono.CoreMessage_Goodbye{Goodbye: goodbye}})
	stream.end <- status.Error(codes.Unavailable, "later")
	began := time.Now()
	next()
	if away := time.Since(began); away < 350*time.Millisecond {
		t.Errorf("it is back after %v", away)
	}
}
