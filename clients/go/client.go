package monoceros

import (
	"context"
	"errors"
	"math/rand"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	si "monoceros.io/clients/go/si/v1"
)

// Handler hears what the scheduler says. One method is called at a time, in the order of each
// stream, and what it was called with is acknowledged when it returns. After a restart of the
// scheduler, or of the program, things may be heard that are known already: a node or application
// that was told anew and is there is rejected with R_NODE_EXISTS or R_APP_EXISTS, and what runs is
// repeated in `new`. To deal with them again must change nothing.
type Handler interface {
	Nodes(*si.NodeResponse)
	Applications(*si.ApplicationResponse)
	Allocations(*si.AllocationResponse)
}

// Config is what a client is made of. Target, RM, State and Handler have to be set.
type Config struct {
	// Target is the address of the scheduler, as grpc.NewClient takes it.
	Target string
	// DialOptions are added to those of the client; without any there is no TLS.
	DialOptions []grpc.DialOption

	// RM is the id to register as, Instance which process of it this is.
	RM, Instance string
	// PolicyGroup, Queues (YAML), ExtraConfig and the others are those of a registration.
	PolicyGroup, Queues, Version string
	ExtraConfig, BuildInfo       map[string]string
	// Attach takes a session over that another instance has, if there is one. Then State is not
	// asked for, and what the other instance has not acknowledged is heard. It needs an Instance: one
	// without a name could not be told from the one before, and replaces it.
	Attach bool

	// State says all that the RM knows. What the program has said before State is called is not said
	// again, so it has to change what it knows first and to call Nodes, Allocate and the like then.
	// What it says while State runs comes after it.
	State func(context.Context) (*State, error)
	// Handler hears the answers.
	Handler Handler
	// Callbacks answers the scheduler's questions; without it every node with room will do.
	Callbacks *Callbacks

	// Waiting is how many items may wait to be sent before a call has to wait; 100,000 if zero.
	Waiting int
	// Pause is how long to wait after the first break, and MaxPause after many: each time 1.6 times
	// as long, a fifth more or less. One second and thirty if zero.
	Pause, MaxPause time.Duration
	// Broken is told why streams ended, when the client is going to come back.
	Broken func(error)
}

// Client speaks for one RM. Its methods can be called at the same time, and before Run.
type Client struct {
	config  Config
	conn    *grpc.ClientConn
	outbox  *outbox
	inbox   *inbox
	session string
	// name and attempt tell the scheduler what is left of a connection that broke: it may come late,
	// and changes nothing then.
	name    uint64
	attempt uint64
	// attaches is set until a session was lost.
	attaches bool
}

// New makes a client. It connects in Run.
func New(config Config) (*Client, error) {
	if config.RM == "" || config.State == nil || config.Handler == nil {
		return nil, errors.New("monoceros: Config needs RM, State and Handler")
	}
	if config.Waiting <= 0 {
		config.Waiting = 100_000
	}
	if config.Pause <= 0 {
		config.Pause = time.Second
	}
	if config.MaxPause < config.Pause {
		config.MaxPause = max(config.Pause, 30*time.Second)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: config.Pause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: config.MaxPause,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	conn, err := grpc.NewClient(config.Target, append(options, config.DialOptions...)...)
	if err != nil {
		return nil, err
	}
	return &Client{
		config:   config,
		conn:     conn,
		outbox:   newOutbox(config.Waiting),
		inbox:    newInbox(config.Handler),
		name:     rand.Uint64(),
		attaches: config.Attach,
	}, nil
}

// Conn is the connection, for calls of other services.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Nodes says that nodes come, change or go.
func (c *Client) Nodes(ctx context.Context, nodes ...*si.NodeInfo) error {
	return say(ctx, c, nodes, nodeItem)
}

// AddApplications submits applications.
func (c *Client) AddApplications(ctx context.Context, added ...*si.AddApplicationRequest) error {
	return say(ctx, c, added, applicationItem)
}

// RemoveApplications ends applications.
func (c *Client) RemoveApplications(ctx context.Context, removed ...*si.RemoveApplicationRequest) error {
	return say(ctx, c, removed, removalItem)
}

// Allocate asks for allocations (without a node), changes their size, or reports what runs.
func (c *Client) Allocate(ctx context.Context, allocations ...*si.Allocation) error {
	return say(ctx, c, allocations, allocationItem)
}

// Release ends allocations and withdraws requests.
func (c *Client) Release(ctx context.Context, releases ...*si.AllocationRelease) error {
	return say(ctx, c, releases, releaseItem)
}

// say queues items, which then belong to the client. They take effect in the order of the calls. It
// waits while too much is waiting to be sent, and returns before anything is.
func say[T any](ctx context.Context, c *Client, said []T, as func(T) item) error {
	for _, one := range said {
		if err := c.outbox.add(ctx, as(one)); err != nil {
			return err
		}
	}
	return nil
}

// Flush waits until the scheduler has taken everything that was said before. It has then a place in
// the order of the scheduler, and is not decided yet. Where a session is begun anew meanwhile, State
// has said it.
func (c *Client) Flush(ctx context.Context) error { return c.outbox.flushed(ctx) }

// Run registers and speaks for the RM until ctx ends, or until coming back by itself would not help:
// then the error says why, and calls that say something return it, too. It is called once.
func (c *Client) Run(ctx context.Context) error {
	defer c.conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		c.inbox.run(ctx)
	}()
	err := c.keepSpeaking(ctx)
	// In this order: a handler may wait for room.
	c.outbox.end(err)
	cancel()
	<-handled
	return err
}

// keepSpeaking comes back after each break, for as long as that makes sense.
func (c *Client) keepSpeaking(ctx context.Context) error {
	pause := c.config.Pause
	for {
		began := time.Now()
		err := c.speak(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch judge(err) {
		case stop:
			return err
		case anew:
			c.session, c.attaches = "", false
		}
		if c.config.Broken != nil {
			c.config.Broken(err)
		}
		if time.Since(began) > time.Minute {
			pause = c.config.Pause
		}
		select {
		case <-time.After(time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(pause*16/10, c.config.MaxPause)
		c.conn.ResetConnectBackoff()
	}
}

// speak registers unless there is a session, and speaks on its streams until one of them ends.
func (c *Client) speak(ctx context.Context) error {
	c.attempt++
	if c.session == "" {
		if err := c.register(ctx); err != nil {
			return err
		}
	}
	return c.serve(ctx)
}
