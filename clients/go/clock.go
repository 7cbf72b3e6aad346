package monoceros

import (
	"context"
	"time"
)

// clock is the time by which the client pauses, limits calls and counts silence. Tests set another one.
type clock interface {
	now() time.Time
	// after returns a channel that receives once d has passed, and a function that releases the timer.
	after(d time.Duration) (<-chan time.Time, func())
}

// monotonic is the clock of the machine, which is not changed by adjustments of the date.
type monotonic struct{}

func (monotonic) now() time.Time { return time.Now() }

func (monotonic) after(d time.Duration) (<-chan time.Time, func()) {
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

// sleep returns after d, or false once ctx has ended.
func sleep(ctx context.Context, c clock, d time.Duration) bool {
	over, stop := c.after(d)
	defer stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// within returns a context that ends after limit, by the clock of the client and by that of the machine,
// whose deadline the scheduler receives. Its cause is then context.DeadlineExceeded. The function releases
// it.
func within(ctx context.Context, c clock, limit time.Duration) (context.Context, func()) {
	ctx, release := context.WithTimeout(ctx, limit)
	ctx, end := context.WithCancelCause(ctx)
	over, stop := c.after(limit)
	go func() {
		defer stop()
		select {
		case <-over:
			end(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		end(nil)
		release()
	}
}
