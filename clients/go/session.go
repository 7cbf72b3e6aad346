package monoceros

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
	scheduler "monoceros.io/clients/go/si/v1/scheduler"
)

// ackEvery is the interval between acknowledgements of messages that were handled.
const ackEvery = 100 * time.Millisecond

// register opens a session, to which the full state is reported, or takes over one.
func (c *Client) register(ctx context.Context) error {
	call, release := within(c.outgoing(ctx), c.clock, c.route.patience(shortAnswer, longAnswer))
	defer release()
	call = metadata.AppendToOutgoingContext(call, "x-si-proof", c.proof())
	for key, value := range map[string]string{"x-si-session": c.lastSession, "x-si-suspects": c.suspect} {
		if value != "" {
			call = metadata.AppendToOutgoingContext(call, key, value)
		}
	}
	if c.attaches {
		call = metadata.AppendToOutgoingContext(call, "x-si-register-mode", "attach")
	}
	var header, trailer metadata.MD
	_, err := scheduler.NewSchedulerClient(c.link).RegisterResourceManager(call,
		&si.RegisterResourceManagerRequest{
			RmID: c.config.RM, Version: c.config.Version, PolicyGroup: c.config.PolicyGroup,
			BuildInfo: c.config.BuildInfo, Config: c.config.Queues, ExtraConfig: c.config.ExtraConfig,
		}, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		return endOf(call, "register", err, trailer)
	}
	registration := Registration{
		Session: first(header, "x-si-session"), Scheduler: first(header, "x-si-scheduler"),
		Outcome: first(header, "x-si-registered"),
	}
	if registration.Outcome == "attached" {
		taken, err := strconv.ParseUint(first(header, "x-si-taken-seq"), 10, 64)
		if err != nil {
			return errNumbers
		}
		c.outbox.attach(taken)
	} else if err := c.report(ctx); err != nil {
		return err
	}
	c.route.registered(first(header, "x-si-members"), c.shuffle)
	c.session, c.lastSession = registration.Session, registration.Session
	c.scheduler, c.suspect = registration.Scheduler, ""
	c.life.registered(c.session, c.route.isCluster())
	if c.config.Registered != nil {
		c.config.Registered(registration)
	}
	return nil
}

// report queues the state of the RM, in place of all requests made before.
func (c *Client) report(ctx context.Context) error {
	// In this order: begin first releases callers that are blocked by the outbox, which a handler may be.
	c.outbox.begin()
	if err := c.inbox.begin(ctx); err != nil {
		return err
	}
	// Items sent up to here are in the state.
	c.outbox.begin()
	state, err := c.config.State(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	items, refused, err := state.items(c.config.MaxMessage)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	for _, reply := range refused {
		if err := c.inbox.put(ctx, delivery{message: reply}); err != nil {
			return err
		}
	}
	c.outbox.proceed(items)
	return nil
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// outgoing adds the number of the attempt, the instance, and whether members may name the owner to the
// metadata of a call.
func (c *Client) outgoing(ctx context.Context) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "x-si-attempt", fmt.Sprintf("%016x.%d", c.name, c.attempt))
	if c.route.asksForRedirects() {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-si-redirect", "yes")
	}
	if c.config.Instance == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "x-si-instance", c.config.Instance)
}

// serve opens the streams of the session. It returns when all have ended, with the reason of the first end.
func (c *Client) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	// The first end is the cause of the others.
	ends := make(chan error, 1)
	task := func(run func(context.Context) error) {
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			select {
			case ends <- run(ctx):
			default:
			}
		}()
	}
	if c.config.Callbacks != nil {
		var a *attachment
		err := c.inTime(ctx, cancel, func() (err error) {
			a, err = c.attach(ctx)
			return err
		})
		if err != nil {
			return err
		}
		for _, run := range a.begin() {
			task(run)
		}
	}
	var streams [kinds]grpc.ClientStream
	var distance time.Duration
	err := c.inTime(ctx, cancel, func() (err error) {
		streams, distance, err = c.open(ctx)
		return err
	})
	if err != nil {
		return err
	}
	c.openSince = c.clock.now()
	c.life.connected()
	if c.watch.begin(distance) {
		task(c.watch.run)
	}
	for k := range streams {
		k := kind(k)
		task(func(ctx context.Context) error { return c.receive(ctx, k, streams[k]) })
	}
	task(func(ctx context.Context) error { return c.send(ctx, streams) })
	// The end of one stream ends the others, and each has a reason.
	return <-ends
}

// inTime calls open, which has to return in time if there are other addresses. Otherwise the session is
// cancelled: a member that has just registered the RM may be lost before it sends a beat.
func (c *Client) inTime(ctx context.Context, cancel context.CancelCauseFunc, open func() error) error {
	if !c.route.hasSeveral() {
		return open()
	}
	limit := c.route.patience(shortAnswer, longAnswer)
	late, stop := c.clock.after(limit)
	done := make(chan struct{})
	go func() {
		defer stop()
		select {
		case <-late:
			cancel(fmt.Errorf("%w: streams were not open within %v", ErrSilent, limit))
		case <-done:
		case <-ctx.Done():
		}
	}()
	err := open()
	close(done)
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		return cause
	}
	return err
}

