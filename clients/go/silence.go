package monoceros

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrSilent is given to Config.Broken when the member that serves the RM has sent nothing for a while, so
// that the client registers at another member.
var ErrSilent = errors.New("monoceros: the scheduler is silent")

const (
	// leastSilence is the shortest silence after which the owner is given up.
	leastSilence = 300 * time.Millisecond
	// mostSilence is the longest silence that earlier alarms may lead to.
	mostSilence = 5 * time.Second
	// quiet is the time without an alarm after which earlier ones no longer count.
	quiet = time.Minute
	// tickEvery is the interval between looks at the clock.
	tickEvery = 50 * time.Millisecond
	// meanOf is the number of arrivals that the mean distance remembers, roughly.
	meanOf = 8
)

// silence decides when the owner of a session has sent nothing for too long: three times the mean distance
// of arrivals, and at least leastSilence. It has no clock of its own.
//
// Silence counts only while the client waits for a message of the stream that has beats, because until then
// messages may be unread. Pauses of the client itself do not count: if a tick comes late, the delay is
// subtracted. A tick that is late by more than tickEvery raises no alarm unless the one before was late,
// too, since what arrived in the meantime may be unread.
//
// Each alarm doubles the bound up to mostSilence, until there was none for a while: a false alarm costs a
// report of the full state.
type silence struct {
	mean time.Duration
	// since is when the present silence began, with pauses of the client added.
	since time.Time
	// due is when the next tick is expected.
	due time.Time
	// waits is true while the client waits for a message of the stream that has beats.
	waits bool
	// wasLate is true if the last tick was late.
	wasLate bool
	// alarms is the number of alarms of which each came within quiet after the one before.
	alarms    int
	lastAlarm time.Time
}

// begin starts counting for a stream whose owner sends at least once per distance.
func (s *silence) begin(now time.Time, distance time.Duration) {
	s.mean, s.since, s.due = min(distance, mostSilence), now, now.Add(tickEvery)
	s.waits, s.wasLate = false, false
}

// received records a message of any stream.
func (s *silence) received(now time.Time) {
	s.mean += (max(0, now.Sub(s.since)) - s.mean) / meanOf
	s.since = now
}

// beat records a message of the stream that has beats. Nothing counts until read is called.
func (s *silence) beat(now time.Time) {
	s.received(now)
	s.waits = false
}

// read records that the client waits for the next message of the stream that has beats.
func (s *silence) read(now time.Time) { s.since, s.waits = now, true }

// bound returns the silence that raises an alarm.
func (s *silence) bound(now time.Time) time.Duration {
	bound := max(leastSilence, 3*s.mean)
	if now.Sub(s.lastAlarm) < quiet {
		bound <<= min(s.alarms, 8)
	}
	return min(bound, mostSilence)
}

// tick returns the silence if it raises an alarm, and else zero. The next tick is expected after tickEvery.
func (s *silence) tick(now time.Time) time.Duration {
	late := max(0, now.Sub(s.due))
	s.due = now.Add(tickEvery)
	s.since = s.since.Add(late)
	if s.since.After(now) {
		s.since = now
	}
	silent, isLate := now.Sub(s.since), late > tickEvery
	mayHaveUnread := isLate && !s.wasLate
	s.wasLate = isLate
	if !s.waits || mayHaveUnread || silent < s.bound(now) {
		return 0
	}
	if now.Sub(s.lastAlarm) >= quiet {
		s.alarms = 0
	}
	s.alarms, s.lastAlarm = s.alarms+1, now
	return silent
}

// watch counts the silence of a client's owner. Its methods can be called concurrently, and have no effect
// unless the owner of the present session has beats.
type watch struct {
	clock clock

	mu      sync.Mutex
	silence silence
	counts  bool
}

// record passes an observation and its time to the rule.
func (w *watch) record(observe func(*silence, time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts {
		observe(&w.silence, w.clock.now())
	}
}

// begin starts to count for streams that are open. It returns false if distance is zero: the owner sends no beats.
func (w *watch) begin(distance time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = distance > 0
	if w.counts {
		w.silence.begin(w.clock.now(), distance)
	}
	return w.counts
}

// run returns ErrSilent once the owner was silent for too long.
func (w *watch) run(ctx context.Context) error {
	for {
		if !sleep(ctx, w.clock, tickEvery) {
			return ctx.Err()
		}
		var silent time.Duration
		w.record(func(s *silence, now time.Time) { silent = s.tick(now) })
		if silent > 0 {
			return fmt.Errorf("%w: nothing came for %v", ErrSilent, silent.Round(time.Millisecond))
		}
	}
}
