package monoceros

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	si "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

const queues = `
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
`

// service is a running scheduler.
type service struct {
	command *exec.Cmd
	address string
}

// startService starts the built scheduler, with settings in its environment. MONOCEROS is the path of the
// program; the default is the build directory.
func startService(t *testing.T, address string, settings ...string) *service {
	t.Helper()
	binary := os.Getenv("MONOCEROS")
	if binary == "" {
		binary = "../../target/debug/monoceros"
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("skipped: there is no service at %s; `cargo build` makes it", binary)
	}
	s := &service{command: exec.Command(binary, "serve", "--grpc", address, "--http", "127.0.0.1:0")}
	s.command.Env = append(os.Environ(), settings...)
	out, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		s.command.Stderr = os.Stderr
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, lines)
	for _, word := range strings.Fields(line) {
		if grpc, is := strings.CutPrefix(word, "grpc="); is {
			s.address = grpc
		}
	}
	return s
}

// kill ends the process at once; its state is lost.
func (s *service) kill() {
	s.command.Process.Kill()
	s.command.Wait()
}

func cores(n int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: n * 1000}}}
}

func node(name string, size int64) *si.NodeInfo {
	return &si.NodeInfo{NodeID: name, Action: si.NodeInfo_CREATE, SchedulableResource: cores(size)}
}

func application(name string) *si.AddApplicationRequest {
	return &si.AddApplicationRequest{
		ApplicationID: name, QueueName: "root.jobs", Ugi: &si.UserGroupInformation{User: "ada"},
	}
}

func task(key string) *si.Allocation {
	return &si.Allocation{AllocationKey: key, ApplicationID: "app", ResourcePerAlloc: cores(1)}
}

func stopped(key string) *si.AllocationRelease {
	return &si.AllocationRelease{
		ApplicationID: "app", AllocationKey: key, TerminationType: si.TerminationType_STOPPED_BY_RM,
	}
}

// cluster is a program that knows its state and records where allocations run.
type cluster struct {
	listener
	mu    sync.Mutex
	nodes []*si.NodeInfo
	tasks map[string]*si.Allocation
	// started counts how often each task was started.
	started map[string]int
}

func newCluster(nodes ...*si.NodeInfo) *cluster {
	return &cluster{nodes: nodes, tasks: map[string]*si.Allocation{}, started: map[string]int{}}
}

func (c *cluster) state(context.Context) (*State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := &State{Nodes: c.nodes, Applications: []*si.AddApplicationRequest{application("app")}}
	for _, one := range c.tasks {
		state.Allocations = append(state.Allocations, one)
	}
	return state, nil
}

// run adds a task to the state and then sends it.
func (c *cluster) run(t *testing.T, client *Client, key string) {
	t.Helper()
	c.mu.Lock()
	c.tasks[key] = task(key)
	c.mu.Unlock()
	if err := client.Allocate(during(t), task(key)); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) stop(t *testing.T, client *Client, key string) {
	t.Helper()
	c.mu.Lock()
	delete(c.tasks, key)
	c.mu.Unlock()
	if err := client.Release(during(t), stopped(key)); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) Allocations(m *si.AllocationResponse) {
	c.mu.Lock()
	for _, one := range m.New {
		if known := c.tasks[one.AllocationKey]; known != nil && known.NodeID == "" {
			running := task(one.AllocationKey)
			running.NodeID = one.NodeID
			c.tasks[one.AllocationKey] = running
			c.started[one.AllocationKey]++
		}
	}
	c.mu.Unlock()
	c.listener.Allocations(m)
}

func (c *cluster) running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var running []string
	for key, one := range c.tasks {
		if one.NodeID != "" {
			running = append(running, key+" "+one.NodeID)
		}
	}
	slices.Sort(running)
	return running
}

func TestARestartOfTheSchedulerIsInvisible(t *testing.T) {
	first := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 2), node("n2", 2))
	registrations := make(chan Registration, 8)
	client := running(t, Config{
		Target: first.address, Queues: queues, State: cluster.state, Handler: cluster,
		Registered: func(r Registration) { registrations <- r },
	})
	for _, key := range []string{"a", "b", "c", "d", "waits"} {
		cluster.run(t, client, key)
	}
	eventually(t, "four run", func() bool { return len(cluster.running()) == 4 })
	before := cluster.running()
	first.kill()
	startService(t, first.address)
	// The second scheduler has no free capacity until one of the reported tasks stops.
	cluster.stop(t, client, strings.Fields(before[0])[0])
	eventually(t, "the fifth runs", func() bool {
		now := cluster.running()
		return len(now) == 4 && fmt.Sprint(now) != fmt.Sprint(before)
	})
	one, other := received(t, "registration", registrations), received(t, "registration", registrations)
	if one.Outcome != "new" || other.Outcome != "new" || one.Scheduler == other.Scheduler {
		t.Errorf("the registration is not repeated with another scheduler: %+v, %+v", one, other)
	}
	for key, times := range cluster.started {
		if times != 1 {
			t.Errorf("%s was started %d times", key, times)
		}
	}
	for _, one := range cluster.running() {
		if !slices.Contains(before, one) && !slices.Contains([]string{"waits", "a", "b", "c", "d"}, strings.Fields(one)[0]) {
			t.Errorf("%s was elsewhere before", one)
		}
	}
}