// open opens the streams of the session. It returns the distance of the owner's beats, zero if there are
// none.
func (c *Client) open(ctx context.Context) (streams [kinds]grpc.ClientStream, distance time.Duration, err error) {
	client := scheduler.NewSchedulerClient(c.link)
	for k := kind(0); k < kinds; k++ {
		bound := metadata.AppendToOutgoingContext(c.outgoing(ctx), "x-si-rm-id", c.config.RM,
			"x-si-session", c.session,
			"x-si-resume", strconv.FormatUint(c.inbox.resume(k), 10),
			"x-si-client-seq", strconv.FormatUint(c.outbox.known(), 10))
		switch k {
		case nodes:
			streams[k], err = client.UpdateNode(bound)
		case applications:
			streams[k], err = client.UpdateApplication(bound)
		case allocations:
			streams[k], err = client.UpdateAllocation(metadata.AppendToOutgoingContext(bound, "x-si-beat", "yes"))
		}
		if err != nil {
			return streams, 0, endOf(ctx, k.String()+" stream", err, nil)
		}
	}
	for k, stream := range streams {
		header, err := c.opened(ctx, kind(k), stream)
		if err != nil {
			return streams, 0, err
		}
		if kind(k) == allocations {
			distance = beatOf(header)
		}
	}
	return streams, distance, nil
}

// beatOf reads the distance of beats, which is in milliseconds; zero if the owner sends none.
func beatOf(header metadata.MD) time.Duration {
	ms, err := strconv.ParseUint(first(header, "x-si-beat"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// opened reads the headers of a stream, which have the number of the last acknowledged request.
func (c *Client) opened(ctx context.Context, k kind, stream grpc.ClientStream) (metadata.MD, error) {
	header, err := stream.Header()
	if err == nil && header == nil {
		// It ended at once; the status says why.
		err = stream.RecvMsg(&si.NodeResponse{})
	}
	if err != nil {
		end := endOf(ctx, k.String()+" stream", err, stream.Trailer())
		if end.Reason == "SEQUENCE_GAP" {
			// The scheduler has lost requests that it had acknowledged.
			return nil, fmt.Errorf("%w: %w", errVoid, end)
		}
		return nil, end
	}
	taken, err := strconv.ParseUint(first(header, "x-si-taken-seq"), 10, 64)
	if err != nil {
		return nil, errNumbers
	}
	return header, c.taken(taken)
}

func (c *Client) taken(number uint64) error {
	if !c.outbox.took(number) {
		return errVoid
	}
	return nil
}

// receive reads one stream, and queues its messages for the handler.
func (c *Client) receive(ctx context.Context, k kind, stream grpc.ClientStream) error {
	for {
		var reply interface {
			proto.Message
			GetSeq() uint64
			GetTakenSeq() uint64
		}
		switch k {
		case nodes:
			reply = &si.NodeResponse{}
		case applications:
			reply = &si.ApplicationResponse{}
		default:
			reply = &si.AllocationResponse{}
		}
		if k == allocations {
			c.watch.record((*silence).read)
		}
		if err := stream.RecvMsg(reply); err != nil {
			return endOf(ctx, k.String()+" stream", err, stream.Trailer())
		}
		if k == allocations {
			c.watch.record((*silence).beat)
		} else {
			c.watch.record((*silence).received)
		}
		if err := c.taken(reply.GetTakenSeq()); err != nil {
			return err
		}
		// A message without a number carries an acknowledgement only.
		if seq := reply.GetSeq(); seq != 0 {
			if err := c.inbox.put(ctx, delivery{kind: k, seq: seq, message: reply}); err != nil {
				return err
			}
		}
	}
}

// send writes the outbox in order, starting with the first request that was not acknowledged, and
// interleaves acknowledgements of received messages.
func (c *Client) send(ctx context.Context, streams [kinds]grpc.ClientStream) error {
	var acked [kinds]uint64
	next := time.Now().Add(ackEvery)
	for sent := c.outbox.known(); ; {
		r, err := c.outbox.next(ctx, sent, next)
		if err != nil {
			return err
		}
		if r != nil {
			if err := streams[r.kind].SendMsg(r.message); err != nil {
				return c.unsent(ctx)
			}
			sent = r.number
		}
		if time.Now().Before(next) {
			continue
		}
		for k := kind(0); k < kinds; k++ {
			if seq := c.inbox.acknowledged(k); seq > acked[k] {
				acked[k] = seq
				if err := streams[k].SendMsg(acknowledgement(k, seq)); err != nil {
					return c.unsent(ctx)
				}
			}
		}
		next = time.Now().Add(ackEvery)
	}
}

// unsent waits for the reader of a stream that cannot send any more; the reader returns the reason.
func (c *Client) unsent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func acknowledgement(k kind, seq uint64) proto.Message {
	switch k {
	case nodes:
		return &si.NodeRequest{AckSeq: seq}
	case applications:
		return &si.ApplicationRequest{AckSeq: seq}
	default:
		return &si.AllocationRequest{AckSeq: seq}
	}
}
