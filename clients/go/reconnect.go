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
	// shortConnect is the time limit of a connection to one of several addresses, and shortAnswer that of its
	// answer to a registration and to the opening of streams, in the first round. longConnect and longAnswer
	// are the longest.
	shortConnect, longConnect = time.Second, 5 * time.Second
	shortAnswer, longAnswer   = 5 * time.Second, time.Minute
	// healthy is how long a connection has lasted if the next pause is a short one again.
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
	for servesSoon := false; ; {
		began, hadSession := c.clock.now(), c.session != ""
		err := c.connect(ctx)
		if ctx.Err() != nil {
			return c.life.over(ctx, err)
		}
		c.life.broke(err)
		verdict := judge(err, c.route.isCluster() && c.route.hasOthers())
		if verdict == stop {
			if isDeregistered(err) && c.life.gone(true) {
				return nil
			}
			return err
		}
		// In a cluster the RM may be registered still, at an owner that was lost: Deregister needs another
		// session then.
		if verdict == registerAgain && c.life.gone(!c.route.isCluster()) {
			return nil
		}
		end := c.attempted(err, verdict, hadSession)
		if verdict == registerAgain {
			c.abandon(err)
		}
		if c.config.Broken != nil {
			c.config.Broken(err)
		}
		if c.clock.now().Sub(began) > healthy {
			pause = c.config.Pause
		}
		servesSoon = servesSoon || isPassing(err)
		away := time.Duration(c.away.Swap(0))
		if c.route.after(end) {
			continue
		}
		if servesSoon {
			pause, servesSoon = c.config.Pause, false
		}
		wait := time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
		if !sleep(ctx, c.clock, max(wait, away)) {
			return c.life.over(ctx, err)
		}
		pause = min(pause*16/10, c.config.MaxPause)
		c.link.current().ResetConnectBackoff()
	}
}

// attempted describes the end of an attempt for the choice of the next address.
func (c *Client) attempted(err error, verdict verdict, hadSession bool) attempted {
	end := attempted{
		opened: !c.openSince.IsZero(), isOver: hadSession && verdict == registerAgain, isSuspicion: c.suspect != "",
	}
	if end.opened {
		end.lasted = c.clock.now().Sub(c.openSince)
	}
	var answer *Error
	if errors.As(err, &answer) {
		end.isAnswered, end.owner = answer.Reason != "", answer.Owner
	}
	switch {
	case verdict == reopen:
		end.stays, end.waits = end.opened || hadSession && end.isAnswered, end.isAnswered
	case c.route.isCluster():
		end.stays = c.session != "" && keepsOwner(err)
	default:
		// The scheduler that has ended the session is the one to register at.
		end.stays = hadSession && end.isAnswered
	}
	return end
}

// abandon gives up the session, if there is one. In a cluster the program receives nothing more of it.
func (c *Client) abandon(err error) {
	var answer *Error
	if c.session != "" {
		c.suspect = ""
		if errors.Is(err, ErrSilent) {
			c.suspect = c.scheduler
		}
		if c.route.isCluster() {
			c.inbox.drop()
		}
		c.session, c.attaches = "", false
	} else if errors.As(err, &answer) && answer.Reason != "" {
		// A member has received the suspicion.
		c.suspect = ""
	}
	c.lastEvent.Store(0)
}

// connect registers unless there is a session, and serves its streams until one of them ends.
func (c *Client) connect(ctx context.Context) error {
	c.attempt++
	c.openSince = time.Time{}
	if err := c.reach(ctx); err != nil {
		return err
	}
	if c.session == "" {
		if err := c.register(ctx); err != nil {
			return err
		}
	}
	return c.serve(ctx)
}

// reach connects to the present address. If it is the only one, the call that follows waits for the
// connection.
func (c *Client) reach(ctx context.Context) error {
	address := c.route.present
	failed := func(text string) error {
		err := status.Error(codes.Unavailable, text)
		return &Error{Op: "connect", Status: status.Convert(err), Err: err}
	}
	if err := c.link.to(address); err != nil {
		return failed(fmt.Sprintf("the address `%s` cannot be used: %v", short(address), err))
	}
	if !c.route.hasSeveral() {
		return nil
	}
	limit := c.route.patience(shortConnect, longConnect)
	limited, release := within(ctx, c.clock, limit)
	defer release()
	if !c.link.connected(limited) {
		return failed(fmt.Sprintf("no connection to `%s` within %v", short(address), limit))
	}
	return nil
}
