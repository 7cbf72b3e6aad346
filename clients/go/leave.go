package monoceros

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mono "monoceros.io/clients/go/v1"
)

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
// In a cluster the client then ends without knowing it.
func (c *Client) Deregister(ctx context.Context, reason string) error {
	session, err := c.life.wait(ctx)
	if err != nil {
		return err
	}
	number, err := sessionNumber(session)
	if err != nil {
		return err
	}
	c.life.leave(true)
	_, err = mono.NewAdminServiceClient(c.link).DeregisterResourceManager(ctx,
		&mono.DeregisterResourceManagerRequest{RmId: c.config.RM, SessionId: number, Reason: validText(reason)})
	if err != nil {
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			if c.life.hasLeft() {
				// The streams ended first, and Run has closed the connection.
				return nil
			}
		default:
			c.life.leave(false)
		}
		return endOf(ctx, "deregister", err, nil)
	}
	c.life.stop()
	return nil
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