// cutter is a proxy that cuts connections after some bytes in either direction.
func cutter(t *testing.T, target string, dice *rand.Rand) (string, func() int) {
	t.Helper()
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	cuts := 0
	t.Cleanup(func() { listening.Close() })
	go func() {
		for {
			theirs, err := listening.Accept()
			if err != nil {
				return
			}
			ours, err := net.Dial("tcp", target)
			if err != nil {
				theirs.Close()
				continue
			}
			pipe := func(to, from net.Conn, bytes int64) {
				io.CopyN(to, from, bytes)
				to.Close()
				from.Close()
				mu.Lock()
				cuts++
				mu.Unlock()
			}
			mu.Lock()
			// Queued answers are joined: the largest has to get through now and then.
			up, down := 1000+dice.Int63n(20_000), 1000+dice.Int63n(300_000)
			mu.Unlock()
			go pipe(ours, theirs, up)
			go pipe(theirs, ours, down)
		}
	}()
	return listening.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return cuts / 2
	}
}

func TestCutConnectionsNeitherLoseNorRepeatRequests(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	address, cuts := cutter(t, service.address, rand.New(rand.NewSource(34)))
	cluster := newCluster(node("n1", 1_000_000))
	sessions := 0
	client := running(t, Config{
		Target: address, Queues: queues, Handler: cluster,
		State: func(ctx context.Context) (*State, error) {
			sessions++
			return cluster.state(ctx)
		},
	})
	const tasks = 4000
	for at := 0; at < tasks; at++ {
		cluster.run(t, client, fmt.Sprint("t", at))
		if at%10 == 0 {
			// Small messages, on all streams.
			if err := client.Nodes(during(t), node(fmt.Sprint("n", at+2), 1)); err != nil {
				t.Fatal(err)
			}
			if err := client.Flush(during(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "all run", func() bool { return len(cluster.running()) == tasks })
	for at := 0; at < tasks; at++ {
		cluster.stop(t, client, fmt.Sprint("t", at))
	}
	released := func() map[string]int {
		seen := map[string]int{}
		for _, one := range cluster.all() {
			seen[one]++
		}
		return seen
	}
	eventually(t, "all is released", func() bool {
		seen := released()
		for at := 0; at < tasks; at++ {
			if seen[fmt.Sprint("release t", at)] == 0 {
				return false
			}
		}
		return true
	})
	for what, times := range released() {
		if times != 1 || strings.HasPrefix(what, "no ") {
			t.Errorf("%s: %d times", what, times)
		}
	}
	if sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
	if cuts() < 5 {
		t.Errorf("only %d cuts", cuts())
	}
	t.Logf("%d cuts", cuts())
}

// view counts the allocations on a node: the node by application and allocation.
type view struct {
	mu    sync.Mutex
	nodes map[[2]string]string
}

func (v *view) Assume(p Placement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.nodes[[2]string{p.Application, p.Allocation}] = p.Node
}

func (v *view) Forget(p Placement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.nodes, [2]string{p.Application, p.Allocation})
}

func (v *view) Reset(all []Placement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.nodes)
	for _, p := range all {
		v.nodes[[2]string{p.Application, p.Allocation}] = p.Node
	}
}

// alone accepts a node only if no allocation is on it.
func (v *view) alone(q Question) (bool, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, node := range v.nodes {
		if node == q.Node && key != [2]string{q.Application, q.Allocation} {
			return false, key[1] + " is there"
		}
	}
	return true, ""
}

func TestPredicatesSeeAssumedAllocations(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 9), node("n2", 9), node("n3", 9))
	seen := &view{nodes: map[[2]string]string{}}
	client := running(t, Config{
		Target: service.address, Queues: queues, State: cluster.state, Handler: cluster,
		Callbacks: &Callbacks{Predicate: seen.alone, Scope: mono.Scope_SCOPE_TOPOLOGY, View: seen},
	})
	for _, key := range []string{"a", "b", "c", "d"} {
		cluster.run(t, client, key)
	}
	eventually(t, "three run, each by itself", func() bool { return len(cluster.running()) == 3 })
	used := map[string]bool{}
	for _, one := range cluster.running() {
		used[strings.Fields(one)[1]] = true
	}
	if len(used) != 3 {
		t.Errorf("%v", cluster.running())
	}
	cluster.stop(t, client, strings.Fields(cluster.running()[0])[0])
	eventually(t, "the fourth runs", func() bool { return len(cluster.running()) == 3 })
}

