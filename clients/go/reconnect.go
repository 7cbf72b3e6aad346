package monoceros

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// connectWait is the time limit of a connection to one of several addresses, and answerWait that of its
	// answer to a registration and to the opening of streams. A single address is waited for longer.
	connectWait = time.Second
	answerWait  = 5 * time.Second
	// settled is how long a session lasts if the member that ended it is not to be avoided.
	settled = time.Second
	// healthy is how long streams were open if the next pause is a short one again.
	healthy = time.Minute
)

// newProof makes the secret that identifies this process to all members of a cluster. It is returned by a
// function, so that it is not printed with the client.
func newProof() (func() string, error) {
	var bytes [16]byte
	if _, err := cryptorand.Read(bytes[:]); err != nil {
		return nil, err
	}
	text := hex.EncodeToString(bytes[:])
	return func() string { return text }, nil
}

// shuffled brings addresses into a random order, so that the RMs of a lost member go to different ones.
func shuffled(addresses []string) {
	rand.Shuffle(len(addresses), func(a, b int) {
		addresses[a], addresses[b] = addresses[b], addresses[a]
	})
}

// Run registers and keeps the RM connected until ctx ends, Deregister or Close is called, or a retry cannot
// help. It is called once; a second call returns ErrRunning at once.
//
// It returns nil after Deregister and Close. When ctx has ended it returns the error of ctx, together with
// the last reason why it could not connect if it was not connected. Else the error is an *Error with the
// reason, or ErrState. Calls that send items return ErrEnded from then on.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.life.start(cancel); err != nil {
		return err
	}
	defer c.link.close()
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		c.inbox.run(ctx)
	}()
	err := c.stayConnected(ctx)
	// In this order, because a handler may be waiting for the outbox.
	c.outbox.end(c.life.end(err))
	cancel()
	<-handled
	return err
}

// stayConnected reconnects after each break, as long as a retry can help.
func (c *Client) stayConnected(ctx context.Context) error {
	pause := c.config.Pause
	for waits := false; ; {
		began := c.clock.now()
		err := c.connect(ctx)
		if ctx.Err() != nil {
			return c.life.over(ctx, err)
		}
		c.life.broke(err)
		hadSession := c.session != ""
		switch judge(err, c.route.hasSeveral()) {
		case stop:
			if isDeregistered(err) && c.life.gone() {
				return nil
			}
			return err
		case anew:
			if c.life.gone() {
				return nil
			}
			c.abandon(err)
		}
		if c.config.Broken != nil {
			c.config.Broken(err)
		}
		// A member that answers so serves again soon; the scheduler is neither down nor overloaded.
		waits = waits || isPassing(err)
		if c.clock.now().Sub(began) > healthy {
			pause = c.config.Pause
		}
		if c.session == "" {
			if !hadSession {
				c.route.failed(ownerOf(err))
			}
			if c.route.isReady() {
				c.away.Store(0)
				continue
			}
			c.route.begin()
		}
		if waits {
			pause = c.config.Pause
		}
		wait := time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
		if !sleep(ctx, c.clock, max(wait, time.Duration(c.away.Swap(0)))) {
			return c.life.over(ctx, err)
		}
		pause, waits = min(pause*16/10, c.config.MaxPause), false
		c.link.current().ResetConnectBackoff()
	}
}

// abandon gives up the session, if there is one, with everything of it that the program has not received.
func (c *Client) abandon(err error) {
	if c.session != "" {
		c.route.lost(c.clock.now().Sub(c.registered) >= settled, ownerOf(err))
		c.suspect = ""
		if errors.Is(err, ErrSilent) {
			c.suspect = c.scheduler
		}
		c.inbox.drop()
	}
	c.session, c.attaches = "", false
	c.lastEvent.Store(0)
}

// connect registers unless there is a session, and serves its streams until one of them ends.
func (c *Client) connect(ctx context.Context) error {
	c.attempt++
	if c.session == "" {
		if err := c.reach(ctx); err != nil {
			return err
		}
		if err := c.register(ctx); err != nil {
			return err
		}
	}
	return c.serve(ctx)
}

// reach connects to the next address. A single one keeps its connection, which the call waits for.
func (c *Client) reach(ctx context.Context) error {
	address := c.route.next()
	if !c.route.hasSeveral() {
		return c.link.to(address, false)
	}
	failed := func(text string) error {
		err := status.Error(codes.Unavailable, text)
		return &Error{Op: "register", Status: status.Convert(err), Err: err}
	}
	if err := c.link.to(address, true); err != nil {
		return failed(fmt.Sprintf("the address `%s` cannot be used: %v", short(address), err))
	}
	limited, release := within(ctx, c.clock, connectWait)
	defer release()
	if !c.link.connected(limited) {
		return failed(fmt.Sprintf("no connection to `%s` within %v", short(address), connectWait))
	}
	return nil
}
