package monoceros

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
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

// Handler receives the scheduler's answers and decisions. One method is called at a time, in the order of
// each stream, and the message is acknowledged when the method returns. After a restart of the scheduler,
// or of the program, messages may be repeated: an existing node or application is rejected with
// R_NODE_EXISTS or R_APP_EXISTS, and running allocations are repeated in `new`. Handling a message twice
// must change nothing.
//
// An item of the State that cannot be sent is rejected here, too, by the client itself: the reason ends in
// [C_TOO_LARGE] if it is larger than MaxMessage, or in [C_UNWRITABLE] if a text in it is not UTF-8.
type Handler interface {
	Nodes(*si.NodeResponse)
	Applications(*si.ApplicationResponse)
	Allocations(*si.AllocationResponse)
}

// Config has the settings of a client. Target, RM, Handler, and either State or Remember have to be set.
type Config struct {
	// Target is the address of the scheduler, as grpc.NewClient takes it.
	Target string
	// OtherAddresses are further addresses of the same scheduler, such as those of other members of its cluster.
	// The client learns the addresses of all members from the scheduler, so one that lives when the client
	// starts is enough.
	OtherAddresses []string
	// DialOptions are added to those of the client. Without any, the connection has no TLS.
	DialOptions []grpc.DialOption

	// RM is the id to register as. Instance names this process among several of the RM.
	RM, Instance string
	// These are the fields of a registration; Queues is YAML.
	PolicyGroup, Queues, Version string
	ExtraConfig, BuildInfo       map[string]string
	// Attach takes over the session of another instance, if there is one. Then State is not called, and the
	// messages that the other instance has not acknowledged are received. It needs an Instance, because the
	// scheduler could not distinguish two instances without a name. In a cluster the session of the other
	// instance ends, and State is called.
	Attach bool

	// State returns the full state of the RM. Items sent before the call of State must be in it and are not
	// sent again, so the program has to change its own state before it calls Nodes, Allocate and the like.
	// Items sent while State runs are queued behind the state. An error, or neither state nor error, ends Run
	// with ErrState.
	State func(context.Context) (*State, error)
	// Remember makes the client keep the state, in place of State: all items sent through it and their
	// outcomes. The first session begins with the items sent before Run, usually none. It is for programs that
	// send changes and cannot list their state. It needs the memory of a copy of each item, and ids have to be
	// unique over the partitions of the RM.
	Remember bool
	// Handler receives the answers.
	Handler Handler
	// Callbacks answers the scheduler's questions. Without it, every node with enough capacity is accepted.
	Callbacks *Callbacks

	// Registered is called after each registration, before anything else of the session: at the start, after a
	// restart of the scheduler, and whenever a session was lost. The state is queued by then. The session
	// continues when it returns.
	Registered func(Registration)
	// Broken receives the reason when the streams have ended or could not be opened and the client is going to
	// retry.
	Broken func(error)

	// Waiting is the number of items that may be queued before a call blocks; 100,000 if zero.
	Waiting int
	// MaxMessage is the largest request in bytes, at most grpc.max_recv_message_bytes of the scheduler and at
	// least 1,024. The default, used if zero, is 67,108,864 like there. A larger item is not sent (ItemError).
	// Requests of several items have one mebibyte at most.
	MaxMessage int
	// Pause is the pause after the first break, MaxPause the longest: each pause is 1.6 times the one before,
	// a fifth more or less. One second and thirty if zero.
	Pause, MaxPause time.Duration
}

// Registration is a new session, or one that continues with this instance.
type Registration struct {
	// Session is the number of the session.
	Session string
	// Scheduler identifies the run of the scheduler: another value means that it was restarted, or that
	// another member of its cluster serves the RM now.
	Scheduler string
	// Outcome is `new`, `replaced` (an earlier session of the RM has ended) or `attached` (Config.Attach:
	// the session of another instance goes on).
	Outcome string
}

