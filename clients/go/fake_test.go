package monoceros

import (
	"context"
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
	scheduler "monoceros.io/clients/go/si/v1/scheduler"
)

// fake is a scheduler that acknowledges requests in the order of their numbers, answers each item, and ends
// all streams on demand.
type fake struct {
	scheduler.UnimplementedSchedulerServer
	// breaks reports whether to break before the present request.
	breaks func() bool
	// admit decides about a registration, if it is set: what the answer has besides the session, or a
	// refusal.
	admit func(context.Context, metadata.MD) (metadata.MD, error)
	// beat is the distance of beats that is announced, and beats makes one.
	beat  string
	beats chan struct{}
	// verdict is the end of streams that break; refuses is the reason for which streams are refused, and
	// hangs leaves them without headers.
	verdict func(grpc.ServerStream) error
	refuses string
	hangs   bool
	hung    atomic.Int32
	// streams has the metadata of the streams that were opened, with their kinds.
	streams []metadata.MD

	mu      sync.Mutex
	session int
	taken   uint64
	held    map[uint64]proto.Message
	effects []string
	replies [kinds][]proto.Message
	acked   [kinds]uint64
	repeats int
	broken  chan struct{}
	news    chan struct{}
}

func (f *fake) RegisterResourceManager(ctx context.Context, _ *si.RegisterResourceManagerRequest) (*si.RegisterResourceManagerResponse, error) {
	var header metadata.MD
	if f.admit != nil {
		shown, _ := metadata.FromIncomingContext(ctx)
		var err error
		if header, err = f.admit(ctx, shown); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session++
	if given := header.Get("x-si-session"); given != nil {
		f.session, _ = strconv.Atoi(given[0])
		header.Delete("x-si-session")
	}
	f.taken, f.held, f.effects = 0, map[uint64]proto.Message{}, nil
	f.replies, f.acked = [kinds][]proto.Message{}, [kinds]uint64{}
	header = metadata.Join(header, metadata.Pairs("x-si-session", strconv.Itoa(f.session), "x-si-registered", "new"))
	return &si.RegisterResourceManagerResponse{}, grpc.SetHeader(ctx, header)
}

func (f *fake) UpdateNode(stream scheduler.Scheduler_UpdateNodeServer) error {
	return f.serve(stream, nodes)
}

func (f *fake) UpdateApplication(stream scheduler.Scheduler_UpdateApplicationServer) error {
	return f.serve(stream, applications)
}

func (f *fake) UpdateAllocation(stream scheduler.Scheduler_UpdateAllocationServer) error {
	return f.serve(stream, allocations)
}

func number(md metadata.MD, key string) uint64 {
	n, err := strconv.ParseUint(first(md, key), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// refused returns a status with a reason.
func refused(stream grpc.ServerStream, code codes.Code, reason string) error {
	stream.SetTrailer(metadata.Pairs(reasonTrailer, reason))
	return status.Error(code, reason)
}

func (f *fake) serve(stream grpc.ServerStream, k kind) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if f.hangs {
		f.hung.Add(1)
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	if f.refuses != "" {
		return refused(stream, codes.FailedPrecondition, f.refuses)
	}
	f.mu.Lock()
	if first(md, "x-si-session") != strconv.Itoa(f.session) {
		f.mu.Unlock()
		return refused(stream, codes.FailedPrecondition, "SESSION_STALE")
	}
	if known := number(md, "x-si-client-seq"); known > f.taken {
		f.mu.Unlock()
		return refused(stream, codes.Aborted, "SEQUENCE_GAP")
	}
	next, broken := number(md, "x-si-resume"), f.broken
	header := metadata.Pairs("x-si-taken-seq", strconv.FormatUint(f.taken, 10))
	var beats chan struct{}
	if first(md, "x-si-beat") == "yes" && f.beat != "" {
		header.Set("x-si-beat", f.beat)
		beats = f.beats
	}
	f.streams = append(f.streams, metadata.Join(md, metadata.Pairs("kind", k.String())))
	f.mu.Unlock()
	if err := stream.SendHeader(header); err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		for {
			request := newRequest(k, time.Time{}).message
			if err := stream.RecvMsg(request); err != nil {
				read <- err
				return
			}
			f.arrive(k, request, broken)
		}
	}()
	told := uint64(0)
	for {
		f.mu.Lock()
		news := f.news
		var reply proto.Message
		if at := int(next); at < len(f.replies[k]) {
			reply = proto.Clone(f.replies[k][at])
			next++
		} else if f.taken > told {
			reply = emptyReply(k)
		}
		taken := f.taken
		f.mu.Unlock()
		if reply != nil {
			setTaken(reply, taken)
			told = taken
			if err := stream.SendMsg(reply); err != nil {
				return err
			}
			continue
		}
		select {
		case <-news:
		case <-beats:
			if err := stream.SendMsg(emptyReply(k)); err != nil {
				return err
			}
		case <-broken:
			if f.verdict != nil {
				return f.verdict(stream)
			}
			return status.Error(codes.Unavailable, "broken")
		case err := <-read:
			return err
		}
	}
}

func emptyReply(k kind) proto.Message {
	return [kinds]proto.Message{
		&si.NodeResponse{}, &si.ApplicationResponse{}, &si.AllocationResponse{},
	}[k]
}

func setTaken(reply proto.Message, taken uint64) {
	switch m := reply.(type) {
	case *si.NodeResponse:
		m.TakenSeq = taken
	case *si.ApplicationResponse:
		m.TakenSeq = taken
	case *si.AllocationResponse:
		m.TakenSeq = taken
	}
}

// arrive acknowledges a request after those before it, unless the streams break now.
func (f *fake) arrive(k kind, request proto.Message, broken chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != broken {
		return
	}
	r := request.(interface {
		proto.Message
		GetClientSeq() uint64
		GetAckSeq() uint64
	})
	if f.breaks() {
		f.broken = make(chan struct{})
		close(broken)
		// Requests out of order are lost with the connection.
		clear(f.held)
		return
	}
	f.acked[k] = max(f.acked[k], r.GetAckSeq())
	if r.GetClientSeq() == 0 {
		return
	}
	if r.GetClientSeq() <= f.taken {
		return
	}
	f.held[r.GetClientSeq()] = r
	for ; f.held[f.taken+1] != nil; f.taken++ {
		f.take(f.held[f.taken+1])
		delete(f.held, f.taken+1)
	}
	close(f.news)
	f.news = make(chan struct{})
}

func (f *fake) take(request proto.Message) {
	switch m := request.(type) {
	case *si.NodeRequest:
		reply := &si.NodeResponse{Seq: uint64(len(f.replies[nodes]) + 1)}
		for _, one := range m.Nodes {
			f.effects = append(f.effects, "node "+one.NodeID)
			reply.Accepted = append(reply.Accepted, &si.AcceptedNode{NodeID: one.NodeID})
		}
		f.replies[nodes] = append(f.replies[nodes], reply)
	case *si.ApplicationRequest:
		reply := &si.ApplicationResponse{Seq: uint64(len(f.replies[applications]) + 1)}
		for _, one := range m.New {
			f.effects = append(f.effects, "application "+one.ApplicationID)
			reply.Accepted = append(reply.Accepted, &si.AcceptedApplication{ApplicationID: one.ApplicationID})
		}
		f.replies[applications] = append(f.replies[applications], reply)
	case *si.AllocationRequest:
		reply := &si.AllocationResponse{Seq: uint64(len(f.replies[allocations]) + 1)}
		for _, one := range m.Allocations {
			f.effects = append(f.effects, "allocation "+one.AllocationKey)
			reply.New = append(reply.New, one)
		}
		for _, one := range m.Releases.GetAllocationsToRelease() {
			f.effects = append(f.effects, "release "+one.AllocationKey)
			reply.Released = append(reply.Released, one)
		}
		f.replies[allocations] = append(f.replies[allocations], reply)
	}
}

// start serves on a port, and returns its address.
func (f *fake) start(t *testing.T) string {
	t.Helper()
	address, _ := f.startAt(t, "127.0.0.1:0", func(*grpc.Server) {})
	return address
}

// startAt serves at an address, with further services. It returns a function that ends the server, also.
func (f *fake) startAt(t *testing.T, address string, add func(*grpc.Server), options ...grpc.ServerOption) (string, func()) {
	t.Helper()
	f.held, f.broken, f.news = map[uint64]proto.Message{}, make(chan struct{}), make(chan struct{})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	scheduler.RegisterSchedulerServer(server, f)
	add(server)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String(), server.Stop
}

// listener records the messages it receives.
type listener struct {
	mu    sync.Mutex
	lines []string
}

func (l *listener) note(lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, lines...)
}

func (l *listener) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.lines...)
}

