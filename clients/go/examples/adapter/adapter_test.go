package adapter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	monoceros "monoceros.io/clients/go"
)

var _ api.SchedulerAPI = (*Scheduler)(nil)

const queues = `
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
`

// service starts the built scheduler, and returns its address and a function that ends it.
func service(t *testing.T, address string) (string, func()) {
	t.Helper()
	binary := os.Getenv("MONOCEROS")
	if binary == "" {
		binary = "../../../../target/debug/monoceros"
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("skipped: there is no service at %s; `cargo build` makes it", binary)
	}
	command := exec.Command(binary, "serve", "--grpc", address, "--http", "127.0.0.1:0")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		command.Process.Kill()
		command.Wait()
	})
	t.Cleanup(kill)
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, lines)
	for _, word := range strings.Fields(line) {
		if grpc, is := strings.CutPrefix(word, "grpc="); is {
			return grpc, kill
		}
	}
	t.Fatalf("no address in `%s`", line)
	return "", nil
}

// shim is a program of the published interface. It counts allocations as it receives them, and lets none
// share a node.
type shim struct {
	mu    sync.Mutex
	lines []string
	runs  map[string]*si.Allocation
	// cannot is a node on which no allocation can be started.
	cannot string
	asked  int
}

func (s *shim) note(line string, values ...any) {
	s.lines = append(s.lines, fmt.Sprintf(line, values...))
}

func (s *shim) UpdateAllocation(m *si.AllocationResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range m.New {
		if one.NodeID == s.cannot {
			s.note("cannot start %s", one.AllocationKey)
			return errors.New("no volume there")
		}
		s.note("start %s", one.AllocationKey)
		s.runs[one.AllocationKey] = one
	}
	for _, one := range m.Released {
		s.note("released %s", one.AllocationKey)
		delete(s.runs, one.AllocationKey)
	}
	for _, one := range m.RejectedAllocations {
		s.note("rejected %s: %s", one.AllocationKey, one.Reason)
	}
	return nil
}

func (s *shim) UpdateApplication(m *si.ApplicationResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range m.Accepted {
		s.note("application %s", one.ApplicationID)
	}
	return nil
}

func (s *shim) UpdateNode(m *si.NodeResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range m.Accepted {
		s.note("node %s", one.NodeID)
	}
	return nil
}

func (s *shim) Predicates(args *si.PredicatesArgs) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for key, one := range s.runs {
		if one.NodeID == args.NodeID {
			return fmt.Errorf("%s is there", key)
		}
	}
	return nil
}

func (s *shim) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return &si.PreemptionPredicatesResponse{}
}

func (s *shim) SendEvent(events []*si.EventRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range events {
		if one.Type == si.EventRecord_APP {
			s.note("event of %s", one.ObjectID)
		}
	}
}

func (s *shim) UpdateContainerSchedulingState(m *si.UpdateContainerSchedulingStateRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("%s %s", m.State, m.AllocationKey)
}

func (s *shim) count(line string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, one := range s.lines {
		if one == line {
			n++
		}
	}
	return n
}

func (s *shim) has(t *testing.T, line string) {
	t.Helper()
	eventually(t, line, func() bool { return s.count(line) > 0 })
}

func (s *shim) running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for key, one := range s.runs {
		all = append(all, key+" "+one.NodeID)
	}
	slices.Sort(all)
	return all
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func cores(n int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: n * 1000}}}
}

func nodes(names ...string) *si.NodeRequest {
	request := &si.NodeRequest{}
	for _, name := range names {
		request.Nodes = append(request.Nodes, &si.NodeInfo{
			NodeID: name, Action: si.NodeInfo_CREATE, SchedulableResource: cores(9),
		})
	}
	return request
}

func asks(keys ...string) *si.AllocationRequest {
	request := &si.AllocationRequest{}
	for _, key := range keys {
		request.Allocations = append(request.Allocations, &si.Allocation{
			AllocationKey: key, ApplicationID: "app", ResourcePerAlloc: cores(1), Priority: 7,
		})
	}
	return request
}

