package monoceros

import (
	"sync"
	"testing"
	"time"
)

// fakeClock is a clock that a test advances.
type fakeClock struct {
	mu     sync.Mutex
	time   time.Time
	timers map[*fakeTimer]bool
}

type fakeTimer struct {
	length time.Duration
	due    time.Time
	fires  chan time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{time: time.Unix(1_000_000, 0), timers: map[*fakeTimer]bool{}}
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *fakeClock) after(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := &fakeTimer{d, c.time.Add(d), make(chan time.Time, 1)}
	c.timers[timer] = true
	return timer.fires, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, timer)
	}
}

// advance lets time pass, and fires the timers that are due.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(d)
	for timer := range c.timers {
		if !timer.due.After(c.time) {
			timer.fires <- c.time
			delete(c.timers, timer)
		}
	}
}

// has reports whether a timer of between least and most is set.
func (c *fakeClock) has(least, most time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for timer := range c.timers {
		if least <= timer.length && timer.length <= most {
			return true
		}
	}
	return false
}

// expire waits until a timer of this length is set, and lets that time pass.
func (c *fakeClock) expire(t *testing.T, length time.Duration) {
	t.Helper()
	eventually(t, "a timer of "+length.String(), func() bool { return c.has(length, length) })
	c.advance(length)
}

// firstPause is the first pause of clients with a fake clock. All time limits are shorter.
const firstPause = 2 * time.Minute

// pauses returns the bounds of the pause n, counted from zero.
func pauses(n int) (least, most time.Duration) {
	length := firstPause
	for ; n > 0; n-- {
		length = length * 16 / 10
	}
	return length * 79 / 100, length * 121 / 100
}

// awaitPause waits until the client makes the pause n, counted from zero.
func (c *fakeClock) awaitPause(t *testing.T, n int) {
	t.Helper()
	least, most := pauses(n)
	eventually(t, "a pause of about "+most.String(), func() bool { return c.has(least, most) })
}

// pause waits until the client makes the pause n, and lets it pass.
func (c *fakeClock) pause(t *testing.T, n int) {
	t.Helper()
	c.awaitPause(t, n)
	_, most := pauses(n)
	c.advance(most)
}