// Client is the connection of one RM. Its methods can be called concurrently, and before Run.
type Client struct {
	config        Config
	clock         clock
	link          *link
	route         *route
	watch         *watch
	proof         func() string
	outbox        *outbox
	inbox         *inbox
	record        *record
	life          *life
	invalidations *invalidations
	session       string
	// lastSession is the number of the last session, also after its end.
	lastSession string
	// openSince is when the present attempt has opened streams; zero before.
	openSince time.Time
	// scheduler is the x-si-scheduler of the owner of the last session. suspect is the same while the owner
	// is silent and no member was told.
	scheduler, suspect string
	// shuffle brings the members except the owner into the order in which they are tried.
	shuffle func([]string)
	// name and attempt identify the connection, so that late calls of a broken one have no effect.
	name    uint64
	attempt uint64
	// attaches is true until a session was lost.
	attaches bool
	// lastEvent is the number of the last handled event of the session.
	lastEvent atomic.Uint64
	// away is the pause, in nanoseconds, that the scheduler requested when it ended the callback stream.
	away atomic.Int64
}

// New makes a client, which connects in Run. The error names the invalid field of config.
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
	options = append(options, config.DialOptions...)
	link, err := newLink(config.Target, options)
	if err != nil {
		return nil, fmt.Errorf("monoceros: Config.Target `%s`: %w", config.Target, err)
	}
	for _, target := range config.OtherAddresses {
		other, err := newLink(target, options)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("monoceros: Config.OtherAddresses `%s`: %w", target, err), link.close())
		}
		other.close()
	}
	proof, err := newProof()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("monoceros: no random bytes: %w", err), link.close())
	}
	return &Client{
		config:        config,
		clock:         monotonic{},
		link:          link,
		route:         newRoute(append([]string{config.Target}, config.OtherAddresses...)...),
		watch:         &watch{clock: monotonic{}},
		proof:         proof,
		shuffle:       shuffled,
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
	case isBlank(c.Target):
		return errors.New("monoceros: Config.Target is empty")
	case slices.ContainsFunc(c.OtherAddresses, isBlank):
		return errors.New("monoceros: Config.OtherAddresses has an empty address")
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

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// isPrintable reports whether a text can be a metadata value.
func isPrintable(text string) bool {
	for at := 0; at < len(text); at++ {
		if text[at] < ' ' || text[at] > '~' {
			return false
		}
	}
	return true
}

// Conn returns the connection, for calls of other services, also before Run. It is closed when Run returns.
// In a cluster it leads to the member that serves the RM, and calls that are open when another member takes
// over are cancelled.
func (c *Client) Conn() grpc.ClientConnInterface { return c.link }

// Nodes reports new, changed or removed nodes. Like the other methods that send items, it returns once the
// items are queued, in the order of the calls, and blocks only while the queue is full. The items then
// belong to the client. A nil item is an error, and no item of the call is sent. An item that is too large
// or cannot be written is an ItemError, and all others are sent.
func (c *Client) Nodes(ctx context.Context, nodes ...*si.NodeInfo) error {
	return queue(ctx, c, "Nodes", nodes, nodeItem)
}

// AddApplications submits applications.
func (c *Client) AddApplications(ctx context.Context, added ...*si.AddApplicationRequest) error {
	return queue(ctx, c, "AddApplications", added, applicationItem)
}

// RemoveApplications ends applications.
func (c *Client) RemoveApplications(ctx context.Context, removed ...*si.RemoveApplicationRequest) error {
	return queue(ctx, c, "RemoveApplications", removed, removalItem)
}

// Allocate asks for allocations (without a node), changes their size, or reports running ones.
func (c *Client) Allocate(ctx context.Context, allocations ...*si.Allocation) error {
	return queue(ctx, c, "Allocate", allocations, allocationItem)
}

// Release ends allocations and withdraws asks.
func (c *Client) Release(ctx context.Context, releases ...*si.AllocationRelease) error {
	return queue(ctx, c, "Release", releases, releaseItem)
}

// queue queues items.
func queue[T interface {
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

// Flush waits until the scheduler has acknowledged every item sent before: the items are then ordered, but
// not yet decided. If a new session begins meanwhile, State has reported them.
func (c *Client) Flush(ctx context.Context) error { return c.outbox.flushed(ctx) }
