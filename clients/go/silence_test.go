package monoceros

import (
	"math/rand"
	"testing"
	"time"
)

const ms = time.Millisecond

// observer drives a silence: the owner's messages, the client's reader, and its ticks.
type observer struct {
	silence
	now time.Time
}

// observe begins with beats of this distance, while the client waits for the first message.
func observe(distance time.Duration) *observer {
	o := &observer{now: time.Unix(1_000, 0)}
	o.begin(o.now, distance)
	o.read(o.now)
	return o
}

// arrive is a message, after which the client waits for the next one.
func (o *observer) arrive() {
	o.beat(o.now)
	o.read(o.now)
}

// pass lets time pass with ticks in time, and returns when the alarm was raised; zero if it was not.
func (o *observer) pass(d time.Duration) time.Duration {
	end := o.now.Add(d)
	began := o.now
	for o.due.Before(end) || o.due.Equal(end) {
		o.now = o.due
		if o.tick(o.now) > 0 {
			return o.now.Sub(began)
		}
	}
	o.now = end
	return 0
}

func TestSilenceIsThreeDistancesAndAtLeast300Milliseconds(t *testing.T) {
	for what, one := range map[string]struct {
		distance time.Duration
		// gaps are the distances of the messages that arrive.
		gaps        []time.Duration
		from, until time.Duration
	}{
		"beats in time":    {100 * ms, repeated(100*ms, 50), 300 * ms, 350 * ms},
		"no message yet":   {100 * ms, nil, 300 * ms, 350 * ms},
		"a busy stream":    {100 * ms, repeated(ms, 50), 300 * ms, 350 * ms},
		"a slow owner":     {100 * ms, repeated(250*ms, 50), 740 * ms, 800 * ms},
		"announced slower": {400 * ms, repeated(400*ms, 5), 1200 * ms, 1250 * ms},
		"slow no longer":   {100 * ms, append(repeated(250*ms, 50), repeated(100*ms, 50)...), 300 * ms, 360 * ms},
	} {
		o := observe(one.distance)
		for _, gap := range one.gaps {
			if at := o.pass(gap); at > 0 {
				t.Errorf("%s: an alarm within a gap of %v", what, gap)
			}
			o.arrive()
		}
		if at := o.pass(time.Minute); at < one.from || at > one.until {
			t.Errorf("%s: the alarm is raised after %v, expected %v to %v", what, at, one.from, one.until)
		}
	}
}

func repeated(gap time.Duration, times int) []time.Duration {
	gaps := make([]time.Duration, times)
	for at := range gaps {
		gaps[at] = gap
	}
	return gaps
}

func TestNothingCountsUntilTheClientReads(t *testing.T) {
	o := observe(100 * ms)
	o.beat(o.now)
	if at := o.pass(time.Hour); at > 0 {
		t.Errorf("an alarm after %v, although messages may be unread", at)
	}
	o.read(o.now)
	if at := o.pass(time.Minute); at < 300*ms || at > 350*ms {
		t.Errorf("the alarm is raised %v after reading", at)
	}
}

func TestMessagesOfOtherStreamsAreSignsOfLife(t *testing.T) {
	o := observe(100 * ms)
	for n := 0; n < 100; n++ {
		if at := o.pass(250 * ms); at > 0 {
			t.Fatalf("an alarm after %v", at)
		}
		o.received(o.now)
	}
}

func TestPausesOfTheClientDoNotCount(t *testing.T) {
	for _, pause := range []time.Duration{120 * ms, 300 * ms, 10 * time.Second, 8 * time.Hour} {
		for _, before := range []time.Duration{0, 120 * ms, 290 * ms} {
			o := observe(100 * ms)
			o.pass(before)
			o.now = o.now.Add(pause)
			// The tick comes before the reader.
			if o.tick(o.now) > 0 {
				t.Errorf("an alarm %v after a message and a pause of %v", before, pause)
			}
			if at := o.pass(time.Minute); at < 250*ms-before || at > 350*ms-before {
				t.Errorf("%v and a pause of %v after a message, the alarm comes after %v", before, pause, at)
			}
		}
	}
}

