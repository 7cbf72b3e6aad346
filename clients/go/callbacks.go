package monoceros

import (
	"context"
	"fmt"

	mono "monoceros.io/clients/go/v1"
)

// Callbacks answers what the scheduler asks. Its functions are called one at a time.
type Callbacks struct {
	// Predicate says whether a request may run on a node, and if not, why.
	Predicate func(Question) (fits bool, reason string)
	// Scope is what the answers depend on: on nothing that changes, on what runs on the node, or on
	// what runs anywhere, which is so if it is not set.
	Scope mono.Scope
	// Elsewhere says which topics, numbers of the program's own choice, an answer depends on beside
	// its own node, and which the request affects on other nodes. It counts where Scope is the
	// topology and there is a View. Without it, and where it returns nil, that is everything.
	Elsewhere func(Question) *mono.Elsewhere
	// View follows what the scheduler places, so that answers are about the cluster as it will be.
	// Without it nothing is placed between two answers that depend on everything.
	View View
	// Members is told where the other members of a gang are to be, before it is asked about one.
	Members func(Bundle)
}

// Question is about one request and one node.
type Question struct {
	Application, Allocation, Node string
	// Allocate is false where something has to leave the node first, which is not to be counted.
	Allocate bool
	// Bundle is the gang that is decided with it as a whole, or zero.
	Bundle uint64
}

// View is how the program sees what runs where.
type View interface {
	// Assume counts an allocation as running on its node.
	Assume(Placement)
	// Forget counts it no more.
	Forget(Placement)
	// Reset lists all that the scheduler has placed and was not told by the program itself: what else
	// is assumed is not there.
	Reset([]Placement)
}

// Placement is an allocation on a node. Two applications may use the same name for an allocation.
// Node is empty in what is to be forgotten.
type Placement struct{ Application, Allocation, Node string }

// Bundle says where members of a gang are to be; a member that was told before has moved.
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
}

// callbacks is one stream of questions.
type callbacks struct {
	Callbacks
	stream mono.CallbackService_AttachClient
	// names of the nodes by the numbers that the scheduler gave them.
	names map[uint32]string
	// listed are the placements of a list that is not complete.
	listed []Placement
	// applied is the number of the last change of the view.
	applied uint64
}

