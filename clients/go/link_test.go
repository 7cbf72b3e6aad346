package monoceros

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	mono "monoceros.io/clients/go/v1"
)

func TestAnotherAddressIsAnotherConnection(t *testing.T) {
	client := made(t, valid())
	link := client.link
	before := link.current()
	if err := link.to(link.address); err != nil || link.current() != before {
		t.Errorf("the connection is replaced: %v", err)
	}
	if err := link.to("127.0.0.1:2"); err != nil || link.current() == before {
		t.Errorf("the connection is kept: %v", err)
	}
	if state := before.GetState(); state != connectivity.Shutdown {
		t.Errorf("the earlier connection is %v", state)
	}
	if err := link.to("dns://%zz/"); err == nil || link.current().GetState() == connectivity.Shutdown {
		t.Errorf("an address that gRPC refuses ends the connection: %v", err)
	}
	client.Close()
	after := link.current()
	if err := link.to("127.0.0.1:3"); err != nil || link.current() != after {
		t.Errorf("a closed client connects again: %v", err)
	}
}

func TestOtherCallsFollowTheOwner(t *testing.T) {
	m := newMembers(t, 2)
	m.run(m.targets(), unchanged)
	m.serves(m.all[0])
	admin := mono.NewAdminServiceClient(m.client.Conn())
	m.settle()
	m.kill(m.all[0])
	m.serves(m.all[1])
	// The fake has no such service, so an answer shows that the call has arrived.
	_, err := admin.ListSessions(context.Background(), &mono.ListSessionsRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}
