package monoceros

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

const (
	// queuedQuestions is the number of messages queued for the program before reading stops.
	queuedQuestions = 256
	// queuedReports is the number of queued batches of events; the credit bounds the events in them.
	queuedReports = 256
	// queuedRequests is the number of queued state dumps and configurations. Further ones are refused.
	queuedRequests = 16
	// eventCredit is the number of events the scheduler sends before it gets more credit, if Hello sets none.
	eventCredit = 256
	// chunkBytes is the size of a part of a state dump, if the scheduler names none.
	chunkBytes = 1 << 20
	// reasonBytes and reasonGroups bound the reasons of refusals in an answer: each reason is cut, and nodes
	// with further reasons are counted under the last one.
	reasonBytes  = 1024
	reasonGroups = 64
	// longestAway is the longest pause that the client makes at the request of the scheduler.
	longestAway = 10 * time.Minute
)

func cloned[T proto.Message](message T) T { return proto.Clone(message).(T) }

// attachment is one callback stream. One task (read) reads messages, one (write) writes them, and one task
// per lane handles them, so that a slow state dump delays no predicate.
type attachment struct {
	Callbacks
	client *Client
	stream mono.CallbackService_AttachClient
	// welcome has the agreed options.
	welcome *mono.Welcome

	// The lanes. questions has all messages whose order matters.
	questions, events, states, requests chan *mono.CoreMessage
	// out has the messages to be written; beats has heartbeats to be returned, of which only the last one
	// matters.
	out   chan *mono.ShimMessage
	beats chan uint64
	// batches are the predicate batches that are queued in questions or being answered.
	batches batches
	// applied is the number of the last change applied to the view.
	applied atomic.Uint64

	// names are the node names by the scheduler's numbers. This field and those below are used by the task of
	// questions alone.
	names map[uint32]string
	// listed are the placements of an incomplete list.
	listed []Placement
}

func newAttachment(c *Client, callbacks Callbacks) *attachment {
	return &attachment{
		Callbacks: callbacks, client: c,
		questions: make(chan *mono.CoreMessage, queuedQuestions),
		events:    make(chan *mono.CoreMessage, queuedReports),
		states:    make(chan *mono.CoreMessage, queuedReports),
		requests:  make(chan *mono.CoreMessage, queuedRequests),
		out:       make(chan *mono.ShimMessage, 16),
		beats:     make(chan uint64, 1),
		batches:   batches{waiting: map[uint64]*batch{}},
		names:     map[uint32]string{},
	}
}

// attach opens the callback stream, before the scheduler receives any request.
func (c *Client) attach(ctx context.Context) (*attachment, error) {
	session, err := sessionNumber(c.session)
	if err != nil {
		return nil, err
	}
	stream, err := mono.NewCallbackServiceClient(c.link).Attach(c.outgoing(ctx))
	if err != nil {
		return nil, endOf(ctx, "callback stream", err, nil)
	}
	a := newAttachment(c, *c.config.Callbacks)
	a.stream = stream
	hello := a.hello()
	hello.RmId, hello.SessionId, hello.InstanceId = c.config.RM, session, c.config.Instance
	hello.LastEventSeq = c.lastEvent.Load()
	if hello.InitialEventCredit == 0 {
		hello.InitialEventCredit = eventCredit
	}
	// If the stream does not accept Hello, reading it returns the reason.
	_ = stream.Send(&mono.ShimMessage{Body: &mono.ShimMessage_Hello{Hello: hello}})
	first, err := stream.Recv()
	if err != nil {
		return nil, endOf(ctx, "callback stream", err, stream.Trailer())
	}
	welcome := first.GetWelcome()
	if welcome == nil {
		return nil, errors.New("monoceros: callback stream: the first message is no Welcome")
	}
	a.welcome = welcome
	return a, nil
}

// begin passes the agreed options to the program, and returns the functions that run until the session ends.
func (a *attachment) begin() []func(context.Context) error {
	if a.Welcome != nil {
		a.Welcome(a.welcome)
	}
	a.client.invalidations.opened()
	return []func(context.Context) error{
		a.read, a.write,
		lane(a.questions, a.question), lane(a.events, a.event),
		lane(a.states, a.state), lane(a.requests, a.request),
	}
}

