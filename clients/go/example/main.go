// A resource manager of two nodes that runs three tasks: `monoceros serve` in one window, `go run
// ./example` in another. Tasks keep running over a restart of the scheduler.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"

	monoceros "monoceros.io/clients/go"
	si "monoceros.io/clients/go/si/v1"
)

// shim records the node of each task; a waiting task has none.
type shim struct {
	mu    sync.Mutex
	nodes map[string]string
}

// State returns the nodes and tasks. A real program reads them from its cluster.
func (s *shim) State(context.Context) (*monoceros.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: 2000}}}
	state := &monoceros.State{
		Nodes: []*si.NodeInfo{
			{NodeID: "n1", Action: si.NodeInfo_CREATE, SchedulableResource: size},
			{NodeID: "n2", Action: si.NodeInfo_CREATE, SchedulableResource: size},
		},
		Applications: []*si.AddApplicationRequest{{
			ApplicationID: "job", Tags: map[string]string{"namespace": "default"},
			Ugi: &si.UserGroupInformation{User: "ada"},
		}},
	}
	for key, node := range s.nodes {
		state.Allocations = append(state.Allocations, &si.Allocation{
			AllocationKey: key, ApplicationID: "job", NodeID: node, ResourcePerAlloc: size,
		})
	}
	return state, nil
}

func (s *shim) Nodes(m *si.NodeResponse)               { log.Println("nodes:", m) }
func (s *shim) Applications(m *si.ApplicationResponse) { log.Println("applications:", m) }

// Allocations starts tasks that were not started before.
func (s *shim) Allocations(m *si.AllocationResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range m.New {
		if s.nodes[one.AllocationKey] == "" {
			log.Println(one.AllocationKey, "runs on", one.NodeID)
			s.nodes[one.AllocationKey] = one.NodeID
		}
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	shim := &shim{nodes: map[string]string{"a": "", "b": "", "waits": ""}}
	client, err := monoceros.New(monoceros.Config{
		Target: "127.0.0.1:50051", RM: "example", State: shim.State, Handler: shim,
		Broken: func(err error) { log.Println("coming back:", err) },
	})
	if err == nil {
		err = client.Run(ctx)
	}
	log.Println("ends:", err)
}
