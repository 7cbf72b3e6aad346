// Package adapter serves programs that use the published Go types: an api.SchedulerAPI over gRPC. A message
// has the same bytes in both packages, so it is encoded with one and decoded with the other.
package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	monoceros "monoceros.io/clients/go"
	ours "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

// Scheduler is the scheduler at Target, for one RM. All fields except DialOptions have to be set.
type Scheduler struct {
	Target      string
	DialOptions []grpc.DialOption
	Patience    time.Duration // is how long registering and a change of configuration may take
	Failed      func(error)   // gets breaks, errors of callbacks, and why the client ended: nil after Stop
	client      *monoceros.Client
	callback    api.ResourceManagerCallback
}

func convert[T proto.Message](from proto.Message, to T) (T, error) {
	bytes, err := proto.Marshal(from)
	return to, errors.Join(err, proto.Unmarshal(bytes, to))
}

func (s *Scheduler) RegisterResourceManager(r *si.RegisterResourceManagerRequest, callback api.ResourceManagerCallback) (*si.RegisterResourceManagerResponse, error) {
	s.Stop()
	s.callback = callback
	callbacks := &monoceros.Callbacks{Predicate: s.predicate, Take: s.take, Preemption: s.preemption, Events: s.events, ContainerStates: s.states}
	if dumps, is := callback.(api.StateDumpPlugin); is {
		callbacks.StateDump = func(context.Context) ([]byte, error) {
			text, err := dumps.GetStateDump()
			return []byte(text), err
		}
	}
	client, err := monoceros.New(monoceros.Config{
		Target: s.Target, DialOptions: s.DialOptions, RM: r.RmID, PolicyGroup: r.PolicyGroup, Version: r.Version, Queues: r.Config,
		BuildInfo: r.BuildInfo, ExtraConfig: r.ExtraConfig, Remember: true, Handler: s, Callbacks: callbacks, Broken: s.Failed,
	})
	if err != nil {
		return nil, err
	}
	s.client = client
	go func() { s.Failed(client.Run(context.Background())) }()
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	if err := client.WaitRegistered(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &si.RegisterResourceManagerResponse{}, nil
}

func (s *Scheduler) UpdateNode(r *si.NodeRequest) error {
	m, err := convert(r, &ours.NodeRequest{})
	return errors.Join(err, s.client.Nodes(context.Background(), m.Nodes...))
}

func (s *Scheduler) UpdateApplication(r *si.ApplicationRequest) error {
	m, err := convert(r, &ours.ApplicationRequest{})
	ctx := context.Background()
	return errors.Join(err, s.client.AddApplications(ctx, m.New...), s.client.RemoveApplications(ctx, m.Remove...))
}

func (s *Scheduler) UpdateAllocation(r *si.AllocationRequest) error {
	m, err := convert(r, &ours.AllocationRequest{})
	ctx, releases := context.Background(), m.Releases.GetAllocationsToRelease()
	return errors.Join(err, s.client.Allocate(ctx, m.Allocations...), s.client.Release(ctx, releases...))
}

func (s *Scheduler) UpdateConfiguration(r *si.UpdateConfigurationRequest) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	m := &ours.UpdateConfigurationRequest{RmID: r.RmID, PolicyGroup: r.PolicyGroup, Config: r.Config, ExtraConfig: r.ExtraConfig}
	answer, err := mono.NewAdminServiceClient(s.client.Conn()).UpdateConfig(ctx, m)
	if err != nil || answer.Success {
		return err
	}
	return errors.New(answer.Reason)
}

// Stop leaves the session for the next registration; allocations keep running.
func (s *Scheduler) Stop() {
	if s.client != nil {
		s.client.Close()
	}
}

func (s *Scheduler) Nodes(m *ours.NodeResponse) {
	pass(s, m, &si.NodeResponse{}, s.callback.UpdateNode)
}

func (s *Scheduler) Applications(m *ours.ApplicationResponse) {
	pass(s, m, &si.ApplicationResponse{}, s.callback.UpdateApplication)
}

func (s *Scheduler) Allocations(m *ours.AllocationResponse) {
	pass(s, m, &si.AllocationResponse{}, s.callback.UpdateAllocation)
}

func pass[T proto.Message](s *Scheduler, from proto.Message, to T, call func(T) error) {
	to, err := convert(from, to)
	if err := errors.Join(err, call(to)); err != nil {
		s.Failed(err)
	}
}

func (s *Scheduler) predicate(q monoceros.Question) (bool, string) {
	args := si.PredicatesArgs{AllocationKey: q.Allocation, NodeID: q.Node, Allocate: q.Allocate}
	if err := s.callback.Predicates(&args); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// take passes an allocation to the callback before the next question. One that it cannot take is withdrawn.
func (s *Scheduler) take(one *ours.Allocation) error {
	placed, err := convert(one, &si.Allocation{})
	return errors.Join(err, s.callback.UpdateAllocation(&si.AllocationResponse{New: []*si.Allocation{placed}}))
}

func (s *Scheduler) preemption(_ context.Context, q monoceros.Preemption) monoceros.Eviction {
	answer := s.callback.PreemptionPredicates(&si.PreemptionPredicatesArgs{
		AllocationKey: q.Allocation, NodeID: q.Node, PreemptAllocationKeys: q.Victims, StartIndex: int32(q.Start),
	})
	return monoceros.Eviction{Fits: answer.GetSuccess(), Last: int(answer.GetIndex())}
}

func (s *Scheduler) events(events []*ours.EventRecord, _ uint64) {
	all := make([]*si.EventRecord, len(events))
	for at, one := range events {
		all[at], _ = convert(one, &si.EventRecord{})
	}
	s.callback.SendEvent(all)
}

func (s *Scheduler) states(states []*ours.UpdateContainerSchedulingStateRequest) {
	for _, one := range states {
		state, _ := convert(one, &si.UpdateContainerSchedulingStateRequest{})
		s.callback.UpdateContainerSchedulingState(state)
	}
}