func TestEachAlarmDoublesTheBoundUntilAQuietMinute(t *testing.T) {
	o := observe(100 * ms)
	alarm := func() time.Duration {
		o.begin(o.now, 100*ms)
		o.read(o.now)
		return o.pass(time.Minute)
	}
	for _, expected := range []time.Duration{300 * ms, 600 * ms, 1200 * ms, 2400 * ms, 4800 * ms, 5 * time.Second, 5 * time.Second} {
		if at := alarm(); at < expected || at > expected+tickEvery {
			t.Errorf("%v, expected %v", at, expected)
		}
	}
	o.now = o.now.Add(50 * time.Second)
	if at := alarm(); at < 5*time.Second {
		t.Errorf("before a minute: %v", at)
	}
	o.now = o.now.Add(time.Minute)
	for _, expected := range []time.Duration{300 * ms, 600 * ms} {
		if at := alarm(); at < expected || at > expected+tickEvery {
			t.Errorf("after a quiet minute: %v, expected %v", at, expected)
		}
	}
}

func TestABusyMachineDelaysTheAlarmOnly(t *testing.T) {
	o := observe(100 * ms)
	for n := 1; ; n++ {
		// Each tick is late.
		o.now = o.due.Add(2 * tickEvery)
		if o.tick(o.now) > 0 {
			if n != 6 {
				t.Errorf("the alarm comes with tick %d", n)
			}
			return
		}
		if n > 100 {
			t.Fatal("there is no alarm")
		}
	}
}

// An owner whose messages arrive at most 250 ms apart is never suspected, whatever pauses the client makes.
func TestALiveOwnerIsNeverSuspected(t *testing.T) {
	for seed := int64(0); seed < 300; seed++ {
		dice := rand.New(rand.NewSource(seed))
		o := observe(100 * ms)
		next := o.now.Add(100 * ms)
		for step := 0; step < 500; step++ {
			gap := 100*ms + time.Duration(dice.Int63n(int64(150*ms)))
			if o.due.Before(next) {
				o.now = o.due
			} else {
				o.now = next
			}
			if dice.Intn(20) == 0 {
				o.now = o.now.Add(time.Duration(dice.ExpFloat64() * float64(200*ms)))
			}
			if dice.Intn(200) == 0 {
				o.now = o.now.Add(time.Duration(dice.Int63n(int64(time.Minute))))
			}
			// After a pause, the tick and the reader come in any order.
			tickFirst := dice.Intn(2) == 0
			ticks := func() {
				if !o.due.After(o.now) {
					if silent := o.tick(o.now); silent > 0 {
						t.Fatalf("seed %d: an alarm after %v at step %d", seed, silent, step)
					}
				}
			}
			if tickFirst {
				ticks()
			}
			for ; !next.After(o.now); next = next.Add(gap) {
				o.beat(o.now)
				if dice.Intn(50) == 0 {
					// The program is slow; meanwhile there are ticks.
					o.pass(time.Duration(dice.Int63n(int64(time.Second))))
				}
				o.read(o.now)
			}
			ticks()
		}
	}
}

// An owner that ends is suspected, never before the bound and soon after it, also if ticks are a bit late.
func TestADeadOwnerIsSuspectedSoon(t *testing.T) {
	for seed := int64(0); seed < 300; seed++ {
		dice := rand.New(rand.NewSource(seed))
		o := observe(100 * ms)
		for n := dice.Intn(50); n > 0; n-- {
			o.pass(time.Duration(dice.Int63n(int64(250 * ms))))
			o.arrive()
		}
		bound, died, delays := o.bound(o.now), o.now, time.Duration(0)
		for {
			late := time.Duration(dice.Int63n(int64(20 * ms)))
			delays += late
			o.now = o.due.Add(late)
			if o.tick(o.now) > 0 {
				break
			}
			if o.now.Sub(died) > time.Minute {
				t.Fatalf("seed %d: no alarm", seed)
			}
		}
		if silent := o.now.Sub(died); silent < bound || silent > bound+tickEvery+delays {
			t.Errorf("seed %d: suspected after %v, the bound is %v", seed, silent, bound)
		}
	}
}
