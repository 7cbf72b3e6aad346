package monoceros

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mono "monoceros.io/clients/go/v1"
)

// WaitRegistered returns once the client is registered, which it is from the registration until the
// session is lost. While a scheduler that was restarted has not registered the client again, it waits.
// The error is that of ctx, with the last reason why the client could not register, or ErrEnded.
func (c *Client) WaitRegistered(ctx context.Context) error {
	_, err := c.life.wait(ctx)
	return err
}

// Deregister ends the session of this client: the scheduler forgets the nodes, applications and
// allocations of the RM, without a message about each. Run then returns nil. Where something was sent
// that is to take effect before, call Flush first. The reason, which may be empty, is for operators,
// and for another instance of the RM that comes later.
//
// It waits until the client is registered. If the scheduler refuses (PermissionDenied, by its rules for
// who may do what), the client goes on. If the connection breaks meanwhile, the session may be over or
// not: the error says so, and the client does not register again if it is. To call it once more is
// harmless then.
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
	_, err = mono.NewAdminServiceClient(c.conn).DeregisterResourceManager(ctx,
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

// Close ends the client and leaves the session: the scheduler keeps it until session.pause_timeout has
// passed, and what runs goes on. Run then returns nil. A client that is never run needs Close, too.
func (c *Client) Close() error {
	if c.life.stop() {
		return nil
	}
	c.outbox.end(c.life.end(nil))
	return c.conn.Close()
}

// sessionNumber is the number of a session, where a message wants it as one.
func sessionNumber(session string) (uint64, error) {
	number, err := strconv.ParseUint(session, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("monoceros: the scheduler's session `%s` is no number: %w", short(session), err)
	}
	return number, nil
}
