package monoceros

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	mono "monoceros.io/clients/go/v1"
)

// leaveEvery is the pause before a deregistration is tried again.
const leaveEvery = 200 * time.Millisecond

// WaitRegistered blocks until the client is registered. A client is registered until its session is lost;
// after a restart of the scheduler the call blocks until the next registration. The error is that of ctx,
// joined with the last reason why the client could not register, or ErrEnded.
func (c *Client) WaitRegistered(ctx context.Context) error {
	_, err := c.life.wait(ctx)
	return err
}

// Deregister ends the session of this client: the scheduler forgets the nodes, applications and allocations
// of the RM, without a message about each. Run then returns nil. If items sent before must take effect,
// call Flush first. The reason, which may be empty, is for operators, and for another instance of the RM
// that comes later.
//
// Deregister blocks until the client is registered. If the scheduler refuses (PermissionDenied, by its
// access rules), the client continues. If the connection breaks meanwhile, the session may be over or not:
// the error says so, and the client does not register again if it is over. A second call is harmless then.
// In a cluster the client registers at another member when the owner is lost, and deregisters there. It tries
// again, until ctx ends, while a member cannot decide.
// If it has returned an error, the client ends without knowing whether it is registered when the owner is lost.
func (c *Client) Deregister(ctx context.Context, reason string) error {
	defer c.life.deregister()()
	for {
		session, err := c.life.wait(ctx)
		if err != nil {
			return c.leftOr(err)
		}
		number, err := sessionNumber(session)
		if err != nil {
			return err
		}
		c.life.leave(true)
		var trailer metadata.MD
		_, err = mono.NewAdminServiceClient(c.link).DeregisterResourceManager(ctx,
			&mono.DeregisterResourceManagerRequest{RmId: c.config.RM, SessionId: number, Reason: validText(reason)},
			grpc.Trailer(&trailer))
		if err == nil {
			c.life.stop()
			return nil
		}
		end := endOf(ctx, "deregister", err, trailer)
		isLost := false
		switch end.Status.Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			isLost = true
		default:
			c.life.leave(false)
		}
		if !mayLeaveLater(end, isLost && c.life.isInCluster()) || !sleep(ctx, c.clock, leaveEvery) {
			return c.leftOr(end)
		}
	}
}

// leftOr returns err, or nil if the session was deregistered: its streams ended first, and Run has closed the
// connection.
func (c *Client) leftOr(err error) error {
	if c.life.hasLeft() {
		return nil
	}
	return err
}

// mayLeaveLater reports whether a deregistration that was refused is tried again: a member could not decide, or
// the owner in a cluster was lost.
func mayLeaveLater(end *Error, isOwnerLost bool) bool {
	switch end.Reason {
	case "NOT_OWNER", "SESSION_MOVED":
		return true
	case "", "SHUTTING_DOWN":
		return isOwnerLost
	}
	return isPassing(end)
}

// Close ends the client without ending the session: the scheduler keeps it until session.pause_timeout has
// passed, and allocations keep running. Run then returns nil. A client that is never run needs Close, too.
func (c *Client) Close() error {
	if c.life.stop() {
		return nil
	}
	c.outbox.end(c.life.end(nil))
	return c.link.close()
}

// sessionNumber parses the number of a session, for messages that carry it as an integer.
func sessionNumber(session string) (uint64, error) {
	number, err := strconv.ParseUint(session, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("monoceros: the scheduler's session `%s` is no number: %w", short(session), err)
	}
	return number, nil
}
