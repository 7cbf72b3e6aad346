package monoceros

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// shown formats a state in short.
func (r *record) shown() string {
	state, _ := r.state(context.Background())
	var lines []string
	for _, one := range state.Nodes {
		lines = append(lines, fmt.Sprint(one.NodeID, " ", one.Action, " ", one.Attributes, " ", one.SchedulableResource.GetResources()["vcore"].GetValue()))
	}
	for _, one := range state.Applications {
		lines = append(lines, one.ApplicationID)
	}
	for _, one := range state.Allocations {
		lines = append(lines, strings.TrimSpace(one.ApplicationID+"/"+one.AllocationKey+" "+one.NodeID))
	}
	return strings.Join(lines, ", ")
}

func TestARecordFollowsWhatIsSentAndReceived(t *testing.T) {
	r := newRecord()
	records := recording{r, &listener{}}
	in := func(key, node string) *si.Allocation {
		return &si.Allocation{ApplicationID: "app", AllocationKey: key, NodeID: node}
	}
	out := func(key string, why si.TerminationType) *si.AllocationRelease {
		return &si.AllocationRelease{ApplicationID: "app", AllocationKey: key, TerminationType: why}
	}
	action := func(action si.NodeInfo_ActionFromRM, attributes map[string]string, size int64) *si.NodeInfo {
		node := &si.NodeInfo{NodeID: "n1", Action: action, Attributes: attributes}
		if size > 0 {
			node.SchedulableResource = cores(size)
		}
		return node
	}
	for _, one := range []struct {
		does     any
		expected string
	}{
		{action(si.NodeInfo_DRAIN_NODE, nil, 0), ""},
		{action(si.NodeInfo_CREATE, map[string]string{"rack": "1", "old": "x", "ready": "false"}, 2),
			"n1 CREATE map[old:x rack:1 ready:false] 2000"},
		{action(si.NodeInfo_UPDATE, map[string]string{"rack": "2", "monoceros.io/removed-attributes": "old, none"}, 0),
			"n1 CREATE map[rack:2] 2000"},
		{action(si.NodeInfo_UPDATE, nil, 3), "n1 CREATE map[rack:2] 3000"},
		{action(si.NodeInfo_DRAIN_NODE, nil, 0), "n1 CREATE_DRAIN map[rack:2] 3000"},
		{&si.NodeResponse{Rejected: []*si.RejectedNode{{NodeID: "n1", Reason: "there [R_NODE_EXISTS]"}}}, "n1 CREATE_DRAIN map[rack:2] 3000"},
		{action(si.NodeInfo_DECOMISSION, nil, 0), ""},
		{&si.AddApplicationRequest{ApplicationID: "app"}, "app"},
		{&si.ApplicationResponse{Rejected: []*si.RejectedApplication{{ApplicationID: "app", Reason: "there [R_APP_EXISTS]"}}}, "app"},
		{in("b", ""), "app, app/b"},
		{in("a", ""), "app, app/b, app/a"},
		{&si.AllocationResponse{New: []*si.Allocation{in("b", "n1")}}, "app, app/b n1, app/a"},
		// A change of size does not move it.
		{in("b", ""), "app, app/b n1, app/a"},
		{out("b", si.TerminationType_SCHEDULING_FAILED_ON_RM), "app, app/b, app/a"},
		{&si.AllocationResponse{New: []*si.Allocation{in("b", "n2")}}, "app, app/b n2, app/a"},
		// It runs until the end is confirmed; an ask ends at once.
		{&si.AllocationResponse{Released: []*si.AllocationRelease{
			out("b", si.TerminationType_PREEMPTED_BY_SCHEDULER), out("a", si.TerminationType_TIMEOUT)}}, "app, app/b n2"},
		{out("b", si.TerminationType_PREEMPTED_BY_SCHEDULER), "app"},
		{in("c", ""), "app, app/c"},
		{&si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{ApplicationID: "app", AllocationKey: "c"}}}, "app"},
		{in("d", "n3"), "app, app/d n3"},
		{&si.AllocationResponse{Released: []*si.AllocationRelease{out("d", si.TerminationType_STOPPED_BY_RM)}}, "app"},
		{in("e", "n3"), "app, app/e n3"},
		{in("f", ""), "app, app/e n3, app/f"},
		{&si.ApplicationResponse{Updated: []*si.UpdatedApplication{{ApplicationID: "app", State: "Completed"}}}, "app/e n3"},
		{&si.RemoveApplicationRequest{ApplicationID: "app"}, ""},
		{&si.AddApplicationRequest{ApplicationID: "app"}, "app"},
		{in("g", ""), "app, app/g"},
		{out("", si.TerminationType_STOPPED_BY_RM), "app"},
		{&si.NodeInfo{NodeID: "n4", Action: si.NodeInfo_CREATE, ExistingAllocations: []*si.Allocation{in("h", "n4")}},
			"n4 CREATE map[] 0, app, app/h n4"},
		{&si.NodeInfo{NodeID: "n4", Action: si.NodeInfo_DECOMISSION}, "app"},
		{&si.ApplicationResponse{Rejected: []*si.RejectedApplication{{ApplicationID: "app", Reason: "no queue"}}}, ""},
	} {
		before, _ := r.state(during(t))
		var kept []proto.Message
		for _, one := range before.Allocations {
			kept = append(kept, cloned(one))
		}
		switch m := one.does.(type) {
		case *si.NodeResponse:
			records.Nodes(m)
		case *si.ApplicationResponse:
			records.Applications(m)
		case *si.AllocationResponse:
			records.Allocations(m)
		case proto.Message:
			r.sent(m)
		}
		if seen := r.shown(); seen != one.expected {
			t.Errorf("%v: `%s`, expected `%s`", one.does, seen, one.expected)
		}
		for at, one := range before.Allocations {
			if !proto.Equal(one, kept[at]) {
				t.Errorf("an item of a state was changed: %v", one)
			}
		}
	}
}