// lane handles the messages of one lane, one at a time.
func lane(messages <-chan *mono.CoreMessage, handle func(context.Context, *mono.CoreMessage)) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			select {
			case message := <-messages:
				// Messages of a stream that has ended are dropped.
				if ctx.Err() != nil {
					return ctx.Err()
				}
				handle(ctx, message)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// read puts messages into their lanes. It blocks on the program's functions only if hundreds of messages
// are queued.
func (a *attachment) read(ctx context.Context) error {
	for {
		message, err := a.stream.Recv()
		if err != nil {
			return endOf(ctx, "callback stream", err, a.stream.Trailer())
		}
		a.client.watch.record((*silence).received)
		var to chan *mono.CoreMessage
		switch body := message.GetBody().(type) {
		case *mono.CoreMessage_PredicateBatch:
			a.batches.add(ctx, body.PredicateBatch.GetBatchId(), body.PredicateBatch.GetDeadlineMs())
			to = a.questions
		case *mono.CoreMessage_PreemptionBatch, *mono.CoreMessage_NodeDictionary,
			*mono.CoreMessage_CacheSync, *mono.CoreMessage_BundlePlaces:
			to = a.questions
		case *mono.CoreMessage_EventBatch:
			to = a.events
		case *mono.CoreMessage_ContainerStates:
			to = a.states
		case *mono.CoreMessage_StateDump, *mono.CoreMessage_ConfigSave:
			select {
			case a.requests <- message:
			default:
				a.refuse(ctx, message, errors.New("too many requests wait for the resource manager"))
			}
			continue
		case *mono.CoreMessage_Cancel:
			a.batches.cancel(body.Cancel.GetBatchIds())
			continue
		case *mono.CoreMessage_Heartbeat:
			if body.Heartbeat.GetReply() {
				a.beat(body.Heartbeat.GetNonce())
			}
			continue
		case *mono.CoreMessage_Goodbye:
			// The status that follows decides how the client continues.
			away := time.Duration(body.Goodbye.GetReconnectAfterMs()) * time.Millisecond
			a.client.away.Store(int64(min(away, longestAway)))
			continue
		default:
			// A message of a later revision of the protocol.
			continue
		}
		select {
		case to <- message:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beat queues a heartbeat for the writer and replaces one that is not written yet.
func (a *attachment) beat(nonce uint64) {
	for {
		select {
		case a.beats <- nonce:
			return
		default:
		}
		select {
		case <-a.beats:
		default:
		}
	}
}

// write is the only task that writes to the stream.
func (a *attachment) write(ctx context.Context) error {
	for {
		message := &mono.ShimMessage{}
		select {
		case message = <-a.out:
		case nonce := <-a.beats:
			message.Body = &mono.ShimMessage_Heartbeat{
				Heartbeat: &mono.Heartbeat{Nonce: nonce, CacheSeq: a.applied.Load()},
			}
		case <-a.client.invalidations.ready:
			invalidate := a.client.invalidations.take()
			if invalidate == nil {
				continue
			}
			message.Body = &mono.ShimMessage_Invalidate{Invalidate: invalidate}
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := a.stream.Send(message); err != nil {
			// The reader knows the reason.
			<-ctx.Done()
			return ctx.Err()
		}
	}
}

// send queues a message for the writer.
func (a *attachment) send(ctx context.Context, message *mono.ShimMessage) {
	select {
	case a.out <- message:
	case <-ctx.Done():
	}
}

// question handles one message of the lane in which order matters.
func (a *attachment) question(ctx context.Context, message *mono.CoreMessage) {
	switch body := message.GetBody().(type) {
	case *mono.CoreMessage_PredicateBatch:
		a.predicates(ctx, body.PredicateBatch)
	case *mono.CoreMessage_PreemptionBatch:
		a.preemptions(ctx, body.PreemptionBatch)
	case *mono.CoreMessage_NodeDictionary:
		if body.NodeDictionary.GetReset_() {
			clear(a.names)
		}
		for _, index := range body.NodeDictionary.GetRemove() {
			delete(a.names, index)
		}
		for _, entry := range body.NodeDictionary.GetAdd() {
			a.names[entry.GetIndex()] = entry.GetNodeId()
		}
	case *mono.CoreMessage_CacheSync:
		failures := a.sync(body.CacheSync)
		if a.confirms() {
			ack := &mono.CacheSyncAck{CacheSeq: body.CacheSync.GetCacheSeq(), Failures: failures}
			a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_CacheSyncAck{CacheSyncAck: ack}})
		}
	case *mono.CoreMessage_BundlePlaces:
		if a.Members != nil {
			a.Members(a.bundle(body.BundlePlaces))
		}
	}
}

// predicates answers a batch, in several messages if the answers are large. It sends nothing once the batch
// is cancelled or late.
func (a *attachment) predicates(ctx context.Context, asked *mono.PredicateBatch) {
	wanted, done := a.batches.begin(ctx, asked.GetBatchId())
	defer done()
	results := &mono.PredicateResults{BatchId: asked.GetBatchId(), CacheSeq: a.applied.Load()}
	size := 0
	for _, query := range asked.GetQueries() {
		result := a.result(wanted, query)
		if wanted.Err() != nil {
			return
		}
		if bytes := proto.Size(result); size > 0 && size+bytes > batchBytes {
			a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_PredicateResults{PredicateResults: results}})
			results = &mono.PredicateResults{BatchId: asked.GetBatchId(), CacheSeq: a.applied.Load()}
			size = bytes
		} else {
			size += bytes
		}
		results.Results = append(results.Results, result)
	}
	results.Last = true
	a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_PredicateResults{PredicateResults: results}})
}

