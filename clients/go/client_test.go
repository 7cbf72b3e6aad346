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

// valid returns a configuration that New accepts.
func valid() Config {
	return Config{Target: "127.0.0.1:1", RM: "rm", State: nothing, Handler: &listener{}}
}

// made makes a client that ends with the test.
func made(t *testing.T, config Config) *Client {
	t.Helper()
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	yes := func(Question) (bool, string) { return true, "" }
	for field, spoil := range map[string]func(*Config){
		"Target":             func(c *Config) { c.Target = " " },
		"OtherAddresses has": func(c *Config) { c.OtherAddresses = []string{"a:1", ""} },
		"OtherAddresses `":   func(c *Config) { c.OtherAddresses = []string{"dns://%zz/"} },
		"RM is e":            func(c *Config) { c.RM = "" },
		"RM is \"":           func(c *Config) { c.RM = "a\nb" },
		"Instance":           func(c *Config) { c.Instance = "ä" },
		"State":              func(c *Config) { c.State = nil },
		"both set":           func(c *Config) { c.Remember = true },
		"Remember":           func(c *Config) { c.State, c.Remember, c.Attach, c.Instance = nil, true, true, "i" },
		"Handler":            func(c *Config) { c.Handler = nil },
		"Attach":             func(c *Config) { c.Attach = true },
		"MaxMessage":         func(c *Config) { c.MaxMessage = 1000 },
		"written":            func(c *Config) { c.Queues = "\xff" },
		"Judge": func(c *Config) {
			c.Callbacks = &Callbacks{Predicate: yes, Judge: func(context.Context, Question) Answer { return Answer{} }}
		},
		"Holds": func(c *Config) { c.Callbacks = &Callbacks{Holds: true} },
		"Preemption": func(c *Config) {
			c.Callbacks = &Callbacks{Preemption: func(context.Context, Preemption) Eviction { return Eviction{} }}
		},
		"Take needs": func(c *Config) { c.Callbacks = &Callbacks{Take: func(*si.Allocation) error { return nil }} },
		"Take and": func(c *Config) {
			c.State, c.Remember = nil, true
			c.Callbacks = &Callbacks{
				Take: func(*si.Allocation) error { return nil }, Confirm: func(Placement) *Refusal { return nil },
			}
		},
		"Members":   func(c *Config) { c.Callbacks = &Callbacks{Members: func(Bundle) {}} },
		"Scope":     func(c *Config) { c.Callbacks = &Callbacks{Scope: mono.Scope_SCOPE_NODE} },
		"Elsewhere": func(c *Config) { c.Callbacks = &Callbacks{Elsewhere: func(Question) *mono.Elsewhere { return nil }} },
		"without View": func(c *Config) {
			c.Callbacks = &Callbacks{Predicate: yes, Elsewhere: func(Question) *mono.Elsewhere { return nil }}
		},
	} {
		config := valid()
		spoil(&config)
		if client, err := New(config); client != nil || err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	config := valid()
	config.Target = "dns://%zz/"
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "Config.Target `dns://%zz/`") {
		t.Errorf("an address that gRPC refuses: %v", err)
	}
}

func TestASecondRunFailsAtOnce(t *testing.T) {
	service := &fake{breaks: func() bool { return false }}
	client := running(t, Config{Target: service.start(t), Handler: &listener{}, State: nothing})
	if err := client.WaitRegistered(during(t)); err != nil {
		t.Fatal(err)
	}
	if err := client.Run(during(t)); err != ErrRunning {
		t.Error(err)
	}
}

