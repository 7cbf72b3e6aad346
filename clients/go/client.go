package monoceros

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

// Handler receives what the scheduler answers and decides. One method is called at a time, in the order
// of each stream, and the message is acknowledged when the method returns. After a restart of the
// scheduler, or of the program, messages may repeat what is known already: a node or application that
// is there is rejected with R_NODE_EXISTS or R_APP_EXISTS, and what runs is repeated in `new`. To handle
// them again must change nothing.
//
// An item of the State that cannot be sent is rejected here, too, by the client itself: the reason ends
// in [C_TOO_LARGE] if it is larger than MaxMessage, or in [C_UNWRITABLE] if a text in it is not UTF-8.
type Handler interface {
	Nodes(*si.NodeResponse)
	Applications(*si.ApplicationResponse)
	Allocations(*si.AllocationResponse)
}

// Config is what a client is made of. Target, RM, Handler, and either State or Remember have to be set.
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
	// Attach takes over the session of another instance, if there is one. Then State is not called, and
	// what the other instance has not acknowledged is received. It needs an Instance, since one without
	// a name could not be told from the one before.
	Attach bool

	// State returns all that the RM knows. What the program sends before State is called is in it, and
	// is not sent again; so the program has to change what it knows first and to call Nodes, Allocate
	// and the like then. What it sends while State runs comes after the state. An error of State, or no
	// state and no error, ends Run with ErrState.
	State func(context.Context) (*State, error)
	// Remember lets the client report, in place of State, what it has: what the program has sent by it
	// and what came of it. The first session begins with what was sent before Run, usually nothing. It
	// is for programs that send what changes and cannot list all they have; it takes the memory of a
	// copy of each item, and ids have to be unique over the partitions of the RM.
	Remember bool
	// Handler receives the answers.
	Handler Handler
	// Callbacks answers the scheduler's questions; without it every node with room will do.
	Callbacks *Callbacks

	// Registered is called after each registration, before anything else of the session: at the start,
	// after a restart of the scheduler, and whenever a session was lost. The state is queued by then. It
	// has to return before the session goes on.
	Registered func(Registration)
	// Broken is called with the reason when the streams have ended or could not be opened, and the
	// client is going to try again.
	Broken func(error)

	// Waiting is how many items may wait to be sent before a call has to wait; 100,000 if zero.
	Waiting int
	// MaxMessage is how many bytes a request may have: no more than grpc.max_recv_message_bytes of the
	// scheduler. 67,108,864 if zero, which is the default there; 1,024 at least. An item that is larger
	// is not sent (ItemError). Requests of several items have one mebibyte at most.
	MaxMessage int
	// Pause is how long to wait after the first break, and MaxPause after many: each time 1.6 times
	// as long, a fifth more or less. One second and thirty if zero.
	Pause, MaxPause time.Duration
}

// Registration is a session that begins, or that goes on with this instance.
type Registration struct {
	// Session is the number of the session.
	Session string
	// Scheduler names the run of the scheduler: another value means that it was restarted.
	Scheduler string
	// Outcome is `new`, `replaced` (an earlier session of the RM has ended) or `attached` (Config.Attach:
	// the session of another instance goes on).
	Outcome string
}

// Client is the connection of one RM. Its methods can be called at the same time, and before Run.
type Client struct {
	config        Config
	conn          *grpc.ClientConn
	outbox        *outbox
	inbox         *inbox
	record        *record
	life          *life
	invalidations *invalidations
	session       string
	// name and attempt tell the scheduler what is left of a connection that broke: it may come late,
	// and changes nothing then.
	name    uint64
	attempt uint64
	// attaches is set until a session was lost.
	attaches bool
	// lastEvent is the number of the last event of the session that was handled.
	lastEvent atomic.Uint64
	// away is how long the scheduler asked to stay away, when it ended the stream of callbacks.
	away atomic.Int64
}