// judge calls the program's predicate.
func (a *attachment) judge(ctx context.Context, question Question) Answer {
	if a.Judge != nil {
		return a.Judge(ctx, question)
	}
	var answer Answer
	answer.Fits, answer.Reason = a.Predicate(question)
	if answer.Fits && a.Elsewhere != nil {
		answer.Elsewhere = a.Elsewhere(question)
	}
	return answer
}

// result evaluates the nodes of a question in order, until one fits.
func (a *attachment) result(ctx context.Context, query *mono.PredicateQuery) *mono.PredicateResult {
	result := &mono.PredicateResult{
		QueryId: query.GetQueryId(), Outcome: mono.Outcome_EVALUATED, Scope: a.Scope,
	}
	if !a.judges() {
		result.Outcome, result.Error = mono.Outcome_ERROR, "no predicates"
		return result
	}
	type failure struct{ plugin, reason string }
	failures := map[failure]*mono.FailureGroup{}
	for at, index := range query.GetNodeIndex() {
		if ctx.Err() != nil {
			return result
		}
		question := Question{
			Application: query.GetApplicationId(), Allocation: query.GetAllocationKey(),
			Node: a.names[index], Allocate: query.GetAllocate(), Bundle: query.GetBundleId(),
			TaskGroup: query.GetTaskGroupName(),
		}
		answer := a.judge(ctx, question)
		if answer.Scope != mono.Scope_SCOPE_UNSPECIFIED {
			result.Scope = answer.Scope
		} else {
			result.Scope = a.Scope
		}
		if answer.Outcome != mono.Outcome_OUTCOME_UNSPECIFIED && answer.Outcome != mono.Outcome_EVALUATED {
			return &mono.PredicateResult{
				QueryId: query.GetQueryId(), Outcome: answer.Outcome, Scope: result.Scope,
				Error: cut(answer.Reason),
			}
		}
		result.Evaluated++
		if answer.Fits {
			result.PassBitmap = set(result.PassBitmap, at)
			result.Elsewhere = answer.Elsewhere
			if query.GetAssume() && a.View != nil && ctx.Err() == nil {
				a.View.Assume(Placement{question.Application, question.Allocation, question.Node})
			}
			break
		}
		why := failure{cut(answer.Plugin), cut(answer.Reason)}
		group := failures[why]
		switch {
		case group != nil:
		case len(result.Failures) == reasonGroups:
			group = result.Failures[reasonGroups-1]
		default:
			group = &mono.FailureGroup{Plugin: why.plugin, Reason: why.reason}
			failures[why] = group
			result.Failures = append(result.Failures, group)
		}
		group.Count++
		group.FailBitmap = set(group.FailBitmap, at)
	}
	return result
}

// cut shortens a reason at a character boundary.
func cut(reason string) string {
	if len(reason) <= reasonBytes {
		return validText(reason)
	}
	return validText(reason[:reasonBytes])
}

// set sets a bit, least significant first.
func set(bits []byte, at int) []byte {
	for len(bits) <= at/8 {
		bits = append(bits, 0)
	}
	bits[at/8] |= 1 << (at % 8)
	return bits
}