func TestCallsAfterCloseReturnErrEnded(t *testing.T) {
	client := made(t, valid())
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	for what, err := range map[string]error{
		"Run":            client.Run(during(t)),
		"Nodes":          client.Nodes(during(t), &si.NodeInfo{}),
		"WaitRegistered": client.WaitRegistered(during(t)),
		"Deregister":     client.Deregister(during(t), ""),
	} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	service := &fake{breaks: func() bool { return false }}
	client = made(t, Config{Target: service.start(t), RM: "rm", Handler: &listener{}, State: nothing})
	ended := make(chan error, 1)
	go func() { ended <- client.Run(context.Background()) }()
	if err := client.WaitRegistered(during(t)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := received(t, "the end of Run", ended); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestWithoutASchedulerTheReasonIsNamed(t *testing.T) {
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := valid()
	config.Target = listening.Addr().String()
	listening.Close()
	var broken atomic.Value
	config.Broken = func(err error) { broken.Store(err) }
	config.Pause = time.Millisecond
	client := made(t, config)

	before, cancel := context.WithTimeout(during(t), time.Millisecond)
	defer cancel()
	if err := client.WaitRegistered(before); !errors.Is(err, ErrNotRunning) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before Run: %v", err)
	}
	ctx, stop := context.WithCancel(during(t))
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	eventually(t, "Broken is called", func() bool { return broken.Load() != nil })
	waiting, cancel := context.WithTimeout(during(t), time.Millisecond)
	defer cancel()
	waited := client.WaitRegistered(waiting)
	stop()
	for what, err := range map[string]error{
		"Broken":         broken.Load().(error),
		"WaitRegistered": waited,
		"Run":            received(t, "the end of Run", ended),
	} {
		var end *Error
		if !errors.As(err, &end) || end.Op != "register" || status.Code(end) != codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
		if !strings.Contains(fmt.Sprint(err), "connection refused") {
			t.Errorf("%s does not say why: %v", what, err)
		}
		expected := map[string]error{"WaitRegistered": context.DeadlineExceeded, "Run": context.Canceled}[what]
		if expected != nil && !errors.Is(err, expected) {
			t.Errorf("%s is no %v: %v", what, expected, err)
		}
	}
	if err := client.Nodes(during(t), &si.NodeInfo{}); !errors.Is(err, ErrEnded) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call after Run: %v", err)
	}
}

func TestACancelledCallReturnsTheErrorOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	end := endOf(ctx, "register", status.Error(codes.Canceled, "text"), nil)
	if !errors.Is(end, context.Canceled) || status.Code(end) != codes.Canceled {
		t.Error(end)
	}
	end = endOf(context.Background(), "register", status.Error(codes.Canceled, "text"), nil)
	if errors.Is(end, context.Canceled) {
		t.Errorf("the scheduler has cancelled it: %v", end)
	}
}

func TestAStateThatCannotBeSentEndsRun(t *testing.T) {
	failure := errors.New("the database is away")
	for what, one := range map[string]struct {
		state    *State
		err      error
		expected error
	}{
		"neither state nor error": {nil, nil, ErrState},
		"error":                   {nil, failure, failure},
		"no node":                 {&State{Nodes: []*si.NodeInfo{{}, nil}}, nil, ErrNil},
		"no application":          {&State{Applications: []*si.AddApplicationRequest{nil}}, nil, ErrNil},
		"no allocation":           {&State{Allocations: []*si.Allocation{nil}}, nil, ErrNil},
	} {
		service := &fake{breaks: func() bool { return false }}
		client := made(t, Config{
			Target: service.start(t), RM: "rm", Handler: &listener{},
			State: func(context.Context) (*State, error) { return one.state, one.err },
		})
		if err := client.Run(during(t)); !errors.Is(err, ErrState) || !errors.Is(err, one.expected) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnUnsendableItemDoesNotBlockOthers(t *testing.T) {
	service := &fake{breaks: func() bool { return false }}
	handler := &listener{}
	large := strings.Repeat("x", 10_000)
	client := running(t, Config{
		Target: service.start(t), Handler: handler, MaxMessage: 5000,
		State: func(context.Context) (*State, error) {
			return &State{
				Nodes: []*si.NodeInfo{
					{NodeID: "n1"}, {NodeID: "n2", Attributes: map[string]string{"rack": large}},
				},
				Applications: []*si.AddApplicationRequest{
					{ApplicationID: "x"}, {ApplicationID: "y", QueueName: "\xff"},
				},
				Allocations: []*si.Allocation{ask("a"), {AllocationKey: "b", ApplicationID: large}},
			}, nil
		},
	})
	// Items sent before the call of State would be part of it.
	if err := client.WaitRegistered(during(t)); err != nil {
		t.Fatal(err)
	}
	err := client.Allocate(during(t), ask("c"),
		&si.Allocation{AllocationKey: "d", ApplicationID: "x", PartitionName: large}, ask("e"),
		&si.Allocation{AllocationKey: "f", PartitionName: "\xff"}, ask("g"))
	var item *ItemError
	if !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrUnwritable) || !errors.As(err, &item) ||
		item.Item != "allocation `d` of application `x`" || !strings.Contains(err.Error(), "may have 5000") {
		t.Error(err)
	}
	if err := client.Release(during(t), gone("a"), nil); !errors.Is(err, ErrNil) ||
		!strings.Contains(err.Error(), "item 2 of 2 of Release") {
		t.Error(err)
	}
	if err := client.Flush(during(t)); err != nil {
		t.Fatal(err)
	}
	service.mu.Lock()
	effects := fmt.Sprint(service.effects)
	service.mu.Unlock()
	expected := "[node n1 application x node n1 allocation a allocation c allocation e allocation g]"
	if effects != expected {
		t.Errorf("%s, expected %s", effects, expected)
	}
	for _, one := range []string{"no node n2: ", "no application y: ", "no allocation b: "} {
		eventually(t, one, func() bool {
			for _, line := range handler.all() {
				if strings.HasPrefix(line, one) {
					return strings.HasSuffix(line, "[C_TOO_LARGE]") != strings.HasSuffix(line, "[C_UNWRITABLE]")
				}
			}
			return false
		})
	}
}

func TestEachRegistrationIsReported(t *testing.T) {
	service := &fake{breaks: func() bool { return false }}
	registrations := make(chan Registration, 8)
	client := running(t, Config{
		Target: service.start(t), Handler: &listener{}, State: nothing,
		Registered: func(r Registration) { registrations <- r },
	})
	if seen := received(t, "registration", registrations); seen != (Registration{Session: "1", Outcome: "new"}) {
		t.Errorf("%+v", seen)
	}
	if err := client.WaitRegistered(during(t)); err != nil {
		t.Fatal(err)
	}
	service.mu.Lock()
	service.session += 10
	broken := service.broken
	service.broken = make(chan struct{})
	close(broken)
	service.mu.Unlock()
	if seen := received(t, "registration", registrations); seen.Session != "12" {
		t.Errorf("%+v", seen)
	}
}

func TestARefusedDeregistrationEndsNothing(t *testing.T) {
	service := &fake{breaks: func() bool { return false }}
	client := running(t, Config{Target: service.start(t), Handler: &listener{}, State: nothing})
	err := client.Deregister(during(t), "")
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "deregister") {
		t.Error(err)
	}
	if client.life.gone(true) {
		t.Error("a session that is lost would not be registered again")
	}
	if err := client.Nodes(during(t), &si.NodeInfo{NodeID: "n"}); err != nil {
		t.Error(err)
	}
	if err := client.Flush(during(t)); err != nil {
		t.Error(err)
	}
}