func TestAClientThatRemembersReportsAllAfterARestart(t *testing.T) {
	first := startService(t, "127.0.0.1:0")
	cluster := newCluster()
	client := running(t, Config{Target: first.address, Queues: queues, Handler: cluster, Remember: true})
	if err := client.Nodes(during(t), node("n1", 1)); err != nil {
		t.Fatal(err)
	}
	if err := client.AddApplications(during(t), application("app")); err != nil {
		t.Fatal(err)
	}
	cluster.run(t, client, "a")
	eventually(t, "it runs", func() bool { return len(cluster.running()) == 1 })
	cluster.run(t, client, "b")
	if err := client.Flush(during(t)); err != nil {
		t.Fatal(err)
	}
	first.kill()
	startService(t, first.address)
	cluster.stop(t, client, "a")
	eventually(t, "the other runs", func() bool { return fmt.Sprint(cluster.running()) == "[b n1]" })
	if cluster.started["a"] != 1 {
		t.Errorf("%v", cluster.started)
	}
}

func TestTakenAllocationsAreNotReportedAgain(t *testing.T) {
	r := newRecord()
	inner := &listener{}
	handler := recording{r, inner}
	r.sent(&si.Allocation{ApplicationID: "app", AllocationKey: "a", Priority: 7})
	said := &si.Allocation{ApplicationID: "app", AllocationKey: "a", NodeID: "n1"}
	var taken []*si.Allocation
	take := func(one *si.Allocation) error {
		taken = append(taken, one)
		if one.NodeID == "n0" {
			return errors.New("no volume")
		}
		return nil
	}
	if err := r.take(Placement{"app", "a", "n0"}, take); err == nil || r.shown() != "app/a" {
		t.Errorf("%v, %s", err, r.shown())
	}
	for n := 0; n < 2; n++ {
		if err := r.take(Placement{"app", "a", "n1"}, take); err != nil || r.shown() != "app/a n1" {
			t.Errorf("%v, %s", err, r.shown())
		}
		handler.Allocations(&si.AllocationResponse{New: []*si.Allocation{cloned(said)}})
	}
	if len(taken) != 2 || taken[1].Priority != 7 || taken[1].NodeID != "n1" {
		t.Errorf("%v", taken)
	}
	if seen := inner.all(); len(seen) != 0 {
		t.Errorf("%v", seen)
	}
	if err := r.take(Placement{"app", "unknown", "n1"}, take); err != nil || len(taken) != 2 {
		t.Error(err)
	}
	// On another node it is a new placement, which the handler delivers each time.
	said.NodeID = "n2"
	for n := 0; n < 2; n++ {
		handler.Allocations(&si.AllocationResponse{New: []*si.Allocation{cloned(said)}})
	}
	if seen := inner.all(); len(seen) != 2 || r.shown() != "app/a n2" {
		t.Errorf("%v, %s", seen, r.shown())
	}
}