func TestAProgramOfThePublishedInterfaceRunsOnThisScheduler(t *testing.T) {
	address, kill := service(t, "127.0.0.1:0")
	shim := &shim{runs: map[string]*si.Allocation{}, cannot: "n3"}
	ended := make(chan error, 100)
	scheduler := &Scheduler{Target: address, Patience: 30 * time.Second, Failed: func(err error) { ended <- err }}
	register := &si.RegisterResourceManagerRequest{RmID: "rm", PolicyGroup: "queues", Version: "1", Config: queues}
	if _, err := scheduler.RegisterResourceManager(register, shim); err != nil {
		t.Fatal(err)
	}
	must(t, scheduler.UpdateNode(nodes("n1", "n2", "n3")))
	must(t, scheduler.UpdateApplication(&si.ApplicationRequest{New: []*si.AddApplicationRequest{{
		ApplicationID: "app", QueueName: "root.jobs", Ugi: &si.UserGroupInformation{User: "ada"},
	}}}))
	must(t, scheduler.UpdateAllocation(asks("a", "b", "c")))
	for _, line := range []string{"node n1", "node n3", "application app", "event of app"} {
		shim.has(t, line)
	}
	// Each runs alone on its node, because the callback receives the others before the question; a placement
	// on n3, which cannot start it, is withdrawn.
	eventually(t, "two run", func() bool { return len(shim.running()) == 2 })
	eventually(t, "the third was tried on n3", func() bool {
		return shim.count("cannot start a")+shim.count("cannot start b")+shim.count("cannot start c") > 0
	})
	before := shim.running()
	if !strings.HasSuffix(before[0], "n1") && !strings.HasSuffix(before[0], "n2") || before[0][2:] == before[1][2:] {
		t.Errorf("%v", before)
	}
	if one := shim.runs[before[0][:1]]; one.Priority != 7 || one.ApplicationID != "app" || one.ResourcePerAlloc == nil {
		t.Errorf("%v", one)
	}

	kill()
	_, _ = service(t, address)
	must(t, scheduler.UpdateAllocation(&si.AllocationRequest{Releases: &si.AllocationReleasesRequest{
		AllocationsToRelease: []*si.AllocationRelease{{
			ApplicationID: "app", AllocationKey: before[0][:1], TerminationType: si.TerminationType_STOPPED_BY_RM,
		}},
	}}))
	shim.mu.Lock()
	delete(shim.runs, before[0][:1])
	shim.mu.Unlock()
	eventually(t, "the third runs", func() bool { return len(shim.running()) == 2 })
	if n := shim.count("start " + before[1][:1]); n != 1 {
		t.Errorf("what ran on was started %d times", n)
	}

	change := &si.UpdateConfigurationRequest{RmID: "rm", PolicyGroup: "queues", Config: queues + "          - name: more\n"}
	must(t, scheduler.UpdateConfiguration(change))
	change.Config = "partitions: nothing"
	if err := scheduler.UpdateConfiguration(change); err == nil {
		t.Error("a broken configuration is no error")
	}
	scheduler.Stop()
	eventually(t, "the client has ended", func() bool { return <-ended == nil })
	if err := scheduler.UpdateNode(nodes("n4")); !errors.Is(err, monoceros.ErrEnded) {
		t.Error(err)
	}
}

func TestARefusedRegistrationIsAnError(t *testing.T) {
	address, _ := service(t, "127.0.0.1:0")
	scheduler := &Scheduler{Target: address, Patience: 30 * time.Second, Failed: func(error) {}}
	_, err := scheduler.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm", Config: "partitions: nothing"}, &shim{})
	var end *monoceros.Error
	if !errors.As(err, &end) || end.Reason != "CONFIG_INVALID" {
		t.Error(err)
	}
}

func TestTheRecipeIsShort(t *testing.T) {
	text, err := os.ReadFile("adapter.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("it has %d lines", n)
	}
}