// New makes a client, which connects in Run. The error names the field of config that is wrong.
func New(config Config) (*Client, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Callbacks != nil {
		own := *config.Callbacks
		config.Callbacks = &own
	}
	if config.Waiting <= 0 {
		config.Waiting = 100_000
	}
	if config.MaxMessage == 0 {
		config.MaxMessage = 64 << 20
	}
	if config.Pause <= 0 {
		config.Pause = time.Second
	}
	if config.MaxPause < config.Pause {
		config.MaxPause = max(config.Pause, 30*time.Second)
	}
	var record *record
	if config.Remember {
		record = newRecord()
		config.State, config.Handler = record.state, recording{record, config.Handler}
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
		return nil, fmt.Errorf("monoceros: Config.Target `%s`: %w", config.Target, err)
	}
	return &Client{
		config:        config,
		conn:          conn,
		outbox:        newOutbox(config.Waiting, min(batchBytes, config.MaxMessage)),
		inbox:         newInbox(config.Handler),
		record:        record,
		life:          newLife(),
		invalidations: newInvalidations(),
		name:          rand.Uint64(),
		attaches:      config.Attach,
	}, nil
}

func (c *Config) check() error {
	switch {
	case strings.TrimSpace(c.Target) == "":
		return errors.New("monoceros: Config.Target is empty")
	case c.RM == "":
		return errors.New("monoceros: Config.RM is empty")
	case !isPrintable(c.RM):
		return fmt.Errorf("monoceros: Config.RM is %q: only printable ASCII can be sent in metadata", short(c.RM))
	case !isPrintable(c.Instance):
		return fmt.Errorf("monoceros: Config.Instance is %q: only printable ASCII can be sent in metadata", short(c.Instance))
	case c.State == nil && !c.Remember:
		return errors.New("monoceros: Config.State is nil, and Remember is not set")
	case c.State != nil && c.Remember:
		return errors.New("monoceros: Config.State and Config.Remember are both set: which is to be reported?")
	case c.Attach && c.Remember:
		return errors.New("monoceros: Config.Remember knows nothing of the session that Attach takes over")
	case c.Handler == nil:
		return errors.New("monoceros: Config.Handler is nil")
	case c.Attach && c.Instance == "":
		return errors.New("monoceros: Config.Attach needs an Instance: one without a name replaces the session")
	case c.MaxMessage < 0 || c.MaxMessage > 0 && c.MaxMessage < 1024:
		return fmt.Errorf("monoceros: Config.MaxMessage is %d: 1024 bytes at least, or 0", c.MaxMessage)
	}
	registration := &si.RegisterResourceManagerRequest{
		Version: c.Version, PolicyGroup: c.PolicyGroup, BuildInfo: c.BuildInfo, Config: c.Queues,
		ExtraConfig: c.ExtraConfig,
	}
	if _, err := proto.Marshal(registration); err != nil {
		return fmt.Errorf("monoceros: Config cannot be written as a registration: %w", err)
	}
	if c.Callbacks != nil {
		if c.Callbacks.Take != nil && !c.Remember {
			return errors.New("monoceros: Callbacks.Take needs Config.Remember")
		}
		return c.Callbacks.check()
	}
	return nil
}

// isPrintable says whether a text can be the value of metadata.
func isPrintable(text string) bool {
	for at := 0; at < len(text); at++ {
		if text[at] < ' ' || text[at] > '~' {
			return false
		}
	}
	return true
}

// Conn is the connection, for calls of other services, also before Run. It is closed when Run returns.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Nodes reports nodes that come, change or go. Like the other methods that send something it returns
// once the items are queued, in the order of the calls, and waits only while too much is queued. The
// items then belong to the client. An item that is nil is an error, and nothing of the call is sent;
// an item that is too large or cannot be written is an ItemError, and all others are sent.
func (c *Client) Nodes(ctx context.Context, nodes ...*si.NodeInfo) error {
	return say(ctx, c, "Nodes", nodes, nodeItem)
}