// attach opens the stream of questions, which is there before anything is asked for. It returns what
// has to run until the session ends.
func (c *Client) attach(ctx context.Context) ([]func(context.Context) error, error) {
	session, err := sessionNumber(c.session)
	if err != nil {
		return nil, err
	}
	stream, err := mono.NewCallbackServiceClient(c.conn).Attach(c.outgoing(ctx))
	if err != nil {
		return nil, endOf(ctx, "callback stream", err, nil)
	}
	a := &callbacks{Callbacks: *c.config.Callbacks, stream: stream, names: map[uint32]string{}}
	hello := &mono.Hello{RmId: c.config.RM, SessionId: session, InstanceId: c.config.Instance}
	if a.Predicate != nil {
		hello.Capabilities = append(hello.Capabilities, mono.Capability_PREDICATES)
	}
	if a.View != nil {
		hello.Capabilities = append(hello.Capabilities, mono.Capability_CACHE_SYNC)
	}
	// A stream that does not take it says why when it is read.
	_ = stream.Send(&mono.ShimMessage{Body: &mono.ShimMessage_Hello{Hello: hello}})
	welcome, err := stream.Recv()
	if err != nil {
		return nil, endOf(ctx, "callback stream", err, stream.Trailer())
	}
	if welcome.GetWelcome() == nil {
		return nil, fmt.Errorf("monoceros: the first message of the stream of questions is no welcome")
	}
	heard := make(chan *mono.CoreMessage, 16)
	hear := func(ctx context.Context) error {
		for {
			message, err := stream.Recv()
			if err != nil {
				return endOf(ctx, "callback stream", err, stream.Trailer())
			}
			select {
			case heard <- message:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	answer := func(ctx context.Context) error {
		for {
			select {
			case message := <-heard:
				if answer := a.answer(message); answer != nil && stream.Send(answer) != nil {
					// Whoever hears knows why.
					<-ctx.Done()
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return []func(context.Context) error{hear, answer}, nil
}

// answer deals with one message, in the order of the stream.
func (a *callbacks) answer(message *mono.CoreMessage) *mono.ShimMessage {
	switch body := message.GetBody().(type) {
	case *mono.CoreMessage_PredicateBatch:
		results := &mono.PredicateResults{
			BatchId: body.PredicateBatch.GetBatchId(), CacheSeq: a.applied, Last: true,
		}
		for _, query := range body.PredicateBatch.GetQueries() {
			results.Results = append(results.Results, a.result(query))
		}
		return &mono.ShimMessage{Body: &mono.ShimMessage_PredicateResults{PredicateResults: results}}
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
		if a.View != nil {
			a.sync(body.CacheSync)
		}
	case *mono.CoreMessage_BundlePlaces:
		if a.Members != nil {
			a.Members(a.bundle(body.BundlePlaces))
		}
	case *mono.CoreMessage_Heartbeat:
		if body.Heartbeat.GetReply() {
			beat := &mono.Heartbeat{Nonce: body.Heartbeat.GetNonce(), CacheSeq: a.applied}
			return &mono.ShimMessage{Body: &mono.ShimMessage_Heartbeat{Heartbeat: beat}}
		}
	}
	return nil
}

// result looks at the nodes of a question in their order, until one passes.
func (a *callbacks) result(query *mono.PredicateQuery) *mono.PredicateResult {
	result := &mono.PredicateResult{
		QueryId: query.GetQueryId(), Outcome: mono.Outcome_EVALUATED, Scope: a.Scope,
	}
	if a.Predicate == nil {
		result.Outcome, result.Error = mono.Outcome_ERROR, "no predicates"
		return result
	}
	failures := map[string]*mono.FailureGroup{}
	for at, index := range query.GetNodeIndex() {
		question := Question{
			Application: query.GetApplicationId(), Allocation: query.GetAllocationKey(),
			Node: a.names[index], Allocate: query.GetAllocate(), Bundle: query.GetBundleId(),
		}
		result.Evaluated++
		fits, reason := a.Predicate(question)
		if fits {
			result.PassBitmap = set(result.PassBitmap, at)
			if a.Elsewhere != nil {
				result.Elsewhere = a.Elsewhere(question)
			}
			if query.GetAssume() && a.View != nil {
				a.View.Assume(Placement{question.Application, question.Allocation, question.Node})
			}
			break
		}
		group := failures[reason]
		if group == nil {
			group = &mono.FailureGroup{Reason: reason}
			failures[reason] = group
			result.Failures = append(result.Failures, group)
		}
		group.Count++
		group.FailBitmap = set(group.FailBitmap, at)
	}
	return result
}

// set sets a bit, least significant first.
func set(bits []byte, at int) []byte {
	for len(bits) <= at/8 {
		bits = append(bits, 0)
	}
	bits[at/8] |= 1 << (at % 8)
	return bits
}

func (a *callbacks) sync(sync *mono.CacheSync) {
	var assumed []Placement
	for _, one := range sync.GetArgs().GetAssumedAllocations() {
		assumed = append(assumed, Placement{
			one.GetApplicationID(), one.GetAllocationKey(), one.GetNodeID(),
		})
	}
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
	a.applied = max(a.applied, sync.GetCacheSeq())
}

func (a *callbacks) bundle(told *mono.BundlePlaces) Bundle {
	bundle := Bundle{ID: told.GetBundleId(), Application: told.GetApplicationId(), Over: told.GetOver()}
	for _, place := range told.GetPlaces() {
		bundle.Places = append(bundle.Places, Place{
			place.GetMember(), place.GetAllocationKey(), a.names[place.GetNodeIndex()],
		})
	}
	return bundle
}
