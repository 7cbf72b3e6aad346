package monoceros

import (
	"context"
	"fmt"
	"sync"
)

// life is the phase of a client. Run writes it; WaitRegistered, Deregister and Close read it, and may end
// Run.
type life struct {
	mu sync.Mutex
	// changed is closed to wake waiters.
	changed chan struct{}
	// cancel ends Run; nil before Run is called.
	cancel context.CancelFunc
	// ended is set once the client has ended: ErrEnded, joined with the error of Run if there was one.
	ended error
	// session is the number of the session, empty while there is none.
	session string
	// open is true while the streams are open.
	open bool
	// last is the reason why the last attempt to connect failed; nil once streams were open after it.
	last error
	// inCluster is true if a cluster has given the last session.
	inCluster bool
	// leaving is true from a call of Deregister on, unless the scheduler has refused it.
	leaving bool
	// deregisters is the number of running calls of Deregister, which try again with another session.
	deregisters int
	// left is set when the session was found to be over while leaving.
	left bool
	// stopped is set when Close or Deregister ends Run, which then returns nil.
	stopped bool
}

func newLife() *life { return &life{changed: make(chan struct{})} }

// broadcast wakes waiters; l.mu is held.
func (l *life) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// start records the call of Run, with the function that ends it.
func (l *life) start(cancel context.CancelFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return l.ended
	}
	if l.cancel != nil {
		return ErrRunning
	}
	l.cancel = cancel
	l.broadcast()
	return nil
}

// end records the end of the client, and returns the error of all later calls.
func (l *life) end(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = ErrEnded
	if err != nil {
		l.ended = fmt.Errorf("%w: %w", ErrEnded, err)
	}
	l.session, l.open = "", false
	l.broadcast()
	return l.ended
}

// hasEnded returns the error of calls after the end of the client; nil before.
func (l *life) hasEnded() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// stop ends Run, which returns nil then. It returns false if Run was never called and the client has not
// ended.
func (l *life) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.cancel != nil {
		l.cancel()
	}
	return l.cancel != nil || l.ended != nil
}

// registered records a session, and whether a cluster has given it; the empty text means none.
func (l *life) registered(session string, inCluster bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.inCluster = session, inCluster
	l.broadcast()
}

// connected records that the streams are open.
func (l *life) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.last = true, nil
}

// broke records why the streams ended, or could not be opened.
func (l *life) broke(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.last = false, err
}

// over returns the result of Run once its context has ended: nil if Close or Deregister ended it, and else
// the error of the context, joined with the last connection error unless connected. err is the result of
// the last attempt.
func (l *life) over(ctx context.Context, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
		return nil
	case l.open:
		return ctx.Err()
	case l.last != nil:
		err = l.last
	}
	return fmt.Errorf("monoceros: %w before it was connected: %w", ctx.Err(), err)
}

// gone records that the client has no session any more. It returns true if Deregister wanted that, so that the
// client does not register again. The session is known to be over if isOver is true; otherwise the client
// registers again if Deregister is going to try with the next session.
func (l *life) gone(isOver bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = ""
	l.left = l.leaving && isOver
	l.broadcast()
	return l.leaving && (isOver || l.deregisters == 0)
}

// deregister counts a running call of Deregister. The function ends it.
func (l *life) deregister() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deregisters++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.deregisters--
	}
}

// hasLeft reports whether Run has ended because the session was deregistered.
func (l *life) hasLeft() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// isInCluster reports whether a cluster has given the last session.
func (l *life) isInCluster() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inCluster
}

// leave records whether the client is about to deregister.
func (l *life) leave(leaving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = leaving
}

// wait returns the session as soon as there is one.
func (l *life) wait(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.ended != nil {
			return "", l.ended
		}
		if l.session != "" {
			return l.session, nil
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			switch {
			case l.cancel == nil:
				return "", fmt.Errorf("%w: %w", ErrNotRunning, ctx.Err())
			case l.last != nil:
				return "", fmt.Errorf("monoceros: %w before it was registered: %w", ctx.Err(), l.last)
			}
			return "", fmt.Errorf("monoceros: %w before it was registered", ctx.Err())
		}
	}
}