func (a *attachment) preemptions(ctx context.Context, asked *mono.PreemptionBatch) {
	wanted := ctx
	if ms := asked.GetDeadlineMs(); ms > 0 {
		var cancel context.CancelFunc
		wanted, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	results := &mono.PreemptionResults{
		BatchId: asked.GetBatchId(), CacheSeq: a.applied.Load(), Last: true,
	}
	for _, query := range asked.GetQueries() {
		results.Results = append(results.Results, a.preemption(wanted, query))
		if wanted.Err() != nil {
			return
		}
	}
	a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_PreemptionResults{PreemptionResults: results}})
}

func (a *attachment) preemption(ctx context.Context, query *mono.PreemptionQuery) *mono.PreemptionResult {
	result := &mono.PreemptionResult{QueryId: query.GetQueryId(), Outcome: mono.Outcome_EVALUATED}
	if a.Preemption == nil {
		result.Outcome, result.Error = mono.Outcome_ERROR, "no preemption predicates"
		return result
	}
	args := query.GetArgs()
	node := args.GetNodeID()
	if node == "" {
		node = a.names[query.GetNodeIndex()]
	}
	eviction := a.Preemption(ctx, Preemption{
		Allocation: args.GetAllocationKey(), Node: node, Victims: args.GetPreemptAllocationKeys(),
		Start: int(args.GetStartIndex()),
	})
	result.Response = &si.PreemptionPredicatesResponse{
		Success: eviction.Fits, Index: int32(max(-1, min(eviction.Last, 1<<30))),
	}
	return result
}

// sync applies a change to the view, and returns the placements that the program does not confirm.
func (a *attachment) sync(sync *mono.CacheSync) []*mono.CacheSyncFailure {
	var assumed []Placement
	var failures []*mono.CacheSyncFailure
	for _, one := range sync.GetArgs().GetAssumedAllocations() {
		placement := Placement{one.GetApplicationID(), one.GetAllocationKey(), one.GetNodeID()}
		if a.confirms() {
			if refusal := a.confirm(placement); refusal != nil {
				failures = append(failures, &mono.CacheSyncFailure{
					ApplicationId: placement.Application, AllocationKey: placement.Allocation,
					Reason: cut(refusal.Reason), Retryable: refusal.SameNode,
				})
				continue
			}
		}
		assumed = append(assumed, placement)
	}
	if a.View != nil {
		a.show(sync, assumed)
	}
	if seq := sync.GetCacheSeq(); seq > a.applied.Load() {
		a.applied.Store(seq)
	}
	return failures
}

// confirm calls the program to confirm a placement.
func (a *attachment) confirm(placement Placement) *Refusal {
	if a.Confirm != nil {
		return a.Confirm(placement)
	}
	if err := a.client.record.take(placement, a.Take); err != nil {
		return &Refusal{Reason: err.Error()}
	}
	return nil
}

func (a *attachment) show(sync *mono.CacheSync, assumed []Placement) {
	if sync.GetSnapshot() {
		a.listed = append(a.listed, assumed...)
		assumed = nil
	}
	for _, one := range assumed {
		a.View.Assume(one)
	}
	for _, one := range sync.GetArgs().GetForgetAllocations() {
		a.View.Forget(Placement{
			Application: one.GetApplicationID(), Allocation: one.GetAllocationKey(),
		})
	}
	if sync.GetSnapshotEnd() {
		a.View.Reset(a.listed)
		a.listed = nil
	}
}

func (a *attachment) bundle(received *mono.BundlePlaces) Bundle {
	bundle := Bundle{
		ID: received.GetBundleId(), Application: received.GetApplicationId(), Over: received.GetOver(),
	}
	for _, place := range received.GetPlaces() {
		bundle.Places = append(bundle.Places, Place{
			Member: place.GetMember(), Allocation: place.GetAllocationKey(),
			Node: a.names[place.GetNodeIndex()], TaskGroup: place.GetTaskGroupName(),
		})
	}
	return bundle
}

// event passes a batch of events to the program, and then gives credit for as many.
func (a *attachment) event(ctx context.Context, message *mono.CoreMessage) {
	batch := message.GetEventBatch()
	if a.Events == nil {
		return
	}
	a.Events(batch.GetEvents(), batch.GetDropped())
	a.client.lastEvent.Store(batch.GetLastSeq())
	credit := &mono.EventCredit{Add: uint32(len(batch.GetEvents())), AckSeq: batch.GetLastSeq()}
	a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_EventCredit{EventCredit: credit}})
}