// agreeable is an administrator's service that accepts a deregistration, and ends no stream.
type agreeable struct {
	mono.UnimplementedAdminServiceServer
	asked chan *mono.DeregisterResourceManagerRequest
}

func (a *agreeable) DeregisterResourceManager(_ context.Context, r *mono.DeregisterResourceManagerRequest) (*mono.DeregisterResourceManagerResponse, error) {
	a.asked <- r
	return &mono.DeregisterResourceManagerResponse{}, nil
}

func TestADeregistrationEndsRunAlsoIfNoStreamEnds(t *testing.T) {
	service := &fake{breaks: func() bool { return false }}
	service.broken, service.news = make(chan struct{}), make(chan struct{})
	admin := &agreeable{asked: make(chan *mono.DeregisterResourceManagerRequest, 1)}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	scheduler.RegisterSchedulerServer(server, service)
	mono.RegisterAdminServiceServer(server, admin)
	go server.Serve(listening)
	t.Cleanup(server.Stop)
	client := made(t, Config{Target: listening.Addr().String(), RM: "rm", Handler: &listener{}, State: nothing})
	ended := make(chan error, 1)
	go func() { ended <- client.Run(context.Background()) }()
	if err := client.Deregister(during(t), "moved"); err != nil {
		t.Error(err)
	}
	if asked := received(t, "the call", admin.asked); asked.RmId != "rm" || asked.SessionId != 1 || asked.Reason != "moved" {
		t.Error(asked)
	}
	if err := received(t, "the end of Run", ended); err != nil {
		t.Error(err)
	}
}

func TestALostSessionIsLeftOnlyIfItIsOver(t *testing.T) {
	l := newLife()
	if l.gone(true) || l.hasLeft() {
		t.Error("nobody has left")
	}
	l.leave(true)
	if !l.gone(false) || l.hasLeft() {
		t.Error("the session is not known to be over")
	}
	end := l.deregister()
	if l.gone(false) || l.hasLeft() {
		t.Error("Deregister needs another session")
	}
	end()
	if !l.gone(true) || !l.hasLeft() {
		t.Error("the session is over")
	}
}

func TestRunJoinsTheLastConnectionError(t *testing.T) {
	l := newLife()
	refused, cut := errors.New("connection refused"), errors.New("cut short")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.over(ctx, cut); !errors.Is(err, cut) || !errors.Is(err, context.Canceled) {
		t.Errorf("the first attempt: %v", err)
	}
	l.broke(refused)
	if err := l.over(ctx, cut); !errors.Is(err, refused) || errors.Is(err, cut) {
		t.Errorf("a later attempt: %v", err)
	}
	l.connected()
	if err := l.over(ctx, cut); err != context.Canceled {
		t.Errorf("while it was connected: %v", err)
	}
}
