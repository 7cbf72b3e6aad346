package monoceros

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestASecondSchedulerTakesOverWhatRuns(t *testing.T) {
	first, second := startService(t, "127.0.0.1:0"), startService(t, "127.0.0.1:0")
	cluster := newCluster(node("n1", 2), node("n2", 2))
	registrations := make(chan Registration, 8)
	client, err := New(Config{
		Target: first.address, OtherAddresses: []string{second.address}, RM: "rm", Queues: queues,
		State: cluster.state, Handler: cluster, Registered: func(r Registration) { registrations <- r },
		// With a pause the test would not end.
		Pause: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	go client.Run(during(t))
	for _, key := range []string{"a", "b", "c"} {
		cluster.run(t, client, key)
	}
	eventually(t, "three run", func() bool { return len(cluster.running()) == 3 })
	before := cluster.running()
	one := received(t, "registration", registrations)
	killed := time.Now()
	first.kill()
	other := received(t, "registration", registrations)
	if other.Outcome != "new" || other.Scheduler == one.Scheduler {
		t.Errorf("%+v, %+v", one, other)
	}
	// The second scheduler has room for one.
	cluster.run(t, client, "d")
	cluster.run(t, client, "waits")
	eventually(t, "the fourth runs", func() bool { return len(cluster.running()) == 4 })
	t.Logf("%v from the end of one scheduler to an allocation of the other", time.Since(killed))
	now := fmt.Sprint(cluster.running())
	for _, running := range before {
		if !strings.Contains(now, running) {
			t.Errorf("`%s` was running before, and now %s", running, now)
		}
	}
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	for key, times := range cluster.started {
		if times != 1 {
			t.Errorf("%s was started %d times", key, times)
		}
	}
}