func (a *attachment) state(_ context.Context, message *mono.CoreMessage) {
	if a.ContainerStates != nil {
		a.ContainerStates(message.GetContainerStates().GetStates())
	}
}

// request answers the request of an operator.
func (a *attachment) request(ctx context.Context, message *mono.CoreMessage) {
	ms := max(message.GetStateDump().GetDeadlineMs(), message.GetConfigSave().GetDeadlineMs())
	wanted := ctx
	if ms > 0 {
		var cancel context.CancelFunc
		wanted, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	switch body := message.GetBody().(type) {
	case *mono.CoreMessage_StateDump:
		if a.StateDump == nil {
			a.refuse(ctx, message, errors.New("the resource manager has no state dump"))
			return
		}
		state, err := a.StateDump(wanted)
		if err != nil {
			a.refuse(ctx, message, err)
			return
		}
		a.dump(ctx, body.StateDump, state)
	case *mono.CoreMessage_ConfigSave:
		if a.SaveConfig == nil {
			a.refuse(ctx, message, errors.New("the resource manager keeps no configuration"))
			return
		}
		old, err := a.SaveConfig(wanted, SavedConfig{
			Config: body.ConfigSave.GetConfig(), ExtraConfig: body.ConfigSave.GetExtraConfig(),
		})
		if err != nil {
			a.refuse(ctx, message, err)
			return
		}
		if len(old) > batchBytes {
			// An old configuration that is too large for a message is left out of the answer.
			old = ""
		}
		saved := &mono.ConfigSaveResult{
			RequestId: body.ConfigSave.GetRequestId(), Success: true, OldConfig: validText(old),
		}
		a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_ConfigSave{ConfigSave: saved}})
	}
}

// dump sends a state dump in parts.
func (a *attachment) dump(ctx context.Context, request *mono.StateDumpRequest, state []byte) {
	most := int(request.GetMaxChunkBytes())
	if most == 0 || most > chunkBytes {
		most = chunkBytes
	}
	for index := uint32(0); ; index++ {
		part := state[:min(most, len(state))]
		state = state[len(part):]
		chunk := &mono.StateDumpChunk{
			RequestId: request.GetRequestId(), Index: index, Last: len(state) == 0, Data: part,
			ContentType: "application/json",
		}
		a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_StateDump{StateDump: chunk}})
		if chunk.Last || ctx.Err() != nil {
			return
		}
	}
}

// refuse answers an operator's request with an error.
func (a *attachment) refuse(ctx context.Context, message *mono.CoreMessage, err error) {
	reason := cut(err.Error())
	if reason == "" {
		reason = fmt.Sprintf("the resource manager failed with an error without a text (%T)", err)
	}
	switch body := message.GetBody().(type) {
	case *mono.CoreMessage_StateDump:
		chunk := &mono.StateDumpChunk{
			RequestId: body.StateDump.GetRequestId(), Last: true, Error: reason,
		}
		a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_StateDump{StateDump: chunk}})
	case *mono.CoreMessage_ConfigSave:
		saved := &mono.ConfigSaveResult{RequestId: body.ConfigSave.GetRequestId(), Reason: reason}
		a.send(ctx, &mono.ShimMessage{Body: &mono.ShimMessage_ConfigSave{ConfigSave: saved}})
	}
}

// batches are the unanswered batches of predicates. Each has a context that ends when the scheduler cancels
// the batch or its time is over.
type batches struct {
	mu      sync.Mutex
	waiting map[uint64]*batch
}

type batch struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// add registers a received batch with its time limit.
func (b *batches) add(ctx context.Context, id uint64, ms uint32) {
	one := &batch{}
	if ms > 0 {
		one.ctx, one.cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	} else {
		one.ctx, one.cancel = context.WithCancel(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[id] = one
}

// begin returns the context of a batch and a function to call when the batch is done.
func (b *batches) begin(ctx context.Context, id uint64) (context.Context, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.waiting[id]
	if one == nil {
		return ctx, func() {}
	}
	return one.ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, id)
		one.cancel()
	}
}

func (b *batches) cancel(ids []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if one := b.waiting[id]; one != nil {
			one.cancel()
		}
	}
}
