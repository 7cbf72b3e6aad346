package monoceros

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/metadata"

	si "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

// guaranteed has two queues, each guaranteed half of eight cores.
const guaranteed = `
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
            resources: {guaranteed: {vcore: 4}}
          - name: other
            resources: {guaranteed: {vcore: 4}}
            properties: {preemption.delay: 1s}
`

func TestAnInvalidatedRefusalIsAskedAgain(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 9))
	var opens atomic.Bool
	var asked atomic.Int32
	client := running(t, Config{
		Target: service.address, Queues: queues, State: cluster.state, Handler: cluster,
		Callbacks: &Callbacks{Scope: mono.Scope_SCOPE_NODE, Judge: func(_ context.Context, q Question) Answer {
			asked.Add(1)
			if q.Application != "app" || q.Node != "n1" || !q.Allocate {
				t.Errorf("%+v", q)
			}
			return Answer{Fits: opens.Load(), Reason: "closed", Plugin: "door"}
		}},
	})
	cluster.run(t, client, "a")
	eventually(t, "it is refused", func() bool { return asked.Load() > 0 })
	opens.Store(true)
	if err := client.Invalidate(Invalidation{Allocations: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return len(cluster.running()) == 1 })
}

func TestARefusedPlacementMovesToAnotherNode(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 9), node("n2", 9))
	seen := &view{nodes: map[[2]string]string{}}
	var mu sync.Mutex
	var first string
	client := running(t, Config{
		Target: service.address, Queues: queues, State: cluster.state, Handler: cluster,
		Callbacks: &Callbacks{
			Predicate: func(Question) (bool, string) { return true, "" },
			View:      seen,
			Confirm: func(p Placement) *Refusal {
				if len(cluster.running()) > 0 {
					t.Error("the allocation was reported before it was confirmed")
				}
				mu.Lock()
				defer mu.Unlock()
				if first == "" {
					first = p.Node
					return &Refusal{Reason: "no volume there"}
				}
				return nil
			},
		},
	})
	cluster.run(t, client, "a")
	eventually(t, "it runs", func() bool { return len(cluster.running()) == 1 })
	mu.Lock()
	defer mu.Unlock()
	now := strings.Fields(cluster.running()[0])[1]
	if first == "" || now == first || seen.nodes[[2]string{"app", "a"}] != now {
		t.Errorf("refused on %s, runs on %s, assumed %v", first, now, seen.nodes)
	}
}

func TestEventsOfTheServiceAreReported(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 9))
	var mu sync.Mutex
	types := map[si.EventRecord_Type]int{}
	client := running(t, Config{
		Target: service.address, Queues: queues, State: cluster.state, Handler: cluster,
		Callbacks: &Callbacks{
			Hello: &mono.Hello{EventTypes: []si.EventRecord_Type{si.EventRecord_APP, si.EventRecord_REQUEST}},
			Events: func(events []*si.EventRecord, _ uint64) {
				mu.Lock()
				defer mu.Unlock()
				for _, one := range events {
					types[one.Type]++
				}
			},
		},
	})
	// One more than the initial credit.
	for n := 0; n <= eventCredit; n++ {
		cluster.run(t, client, fmt.Sprint("k", n))
	}
	eventually(t, "the node is full", func() bool { return len(cluster.running()) == 9 })
	eventually(t, "events of the application", func() bool {
		mu.Lock()
		defer mu.Unlock()
		if true {
		}
		return types[si.EventRecord_APP] > eventCredit
	})
	mu.Lock()
	defer mu.Unlock()
	if types[si.EventRecord_NODE] != 0 {
		t.Error("types that are not wanted are reported")
	}
}

func TestTheServiceGetsDumpsAndKeepsConfigurations(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	client := running(t, Config{
		Target: service.address, Queues: queues, State: nothing, Handler: &listener{},
		Callbacks: &Callbacks{
			StateDump: func(context.Context) ([]byte, error) { return []byte(`{"pods": 3}`), nil },
			SaveConfig: func(_ context.Context, c SavedConfig) (string, error) {
				if !strings.Contains(c.Config, "kept") {
					return "", errors.New("the disk is full")
				}
				return queues, nil
			},
		},
	})
	if err := client.WaitRegistered(during(t)); err != nil {
		t.Fatal(err)
	}
	var text string
	eventually(t, "the dump of the program is in that of the scheduler", func() bool {
		parts, err := mono.NewMetricsServiceClient(client.Conn()).GetStateDump(during(t),
			&mono.StateDumpParameters{RmId: "rm", Sections: []string{"rmDiagnostics"}, IncludeRm: true})
		if err != nil {
			t.Fatal(err)
		}
		text = ""
		for {
			part, err := parts.Recv()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			text += string(part.Data)
		}
		return strings.Contains(strings.ReplaceAll(text, " ", ""), `"pods":3`)
	})
	ctx := metadata.AppendToOutgoingContext(during(t), "x-si-persist", "true")
	for queue, kept := range map[string]bool{"kept": true, "lost": false} {
		answer, err := mono.NewAdminServiceClient(client.Conn()).UpdateConfig(ctx, &si.UpdateConfigurationRequest{
			RmID: "rm", Config: queues + "          - name: " + queue + "\n",
		})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Success != kept || strings.Contains(answer.Reason, "the disk is full") == kept {
			t.Errorf("%s: %v", queue, answer)
		}
	}
}

func TestPreemptionAndTheScaleUpSignalReachTheProgram(t *testing.T) {
	service := startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 4), node("n2", 4))
	var mu sync.Mutex
	var questions []Preemption
	failed := map[string]bool{}
	client := running(t, Config{
		Target: service.address, Queues: guaranteed, State: cluster.state, Handler: cluster,
		Callbacks: &Callbacks{
			Predicate: func(Question) (bool, string) { return true, "" },
			Preemption: func(_ context.Context, p Preemption) Eviction {
				mu.Lock()
				defer mu.Unlock()
				questions = append(questions, p)
				return Eviction{Fits: p.Node == "n2", Last: p.Start}
			},
			ContainerStates: func(states []*si.UpdateContainerSchedulingStateRequest) {
				mu.Lock()
				defer mu.Unlock()
				for _, one := range states {
					if one.State == si.UpdateContainerSchedulingStateRequest_FAILED {
						failed[one.AllocationKey] = true
					}
				}
			},
		},
	})
	for n := 0; n < 8; n++ {
		cluster.run(t, client, fmt.Sprint("k", n))
	}
	eventually(t, "the cluster is full", func() bool { return len(cluster.running()) == 8 })
	second := application("second")
	second.QueueName = "root.other"
	urgent := &si.Allocation{
		AllocationKey: "urgent", ApplicationID: "second", ResourcePerAlloc: cores(1),
		PreemptionPolicy: &si.PreemptionPolicy{AllowPreemptSelf: true, AllowPreemptOther: true},
	}
	if err := errors.Join(client.AddApplications(during(t), second), client.Allocate(during(t), urgent)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the signal", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed["urgent"]
	})
	eventually(t, "the urgent one has the place of a victim", func() bool {
		for _, one := range cluster.all() {
			if strings.HasPrefix(one, "release k") {
				return true
			}
		}
		return false
	})
	mu.Lock()
	defer mu.Unlock()
	if len(questions) == 0 || questions[0].Allocation != "urgent" || len(questions[0].Victims) == 0 {
		t.Errorf("%+v", questions)
	}
}