func TestASecondInstanceContinuesTheNumbers(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 9))
	old, err := New(Config{
		Target: service.address, RM: "rm", Instance: "old", Queues: queues,
		State: cluster.state, Handler: cluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- old.Run(during(t)) }()
	cluster.run(t, old, "a")
	eventually(t, "it runs", func() bool { return len(cluster.running()) == 1 })

	client := running(t, Config{
		Target: service.address, Instance: "new", Queues: queues, Attach: true, Handler: cluster,
		State: func(context.Context) (*State, error) {
			return nil, errors.New("the state must not be requested")
		},
	})
	// The item is queued before the client has a session.
	cluster.run(t, client, "b")
	eventually(t, "both run", func() bool { return len(cluster.running()) == 2 })
	var end *Error
	if err := received(t, "the end of Run", ended); !errors.As(err, &end) || end.Reason != "STREAM_DISPLACED" {
		t.Error(err)
	}
	cluster.stop(t, client, "a")
	eventually(t, "the answer", func() bool { return slices.Contains(cluster.all(), "release a") })
}

// sessions returns the ids of the registered RMs.
func (s *service) sessions(t *testing.T, client *Client) []string {
	t.Helper()
	answer, err := mono.NewAdminServiceClient(client.Conn()).ListSessions(during(t), &mono.ListSessionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, one := range answer.Sessions {
		ids = append(ids, one.RmId)
	}
	return ids
}

func TestADeregistrationEndsTheSessionAndRun(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 2))
	observer := running(t, Config{
		Target: service.address, RM: "observer", PolicyGroup: "other", State: nothing, Handler: &listener{},
	})
	client, err := New(Config{
		Target: service.address, RM: "rm", Queues: queues, State: cluster.state, Handler: cluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Run(context.Background()) }()
	cluster.run(t, client, "a")
	eventually(t, "it runs", func() bool { return len(cluster.running()) == 1 })
	if seen := service.sessions(t, observer); !slices.Contains(seen, "rm") {
		t.Fatalf("%v", seen)
	}
	if err := client.Deregister(during(t), "moved away"); err != nil {
		t.Error(err)
	}
	if err := received(t, "the end of Run", ended); err != nil {
		t.Errorf("Run: %v", err)
	}
	if seen := service.sessions(t, observer); slices.Contains(seen, "rm") {
		t.Errorf("%v", seen)
	}
	if err := client.Allocate(during(t), task("b")); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

func TestADeregistrationByAnOperatorIsAnError(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	client := made(t, Config{Target: service.address, RM: "rm", State: nothing, Handler: &listener{}})
	ended := make(chan error, 1)
	go func() { ended <- client.Run(context.Background()) }()
	if err := client.WaitRegistered(during(t)); err != nil {
		t.Fatal(err)
	}
	// The streams must be open: before that, the client would register again when the session ends.
	if err := client.Nodes(during(t), node("n1", 1)); err != nil {
		t.Fatal(err)
	}
	if err := client.Flush(during(t)); err != nil {
		t.Fatal(err)
	}
	// On another connection, because this client's is closed as soon as the streams have ended.
	operator := made(t, Config{Target: service.address, RM: "operator", State: nothing, Handler: &listener{}})
	if _, err := mono.NewAdminServiceClient(operator.Conn()).DeregisterResourceManager(during(t),
		&mono.DeregisterResourceManagerRequest{RmId: "rm"}); err != nil {
		t.Fatal(err)
	}
	var end *Error
	if err := received(t, "the end of Run", ended); !errors.As(err, &end) || end.Reason != "DEREGISTERED" {
		t.Errorf("Run: %v", err)
	}
}

func TestASmallerMessageLimitEndsRun(t *testing.T) {
	service := startService(t, "127.0.0.1:0", "MONOCEROS__GRPC__MAX_RECV_MESSAGE_BYTES=65536")
	large := node("n1", 2)
	large.Attributes = map[string]string{"rack": strings.Repeat("x", 100_000)}
	cluster := newCluster(large, node("n2", 2))
	config := Config{
		Target: service.address, RM: "rm", Queues: queues, State: cluster.state, Handler: cluster,
	}
	client := made(t, config)
	if err := client.Run(during(t)); status.Code(err) != codes.OutOfRange {
		t.Errorf("Run: %v", err)
	}
	config.MaxMessage = 65536
	running(t, config)
	eventually(t, "one node is there, and one is rejected", func() bool {
		seen := fmt.Sprint(cluster.all())
		return strings.Contains(seen, "node n2") && strings.Contains(seen, "no node n1: ")
	})
}
