// Package monoceros is a client of the scheduler for resource managers (RMs).
//
// An RM reports which nodes it has and which applications, asks for allocations, and learns where they
// are to run. Requests are numbered and kept until the scheduler has taken them; answers are
// acknowledged. So a broken connection loses nothing and doubles nothing, and when the scheduler itself
// was restarted the client registers again and reports everything, which it asks of the program
// ([Config.State]) or has kept ([Config.Remember]).
//
//	client, err := monoceros.New(monoceros.Config{
//		Target: "127.0.0.1:50051", RM: "cluster-1", State: state, Handler: handler,
//	})
//	go client.Nodes(ctx, node)
//	err = client.Run(ctx)
//
// # What is where
//
// client.go has the settings and the loop that connects again; life.go how far a client has come, for
// those who wait for it; leave.go the calls that end it; session.go one session's streams; outbox.go the
// requests that wait to be sent, and their numbers; inbox.go the answers; state.go how everything is
// reported again; record.go the state that the client keeps; callbacks.go what the scheduler may ask,
// attach.go the stream on which it does, invalidate.go what the program says first there; errors.go the
// errors, and what the end of a stream means. The packages below hold the stubs, which a program may use
// by themselves.
package monoceros