// AddApplications submits applications.
func (c *Client) AddApplications(ctx context.Context, added ...*si.AddApplicationRequest) error {
	return say(ctx, c, "AddApplications", added, applicationItem)
}

// RemoveApplications ends applications.
func (c *Client) RemoveApplications(ctx context.Context, removed ...*si.RemoveApplicationRequest) error {
	return say(ctx, c, "RemoveApplications", removed, removalItem)
}

// Allocate asks for allocations (without a node), changes their size, or reports what runs.
func (c *Client) Allocate(ctx context.Context, allocations ...*si.Allocation) error {
	return say(ctx, c, "Allocate", allocations, allocationItem)
}

// Release ends allocations and withdraws requests.
func (c *Client) Release(ctx context.Context, releases ...*si.AllocationRelease) error {
	return say(ctx, c, "Release", releases, releaseItem)
}

// say queues items.
func say[T interface {
	comparable
	proto.Message
}](ctx context.Context, c *Client, call string, said []T, as func(T) item) error {
	var none T
	for at, one := range said {
		if one == none {
			return fmt.Errorf("monoceros: item %d of %d of %s: %w; nothing of the call is sent", at+1, len(said), call, ErrNil)
		}
	}
	var refused []error
	for at, one := range said {
		it := as(one)
		if err := it.check(c.config.MaxMessage); err != nil {
			refused = append(refused, err)
			continue
		}
		if c.record != nil {
			c.record.sent(one)
		}
		if err := c.outbox.add(ctx, it); err != nil {
			if len(said) > 1 {
				err = fmt.Errorf("monoceros: %s: %d of %d items are dealt with: %w", call, at, len(said), err)
			}
			return errors.Join(append(refused, err)...)
		}
	}
	return errors.Join(refused...)
}

// Flush waits until the scheduler has taken everything that was sent before: it has a place in the
// order of the scheduler then, and is not decided yet. Where a session begins again meanwhile, State
// has reported it.
func (c *Client) Flush(ctx context.Context) error { return c.outbox.flushed(ctx) }

// Run registers and keeps the RM connected until ctx ends, Deregister or Close is called, or trying
// again by itself would not help. It is called once; a second call returns ErrRunning at once.
//
// It returns nil after Deregister and Close. When ctx has ended it returns the error of ctx, together
// with the last reason why it could not connect if it was not connected. Else the error is an *Error
// with the reason, or ErrState. Calls that send something return ErrEnded from then on.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.life.start(cancel); err != nil {
		return err
	}
	defer c.conn.Close()
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		c.inbox.run(ctx)
	}()
	err := c.stayConnected(ctx)
	// In this order: a handler may wait for room.
	c.outbox.end(c.life.end(err))
	cancel()
	<-handled
	return err
}

// stayConnected comes back after each break, for as long as that makes sense.
func (c *Client) stayConnected(ctx context.Context) error {
	pause := c.config.Pause
	for {
		began := time.Now()
		err := c.connect(ctx)
		if ctx.Err() != nil {
			return c.life.over(ctx, err)
		}
		c.life.broke(err)
		switch judge(err) {
		case stop:
			if isDeregistered(err) && c.life.gone() {
				return nil
			}
			return err
		case anew:
			if c.life.gone() {
				return nil
			}
			c.session, c.attaches = "", false
			c.lastEvent.Store(0)
		}
		if c.config.Broken != nil {
			c.config.Broken(err)
		}
		if time.Since(began) > time.Minute {
			pause = c.config.Pause
		}
		wait := time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
		timer := time.NewTimer(max(wait, time.Duration(c.away.Swap(0))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return c.life.over(ctx, err)
		}
		pause = min(pause*16/10, c.config.MaxPause)
		c.conn.ResetConnectBackoff()
	}
}

// connect registers unless there is a session, and keeps its streams until one of them ends.
func (c *Client) connect(ctx context.Context) error {
	c.attempt++
	if c.session == "" {
		if err := c.register(ctx); err != nil {
			return err
		}
	}
	return c.serve(ctx)
}
