// Package monoceros is a client of the scheduler for resource managers (RMs).
//
// An RM reports its nodes and applications, asks for allocations, and receives their nodes. Requests are
// numbered and kept until the scheduler acknowledges them; answers are acknowledged. So a broken connection
// neither loses nor repeats any. After a restart of the scheduler the client registers again and reports
// the state, which it gets from the program ([Config.State]) or has kept ([Config.Remember]). If the scheduler
// is a cluster, another member may serve the RM then.
//
//	client, err := monoceros.New(monoceros.Config{
//		Target: "127.0.0.1:50051", RM: "cluster-1", State: state, Handler: handler,
//	})
//	go client.Nodes(ctx, node)
//	err = client.Run(ctx)
//
// # Files
//
// client.go has the settings and the calls of the program; reconnect.go the loop that reconnects, route.go
// the address that comes next, silence.go the rule by which a silent member is given up, link.go the
// connection, clock.go the time; life.go the phases of a client and the calls that wait for them; leave.go
// the calls that end it; session.go the registration and the streams of a session; outbox.go the
// queued requests and their numbers; inbox.go the received messages; state.go the report of the full state;
// record.go the state that the client keeps; callbacks.go the program's functions for the callback stream,
// attach.go that stream, invalidate.go the invalidation of earlier answers; errors.go the errors, and how
// the client continues after the end of a stream. The packages below hold the stubs, which a program may
// use by themselves.
package monoceros
