package monoceros

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// link is the connection to the present address. It can be used concurrently; calls that are open when the
// address changes are cancelled.
type link struct {
	options []grpc.DialOption

	mu      sync.Mutex
	address string
	conn    *grpc.ClientConn
	closed  bool
}

// newLink makes a link that connects when it is used.
func newLink(address string, options []grpc.DialOption) (*link, error) {
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return nil, err
	}
	return &link{options: options, address: address, conn: conn}, nil
}

// Invoke implements grpc.ClientConnInterface.
func (l *link) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return l.current().Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (l *link) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return l.current().NewStream(ctx, desc, method, opts...)
}

func (l *link) current() *grpc.ClientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// to changes the address, and with it the connection.
func (l *link) to(address string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || address == l.address {
		return nil
	}
	conn, err := grpc.NewClient(address, l.options...)
	if err != nil {
		return err
	}
	l.conn.Close()
	l.address, l.conn = address, conn
	return nil
}

// connected waits until the connection is made or has failed, in which case calls say why. It returns false
// if ctx ends before that.
func (l *link) connected(ctx context.Context) bool {
	conn := l.current()
	conn.Connect()
	for {
		switch state := conn.GetState(); state {
		case connectivity.Ready, connectivity.TransientFailure, connectivity.Shutdown:
			return true
		default:
			if !conn.WaitForStateChange(ctx, state) {
				return false
			}
		}
	}
}

// close ends all calls.
func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.conn.Close()
}