func (l *listener) Nodes(m *si.NodeResponse) {
	for _, one := range m.Accepted {
		l.note("node " + one.NodeID)
	}
	for _, one := range m.Rejected {
		l.note("no node " + one.NodeID + ": " + one.Reason)
	}
}

func (l *listener) Applications(m *si.ApplicationResponse) {
	for _, one := range m.Accepted {
		l.note("application " + one.ApplicationID)
	}
	for _, one := range m.Rejected {
		l.note("no application " + one.ApplicationID + ": " + one.Reason)
	}
}

func (l *listener) Allocations(m *si.AllocationResponse) {
	for _, one := range m.New {
		l.note("allocation " + one.AllocationKey)
	}
	for _, one := range m.Released {
		l.note("release " + one.AllocationKey)
	}
	for _, one := range m.RejectedAllocations {
		l.note("no allocation " + one.AllocationKey + ": " + one.Reason)
	}
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func nothing(context.Context) (*State, error) { return &State{}, nil }

// running runs a client until the test is over.
func running(t *testing.T, config Config) *Client {
	t.Helper()
	config.Pause, config.MaxPause = time.Millisecond, 20*time.Millisecond
	return runningWith(t, config, func(*Client) {})
}

// runningWith runs a client, with changes of what programs cannot set.
func runningWith(t *testing.T, config Config, change func(*Client)) *Client {
	t.Helper()
	if config.RM == "" {
		config.RM = "rm"
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	change(client)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return client
}

func TestRequestsTakeEffectOnceAndInOrderOverBreaks(t *testing.T) {
	dice, breaks := rand.New(rand.NewSource(12)), rand.New(rand.NewSource(34))
	service, broken := &fake{}, 0
	service.breaks = func() bool {
		if breaks.Intn(150) == 0 {
			broken++
			return true
		}
		return false
	}
	handler, began := &listener{}, make(chan struct{})
	client := running(t, Config{
		Target: service.start(t), Handler: handler,
		State: func(context.Context) (*State, error) {
			close(began)
			return &State{}, nil
		},
	})
	<-began
	var said []string
	for at := 0; at < 10_000; at++ {
		name, ctx := fmt.Sprint(at), during(t)
		var what string
		var err error
		switch dice.Intn(6) {
		case 0:
			what, err = "node ", client.Nodes(ctx, &si.NodeInfo{NodeID: name})
		case 1:
			what, err = "application ", client.AddApplications(ctx, &si.AddApplicationRequest{ApplicationID: name})
		case 2:
			what, err = "release ", client.Release(ctx, gone(name))
		default:
			what, err = "allocation ", client.Allocate(ctx, ask(name))
		}
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, what+name)
	}
	if err := client.Flush(during(t)); err != nil {
		t.Fatal(err)
	}
	service.mu.Lock()
	effects := service.effects
	service.mu.Unlock()
	if fmt.Sprint(effects) != fmt.Sprint(said) {
		t.Fatalf("%d effects of %d, or in another order", len(effects), len(said))
	}
	eventually(t, "all is received", func() bool { return len(handler.all()) >= len(said) })
	seen := map[string]int{}
	for _, one := range handler.all() {
		seen[one]++
	}
	for _, one := range said {
		if seen[one] != 1 {
			t.Fatalf("%s was received %d times", one, seen[one])
		}
	}
	eventually(t, "everything is acknowledged", func() bool {
		service.mu.Lock()
		defer service.mu.Unlock()
		for k := kind(0); k < kinds; k++ {
			if service.acked[k] != uint64(len(service.replies[k])) {
				return false
			}
		}
		return true
	})
	service.mu.Lock()
	defer service.mu.Unlock()
	if broken < 10 {
		t.Errorf("only %d breaks", broken)
	}
}

func TestALostSessionIsRestoredFromTheState(t *testing.T) {
	service := &fake{breaks: func() bool { return false }}
	handler, sessions := &listener{}, 0
	client := running(t, Config{
		Target: service.start(t), Handler: handler,
		State: func(context.Context) (*State, error) {
			sessions++
			node := &si.NodeInfo{NodeID: fmt.Sprint("n", sessions), Action: si.NodeInfo_CREATE}
			return &State{Nodes: []*si.NodeInfo{node}}, nil
		},
	})
	eventually(t, "the first session", func() bool { return len(handler.all()) == 2 })
	service.mu.Lock()
	service.session += 10
	broken := service.broken
	service.broken = make(chan struct{})
	close(broken)
	service.mu.Unlock()
	eventually(t, "the second session", func() bool { return len(handler.all()) == 4 })
	if err := client.Nodes(during(t), &si.NodeInfo{NodeID: "later"}); err != nil {
		t.Fatal(err)
	}
	if err := client.Flush(during(t)); err != nil {
		t.Fatal(err)
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	if seen := fmt.Sprint(service.effects); seen != "[node n2 node n2 node later]" {
		t.Error(seen)
	}
}

func TestAnOlderSchedulerIsReported(t *testing.T) {
	service := &unnumbered{}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	scheduler.RegisterSchedulerServer(server, service)
	go server.Serve(listening)
	defer server.Stop()
	client, err := New(Config{
		Target: listening.Addr().String(), RM: "rm", State: nothing, Handler: &listener{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Run(during(t)); err != errNumbers {
		t.Error(err)
	}
}

// unnumbered is a scheduler that does not number requests.
type unnumbered struct {
	scheduler.UnimplementedSchedulerServer
}

func (*unnumbered) RegisterResourceManager(ctx context.Context, _ *si.RegisterResourceManagerRequest) (*si.RegisterResourceManagerResponse, error) {
	return &si.RegisterResourceManagerResponse{}, grpc.SetHeader(ctx, metadata.Pairs("x-si-session", "1"))
}

func (*unnumbered) UpdateNode(stream scheduler.Scheduler_UpdateNodeServer) error {
	return wait(stream)
}

func (*unnumbered) UpdateApplication(stream scheduler.Scheduler_UpdateApplicationServer) error {
	return wait(stream)
}

func (*unnumbered) UpdateAllocation(stream scheduler.Scheduler_UpdateAllocationServer) error {
	return wait(stream)
}

func wait(stream grpc.ServerStream) error {
	err := stream.SendHeader(nil)
	<-stream.Context().Done()
	return err
}

// during is a context that ends with the test, before what the test has started is cleaned up.
func during(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx
}

// received returns the next value of a channel, which must arrive within 30 seconds.
func received[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case one := <-from:
		return one
	case <-time.After(30 * time.Second):
		t.Fatalf("not within 30 s: %s", what)
		panic("unreachable")
	}
}
